"""From per-item values to a benchmark's numbers: averages over items and over a tag's values, with intervals.

Whatever was measured (pairs, answers, ranks, boxes, captions), a metric arrives here as one value per item and leaves
as `Value` records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tellapart.data.progress import Progress
from tellapart.metrics.equivariance import summary
from tellapart.metrics.per_item import PerItem, by_tag, mean
from tellapart.records.result import Curve, Metrics, Value
from tellapart.stats.combined import MeanOfGroups
from tellapart.stats.interval import Interval
from tellapart.stats.intervals import Column, intervals_for
from tellapart.stats.power import effective_items

#: A tag with more values than this is an identifier, not a breakdown.
MOST_VALUES = 64


@dataclass(frozen=True, slots=True)
class Tabulated:
    """The numbers of a benchmark: over all items, by tag and value, each metric's mean over a tag's values, and curves.

    In the macro means every value has the same weight; the curves are the histograms of equivariance deviations.
    """

    metrics: dict[str, Value]
    by: dict[str, dict[str, Metrics]]
    macro: dict[str, Metrics]
    curves: dict[str, Curve] = field(default_factory=dict)


def tabulate(
    metrics: Sequence[PerItem],
    clusters: Sequence[str],
    tags: Sequence[Mapping[str, str]],
    *,
    seed: int = 0,
    progress: Progress | None = None,
) -> Tabulated:
    """Average metrics of the same items, with intervals that resample clusters.

    Metrics, clusters and tags are of the same items, in one order. Progress counts the items of each average.

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
    masks_of = {
        metric.name: by_tag([{metric.name: group} for group in metric.groups or ()])[metric.name] for metric in grouped
    }

    done, total = 0, len(clusters) + 2 * sum(int(mask.sum()) for group in groups.values() for mask in group.values())

    def advance(masks: Iterable[NDArray[np.bool_]]) -> None:
        nonlocal done
        if progress is not None:
            progress("intervals", done, total)
        done += sum(int(mask.sum()) for mask in masks)

    def average(mask: NDArray[np.bool_]) -> dict[str, Value]:
        advance([mask])
        table = _over_items(metrics, items, mask, seed=seed)
        for metric in grouped:
            masks = {group: member & mask for group, member in masks_of[metric.name].items()}
            if all(member.any() for member in masks.values()):  # a mean of fewer groups would be another number
                table |= _over_values([metric], items, "its groups", masks, seed=seed)
        return table

    def average_values(tag: str, group: Mapping[str, NDArray[np.bool_]]) -> Metrics:
        advance(group.values())
        return Metrics(metrics=_over_values(metrics, items, tag, group, seed=seed))

    return Tabulated(
        metrics=average(np.ones(len(clusters), dtype=bool)),
        by={
            tag: {
                value: Metrics(metrics=mean_value)
                for value, mask in group.items()
                if (mean_value := average(mask)) or metrics
            }
            for tag, group in groups.items()
        },
        macro={tag: average_values(tag, group) for tag, group in groups.items() if len(group) > 1 and metrics},
    )


def _over_items(
    metrics: Sequence[PerItem], clusters: NDArray[np.intp], mask: NDArray[np.bool_], *, seed: int
) -> dict[str, Value]:
    """Average each metric over the items of a mask (micro)."""
    parts = [part for metric in metrics if (part := metric.within(mask)) is not None]
    columns = [Column(metric.strict, metric.binary, metric.reduce, metric.bounds) for metric in parts]
    intervals = zip(parts, intervals_for(columns, clusters[mask], seed=seed), strict=True)
    return {
        metric.name: _record_value([metric], interval, [clusters[mask]], "micro: items")
        for metric, interval in intervals
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
    parts = [[own for mask in masks if (own := metric.within(mask)) is not None] for metric in metrics]
    defined = [part for part in parts if len(part) == len(masks)]
    columns = [_macro_column(number, member[tagged], tuple(groups)) for number in defined]
    intervals = zip(defined, intervals_for(columns, clusters[tagged], seed=seed), strict=True)
    average = f"macro: {len(groups)} values of {tag}"
    drawn = [clusters[mask] for mask in masks]
    return {number[0].name: _record_value(number, interval, drawn, average) for number, interval in intervals}


def _record_value(
    parts: Sequence[PerItem], interval: Interval, clusters: Sequence[NDArray[np.intp]], average: str
) -> Value:
    """Record one metric: the unweighted mean over disjoint groups of items, each a mean over its items."""

    def mean_of(values: Sequence[NDArray[np.float64] | None]) -> float | None:
        pairs = zip(parts, values, strict=True)
        kept = [metric.over(part) for metric, part in pairs if part is not None]
        return float(mean(kept)) if len(kept) == len(parts) else None

    first, chances = parts[0], [metric.chance for metric in parts if metric.chance is not None]
    same = len({*chances}) == 1  # a mean of equal numbers may differ from them in the last digit
    strict = np.concatenate([metric.strict for metric in parts])
    spread = summary(strict) if first.deviation else None
    ties = sum(int(metric.ties.sum()) for metric in parts)
    n, drawn = len(strict), len(np.unique(np.concatenate(clusters)))
    one_mean = len(parts) == 1 and first.reduce is None and drawn < n
    value = mean_of([metric.strict for metric in parts])
    assert value is not None  # noqa: S101  (every metric has strict values)
    return Value(
        value=value,
        low=interval.low,
        high=interval.high,
        level=interval.level,
        method=interval.method,
        reason=interval.reason or None,
        n=n,
        clusters=drawn,
        effective=effective_items(strict, clusters[0]) if one_mean else None,
        ties=ties,
        tie_neutral=mean_of([metric.neutral for metric in parts]),
        official=mean_of([metric.official for metric in parts]) if ties else None,
        chance=chances[0] if same else float(mean(chances)) if chances else None,
        average=average,
        sd=spread.sd if spread else None,
        mean_absolute=spread.mean_absolute if spread else None,
    )


def _macro_column(parts: Sequence[PerItem], member: NDArray[np.bool_], names: tuple[str, ...]) -> Column:
    """Lay out a metric for `MeanOfGroups`, so that one bootstrap draw gives every value's mean.

    For each value of the tag, one column holds an item's result if the item carries the value, and 0 if not; a second
    column holds 1 or 0 alike. In a resample, the mean of the first divided by the mean of the second is the mean over
    the items that carry the value, however many of them were drawn.
    """
    width = parts[0].strict[:1].size  # one number, or a number a component
    masked = np.zeros((*member.shape, width))  # (item, value, component)
    for value, metric in enumerate(parts):
        masked[member[:, value], value] = metric.strict.reshape(-1, width)
    table = np.concatenate([masked.reshape(len(masked), -1), member.astype(np.float64)], axis=1)
    first = parts[0]
    return Column(table, first.binary, MeanOfGroups(member.shape[1], first.reduce, names), first.bounds)
