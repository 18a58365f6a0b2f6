"""Effective numbers: against the definition in float64, laws, Kish's own formula; falls are shown as promised."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tellapart.stats.paired import mcnemar, paired_permutation
from tellapart.stats.power import detectable_difference, detectable_fall, effective_items, smallest_seen

items = st.lists(st.tuples(st.floats(-1e3, 1e3, allow_subnormal=False), st.integers(0, 6)), min_size=2, max_size=40)


def reference(values: np.ndarray, clusters: np.ndarray) -> float:
    """n over Kish's design effect, written down once more: single items' variance over that of a ratio of totals."""
    names = np.unique(clusters)
    residuals = np.array([(values[clusters == name] - values.mean()).sum() for name in names])
    of_clusters = len(names) / (len(names) - 1) * (residuals**2).sum() / len(values) ** 2
    of_items = values.var(ddof=1) / len(values)
    return len(values) / (of_clusters / of_items)


def test_it_is_the_definition_in_float64():
    rng = np.random.default_rng(0)
    clusters = np.repeat(np.arange(60), rng.integers(1, 9, 60))
    values = (rng.random(60)[clusters] + rng.random(len(clusters)) > 1).astype(float)
    found = effective_items(values, clusters)
    assert found == pytest.approx(reference(values, clusters), rel=1e-9)
    assert 60 < found < len(values)


@pytest.mark.slow
@given(items, st.randoms(use_true_random=False))
def test_order_names_unit_and_origin_do_not_matter(rows, random):
    values, clusters = (np.array(column) for column in zip(*rows, strict=True))
    found = effective_items(values, clusters)
    order = random.sample(range(len(rows)), len(rows))
    again = effective_items(values[order], np.array([f"cluster {code}" for code in clusters])[order])
    assert found == again
    if found is not None:
        assert found <= len(values)
        if np.ptp(values) > 1:  # else the shift eats the digits that vary
            assert effective_items(4 * values, clusters) == pytest.approx(found, rel=1e-6)
            assert effective_items(values + 8, clusters) == pytest.approx(found, rel=1e-3)


@given(st.lists(st.integers(0, 1), min_size=2, max_size=60).filter(lambda own: len(set(own)) == 2), st.integers(1, 9))
def test_copies_of_an_item_are_worth_one_item(own, copies):
    found = effective_items(np.repeat(own, copies), np.repeat(np.arange(len(own)), copies))
    assert len(own) - 1 <= found <= len(own) + 1e-9


def test_a_correlation_within_clusters_costs_what_kish_says():
    rng = np.random.default_rng(1)
    size, icc = 6, 0.3
    found = []
    for _ in range(40):
        shares = rng.beta(*np.full(2, (1 - icc) / icc / 2), 2000)
        right = (rng.random((2000, size)) < shares[:, None]).ravel()
        found.append(len(right) / effective_items(right, np.repeat(np.arange(2000), size)))
    assert np.mean(found) == pytest.approx(1 + (size - 1) * icc, rel=0.02)


def test_clusters_that_balance_themselves_are_not_believed():
    assert effective_items([1, 0] * 30, np.arange(60) // 2) == 60


def test_what_cannot_be_said_is_none():
    assert effective_items([1, 0, 1], ["a", "a", "a"]) is None
    assert effective_items([1, 1, 1, 1], ["a", "a", "b", "b"]) is None


@settings(max_examples=25)
@given(st.integers(6, 400), st.just(0.0) | st.floats(1e-4, 1.0))
def test_the_smallest_seen_is_the_detectable_difference_where_there_is_one(n, discordance):
    seen = smallest_seen(n, discordance)
    known = detectable_difference(n, discordance) if discordance > 0 else None
    if known is None:
        assert seen is None or seen >= discordance
    else:
        assert seen == pytest.approx(known, abs=1e-6)


def test_a_fall_to_zero_is_always_shown_or_nothing_is():
    """Seven lost items give p = 0.0156; six tests need 0.0083, which takes eight."""
    base = np.r_[np.ones(7), np.zeros(90)]
    assert mcnemar(base, np.zeros(97)).p == pytest.approx(2 * 0.5**7)
    assert detectable_fall(base, base, None) <= 7 / 97
    assert detectable_fall(base, base, None, tests=6) is None
    base[7] = 1
    assert detectable_fall(base, base, None, tests=6) <= 8 / 97


def test_graded_values_in_clusters_show_the_fall_as_often_as_promised():
    rng = np.random.default_rng(3)
    clusters, hits = np.repeat(np.arange(80), 4), 0

    def two(fall: float) -> tuple[np.ndarray, np.ndarray]:
        base = 0.6 + 0.1 * rng.normal(size=80)[clusters]
        return base, base - fall + 0.1 * rng.normal(size=80)[clusters] + 0.1 * rng.normal(size=320)

    fall = float(np.mean([detectable_fall(*two(0.0), clusters) for _ in range(60)]))
    for _ in range(300):
        base, new = two(fall)
        hits += paired_permutation(base, new, clusters, resamples=400) <= 0.05
    assert hits / 300 == pytest.approx(0.8, abs=0.09)
