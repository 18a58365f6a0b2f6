"""The Pareto front equals its definition, whatever ties and gaps the points have."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from facts import raises
from tellapart.errors import MetricError
from tellapart.stats.pareto import pareto_best, pareto_front

GRID = st.sampled_from([0.0, 0.25, 0.5, 1.0, math.nan])  # few values, so that points tie often
POINTS = st.integers(1, 3).flatmap(lambda k: st.lists(st.lists(GRID, min_size=k, max_size=k), min_size=1, max_size=8))


def dominates(one: list[float], other: list[float]) -> bool:
    return all(a >= b for a, b in zip(one, other, strict=True)) and one != other


@given(POINTS)
def test_the_front_is_what_no_point_dominates_and_holds_the_first_of_the_best_means(points):
    measured = [point for point in points if not any(map(math.isnan, point))]
    expected = [point in measured and not any(dominates(other, point) for other in measured) for point in points]
    assert pareto_front(points).tolist() == expected
    means = [-1.0 if any(map(math.isnan, point)) else float(np.mean(point)) for point in points]
    if max(means) < 0:
        with raises(MetricError, "finite", "objective"):
            pareto_best(points)
        return
    best = pareto_best(points)
    assert best == means.index(max(means))
    assert pareto_front(points)[best]
