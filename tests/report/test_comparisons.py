"""`tellapart compare`: which models of the folders it takes, and what it prints of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from facts import check_facts, raises
from tellapart.benchmarks.arguments import load_pairs
from tellapart.errors import RunError
from tellapart.evaluation.compare import Comparison, MetricComparison
from tellapart.evaluation.systems import choose_models
from tellapart.report.printing import print_comparison
from tellapart.stats.multiple import holm
from tellapart.stats.power import power_of_difference

Make = Callable[..., Path]


@pytest.fixture
def measure(command: Callable[..., Any], made_set: Make, installed: Path) -> Callable[..., None]:
    """Run models on a pair set: `measure("out", "colours", "random", n=30, clusters=None)`."""

    sets: dict[str, Path] = {}

    def run(out: str, *models: str, **plan: Any) -> None:
        kind = "-".join(map(str, plan.values()))
        if kind not in sets:
            sets[kind] = made_set(kind, **plan)
        name = f"folder:{sets[kind]}"
        named = [part for model in models for part in ("-m", model)]
        ran = command("run", *named, "-b", name, "--out", out, "--no-cache")
        assert ran.code == 0, ran.err

    return run


@pytest.mark.slow
def test_all_models_of_a_run_are_compared_each_with_each(command, measure) -> None:
    measure("many", "colours", "demo-encoder", "probable", n=30)
    found = command("compare", "many", "--json").json
    assert found["models"] == ["colours", "demo-encoder", "probable"]
    assert [(pair["a"], pair["b"]) for pair in found["pairs"]] == [
        ("colours", "demo-encoder"),
        ("colours", "probable"),
        ("demo-encoder", "probable"),
    ]
    rows = [row for pair in found["pairs"] for row in pair["rows"]]
    assert [row["p_holm"] for row in rows] == holm([row["p"] for row in rows]).tolist()
    printed = command("compare", "many").out
    assert printed.startswith("3 models: percent, 95% intervals\n")
    assert (
        "Holm over 12 tests" in printed and "tier: no model differs from its best, and all of later tiers do" in printed
    )
    (ranking,) = (one for one in found["tiers"] if one["metric"] == "group_score")
    ranked = [name for tier in ranking["tiers"] for name in tier["names"]]
    shown = [words[1] for line in printed.splitlines() if len(words := line.split()) > 7 and words[1] in ranked]
    assert shown == ranked
    for pair, label in zip(found["pairs"], ("2 - 1", "3 - 1", "3 - 2"), strict=True):
        lines = [line for line in printed.splitlines() if line.startswith(label)]
        assert all(f"{100 * row['difference']:+.2f} [" in line for row, line in zip(pair["rows"], lines, strict=True))
    assert max(map(len, printed.splitlines())) <= 120


def test_with_a_baseline_a_row_is_a_model_and_there_are_no_tiers(command, measure) -> None:
    measure("many", "colours", "demo-encoder", "probable", n=30)
    printed = command("compare", "many", "--baseline", "probable").out
    assert printed.startswith("3 models, each (b) with probable (a): percent, 95% intervals\n")
    assert (
        sum(
            line.startswith(("colours ", "demo-encoder "))
            for line in printed.splitlines()
            if " of 30 items" not in line
        )
        == 8
    )
    assert "tier" not in printed and "Holm over 8 tests" in printed


@pytest.mark.slow
def test_reference_models_are_compared_where_their_folder_or_the_baseline_names_them(command, measure) -> None:
    measure("run", "colours", "random", "constant", n=30)
    left_out = "not compared, reference models beside a run (name their folders to compare them): "
    named = command("compare", "run", "run/beside/random")
    assert named.out.startswith("a = colours, b = random:") and f"{left_out}constant\n" in named.out
    against = command("compare", "run", "--baseline", "constant")
    assert against.out.startswith("a = constant, b = colours:") and f"{left_out}random\n" in against.out
    alone = command("compare", "run")
    assert alone.code == 2
    check_facts(alone.err, "error", "run", "colours", "random, constant", "--baseline")
    measure("other", "demo-encoder", n=30)
    third = command("compare", "run", "other", "run/beside/constant")
    assert third.out.startswith("3 models:") and f"{left_out}random" in third.out.splitlines()


@pytest.mark.slow
def test_a_baseline_that_is_not_there_or_is_several_runs_is_said(command, measure) -> None:
    measure("a", "colours", "demo-encoder", n=30)
    measure("b", "colours", n=30)
    with raises(RunError, "baseline=", "model", "gone"):
        choose_models([Path("a")], "gone")
    with raises(RunError, "baseline=", "2", "model", "1"):
        choose_models([Path("a"), Path("b")], "colours")
    chosen = choose_models([Path("a"), Path("b")], "colours (run 2)")
    (baseline,) = (run for run in chosen.runs if run.label == chosen.baseline)
    assert {*baseline.folders.values()} == {Path("b")}
    with raises(RunError, "b", "b", "model"):
        choose_models([Path("b"), Path("b")], two=True)


@pytest.mark.slow
def test_by_tag_two_models_have_a_row_a_value_and_more_have_a_table_a_value(command, measure) -> None:
    measure("many", "colours", "demo-encoder", "probable", n=30)
    printed = command("compare", "many", "--by", "type").out
    titles = [line for line in printed.splitlines() if ": group_score" in line]
    assert [title.split("group_score")[1] for title in titles] == [
        " (30 items)",
        ", type = add (10 items)",
        ", type = replace (10 items)",
        ", type = swap (10 items)",
    ]
    assert "Holm over 48 tests" in printed
    two = command("compare", "many", "--baseline", "demo-encoder", "--by", "type", "--json").json
    assert len(two["pairs"]) == 2
    measure("one", "colours", n=30)
    measure("other", "demo-encoder", n=30)
    shown = command("compare", "one", "other", "--by", "type").out
    assert [
        line.split()[0] for line in shown.splitlines() if line.startswith(("all items", "add", "replace", "swap"))
    ] == ["all", "add", "replace", "swap"] * 4


@pytest.mark.slow
def test_a_p_at_the_floor_of_ten_thousand_flips_is_a_bound(command, measure) -> None:
    measure("run", "oracle", "random", n=60, clusters=30)
    ran = command("compare", "run", "run/beside/random", "--json").json["rows"]
    assert [row["p"] for row in ran] == [1 / 10_001] * 4 and {row["flips"] for row in ran} == {10_000}
    printed = command("compare", "run", "run/beside/random").out
    (line,) = (line for line in printed.splitlines() if line.startswith("group_score"))
    assert "<= 0.0001   <= 0.0004" in line
    assert "<=: none of 10,000 sign flips was as extreme\n" in printed
    # A p that draws could have made smaller is no bound, nor is an exact one.
    measure("few", "oracle", "random", n=24, clusters=12)
    assert "<=" not in command("compare", "few", "few/beside/random").out


def test_a_missing_detectable_difference_has_its_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import tellapart as ta

    (tmp_path / "ids.txt").write_text("\n".join(f"attribute-{number:03d}" for number in range(40)))
    for name, model in (("a", "oracle"), ("b", "bag-of-words")):
        ta.evaluate(model, "demo", items=tmp_path / "ids.txt", out=tmp_path / name)
    for name, model in (("c", "random"), ("d", "constant")):
        ta.evaluate(model, "demo", limit=6, out=tmp_path / name)
    ta.compare(tmp_path / "a", tmp_path / "b").show()
    assert "agree on every item" in capsys.readouterr().out
    ta.compare(tmp_path / "c", tmp_path / "d").show()
    said = " ".join(capsys.readouterr().out.split())
    assert "detectable -:" in said and "so few items" in said


def test_a_difference_that_was_not_seen_has_the_items_that_would_show_it(capsys: pytest.CaptureFixture[str]) -> None:
    row = MetricComparison(
        benchmark="demo", metric="text_score", n=400, a=0.3, b=0.275, difference=-0.025, low=-0.07, high=0.02,
        method="m", only_a=50, only_b=40, p=0.34, p_holm=0.68, test="exact McNemar", detectable=0.07,
    )  # fmt: skip
    others = {"seen": {"p_holm": 0.03}, "equal": {"only_a": 45, "only_b": 45}, "tiny": {"only_a": 151, "only_b": 150}}
    rows = [row, *(row.model_copy(update={"metric": name, **change}) for name, change in others.items())]
    print_comparison(Comparison(a="a", b="b", rows=tuple(rows)))
    last = capsys.readouterr().out.splitlines()[-1]
    found = re.search(r"text_score ([\d,]+), tiny over 100,000$", last)
    assert found and "seen" not in last and "equal" not in last
    needed = int(found[1].replace(",", ""))
    assert power_of_difference(0.025, needed, 0.225, alpha=0.05 / 4) >= 0.8
    assert power_of_difference(0.025, needed - 50, 0.225, alpha=0.05 / 4) < 0.8


def test_items_before_a_limit_stand_beside_the_numbers(command) -> None:
    for name in ("blind", "random"):
        assert command("run", "-m", name, "-b", "demo", "--limit", "12", "--out", name, "--no-cache").code == 0
    shown = command("compare", "blind", "random")
    (whole,) = {row["limited_from"] for row in command("compare", "blind", "random", "--json").json["rows"]}
    assert whole == len(load_pairs("demo")) and f"12 of {whole} items" in shown.out
    assert f"12 of {whole}" in command("compare", "blind", "random", "--gate").out
