"""The simulation of intervals: it takes those that are printed, its record holds its goal, and a small part runs."""

import json
from pathlib import Path

import coverage_intervals as bench
import numpy as np
import pytest
from coverage_kinds import BASE_SEED, KINDS

from tellapart.data.scores import Scores
from tellapart.data.task_records import RatingSet, Record
from tellapart.evaluation.evaluate import tabulate_units
from tellapart.models.scoring.score import Scored
from tellapart.stats.intervals import interval_for
from tellapart.stats.paired import paired_difference
from tellapart.tasks.ratings import measure_ratings

BENCH = Path(__file__).parents[2] / "bench"
FILE = BENCH / "records" / "coverage.json"
RECORD = json.loads(FILE.read_text(encoding="utf-8")) if FILE.is_file() else {"cells": {}}
recorded = pytest.mark.skipif(not FILE.is_file(), reason="no record of bench/coverage.py is kept yet")
CELLS = [(kind, cell) for kind, cells in RECORD["cells"].items() for cell in cells]


@recorded
def test_the_record_holds_its_goal_and_lists_intervals_without_a_width_and_too_wide():
    printed = [cell for _, cell in CELLS if cell["coverage"] is not None and cell["printed"] * cell["datasets"] >= 500]
    assert min(cell["coverage"] for cell in printed) == RECORD["lowest"] >= 0.92
    assert all(cell["datasets"] >= 1000 for _, cell in CELLS)
    assert RECORD["highest_alarms"] <= 0.06
    near_all = [
        cell for kind, cell in CELLS if kind == "paired difference of shares" and max(cell["setting"]["only"]) > 0.9
    ]
    assert max(cell["setting"]["only"][0] for cell in near_all) == 0.995
    assert not any("flat" in cell for _, cell in CELLS)
    wide = [
        cell
        for _, cell in CELLS
        if cell["coverage"] is not None
        and cell["printed"] * cell["datasets"] >= 500
        and cell["coverage"] > 0.99
        and cell["width"] > 2 * cell["best"]
    ]
    assert len(wide) == RECORD["wide"] == sum(cell["wide"] for _, cell in CELLS)


@recorded
def test_the_record_is_of_every_kind_and_setting():
    assert RECORD["base_seed"] == BASE_SEED
    assert RECORD["cells"].keys() == KINDS.keys()
    for name, kind in KINDS.items():
        assert RECORD["kinds"][name]["base_seed"] == kind.base_seed
        assert [cell["setting"] for cell in RECORD["cells"][name]] == json.loads(json.dumps(list(kind.settings)))


@pytest.mark.parametrize("correlation", [0.0, 0.6])
@pytest.mark.parametrize(("clusters", "share"), [(6, 0.3), (40, 0.02), (40, 0.5)])
def test_shares_are_simulated_with_the_printed_interval(clusters, share, correlation):
    rng = np.random.default_rng(4)
    counts = rng.integers(1, 9, (4, clusters)).astype(float)
    sums = bench.right_in_clusters(rng, counts, share, correlation)
    low, high = bench.share_intervals(sums, counts)
    for row in range(len(sums)):
        codes = np.repeat(np.arange(clusters), counts[row].astype(int))
        right = np.concatenate(
            [np.arange(n) < k for n, k in zip(counts[row].astype(int), sums[row].astype(int), strict=True)]
        )
        found = interval_for(right, codes, binary=True)
        assert (found.low, found.high) == pytest.approx((low[row], high[row]), abs=1e-9)


def test_measured_means_are_simulated_with_the_printed_interval():
    rng = np.random.default_rng(5)
    for size, bounds in ((8, (0.0, 1.0)), (60, (0.0, 1.0)), (60, None)):
        values = rng.beta(2.0, 5.0, (3, size))
        ones = np.ones(values.shape)
        moments = bench.moments_of_mean(values, ones)
        closed = bench.graded_bounds(moments, 0.95, bounds)
        low, high = bench._where_drawn(bench.holds_for_measured(moments), closed, values, ones)
        for row, one in enumerate(values):
            found = interval_for(one, None, binary=False, bounds=bounds)
            assert (found.low, found.high) == pytest.approx((low[row], high[row]), abs=1e-6)


@pytest.mark.parametrize("only", [(0.1, 0.05), (0.97, 0.02)])
@pytest.mark.parametrize("sizes", ["1", "1 of 2"])
def test_differences_are_simulated_with_the_printed_interval(only, sizes):
    found = bench.difference_of_shares(
        np.random.default_rng(6), 1, clusters=24, sizes=sizes, only=only, correlation=0.0
    )
    kinds = np.random.default_rng(6).multinomial(np.ones((1, 24), int), np.array([*only, 1 - sum(only)]))[0]
    codes = np.arange(24)
    if sizes == "1 of 2":
        kinds, codes = np.concatenate([kinds, 0 * kinds]), np.concatenate([codes, codes])
    real = paired_difference(kinds[:, 0], kinds[:, 1], codes, binary=True)
    assert (float(found.low[0]), float(found.high[0])) == pytest.approx((real.low, real.high))


@pytest.mark.parametrize("metric", ["pairwise_accuracy", "spearman_rho"])
def test_agreement_with_people_is_simulated_with_the_printed_interval(metric):
    found = bench.agreement_with_people(np.random.default_rng(3), 1, metric=metric, prompts=15, noise=1.0)
    scores, ratings = bench.draw_ratings(np.random.default_rng(3), 15, 1.0, labels=False)
    rated = [Record(f"{k}", (f"{k}.png",), (f"{k // 4}",), (rating,)) for k, rating in enumerate(ratings)]
    given = Scored(Scores([one.id for one in rated], scores.astype("f4")[:, None, None], "similarity"))
    real = tabulate_units(measure_ratings(RatingSet("simulated", tuple(rated)), given)).metrics[metric]
    assert (float(found.low[0]), float(found.high[0])) == pytest.approx((real.low, real.high))


@pytest.mark.parametrize(
    ("kind", "setting"),
    [
        ("share of independent items", {"items": 8, "share": 0.02}),
        ("share in clusters, without draws", {"clusters": 20, "sizes": "Pareto", "share": 0.1, "correlation": 0.6}),
        ("mean of groups' shares", {"groups": "1 and 300", "share": "0.98", "correlation": 0.0}),
        ("mean of groups' shares", {"groups": "10 of 1 and 10 of 30", "share": "0.5", "correlation": 0.0}),
        ("mean of measured values", {"clusters": 20, "sizes": "1", "values": "lognormal", "correlation": 0.0}),
        (
            "mean of measured values without bounds",
            {"clusters": 50, "sizes": "1 to 8", "values": "long tails", "correlation": 0.6},
        ),
        ("mean of groups' shares", {"groups": "2 of 1", "share": "0.7", "correlation": 0.0}),
        ("mean of groups' means", {"groups": "1 and 300", "values": "soft accuracy, right or wrong"}),
        ("mean of groups' means", {"groups": "2 of 1", "values": "soft accuracy, right or wrong"}),
        ("paired difference of shares", {"clusters": 24, "sizes": "1", "only": (0.97, 0.0), "correlation": 0.0}),
        ("share in clusters, without draws", {"clusters": 2, "sizes": "4", "share": 0.66, "correlation": 0.95}),
        ("Cohen's kappa", {"units": 20, "shares": (0.9, 0.1), "kappa": 0.6}),
        ("share of a hidden benchmark", {"clusters": 50, "sizes": "Pareto", "share": 0.1, "correlation": 0.6}),
    ],
)
def test_a_few_settings_cover_here_and_now(kind, setting):
    found = KINDS[kind].simulate(np.random.default_rng(7), 400, **setting)
    covered = ((found.low <= found.truth) & (found.truth <= found.high))[~np.isnan(found.low)]
    assert covered.mean() >= 0.9  # the record has the sharper number; 400 data sets leave a hundredth or two open
