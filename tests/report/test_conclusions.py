"""What a report says first: the claims that intervals and tests carry, and no others."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import tellapart as ta
from facts import check_facts, raises
from tellapart.benchmarks.arguments import load_pairs
from tellapart.errors import RunError
from tellapart.evaluation.compare import Comparison, MetricComparison, compare
from tellapart.evaluation.systems import choose_models
from tellapart.records.result import Value
from tellapart.records.run_folder import write_result
from tellapart.records.samples import write_samples
from tellapart.report.benchmark_runs import BenchmarkRuns, ReportRun, arrange_runs
from tellapart.report.conclusions import (
    ABOVE,
    ALPHA,
    BELOW,
    LEVEL,
    Conclusion,
    answer_lines,
    conclude,
    conclude_all,
    ranked_models,
    rivals_of,
    weak_subsets,
)
from tellapart.report.numbers import percent
from tellapart.report.page import TellingItems, make_page, telling_items
from tellapart.report.printing import print_comparison
from tellapart.stats.multiple import holm
from tellapart.stats.power import power_of_difference


def scores_with(right) -> np.ndarray:
    """Scores of 2x2 items, all right or all wrong."""
    return np.float32([[[0.9, 0.1], [0.1, 0.9]] if one else [[0.1, 0.9], [0.9, 0.1]] for one in right])


def section_of(runs: Sequence[ReportRun]) -> BenchmarkRuns:
    (section,) = arrange_runs(runs)
    return section


def concluded(*runs: ReportRun) -> Conclusion:
    section = section_of(runs)
    return conclude(section, rivals_of(section))


def with_record(run: ReportRun, **changes) -> ReportRun:
    record = run.result.benchmarks["shapes"].model_copy(update=changes)
    return ReportRun(run.result.model_copy(update={"benchmarks": {"shapes": record}}), run.samples, run.read_image)


def share(make_run, right: int, of: int, **plan) -> ReportRun:
    return make_run(scores=scores_with([k < right for k in range(of)]), n=of, tags=(), with_images=False, **plan)


@pytest.mark.parametrize(("right", "standing"), [(50, ABOVE), (20, LEVEL), (13, LEVEL), (2, BELOW)])
def test_one_model_is_set_against_chance_and_an_interval_that_holds_it_is_no_claim(make_run, right, standing):
    run = share(make_run, right, 100, model="m")
    value = run.result.benchmarks["shapes"].metrics["group_score"]
    assert (standing == LEVEL) == (value.low <= value.chance <= value.high)
    found = concluded(run)
    assert (found.metric, found.standing, found.first) == ("group_score", {"m": standing}, ())
    interval = f"(95% interval {percent(value.low, 1)} to {percent(value.high, 1)})"
    assert found.sentences[0].startswith(f"m reaches {right}.00% by group_score (each image prefers its own text, ")
    assert found.sentences[0].endswith(f" on 100 items {interval}: {standing}, 16.67%.")


def test_ties_a_limit_and_few_clusters_are_named(make_run):
    value = Value(value=1.0, low=0.29, high=1.0, method="m", n=30, clusters=3, chance=0.5, average="micro")
    for run, said in (
        (
            make_run(scores=np.full((60, 2, 2), 0.5, np.float32), n=60, tags=()),
            "below chance, 16.67%, with ties in 60 items counted as wrong (16.67% if they were broken at random).",
        ),
        (with_record(share(make_run, 40, 50), limited_from=3000), " on 50 of 3,000 items (95% interval"),
        (with_record(make_run(), metrics={"group_score": value}, by={}), " on 30 items in 3 clusters ("),
    ):
        assert said in concluded(run).sentences[0]


@pytest.mark.parametrize(("low", "chance"), [(None, 1 / 6), (0.6, None), (0.6, 0.0)])
def test_without_an_interval_or_without_chance_nothing_is_said_of_it(make_run, low, chance):
    run = share(make_run, 40, 50, model="m")
    metrics = run.result.benchmarks["shapes"].metrics
    value = metrics["group_score"].model_copy(update={"low": low, "high": low and 0.9, "chance": chance})
    found = concluded(with_record(run, metrics={**metrics, "group_score": value}))
    assert "chance" not in " ".join(found.sentences) and found.standing == {}


def test_the_first_of_several_is_named_with_those_that_no_test_tells_apart(make_run):
    rights = {"low": 50, "near": 88, "top": 90}
    found = concluded(*(share(make_run, right, 100, model=name) for name, right in rights.items()))
    assert found.sentences == (
        "top is first of 3 models on 100 items, with 90.00% by group_score (each image prefers its own text, and each "
        "text its own image); near (88.00%) is not distinguishable from it; low (50.00%) is lower (paired tests at 5%, "
        "Holm over 12).",
        "All are above chance, 16.67%.",
    )
    assert found.first == ("top", "near")
    found = concluded(*(share(make_run, right, 100, model=name) for name, right in {"a": 90, "b": 17, "c": 0}.items()))
    assert found.sentences[1] == "a is above chance, 16.67%; b is not distinguishable from chance; c is below chance."


def test_no_model_is_first_of_equals(make_run):
    level = (share(make_run, 90, 100, model="a"), share(make_run, 90, 100, model="b"))
    first = concluded(*level).sentences[0]
    assert re.match("(a and b|b and a) are level", first) and "distinguishable" not in first
    among = concluded(*level, share(make_run, 20, 100, model="c")).sentences[0]
    assert all(said in among for said in ("are level", "of 3 models", "c (20.00%) is lower"))


@pytest.mark.slow
def test_many_models_are_counted(make_run):
    found = concluded(*(share(make_run, 60 + k, 100, model=f"m{k}") for k in range(10)))
    assert "7 models are not distinguishable from it; 2 models after the first 8 were not tested" in found.sentences[0]
    assert found.sentences[1] == "All are above chance, 16.67%."


def test_what_the_first_model_fails_at_is_said_with_the_number_and_n(make_run):
    tags = [{"kind": "swap" if k % 2 else "add"} for k in range(120)]
    right = [k % 2 == 0 or k < 20 for k in range(120)]
    (said,) = concluded(make_run(scores=scores_with(right), n=120, tags=tags, model="m")).sentences[1:]
    least = percent(10 / 60)
    assert said == f"m fails most at items tagged kind = swap: {least}% of 60 items against 100.00% of the others."
    even = make_run(scores=scores_with([k % 4 < 2 for k in range(120)]), n=120, tags=tags, model="m")
    assert len(concluded(even).sentences) == 1


def test_a_metric_that_can_be_negative_has_zero_for_chance(make_run):
    run = make_run(model="m")
    value = Value(value=0.3, low=0.2, high=0.4, method="bootstrap", n=30, clusters=30, chance=0.0, average="micro")
    outcomes = {"kendall": 0.3, "spearman": 0.3}
    samples = [replace(sample, outcomes=outcomes, unit="query") for sample in run.samples["shapes"]]
    run = with_record(run, metrics={"kendall": value, "spearman": value}, by={})
    found = concluded(ReportRun(run.result, {"shapes": samples}))
    assert " on 30 queries (95% interval 20.0 to 40.0): above chance, 0.00%." in found.sentences[0]


def test_many_benchmarks_are_counted_up():
    def one(name: str, standing: dict[str, str], *first: str) -> Conclusion:
        return Conclusion(name, "accuracy", (f"of {name}.",), standing, first)

    few = [one("x", {"a": ABOVE, "b": ABOVE}, "a"), one("y", {"a": LEVEL, "b": ABOVE}, "a", "b")]
    assert answer_lines(few) == ("x: of x.", "y: of y.")
    many = [*few, one("z", {"a": BELOW, "b": ABOVE}, "b"), one("w", {"b": ABOVE}, "b")]
    assert answer_lines(many[:3])[2] == "z: of z." and answer_lines(many) == conclude_all(many)
    assert conclude_all(many) == (
        "a is above chance on 1 of 3 benchmarks, not distinguishable from it on y, below it on z.",
        "b is above chance on 4 of 4 benchmarks.",
        "First, or not distinguishable from the first, of 4 benchmarks with tests: b on 3 and a on 2.",
    )
    unjudged = [replace(one(name, {}), measured=("a",)) for name in "uv"]
    said = conclude_all([*many, *unjudged])[0]
    assert "above chance on 1 of 5 benchmarks" in said and said.endswith("judge by on u and v.")


def test_words_without_order_are_named_only_if_two_values_of_a_tag_differ_clearly(make_run):
    right = [k % 3 == 1 for k in range(90)]  # the sides of `make_run`: left, right, none
    first, same = make_run(model="clip", n=90), make_run(model="bag-of-words", n=90, scores=scores_with([True] * 90))
    lost = make_run(model="bag-of-words", n=90, scores=scores_with([not one for one in right]))
    said = concluded(first, lost).sentences[-1]
    assert said.startswith("bag-of-words") and "100% of left" in said and "0% of right" in said
    for text in lost.samples["shapes"][1].texts:  # the first that it lost
        assert f'"{text}"' in said
    assert "bag-of-words" not in " ".join(concluded(first, same).sentences)


def weak_of(make_run, right, tags, **changes):
    run = make_run(scores=scores_with(right), n=len(right), tags=tags, with_images=False)
    samples = [replace(sample, **changes) for sample in run.samples["shapes"]]
    return weak_subsets(ranked_models(section_of([ReportRun(run.result, {"shapes": samples})]))[0], "group_score")


def test_subsets_that_are_clearly_lower_are_named_lowest_first(make_run):
    sides = ("right", "left")
    tags = [{"kind": name, "side": sides[k % 2]} for k in range(100) for name in ("add", "swap", "move")]
    share = {"add": 90, "swap": 20, "move": 30}
    right = [k < share[tag["kind"]] for k, tag in zip(np.repeat(range(100), 3), tags, strict=True)]
    assert [(one.tag, one.value, one.n, one.mean, one.others) for one in weak_of(make_run, right, tags)] == [
        ("kind", "swap", 100, pytest.approx(0.2), pytest.approx(0.6)),
        ("kind", "move", 100, pytest.approx(0.3), pytest.approx(0.55)),
    ]


def test_without_two_values_of_a_tag_or_of_few_wrong_items_or_clusters_there_is_none(make_run):
    for tags in ((), ({"kind": "all"},)):
        assert weak_of(make_run, [True, False] * 40, tags) == ()
    tags = [{"kind": "rare" if k < 2 else "usual"} for k in range(60)]
    assert weak_of(make_run, [k not in {0, 2, 3} for k in range(60)], tags) == ()
    tags, right = [{"kind": "swap" if k < 60 else "add"} for k in range(120)], [k >= 48 for k in range(120)]
    assert [one.value for one in weak_of(make_run, right, tags)] == ["swap"]
    assert weak_of(make_run, right, tags, cluster="one") == ()


@pytest.mark.slow
def test_many_subsets_of_one_quality_rarely_yield_one(make_run):
    """The level holds for all values together: of 30 sets, one or two would show one by accident."""
    rng = np.random.default_rng(0)
    tags = [{"kind": f"k{k % 20}"} for k in range(400)]
    assert sum(bool(weak_of(make_run, rng.random(400) < 0.6, tags)) for _ in range(30)) <= 3


def in_clusters(run: ReportRun, size: int) -> ReportRun:
    samples = [replace(sample, cluster=f"c{k // size}") for k, sample in enumerate(run.samples["shapes"])]
    return ReportRun(run.result, {"shapes": samples}, run.read_image)


@pytest.mark.few(2)
@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("seed", [2, 1])  # with seed 1 the runs are the same: a difference of nothing
def test_two_models_have_the_rows_of_compare(make_run, tmp_path, size, seed):
    runs = [in_clusters(make_run(model=f"m{k}", seed=s, n=120), size) for k, s in enumerate((1, seed))]
    folders = [tmp_path / str(k) for k in range(2)]
    for folder, run in zip(folders, runs, strict=True):
        write_result(folder, run.result)
        write_samples(folder, "shapes", run.samples["shapes"])
    (duel,) = rivals_of(section_of(runs)).duels
    expected = compare(*(folders[::-1] if duel.a == "m1" else folders)).rows
    numbers = {"n", "a", "b", "difference", "low", "high", "only_a", "only_b", "p", "p_holm", "detectable"}
    names = {"benchmark", "metric", "method", "test"}
    for row, own in zip(expected, duel.rows, strict=True):
        assert own.model_dump(include=numbers) == pytest.approx(row.model_dump(include=numbers))
        assert own.model_dump(include=names) == row.model_dump(include=names)


def test_p_is_corrected_over_all_pairs_and_metrics(make_run):
    runs = [make_run(model=name, skill=skill, seed=skill, n=90) for skill, name in enumerate("abc")]
    found = rivals_of(section_of(runs))
    assert [entry.label for entry in found.ranking] == ["c", "b", "a"]
    assert [(duel.b, duel.a) for duel in found.duels] == [("c", "b"), ("c", "a"), ("b", "a")]
    rows = [row for duel in found.duels for row in duel.rows]
    assert found.tests == len(rows) == 12
    assert np.allclose([row.p_holm for row in rows], holm([row.p for row in rows]))
    told = [row.p_holm <= ALPHA for row in rows[:8] if row.metric == "group_score"]
    assert found.distinct("group_score") == dict(zip("ba", told, strict=True))
    assert found.distinct("no_metric") == {}


def test_reference_models_are_no_rivals_unless_there_are_no_others(make_run):
    runs = [make_run(model="mine"), make_run(model="random", seed=3), make_run(model="oracle", skill=9)]
    assert rivals_of(section_of(runs)).duels == ()
    assert [entry.label for entry in ranked_models(section_of(runs))] == ["mine"]
    assert [entry.label for entry in ranked_models(section_of(runs[1:]))] == ["random", "oracle"]


@pytest.mark.slow
def test_fewer_models_are_tested_where_flips_would_take_minutes(make_run, monkeypatch):
    monkeypatch.setattr("tellapart.report.conclusions._MOST_FLIPPED", 30 * 3 * 4)
    runs = [in_clusters(make_run(model=f"m{k}", seed=k, n=60), 2) for k in range(4)]
    assert (len(rivals_of(section_of(runs)).duels), rivals_of(section_of(runs)).untested) == (3, 1)


def chosen(*runs: ReportRun) -> tuple[TellingItems, ...]:
    section = section_of(runs)
    return telling_items(section, rivals_of(section))


def scores_in(right: range) -> np.ndarray:
    return scores_with(k in right for k in range(30))


def test_items_that_words_alone_fail_come_first_and_then_those_that_the_model_fails(make_run):
    model = make_run(model="clip", scores=scores_in(range(20)))
    words = make_run(model="bag-of-words", scores=scores_in(range(10, 30)))
    blind = make_run(model="blind", scores=scores_in(range(0)))
    right, wrong = chosen(model, words, blind)
    assert "clip is right" in right.title and "bag-of-words is wrong" in right.title and wrong.title == "clip is wrong"
    assert len(right.positions) == len(wrong.positions) == 3
    assert set(right.positions) <= set(range(10)) and set(wrong.positions) <= set(range(20, 30))
    # Words that are never wrong make room for a weaker reference.
    perfect = make_run(model="bag-of-words", scores=scores_in(range(30)))
    assert "blind is wrong" in chosen(model, perfect, blind)[0].title
    assert chosen(model, perfect)[0].title == chosen(model)[0].title == "clip is right"


def test_the_surest_and_the_worst_come_first_of_different_values_of_a_tag(make_run):
    scores = scores_in(range(15))
    scores[[3, 6, 9], 0, 0] = scores[[3, 6, 9], 1, 1] = 5.0  # the surest, all on the left
    right, wrong = chosen(make_run(scores=scores))
    assert right.positions[0] in (3, 6, 9)
    assert {item % 3 for item in right.positions} == {0, 1, 2}  # the sides of `make_run`: left, right, none
    assert all(item >= 15 for item in wrong.positions)
    (right,) = chosen(make_run(scores=scores_in(range(30))))  # no items that it fails
    assert right.title.endswith("is right")
    assert chosen(make_run(shape=(1, 3)))[0].positions


def test_the_page_shows_them_with_pictures_after_the_sentence_and_the_table_by_a_tag(make_run):
    html = make_page([make_run(model="clip", scores=scores_in(range(20)))]).html
    head = html.index("clip reaches"), html.index('<table class="headline">'), html.index('class="telling"')
    assert [*head, html.index("by tag</h3>")] == sorted([*head, html.index("by tag</h3>")])
    shown = html[head[2] : html.index("by tag</h3>")]
    assert shown.count('src="data:image/') == 12 and shown.count('<figcaption dir="auto">a ') == 12
    table = html[head[1] : head[2]]
    columns = ["model", "group_score", "by side", "text_score", "image_score", "left", "right"]
    assert [column for column in columns if f">{column}</th>" in table] == columns
    assert table.index(">group_score<") < table.index(">text_score<"), "the metric that ranks comes first"


@pytest.fixture
def measure(command, made_set, installed, tmp_path) -> Callable[..., None]:
    """Run models on a pair set: `measure("out", "colours", "random", n=30, clusters=None)`."""

    def run(out: str, *models: str, **plan) -> None:
        folder = tmp_path / "-".join(map(str, plan.values()))
        if not folder.exists():
            made_set(folder.name, **plan)
        named = [part for model in models for part in ("-m", model)]
        command("run", *named, "-b", f"folder:{folder}", "--out", out, "--no-cache", code=0)

    return run


@pytest.mark.slow
def test_all_models_of_a_run_are_compared_each_with_each(command, measure):
    measure("many", "colours", "demo-encoder", "probable", n=30)
    found = command("compare", "many", "--json").json
    assert found["models"] == ["colours", "demo-encoder", "probable"]
    assert [(pair["a"], pair["b"]) for pair in found["pairs"]] == [*combinations(found["models"], 2)]
    rows = [row for pair in found["pairs"] for row in pair["rows"]]
    assert [row["p_holm"] for row in rows] == holm([row["p"] for row in rows]).tolist()
    printed = command("compare", "many").out
    assert printed.startswith("3 models: percent, 95% intervals\n")
    assert "Holm over 12 tests" in printed and "tier: no model differs from its best" in printed
    (ranking,) = (one for one in found["tiers"] if one["metric"] == "group_score")
    ranked = [name for tier in ranking["tiers"] for name in tier["names"]]
    shown = [words[1] for line in printed.splitlines() if len(words := line.split()) > 7 and words[1] in ranked]
    assert shown == ranked
    for pair, label in zip(found["pairs"], ("2 - 1", "3 - 1", "3 - 2"), strict=True):
        lines = [line for line in printed.splitlines() if line.startswith(label)]
        assert all(f"{100 * row['difference']:+.2f} [" in line for row, line in zip(pair["rows"], lines, strict=True))
    assert max(map(len, printed.splitlines())) <= 120


def test_with_a_baseline_a_row_is_a_model_and_there_are_no_tiers(command, measure):
    measure("many", "colours", "demo-encoder", "probable", n=30)
    printed = command("compare", "many", "--baseline", "probable").out
    assert printed.startswith("3 models, each (b) with probable (a): percent, 95% intervals\n")
    rows = [line for line in printed.splitlines() if line.startswith(("colours ", "demo-encoder "))]
    assert len([line for line in rows if " of 30 items" not in line]) == 8
    assert "tier" not in printed and "Holm over 8 tests" in printed


@pytest.mark.slow
def test_reference_models_are_compared_where_their_folder_or_the_baseline_names_them(command, measure):
    measure("run", "colours", "random", "constant", n=30)
    left_out = "not compared, reference models beside a run (name their folders to compare them): "
    named = command("compare", "run", "run/beside/random")
    assert named.out.startswith("a = colours, b = random:") and f"{left_out}constant\n" in named.out
    against = command("compare", "run", "--baseline", "constant")
    assert against.out.startswith("a = constant, b = colours:") and f"{left_out}random\n" in against.out
    alone = command("compare", "run", code=2)
    check_facts(alone.err, "error", "run", "colours", "random, constant", "--baseline")
    measure("other", "demo-encoder", n=30)
    third = command("compare", "run", "other", "run/beside/constant")
    assert third.out.startswith("3 models:") and f"{left_out}random" in third.out.splitlines()


@pytest.mark.slow
def test_a_baseline_that_is_not_there_or_is_several_runs_is_said(command, measure):
    measure("a", "colours", "demo-encoder", n=30)
    measure("b", "colours", n=30)
    for folders, options, *facts in (
        ("a", {"baseline": "gone"}, "baseline=", "model", "gone"),
        ("ab", {"baseline": "colours"}, "baseline=", "2", "model", "1"),
        ("bb", {"two": True}, "b", "b", "model"),
    ):
        with raises(RunError, *facts):
            choose_models([*map(Path, folders)], **options)
    models = choose_models([Path("a"), Path("b")], "colours (run 2)")
    (baseline,) = (run for run in models.runs if run.label == models.baseline)
    assert {*baseline.folders.values()} == {Path("b")}


@pytest.mark.slow
def test_by_tag_two_models_have_a_row_a_value_and_more_have_a_table_a_value(command, measure):
    measure("many", "colours", "demo-encoder", "probable", n=30)
    printed = command("compare", "many", "--by", "type").out
    titles = [line for line in printed.splitlines() if ": group_score" in line]
    parts = [f", type = {kind} (10 items)" for kind in ("add", "replace", "swap")]
    assert [title.split("group_score")[1] for title in titles] == [" (30 items)", *parts]
    assert "Holm over 48 tests" in printed
    two = command("compare", "many", "--baseline", "demo-encoder", "--by", "type", "--json").json
    assert len(two["pairs"]) == 2
    measure("one", "colours", n=30)
    measure("other", "demo-encoder", n=30)
    shown = command("compare", "one", "other", "--by", "type").out
    subsets = re.findall("^(all items|add|replace|swap)", shown, re.MULTILINE)
    assert subsets == ["all items", "add", "replace", "swap"] * 4


@pytest.mark.slow
def test_a_p_at_the_floor_of_ten_thousand_flips_is_a_bound(command, measure):
    measure("run", "oracle", "random", n=60, clusters=30)
    ran = command("compare", "run", "run/beside/random", "--json").json["rows"]
    assert [row["p"] for row in ran] == [1 / 10_001] * 4 and {row["flips"] for row in ran} == {10_000}
    printed = command("compare", "run", "run/beside/random").out
    (line,) = (line for line in printed.splitlines() if line.startswith("group_score"))
    assert "<= 0.0001   <= 0.0004" in line
    assert "<=: none of 10,000 sign flips was as extreme\n" in printed
    # At every look clusters have no interval and nothing detectable; the reasons stand below, as no number may be cut.
    looked = command("compare", "run", "run/beside/random", "--anytime").out
    assert "…" not in looked and "(no interval)" in looked and "no interval: bounds that hold" in looked
    assert "few items" not in looked
    # A p that draws could have made smaller is no bound, nor is an exact one.
    measure("few", "oracle", "random", n=24, clusters=12)
    assert "<=" not in command("compare", "few", "few/beside/random").out


def test_a_missing_detectable_difference_has_its_reason(tmp_path, capsys):
    (tmp_path / "ids.txt").write_text("\n".join(f"attribute-{number:03d}" for number in range(40)))
    for models, items, *reasons in (
        (("oracle", "bag-of-words"), {"items": tmp_path / "ids.txt"}, "agree on every item"),
        (("random", "constant"), {"limit": 6}, "detectable -:", "so few items"),
    ):
        ta.compare(*(ta.evaluate(model, "demo", out=tmp_path / model, **items) for model in models)).show()
        said = " ".join(capsys.readouterr().out.split())
        assert all(reason in said for reason in reasons)


def test_a_difference_that_was_not_seen_has_the_items_that_would_show_it(capsys):
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
    long = row.model_copy(update={"metric": "lm-eval:exact_match,flexible-extract"})
    print_comparison(Comparison(a="a", b="b", rows=(long,)))
    assert "30.00   27.50" in (said := capsys.readouterr().out) and "…" not in said  # a long name is folded


def test_items_before_a_limit_stand_beside_the_numbers(command):
    for name in ("blind", "random"):
        assert command("run", "-m", name, "-b", "demo", "--limit", "12", "--out", name, "--no-cache").code == 0
    shown = command("compare", "blind", "random")
    (whole,) = {row["limited_from"] for row in command("compare", "blind", "random", "--json").json["rows"]}
    assert whole == len(load_pairs("demo")) and f"12 of {whole} items" in shown.out
    assert f"12 of {whole}" in command("compare", "blind", "random", "--gate").out
