"""Metrics of minimal pairs, two images and two texts: text, image and group score, and their directions.

`scores[item, image, text]`; image 0 belongs to text 0 and image 1 to text 1. Every comparison is strict and
in float32: a tie is never right. The orders of the four scores give chance: 6 of 24 orders make the text
score
    right
(1/4), 6 of 24 the image score (1/4), 4 of 24 both (1/6).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellapart.metrics.metric import Metric, PerItemFunction, read_scores

__all__ = [
    "PAIR_METRICS",
    "group_score",
    "i2t",
    "image_score",
    "ineg_2t",
    "ipos_2t",
    "t2i",
    "text_score",
    "tneg_2i",
    "tpos_2i",
]

_SHAPES = ("2x2",)


def _finds_text(scores: NDArray[np.float32], image: int) -> NDArray[np.bool_]:
    return scores[:, image, image] > scores[:, image, 1 - image]


def _finds_image(scores: NDArray[np.float32], text: int) -> NDArray[np.bool_]:
    return scores[:, text, text] > scores[:, 1 - text, text]


def text_score(scores: ArrayLike) -> NDArray[np.float64]:
    """Return 1 for every item in which each image prefers its own text: float64 (item,).

    `s00 > s01 and s11 > s10`, s_it being image i with text t. Chance 1/4.

    Raises:
        MetricError: the items are not 2x2.
        ScoreError: no item, or a score that is not finite.

    Source: Winoground (Thrush et al. 2022), f(C0,I0,C1,I1); EqBen `eqben_acc.py`.

    >>> text_score([[[0.9, 0.1], [0.2, 0.8]], [[0.9, 0.1], [0.8, 0.2]], [[0.9, 0.9], [0.2, 0.8]]])
    array([1., 0., 0.])
    """
    s = read_scores(scores, "text_score", _SHAPES)
    return (_finds_text(s, 0) & _finds_text(s, 1)).astype(np.float64)


def image_score(scores: ArrayLike) -> NDArray[np.float64]:
    """Return 1 for every item in which each text prefers its own image: float64 (item,).

    `s00 > s10 and s11 > s01`, s_it being image i with text t. Chance 1/4.

    Raises:
        MetricError: the items are not 2x2.
        ScoreError: no item, or a score that is not finite.

    Source: Winoground (Thrush et al. 2022), g(C0,I0,C1,I1); EqBen `eqben_acc.py`.

    >>> image_score([[[0.9, 0.1], [0.2, 0.8]], [[0.9, 0.1], [0.95, 0.99]]])
    array([1., 0.])
    """
    s = read_scores(scores, "image_score", _SHAPES)
    return (_finds_image(s, 0) & _finds_image(s, 1)).astype(np.float64)


def group_score(scores: ArrayLike) -> NDArray[np.float64]:
    """Return 1 for every item that is right in both text and image score: float64 (item,). Chance 1/6.

    Raises:
        MetricError: the items are not 2x2.
        ScoreError: no item, or a score that is not finite.

    Source: Winoground (Thrush et al. 2022), h(C0,I0,C1,I1); EqBen `eqben_acc.py`.

    >>> group_score([[[0.9, 0.1], [0.2, 0.8]], [[0.9, 0.1], [0.95, 0.99]]])
    array([1., 0.])
    """
    s = read_scores(scores, "group_score", _SHAPES)
    right = _finds_text(s, 0) & _finds_text(s, 1) & _finds_image(s, 0) & _finds_image(s, 1)
    return right.astype(np.float64)


def ipos_2t(scores: ArrayLike) -> NDArray[np.float64]:
    """Return 1 where the positive image (0) prefers its text: `s00 > s01`, float64 (item,). Chance 1/2.

    Raises:
        MetricError: the items are not 2x2.
        ScoreError: no item, or a score that is not finite.

    Source: BiVLC (Miranda et al. 2024), appendix D; `CLIP_utils.evaluate_BiVLC`, Ipos_2T.

    >>> ipos_2t([[[0.9, 0.1], [0.8, 0.2]]])
    array([1.])
    """
    return _finds_text(read_scores(scores, "ipos_2t", _SHAPES), 0).astype(np.float64)


def ineg_2t(scores: ArrayLike) -> NDArray[np.float64]:
    """Return 1 where the negative image (1) prefers its text: `s11 > s10`, float64 (item,). Chance 1/2.

    Raises:
        MetricError: the items are not 2x2.
        ScoreError: no item, or a score that is not finite.

    Source: BiVLC (Miranda et al. 2024), appendix D; `CLIP_utils.evaluate_BiVLC`, Ineg_2T.

    >>> ineg_2t([[[0.9, 0.1], [0.8, 0.2]]])
    array([0.])
    """
    return _finds_text(read_scores(scores, "ineg_2t", _SHAPES), 1).astype(np.float64)


def tpos_2i(scores: ArrayLike) -> NDArray[np.float64]:
    """Return 1 where the positive text (0) prefers its image: `s00 > s10`, float64 (item,). Chance 1/2.

    Raises:
        MetricError: the items are not 2x2.
        ScoreError: no item, or a score that is not finite.

    Source: BiVLC (Miranda et al. 2024), appendix D; `CLIP_utils.evaluate_BiVLC`, Tpos_2I.

    >>> tpos_2i([[[0.9, 0.3], [0.8, 0.2]]])
    array([1.])
    """
    return _finds_image(read_scores(scores, "tpos_2i", _SHAPES), 0).astype(np.float64)


def tneg_2i(scores: ArrayLike) -> NDArray[np.float64]:
    """Return 1 where the negative text (1) prefers its image: `s11 > s01`, float64 (item,). Chance 1/2.

    Raises:
        MetricError: the items are not 2x2.
        ScoreError: no item, or a score that is not finite.

    Source: BiVLC (Miranda et al. 2024), appendix D; `CLIP_utils.evaluate_BiVLC`, Tneg_2I.

    >>> tneg_2i([[[0.9, 0.3], [0.8, 0.2]]])
    array([0.])
    """
    return _finds_image(read_scores(scores, "tneg_2i", _SHAPES), 1).astype(np.float64)


def i2t(scores: ArrayLike) -> NDArray[np.float64]:
    """Return 1 where both images prefer their text, `ipos_2t and ineg_2t`: float64 (item,). Chance 1/4.

    BiVLC's name for `text_score`.

    Raises:
        MetricError: the items are not 2x2.
        ScoreError: no item, or a score that is not finite.

    Source: BiVLC (Miranda et al. 2024), appendix D; `CLIP_utils.evaluate_BiVLC`, I2T.

    >>> i2t([[[0.9, 0.1], [0.2, 0.8]], [[0.9, 0.1], [0.8, 0.2]]])
    array([1., 0.])
    """
    s = read_scores(scores, "i2t", _SHAPES)
    return (_finds_text(s, 0) & _finds_text(s, 1)).astype(np.float64)


def t2i(scores: ArrayLike) -> NDArray[np.float64]:
    """Return 1 where both texts prefer their image, `tpos_2i and tneg_2i`: float64 (item,). Chance 1/4.

    BiVLC's name for `image_score`.

    Raises:
        MetricError: the items are not 2x2.
        ScoreError: no item, or a score that is not finite.

    Source: BiVLC (Miranda et al. 2024), appendix D; `CLIP_utils.evaluate_BiVLC`, T2I.

    >>> t2i([[[0.9, 0.1], [0.2, 0.8]], [[0.9, 0.1], [0.95, 0.99]]])
    array([1., 0.])
    """
    s = read_scores(scores, "t2i", _SHAPES)
    return (_finds_image(s, 0) & _finds_image(s, 1)).astype(np.float64)


def _metric(strict: PerItemFunction, chance: float, title: str, source: str) -> Metric:
    return Metric(name=strict.__name__, title=title, source=source, shapes=_SHAPES, strict=strict, chance_level=chance)


_WINOGROUND = "Winoground (Thrush et al. 2022); EqBen section 5.1 and eqben_acc.py"
_BIVLC = "BiVLC (Miranda et al. 2024), appendix D; CLIP_utils.evaluate_BiVLC"

PAIR_METRICS: tuple[Metric, ...] = (
    _metric(text_score, 1 / 4, "each image prefers its own text", _WINOGROUND),
    _metric(image_score, 1 / 4, "each text prefers its own image", _WINOGROUND),
    _metric(group_score, 1 / 6, "text and image score both right", _WINOGROUND),
    _metric(i2t, 1 / 4, "image to text: each image prefers its own text", _BIVLC),
    _metric(t2i, 1 / 4, "text to image: each text prefers its own image", _BIVLC),
    _metric(ipos_2t, 1 / 2, "the positive image prefers its text", _BIVLC),
    _metric(ineg_2t, 1 / 2, "the negative image prefers its text", _BIVLC),
    _metric(tpos_2i, 1 / 2, "the positive text prefers its image", _BIVLC),
    _metric(tneg_2i, 1 / 2, "the negative text prefers its image", _BIVLC),
)
"""The right-or-wrong metrics of 2x2 items."""
