"""What a model fails at: the values of its tags whose items it gets clearly less often than the other items."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tellapart.metrics.per_item import by_tag
from tellapart.report.sections import ModelEntry
from tellapart.stats.intervals import Interval, interval_for, wilson_in_clusters

__all__ = ["LEVEL", "WeakSubset", "weak_subsets"]

#: Of the intervals, together over all values that are looked at.
LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class WeakSubset:
    """Items of one value of a tag, and those of its other values.

    Attributes:
        mean: of the metric over the value's `n` items.
        others: of the metric over the items of the tag's other values.
    """

    tag: str
    value: str
    mean: float
    n: int
    others: float


def weak_subsets(entry: ModelEntry, metric: str, *, seed: int = 0) -> tuple[WeakSubset, ...]:
    """Return the values of one tag that lie clearly below its other values, the lowest first.

    Clearly: the value's interval lies below that of the items of the tag's other values, both at a level that holds
    for all values of all tags together (Bonferroni), so that the lowest of many is no accident. The tag is that of the
    lowest such value. Empty where there is none, or where the metric has no value of an item.

    Args:
        entry: the model.
        metric: by which.
        seed: of the bootstrap, where values are no right or wrong.
    """
    groups_of = {tag: groups for tag, groups in entry.record.by.items() if len(groups) > 1}
    looked_at = sum(map(len, groups_of.values()))
    samples = [sample for sample in entry.samples if metric in sample.outcomes]
    if not looked_at or not samples:
        return ()
    values = np.array([sample.outcomes[metric] for sample in samples])
    clusters = np.array([sample.cluster for sample in samples])
    level = 1 - (1 - LEVEL) / looked_at
    binary = bool(np.isin(values, (0, 1)).all())

    def interval(items: NDArray[np.bool_]) -> Interval:
        if binary:
            return wilson_in_clusters(values[items], clusters[items], level=level)
        return interval_for(values[items], clusters[items], binary=False, level=level, seed=seed)

    # A tag that names each item would have as many masks as items.
    masks_of = by_tag([{tag: value for tag, value in sample.tags.items() if tag in groups_of} for sample in samples])
    found: dict[str, list[WeakSubset]] = {}
    for tag, groups in groups_of.items():
        masks = masks_of.get(tag, {})
        tagged: NDArray[np.bool_] = np.logical_or.reduce([*masks.values(), np.zeros(len(values), np.bool_)])
        for value, mask in masks.items():
            others = tagged & ~mask
            known = groups[value].metrics.get(metric) if value in groups else None
            # What the record's own, narrower interval does not show needs no wider one.
            if known is None or known.high is None or known.high >= values[tagged].mean() or not others.any():
                continue
            if _lies_below(interval(mask), interval(others)):
                low, high = float(values[mask].mean()), float(values[others].mean())
                found.setdefault(tag, []).append(WeakSubset(tag, value, low, int(mask.sum()), high))
    return _of_the_lowest(found)


def _lies_below(one: Interval, other: Interval) -> bool:
    return one.high is not None and other.low is not None and one.high < other.low


def _of_the_lowest(found: Mapping[str, list[WeakSubset]]) -> tuple[WeakSubset, ...]:
    """Return the subsets of the tag that has the lowest, the lowest first."""
    ordered = (sorted(subsets, key=lambda subset: (subset.mean, -subset.n)) for subsets in found.values())
    by_lowest = sorted(ordered, key=lambda subsets: (subsets[0].mean, -subsets[0].n))
    return tuple(by_lowest[0]) if by_lowest else ()
