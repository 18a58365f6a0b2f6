"""Average precision of labels over the images in which each is hard: COLA's single-object number.

Scores are `(image, label)`: how well each image fits each label ("square white plate"). COLA's file holds, for each
image, which labels are true of it and which are hard: the object is there, with these attributes or others.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellapart.errors import MetricError

__all__ = ["label_average_precision"]


def label_average_precision(scores: ArrayLike, labels: ArrayLike, hard: ArrayLike) -> NDArray[np.float64]:
    """Return the average precision of each label over the images in which it is hard; NaN of one without a true image.

    Equal scores are one step of the curve, as in the authors' code. COLA's number is the mean over labels that are no
    NaN (`np.nanmean`). It has no chance level of its own: a constant score gets the share of true images.

    Args:
        scores: float `(image, label)`.
        labels: 0 or 1 `(image, label)`, whether the label is true of the image.
        hard: 0 or 1 `(image, label)`, whether the image counts for the label.

    Raises:
        MetricError: the three differ in shape, a score is not finite, or a mark is neither 0 nor 1.

    Source: COLA (Ray et al. 2023), `ColaSingleObjAP` of its scripts/eval.py.

    >>> scores, labels = [[0.9, 0.1], [0.8, 0.7], [0.1, 0.9]], [[1, 0], [0, 0], [1, 0]]
    >>> label_average_precision(scores, labels, np.ones((3, 2))).round(3)
    array([0.833,   nan])
    """
    values, true, counts = (np.asarray(each, dtype=np.float64) for each in (scores, labels, hard))
    if values.ndim != 2 or not values.shape == true.shape == counts.shape:
        raise MetricError(
            f"label_average_precision: scores, labels and hard are (image, label); got {values.shape}, {true.shape} "
            f"and {counts.shape}"
        )
    if not np.isfinite(values).all():
        raise MetricError("label_average_precision: scores must be finite; score these images again")
    if not (np.isin(true, (0, 1)).all() and np.isin(counts, (0, 1)).all()):
        raise MetricError("label_average_precision: labels and hard must be 0 or 1")
    columns = zip(values.T.astype(np.float32), true.T > 0, counts.T > 0, strict=True)
    return np.array([_average_precision(own[kept], right[kept]) for own, right, kept in columns])


def _average_precision(scores: NDArray[np.float32], right: NDArray[np.bool_]) -> float:
    if not right.any():
        return float("nan")
    order = np.argsort(-scores, kind="stable")
    found = np.cumsum(right[order])
    last = np.flatnonzero(np.append(np.diff(scores[order]) != 0, True))  # of each run of equal scores
    precision, recall = found[last] / (last + 1), found[last] / right.sum()
    return float((np.diff(recall, prepend=0) * precision).sum())
