"""Texts in an order: does an image agree with each of its texts more than with the next one?

Of a set whose items have one image and texts from the most to the least true of it, as Half-Truths: all of it, a part
of it, and that part with a false detail. All texts must be in their places.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellapart.metrics.metric import Metric, Shape, read_scores
from tellapart.tasks.pairs import PAIRS, measure_pairs
from tellapart.tasks.registry import HEADLINES

_SHAPES = ("1xm",)


def ordering_score(scores: ArrayLike) -> NDArray[np.float64]:
    """Return 1 if every text outscores the next one: float64 (item,). A tie is never right; chance is 1/m!.

    Args:
        scores: `(item, 1, text)`, the most true text first.

    Raises:
        MetricError: the items are not 1xm.
        ScoreError: no item, or a score that is not finite.

    Source: Half-Truths (Kargi et al. 2026), correct ordering rate of its scripts/evaluate_half_truth.py.

    >>> ordering_score([[[0.9, 0.5, 0.1]], [[0.9, 0.1, 0.5]], [[0.9, 0.5, 0.5]]])
    array([1., 0., 0.])
    """
    flat = read_scores(scores, "ordering_score", _SHAPES)[:, 0, :]
    return np.asarray((flat[:, :-1] > flat[:, 1:]).all(axis=1), dtype=np.float64)


def _one_of_all_orders(shape: Shape) -> float:
    return 1 / math.factorial(shape[1])


_ORDERING = Metric(
    name="ordering_score",
    title="every text outscores the next one, which is less true",
    source="Half-Truths (Kargi et al. 2026), correct ordering rate",
    shapes=_SHAPES,
    strict=ordering_score,
    chance_level=_one_of_all_orders,
)

ORDERED_TEXTS = replace(
    PAIRS,
    name="ordered-texts",
    title="an image with texts from the most to the least true of it",
    metrics=(_ORDERING,),
    headlines=HEADLINES["ordered-texts"],
    measure=partial(measure_pairs, metrics=(_ORDERING,)),
    accepts=(),
)
