"""Metrics of one truth among foils: the choice score, and VALSE's acc, p_c, p_f, min(p_c, p_f) and pairwise.

`scores[item, image, text]`; the true entry has index 0: the caption among texts (1xm) or the image among
images (nx1). Every comparison is strict and in float32: a tie, also with the threshold 1/2, is never right.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellapart.errors import ScoreError
from tellapart.metrics.metric import PROBABILITY, Metric, Shape, read_scores

__all__ = ["CHOICE_METRICS", "acc", "choice_score", "min_pc_pf", "p_c", "p_f", "pairwise"]

_CHOICE = ("1xm", "nx1")
_FOIL = ("1x2",)
_HALF = np.float32(0.5)


def choice_score(scores: ArrayLike) -> NDArray[np.float64]:
    """Return 1 where the true entry (index 0) outscores every other: float64 (item,).

    Chance 1/m for a 1xm item, 1/n for an nx1 item.

    Raises:
        MetricError: the items are neither 1xm nor nx1 (m, n >= 2).
        ScoreError: no item, or a score that is not finite.

    Source: SugarCrepe `main_eval.py` (1x2), ARO (1x2, 1x5); a tie is wrong for all of them here.

    >>> choice_score([[[0.9, 0.1, 0.3]], [[0.9, 0.9, 0.3]]])
    array([1., 0.])
    """
    flat = _entries(scores, "choice_score")
    return np.asarray(flat[:, 0] > flat[:, 1:].max(axis=1), dtype=np.float64)


def acc(scores: ArrayLike) -> NDArray[np.float64]:
    """Return the share of right decisions on caption and foil, 0, 1/2 or 1: float64 (item,). Chance 1/2.

    Needs probabilities that image and text fit: the mean of `p_c` and `p_f`.

    Raises:
        MetricError: the items are not 1x2.
        ScoreError: no item, a score that is not finite, or one outside [0, 1].

    Source: VALSE (Parcalabescu et al. 2022), `lxmert_valse_eval.py`; EqBen section 5.1.

    >>> acc([[[0.9, 0.1]], [[0.9, 0.8]], [[0.3, 0.8]]])
    array([1. , 0.5, 0. ])
    """
    return _halves(scores, tie=0.0)


def p_c(scores: ArrayLike) -> NDArray[np.float64]:
    """Return 1 where the caption is accepted, probability > 1/2: float64 (item,). Chance 1/2.

    Raises:
        MetricError: the items are not 1x2.
        ScoreError: no item, a score that is not finite, or one outside [0, 1].

    Source: VALSE (Parcalabescu et al. 2022), `lxmert_valse_eval.py`; EqBen section 5.1.

    >>> p_c([[[0.9, 0.1]], [[0.5, 0.1]]])
    array([1., 0.])
    """
    return _accepted(scores, tie=0.0)


def p_f(scores: ArrayLike) -> NDArray[np.float64]:
    """Return 1 where the foil is rejected, probability < 1/2: float64 (item,). Chance 1/2.

    VALSE's script leaves out an item whose foil has a probability of exactly 1/2 (else it would count as detected,
    by `>=` on the logits); here that is a tie, which is never right, and no item leaves the denominator.

    Raises:
        MetricError: the items are not 1x2.
        ScoreError: no item, a score that is not finite, or one outside [0, 1].

    Source: VALSE (Parcalabescu et al. 2022), `lxmert_valse_eval.py`; EqBen section 5.1.

    >>> p_f([[[0.9, 0.1]], [[0.9, 0.5]]])
    array([1., 0.])
    """
    return _rejected(scores, tie=0.0)


def min_pc_pf(scores: ArrayLike) -> NDArray[np.float64]:
    """Return both decisions, caption accepted and foil rejected: float64 (item, 2), columns p_c and p_f.

    The metric is the smaller of the two columns' means: a model that accepts everything gets 0. Its chance
    level, 1/2, is that of a model at exactly 1/2 with ties broken at random; over few items the smaller of
    two means lies below 1/2 on average, and a constant model off 1/2 gets 0.

    Raises:
        MetricError: the items are not 1x2.
        ScoreError: no item, a score that is not finite, or one outside [0, 1].

    Source: VALSE (Parcalabescu et al. 2022); EqBen section 5.1.

    >>> min_pc_pf([[[0.9, 0.1]], [[0.9, 0.8]]])
    array([[1., 1.],
           [1., 0.]])
    """
    return _threshold(scores, "min_pc_pf", tie=0.0)


def pairwise(scores: ArrayLike) -> NDArray[np.float64]:
    """Return 1 where the caption outscores the foil, whatever the kind of score: float64 (item,). Chance 1/2.

    VALSE's name for `choice_score` on 1x2 items.

    Raises:
        MetricError: the items are not 1x2.
        ScoreError: no item, or a score that is not finite.

    Source: VALSE (Parcalabescu et al. 2022), `lxmert_valse_eval.py` (acc_r, there on the logit).

    >>> pairwise([[[31.0, 29.5]], [[30.0, 30.0]]])
    array([1., 0.])
    """
    s = read_scores(scores, "pairwise", _FOIL)
    return (s[:, 0, 0] > s[:, 0, 1]).astype(np.float64)


def _entries(scores: ArrayLike, name: str) -> NDArray[np.float32]:
    values = read_scores(scores, name, _CHOICE)
    return values.reshape(len(values), -1)


def _choice_neutral(scores: ArrayLike) -> NDArray[np.float64]:
    """One over the number tied at the top, 0 where the truth is below it: the closed form for any m or n."""
    flat = _entries(scores, "choice_score")
    top = flat == flat.max(axis=1, keepdims=True)
    return np.asarray(top[:, 0] / top.sum(axis=1))


def _threshold(scores: ArrayLike, name: str, tie: float) -> NDArray[np.float64]:
    """Caption accepted, foil rejected (item, 2); `tie` is what a probability of exactly 1/2 counts."""
    s = read_scores(scores, name, _FOIL)[:, 0, :]
    outside = np.flatnonzero(((s < 0) | (s > 1)).any(axis=1))
    if len(outside):
        raise ScoreError(
            f"{name} needs probabilities in [0, 1]; item {outside[0]} has {s[outside[0]].tolist()}: "
            "calibrate the scores or use pairwise"
        )
    above, below = s[:, 0] > _HALF, s[:, 1] < _HALF
    return np.asarray(np.stack([above, below], axis=1) + tie * (s == _HALF))


def _accepted(scores: ArrayLike, tie: float) -> NDArray[np.float64]:
    return _threshold(scores, "p_c", tie)[:, 0]


def _rejected(scores: ArrayLike, tie: float) -> NDArray[np.float64]:
    return _threshold(scores, "p_f", tie)[:, 1]


def _halves(scores: ArrayLike, tie: float) -> NDArray[np.float64]:
    return np.asarray(_threshold(scores, "acc", tie).mean(axis=1))


def _one_in(shape: Shape) -> float:
    return 1 / (shape[0] * shape[1])


_VALSE = "VALSE (Parcalabescu et al. 2022), lxmert_valse_eval.py; EqBen section 5.1"

CHOICE_METRICS: tuple[Metric, ...] = (
    Metric(
        name="choice_score",
        title="the true entry outscores every other",
        source="SugarCrepe main_eval.py; ARO",
        shapes=_CHOICE,
        strict=choice_score,
        neutral=_choice_neutral,
        chance_level=_one_in,
    ),
    Metric(
        name="acc",
        title="right decisions on caption and foil at probability 1/2",
        source=_VALSE,
        shapes=_FOIL,
        strict=acc,
        neutral=partial(_halves, tie=0.5),
        chance_level=1 / 2,
        kinds=PROBABILITY,
        binary=False,
    ),
    Metric(
        name="p_c",
        title="the caption is accepted at probability 1/2",
        source=_VALSE,
        shapes=_FOIL,
        strict=p_c,
        neutral=partial(_accepted, tie=0.5),
        chance_level=1 / 2,
        kinds=PROBABILITY,
    ),
    Metric(
        name="p_f",
        title="the foil is rejected at probability 1/2",
        source=_VALSE,
        shapes=_FOIL,
        strict=p_f,
        neutral=partial(_rejected, tie=0.5),
        chance_level=1 / 2,
        kinds=PROBABILITY,
    ),
    Metric(
        name="min_pc_pf",
        title="the smaller of captions accepted and foils rejected",
        source=_VALSE,
        shapes=_FOIL,
        strict=min_pc_pf,
        neutral=partial(_threshold, name="min_pc_pf", tie=0.5),
        chance_level=1 / 2,
        kinds=PROBABILITY,
        binary=False,
        components=("p_c", "p_f"),
    ),
    Metric(
        name="pairwise",
        title="the caption outscores its foil",
        source=_VALSE,
        shapes=_FOIL,
        strict=pairwise,
        chance_level=1 / 2,
    ),
)
"""The metrics of items with one true entry among foils."""
