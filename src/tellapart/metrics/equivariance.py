"""EqSim's equivariance deviations (Wang et al. 2023, section 3, Eq. 6; Fig. 6 and 13).

A similarity is equivariant when both captions' change and both images' change move it equally:
`s11 - s12 = s22 - s21` and `s11 - s21 = s22 - s12`, which for distant pairs reduces to `s12 = s21` (s_ij is
image i with text j, counted from 1 as in the paper). Each function returns the difference of the two sides for
every item, signed, in the unit of the scores: 0 is equivariant. The deviations have the model's scale, so curves
of two models compare only if their similarities share one scale.

Both v2 deviations vanish exactly if `s11 = s22` and `s12 = s21`; and `v2_image - v2_text = 2 v1`.
Each raises `MetricError` for other shapes, and `ScoreError` without an item or for scores that are not finite.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import fsum, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellapart.data.scores import expect_finite
from tellapart.errors import MetricError
from tellapart.metrics.metric import Metric, read_scores

_SHAPES = ("2x2",)
_LEAST_LIMIT = 1e-300  # float32 scores differ by far more; below it a density overflows


def _deviate(scores: ArrayLike, name: str) -> NDArray[np.float64]:
    """Return `s12 - s21` (v1), `(s11 - s12) - (s22 - s21)` (v2_text) or `(s11 - s21) - (s22 - s12)` (v2_image)."""
    s = read_scores(scores, name, _SHAPES).astype(np.float64)  # differences of float32 scores hardly round there
    s11, s12, s21, s22 = s[:, 0, 0], s[:, 0, 1], s[:, 1, 0], s[:, 1, 1]
    if name == "v1":
        return np.asarray(s12 - s21)
    return np.asarray((s11 - s12) - (s22 - s21) if name == "v2_text" else (s11 - s21) - (s22 - s12))


@dataclass(frozen=True, slots=True)
class Summary:
    """Centre and spread of deviations, in the unit of the scores; `sd` is over items (n - 1), None for a single one."""

    n: int
    mean: float
    sd: float | None
    mean_absolute: float


def summary(values: ArrayLike) -> Summary:
    """Return mean, standard deviation and mean absolute value of deviations (item,), whatever their order.

    >>> summary([1.0, 3.0])
    Summary(n=2, mean=2.0, sd=1.4142135623730951, mean_absolute=2.0)
    """
    deviations = _check_deviations(values, "summary")
    n = len(deviations)
    mean = fsum(deviations) / n  # fsum is exact: no dependence on the items' order
    sd = sqrt(fsum((deviations - mean) ** 2) / (n - 1)) if n > 1 else None
    return Summary(n, mean, sd, fsum(np.abs(deviations)) / n)


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """A histogram whose bins mirror each other about zero; the middle bin holds the zeros.

    Edges are float64 `(bins + 1,)` in the unit of the scores, counts int64 `(bins,)`; `below` and `above` are the
    items outside the edges.
    """

    edges: NDArray[np.float64]
    counts: NDArray[np.int64]
    below: int
    above: int

    @property
    def density(self) -> NDArray[np.float64]:
        """The density (bins,) over all items: its area is the share of items inside the edges."""
        items = self.below + int(self.counts.sum()) + self.above
        return np.asarray(self.counts / (items * np.diff(self.edges)))


def histogram(values: ArrayLike, bins: int = 41, limit: float | None = None) -> Histogram:
    """Count deviations (item,) in an odd number of equal bins from -limit to limit: the curve of the paper's Fig. 6.

    An edge belongs to the bin farther from zero (the outermost to its bin), so negated values give the
    mirrored histogram. The limit is the largest absolute deviation when None (1 if all are 0); give several models one.

    >>> histogram([-1.0, 0.0, 0.1, 3.0], bins=3, limit=1.5).counts
    array([1, 2, 0])
    """
    deviations = _check_deviations(values, "histogram")
    if bins < 1 or bins % 2 == 0:
        raise MetricError(f"histogram needs an odd number of bins, so that zero lies inside one; got {bins}")
    size = np.abs(deviations)
    if limit is None:
        limit = float(size.max()) or 1.0
    if not _LEAST_LIMIT <= limit <= 1 / _LEAST_LIMIT:
        raise MetricError(f"histogram needs a positive, finite limit, from 1e-300 to 1e300; got {limit}")
    middle = bins // 2
    right = limit * (np.arange(middle + 1) * 2 + 1) / bins  # right edges of the middle bin and those above
    right[-1] = limit
    inside = size <= limit
    # Bins are found by size and mirrored by sign, so rounding treats both sides alike.
    away = np.minimum(np.searchsorted(right, size[inside], side="right"), middle)
    indices = middle + np.where(deviations[inside] < 0, -away, away)
    return Histogram(
        edges=np.concatenate([-right[::-1], right]),
        counts=np.bincount(indices, minlength=bins),
        below=int((deviations < -limit).sum()),
        above=int((deviations > limit).sum()),
    )


def _check_deviations(values: ArrayLike, name: str) -> NDArray[np.float64]:
    deviations = np.asarray(values, dtype=np.float64)
    if deviations.ndim != 1 or len(deviations) == 0:
        raise MetricError(f"{name} needs a deviation of each of one item or more; got shape {deviations.shape}")
    expect_finite(deviations, f"{name}: deviations", error=MetricError)
    return deviations


EQUIVARIANCE_METRICS: tuple[Metric, ...] = tuple(
    Metric(
        name,
        f"equivariance deviation {change} (0 is best)",
        "EqSim (Wang et al. 2023), section 3, Eq. 6; Fig. 6 and 13",
        _SHAPES,
        strict=(deviation := partial(_deviate, name=name)),
        neutral=deviation,  # ties do not matter to a difference
        bounds=(-np.inf, np.inf),
        binary=False,
    )
    for name, change in (
        ("v1", "s12 - s21"),
        ("v2_text", "under a change of text"),
        ("v2_image", "under a change of image"),
    )
)
"""The signed deviations of 2x2 items; smaller in size is better, and there is no chance level."""
