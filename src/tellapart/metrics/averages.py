"""Averages of per-item values: exact sums, and the items that carry each value of a tag."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellapart.errors import MetricError

__all__ = ["by_tag", "mean"]


def mean(values: ArrayLike) -> NDArray[np.float64]:
    """Return the mean over items: float64 () from (item,), (component,) from (item, component).

    The sum is exact, so neither the order nor the batching of items can change it.

    Raises:
        MetricError: no item, or values that are not (item,) or (item, component).

    >>> float(mean([1.0, 0.0, 1.0, 1.0]))
    0.75
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


def by_tag(tags: Sequence[Mapping[str, str]]) -> dict[str, dict[str, NDArray[np.bool_]]]:
    """Return tag -> value -> which items carry it, bool (item,); tags and values in alphabetical order.

    An item without a tag belongs to none of the tag's values. Index per-item values with a mask and take
    their mean: that is the micro average within the value.

    >>> masks = by_tag([{"type": "swap"}, {"type": "add"}, {"type": "swap"}, {}])
    >>> list(masks["type"]), masks["type"]["swap"]
    (['add', 'swap'], array([ True, False,  True, False]))
    """
    masks: dict[str, dict[str, NDArray[np.bool_]]] = {}
    for item, carried in enumerate(tags):
        for tag, value in carried.items():
            mask = masks.setdefault(tag, {}).setdefault(value, np.zeros(len(tags), dtype=np.bool_))
            mask[item] = True
    return {tag: {value: masks[tag][value] for value in sorted(masks[tag])} for tag in sorted(masks)}
