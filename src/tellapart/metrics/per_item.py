"""The values of one metric, item by item, and their averages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellapart.errors import MetricError
from tellapart.stats.interval import Reduce


def mean(values: ArrayLike) -> NDArray[np.float64]:
    """Return the mean over items: float64 () from (item,), (component,) from (item, component).

    The sum is exact, so neither the order nor the batching of items can change it.

    >>> mean([[1.0, 0.0], [1.0, 1.0]])
    array([1. , 0.5])
    """
    per_item = np.asarray(values, dtype=np.float64)
    if per_item.ndim not in (1, 2) or len(per_item) == 0:
        raise MetricError(
            f"a mean needs values (item,) or (item, component) of at least one item; got shape {per_item.shape}"
        )
    if per_item.ndim == 1:
        return np.asarray(fsum(per_item) / len(per_item))
    return np.array([fsum(column) / len(per_item) for column in per_item.T])


def by_tag(tags: Sequence[Mapping[str, str]], most: int | None = None) -> dict[str, dict[str, NDArray[np.bool_]]]:
    """Return tag -> value -> which items carry it, bool (item,); tags and values in alphabetical order.

    An item without a tag, or with an empty one, belongs to none of the tag's values. Index per-item values with a mask
    and take their mean: that is the micro average within the value. A tag with more than `most` values is left out.

    >>> masks = by_tag([{"type": "swap"}, {"type": "add"}, {"type": "swap"}, {}])
    >>> list(masks["type"]), masks["type"]["swap"]
    (['add', 'swap'], array([ True, False,  True, False]))
    """
    items_of: dict[str, dict[str, list[int]]] = {}
    for item, carried in enumerate(tags):
        for tag, value in carried.items():
            if value:
                items_of.setdefault(tag, {}).setdefault(value, []).append(item)
    return {
        tag: {value: np.isin(np.arange(len(tags)), values[value]) for value in sorted(values)}
        for tag, values in sorted(items_of.items())
        if most is None or len(values) <= most
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class PerItem:
    """The value of one metric for every item, with the facts to summarise it."""

    name: str
    #: Float64 `(item,)`, or `(item, component)` with `reduce`; a tie is never right.
    strict: NDArray[np.float64]
    #: The same with ties broken at random, in expectation; None if nothing can tie.
    neutral: NDArray[np.float64] | None = None
    #: The value of a model without information; None if that is not defined.
    chance: float | None = None
    #: The chance of each item, if items differ in it: float64 `(item,)`, of which `chance` is the mean.
    chances: NDArray[np.float64] | None = None
    binary: bool = False
    #: Makes the metric `(...)` of the means of its components `(..., component)`.
    reduce: Reduce | None = None
    bounds: tuple[float, float] | None = None
    #: 0 is best and the spread matters (equivariance); it is not a score that should be high.
    deviation: bool = False
    #: The values by the rule of ties of the benchmark's authors; None if that is `strict`'s, too.
    official: NDArray[np.float64] | None = None
    #: The group of each item, if the number is the unweighted mean over groups. None: it is the mean over items.
    groups: Sequence[str] | None = None
    #: The answer of `ties`, bool `(item,)`; None: the items whose `strict` and `neutral` differ.
    touched: NDArray[np.bool_] | None = None
    #: Computes the metric among the items of a mask alone, or None; absent if no item's value depends on the others.
    among: Callable[[NDArray[np.bool_]], PerItem | None] | None = None

    @property
    def ties(self) -> NDArray[np.bool_]:
        """Items whose value depends on how ties are broken, bool `(item,)`; a tie that changes no value is left out."""
        if self.touched is not None:
            return self.touched
        if self.neutral is None:
            return np.zeros(len(self.strict), dtype=bool)
        # Strict counts a tie as lost, so breaking one can only add: the expectation moves if any order moves it.
        differs = self.strict != self.neutral
        return np.asarray(differs.any(axis=1) if differs.ndim == 2 else differs)

    def over(self, values: NDArray[np.float64]) -> float:
        """Return the metric of some items' values: their mean, or `reduce` of their components' means."""
        means = mean(values)
        return float(means if self.reduce is None else self.reduce(means))

    def within(self, mask: NDArray[np.bool_]) -> PerItem | None:
        """Return the metric of some items, bool `(item,)`; None if it is not defined for them."""
        if self.among is not None:
            return self.among(mask)
        return replace(
            self,
            strict=self.strict[mask],
            neutral=None if self.neutral is None else self.neutral[mask],
            official=None if self.official is None else self.official[mask],
            touched=None if self.touched is None else self.touched[mask],
            chance=self.chance if self.chances is None else float(mean(self.chances[mask])),
            chances=None if self.chances is None else self.chances[mask],
            groups=None,  # `tabulate` cuts such a metric to one group at a time
        )
