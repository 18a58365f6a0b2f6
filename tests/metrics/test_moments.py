"""Boundary grounding: a perfect model, a constant one and a random one get what they must, and F1 is the script's."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tellapart.metrics.moments import (
    COUNT_PROBABILITIES,
    TOLERANCES,
    boundary_accuracy,
    boundary_f1,
    boundary_scores,
    boundary_times,
    frame_times,
    random_accuracy,
)

SECONDS = st.floats(0, 10).map(lambda t: round(t, 2))
GOLD = st.lists(SECONDS, min_size=1, max_size=4)


@st.composite
def queries(draw: st.DrawFn) -> tuple[list[float], list[int], list[float]]:
    times = draw(st.lists(SECONDS, min_size=1, max_size=8, unique=True).map(sorted))
    return times, [draw(st.integers(0, 3)) for _ in times], draw(GOLD)


def test_frames_are_taken_five_times_a_second_and_the_tolerance_is_strict():
    times = frame_times(10.0)
    assert (len(times), times[0], times[-1]) == (50, 0, 9.8)
    assert len(frame_times(9.93)) == 50  # the last one at 9.8
    assert len(frame_times(0.3, rate=10)) == 3
    np.testing.assert_allclose(boundary_times(times)[:3], [0.1, 0.3, 0.5])
    times = frame_times(0.4)
    assert (times.tolist(), boundary_times(times).tolist()) == ([0, 0.2], [0.1])
    assert boundary_scores([1.0, 0.0], [0.0, 2.0]).tolist() == [3.0]
    assert boundary_scores([1.0, 4.0, 0.0], [9.0, 0.0, 2.0]).tolist() == [1.0, 6.0]
    strict, _ = boundary_accuracy([1.0], [0.0], [1.5], tolerances=(0.5, 0.51))
    assert strict.tolist() == [0.0, 1.0]
    # With 5 frames a second the nearest candidate is up to 0.1 s away, and 0.1 s is not nearer than 0.1 s.
    candidates = boundary_times(frame_times(10.0))
    for moment, right in ((4.1, 1.0), (4.15, 1.0), (4.2, 0.0)):
        nearest = -np.abs(candidates - moment).round(6)
        strict, _ = boundary_accuracy(candidates, nearest, [moment], tolerances=(0.1,))
        assert strict[0] == right


@given(st.lists(SECONDS, min_size=1, max_size=30, unique=True), GOLD)
def test_a_constant_model_is_right_only_where_nothing_can_be_wrong(times, gold):
    strict, neutral = boundary_accuracy(times, np.zeros(len(times)), gold)
    near = np.array([[min(abs(t - g) for g in gold) < limit for limit in TOLERANCES] for t in times])
    np.testing.assert_array_equal(strict, near.all(axis=0))
    np.testing.assert_allclose(neutral, near.mean(axis=0), rtol=1e-12)


@given(queries(), st.permutations(range(8)))
def test_strict_is_at_most_neutral_wider_is_easier_and_order_is_nothing(case, order):
    times, scores, gold = case
    strict, neutral = boundary_accuracy(times, scores, gold)
    assert (strict <= neutral).all()
    assert (np.diff(strict) >= 0).all()
    assert (np.diff(neutral) >= 0).all()
    moved = [k for k in order if k < len(times)]
    again = boundary_accuracy([times[k] for k in moved], [scores[k] for k in moved], gold[::-1])
    np.testing.assert_array_equal(again, (strict, neutral))
    for k in (1, 2, None):
        a = boundary_f1(times, scores, gold, predictions=k)
        b = boundary_f1([times[j] for j in moved], [scores[j] for j in moved], gold[::-1], predictions=k)
        np.testing.assert_array_equal(a, b)


@settings(max_examples=30)
@given(GOLD, st.floats(0.05, 4))
def test_random_accuracy_is_the_share_of_the_video_that_is_right(gold, tolerance):
    grid = (np.arange(20_000) + 0.5) / 2000
    near = np.abs(grid[:, None] - np.array(gold)).min(axis=1) < tolerance
    assert random_accuracy(gold, 10.0, (tolerance,))[0] == pytest.approx(near.mean(), abs=1e-3)


def test_random_accuracy_is_the_share_of_a_video_within_each_tolerance():
    assert TOLERANCES == (0.1, 0.2, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0)
    np.testing.assert_allclose(random_accuracy([5.0], 10.0, (20.0,)), [1.0])
    np.testing.assert_allclose(random_accuracy([0.25], 0.5, (0.1,)), [0.4])
    np.testing.assert_allclose(random_accuracy([10.0], 10.0, (1.0,)), [0.1])  # a video's end is in it
    gold = [1.0, 3.5, 9.9]
    each = [random_accuracy(gold, 10.0, (tolerance,))[0] for tolerance in TOLERANCES]
    np.testing.assert_allclose(random_accuracy(gold, 10.0), each, atol=1e-12)
    np.testing.assert_allclose(random_accuracy(gold, 10.0, TOLERANCES[::-1]), each[::-1], atol=1e-12)
    np.testing.assert_allclose(each[:5], np.array([0.6, 1.1, 2.6, 5.1, 6.6]) / 10, atol=1e-12)


@given(queries())
def test_f1_is_the_expectation_of_the_scripts_draw_and_of_one_prediction_the_accuracy(case):
    times, scores, gold = case
    strict, _ = boundary_accuracy(times, scores, gold[:1])
    np.testing.assert_array_equal(boundary_f1(times, scores, gold[:1], predictions=1), strict)
    fixed = [boundary_f1(times, scores, gold, predictions=k) for k in range(1, 9)]
    assert sum(COUNT_PROBABILITIES) == pytest.approx(1, abs=1e-12)
    expected = np.tensordot(COUNT_PROBABILITIES, fixed, 1)
    np.testing.assert_allclose(boundary_f1(times, scores, gold), expected, atol=1e-12)


@pytest.mark.parametrize(
    ("predicted", "gold", "tolerance", "value"),
    [
        ([1.0, 5.0], [1.0, 5.0], 0.1, 1.0),
        ([1.0], [1.0, 5.0], 0.1, 2 / 3),  # precision 1, recall 1/2
        ([1.0, 5.0, 9.0], [1.0], 0.1, 1 / 2),  # precision 1/3, recall 1
        ([9.0], [1.0], 0.5, 0.0),
        # Greedy: the first gold moment takes the prediction that only the second could have used.
        ([2.0, 0.0], [1.2, 2.5], 1.0, 1 / 2),
        ([2.0, 0.5], [1.2, 2.5], 1.0, 1.0),
        ([1.0, 1.2], [1.1, 1.1], 0.2, 2 / 3),  # the same moment marked twice is one
    ],
)
def test_f1_by_hand(predicted, gold, tolerance, value):
    scores = np.arange(len(predicted))[::-1]
    found = boundary_f1(predicted, scores, gold, (tolerance,), predictions=len(predicted))
    assert found[0] == pytest.approx(value, abs=1e-12)


@st.composite
def tied_queries(draw: st.DrawFn) -> tuple[list[float], list[int], list[float]]:
    """Several gold moments close together, and candidates of two scores only: the cut falls among tied ones."""
    seconds = st.integers(0, 24).map(lambda t: t / 4)
    times = draw(st.lists(seconds, min_size=1, max_size=7).map(sorted))
    scores = [draw(st.integers(0, 1)) for _ in times]
    return times, scores, draw(st.lists(seconds, min_size=1, max_size=4))


def f1_of_each_tie_break(case, limit: float, count: int) -> list[float]:
    """F1 of every choice of candidates that the scores allow, each by GEB+'s rule and without a tie."""
    times, scores, gold = case
    count = min(count, len(times))
    cut = sorted(scores, reverse=True)[count - 1]
    sure = [t for t, score in zip(times, scores, strict=True) if score > cut]
    tied = [t for t, score in zip(times, scores, strict=True) if score == cut]
    chosen = [[*sure, *choice] for choice in combinations(tied, count - len(sure))]
    return [boundary_f1(each, np.arange(count)[::-1], gold, (limit,), predictions=count)[0] for each in chosen]


@pytest.mark.parametrize(
    ("times", "scores", "gold", "limit", "count", "value"),
    [
        ([1.0, 5.0], [0.5, 0.5], [1.0], 0.1, 1, 0),  # tied at the cut, the worst one is taken
        ([1.0, 5.0], [0.5, 0.4], [1.0], 0.1, 1, 1),
        ([1.0, 2.0], [0.5, 0.5], [1.5], 0.5, 1, 0),  # both are exactly as far as the tolerance
        # The worst is the one farthest from the gold moment nearest to it: 5, not 10.
        ([5.0, 10.0], [0.5, 0.5], [0.0, 10.0], 0.1, 1, 0),
        # Both tied ones are near a gold moment. The nearer one, at 1.1, is near the one that is taken already.
        ([1.0, 1.1, 2.3], [0.9, 0.5, 0.5], [1.0, 2.0], 0.4, 2, 1 / 2),
        # With 1 and 6 chosen, 5 takes 6 and leaves nothing near 9; if it took 1, the earliest, 6 would be a hit, too.
        ([1.0, 6.0, 7.0], [0.5, 0.5, 0.5], [5.0, 9.0], 5.0, 2, 1 / 2),
        # A sure candidate that is exactly as far as the tolerance is no hit.
        ([0.5, 2.1, 2.2], [0.9, 0.5, 0.5], [1.0, 2.0], 0.5, 2, 1 / 2),
        # Of two sure ones the nearer one is what a tied one must be nearer than.
        ([0.0, 3.0, 4.5, 5.0], [0.9, 0.5, 0.9, 0.5], [5.5, 3.0], 3.0, 3, 4 / 5),
        ([2.5, 5.0, 5.5], [0.5, 0.9, 0.5], [4.0, 5.5], 3.0, 2, 1 / 2),
    ],
)
def test_a_tie_at_the_cut_gets_the_worst_tie_break_by_hand(times, scores, gold, limit, count, value):
    assert boundary_f1(times, scores, gold, (limit,), predictions=count)[0] == value


@settings(max_examples=300)
@given(tied_queries(), st.sampled_from((0.3, 0.5, 1.0, 1.5, 3.0)), st.integers(1, 8))
def test_with_several_gold_moments_a_tie_gets_the_worst_tie_break(case, limit, count):
    times, scores, gold = case
    value = boundary_f1(times, scores, gold, (limit,), predictions=count)[0]
    assert value == min(f1_of_each_tie_break(case, limit, count))
