"""The metric of items with several true texts and a false one: does each true text outscore it?

`scores[item, 0, text]`; the last text is the false one. The comparison is strict and in float32: a tie is never right.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellapart.metrics.metric import Metric, Shape, read_scores

_SHAPES = ("1xm",)


def itt(scores: ArrayLike) -> NDArray[np.float64]:
    """Return 1 if every true text outscores the false one, which is the last: float64 (item,). Chance 1/m.

    Of the m! orders of m scores, one in m has the false text at the bottom.

    Source: SugarCrepe++ (Dumpala et al. 2024), section 4, image-to-text accuracy.

    >>> itt([[[0.9, 0.8, 0.1]], [[0.9, 0.1, 0.1]], [[0.9, 0.1, 0.5]]])
    array([1., 0., 0.])
    """
    flat = read_scores(scores, "itt", _SHAPES)[:, 0, :]
    return np.asarray(flat[:, :-1].min(axis=1) > flat[:, -1], dtype=np.float64)


def _itt_neutral(scores: ArrayLike) -> NDArray[np.float64]:
    """Return one over the number tied at the bottom, 0 if the false text is above it."""
    flat = read_scores(scores, "itt", _SHAPES)[:, 0, :]
    bottom = flat == flat.min(axis=1, keepdims=True)
    return np.asarray(bottom[:, -1] / bottom.sum(axis=1))


def _one_in(shape: Shape) -> float:
    return 1 / shape[1]


SEVERAL_TRUE_METRICS: tuple[Metric, ...] = (
    Metric(
        name="itt",
        title="every true text outscores the false one",
        source="SugarCrepe++ (Dumpala et al. 2024), ITT",
        shapes=_SHAPES,
        strict=itt,
        neutral=_itt_neutral,
        chance_level=_one_in,
        one_false=True,
    ),
)
"""The metrics of items with several true texts."""
