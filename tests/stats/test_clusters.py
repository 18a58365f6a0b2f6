"""Cluster totals: exact sums, canonical order, and what is refused."""

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tellapart.stats.clusters import ClusterTotals

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
