"""Cluster totals for resampling tests, summed exactly so that no order can change a result.

Captions of one image, frames of one video and variants of one scene are not independent, so clusters are
drawn, or flipped. Floating-point sums depend on the order of their terms, so values are first rounded to a binary
grid so fine (about 1e-10 of the largest value) and so short that every sum of them is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.errors import MetricError

Clusters = Sequence[str] | Sequence[int] | NDArray[Any]
"""One name or number an item, in the items' order; items that share it are resampled together."""


def check_values(call: str, values: Any, *, binary: bool = False) -> NDArray[np.float64]:
    """Return `values` as float64 `(item,)` or `(item, component)`; `call` is the caller's name, for messages."""
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise MetricError(f"{call}: expected numbers, got an array of {array.dtype}; pass one value an item")
    array = array.astype(np.float64)
    if array.ndim not in (1, 2):
        raise MetricError(f"{call}: expected shape (item,) or (item, component), got {array.shape}")
    if array.size == 0:
        raise MetricError(f"{call}: got no values (shape {array.shape}); pass one value an item")
    rows = array.reshape(len(array), -1)
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if bad.size:
        raise MetricError(f"{call}: {bad.size} items are not finite, the first is item {bad[0]}; repair the scores")
    if binary and not is_binary(array):
        odd = rows[(rows != 0) & (rows != 1)][0]
        raise MetricError(f"{call}: expected only 0 and 1, got {odd:g}; pass outcomes (right or wrong), not scores")
    return array


def check_level(call: str, level: float) -> float:
    """Return a confidence level (or a significance level, or a power)."""
    if not 0 < level < 1:
        raise MetricError(f"{call}: expected a level in (0, 1), got {level}; 95 % is written 0.95")
    return float(level)


def is_binary(values: NDArray[np.float64]) -> bool:
    """Return whether every value is 0 or 1."""
    return bool(np.isin(values, (0.0, 1.0)).all())


def number_clusters(call: str, clusters: Clusters | None, items: int) -> NDArray[np.int64]:
    """Number the items' clusters from 0: int64 `(item,)`; without clusters each item is its own."""
    if clusters is None:
        return np.arange(items)
    names = np.asarray(clusters)
    if names.dtype.kind not in "iuU" or names.ndim != 1:
        raise MetricError(
            f"{call}: expected one integer or string an item as its cluster, "
            f"got an array of {names.dtype} with shape {names.shape}"
        )
    if len(names) != items:
        raise MetricError(f"{call}: got {items} items and {len(names)} clusters; pass one cluster an item")
    return np.unique(names, return_inverse=True)[1].astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class ClusterTotals:
    """The sum of each cluster's values `(cluster, component)` and its number of items `(cluster,)`, sorted by these.

    Clusters with equal totals are interchangeable, so sorting by totals makes every seeded result independent of
    the items' order and of the clusters' names. Sums are integers: values times `2**shift`, a grid that is the same for
    all components, so that they can be subtracted exactly.
    """

    sums: NDArray[np.float64]
    counts: NDArray[np.float64]
    shift: int

    @classmethod
    def of(cls, call: str, values: Any, clusters: Clusters | None) -> ClusterTotals:
        """Sum `values` (float `(item,)` or `(item, component)`) by cluster."""
        array = check_values(call, values)
        return cls.of_numbered(array, number_clusters(call, clusters, len(array)))

    @classmethod
    def of_numbered(cls, values: NDArray[np.float64], codes: NDArray[np.int64]) -> ClusterTotals:
        """Sum checked `values` by their clusters' numbers `(item,)`, from 0 and without a gap."""
        rows = values.reshape(len(values), -1)
        counts = np.bincount(codes).astype(np.float64)
        # The largest sum of a resample is of the largest cluster, drawn every time; float64 is exact below 2**53.
        bits = 52 - int(np.ceil(np.log2(len(counts) * counts.max())))
        shift = bits - int(np.frexp(np.abs(rows).max())[1])
        grid = np.rint(np.ldexp(rows, shift))
        sums = np.stack([np.bincount(codes, column).astype(np.float64) for column in grid.T], axis=1)
        order = np.lexsort((*sums.T, counts))
        return cls(sums[order], counts[order], shift)

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def items(self) -> int:
        """Items in all clusters."""
        return int(self.counts.sum())

    @property
    def independent(self) -> bool:
        """Whether every cluster holds one item."""
        return bool((self.counts == 1).all())

    def means(self, sums: NDArray[np.float64], counts: Any) -> NDArray[np.float64]:
        """Return `sums / counts` in the values' unit; the last axis of `sums` is the component."""
        scaled: NDArray[np.float64] = np.ldexp(sums / counts, -self.shift)
        return scaled

    def variance(self) -> float:
        """Return the linearised variance of the first component's mean, over draws of at least two clusters.

        The mean is a ratio: its sum and its count change with the clusters drawn. In the values' unit, squared.

        Source: Cochran (1977), Sampling Techniques, 3rd ed., section 6.3 (a ratio of cluster totals).
        """
        clusters, items = len(self), self.items
        estimates = self.means(self.sums, 1)[:, 0]
        centre = float(estimates.sum() / items)
        return clusters / (clusters - 1) * float(((estimates - centre * self.counts) ** 2).sum()) / items**2
