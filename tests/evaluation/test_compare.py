"""Two runs beside each other: exact tests on the items both measured, and nothing else."""

import json
import subprocess
import sys

import numpy as np
import pytest
from runs import copied_scores, measured
from scipy.stats import binomtest

from facts import raises
from published import winoground
from tellapart.errors import RunError
from tellapart.evaluation.compare import compare, compare_models
from tellapart.evaluation.run import run_scores
from tellapart.evaluation.systems import System
from tellapart.evaluation.verified import read_result
from tellapart.records.samples import read_samples
from tellapart.stats.multiple import holm
from tellapart.stats.paired import anytime_bounds, anytime_p, paired_permutation


def test_comparing_loads_no_model_no_task_and_no_reader_of_sets(made_set, tmp_path):
    folder = made_set(n=8)
    runs = [str(measured(tmp_path / name, name, folder)) for name in ("oracle", "random")]
    code = f"import sys\nimport tellapart as ta\nta.compare(*{runs!r}).show()\nprint('loaded:', *sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {*ran.stdout.rpartition("loaded:")[2].split()}
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


def test_samples_with_a_line_doubled_are_refused(made_set, installed, tmp_path):
    folder = made_set()
    a, b = measured(tmp_path / "a", "colours", folder), measured(tmp_path / "b", "random", folder)
    (path,) = (b / "samples").iterdir()
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines, lines[3]]))
    with raises(RunError, "b/samples/", "13", "12"):
        compare(a, b)


def test_items_in_clusters_are_tested_by_flipping_whole_clusters(made_set, installed, tmp_path):
    folder = made_set(n=40, clusters=13)
    a, b = measured(tmp_path / "a", "colours", folder), measured(tmp_path / "b", "random", folder)
    found = {row.metric: row for row in compare(a, b).rows}
    (name,) = read_result(a).benchmarks
    one, other = read_samples(a, name), read_samples(b, name)
    for metric, row in found.items():
        values = ([sample.outcomes[metric] for sample in run] for run in (one, other))
        assert row.test == "cluster sign flips"
        assert row.p == paired_permutation(*values, [sample.cluster for sample in one])


def test_runs_of_a_similarity_and_of_a_probability_are_compared_by_what_both_have(made_set, installed, tmp_path):
    folder = made_set(shape=(1, 2))
    similar, probable = measured(tmp_path / "a", "colours", folder), measured(tmp_path / "b", "probable", folder)
    assert [row.metric for row in compare(similar, probable).rows] == ["choice_score"]
    # acc and min(p_c, p_f) are no outcomes of right and wrong: they are not tested.
    assert [row.metric for row in compare(probable, probable).rows] == ["pairwise"]


def test_scores_made_elsewhere_are_compared_with_a_run_on_trust(made_set, installed, tmp_path):
    folder = made_set()
    run_here = measured(tmp_path / "here", "colours", folder)
    copy = copied_scores(run_here, tmp_path / "copy.csv")
    elsewhere = run_scores({f"folder:{folder}": copy}, tmp_path / "elsewhere")
    found = compare(run_here, elsewhere)
    assert found.on_trust == ("folder:set",)
    assert all(row.difference == 0 for row in found.rows)
    assert compare(elsewhere, elsewhere).on_trust == ()
    limited = measured(tmp_path / "limited", "colours", folder, limit="5")
    with raises(RunError, "item-1", "item-10", "items"):
        compare(limited, elsewhere)


def test_runs_of_other_items_or_other_clusters_are_refused(made_set, installed, tmp_path):
    folder = made_set()
    whole = measured(tmp_path / "whole", "colours", folder)
    with raises(RunError, "limit=", "runs"):
        compare(whole, measured(tmp_path / "part", "colours", folder, limit="5"))
    listed = folder / "pairs.jsonl"
    listed.write_text(listed.read_text().replace('"cluster": "item-3"', '"cluster": "item-2"'))
    with raises(RunError, "item-3", "items", "clusters"):
        compare(whole, measured(tmp_path / "together", "colours", folder))


def test_a_benchmark_that_one_run_lacks_is_named(made_set, installed, tmp_path):
    first, second = made_set("first"), made_set("second", seed=1)
    both, one = measured(tmp_path / "a", "colours", first, second), measured(tmp_path / "b", "random", first)
    found = compare(both, one)
    assert {row.benchmark for row in found.rows} == {"folder:first"}
    assert found.unshared == ("folder:second",)
    with raises(RunError, "benchmark", "b", "c"):
        compare(one, measured(tmp_path / "c", "random", second))


def test_holm_corrects_over_all_benchmarks(made_set, installed, tmp_path):
    folders = made_set("first", n=30), made_set("second", n=30, seed=1)
    found = compare(measured(tmp_path / "a", "oracle", *folders), measured(tmp_path / "b", "random", *folders))
    assert len(found.rows) == 8
    assert [row.p_holm for row in found.rows] == pytest.approx(holm([row.p for row in found.rows]))


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
    models = compare_models([System.of(a), System.of(b)], anytime=True)
    assert models.tiers == ()
