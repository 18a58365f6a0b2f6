"""The Pareto front: the points that no other point dominates."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellapart.errors import MetricError


def pareto_front(scores: ArrayLike) -> NDArray[np.bool_]:
    """Return which points no other point dominates: bool `(point,)`, of scores `(point, objective)`, higher is better.

    A point dominates another if it is nowhere lower and somewhere higher. Equal points do not dominate each other: all
    of them are on the front, or none. A point with a score that is not finite was not measured: it is never on the
    front and dominates nothing.

    >>> pareto_front([[0.2, 0.9], [0.6, 0.6], [0.5, 0.6], [0.6, 0.6], [np.nan, 1.0]])
    array([ True,  True, False,  True, False])
    """
    points = _check_points("pareto_front", scores)
    complete: NDArray[np.bool_] = np.logical_and.reduce(np.isfinite(points), axis=1)
    front = complete.copy()
    for row in np.flatnonzero(complete):
        better = (points >= points[row]).all(axis=1) & (points > points[row]).any(axis=1)
        front[row] = not (better & complete).any()
    return front


def pareto_best(scores: ArrayLike) -> int:
    """Return the index of the front's point with the greatest mean over objectives; the first of equal ones.

    Every objective weighs the same, so they must be in one unit (for example shares).

    >>> pareto_best([[0.2, 0.9], [0.6, 0.6], [0.7, 0.5], [np.nan, 1.0]])
    1
    """
    points, front = _check_points("pareto_best", scores), pareto_front(scores)
    if not front.any():
        raise MetricError(f"pareto_best: none of {len(points)} points has a finite score for every objective")
    # Equal points are added in the same order, so their means are equal to the last bit, and `argmax` takes the first.
    means = np.where(front, np.where(front[:, None], points, 0.0).mean(axis=1), -np.inf)
    return int(np.argmax(means))


def _check_points(call: str, scores: ArrayLike) -> NDArray[np.float64]:
    try:
        points = np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise MetricError(f"{call}: expected numbers (point, objective); got none ({error})") from error
    if points.ndim != 2 or points.size == 0:
        raise MetricError(f"{call}: expected numbers (point, objective); got an array of shape {points.shape}")
    return points
