"""Metrics of square items of three or more images and as many texts: of each image, of pairs of them, of the full set.

`scores[item, image, text]`; image k belongs to text k. An image is right if its text outscores all others, strictly
and in float32. One array gives What'sUp's three numbers: images alone, pairs (left and right, on and under), and sets.
Each raises `MetricError` for other shapes, and `ScoreError` without an item or for scores that are not finite.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellapart.metrics.metric import Metric, PerItemFunction, Shape, read_scores

_SQUARE, _FOUR = ("nxn",), ("4x4",)


def individual_score(scores: ArrayLike) -> NDArray[np.float64]:
    """Return the share of images that prefer their text to all others: float64 (item,). Chance 1/n.

    Source: What'sUp (Kamath et al. 2023), individual accuracy.

    >>> individual_score([[[3, 1, 1], [0, 2, 1], [1, 1, 0]]]).round(3)
    array([0.667])
    """
    return np.asarray(_share_right(scores, "individual_score").mean(axis=1))


def pair_score(scores: ArrayLike) -> NDArray[np.float64]:
    """Return the share of pairs (images 0 and 1, images 2 and 3) of which both are right: float64 (item,). Chance 1/16.

    Source: What'sUp, pair accuracy: left and right, on and under (or in front and behind).

    >>> pair_score([[[2, 1, 1, 1], [0, 2, 0, 0], [0, 0, 1, 0], [1, 1, 1, 1]]])
    array([0.5])
    """
    return _pairs_of(_share_right(scores, "pair_score", _FOUR))


def set_score(scores: ArrayLike) -> NDArray[np.float64]:
    """Return 1 if every image prefers its text to all others: float64 (item,). Chance 1/n to the power n.

    Source: What'sUp, set accuracy.

    >>> set_score([[[3, 1, 1], [0, 2, 1], [1, 1, 2]], [[3, 1, 1], [0, 2, 1], [1, 1, 1]]])
    array([1., 0.])
    """
    return np.asarray(_share_right(scores, "set_score").prod(axis=1))


def _share_right(
    scores: ArrayLike, name: str, shapes: tuple[str, ...] = _SQUARE, *, neutral: bool = False
) -> NDArray[np.float64]:
    """Return 1 for each image whose text is above all others, or its share of the top: float64 (item, image)."""
    values = read_scores(scores, name, shapes)
    top = values == values.max(axis=2, keepdims=True)
    # Ties are broken within an image's row, so that the images of an item are independent.
    shares = np.diagonal(top, axis1=1, axis2=2) / top.sum(axis=2)
    return np.asarray(shares if neutral else shares == 1, dtype=np.float64)


def _pairs_of(right: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray((right[:, 0] * right[:, 1] + right[:, 2] * right[:, 3]) / 2)


def _neutral_pairs(scores: ArrayLike, name: str) -> NDArray[np.float64]:
    shares = _share_right(scores, name, _FOUR if name == "pair_score" else _SQUARE, neutral=True)
    if name == "pair_score":
        return _pairs_of(shares)
    return np.asarray(shares.mean(axis=1) if name == "individual_score" else shares.prod(axis=1))


def _one_in(shape: Shape) -> float:
    return 1 / shape[0]


def _all_in(shape: Shape) -> float:
    return float(1 / shape[0] ** shape[0])


def _declare_metric(
    strict: PerItemFunction,
    title: str,
    chance: float | Callable[[Shape], float],
    shapes: tuple[str, ...] = _SQUARE,
    *,
    binary: bool = False,
) -> Metric:
    return Metric(
        name=strict.__name__,
        title=title,
        source="What'sUp (Kamath et al. 2023), section 2; its dataset_zoo/aro_datasets.py",
        shapes=shapes,
        strict=strict,
        neutral=partial(_neutral_pairs, name=strict.__name__),
        chance_level=chance,
        binary=binary,
    )


SQUARE_METRICS: tuple[Metric, ...] = (
    _declare_metric(individual_score, "the images that prefer their own text to all others", _one_in),
    _declare_metric(pair_score, "the pairs of images that both prefer their own text to all others", 1 / 16, _FOUR),
    _declare_metric(set_score, "every image prefers its own text to all others", _all_in, binary=True),
)
"""The metrics of square items."""
