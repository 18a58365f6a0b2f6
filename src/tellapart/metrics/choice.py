"""Metrics of one truth among foils: the choice score, and VALSE's acc, p_c, p_f, min(p_c, p_f) and pairwise.

`scores[item, image, text]`; the true entry has index 0: the caption among texts (1xm) or the image among
images (nx1). Every comparison is strict and in float32: a tie, also with the threshold 1/2, is never right.
VALSE's metrics are those of Parcalabescu et al. (2022), `lxmert_valse_eval.py`, and EqBen section 5.1.
Each raises `MetricError` for other shapes, and `ScoreError` without an item, for scores that are not finite, and, if it
needs probabilities, for those outside [0, 1].
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellapart.errors import ScoreError
from tellapart.metrics.metric import ANY_KIND, PROBABILITY, Metric, PerItemFunction, Shape, read_scores

_CHOICE = ("1xm", "nx1")
_FOIL = ("1x2",)
_HALF = np.float32(0.5)


def choice_score(scores: ArrayLike) -> NDArray[np.float64]:
    """Return 1 if the true entry (index 0) outscores every other: float64 (item,).

    Chance 1/m for a 1xm item, 1/n for an nx1 item.

    Raises:
        MetricError: the items are neither 1xm nor nx1 (m, n >= 2).
        ScoreError: no item, or a score that is not finite.

    Source: SugarCrepe `main_eval.py` (1x2), ARO (1x2, 1x5); a tie is wrong for all of them here.

    >>> choice_score([[[0.9, 0.1, 0.3]], [[0.9, 0.9, 0.3]]])
    array([1., 0.])
    """
    flat = _read_entries(scores, "choice_score")
    return np.asarray(flat[:, 0] > flat[:, 1:].max(axis=1), dtype=np.float64)


def acc(scores: ArrayLike) -> NDArray[np.float64]:
    """Return the share of right decisions on caption and foil, 0, 1/2 or 1: float64 (item,). Chance 1/2.

    The mean of `p_c` and `p_f`; needs probabilities that image and text fit.

    >>> acc([[[0.9, 0.1]], [[0.9, 0.8]], [[0.3, 0.8]]])
    array([1. , 0.5, 0. ])
    """
    return _apply_threshold(scores, "acc")


def p_c(scores: ArrayLike) -> NDArray[np.float64]:
    """Return 1 if the caption is accepted, probability > 1/2: float64 (item,). Chance 1/2.

    >>> p_c([[[0.9, 0.1]], [[0.5, 0.1]]])
    array([1., 0.])
    """
    return _apply_threshold(scores, "p_c")


def p_f(scores: ArrayLike) -> NDArray[np.float64]:
    """Return 1 if the foil is rejected, probability < 1/2: float64 (item,). Chance 1/2.

    VALSE's script leaves out an item whose foil has a probability of exactly 1/2 (else it would count as detected,
    by `>=` on the logits); here that is a tie, which is never right, and no item leaves the denominator.

    >>> p_f([[[0.9, 0.1]], [[0.9, 0.5]]])
    array([1., 0.])
    """
    return _apply_threshold(scores, "p_f")


def min_pc_pf(scores: ArrayLike) -> NDArray[np.float64]:
    """Return both decisions, caption accepted and foil rejected: float64 (item, 2), columns p_c and p_f.

    The metric is the smaller of the two columns' means: a model that accepts everything gets 0. Its chance
    level, 1/2, is that of a model at exactly 1/2 with ties broken at random; over few items the smaller of
    two means lies below 1/2 on average, and a constant model off 1/2 gets 0.

    >>> min_pc_pf([[[0.9, 0.1]], [[0.9, 0.8]]])
    array([[1., 1.],
           [1., 0.]])
    """
    return _apply_threshold(scores, "min_pc_pf")


def pairwise(scores: ArrayLike) -> NDArray[np.float64]:
    """Return 1 if the caption outscores the foil, whatever the kind of score: float64 (item,). Chance 1/2.

    VALSE's name for `choice_score` on 1x2 items (acc_r of its script, there on the logit).

    >>> pairwise([[[31.0, 29.5]], [[30.0, 30.0]]])
    array([1., 0.])
    """
    s = read_scores(scores, "pairwise", _FOIL)
    return (s[:, 0, 0] > s[:, 0, 1]).astype(np.float64)


def _read_entries(scores: ArrayLike, name: str) -> NDArray[np.float32]:
    values = read_scores(scores, name, _CHOICE)
    return values.reshape(len(values), -1)


def _choice_neutral(scores: ArrayLike) -> NDArray[np.float64]:
    """Return one over the number tied at the top, 0 if the truth is below it: the closed form for any m or n."""
    flat = _read_entries(scores, "choice_score")
    top = flat == flat.max(axis=1, keepdims=True)
    return np.asarray(top[:, 0] / top.sum(axis=1))


def _apply_threshold(scores: ArrayLike, name: str, tie: float = 0.0) -> NDArray[np.float64]:
    """Return the value of `acc`, `p_c`, `p_f` or `min_pc_pf`; a probability of exactly 1/2 counts `tie`."""
    s = read_scores(scores, name, _FOIL)[:, 0, :]
    outside = np.flatnonzero(((s < 0) | (s > 1)).any(axis=1))
    if len(outside):
        raise ScoreError(
            f"{name} needs probabilities in [0, 1]; item {outside[0]} has {s[outside[0]].tolist()}: "
            "calibrate the scores or use pairwise"
        )
    accepted, rejected = s[:, 0] > _HALF, s[:, 1] < _HALF
    both = np.asarray(np.stack([accepted, rejected], axis=1) + tie * (s == _HALF))  # caption accepted, foil rejected
    if name == "acc":
        return np.asarray(both.mean(axis=1))
    return both if name == "min_pc_pf" else both[:, ("p_c", "p_f").index(name)]


def _one_in(shape: Shape) -> float:
    return 1 / (shape[0] * shape[1])


def _declare_valse(strict: PerItemFunction, title: str, *, components: tuple[str, ...] = ()) -> Metric:
    any_kind = strict is pairwise  # the others compare probabilities with 1/2
    return Metric(
        name=strict.__name__,
        title=title,
        source="VALSE (Parcalabescu et al. 2022), lxmert_valse_eval.py; EqBen section 5.1",
        shapes=_FOIL,
        strict=strict,
        neutral=None if any_kind else partial(_apply_threshold, name=strict.__name__, tie=0.5),
        chance_level=1 / 2,
        kinds=ANY_KIND if any_kind else PROBABILITY,
        binary=strict not in (acc, min_pc_pf),
        components=components,
        same_as="choice_score" if any_kind else "",
    )


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
    _declare_valse(acc, "right decisions on caption and foil at probability 1/2"),
    _declare_valse(p_c, "the caption is accepted at probability 1/2"),
    _declare_valse(p_f, "the foil is rejected at probability 1/2"),
    _declare_valse(min_pc_pf, "the smaller of captions accepted and foils rejected", components=("p_c", "p_f")),
    _declare_valse(pairwise, "the caption outscores its foil"),
)
"""The metrics of items with one true entry among foils."""
