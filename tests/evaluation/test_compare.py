"""Two runs or many beside each other: exact tests on the items that all measured, their sentence, and the gate."""

import json
import sys
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from runs import copied_scores, measured, score_file
from scipy.stats import binomtest

import tellapart as ta
from facts import check_facts, raises
from published import winoground
from scripts import run_python
from sets import biased_runs, write_file, write_set
from tellapart import EmbeddingStore, read_result, read_samples
from tellapart.errors import RunError
from tellapart.evaluation.compare import (
    Comparison,
    GateResult,
    GateRow,
    MetricComparison,
    MetricTiers,
    compare,
    compare_models,
    judge,
    judge_leaders,
    judge_pair,
    judge_tiers,
    rank_outcomes,
    regression_gate,
)
from tellapart.evaluation.run import Settings, run, run_scores
from tellapart.evaluation.systems import SharedBenchmark, System, gather, omit_references
from tellapart.records.result import BenchmarkResult, ModelRecord, Result, RunRecord, Value
from tellapart.records.run_folder import write_result
from tellapart.report.measured import sort_runs
from tellapart.report.paper_tables.benchmarks import benchmark_table
from tellapart.report.paper_tables.table import write_json
from tellapart.report.plots.pareto import Costs, list_points
from tellapart.report.plots.pictures import draw_tiers
from tellapart.report.printing import end_lines, gate_facts, gate_markdown
from tellapart.stats.multiple import holm
from tellapart.stats.paired import Tier, anytime_bounds, anytime_p, mcnemar, paired_permutation, tiers


def test_comparing_loads_no_model_no_task_and_no_reader_of_sets(made_set, tmp_path):
    folder = made_set(n=8)
    runs = [str(measured(tmp_path / name, name, folder)) for name in ("oracle", "random")]
    code = f"import sys\nimport tellapart as ta\nta.compare(*{runs!r}).show()\nprint('loaded:', *sys.modules)"
    loaded = {*run_python("-c", code).stdout.rpartition("loaded:")[2].split()}
    assert "tellapart.evaluation.compare" in loaded
    others = {"models.find", "models.scoring.score", "tasks.pairs", "tasks.retrieval", "benchmarks.find", "training"}
    assert not loaded & {"torch", "scipy.optimize", "scipy.stats", *(f"tellapart.{name}" for name in others)}


def right(name: str) -> dict[str, np.ndarray]:
    """The published scores' outcomes, from the raw file by the paper's definition."""
    s = np.zeros((400, 2, 2), np.float32)
    for line in winoground(name).read_text().splitlines():
        row = json.loads(line)
        item, text, image = row["label"].split("_")
        s[int(item), int(image[1]), int(text[1])] = row["score"]
    text = (s[:, 0, 0] > s[:, 0, 1]) & (s[:, 1, 1] > s[:, 1, 0])
    image = (s[:, 0, 0] > s[:, 1, 0]) & (s[:, 1, 1] > s[:, 0, 1])
    wide = s.astype(np.float64)
    match = wide[:, 0, 0] + wide[:, 1, 1] > wide[:, 0, 1] + wide[:, 1, 0]
    return {"text_score": text, "image_score": image, "group_score": text & image, "match_score": match}


@pytest.mark.slow
@pytest.mark.parametrize(("one", "other"), [("clip_b32", "clip_l14"), ("human", "flava_itm")])
def test_p_is_that_of_scipys_exact_test_on_the_raw_outcomes(tmp_path, one, other):
    found = compare(*(run_scores({"winoground": winoground(name)}, tmp_path / name) for name in (one, other)))
    a, b = right(one), right(other)
    assert [row.metric for row in found.rows] == list(a)
    for row in found.rows:
        only_a, only_b = int((a[row.metric] & ~b[row.metric]).sum()), int((b[row.metric] & ~a[row.metric]).sum())
        assert (row.n, row.only_a, row.only_b, row.test) == (400, only_a, only_b, "exact McNemar")
        assert row.p == pytest.approx(binomtest(only_a, only_a + only_b).pvalue, rel=1e-12)
        assert row.difference == pytest.approx(b[row.metric].mean() - a[row.metric].mean(), abs=1e-12)
        assert row.low is not None and row.high is not None and row.low <= row.difference <= row.high
    assert [row.p_holm for row in found.rows] == pytest.approx(holm([row.p for row in found.rows]))
    assert all(row.p_holm >= row.p for row in found.rows)
    for row, mirrored in zip(found.rows, compare(tmp_path / other, tmp_path / one).rows, strict=True):
        assert (row.difference, row.only_a, row.only_b) == (-mirrored.difference, mirrored.only_b, mirrored.only_a)
        assert (row.p, row.p_holm, row.detectable) == (mirrored.p, mirrored.p_holm, mirrored.detectable)


def test_items_are_matched_by_id_whatever_their_order(made_set, installed, tmp_path):
    folder = made_set(n=40)
    a = measured(tmp_path / "a", "colours", folder)
    before = compare(a, measured(tmp_path / "b", "random", folder))
    lines = (folder / "pairs.jsonl").read_text().splitlines()
    (folder / "pairs.jsonl").write_text("\n".join(reversed(lines)) + "\n")
    assert compare(a, measured(tmp_path / "c", "random", folder)) == before


def test_items_in_clusters_are_tested_by_flipping_whole_clusters(made_set, installed, tmp_path):
    folder = made_set(n=40, clusters=13)
    a, b = (measured(tmp_path / name, name, folder) for name in ("colours", "random"))
    one, other = (read_samples(run, "folder:set") for run in (a, b))
    for row in compare(a, b).rows:
        values = ([sample.outcomes[row.metric] for sample in run] for run in (one, other))
        assert row.test == "cluster sign flips"
        assert row.p == paired_permutation(*values, [sample.cluster for sample in one])


def test_runs_of_a_similarity_and_of_a_probability_are_compared_by_what_both_have(made_set, installed, tmp_path):
    folder = made_set(shape=(1, 2))
    similar, probable = (measured(tmp_path / name, name, folder) for name in ("colours", "probable"))
    assert [row.metric for row in compare(similar, probable).rows] == ["choice_score"]
    # acc and min(p_c, p_f) are no outcomes of right and wrong: they are not tested.
    assert [row.metric for row in compare(probable, probable).rows] == ["pairwise"]


def test_scores_made_elsewhere_are_on_trust_and_runs_of_other_items_or_clusters_are_refused(
    made_set, installed, tmp_path
):
    folder = made_set()
    whole = measured(tmp_path / "whole", "colours", folder)
    elsewhere = run_scores({f"folder:{folder}": copied_scores(whole, tmp_path / "copy.csv")}, tmp_path / "elsewhere")
    found = compare(whole, elsewhere)
    assert found.on_trust == ("folder:set",)
    assert all(row.difference == 0 for row in found.rows)
    assert compare(elsewhere, elsewhere).on_trust == ()
    limited = measured(tmp_path / "limited", "colours", folder, limit="5")
    rewrite(folder, '"cluster": "item-3"', '"cluster": "item-2"')
    together = measured(tmp_path / "together", "colours", folder)
    for one, other, facts in (
        (limited, elsewhere, ("item-1", "item-10", "items")),
        (whole, limited, ("limit=", "runs")),
        (whole, together, ("item-3", "items", "clusters")),
    ):
        with raises(RunError, facts):
            compare(one, other)


def test_a_benchmark_that_one_run_lacks_is_named(made_set, installed, tmp_path):
    first, second = made_set("first"), made_set("second", seed=1)
    both, one = measured(tmp_path / "a", "colours", first, second), measured(tmp_path / "b", "random", first)
    found = compare(both, one)
    assert ({row.benchmark for row in found.rows}, found.unshared) == ({"folder:first"}, ("folder:second",))
    with raises(RunError, "benchmark", "b", "c"):
        compare(one, measured(tmp_path / "c", "random", second))


def test_a_comparison_that_holds_at_every_look_has_its_p_and_bounds(made_set, installed, tmp_path):
    single, joined = made_set("single", n=60), made_set("joined", n=60, clusters=20, seed=1)
    a, b = (measured(tmp_path / name, name, single, joined) for name in ("colours", "random"))
    fixed, anytime = compare(a, b), compare(a, b, anytime=True)
    for row, other in zip(fixed.rows, anytime.rows, strict=True):
        assert (other.test, other.flips, other.detectable) == ("anytime", None, None)
        assert other.p >= row.p or row.flips is not None
        assert (row.a, row.b, row.only_a, row.only_b) == (other.a, other.b, other.only_a, other.only_b)
        if row.benchmark == "folder:single":
            assert other.p == anytime_p(row.only_a, row.only_b)
            bounds = anytime_bounds(row.only_a, row.only_b, 60 - row.only_a - row.only_b)
            assert (-other.high, -other.low) == pytest.approx(bounds)
        else:
            assert other.low is None and other.reason is not None and "cluster" in other.reason
    assert [row.p_holm for row in anytime.rows] == pytest.approx(holm([row.p for row in anytime.rows]))
    assert compare_models([System.of(a), System.of(b)], anytime=True).tiers == ()


# Many models beside each other: every pair is the comparison of two runs, corrected over all of them.

MODELS = ("colours", "random", "oracle")


def systems(folders: dict[str, Path]) -> list[System]:
    return [replace(System.of(folder), label=name) for name, folder in folders.items()]


def side_by_side(
    out: Path, *folders: Path, models: tuple[str, ...] = MODELS, limit: str | None = None
) -> dict[str, Path]:
    """Run models on pair sets; return model -> its run folder."""
    settings = Settings(models=models, benchmarks=tuple(f"folder:{folder}" for folder in folders), limit=limit)
    return dict(zip(models, run(settings, out, store=EmbeddingStore(None)), strict=True))


@pytest.mark.slow
def test_every_pair_is_the_comparison_of_its_two_runs_but_for_holm(made_set, installed, tmp_path):
    folders = side_by_side(tmp_path / "run", made_set("first", n=30), made_set("second", n=30, seed=1, clusters=9))
    pairs = compare_models(systems(folders)).pairs
    assert [(pair.a, pair.b) for pair in pairs] == [*combinations(MODELS, 2)]
    rows = [row for pair in pairs for row in pair.rows]
    assert (len(rows), [row.p_holm for row in rows]) == (3 * 2 * 4, holm([row.p for row in rows]).tolist())
    alone = [row for pair in pairs for row in compare(folders[pair.a], folders[pair.b]).rows]
    assert [row.model_copy(update={"p_holm": 1.0}) for row in rows] == [
        row.model_copy(update={"p_holm": 1.0}) for row in alone
    ]


@pytest.mark.slow
def test_five_published_models_fall_into_the_tiers_of_their_outcomes(tmp_path):
    names = ("clip_b32", "clip_l14", "vilt", "human", "flava_itm")
    folders = {name: run_scores({"winoground": winoground(name)}, tmp_path / name) for name in names}
    found = compare_models(systems(folders))
    assert len(found.pairs) == 10 and len({row.p_holm for pair in found.pairs for row in pair.rows}) > 10
    samples = {name: read_samples(folder, "winoground") for name, folder in folders.items()}
    for ranking in found.tiers:
        outcomes = {name: [one.outcomes[ranking.metric] for one in own] for name, own in samples.items()}
        assert (list(ranking.tiers), ranking.tiers[0].names) == (tiers(outcomes, None), ("human",))
    assert [ranking.metric for ranking in found.tiers] == ["text_score", "image_score", "group_score", "match_score"]


def test_with_a_baseline_each_model_has_one_row_a_metric_and_the_correction_is_over_these(
    made_set, installed, tmp_path
):
    folders = side_by_side(tmp_path / "run", made_set(n=30))
    found = compare_models(systems(folders), baseline="random")
    assert [(pair.a, pair.b) for pair in found.pairs] == [("random", "colours"), ("random", "oracle")]
    rows = [row for pair in found.pairs for row in pair.rows]
    assert [row.p_holm for row in rows] == holm([row.p for row in rows]).tolist()
    assert found.tiers == () and found.baseline == "random"
    with raises(RunError, "model", "'randm'", "'random'"):
        compare_models(systems(folders), baseline="randm")
    with raises(RunError, "comparison", "models"):
        compare_models(systems(folders)[:1])


def test_differences_by_tag_are_those_of_its_items_and_are_corrected_with_the_others(made_set, installed, tmp_path):
    folders = side_by_side(tmp_path / "run", made_set(n=44, clusters=22), models=("colours", "random"))
    (found,) = compare_models(systems(folders), by="type").pairs
    assert found == compare(*folders.values(), by="type")
    (name,) = read_result(folders["colours"]).benchmarks
    assert [row.subset for row in found.rows] == [None, "add", "replace", "swap"] * 4
    assert [row.p_holm for row in found.rows] == holm([row.p for row in found.rows]).tolist()
    one, other = (read_samples(folder, name) for folder in folders.values())
    for row in found.rows:
        own = [k for k, sample in enumerate(one) if row.subset in {None, sample.tags["type"]}]
        a, b = ([samples[k].outcomes[row.metric] for k in own] for samples in (one, other))
        clusters = [one[k].cluster for k in own]
        assert (row.n, row.a, row.b) == (len(own), np.mean(a), np.mean(b))
        # 22 clusters of two items; within a type, every item has a cluster of its own.
        alone = row.subset is not None
        assert len(set(clusters)) == (len(clusters) if alone else 22)
        assert row.test == ("exact McNemar" if alone else "cluster sign flips")
        assert row.p == (mcnemar(a, b).p if alone else paired_permutation(a, b, clusters))


def rewrite(folder: Path, before: str, after: str, count: int = -1) -> None:
    """Change the list of a set."""
    listed = folder / "pairs.jsonl"
    listed.write_text(listed.read_text().replace(before, after, count))


def test_a_tag_of_one_run_parts_both_and_one_of_which_they_have_different_values_parts_nothing(
    made_set, installed, tmp_path
):
    folder = made_set()
    one = measured(tmp_path / "one", "colours", folder)
    file = write_file(tmp_path / "tags.jsonl", [{"id": f"item-{k}", "half": "ab"[k % 2]} for k in range(12)])
    tagged = measured(tmp_path / "tagged", "twin", folder, tags=file)
    rewrite(folder, '"type": "swap"', '"type": "add"', 1)
    other = measured(tmp_path / "other", "twin", folder)
    assert {row.subset for row in compare(one, other, by="side").rows} == {None, "left"}
    for turn in (1, -1):  # whichever comes first
        assert {row.subset for row in compare(*(one, tagged)[::turn], by="half").rows} == {None, "a", "b"}
        with raises(RunError, "'type'", "folder:set", "item-0"):
            compare(*(one, other)[::turn], by="type")


def test_items_without_the_tag_are_in_no_subset_and_sets_without_it_are_named(made_set, installed, tmp_path):
    first, second = made_set("first"), made_set("second", seed=1)
    rewrite(second, '"side": "left"', '"place": "left"')
    folders = side_by_side(tmp_path / "run", first, second, models=("colours", "random"))
    found = compare(*folders.values(), by="side")
    rows = [(row.benchmark, row.subset, row.n) for row in found.rows]
    assert rows == [("folder:first", None, 12), ("folder:first", "left", 6)] * 4
    assert found.untagged == ("folder:second",)
    with raises(RunError, "'sid'", "'side'", "type"):
        compare(*folders.values(), by="sid")


def test_a_tag_of_too_many_values_is_no_breakdown(made_set, installed, tmp_path):
    listed = made_set(n=70) / "pairs.jsonl"
    rows = [json.loads(line) for line in listed.read_text().splitlines()]
    write_file(listed, [row | {"tags": {"type": f"{k}"}} for k, row in enumerate(rows)])
    folders = side_by_side(tmp_path / "run", listed.parent, models=("colours", "random"))
    with raises(RunError, "'type'", "70", "64"):
        compare(*folders.values(), by="type")


def test_models_that_share_some_benchmarks_are_compared_on_those(made_set, installed, tmp_path):
    first, second = made_set("first"), made_set("second", seed=1)
    folders = side_by_side(tmp_path / "both", first, second, models=("colours", "random"))
    folders |= side_by_side(tmp_path / "one", second, models=("oracle",))
    found = compare_models(systems(folders))
    pairs = {(pair.a, pair.b): (len(pair.rows), *pair.unshared) for pair in found.pairs}
    shared = dict.fromkeys([("colours", "oracle"), ("random", "oracle")], (4, "folder:first"))
    assert pairs == {("colours", "random"): (8,)} | shared
    assert [len(sum((tier.names for tier in each.tiers), ())) for each in found.tiers] == [2, 2, 2, 2, 3, 3, 3, 3]


def test_with_a_baseline_only_its_benchmarks_are_read(made_set, installed, tmp_path):
    first, second = made_set("first"), made_set("second", seed=1)
    folders = side_by_side(tmp_path / "first", first, models=("colours",))
    folders |= side_by_side(tmp_path / "both", first, second, models=("random",))
    (part,) = side_by_side(tmp_path / "part", second, models=("oracle",), limit="5").values()
    with raises(RunError, "runs", "second"):
        compare_models(systems(folders | {"oracle": part}))
    found = compare_models(systems(folders | {"oracle": part}), baseline="colours")
    assert [(pair.a, pair.b) for pair in found.pairs] == [("colours", "random")]
    lines = end_lines(found.pairs, (), found.verdicts, models=found.models)
    assert [line for line in lines if "oracle" in line] == ["not compared, no benchmark in common: oracle"]
    with raises(RunError, "benchmark", "share", "folder"):
        compare_models(systems({"colours": folders["colours"], "oracle": part}), baseline="oracle")


def test_a_third_run_on_other_content_is_refused_also_where_the_first_is_on_trust(made_set, installed, tmp_path):
    folder = made_set()
    folders = side_by_side(tmp_path / "run", folder, models=("colours", "random"))
    copy = copied_scores(folders["colours"], tmp_path / "copy.csv")
    elsewhere = run_scores({f"folder:{folder}": copy}, tmp_path / "elsewhere")
    trusted = compare_models(systems({"elsewhere": elsewhere} | folders))
    assert [pair.on_trust for pair in trusted.pairs] == [("folder:set",), ("folder:set",), ()]
    rewrite(folder, '"texts": ["', '"texts": ["another ')
    changed = side_by_side(tmp_path / "changed", folder, models=("oracle",))
    with raises(RunError, "runs", "run"):
        compare_models(systems({"elsewhere": elsewhere, "colours": folders["colours"]} | changed))


def test_tiers_leave_out_the_items_that_a_model_has_no_value_of():
    values = np.random.default_rng(0).random((3, 60)) < [[0.2], [0.5], [0.9]]
    outcomes = dict(zip("abc", values.astype(float), strict=True))
    outcomes["b"][7] = outcomes["c"][11] = np.nan
    complete = np.delete(np.arange(60), [7, 11])
    clusters = [str(k) for k in range(60)]
    expected = tiers({name: column[complete] for name, column in outcomes.items()}, None)
    assert rank_outcomes(outcomes, clusters) == rank_outcomes(outcomes, clusters, most=2) == expected
    pairs = [str(k // 2) for k in range(60)]
    assert [tier.names for tier in rank_outcomes(outcomes, pairs, most=1)] == [("a",)]


# Systems: which runs are of one, and what they are called.


RUN = RunRecord(started="2026-11-22T07:00:00+00:00", seed=0, versions={}, command="")
ONE = {"fingerprint": "1"}


def write(folder: Path, name: str, *benchmarks: str, **model: str) -> Path:
    parts = {each: BenchmarkResult(title=each, fingerprint=each, metrics={}, origin="") for each in benchmarks}
    write_result(folder, Result(run=RUN, model=ModelRecord(name=name, **model), benchmarks=parts))
    return folder


def test_runs_of_one_model_on_other_benchmarks_are_one_system(tmp_path):
    one, two = write(tmp_path / "a", "m", "x", fingerprint="1"), write(tmp_path / "b", "m", "y", "z", fingerprint="1")
    (system,) = gather([one, two])
    assert (system.label, system.place) == ("m", f"{one}, {two}")
    assert [*system.folders.items()] == [("x", one), ("y", two), ("z", two)]
    assert list(system.result.benchmarks) == ["x", "y", "z"]


@pytest.mark.parametrize(
    ("runs", "labels"),
    [
        ([("hf:clip", "x", ONE), ("/models/clip", "y", ONE)], ["hf:clip"]),
        ([("hf:clip", "x", ONE), ("/models/clip", "y", ONE), ("Our CLIP", "z", ONE)], ["hf:clip", "Our CLIP"]),
        *(
            ([("m", "x", ONE), ("m", "y", ONE | {change: "other"})], ["m (run 1)", "m (run 2)"])
            for change in ("dtype", "reading", "prompt", "fingerprint")
        ),
        ([("m", "x", ONE), ("m", "x", ONE)], ["m (run 1)", "m (run 2)"]),
        ([("m", "x", ONE), ("m (run 1)", "x", ONE), ("m", "x", ONE)], ["m (run 2)", "m (run 1)", "m (run 3)"]),
        # Files of scores are no proof that they came from the model that was computed.
        ([("m", "y", {}), ("m", "x", ONE)], ["m (score files)", "m"]),
    ],
)
def test_a_model_that_is_computed_in_one_way_is_one_system_by_any_path(runs, labels, tmp_path):
    folders = [write(tmp_path / str(k), name, part, **model) for k, (name, part, model) in enumerate(runs)]
    assert [system.label for system in gather([*folders, folders[0]])] == labels


def test_labels_are_of_models_that_are_there(tmp_path):
    folders = [write(tmp_path / name, name, "x") for name in ("clip", "blip")]
    assert [system.label for system in gather(folders, {"clip": "CLIP B/32"})] == ["CLIP B/32", "blip"]
    with raises(RunError, "labels=", "clap", "model"):
        gather(folders, {"clap": "CLIP"})
    for labels in ({"clip": "CLIP", "blip": "CLIP"}, {"clip": "blip"}):  # drawn twice under one name
        with raises(RunError, "labels=", "clip", "blip", labels["clip"]):
            gather(folders, labels)
    with raises(RunError, "run", "named"):
        gather([])
    with raises(RunError, "'y'", "x"):
        System.of(folders[0]).record("y")


def test_reference_models_rank_nothing_unless_they_are_alone(tmp_path):
    ta.evaluate(["demo-encoder", "random", "oracle"], "demo", limit=4, out=tmp_path / "a")
    ta.evaluate("random", "demo", limit=4, out=tmp_path / "b")
    assert [one.label for one in omit_references(gather([tmp_path / "a", tmp_path / "b"]))] == ["demo-encoder"]
    assert len(omit_references(gather([tmp_path / "b"]))) == 1


# The sentence at the end of a comparison: who is better, by how much, of how many items.


def row(difference: float, p_holm: float, metric: str = "group_score", **changes) -> MetricComparison:
    tested: dict[str, Any] = {"only_a": 40, "only_b": 50, "test": "exact McNemar", "detectable": 0.07, **changes}
    return MetricComparison(
        benchmark="demo", metric=metric, n=400, a=0.3, b=0.3 + difference, difference=difference,
        low=difference - 0.03, high=difference + 0.03, method="m", p=p_holm, p_holm=p_holm,
        **tested,
    )  # fmt: skip


def test_the_better_model_has_a_positive_gain_whichever_side_it_is_on():
    for difference, best in ((0.043, "new"), (-0.043, "old")):
        rows = [row(0.5, 0.001, "text_score"), row(difference, 0.004)]
        (found,) = judge_pair("old", "new", rows, 2)
        assert (found.metric, found.best) == ("group_score", (best,))
        other = {"old": "new", "new": "old"}[best]
        assert f"{best} is better than {other} by 4.3 points [1.3, 7.3]" in found.sentence
        assert "400 items" in found.sentence and "p = 0.004, Holm" in found.sentence


def test_judgements_say_signs_items_clusters_the_best_tier_and_those_near_at_a_look():
    (found,) = judge_pair("old", "new", [row(0.025, 0.3, limited_from=900)], 1)
    assert found.best == () and "not shown to differ" in found.sentence
    assert "+2.5 points [-0.5, +5.5]" in found.sentence and "400 of 900 items" in found.sentence
    assert "independent items would show 2.5 points" in found.sentence
    (found,) = judge_pair("old", "new", [row(0.025, 0.3, detectable=None, test="anytime")], 1)
    assert "at every look" in found.sentence and "would show" not in found.sentence
    (found,) = judge_pair("old", "new", [row(1.0, 0.5, clusters=3)], 1)
    assert "400 items in 3 clusters" in found.sentence
    (found,) = judge_pair("old", "new", [row(1.0, 0.5, clusters=400)], 1)
    assert "cluster" not in found.sentence
    tiers = (Tier(1, ("x", "y"), (0.9, 0.8)), Tier(3, ("z",), (0.1,)))
    (found,) = judge_tiers([MetricTiers(benchmark="demo", metric="group_score", n=400, tiers=tiers)])
    assert found.best == ("x", "y") and "Holm over 3 pairs" in found.sentence and "y" in found.sentence
    values = {"x": 0.9, "y": 0.85, "z": 0.1}
    pairs = [
        Comparison(a=a, b=b, rows=(row(0, p, test="anytime").model_copy(update={"a": values[a], "b": values[b]}),))
        for a, b, p in (("x", "y", 0.4), ("x", "z", 0.001), ("y", "z", 0.001))
    ]
    (found,) = judge_leaders([(pair.a, pair.b, pair.rows) for pair in pairs])
    assert found.best == ("x", "y") and "at every look" in found.sentence and "3 tests" in found.sentence


# The gate: what stops it, what passes, what it says it could have seen, and how it is printed.

BENCH = Path(__file__).parents[2] / "bench"


def scored(folder: Path, out: Path, wrong: tuple[int, ...], *, n: int, name: str = "model") -> Path:
    """A run of score files: all items right, but for these, on which both texts fit the first image better."""
    scores = {f"item-{k}": [[1, 1], [0, 0]] if k in wrong else [[1, 0], [0, 1]] for k in range(n)}
    out.parent.mkdir(exist_ok=True)
    return run_scores({f"folder:{folder}": score_file(out.parent / f"{out.name}.csv", scores)}, out, name=name)


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, Path]:
    """Runs on one set of 60 items: of score files by how many are wrong, of one constant and of two random models."""
    folder = tmp_path_factory.mktemp("gate")
    pairs = write_set(folder / "set", n=60)
    made = {f"{n} wrong": scored(pairs, folder / str(n), tuple(range(n)), n=60) for n in (0, 3, 20, 60)}
    made |= {f"random {k}": measured(folder / f"random-{k}", "random", pairs, seed=k) for k in (1, 2)}
    return made | {"constant": measured(folder / "constant", "constant", pairs)}


def test_a_significant_fall_stops_its_reverse_is_an_improvement_and_a_headline_that_cannot_fall_stops_alone(runs):
    found, back = regression_gate(runs["0 wrong"], runs["20 wrong"]), regression_gate(runs["20 wrong"], runs["0 wrong"])
    verdicts = [[row.verdict for row in of.rows if row.metric == "group_score"] for of in (found, back)]
    assert (found.passed, back.passed, verdicts) == (False, True, [["regression"], ["improvement"]])
    assert gate_facts(back)["verdict"].startswith("the gate passes: no regression in 4 headlines of 1 benchmark, ")
    base, other = runs["60 wrong"], runs["random 1"]  # image and group score of the base: none right
    assert regression_gate(other, other).passed
    assert not regression_gate(base, base).passed
    assert {row.verdict for row in regression_gate(base, other).rows} <= {"too few items", "improvement"}
    # Nor does a rise from nothing, though nothing could fall.
    found = regression_gate(runs["constant"], runs["0 wrong"])
    assert {(row.verdict, row.could_see, row.base) for row in found.rows} == {("improvement", None, 0.0)}
    assert found.passed


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


def test_a_limit_stops_a_smaller_fall_and_a_margin_passes_only_what_is_shown_to_fall_by_less(runs):
    base, new = runs["0 wrong"], runs["3 wrong"]
    assert regression_gate(base, new).passed
    found = regression_gate(base, new, max_drop=4.9)
    row = next(row for row in found.rows if row.metric == "group_score")
    assert not found.passed
    assert row.says == "regression: not significant, but beyond --max-drop 4.9"
    assert regression_gate(base, new, max_drop=5).passed  # a fall of exactly 5 points is allowed
    assert regression_gate(base, base, max_drop=0).passed and not regression_gate(base, new, max_drop=0).passed
    base, new = runs["random 1"], runs["random 2"]
    found = regression_gate(base, new, max_drop=0.5)
    assert found.by_chance > 0.5
    assert "by chance alone it stops a model as good as the base" in gate_markdown(found)
    assert regression_gate(base, new, max_drop=60).by_chance < 0.001
    with raises(RunError, "max_drop=", "-1", "0", "100"):
        regression_gate(base, new, max_drop=-1)
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
    check_facts(gate_facts(tight)["verdict"], f"{len(tight.rows)} out-of-margin headlines")
    check_facts(gate_facts(wide)["verdict"], "passes", "by less than")
    # A fall that is significant stays a regression, whatever the margin.
    assert {row.verdict for row in regression_gate(base, runs["20 wrong"], margin=90).rows} >= {"regression"}
    with raises(RunError, "margin=-1", "0"):
        regression_gate(base, new, margin=-1)


@pytest.mark.parametrize(("high", "explained"), [(-0.01, True), (0.01, False)])
def test_an_interval_without_0_beside_no_difference_seen_is_explained(high, explained):
    told = {"benchmark": "demo", "metric": "text_score", "verdict": "no difference seen", "change": -0.05, "low": -0.09}
    text = gate_markdown(GateResult(base="a", new="b", rows=(GateRow(**told, high=high),)))
    assert ("p is corrected" in text) == explained


def test_what_the_new_run_lacks_or_has_of_other_items_stops_and_what_it_adds_does_not(made_set, tmp_path):
    first, second = made_set("first", n=40), made_set("second", n=40)
    both = measured(tmp_path / "both", "random", first, second, seed=1)
    one = measured(tmp_path / "one", "random", first, seed=1)
    found, back = regression_gate(both, one), regression_gate(one, both)
    verdicts = [row.verdict for row in found.rows]
    assert not found.passed and "regression" not in verdicts[:4] and verdicts[4:] == ["missing"]
    assert gate_facts(found)["verdict"] == "the gate stops: 1 missing result"
    assert back.passed and back.added == ("folder:second",)
    measured(tmp_path / "two" / "a", "random", first)
    measured(tmp_path / "two" / "b", "oracle", first)
    with raises(RunError, "2", "(random, oracle)"):
        regression_gate(tmp_path / "two", one)
    same, cut = made_set("same", n=40), made_set("cut", n=40)
    base, new = measured(tmp_path / "base", "random", same, cut, seed=1), tmp_path / "new"
    measured(new / "part", "random", cut, seed=1, limit="30")
    measured(new / "whole", "random", same, seed=1)
    found = regression_gate(base, new)
    (row,) = (row for row in found.rows if row.metric is None)
    assert (found.passed, row.verdict) == (False, "not comparable")
    assert "folder:cut is not the same in both runs" in row.reason
    assert [row.verdict in ("no difference seen", "too few items") for row in found.rows].count(True) == 4


def test_items_that_could_show_no_fall_stop(made_set, tmp_path):
    """Six items, all lost, give p = 0.031: more than three headlines leave to one."""
    few, enough = (scored(made_set(f"{n}", n=n), tmp_path / f"run {n}", (), n=n) for n in (6, 8))
    found = regression_gate(few, few)
    assert (found.passed, {row.verdict for row in found.rows}) == (False, {"too few items"})
    assert "the base is right on so few (6 of 6) that no fall could be seen" in gate_markdown(found)
    assert regression_gate(enough, enough).passed


def test_a_bias_is_shown_and_not_judged():
    """It goes from -1 to 1 and 0 is best, so that to fall is no loss; what it took from Holm the score has again."""
    value = Value(value=1, method="wilson", n=30, clusters=30, average="items")
    values = np.ones((30, 2))
    outcomes = {"both_orders": values, "order_bias": values * [1, -1]}
    record = BenchmarkResult(title="", fingerprint="0", metrics=dict.fromkeys(outcomes, value), origin="here")
    shared = SharedBenchmark("asked", {0: record, 1: record}, np.arange(30).astype(str), (), outcomes)
    system = System("a", {}, Result(run=RUN, model=ModelRecord(name="a"), benchmarks={}))
    found = judge([system, system], [shared], max_drop=1)
    verdicts = [(row.metric, row.verdict) for row in found.rows]
    assert verdicts == [("both_orders", "no difference seen"), ("order_bias", "not tested")]
    assert found.passed and "neither more nor less is better" in found.rows[1].reason
    assert ", each tested one shown" in gate_facts(found.model_copy(update={"margin": 3.0}))["verdict"]
    untied = found.model_copy(update={"margin": 3.0, "rows": found.rows[:1]})
    assert ", each shown to fall by less than 3 points" in gate_facts(untied)["verdict"]


def test_no_model_is_best_by_a_bias(made_set, tmp_path):
    """0 is best: the model that always takes the first option is no tier ahead, and not bold."""
    name = f"choice:folder:{made_set(shape=(1, 2), n=40)}"
    for model, said in {"first": ("1", "1"), "second": ("2", "2"), "fair": ("1", "2")}.items():
        rows = [{"id": f"item-{k}/{order}", "prediction": said[order - 1]} for k in range(40) for order in (1, 2)]
        ta.score(name, write_file(tmp_path / f"{model}.jsonl", rows), name=model, out=tmp_path / model)
    runs = [tmp_path / model for model in ("first", "second", "fair")]
    compared = ta.compare(*runs).record
    assert {of.metric for of in compared.tiers} == {"both_orders", "mean_of_orders"}
    assert {row.metric for pair in compared.pairs for row in pair.rows} >= {"order_bias"}
    table = benchmark_table(gather(runs))
    names = [column.name for column in table.columns]
    best = [(name, row.label) for row in table.rows for name, cell in zip(names, row.cells, strict=True) if cell.best]
    assert best == [("both orders", "fair"), ("mean of orders", "fair")]
    # The column is of no reference model, as it would be for a reader of the JSON.
    assert not any(column["reference"] for column in json.loads(write_json(table))["columns"])


def test_a_fall_of_a_metric_that_is_best_low_is_an_improvement(tmp_path):
    """Of `bias_rate` a rise is the regression, to which limit and margin hold; the most biased leads nothing."""
    fair, biased, near = runs = biased_runs(tmp_path, fair=2, biased=28, near=3)

    def judged(base: Path, new: Path, **limits: float) -> GateRow:
        found = regression_gate(base, new, **limits)
        row = next(row for row in found.rows if row.metric == "bias_rate")
        assert found.passed is not row.fails
        return row

    better, worse = judged(biased, fair), judged(fair, biased)
    assert (better.verdict, better.change) == ("improvement", pytest.approx(-0.65))
    assert (worse.verdict, worse.change) == ("regression", pytest.approx(0.65))
    assert judged(fair, near).verdict == "no difference seen"
    assert "--max-drop 1" in judged(fair, near, max_drop=1).reason and not judged(near, fair, max_drop=1).fails
    assert "--margin 1 takes one below 1" in judged(fair, near, margin=1).reason
    # 38 of 40 are free of the bias, so that a rise can be seen, though hardly a fall.
    assert (seen := judged(fair, fair).could_see) is not None and 0.1 < seen < 0.3
    compared = ta.compare(*runs).record
    assert {of.metric for of in compared.tiers} == {"answer_match"}
    rows = [row for row in compared.pairs[0].rows if row.metric == "bias_rate"]
    (verdict,), (leader,) = judge_pair("fair", "biased", rows, 1), judge_leaders([("fair", "biased", rows)])
    assert verdict.best == leader.best == ("fair",)
    assert "fair is better than biased by 65.0 points" in verdict.sentence
    neither = [row.model_copy(update={"metric": "answered"}) for row in rows]
    (verdict,) = judge_pair("fair", "biased", neither, 1)
    assert not verdict.best and "biased differs from fair" in verdict.sentence and "+65.0" in verdict.sentence
    assert not [*judge_leaders([("fair", "biased", neither)])]
    systems = gather(runs)
    table = benchmark_table(systems)
    assert [column.name for column in table.columns] == ["answer match", "bias rate"]
    assert not any(row.cells[1].best or row.cells[1].near for row in table.rows)
    seconds = Costs("seconds", {"fair": 1.0, "biased": 2.0, "near": 3.0})
    for draw in (
        lambda: draw_tiers(systems, metric="bias_rate"),
        lambda: list_points(systems, seconds, ["biased-eyes"], ["bias_rate"]),
    ):
        with raises(RunError, "bias_rate", "not best high"):
            draw()
    assert [run.label for run in sort_runs(systems, None, "bias_rate")] == ["fair", "near", "biased"]


@pytest.mark.slow
def test_the_command_exits_with_1_and_prints_what_was_asked_for(command, made_set, tmp_path):
    folder = made_set(n=60)
    base = scored(folder, tmp_path / "base", (), n=60, name="@all|x")
    new = scored(folder, tmp_path / "new", tuple(range(20)), n=60)
    check_facts(
        command("compare", base, base, "--gate", code=0).out, f"base = @all|x ({base})", f"new = @all|x ({base})"
    )
    printed, text, document = (
        command("compare", base, new, "--gate", *form, code=1) for form in ((), ("--markdown",), ("--json",))
    )
    assert "the gate stops: " in printed.out
    assert r"base: `@all\|x`; new: `model`" in text.out and "**regression**" in text.out
    assert document.json["passed"] is False and document.json["rows"][0]["says"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("c", "--gate"), ("--gate", "3", "BASE", "NEW")),
        (("--gate", "--markdown", "--json"), ("--markdown", "--json", "format")),
    ],
)
def test_options_that_do_not_fit_are_refused(command, options, message):
    check_facts(command("compare", "a", "b", *options, code=2).err, message)


@pytest.mark.slow
def test_simulated_equals_pass_and_a_planted_fall_of_the_stated_size_is_seen(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    sys.modules.pop("regression_gate", None)
    import regression_gate as bench

    found = bench.measure_setting(bench.Setting(60, 8, 0.3), 30)
    assert found["false_alarms"] <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / 30)
    assert found["seen"] >= 0.65
