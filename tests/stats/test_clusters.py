"""Cluster totals: exact sums, canonical order, and what is refused."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts import raises
from tellapart.errors import MetricError
from tellapart.stats.clusters import ClusterTotals, check_level, check_values

finite = st.floats(-1e6, 1e6, allow_subnormal=False)


@given(st.lists(st.tuples(finite, st.integers(0, 4)), min_size=1, max_size=40), st.randoms(use_true_random=False))
def test_totals_are_the_same_bits_in_any_order_and_under_any_names(rows, random):
    totals = ClusterTotals.of("test", [value for value, _ in rows], [code for _, code in rows])
    names = random.sample(["ant", "bee", "cat", "dog", "eel"], 5)
    shuffled = random.sample(rows, len(rows))
    again = ClusterTotals.of("test", [value for value, _ in shuffled], [names[code] for _, code in shuffled])
    assert totals.sums.tobytes() == again.sums.tobytes()
    assert totals.counts.tobytes() == again.counts.tobytes()


@given(st.lists(finite, min_size=1, max_size=60))
def test_the_grid_costs_less_than_a_billionth_of_the_largest_value(values):
    totals = ClusterTotals.of("test", values, [0] * len(values))
    exact = sum(map(Fraction, values)) / len(values)
    found = Fraction(float(totals.means(totals.sums.sum(axis=0), totals.items)[0]))
    assert abs(found - exact) <= Fraction(max(map(abs, values))) * Fraction(1, 10**9)


@given(st.lists(st.integers(0, 1), min_size=1, max_size=60))
def test_sums_of_outcomes_are_exact(right):
    totals = ClusterTotals.of("test", right, [0] * len(right))
    assert totals.means(totals.sums, 1)[0, 0] == sum(right)


def test_every_sum_that_a_resample_can_make_is_a_whole_number_that_float64_holds():
    values = np.random.default_rng(0).normal(size=500)
    codes = np.arange(500) // 5
    totals = ClusterTotals.of("test", values, codes)
    worst = len(totals) * totals.counts.max() * np.ldexp(np.abs(values).max(), totals.shift)
    assert worst < 2**53
    assert (totals.sums == np.rint(totals.sums)).all()


@pytest.mark.parametrize(
    ("values", "clusters", "message"),
    [
        ([], [], ("(0,)", "shape")),
        ([1.0, np.nan, np.inf], None, ("2", "1", "items", "finite")),
        (["a"], None, ("<U1", "array")),
        ([[[1.0]]], None, ("(item,)", "(item, component)", "(1, 1, 1)")),
        ([1.0, 2.0], ["a"], ("2", "1", "items", "clusters")),
        ([1.0, 2.0], [0.5, 1.5], ("float64", "integer")),
        ([1.0, 2.0], ["a", None], ("object", "integer")),
        ([1.0, 2.0], [["a"], ["b"]], ("(2, 1)", "shape")),
    ],
)
def test_bad_input_is_named(values, clusters, message):
    with raises(MetricError, message):
        ClusterTotals.of("test", values, clusters)


def test_a_value_that_is_no_outcome_is_named():
    with raises(MetricError, "0", "1", "0.25"):
        check_values("test", [1, 0, 0.25], binary=True)


@pytest.mark.parametrize("level", [0, 1, 95, -0.1, float("nan")])
def test_a_level_outside_its_range_is_refused(level):
    with raises(MetricError, "(0, 1)", "level"):
        check_level("test", level)
