"""Intervals: against references, invariances, the choice of method, and what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr, stdtrit
from scipy.stats import binomtest

from tellapart.stats.bootstrap import _count_picks, cluster_bootstrap
from tellapart.stats.intervals import Column, interval_for, intervals_for, wilson


def lowest(means):
    return means.min(axis=-1)


@given(st.integers(1, 2000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.floats(0.5, 0.999))
def test_wilson_equals_scipy(counts, level):
    found = wilson(*counts, level=level)
    expected = binomtest(*counts).proportion_ci(confidence_level=level, method="wilson")
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-12)


def by_loop(values, codes, resamples, level, seed):
    """The expanded percentile bootstrap, one resample and one cluster at a time."""
    members = {}
    for value, code in zip(values, codes, strict=True):
        members.setdefault(code, []).append(value)
    ordered = sorted((len(group), sum(group)) for group in members.values())
    rng = np.random.default_rng(seed)
    means = []
    for _ in range(resamples):
        drawn = [ordered[pick] for pick in rng.integers(0, len(ordered), len(ordered), dtype=np.uint32)]
        means.append(sum(total for _, total in drawn) / sum(count for count, _ in drawn))
    count = len(ordered)
    tail = ndtr(-((count / (count - 1)) ** 0.5) * stdtrit(count - 1, (1 + level) / 2))
    return np.quantile(means, tail), np.quantile(means, 1 - tail)


# 1,500 clusters take several chunks of draws, 12 take one: the chunks must not show.
@pytest.mark.parametrize(("clusters", "resamples"), [(12, 300), (1500, 800)])
def test_the_bootstrap_equals_a_loop_over_the_same_draws(clusters, resamples):
    rng = np.random.default_rng(3)
    codes = np.concatenate([np.arange(clusters), rng.integers(0, clusters, clusters)])
    values = rng.integers(-8, 9, len(codes)) / 4
    found = cluster_bootstrap(values, codes, resamples=resamples, level=0.9, seed=5)
    expected = by_loop(values.tolist(), codes.tolist(), resamples, 0.9, 5)
    assert (found.low, found.high) == expected


def test_a_cluster_that_is_drawn_more_often_than_a_byte_holds_is_counted_all_the_same():
    assert _count_picks(np.zeros(600, np.uint32), 2).tolist() == [600, 0]


def test_a_metric_has_the_same_interval_alone_and_among_others():
    rng = np.random.default_rng(6)
    codes = rng.integers(0, 40, 200)
    columns = [
        Column(rng.integers(0, 2, 200), binary=True),
        Column(rng.normal(size=200), binary=False),
        Column(rng.integers(0, 2, (200, 2)), binary=True, reduce=lowest),
        Column(np.ones(200), binary=True),
        Column(rng.normal(size=200) * 1e-5, binary=False),
    ]
    together = intervals_for(columns, codes)
    alone = [interval_for(c.values, codes, binary=c.binary, reduce=c.reduce) for c in columns]
    assert together == alone
    assert together[::-1] == intervals_for(columns[::-1], codes)


def test_reduce_sees_components_drawn_together():
    first = (np.random.default_rng(8).random(300) < 0.7).astype(float)
    columns = np.column_stack([first, 1 - first])
    total = cluster_bootstrap(columns, None, reduce=lambda means: means.sum(axis=-1))
    assert (total.low, total.high) == pytest.approx((1, 1))
    smaller = cluster_bootstrap(columns, None, reduce=lowest)
    assert smaller.low == pytest.approx(cluster_bootstrap(1 - first, None).low)


NESTED = np.arange(60) // 2


@pytest.mark.parametrize(
    ("values", "clusters", "binary", "method"),
    [
        (np.arange(60) % 2, None, True, "wilson"),
        (np.arange(60) // 3 % 2, NESTED, True, "cluster bootstrap"),
        (np.arange(60) < 8, NESTED, True, "korn-graubard"),
        (np.arange(60) >= 8, NESTED, True, "korn-graubard"),
        (np.arange(60) // 3 % 2, np.arange(60) // 5, True, "korn-graubard, few clusters (12)"),
        (np.ones(60), NESTED, True, "wilson on clusters"),
        (np.zeros(60), np.zeros(60, int), True, "clopper-pearson on clusters, few clusters (1)"),
        (np.arange(60) % 2, NESTED, True, "wilson on clusters"),
        (np.arange(60) % 2, np.zeros(60, int), True, "none: 1 cluster"),
        (np.linspace(0, 1, 60), None, False, "bootstrap"),
        (np.linspace(0, 1, 60), np.arange(60) // 4, False, "hall, few clusters (15)"),
        (np.full(60, 0.3), None, False, "none: 0 of 60 items differ from the others"),
        ([0.3], None, False, "none: 1 item"),
        (np.linspace(0, 1, 9), None, False, "none: 9 items"),
        (np.arange(60) < 2, None, True, "wilson, rare"),
        (np.exp(np.linspace(0, 9, 60)), None, False, "hall"),
        (np.linspace(0, 1, 60), np.minimum(np.arange(60), 15), False, "none: 16 clusters of very uneven sizes"),
    ],
)
def test_the_method_fits_the_data(values, clusters, binary, method):
    assert interval_for(values, clusters, binary=binary).method == method


def test_unanimous_clusters_count_as_one_trial_each():
    found = interval_for(np.ones(60), NESTED, binary=True)
    alone = wilson(30, 30)
    assert (found.low, found.high) == (alone.low, alone.high)


def test_one_item_has_no_interval_unless_it_is_an_outcome():
    measured, outcome = interval_for([0.25], None, binary=False), interval_for([1], None, binary=True)
    assert measured.low is None
    assert measured.high is None
    assert "1 item" in measured.reason
    assert (round(outcome.low, 3), outcome.high, outcome.reason) == (0.025, 1.0, "")


def test_no_columns_have_no_intervals():
    assert intervals_for([], None) == []
