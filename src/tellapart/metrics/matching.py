"""Why a square item is right or wrong: its match, and the priors of its pictures and captions.

`scores[item, image, text]`; image k belongs to text k. Of a 2x2 item, with s_it the score of image i and text t:

- the match `D = s00 + s11 - s01 - s10`, the interaction of picture and caption;
- the captions' prior `T = s00 + s10 - s01 - s11`: how much caption 0 is preferred, whatever the picture;
- the pictures' prior `M = s00 + s01 - s10 - s11`: how much picture 0 is preferred, whatever the caption.

The text score is right exactly where `D > |T|`, the image score where `D > |M|`, the group score where both hold.
The pairs match where `D > 0`. A constant added to a picture or to a caption leaves D as it is.
Each raises `MetricError` for other shapes, and `ScoreError` without an item or for scores that are not finite.
"""

from __future__ import annotations

from enum import StrEnum
from functools import cache, partial
from itertools import permutations
from math import factorial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellapart.data.scores import ScoreKind
from tellapart.metrics.metric import ANY_KIND, PROBABILITY, Metric, Shape, read_scores

#: Up to six captions all 720 assignments are compared.
_SHAPES = ("2x2", "3x3", "4x4", "5x5", "6x6")


class Reason(StrEnum):
    """Why an item is right or wrong; the value is its key in records.

    >>> Reason("picture_prior").label
    "lost to the picture's prior"
    """

    RIGHT = "right"
    CAPTION = "caption_prior"
    PICTURE = "picture_prior"
    BOTH = "both_priors"
    NO_MATCH = "no_match"

    @property
    def label(self) -> str:
        """The words for people."""
        return _LABELS[self]


_LABELS = {
    Reason.RIGHT: "right",
    Reason.CAPTION: "lost to the caption's prior",
    Reason.PICTURE: "lost to the picture's prior",
    Reason.BOTH: "lost to both priors",
    Reason.NO_MATCH: "no match",
}


def match_score(scores: ArrayLike) -> NDArray[np.float64]:
    """Return 1 for every item whose true pairs have the largest sum of scores of all assignments: float64 (item,).

    Of a 2x2 item: `s00 + s11 > s01 + s10`. Sums are of float32 scores, in float64; a tie is never right.

    Source: GroupMatch of "Test-Time Matching" (arXiv 2510.07632), section 3; its evaluate.py.

    >>> match_score([[[0.9, 0.8], [0.3, 0.4]], [[0.9, 0.8], [0.4, 0.3]], [[0.5, 0.5], [0.5, 0.5]]])
    array([1., 0., 0.])
    """
    return np.asarray(_share_of_best(scores, "match_score") == 1, dtype=np.float64)


def _share_of_best(scores: ArrayLike, name: str) -> NDArray[np.float64]:
    """Return 1 over the number of best assignments where the true one is among them, else 0: float64 (item,)."""
    sums = _sums(scores, name)
    best = sums == sums.max(axis=1, keepdims=True)
    return np.asarray(best[:, 0] / best.sum(axis=1))


def best_assignments(scores: ArrayLike) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return the text of each image by the assignment with the largest sum, and its lead over the second best.

    Assignments are intp (item, image), leads float64 (item,) in the unit of the scores: of 2x2 items |D|, of a tie 0.
    It raises as `match_score`. Source: the pseudo-labels and margins of "Test-Time Matching" (arXiv 2510.07632).
    """
    sums = _sums(scores, "best_assignments")
    ranked = np.sort(sums, axis=1)
    return _orders(np.shape(scores)[1])[sums.argmax(axis=1)], ranked[:, -1] - ranked[:, -2]


def _sums(scores: ArrayLike, name: str) -> NDArray[np.float64]:
    """Return the sum of each assignment, the true one first: float64 (item, assignment)."""
    values = read_scores(scores, name, _SHAPES).astype(np.float64)
    return np.asarray(values[:, np.arange(values.shape[1]), _orders(values.shape[1])].sum(axis=2))


@cache
def _orders(size: int) -> NDArray[np.intp]:
    return np.array(list(permutations(range(size))), dtype=np.intp)


def contrasts(scores: ArrayLike) -> NDArray[np.float64]:
    """Return the match, the captions' prior and the pictures' prior of 2x2 items: float64 (item, 3), in this order.

    >>> contrasts([[[0.75, 0.5], [0.25, 0.5]]])
    array([[0.5, 0. , 0.5]])
    """
    values = read_scores(scores, "contrasts", ("2x2",)).astype(np.float64)
    s00, s01, s10, s11 = values.reshape(-1, 4).T
    return np.stack([(s00 + s11) - (s01 + s10), (s00 + s10) - (s01 + s11), (s00 + s01) - (s10 + s11)], axis=1)


def reasons(scores: ArrayLike) -> list[Reason]:
    """Return why each item is right or wrong.

    An item is right where every image prefers its text and every text its image, strictly. It has no match where
    `match_score` is 0. Else a prior outweighs the match: the captions' where an image prefers another text, the
    pictures' where a text prefers another image.

    >>> [reason.label for reason in reasons([[[0.9, 0.8], [0.3, 0.4]], [[0.9, 0.8], [0.85, 0.7]]])]
    ["lost to the picture's prior", 'no match']
    """
    values = read_scores(scores, "reasons", _SHAPES)
    matched = match_score(values) == 1
    reason_of = {(1, 1): Reason.RIGHT, (1, 0): Reason.PICTURE, (0, 1): Reason.CAPTION, (0, 0): Reason.BOTH}
    sides = right_sides(values)  # of the texts, and of the images; both right is a match
    return [reason_of[tuple(pair)] if match else Reason.NO_MATCH for match, pair in zip(matched, sides, strict=True)]


def right_sides(scores: ArrayLike) -> NDArray[np.bool_]:
    """Return whether every image prefers its text, and every text its image, strictly: bool (item, 2), in order."""
    values = read_scores(scores, "right_sides", _SHAPES)
    true_scores = np.diagonal(values, axis1=1, axis2=2)
    others = np.where(np.eye(values.shape[1], dtype=bool), -np.inf, values)
    return np.stack([(true_scores > others.max(axis=axis)).all(axis=1) for axis in (2, 1)], axis=1)


def match_bounds(right: ArrayLike) -> NDArray[np.bool_]:
    """Return whether 2x2 items surely match, and whether they may, by outcomes alone: bool (item, 2), in this order.

    `right`: whether image 0, image 1, text 0 and text 1 prefer their partners, as 1, 0 or (unknown) NaN: (item, 4).
    Two right comparisons of the images, or of the texts, mean `D > 0`; two wrong ones mean `D <= 0`.

    >>> match_bounds([[True, True, False, True], [True, False, False, True], [True, False, False, False]]).tolist()
    [[True, True], [False, True], [False, False]]
    """
    sides = np.asarray(right, np.float64).reshape(-1, 2, 2)
    return np.stack([(sides == 1).all(axis=2).any(axis=1), (sides != 0).any(axis=2).all(axis=1)], axis=1)


def reason_bounds(right: ArrayLike) -> NDArray[np.bool_]:
    """Return whether each reason surely holds of 2x2 items, and whether it may: bool (reason, item, 2), as `Reason`.

    >>> sure, may = reason_bounds([[True, True, False, True], [True, False, False, True]]).transpose(2, 1, 0)
    >>> [[reason.name for reason, holds in zip(Reason, item) if holds] for item in may]
    [['PICTURE'], ['BOTH', 'NO_MATCH']]
    """
    sides, match = np.asarray(right, np.float64).reshape(-1, 2, 2), match_bounds(right)
    text, image = np.stack([(sides == 1).all(axis=2), (sides != 0).all(axis=2)], axis=2).transpose(1, 0, 2)
    no_text, no_image, no_match = (~bounds[:, ::-1] for bounds in (text, image, match))  # surely not: it may not be
    return np.stack([text & image, image & no_text, text & no_image, no_text & no_image & match, no_match])


def sums_of_squares(scores: ArrayLike) -> NDArray[np.float64]:
    """Return the sums of squares of the match, the captions and the pictures in each item: float64 (item, 3).

    They are those of a two-way analysis of variance without replicates; of 2x2 items D², T² and M², over 4. The share
    of each is its mean over items, divided by the mean of all three (`share_of_squares`).

    >>> sums_of_squares([[[0.75, 0.5], [0.25, 0.5]]])
    array([[0.0625, 0.    , 0.0625]])
    """
    values = read_scores(scores, "sums_of_squares", _SHAPES).astype(np.float64)
    size = values.shape[1]
    centred = values - values.mean(axis=(1, 2), keepdims=True)
    picture, caption = centred.mean(axis=2), centred.mean(axis=1)
    match = centred - picture[:, :, None] - caption[:, None, :]
    return np.stack(
        [(match**2).sum(axis=(1, 2)), size * (caption**2).sum(axis=1), size * (picture**2).sum(axis=1)], axis=1
    )


def share_of_squares(means: ArrayLike, part: int) -> NDArray[np.float64]:
    """Return the share of one part in means of `sums_of_squares`: float64 (...,) from (..., 3). NaN of all zeros."""
    sums = np.asarray(means, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        return np.asarray(sums[..., part] / sums.sum(axis=-1))


def _one_in_all(shape: Shape) -> float:
    return 1 / factorial(shape[0])


def _declare_metric(name: str, noun: str, kinds: frozenset[ScoreKind]) -> Metric:
    return Metric(
        name,
        f"the true pairs have the largest sum of {noun}",
        "Test-Time Matching (arXiv 2510.07632), section 3: GroupMatch of yinglunz/test-time-matching:evaluate.py",
        _SHAPES,
        strict=match_score,
        neutral=partial(_share_of_best, name=name),
        chance_level=_one_in_all,
        kinds=kinds,
        additive=True,
        logits=noun == "scores",
    )


MATCHING_METRICS: tuple[Metric, ...] = (
    _declare_metric("match_score", "scores", ANY_KIND),
    _declare_metric("match_score_of_probabilities", "probabilities", PROBABILITY),
)
"""The matching metrics of square items."""
