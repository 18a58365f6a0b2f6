"""The gate: what stops it, what passes, what it says it could have seen, and how it is printed."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from runs import measured, score_file

from facts import check_facts, raises
from published import winoground
from sets import write_set
from tellapart.errors import RunError
from tellapart.evaluation.compare import GateResult, GateRow, compare, regression_gate
from tellapart.evaluation.run import run_scores
from tellapart.report.printing import gate_markdown, headline_of
from tellapart.stats.multiple import holm

BENCH = Path(__file__).parents[2] / "bench"


def scored(folder: Path, out: Path, wrong: tuple[int, ...], *, n: int, name: str = "model") -> Path:
    """A run of score files: all items right, but for these, on which both texts fit the first image better."""
    scores = {f"item-{k}": [[1, 1], [0, 0]] if k in wrong else [[1, 0], [0, 1]] for k in range(n)}
    out.parent.mkdir(exist_ok=True)
    file = score_file(out.parent / f"{out.name}.csv", scores)
    return run_scores({f"folder:{folder}": file}, out, name=name)


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, Path]:
    """Runs on one set of 60 items: of score files by how many are wrong, of one constant and of two random models."""
    folder = tmp_path_factory.mktemp("gate")
    pairs = write_set(folder / "set", n=60)
    made = {f"{n} wrong": scored(pairs, folder / str(n), tuple(range(n)), n=60) for n in (0, 3, 20, 60)}
    made |= {f"random {k}": measured(folder / f"random-{k}", "random", pairs, seed=k) for k in (1, 2)}
    return made | {"constant": measured(folder / "constant", "constant", pairs)}


def test_a_significant_fall_stops_and_its_reverse_is_an_improvement(runs):
    found, back = regression_gate(runs["0 wrong"], runs["20 wrong"]), regression_gate(runs["20 wrong"], runs["0 wrong"])
    assert not found.passed and back.passed
    assert [row.verdict for row in found.rows if row.metric == "group_score"] == ["regression"]
    assert [row.verdict for row in back.rows if row.metric == "group_score"] == ["improvement"]
    assert headline_of(back).startswith("the gate passes: no regression in 4 headlines of 1 benchmark, ")


@pytest.mark.slow
def test_its_p_are_those_of_compare_and_the_change_is_new_minus_base(made_set, tmp_path):
    sets = made_set("first", n=40), made_set("second", n=40, clusters=15)
    base, new = (measured(tmp_path / f"r{seed}", "random", *sets, seed=seed) for seed in (1, 2))
    found, known = regression_gate(base, new), compare(base, new)
    assert [row.p_holm for row in found.rows] == [row.p_holm for row in known.rows]
    assert [row.p_holm for row in found.rows] == pytest.approx(list(holm([row.p for row in known.rows])))
    for row, other in zip(found.rows, known.rows, strict=True):
        assert row.change == pytest.approx(row.new - row.base)
        assert (row.low, row.high) == (other.low, other.high)


def test_a_fall_beyond_the_limit_stops_without_being_significant(runs):
    base, new = runs["0 wrong"], runs["3 wrong"]
    assert regression_gate(base, new).passed
    found = regression_gate(base, new, max_drop=4.9)
    row = next(row for row in found.rows if row.metric == "group_score")
    assert not found.passed
    assert row.says == "regression: not significant, but beyond --max-drop 4.9"
    assert regression_gate(base, new, max_drop=5).passed  # a fall of exactly 5 points is allowed
    assert regression_gate(base, base, max_drop=0).passed and not regression_gate(base, new, max_drop=0).passed


def test_a_margin_passes_only_what_is_shown_to_fall_by_less(runs):
    base, new = runs["0 wrong"], runs["3 wrong"]
    plain = regression_gate(base, new)
    low = min(100 * row.low for row in plain.rows)
    assert plain.passed and -20 < low < -2
    # No difference is seen, and a fall of two points is not ruled out.
    tight, wide = regression_gate(base, new, margin=2), regression_gate(base, new, margin=-low + 0.01)
    assert wide.passed and not tight.passed
    (row,) = (row for row in tight.rows if row.metric == "group_score")
    assert row.verdict == "not within the margin" and row.fails
    check_facts(row.says, f"{100 * row.low:+.1f}", "--margin 2", "above -2")
    check_facts(headline_of(tight), f"{len(tight.rows)} out-of-margin headlines")
    check_facts(headline_of(wide), "passes", "by less than")
    # A fall that is significant stays a regression, whatever the margin.
    assert {row.verdict for row in regression_gate(base, runs["20 wrong"], margin=90).rows} >= {"regression"}
    with raises(RunError, "margin=-1", "0"):
        regression_gate(base, new, margin=-1)


def test_a_limit_within_the_noise_is_said_to_be(runs):
    base, new = runs["random 1"], runs["random 2"]
    found = regression_gate(base, new, max_drop=0.5)
    assert found.by_chance > 0.5
    assert "by chance alone it stops a model as good as the base" in gate_markdown(found)
    assert regression_gate(base, new, max_drop=60).by_chance < 0.001
    with raises(RunError, "max_drop=", "-1", "0", "100"):
        regression_gate(base, new, max_drop=-1)


def test_an_interval_without_0_beside_no_difference_seen_is_explained():
    row = GateRow(benchmark="demo", metric="text_score", verdict="no difference seen", change=-0.05, low=-0.09)
    for high, explained in ((-0.01, True), (0.01, False)):
        text = gate_markdown(GateResult(base="a", new="b", rows=(row.model_copy(update={"high": high}),)))
        assert ("p is corrected" in text) == explained


def test_what_the_new_run_lacks_stops_and_what_it_adds_does_not(made_set, tmp_path):
    first, second = made_set("first", n=40), made_set("second", n=40)
    both = measured(tmp_path / "both", "random", first, second, seed=1)
    one = measured(tmp_path / "one", "random", first, seed=1)
    found = regression_gate(both, one)
    assert not found.passed
    assert [row.verdict for row in found.rows[:4]].count("regression") == 0
    assert [row.verdict for row in found.rows[4:]] == ["missing"]
    assert headline_of(found) == "the gate stops: 1 missing result"
    back = regression_gate(one, both)
    assert back.passed
    assert back.added == ("folder:second",)


def test_other_items_stop_and_the_rest_is_judged(made_set, tmp_path):
    same, cut = made_set("same", n=40), made_set("cut", n=40)
    base = measured(tmp_path / "base", "random", same, cut, seed=1)
    part = measured(tmp_path / "part", "random", cut, seed=1, limit="30")
    whole = measured(tmp_path / "whole", "random", same, seed=1)
    folder = tmp_path / "new"
    folder.mkdir()
    part.rename(folder / "part")
    whole.rename(folder / "whole")
    found = regression_gate(base, folder)
    assert not found.passed
    row = next(row for row in found.rows if row.metric is None)
    assert row.verdict == "not comparable"
    assert "folder:cut is not the same in both runs" in row.reason
    assert [row.verdict in ("no difference seen", "too few items") for row in found.rows].count(True) == 4


def test_items_that_could_show_no_fall_stop(made_set, tmp_path):
    """Six items, all lost, give p = 0.031: more than three headlines leave to one."""
    folder = made_set(n=6)
    base = scored(folder, tmp_path / "base", (), n=6)
    found = regression_gate(base, base)
    assert not found.passed
    assert {row.verdict for row in found.rows} == {"too few items"}
    assert "the base is right on so few (6 of 6) that no fall could be seen" in gate_markdown(found)
    few = made_set("more", n=8)
    enough = scored(few, tmp_path / "enough", (), n=8)
    assert regression_gate(enough, enough).passed


def test_a_headline_that_cannot_fall_does_not_stop_beside_one_that_can(runs):
    base, other = runs["60 wrong"], runs["random 1"]  # image and group score of the base: none right
    assert regression_gate(other, other).passed
    assert not regression_gate(base, base).passed
    assert {row.verdict for row in regression_gate(base, other).rows} <= {"too few items", "improvement"}
    # Nor does a rise from nothing, though nothing could fall.
    found = regression_gate(runs["constant"], runs["0 wrong"])
    assert {(row.verdict, row.could_see, row.base) for row in found.rows} == {("improvement", None, 0.0)}
    assert found.passed


def test_a_bias_is_shown_and_not_judged(tmp_path):
    """It goes from -1 to 1 and 0 is best, so that to fall is no loss; what it took from Holm the score has again."""
    from tellapart.evaluation.compare import judge
    from tellapart.evaluation.systems import SharedBenchmark, System
    from tellapart.records.result import BenchmarkResult, ModelRecord, Result, RunRecord, Value

    values = np.ones((30, 2))
    bias = np.column_stack([np.ones(30), -np.ones(30)])
    metrics = {
        name: Value(value=1, method="wilson", n=30, clusters=30, average="items")
        for name in ("both_orders", "order_bias")
    }
    record = BenchmarkResult(title="asked", fingerprint="0", metrics=metrics, origin="here")
    shared = SharedBenchmark(
        "asked", {0: record, 1: record}, np.arange(30).astype(str), (), {"both_orders": values, "order_bias": bias}
    )
    run = RunRecord(started="2026-01-01T00:00:00+00:00", seed=0, command="", versions={})
    system = System("a", {}, Result(run=run, model=ModelRecord(name="a"), benchmarks={}))
    found = judge([system, system], [shared], max_drop=1)
    assert found.passed
    assert [(row.metric, row.verdict) for row in found.rows] == [
        ("both_orders", "no difference seen"),
        ("order_bias", "not tested"),
    ]
    assert "neither more nor less is better" in found.rows[1].reason


def test_a_folder_of_two_models_is_refused(made_set, tmp_path):
    folder = made_set(n=12)
    for name in ("a", "b"):
        scored(folder, tmp_path / "runs" / name, (), n=12, name=name)
    with raises(RunError, "2", "(a, b)"):
        regression_gate(tmp_path / "runs", tmp_path / "runs" / "a")


@pytest.mark.slow
def test_winoground_clip_to_a_worse_one_stops_and_could_have_seen_what_compare_says(tmp_path):
    human, clip, flava = (
        run_scores({"winoground": winoground(name)}, tmp_path / name) for name in ("human", "clip_b32", "flava_itm")
    )
    assert not regression_gate(human, clip).passed
    near = regression_gate(clip, flava)
    for row, plain in zip(near.rows, compare(clip, flava).rows, strict=True):
        assert row.could_see >= min(plain.detectable, row.base)  # of one test in three, it is the larger


@pytest.mark.slow
def test_the_command_exits_with_1_and_prints_what_was_asked_for(command, made_set, tmp_path):
    folder = made_set(n=60)
    base = scored(folder, tmp_path / "base", (), n=60, name="@all|x")
    new = scored(folder, tmp_path / "new", tuple(range(20)), n=60)
    same = command("compare", base, base, "--gate", code=0)
    check_facts(same.out, f"base = @all|x ({base})", f"new = @all|x ({base})")
    ran = command("compare", base, new, "--gate", code=1)
    assert "the gate stops: " in ran.out
    text = command("compare", base, new, "--gate", "--markdown", code=1)
    assert r"base: `@all\|x`; new: `model`" in text.out
    assert "**regression**" in text.out
    document = json.loads(command("compare", base, new, "--gate", "--json").out)
    assert document["passed"] is False
    assert document["rows"][0]["says"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--max-drop", "1"), ("--max-drop", "--gate")),
        (("c", "--gate"), ("--gate", "3", "BASE", "NEW")),
        (("--markdown",), ("--markdown", "--gate")),
        (("--gate", "--by", "tag"), ("--gate", "--baseline", "--by")),
        (("--gate", "--markdown", "--json"), ("--markdown", "--json", "format")),
    ],
)
def test_options_that_do_not_fit_are_refused(command, options, message):
    ran = command("compare", "a", "b", *options, code=2)
    check_facts(ran.err, message)


@pytest.mark.slow
def test_simulated_equals_pass_and_a_planted_fall_of_the_stated_size_is_seen(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    sys.modules.pop("regression_gate", None)
    import regression_gate as bench

    found = bench.measure_setting(bench.Setting(60, 8, 0.3), 30)
    assert found["false_alarms"] <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / 30)
    assert found["seen"] >= 0.65
