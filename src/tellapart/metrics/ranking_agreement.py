"""Agreement of a model's ranking of images with people's, and its movement when one word of the caption changes.

EqBen's Fig. 1: people rank 25 images for "the house on the right side of the road"; a model that matches words finds
the first image, orders the rest otherwise, and keeps its order when "right" becomes "left".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellapart.errors import MetricError


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far two rankings of the same candidates agree; 1 the same, -1 reversed, None if one is all ties.

    Attributes:
        kendall: Kendall's tau-b, which counts pairs in the same order and allows for ties.
        spearman: Spearman's rho, the correlation of places.
    """

    kendall: float | None
    spearman: float | None


@dataclass(frozen=True, slots=True, eq=False)
class Movement:
    """How a ranking moves when its query is edited.

    Attributes:
        before: place of each candidate, from 1, tied ones sharing their mean place: float64 `(candidate,)`.
        after: the same after the edit.
        agreement: of the two rankings: near 1 if the edit left the order unchanged, -1 if it reversed it.
    """

    before: NDArray[np.float64]
    after: NDArray[np.float64]
    agreement: Agreement

    @property
    def mean_shift(self) -> float:
        """By how many places a candidate moves, on average (Spearman's footrule by candidate)."""
        return float(np.abs(self.after - self.before).mean())

    @property
    def share_of_largest(self) -> float:
        """The movement as a share of the largest possible one, that of a reversal: 0 to 1."""
        return float(np.abs(self.after - self.before).sum()) / (len(self.before) ** 2 // 2)


def places(scores: ArrayLike) -> NDArray[np.float64]:
    """Return the place of each candidate, from 1 for the highest score: float64 `(candidate,)`.

    Tied ones share their mean place; scores are compared in float32.

    >>> places([0.2, 0.9, 0.2, 0.1])
    array([2.5, 1. , 2.5, 4. ])
    """
    values = _check_ranking("places", scores).astype(np.float32)
    _, level, count = np.unique(-values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    return np.asarray((last - (count - 1) / 2)[level])


def agreement_with_people(scores: ArrayLike, people: ArrayLike) -> Agreement:
    """Compare a model's scores of candidates with the order in which people put them.

    `scores`: the model's, higher is closer to the query: `(candidate,)`; `people`: place of each candidate, 1 for the
    closest; means over several people and ties are allowed.

    Source: EqBen Fig. 1 (a) and Fig. 7.

    >>> agreement_with_people([0.9, 0.1, 0.5], [1, 2, 3]).spearman
    0.5
    """
    ranks = places(scores)
    theirs = _check_ranking("agreement_with_people", people)
    if ranks.shape != theirs.shape:
        raise MetricError(
            f"agreement_with_people: {len(ranks)} scores and {len(theirs)} places; rank the same candidates"
        )
    return _measure_agreement(ranks, theirs)


def movement(before: ArrayLike, after: ArrayLike) -> Movement:
    """Compare a model's scores of the same candidates for a caption and for its minimal edit.

    `before`: scores for the caption, higher is closer: `(candidate,)`.

    Source: EqBen Fig. 1 (a) and Fig. 7 ("right" to "left").

    >>> unmoved = movement([0.9, 0.5, 0.1], [0.8, 0.4, 0.2])
    >>> unmoved.mean_shift, unmoved.agreement.kendall
    (0.0, 1.0)
    """
    old, new = places(before), places(after)
    if old.shape != new.shape:
        raise MetricError(f"movement: {len(old)} scores before the edit and {len(new)} after it; score the same images")
    return Movement(old, new, _measure_agreement(old, new))


def _measure_agreement(a: NDArray[np.float64], b: NDArray[np.float64]) -> Agreement:
    if a.min() == a.max() or b.min() == b.max():
        return Agreement(None, None)
    from scipy import stats

    return Agreement(float(stats.kendalltau(a, b).statistic), float(stats.spearmanr(a, b).statistic))


def _check_ranking(call: str, values: ArrayLike) -> NDArray[Any]:
    array: NDArray[Any] = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "biuf" or len(array) < 2:
        raise MetricError(f"{call} needs a number for each of two or more candidates; got {array.dtype} {array.shape}")
    if len(bad := np.flatnonzero(~np.isfinite(array))):
        raise MetricError(f"{call}: candidate {bad[0]} has {array[bad[0]]}; every candidate needs a finite number")
    return array
