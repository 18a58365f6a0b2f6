"""Many models beside each other: every pair is the comparison of two runs, corrected over all of them."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from runs import copied_scores

from facts import raises
from published import winoground
from tellapart.errors import RunError
from tellapart.evaluation.compare import compare, compare_models, rank_outcomes
from tellapart.evaluation.run import Settings, run, run_scores
from tellapart.evaluation.systems import System
from tellapart.evaluation.verified import read_result
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.records.samples import read_samples
from tellapart.stats.multiple import holm
from tellapart.stats.paired import mcnemar, paired_permutation, tiers

MODELS = ("colours", "random", "oracle")


def systems(folders: dict[str, Path]) -> list[System]:
    return [replace(System.of(folder), label=name) for name, folder in folders.items()]


def measured(out: Path, *folders: Path, models: tuple[str, ...] = MODELS, limit: str | None = None) -> dict[str, Path]:
    """Run models on pair sets; return model -> its run folder."""
    settings = Settings(models=models, benchmarks=tuple(f"folder:{folder}" for folder in folders), limit=limit)
    return dict(zip(models, run(settings, out, store=EmbeddingStore(None)), strict=True))


@pytest.mark.slow
def test_every_pair_is_the_comparison_of_its_two_runs_but_for_holm(made_set, installed, tmp_path):
    folders = measured(tmp_path / "run", made_set("first", n=30), made_set("second", n=30, seed=1, clusters=9))
    found = compare_models(systems(folders))
    assert [(pair.a, pair.b) for pair in found.pairs] == [
        ("colours", "random"),
        ("colours", "oracle"),
        ("random", "oracle"),
    ]
    rows = [row for pair in found.pairs for row in pair.rows]
    assert len(rows) == 3 * 2 * 4
    assert [row.p_holm for row in rows] == holm([row.p for row in rows]).tolist()
    for pair in found.pairs:
        alone = compare(folders[pair.a], folders[pair.b])
        assert [row.model_copy(update={"p_holm": 1.0}) for row in pair.rows] == [
            row.model_copy(update={"p_holm": 1.0}) for row in alone.rows
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
        assert list(ranking.tiers) == tiers(outcomes, None)
        assert ranking.tiers[0].names == ("human",)
    assert [ranking.metric for ranking in found.tiers] == ["text_score", "image_score", "group_score", "match_score"]


def test_with_a_baseline_each_model_has_one_row_a_metric_and_the_correction_is_over_these(
    made_set, installed, tmp_path
):
    folders = measured(tmp_path / "run", made_set(n=30))
    found = compare_models(systems(folders), baseline="random")
    assert [(pair.a, pair.b) for pair in found.pairs] == [("random", "colours"), ("random", "oracle")]
    rows = [row for pair in found.pairs for row in pair.rows]
    assert [row.p_holm for row in rows] == holm([row.p for row in rows]).tolist()
    assert found.tiers == () and found.baseline == "random"
    with raises(RunError, "model", "'randm'", "'random'"):
        compare_models(systems(folders), baseline="randm")


def test_differences_by_tag_are_those_of_its_items_and_are_corrected_with_the_others(made_set, installed, tmp_path):
    folders = measured(tmp_path / "run", made_set(n=44, clusters=22), models=("colours", "random"))
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


def test_items_without_the_tag_are_in_no_subset_and_sets_without_it_are_named(made_set, installed, tmp_path):
    first, second = made_set("first"), made_set("second", seed=1)
    listed = second / "pairs.jsonl"
    listed.write_text(listed.read_text().replace('"side": "left"', '"place": "left"'))
    folders = measured(tmp_path / "run", first, second, models=("colours", "random"))
    found = compare(*folders.values(), by="side")
    assert {row.benchmark for row in found.rows} == {"folder:first"}
    assert [(row.subset, row.n) for row in found.rows] == [(None, 12), ("left", 6)] * 4
    assert found.untagged == ("folder:second",)
    with raises(RunError, "'sid'", "'side'", "type"):
        compare(*folders.values(), by="sid")


def test_a_tag_of_too_many_values_is_no_breakdown(made_set, installed, tmp_path):
    folder = made_set(n=70)
    listed = folder / "pairs.jsonl"
    lines = [line.replace('"type": "', f'"type": "{k}') for k, line in enumerate(listed.read_text().splitlines())]
    listed.write_text("\n".join(lines) + "\n")
    folders = measured(tmp_path / "run", folder, models=("colours", "random"))
    with raises(RunError, "'type'", "70", "64"):
        compare(*folders.values(), by="type")


def test_models_that_share_some_benchmarks_are_compared_on_those(made_set, installed, tmp_path):
    first, second = made_set("first"), made_set("second", seed=1)
    folders = measured(tmp_path / "both", first, second, models=("colours", "random"))
    folders |= measured(tmp_path / "one", second, models=("oracle",))
    found = compare_models(systems(folders))
    counts = {(pair.a, pair.b): (len(pair.rows), pair.unshared) for pair in found.pairs}
    apart = ("folder:first",)
    assert counts == {
        ("colours", "random"): (8, ()),
        ("colours", "oracle"): (4, apart),
        ("random", "oracle"): (4, apart),
    }
    assert [len(sum((tier.names for tier in each.tiers), ())) for each in found.tiers] == [2, 2, 2, 2, 3, 3, 3, 3]


def test_with_a_baseline_only_its_benchmarks_are_read(made_set, installed, tmp_path):
    first, second = made_set("first"), made_set("second", seed=1)
    folders = measured(tmp_path / "first", first, models=("colours",))
    folders |= measured(tmp_path / "both", first, second, models=("random",))
    (part,) = measured(tmp_path / "part", second, models=("oracle",), limit="5").values()
    with raises(RunError, "runs", "second"):
        compare_models(systems(folders | {"oracle": part}))
    found = compare_models(systems(folders | {"oracle": part}), baseline="colours")
    assert [(pair.a, pair.b) for pair in found.pairs] == [("colours", "random")]
    with raises(RunError, "benchmark", "share", "folder"):
        compare_models(systems({"colours": folders["colours"], "oracle": part}), baseline="oracle")


def test_a_third_run_on_other_content_is_refused_also_where_the_first_is_on_trust(made_set, installed, tmp_path):
    folder = made_set()
    folders = measured(tmp_path / "run", folder, models=("colours", "random"))
    copy = copied_scores(folders["colours"], tmp_path / "copy.csv")
    elsewhere = run_scores({f"folder:{folder}": copy}, tmp_path / "elsewhere")
    trusted = compare_models(systems({"elsewhere": elsewhere} | folders))
    assert [pair.on_trust for pair in trusted.pairs] == [("folder:set",), ("folder:set",), ()]
    listed = folder / "pairs.jsonl"
    listed.write_text(re.sub(r'"texts": \["', '"texts": ["another ', listed.read_text()))
    changed = measured(tmp_path / "changed", folder, models=("oracle",))
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


def test_one_model_is_no_comparison(made_set, installed, tmp_path):
    with raises(RunError, "comparison", "models"):
        compare_models([System("mine", {}, read_result(measured(tmp_path / "a", made_set())["colours"]))])
