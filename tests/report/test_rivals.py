"""Models of one benchmark against each other: the tests of `compare`, over all pairs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tellapart.evaluation.compare import compare
from tellapart.records.run_folder import write_result
from tellapart.records.samples import write_samples
from tellapart.report.conclusions import ALPHA, MOST_TESTED, own_models, rivals_of
from tellapart.report.sections import ReportRun, Section, sections
from tellapart.stats.multiple import holm


def section_of(runs: list[ReportRun]) -> Section:
    (section,) = sections(runs)
    return section


def in_clusters(run: ReportRun, size: int) -> ReportRun:
    samples = [replace(sample, cluster=f"c{k // size}") for k, sample in enumerate(run.samples["shapes"])]
    return ReportRun(run.result, {"shapes": samples}, run.read_image)


@pytest.mark.few(2)
@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("seed", [2, 1])  # with seed 1 the runs are the same: a difference of nothing
def test_two_models_have_the_rows_of_compare(make_run, tmp_path: Path, size, seed) -> None:
    runs = [in_clusters(make_run(model=f"m{k}", seed=s, n=120), size) for k, s in enumerate((1, seed))]
    folders = [tmp_path / str(k) for k in range(2)]
    for folder, run in zip(folders, runs, strict=True):
        write_result(folder, run.result)
        write_samples(folder, "shapes", run.samples["shapes"])
    (duel,) = rivals_of(section_of(runs)).duels
    swapped = duel.a.label == "m1"
    expected = compare(*(reversed(folders) if swapped else folders)).rows
    assert [row.metric for row in expected] == list(duel.rows)
    numbers = ("n", "a", "b", "difference", "low", "high", "only_a", "only_b", "p", "p_holm", "detectable")
    for row in expected:
        own = duel.rows[row.metric]
        assert [getattr(own, name) for name in numbers] == pytest.approx([getattr(row, name) for name in numbers])
        assert (own.benchmark, own.method, own.test) == (row.benchmark, row.method, row.test)


def test_p_is_corrected_over_all_pairs_and_metrics(make_run) -> None:
    runs = [make_run(model=name, skill=skill, seed=skill, n=90) for skill, name in enumerate("abc")]
    found = rivals_of(section_of(runs))
    assert [entry.label for entry in found.ranking] == ["c", "b", "a"]
    assert [(duel.b.label, duel.a.label) for duel in found.duels] == [("c", "b"), ("c", "a"), ("b", "a")]
    rows = [row for duel in found.duels for row in duel.rows.values()]
    assert found.tests == len(rows) == 12
    assert np.allclose([row.p_holm for row in rows], holm([row.p for row in rows]))
    told = [duel.rows["group_score"].p_holm <= ALPHA for duel in found.duels[:2]]
    assert found.distinct("group_score") == dict(zip((1, 0), told, strict=True))
    assert found.distinct("no_metric") == {}


def test_reference_models_are_no_rivals_unless_there_are_no_others(make_run) -> None:
    runs = [make_run(model="mine"), make_run(model="random", seed=3), make_run(model="oracle", skill=9)]
    assert rivals_of(section_of(runs)).duels == ()
    assert [entry.label for entry in own_models(section_of(runs))] == ["mine"]
    assert [entry.label for entry in own_models(section_of(runs[1:]))] == ["random", "oracle"]


@pytest.mark.slow
def test_the_first_models_are_tested_and_the_others_counted(make_run) -> None:
    runs = [make_run(model=f"m{k}", skill=k / 4, seed=k, tags=(), with_images=False) for k in range(MOST_TESTED + 2)]
    found = rivals_of(section_of(runs))
    assert (len(found.ranking), found.untested, len(found.duels)) == (MOST_TESTED + 2, 2, 28)
    assert found.tests == 28 * 4


@pytest.mark.slow
def test_fewer_models_are_tested_where_flips_would_take_minutes(make_run, monkeypatch) -> None:
    monkeypatch.setattr("tellapart.report.conclusions._MOST_FLIPPED", 30 * 3 * 4)
    runs = [in_clusters(make_run(model=f"m{k}", seed=k, n=60), 2) for k in range(4)]
    assert (len(rivals_of(section_of(runs)).duels), rivals_of(section_of(runs)).untested) == (3, 1)


def test_a_p_that_no_flip_reached_is_a_bound(make_run) -> None:
    right, wrong = np.float32([[0.9, 0.1], [0.1, 0.9]]), np.float32([[0.1, 0.9], [0.9, 0.1]])
    runs = [
        in_clusters(make_run(model=name, n=120, scores=np.tile(scores, (120, 1, 1))), 2)
        for name, scores in (("good", right), ("bad", wrong))
    ]
    (duel,) = rivals_of(section_of(runs)).duels
    assert {row.p_holm_text for row in duel.rows.values()} == {"<= 0.0004"}
