"""Average precision of labels over the images in which each is hard: COLA's single-object number.

Scores are `(image, label)`: how well each image fits each label ("square white plate"). COLA's file holds, for each
image, which labels are true of it and which are hard: the object is there, with these attributes or others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellapart.errors import MetricError


class AveragePrecision(NamedTuple):
    """The average precision of one label, by three rules for equal scores.

    Attributes:
        strict: of equal scores, images that the label is not true of come first.
        neutral: expected of ties that are broken at random.
        official: equal scores are one step of the curve, as in the authors' code and in scikit-learn.
    """

    strict: float
    neutral: float
    official: float


def average_precision(scores: ArrayLike, right: ArrayLike) -> AveragePrecision:
    """Return the average precision of a ranking of images by their scores, of which some are right.

    `scores`: finite numbers `(image,)`, compared in float32; `right`: bool `(image,)`, at least one of them true.

    Source: scikit-learn's `average_precision_score` for `official`; McSherry and Najork (2008), Computing information
    retrieval performance measures efficiently in the presence of tied scores, for `neutral`.

    >>> [round(each, 3) for each in average_precision([0.9, 0.5, 0.5], [True, True, False])]
    [0.833, 0.917, 0.833]
    """
    values, true = np.asarray(scores, dtype=np.float32), np.asarray(right, dtype=np.bool_)
    strict = neutral = official = 0.0
    before = before_right = 0
    for level in np.unique(values)[::-1]:
        tied = int((values == level).sum())
        hits = int(true[values == level].sum())
        if hits:
            places = np.arange(1, tied + 1)
            others = (hits - 1) / max(tied - 1, 1)  # the share of right ones among the rest of the tied
            strict += float(((before_right + places[:hits]) / (before + tied - hits + places[:hits])).sum())
            expected = before_right + 1 + (places - 1) * others
            neutral += hits / tied * float((expected / (before + places)).sum())
            official += hits * (before_right + hits) / (before + tied)
        before, before_right = before + tied, before_right + hits
    return AveragePrecision(strict / before_right, neutral / before_right, official / before_right)


def label_average_precision(scores: ArrayLike, labels: ArrayLike, hard: ArrayLike) -> NDArray[np.float64]:
    """Return the average precision of each label over the images in which it is hard; NaN of one without a true image.

    Equal scores are one step of the curve, as in the authors' code. COLA's number is the mean over labels that are no
    NaN (`np.nanmean`). It has no chance level of its own: a constant score gets the share of true images.

    `scores`: float `(image, label)`; `labels`: 0 or 1 `(image, label)`, whether the label is true of the image; `hard`:
    0 or 1 `(image, label)`, whether the image counts for the label.

    Source: COLA (Ray et al. 2023), `ColaSingleObjAP` of its scripts/eval.py.

    >>> scores, labels = [[0.9, 0.1], [0.8, 0.7], [0.1, 0.9]], [[1, 0], [0, 0], [1, 0]]
    >>> label_average_precision(scores, labels, np.ones((3, 2))).round(3)
    array([0.833,   nan])
    """
    values, true, counts = (np.asarray(array, dtype=np.float64) for array in (scores, labels, hard))
    if values.ndim != 2 or not values.shape == true.shape == counts.shape:
        raise MetricError(
            f"label_average_precision: scores, labels and hard are (image, label); got {values.shape}, {true.shape} "
            f"and {counts.shape}"
        )
    if not np.isfinite(values).all():
        raise MetricError("label_average_precision: scores must be finite; score these images again")
    if not (np.isin(true, (0, 1)).all() and np.isin(counts, (0, 1)).all()):
        raise MetricError("label_average_precision: labels and hard must be 0 or 1")
    columns = zip(values.T, true.T > 0, counts.T > 0, strict=True)
    return np.array(
        [
            average_precision(row_scores[mask], right[mask]).official if right[mask].any() else np.nan
            for row_scores, right, mask in columns
        ]
    )
