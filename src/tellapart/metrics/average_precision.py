"""Average precision of labels over images that the caller selects: COLA's single-object number takes the hard ones.

Scores are `(image, label)`: how well each image fits each label ("square white plate"). COLA's file holds, for each
image, which labels are true of it and which are hard: the object is there, with these attributes or others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike


class AveragePrecision(NamedTuple):
    """The average precision of one label, by three rules for equal scores.

    `strict` has images that the label is not true of come first, `neutral` breaks ties at random, in expectation, and
    `official` takes equal scores as one step of the curve, as the authors' code and scikit-learn do.
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
