"""Metrics of minimal pairs, two images and two texts: text, image and group score, and their directions.

`scores[item, image, text]`; image 0 belongs to text 0 and image 1 to text 1; s_it is the score of image i with text t.
Every comparison is strict and in float32: a tie is never right. Of the 24 orders of four scores, 6 make the text score
right (1/4), 6 the image score (1/4), 4 both (1/6), and 12 each single comparison (1/2): these are the chance levels.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellapart.metrics.metric import Metric, read_scores

_SHAPES = ("2x2",)

# A true pair, and the image and text of another pair that it must outscore.
_IPOS_2T, _INEG_2T = (0, 0, 1), (1, 1, 0)
_TPOS_2I, _TNEG_2I = (0, 1, 0), (1, 0, 1)
_I2T, _T2I = (_IPOS_2T, _INEG_2T), (_TPOS_2I, _TNEG_2I)


def _all_right(scores: ArrayLike, name: str, comparisons: tuple[tuple[int, int, int], ...]) -> NDArray[np.float64]:
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
    return _all_right(scores, "text_score", _I2T)


def image_score(scores: ArrayLike) -> NDArray[np.float64]:
    """Return 1 for every item in which each text prefers its image, `s00 > s10 and s11 > s01`: float64 (item,).

    Source: Winoground (Thrush et al. 2022), g(C0,I0,C1,I1); EqBen `eqben_acc.py`.

    >>> image_score([[[0.9, 0.1], [0.2, 0.8]], [[0.9, 0.1], [0.95, 0.99]]])
    array([1., 0.])
    """
    return _all_right(scores, "image_score", _T2I)


def group_score(scores: ArrayLike) -> NDArray[np.float64]:
    """Return 1 for every item that is right in both text and image score: float64 (item,).

    Source: Winoground (Thrush et al. 2022), h(C0,I0,C1,I1); EqBen `eqben_acc.py`.

    >>> group_score([[[0.9, 0.1], [0.2, 0.8]], [[0.9, 0.1], [0.95, 0.99]]])
    array([1., 0.])
    """
    return _all_right(scores, "group_score", _I2T + _T2I)


def _declare_metric(
    name: str, title: str, chance: float, comparisons: tuple[tuple[int, int, int], ...], same_as: str = ""
) -> Metric:
    source = "Winoground (Thrush et al. 2022); EqBen section 5.1 and eqben_acc.py"
    if not name.endswith("_score"):
        source = "BiVLC (Miranda et al. 2024), appendix D; CLIP_utils.evaluate_BiVLC"
    strict = partial(_all_right, name=name, comparisons=comparisons)
    return Metric(name, title, source, _SHAPES, strict=strict, chance_level=chance, same_as=same_as)


PAIR_METRICS: tuple[Metric, ...] = (
    _declare_metric("text_score", "each image prefers its own text", 1 / 4, _I2T),
    _declare_metric("image_score", "each text prefers its own image", 1 / 4, _T2I),
    _declare_metric("group_score", "each image prefers its own text, and each text its own image", 1 / 6, _I2T + _T2I),
    _declare_metric("i2t", "image to text: each image prefers its own text", 1 / 4, _I2T, "text_score"),
    _declare_metric("t2i", "text to image: each text prefers its own image", 1 / 4, _T2I, "image_score"),
    _declare_metric("ipos_2t", "the positive image prefers its text", 1 / 2, (_IPOS_2T,)),
    _declare_metric("ineg_2t", "the negative image prefers its text", 1 / 2, (_INEG_2T,)),
    _declare_metric("tpos_2i", "the positive text prefers its image", 1 / 2, (_TPOS_2I,)),
    _declare_metric("tneg_2i", "the negative text prefers its image", 1 / 2, (_TNEG_2I,)),
)
"""The right-or-wrong metrics of 2x2 items; 0 is the positive pair of BiVLC, 1 the negative one."""
