"""Per-item values to numbers: averages over items and over a tag's values, each with its interval, ties and chance.

Whatever was measured (pairs, answers, ranks, boxes, captions), a metric arrives here as one value per item and leaves
as `Value` records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tellapart.metrics.equivariance import summary
from tellapart.metrics.per_item import PerItem, by_tag, mean
from tellapart.records.result import Curve, Metrics, Value
from tellapart.stats.combined import MeanOfGroups
from tellapart.stats.effective import effective_items
from tellapart.stats.intervals import Column, Interval, intervals_for

__all__ = ["MOST_VALUES", "Tabulated", "tabulate"]

#: A tag with more values than this is an identifier, not a breakdown.
MOST_VALUES = 64


@dataclass(frozen=True, slots=True)
class Tabulated:
    """The numbers of one benchmark.

    Attributes:
        metrics: over all items.
        by: tag -> value -> its items' metrics.
        macro: tag -> the unweighted means over its values.
        curves: the histograms of equivariance deviations.

    >>> Tabulated(metrics={}, by={}, macro={}).curves
    {}
    """

    metrics: dict[str, Value]
    by: dict[str, dict[str, Metrics]]
    macro: dict[str, Metrics]
    curves: dict[str, Curve] = field(default_factory=dict)


def tabulate(
    metrics: Sequence[PerItem], clusters: Sequence[str], tags: Sequence[Mapping[str, str]], *, seed: int = 0
) -> Tabulated:
    """Average metrics of the same items, with intervals that resample clusters.

    Metrics, clusters and tags are of the same items, in one order.

    >>> right = PerItem(name="accuracy", strict=np.array([1.0, 0.0, 1.0]), chance=0.5, binary=True)
    >>> table = tabulate([right], ["a", "a", "b"], [{"type": "swap"}, {"type": "swap"}, {"type": "add"}])
    >>> round(table.metrics["accuracy"].value, 3), table.by["type"]["swap"].metrics["accuracy"].value
    (0.667, 0.5)
    """
    grouped, metrics = (
        [one for one in metrics if one.groups is not None],
        [one for one in metrics if one.groups is None],
    )
    groups = by_tag(tags, MOST_VALUES)
    items = np.unique(np.array(clusters), return_inverse=True)[1]  # numbers: names are slow to compare, again and again
    over = partial(_over_items, metrics, items, seed=seed)
    macro_alone: dict[str, Value] = {}
    for one in grouped:
        masks = by_tag([{one.name: group} for group in one.groups or ()])[one.name]
        macro_alone |= _over_values([one], items, "its groups", masks, seed=seed)
    if not metrics:
        return Tabulated(metrics=macro_alone, by={}, macro={})
    return Tabulated(
        metrics=over(np.ones(len(clusters), dtype=bool)) | macro_alone,
        by={
            tag: {value: Metrics(metrics=over(mask)) for value, mask in group.items()} for tag, group in groups.items()
        },
        macro={
            tag: Metrics(metrics=_over_values(metrics, items, tag, group, seed=seed))
            for tag, group in groups.items()
            if len(group) > 1
        },
    )


def _over_items(
    metrics: Sequence[PerItem], clusters: NDArray[np.intp], mask: NDArray[np.bool_], *, seed: int
) -> dict[str, Value]:
    """Average each metric over the items of a mask (micro)."""
    columns = [Column(one.strict[mask], one.binary, one.reduce, one.bounds) for one in metrics]
    intervals = zip(metrics, intervals_for(columns, clusters[mask], seed=seed), strict=True)
    return {one.name: _record_value(one, interval, clusters, [mask], "micro: items") for one, interval in intervals}


def _over_values(
    metrics: Sequence[PerItem],
    clusters: NDArray[np.intp],
    tag: str,
    groups: Mapping[str, NDArray[np.bool_]],
    *,
    seed: int,
) -> dict[str, Value]:
    """Average each metric over a tag's values, every value weighing the same (macro)."""
    masks = list(groups.values())
    member = np.stack(masks, axis=1)  # (item, value of the tag)
    carried: NDArray[np.bool_] = np.logical_or.reduce(masks)
    columns = [_macro_column(one, carried, member, tuple(groups)) for one in metrics]
    intervals = zip(metrics, intervals_for(columns, clusters[carried], seed=seed), strict=True)
    average = f"macro: {len(groups)} values of {tag}"
    return {one.name: _record_value(one, interval, clusters, masks, average) for one, interval in intervals}


def _record_value(
    one: PerItem,
    interval: Interval,
    clusters: NDArray[np.intp],
    groups: Sequence[NDArray[np.bool_]],
    average: str,
) -> Value:
    """Record one metric: the unweighted mean over disjoint groups of items, each a mean over its items."""
    mask: NDArray[np.bool_] = np.logical_or.reduce(groups)

    def mean_of(values: NDArray[np.float64]) -> float:
        return float(mean([one.over(values[group]) for group in groups]))

    spread = summary(one.strict[mask]) if one.deviation else None
    n, drawn = int(mask.sum()), int(np.count_nonzero(np.bincount(clusters[mask])))
    one_mean = len(groups) == 1 and one.reduce is None and drawn < n
    return Value(
        value=mean_of(one.strict),
        low=interval.low,
        high=interval.high,
        level=interval.level,
        method=interval.method,
        reason=interval.reason or None,
        n=n,
        clusters=drawn,
        effective=effective_items(one.strict[mask], clusters[mask]) if one_mean else None,
        ties=int(one.ties[mask].sum()),
        tie_neutral=None if one.neutral is None else mean_of(one.neutral),
        official=None if one.official is None or not one.ties[mask].any() else mean_of(one.official),
        chance=one.chance,
        average=average,
        sd=spread.sd if spread else None,
        mean_absolute=spread.mean_absolute if spread else None,
    )


def _macro_column(
    one: PerItem, carried: NDArray[np.bool_], member: NDArray[np.bool_], names: tuple[str, ...]
) -> Column:
    """Lay out a metric for `MeanOfGroups`, so that one bootstrap draw gives every value's mean.

    Columns are the strict values masked by each value of the tag, then the masks: a resample's mean of the first over
    its mean of the second is the value's mean in that resample, however many of its items were drawn.
    """
    strict, member = one.strict[carried], member[carried]
    rows = strict[:, None, :] if strict.ndim == 2 else strict[:, None, None]  # (item, 1, component)
    masked = rows * member[:, :, None]  # (item, value, component)
    table = np.concatenate([masked.reshape(len(masked), -1), member.astype(np.float64)], axis=1)
    return Column(table, one.binary, MeanOfGroups(member.shape[1], one.reduce, names), one.bounds)
