"""Visual grounding: intersection over union of predicted and gold boxes, by either of the two rules in use.

Boxes are x, y, width, height, the corner with the smallest x and y first. `plain` takes a box as a region of the
plane. `inclusive` is the rule of RefCOCO's tools, X-VLM and VLUE: coordinates name pixels, the last one belongs to
the box, and an overlap of a single row or column of pixels counts as none. In integer pixels they differ only there.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellapart.data.scores import as_numbers, expect_finite, join_names
from tellapart.errors import MetricError, ScoreError

Rule = Literal["inclusive", "plain"]


def intersection_over_union(predicted: ArrayLike, gold: ArrayLike, rule: Rule = "inclusive") -> NDArray[np.float64]:
    """Return the intersection over union of each predicted box with its gold box: float64 `(box,)`, in [0, 1].

    Boxes are x, y, width, height in pixels, `(box, 4)`. A predicted box without area (a width or height that is 0 or
    negative) overlaps nothing and gets 0; every gold box has an area.

    Source: VLUE `xvlm/refTools` (`computeIoU`).

    >>> intersection_over_union([[0, 0, 4, 4]], [[2, 0, 4, 4]])
    array([0.33333333])
    >>> intersection_over_union([[0, 0, 4, 4]] * 2, [[3, 0, 4, 4]] * 2, "plain").round(3)
    array([0.143, 0.143])
    """
    boxes, true = _check_boxes("predicted", predicted), _check_boxes("gold", gold)
    if rule not in get_args(Rule):
        raise MetricError(f"no rule {rule!r} for boxes; use one of {', '.join(get_args(Rule))}")
    if len(boxes) != len(true) or len(true) == 0:
        raise ScoreError(f"{len(boxes)} predicted boxes for {len(true)} gold boxes; give one for each")
    flat = np.flatnonzero((true[:, 2:] <= 0).any(axis=1))
    if len(flat):
        raise MetricError(
            f"{len(flat)} gold boxes have no area: rows {join_names([str(row) for row in flat])}; repair them"
        )
    real: NDArray[np.bool_] = np.asarray((boxes[:, 2:] > 0).all(axis=1))
    size = np.where(real[:, None], boxes[:, 2:], 0)  # a box without area spans nothing below
    low = np.maximum(boxes[:, :2], true[:, :2])
    last = 1 if rule == "inclusive" else 0
    span = np.minimum(boxes[:, :2] + size - last, true[:, :2] + true[:, 2:] - last) - low
    shared = np.where((span > 0).all(axis=1), (span + last).prod(axis=1), 0)
    return np.asarray(shared / (size.prod(axis=1) + true[:, 2:].prod(axis=1) - shared))


def box_accuracy(
    predicted: ArrayLike, gold: ArrayLike, threshold: float = 0.5, rule: Rule = "inclusive"
) -> NDArray[np.float64]:
    """Return 1 if the intersection over union is at least `threshold`: float64 `(box,)`.

    Source: VLUE section 3.1 (accuracy at 0.5, `>=`).

    >>> box_accuracy([[0, 0, 10, 10], [0, 0, 10, 4]], [[0, 0, 10, 20], [0, 0, 10, 10]])
    array([1., 0.])
    """
    if not 0 < threshold <= 1:
        raise MetricError(f"box_accuracy: the threshold must lie in (0, 1]; got {threshold}")
    return np.asarray(intersection_over_union(predicted, gold, rule) >= threshold, dtype=np.float64)


def from_centres(boxes: ArrayLike, sizes: ArrayLike) -> NDArray[np.float64]:
    """Convert boxes from centre x, centre y, width, height as shares of images of these sizes to pixels (DETR, X-VLM).

    >>> from_centres([[0.5, 0.5, 0.5, 1.0]], [[200, 100]])
    array([[ 50.,   0., 100., 100.]])
    """
    shares = _check_boxes("predicted", boxes)
    size = np.asarray(sizes, dtype=np.float64)
    if size.shape != (len(shares), 2) or not np.isfinite(size).all():
        raise ScoreError(f"from_centres needs width and height of each image (box, 2); got shape {size.shape}")
    pixels = shares * np.tile(size, 2)
    pixels[:, :2] -= pixels[:, 2:] / 2
    return pixels


def _check_boxes(noun: str, values: ArrayLike) -> NDArray[np.float64]:
    boxes = as_numbers(values, f"{noun} boxes", "(box, 4)", kinds="iuf").astype(np.float64)
    expect_finite(boxes, f"{noun} boxes", "boxes")
    return boxes
