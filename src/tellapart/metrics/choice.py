"""Metrics of one image or text with true and false entries: the choice score, VALSE's metrics, and SugarCrepe++'s.

`scores[item, image, text]`; the true entry has index 0: the caption among texts (1xm) or the image among images (nx1);
of several true texts the false one is the last. Every comparison is strict and in float32: a tie, also with the
threshold 1/2, is never right.

VALSE's metrics of a caption and its foil are those of Parcalabescu et al. (2022), `lxmert_valse_eval.py`, and EqBen
section 5.1: captions accepted (`p_c`, probability > 1/2), foils rejected (`p_f`, probability < 1/2), the mean of both
(`acc`) and the smaller of both (`min_pc_pf`), and `pairwise`, which takes scores of any kind. VALSE's script leaves out
an item whose foil has a probability of exactly 1/2; here that is a tie, and no item leaves the denominator. A model
that accepts everything has a `min_pc_pf` of 0; its chance, 1/2, is that of a model at exactly 1/2, ties broken at
random, and over few items the smaller of two means lies below it on average.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellapart.errors import ScoreError
from tellapart.metrics.metric import PROBABILITY, Metric, Shape, read_scores

_CHOICE, _FOIL, _SEVERAL_TRUE = ("1xm", "nx1"), ("1x2",), ("1xm",)
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
    return _choose(scores, "choice_score", _CHOICE)


def _choose(
    scores: ArrayLike, name: str, shapes: tuple[str, ...], *, last: bool = False, neutral: bool = False
) -> NDArray[np.float64]:
    """Return 1 if the first entry outscores every other, or with `last` if every other outscores the last one.

    A tie counts 0, and with `neutral` one over the number of the tied: the closed form for any m or n.
    """
    flat = _read_entries(scores, name, shapes)
    flat = -flat[:, ::-1] if last else flat  # the last entry is the lowest if, negated and first, it is the highest
    top = flat == flat.max(axis=1, keepdims=True)
    shares = top[:, 0] / top.sum(axis=1)
    return np.asarray(shares if neutral else shares == 1, dtype=np.float64)


def _read_entries(scores: ArrayLike, name: str, shapes: tuple[str, ...]) -> NDArray[np.float32]:
    values = read_scores(scores, name, shapes)
    return values.reshape(len(values), -1)


def _apply_threshold(scores: ArrayLike, name: str, tie: float) -> NDArray[np.float64]:
    """Return the value of `acc`, `p_c`, `p_f` or `min_pc_pf`; a probability of exactly 1/2 counts `tie`."""
    s = _read_entries(scores, name, _FOIL)
    outside = np.flatnonzero(((s < 0) | (s > 1)).any(axis=1))
    if len(outside):
        raise ScoreError(
            f"{name} needs probabilities in [0, 1]; item {outside[0]} has {s[outside[0]].tolist()}: "
            "calibrate the scores or use pairwise"
        )
    accepted, rejected = s[:, 0] > _HALF, s[:, 1] < _HALF
    right = np.asarray(np.stack([accepted, rejected], axis=1) + tie * (s == _HALF))  # (item, p_c and p_f)
    if name == "acc":
        return np.asarray(right.mean(axis=1))
    # Of `min_pc_pf` both components: the smaller of their means over all items is the metric.
    return right if name == "min_pc_pf" else right[:, ("p_c", "p_f").index(name)]


def _uniform_chance(shape: Shape) -> float:
    return 1 / (shape[0] * shape[1])


_VALSE = "VALSE (Parcalabescu et al. 2022), lxmert_valse_eval.py; EqBen section 5.1"


def _declare_threshold(name: str, title: str, *, binary: bool = False, components: tuple[str, ...] = ()) -> Metric:
    strict, neutral = (partial(_apply_threshold, name=name, tie=tie) for tie in (0.0, 0.5))
    return Metric(
        name, title, _VALSE, _FOIL, strict=strict, neutral=neutral, chance_level=1 / 2, kinds=PROBABILITY,
        binary=binary, components=components,
    )  # fmt: skip


CHOICE_METRICS: tuple[Metric, ...] = (
    Metric(
        "choice_score",
        "the true entry outscores every other",
        "SugarCrepe main_eval.py; ARO",
        _CHOICE,
        strict=choice_score,
        neutral=partial(_choose, name="choice_score", shapes=_CHOICE, neutral=True),
        chance_level=_uniform_chance,
    ),
    _declare_threshold("acc", "right decisions on caption and foil at probability 1/2"),
    _declare_threshold("p_c", "the caption is accepted at probability 1/2", binary=True),
    _declare_threshold("p_f", "the foil is rejected at probability 1/2", binary=True),
    _declare_threshold("min_pc_pf", "the smaller of captions accepted and foils rejected", components=("p_c", "p_f")),
    Metric(
        "pairwise",
        "the caption outscores its foil",
        _VALSE,
        _FOIL,
        strict=partial(_choose, name="pairwise", shapes=_FOIL),
        chance_level=1 / 2,
        same_as="choice_score",
    ),
    Metric(
        "itt",
        "every true text outscores the false one",
        "SugarCrepe++ (Dumpala et al. 2024), ITT",
        _SEVERAL_TRUE,
        strict=partial(_choose, name="itt", shapes=_SEVERAL_TRUE, last=True),
        neutral=partial(_choose, name="itt", shapes=_SEVERAL_TRUE, last=True, neutral=True),
        chance_level=_uniform_chance,
        one_false=True,
    ),
)
"""The metrics of items of one image or of one text."""
