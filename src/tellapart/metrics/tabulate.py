"""From per-item values to a benchmark's numbers: averages over items and over a tag's values, with intervals.

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
        by: tag -> value -> the metrics of the items with that value.
        macro: tag -> each metric's mean over the tag's values, every value with the same weight.
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
    # The first are means over the groups that they name, not over items.
    grouped, metrics = (
        [metric for metric in metrics if metric.groups is not None],
        [metric for metric in metrics if metric.groups is None],
    )
    groups = by_tag(tags, MOST_VALUES)
    items = np.unique(np.array(clusters), return_inverse=True)[1]  # as numbers, which compare faster than names
    average = partial(_over_items, metrics, items, seed=seed)
    macro_alone: dict[str, Value] = {}
    for metric in grouped:
        masks = by_tag([{metric.name: group} for group in metric.groups or ()])[metric.name]
        macro_alone |= _over_values([metric], items, "its groups", masks, seed=seed)
    if not metrics:
        return Tabulated(metrics=macro_alone, by={}, macro={})
    return Tabulated(
        metrics=average(np.ones(len(clusters), dtype=bool)) | macro_alone,
        by={
            tag: {value: Metrics(metrics=average(mask)) for value, mask in group.items()}
            for tag, group in groups.items()
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
    columns = [Column(metric.strict[mask], metric.binary, metric.reduce, metric.bounds) for metric in metrics]
    intervals = zip(metrics, intervals_for(columns, clusters[mask], seed=seed), strict=True)
    return {
        metric.name: _record_value(metric, interval, clusters, [mask], "micro: items") for metric, interval in intervals
    }


def _over_values(
    metrics: Sequence[PerItem],
    clusters: NDArray[np.intp],
    tag: str,
    groups: Mapping[str, NDArray[np.bool_]],
    *,
    seed: int,
) -> dict[str, Value]:
    """Average each metric over a tag's values, every value with the same weight (macro); skip items without the tag."""
    masks = list(groups.values())
    member = np.stack(masks, axis=1)  # (item, value of the tag)
    tagged: NDArray[np.bool_] = np.logical_or.reduce(masks)
    columns = [_macro_column(metric, tagged, member, tuple(groups)) for metric in metrics]
    intervals = zip(metrics, intervals_for(columns, clusters[tagged], seed=seed), strict=True)
    average = f"macro: {len(groups)} values of {tag}"
    return {metric.name: _record_value(metric, interval, clusters, masks, average) for metric, interval in intervals}


def _record_value(
    metric: PerItem,
    interval: Interval,
    clusters: NDArray[np.intp],
    groups: Sequence[NDArray[np.bool_]],
    average: str,
) -> Value:
    """Record one metric: the unweighted mean over disjoint groups of items, each a mean over its items."""
    mask: NDArray[np.bool_] = np.logical_or.reduce(groups)

    def mean_of(values: NDArray[np.float64]) -> float:
        return float(mean([metric.over(values[group]) for group in groups]))

    spread = summary(metric.strict[mask]) if metric.deviation else None
    n, drawn = int(mask.sum()), int(np.count_nonzero(np.bincount(clusters[mask])))
    one_mean = len(groups) == 1 and metric.reduce is None and drawn < n
    return Value(
        value=mean_of(metric.strict),
        low=interval.low,
        high=interval.high,
        level=interval.level,
        method=interval.method,
        reason=interval.reason or None,
        n=n,
        clusters=drawn,
        effective=effective_items(metric.strict[mask], clusters[mask]) if one_mean else None,
        ties=int(metric.ties[mask].sum()),
        tie_neutral=None if metric.neutral is None else mean_of(metric.neutral),
        official=None if metric.official is None or not metric.ties[mask].any() else mean_of(metric.official),
        chance=metric.chance,
        average=average,
        sd=spread.sd if spread else None,
        mean_absolute=spread.mean_absolute if spread else None,
    )


def _macro_column(
    metric: PerItem, tagged: NDArray[np.bool_], member: NDArray[np.bool_], names: tuple[str, ...]
) -> Column:
    """Lay out a metric for `MeanOfGroups`, so that one bootstrap draw gives every value's mean.

    For each value of the tag, one column holds an item's result if the item carries the value, and 0 if not; a second
    column holds 1 or 0 alike. In a resample, the mean of the first divided by the mean of the second is the mean over
    the items that carry the value, however many of them were drawn.
    """
    strict, member = metric.strict[tagged], member[tagged]
    rows = strict[:, None, :] if strict.ndim == 2 else strict[:, None, None]  # (item, 1, component)
    masked = rows * member[:, :, None]  # (item, value, component)
    table = np.concatenate([masked.reshape(len(masked), -1), member.astype(np.float64)], axis=1)
    return Column(table, metric.binary, MeanOfGroups(member.shape[1], metric.reduce, names), metric.bounds)
