"""EqSim's deviations: their algebra, and a summary and histogram that lose no item."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tellapart.metrics.equivariance import histogram, summary
from tellapart.metrics.registry import METRICS

v1, v2_text, v2_image = (METRICS[name].per_item for name in ("v1", "v2_text", "v2_image"))

FINITE = st.floats(-1e6, 1e6, width=32)
DEVIATIONS = arrays(np.float64, st.integers(1, 40), elements=FINITE)
EIGHTHS = st.integers(-800, 800).map(lambda k: k / 8)  # differences of these are exact
QUADRUPLES = arrays(np.float32, (5, 2, 2), elements=EIGHTHS)


@given(QUADRUPLES)
def test_the_deviations_are_the_papers_over_entries_image_by_text(scores):
    (s11, s12), (s21, s22) = scores.transpose(1, 2, 0)
    np.testing.assert_array_equal(v1(scores), s12 - s21)
    np.testing.assert_array_equal(v2_text(scores), (s11 - s12) - (s22 - s21))
    np.testing.assert_array_equal(v2_image(scores), (s11 - s21) - (s22 - s12))


@given(QUADRUPLES, st.integers(-8, 8), st.sampled_from([0.25, 2.0, 4.0]))
def test_a_shift_of_all_scores_changes_nothing_and_a_scale_carries_over(scores, shift, scale):
    for deviation in (v1, v2_text, v2_image):
        np.testing.assert_array_equal(deviation(scores + shift), deviation(scores))
        np.testing.assert_array_equal(deviation(scores * scale), deviation(scores) * scale)


@given(DEVIATIONS, st.randoms(use_true_random=False))
def test_the_summary_is_numpys_and_does_not_depend_on_order(values, random):
    got = summary(values)
    assert got.n == len(values)
    assert got.mean == pytest.approx(values.mean(), abs=1e-6)
    assert got.mean_absolute == pytest.approx(np.abs(values).mean(), abs=1e-6)
    assert (got.sd is None) == (len(values) == 1)
    if got.sd is not None:
        assert got.sd == pytest.approx(values.std(ddof=1), abs=1e-6)
    shuffled = values.tolist()
    random.shuffle(shuffled)
    assert summary(shuffled) == got


@given(DEVIATIONS, st.sampled_from([1, 3, 41]), st.one_of(st.none(), st.floats(1e-3, 1e6)))
def test_every_item_is_in_one_bin_or_below_or_above(values, bins, limit):
    h = histogram(values, bins, limit)
    assert len(h.counts) == bins
    assert len(h.edges) == bins + 1
    assert h.below + h.counts.sum() + h.above == len(values)
    if limit is None:
        assert (h.below, h.above) == (0, 0)
    inside = h.counts.sum() / len(values)
    assert (h.density * np.diff(h.edges)).sum() == pytest.approx(inside)


@given(DEVIATIONS, st.sampled_from([1, 3, 41]))
def test_negated_deviations_give_the_mirrored_histogram(values, bins):
    h, mirrored = histogram(values, bins, 1e5), histogram(-values, bins, 1e5)
    np.testing.assert_array_equal(h.counts, mirrored.counts[::-1])
    assert (h.below, h.above) == (mirrored.above, mirrored.below)
    np.testing.assert_array_equal(h.edges, -h.edges[::-1])


@given(arrays(np.float64, st.integers(1, 40), elements=FINITE), st.sampled_from([1, 5, 41]))
def test_an_item_lies_between_the_edges_of_its_bin(values, bins):
    h = histogram(values, bins)
    expected = [((values >= a) & (values <= b)).sum() for a, b in zip(h.edges[:-1], h.edges[1:], strict=True)]
    on_an_edge = np.isin(values, h.edges).sum()
    assert (h.counts <= expected).all()
    assert sum(expected) - h.counts.sum() <= on_an_edge


def test_an_edge_belongs_to_the_bin_farther_from_zero_and_the_limit_to_the_last():
    assert histogram([-3.0, -1.0, 0.0, 1.0, 3.0], bins=3, limit=3.0).counts.tolist() == [2, 1, 2]


def test_the_bins_are_equal_and_hold_what_numpys_hold_away_from_their_edges():
    values = np.random.default_rng(0).normal(scale=3, size=500)
    for bins in (1, 5, 41):
        h = histogram(values, bins, limit=5.0)
        np.testing.assert_allclose(h.edges, np.linspace(-5, 5, bins + 1), atol=1e-12)
        np.testing.assert_array_equal(h.counts, np.histogram(values, np.linspace(-5, 5, bins + 1))[0])
        assert (h.below, h.above) == ((values < -5).sum(), (values > 5).sum())


@pytest.mark.parametrize("limit", [1e-300, 1 / 1e-300])
def test_the_least_and_the_greatest_limit_are_limits(limit):
    assert histogram([0.0, limit], bins=3, limit=limit).counts.tolist() == [0, 1, 1]


def test_deviations_that_are_all_zero_lie_in_the_middle_of_a_histogram_of_some_width():
    h = histogram(np.zeros(4), bins=3)
    assert h.counts.tolist() == [0, 4, 0]
    assert h.edges[-1] == 1
