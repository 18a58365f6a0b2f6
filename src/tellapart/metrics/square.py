"""Metrics of square items of three or more images and as many texts: of each image, of pairs of them, of the full set.

`scores[item, image, text]`; image k belongs to text k. An image is right if its text outscores all others, strictly
and in float32. One array gives What'sUp's three numbers: images alone, pairs (left and right, on and under), and sets.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellapart.metrics.metric import Metric, Shape, read_scores

_Values = NDArray[np.float64]


def _measure(
    scores: ArrayLike, name: str, shapes: tuple[str, ...], average: Callable[[_Values], _Values], *, neutral: bool
) -> _Values:
    """Average over the images of an item whether each one's text is above all others, or its share of the top."""
    values = read_scores(scores, name, shapes)
    top = values == values.max(axis=2, keepdims=True)
    # Ties are broken within an image's row, so that the images of an item are independent.
    shares = np.diagonal(top, axis1=1, axis2=2) / top.sum(axis=2)
    return np.asarray(average(np.asarray(shares if neutral else shares == 1, dtype=np.float64)))


def _mean(right: _Values) -> _Values:
    return np.asarray(right.mean(axis=1))


def _mean_of_pairs(right: _Values) -> _Values:
    return np.asarray((right[:, 0] * right[:, 1] + right[:, 2] * right[:, 3]) / 2)


def _all(right: _Values) -> _Values:
    return np.asarray(right.prod(axis=1))


def _one_in(shape: Shape) -> float:
    return 1 / shape[0]


def _all_in(shape: Shape) -> float:
    return float(1 / shape[0] ** shape[0])


def _declare_metric(
    name: str,
    title: str,
    average: Callable[[_Values], _Values],
    chance: float | Callable[[Shape], float],
    shapes: tuple[str, ...] = ("nxn",),
) -> Metric:
    measure = partial(_measure, name=name, shapes=shapes, average=average)
    return Metric(
        name,
        title,
        "What'sUp (Kamath et al. 2023), section 2; its dataset_zoo/aro_datasets.py",
        shapes,
        strict=partial(measure, neutral=False),
        neutral=partial(measure, neutral=True),
        chance_level=chance,
        binary=average is _all,
    )


SQUARE_METRICS: tuple[Metric, ...] = (
    _declare_metric("individual_score", "the images that prefer their own text to all others", _mean, _one_in),
    _declare_metric(
        "pair_score", "the pairs of images that both prefer their own text to all others", _mean_of_pairs, 1 / 16,
        ("4x4",),
    ),
    _declare_metric("set_score", "every image prefers its own text to all others", _all, _all_in),
)  # fmt: skip
"""The metrics of square items; pairs are the images 0 and 1, and the images 2 and 3."""
