"""The values of one metric, item by item."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tellapart.metrics.averages import mean
from tellapart.stats.intervals import Reduce

__all__ = ["PerItem", "Reduce"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PerItem:
    """The value of one metric for every item, with the facts to summarise it.

    Attributes:
        name: the metric's.
        strict: float64 `(item,)`, or `(item, component)` with `reduce`; a tie is never right.
        neutral: the same with ties broken at random, in expectation; None where nothing can tie.
        chance: the value of a model without information; None where that is not defined.
        binary: every value is 0 or 1.
        reduce: takes means of components `(..., component)` to the metric `(...)`.
        deviation: 0 is best and the spread matters (equivariance); not a score that should be high.

    >>> one = PerItem(name="accuracy", strict=np.array([1.0, 0.0]), chance=0.5, binary=True)
    >>> one.ties
    array([False, False])
    """

    name: str
    strict: NDArray[np.float64]
    neutral: NDArray[np.float64] | None = None
    chance: float | None = None
    binary: bool = False
    reduce: Reduce | None = None
    deviation: bool = False

    @property
    def ties(self) -> NDArray[np.bool_]:
        """Items whose value depends on how ties are broken, bool `(item,)`."""
        if self.neutral is None:
            return np.zeros(len(self.strict), dtype=bool)
        differs = self.strict != self.neutral
        return np.asarray(differs.any(axis=1) if differs.ndim == 2 else differs)

    def over(self, values: NDArray[np.float64]) -> float:
        """Return the metric of some items' values: their mean, or `reduce` of their components' means."""
        means = mean(values)
        return float(means if self.reduce is None else self.reduce(means))
