"""Metrics of minimal pairs, two images and two texts: text, image and group score, and their directions.

`scores[item, image, text]`; image 0 belongs to text 0 and image 1 to text 1; s_it is the score of image i with text t.
Every comparison is strict and in float32: a tie is never right. Of the 24 orders of four scores, 6 make the text score
right (1/4), 6 the image score (1/4), 4 both (1/6), and 12 each single comparison (1/2): these are the chance levels.
Each function raises `MetricError` for other shapes, and `ScoreError` without an item or for scores that are not finite.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellapart.metrics.metric import Metric, PerItemFunction, read_scores

_SHAPES = ("2x2",)

# A true pair, and the image and text of another pair that it must outscore.
_IPOS_2T, _INEG_2T = (0, 0, 1), (1, 1, 0)
_TPOS_2I, _TNEG_2I = (0, 1, 0), (1, 0, 1)


def _all_right(name: str, scores: ArrayLike, *comparisons: tuple[int, int, int]) -> NDArray[np.float64]:
    """Return 1 for every item in which all comparisons are right: float64 (item,)."""
    s = read_scores(scores, name, _SHAPES)
    right = [s[:, true, true] > s[:, image, text] for true, image, text in comparisons]
    return np.asarray(np.logical_and.reduce(right), dtype=np.float64)


def text_score(scores: ArrayLike) -> NDArray[np.float64]:
    """Return 1 for every item in which each image prefers its text, `s00 > s01 and s11 > s10`: float64 (item,).

    Raises:
        MetricError: the items are not 2x2.
        ScoreError: no item, or a score that is not finite.

    Source: Winoground (Thrush et al. 2022), f(C0,I0,C1,I1); EqBen `eqben_acc.py`.

    >>> text_score([[[0.9, 0.1], [0.2, 0.8]], [[0.9, 0.1], [0.8, 0.2]], [[0.9, 0.9], [0.2, 0.8]]])
    array([1., 0., 0.])
    """
    return _all_right("text_score", scores, _IPOS_2T, _INEG_2T)


def image_score(scores: ArrayLike) -> NDArray[np.float64]:
    """Return 1 for every item in which each text prefers its image, `s00 > s10 and s11 > s01`: float64 (item,).

    Raises:
        MetricError, ScoreError: as `text_score`.

    Source: Winoground (Thrush et al. 2022), g(C0,I0,C1,I1); EqBen `eqben_acc.py`.

    >>> image_score([[[0.9, 0.1], [0.2, 0.8]], [[0.9, 0.1], [0.95, 0.99]]])
    array([1., 0.])
    """
    return _all_right("image_score", scores, _TPOS_2I, _TNEG_2I)


def group_score(scores: ArrayLike) -> NDArray[np.float64]:
    """Return 1 for every item that is right in both text and image score: float64 (item,).

    Raises:
        MetricError, ScoreError: as `text_score`.

    Source: Winoground (Thrush et al. 2022), h(C0,I0,C1,I1); EqBen `eqben_acc.py`.

    >>> group_score([[[0.9, 0.1], [0.2, 0.8]], [[0.9, 0.1], [0.95, 0.99]]])
    array([1., 0.])
    """
    return _all_right("group_score", scores, _IPOS_2T, _INEG_2T, _TPOS_2I, _TNEG_2I)


def ipos_2t(scores: ArrayLike) -> NDArray[np.float64]:
    """Return 1 if the positive image (0) prefers its text, `s00 > s01`: float64 (item,).

    Source: BiVLC (Miranda et al. 2024), appendix D; `CLIP_utils.evaluate_BiVLC`, as all the directions below.

    >>> ipos_2t([[[0.9, 0.1], [0.8, 0.2]]])
    array([1.])
    """
    return _all_right("ipos_2t", scores, _IPOS_2T)


def ineg_2t(scores: ArrayLike) -> NDArray[np.float64]:
    """Return 1 if the negative image (1) prefers its text, `s11 > s10`: float64 (item,).

    >>> ineg_2t([[[0.9, 0.1], [0.8, 0.2]]])
    array([0.])
    """
    return _all_right("ineg_2t", scores, _INEG_2T)


def tpos_2i(scores: ArrayLike) -> NDArray[np.float64]:
    """Return 1 if the positive text (0) prefers its image, `s00 > s10`: float64 (item,).

    >>> tpos_2i([[[0.9, 0.3], [0.8, 0.2]]])
    array([1.])
    """
    return _all_right("tpos_2i", scores, _TPOS_2I)


def tneg_2i(scores: ArrayLike) -> NDArray[np.float64]:
    """Return 1 if the negative text (1) prefers its image, `s11 > s01`: float64 (item,).

    >>> tneg_2i([[[0.9, 0.3], [0.8, 0.2]]])
    array([0.])
    """
    return _all_right("tneg_2i", scores, _TNEG_2I)


def i2t(scores: ArrayLike) -> NDArray[np.float64]:
    """Return `text_score` under BiVLC's name, `ipos_2t and ineg_2t`: float64 (item,).

    >>> i2t([[[0.9, 0.1], [0.2, 0.8]], [[0.9, 0.1], [0.8, 0.2]]])
    array([1., 0.])
    """
    return _all_right("i2t", scores, _IPOS_2T, _INEG_2T)


def t2i(scores: ArrayLike) -> NDArray[np.float64]:
    """Return `image_score` under BiVLC's name, `tpos_2i and tneg_2i`: float64 (item,).

    >>> t2i([[[0.9, 0.1], [0.2, 0.8]], [[0.9, 0.1], [0.95, 0.99]]])
    array([1., 0.])
    """
    return _all_right("t2i", scores, _TPOS_2I, _TNEG_2I)


def _declare_metric(strict: PerItemFunction, chance: float, title: str, source: str, *, same_as: str = "") -> Metric:
    return Metric(
        name=strict.__name__,
        title=title,
        source=source,
        shapes=_SHAPES,
        strict=strict,
        chance_level=chance,
        same_as=same_as,
    )


_WINOGROUND = "Winoground (Thrush et al. 2022); EqBen section 5.1 and eqben_acc.py"
_BIVLC = "BiVLC (Miranda et al. 2024), appendix D; CLIP_utils.evaluate_BiVLC"

PAIR_METRICS: tuple[Metric, ...] = (
    _declare_metric(text_score, 1 / 4, "each image prefers its own text", _WINOGROUND),
    _declare_metric(image_score, 1 / 4, "each text prefers its own image", _WINOGROUND),
    _declare_metric(group_score, 1 / 6, "each image prefers its own text, and each text its own image", _WINOGROUND),
    _declare_metric(i2t, 1 / 4, "image to text: each image prefers its own text", _BIVLC, same_as="text_score"),
    _declare_metric(t2i, 1 / 4, "text to image: each text prefers its own image", _BIVLC, same_as="image_score"),
    _declare_metric(ipos_2t, 1 / 2, "the positive image prefers its text", _BIVLC),
    _declare_metric(ineg_2t, 1 / 2, "the negative image prefers its text", _BIVLC),
    _declare_metric(tpos_2i, 1 / 2, "the positive text prefers its image", _BIVLC),
    _declare_metric(tneg_2i, 1 / 2, "the negative text prefers its image", _BIVLC),
)
"""The right-or-wrong metrics of 2x2 items."""
