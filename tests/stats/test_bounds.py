"""Closed forms: against scipy and brute force, their symmetries, and what they must hold."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import stdtrit
from scipy.stats import binom, binomtest

from tellapart.stats import bounds

counts = st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
clusters = st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), min_size=2, max_size=30)


def as_arrays(rows):
    sizes = np.array([size for size, _ in rows], float)
    return np.minimum(sizes, [right for _, right in rows]), sizes


@given(counts)
def test_exact_bounds_are_scipys(count):
    right, n = count
    expected = binomtest(right, n).proportion_ci(method="exact")
    found = bounds.exact_bounds(right / n, n, 0.95)
    assert [float(end) for end in found] == pytest.approx([expected.low, expected.high], abs=1e-9)


@given(counts)
def test_wilsons_interval_is_widened_for_one_to_three_alone(count):
    right, n = count
    n += 40  # fewer have the exact interval
    plain, found = bounds.wilson_bounds(right / n, n, 1.959963984540054), bounds.independent_bounds(right, n, 0.95)
    assert found[0] <= plain[0] + 1e-12
    assert found[1] >= plain[1] - 1e-12
    if not 0 < right <= 3:
        assert float(found[0]) == float(plain[0])
    if not 0 < n - right <= 3:
        assert float(found[1]) == float(plain[1])


@given(st.integers(1, 40).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_few_items_have_the_exact_interval(count):
    right, n = count
    assert bounds.independent_bounds(right, n, 0.95) == bounds.exact_bounds(right / n, n, 0.95)


@given(counts)
def test_right_and_wrong_are_mirrored(count):
    right, n = count
    found, mirrored = bounds.independent_bounds(right, n, 0.95), bounds.independent_bounds(n - right, n, 0.95)
    assert float(found[0]) == pytest.approx(1 - float(mirrored[1]))


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 13, 25, 60, 300])
def test_independent_items_are_covered_at_every_share(n):
    right = np.arange(n + 1)
    low, high = bounds.independent_bounds(right, n, 0.95)
    assert (np.diff(low) >= 0).all()
    assert (np.diff(high) >= 0).all()
    shares = np.linspace(0.0005, 0.9995, 2000)
    covered = [(binom.pmf(right, n, share) * ((low <= share) & (share <= high))).sum() for share in shares]
    assert min(covered) >= 0.92
    # The interval that it replaces does not hold.
    if n >= 8:
        plain = bounds.wilson_bounds(right / n, n, 1.959963984540054)
        rare = 0.176 / n
        assert (binom.pmf(right, n, rare) * ((plain[0] <= rare) & (rare <= plain[1]))).sum() < 0.86


@given(clusters)
def test_degrees_of_freedom_are_those_of_the_quadratic_form(rows):
    weight = as_arrays(rows)[1]
    weight = weight / weight.sum()
    scale = np.diag(weight / np.sqrt(1 - weight)) @ (np.eye(len(weight)) - np.outer(np.ones(len(weight)), weight))
    form = scale @ scale.T
    assert float(bounds.degrees_of_freedom(weight)) == pytest.approx(np.trace(form) ** 2 / (form**2).sum())


@given(clusters)
def test_equal_clusters_have_the_textbooks_variance(rows):
    sums = np.minimum(as_arrays(rows)[0], 4)
    found = bounds.moments_of_mean(sums, np.full(len(sums), 4.0))
    assert float(found.freedom) == pytest.approx(len(sums) - 1)
    assert float(found.variance) == pytest.approx(np.var(sums / 4, ddof=1) / len(sums))


@given(clusters, st.integers(1, 5))
def test_clusters_without_an_item_count_for_nothing(rows, empty):
    sums, sizes = as_arrays(rows)
    padded = bounds.moments_of_mean(np.r_[sums, np.zeros(empty)], np.r_[sizes, np.zeros(empty)])
    found = bounds.moments_of_mean(sums, sizes)
    for name in ("estimate", "variance", "freedom", "skew", "clusters", "items", "differing"):
        assert float(getattr(padded, name)) == pytest.approx(float(getattr(found, name)), rel=1e-6, abs=1e-9)


@given(clusters)
def test_a_share_in_clusters_lies_within_its_interval(rows):
    sums, sizes = as_arrays(rows)
    moments = bounds.moments_of_mean(sums, sizes, outcomes=True)
    low, high = (float(end) for end in bounds.share_bounds(moments, 0.95))
    assert 0 <= low <= float(moments.estimate) + 1e-9
    assert float(moments.estimate) - 1e-9 <= high <= 1
    mirrored = bounds.share_bounds(bounds.moments_of_mean(sizes - sums, sizes, outcomes=True), 0.95)
    assert low == pytest.approx(1 - float(mirrored[1]), abs=1e-6)


@settings(max_examples=50)
@given(st.lists(st.floats(-5, 5), min_size=12, max_size=40), st.floats(-3, 3), st.floats(0.1, 4))
def test_halls_interval_moves_and_scales_with_the_values(values, move, scale):
    array = np.round(np.array(values), 3)
    if np.ptp(array) < 0.1:
        return
    one, other = (bounds.moments_of_mean(each, np.ones(len(each))) for each in (array, scale * array + move))
    low, high = bounds.hall_bounds(one, 0.95)
    assert low < one.estimate < high
    assert bounds.hall_bounds(other, 0.95) == pytest.approx((scale * low + move, scale * high + move), abs=1e-6)
    mirrored = bounds.hall_bounds(bounds.moments_of_mean(-array, np.ones(len(array))), 0.95)
    assert mirrored == pytest.approx((-high, -low), abs=1e-6)


def test_halls_interval_of_symmetric_values_is_students():
    array = np.arange(-10.0, 11.0)
    half = stdtrit(20, 0.975) * array.std(ddof=1) / np.sqrt(21) * np.sqrt(21 / 20)
    assert bounds.hall_bounds(bounds.moments_of_mean(array, np.ones(21)), 0.95) == pytest.approx((-half, half))


@given(st.lists(st.integers(0, 4), min_size=1, max_size=40))
def test_what_differs_from_the_most_frequent_value_is_counted(values):
    array = np.array(values, float)
    assert float(bounds.differing_from_mode(array)) == len(values) - max(values.count(each) for each in values)


def test_skewness_is_the_samples():
    from scipy.stats import skew

    array = np.random.default_rng(0).exponential(size=30)
    expected = skew(array) * (30 / 28) * (29 / 30) ** 0.5  # from n to n - 1 in the variance
    assert float(bounds.skewness(array - array.mean(), np.ones(30, bool))) == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("clusters", [1, 2, 3, 4])
def test_few_clusters_that_are_all_alike_have_the_exact_interval(clusters):
    # Wilson's of two clusters ends at .658; a share of .66 in like items is missed in 11.6 % of data sets.
    counts = np.full(clusters, 4.0)
    low, high = bounds.share_bounds(bounds.moments_of_mean(counts * 0, counts, outcomes=True), 0.95)
    assert (low, high) == (0, pytest.approx(1 - 0.025 ** (1 / clusters)))
