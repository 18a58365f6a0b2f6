"""Scores to numbers: every metric that is defined, with its interval, ties and chance, over items and by tag.

No model and no image is needed: a run folder's samples can be measured again at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tellapart.data.pairset import Outline, describe
from tellapart.data.scores import Scores
from tellapart.errors import MetricError, RunError
from tellapart.metrics.averages import by_tag, mean
from tellapart.metrics.equivariance import histogram, summary
from tellapart.metrics.metric import Metric
from tellapart.metrics.registry import defined_for
from tellapart.metrics.ties import tied_comparisons
from tellapart.result import Curve, Metrics, Value
from tellapart.run_folder import read_result, read_samples
from tellapart.stats.intervals import Column, Interval, intervals_for

__all__ = ["Measured", "measure", "remeasure"]

#: A tag with more values than this is an identifier, not a breakdown.
MOST_VALUES = 64


@dataclass(frozen=True, slots=True)
class Measured:
    """What scores come to.

    Attributes:
        metrics: over all items.
        by: tag -> value -> its items' metrics.
        macro: tag -> the unweighted means over its values.
        curves: the histograms of equivariance deviations.
        outcomes: metric -> each item's value, float64 `(item,)`; metrics made of two means have none.
        tied: metric -> items a tie touched, bool `(item,)`.
        tied_comparisons: ties between a true pair and another of its row or column, int64 `(item,)`.

    >>> outline = Outline(("a",), (1, 2), ("a",), ({},))
    >>> measure(Scores(("a",), [[[0.9, 0.1]]], "similarity"), outline).metrics["choice_score"].value
    1.0
    """

    metrics: dict[str, Value]
    by: dict[str, dict[str, Metrics]]
    macro: dict[str, Metrics]
    curves: dict[str, Curve]
    outcomes: dict[str, NDArray[np.float64]]
    tied: dict[str, NDArray[np.bool_]]
    tied_comparisons: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _PerItem:
    """One metric's per-item values, strict and tie-neutral: `(item,)` or `(item, component)`."""

    metric: Metric
    strict: NDArray[np.float64]
    neutral: NDArray[np.float64]
    ties: NDArray[np.bool_]
    chance: float | None


def measure(scores: Scores, outline: Outline, *, seed: int = 0) -> Measured:
    """Measure scores by every metric that is defined for their shape and kind.

    Args:
        scores: of the outline's items, in any order.
        outline: which items, and their clusters and tags.
        seed: of the bootstrap's draws.

    Raises:
        MetricError: no metric is defined for this shape and kind.
        ScoreError: an item has no scores.

    >>> outline = Outline(("a", "b"), (2, 2), ("a", "b"), ({"type": "swap"}, {"type": "add"}))
    >>> measured = measure(Scores(("a", "b"), np.full((2, 2, 2), 0.5), "similarity"), outline)
    >>> value = measured.metrics["group_score"]
    >>> value.value, value.tie_neutral == value.chance == 1 / 6, value.ties
    (0.0, True, 2)
    """
    metrics = defined_for(outline.shape, scores.kind)
    if not metrics:
        raise MetricError(f"no metric is defined for {describe(outline.shape)} and scores that are a {scores.kind}")
    values = scores.select(outline.ids).values
    found = [_per_item(metric, values, outline.shape) for metric in metrics]
    everything = np.ones(len(outline.ids), dtype=bool)
    masks = {tag: groups for tag, groups in by_tag(outline.tags).items() if len(groups) <= MOST_VALUES}
    clusters = np.array(outline.clusters)
    over = partial(_over_items, found, clusters, seed=seed)
    return Measured(
        metrics=over(everything),
        by={
            tag: {value: Metrics(metrics=over(mask)) for value, mask in groups.items()} for tag, groups in masks.items()
        },
        macro={
            tag: Metrics(metrics=_over_values(found, clusters, tag, groups, seed=seed))
            for tag, groups in masks.items()
            if len(groups) > 1
        },
        curves={one.metric.name: _curve(one.strict) for one in found if one.chance is None},
        outcomes={one.metric.name: one.strict for one in found if not one.metric.components},
        tied={one.metric.name: one.ties for one in found},
        tied_comparisons=tied_comparisons(values),
    )


def remeasure(folder: Path, benchmark: str) -> Measured:
    """Measure a run's benchmark again, from its raw scores alone: the numbers are those of the record.

    Raises:
        RunError: the folder is no run, or did not measure that benchmark.

    >>> remeasure(Path("no such run"), "demo")
    Traceback (most recent call last):
    tellapart.errors.RunError: no such run has no results.json; name a run folder that `tellapart run --out` wrote
    """
    result = read_result(folder)
    if benchmark not in result.benchmarks:
        raise RunError(f"{folder} did not measure {benchmark!r}; it holds {', '.join(result.benchmarks) or 'nothing'}")
    record, samples = result.benchmarks[benchmark], read_samples(folder, benchmark)
    ids = tuple(sample.id for sample in samples)
    clusters, tags = tuple(sample.cluster for sample in samples), tuple(sample.tags for sample in samples)
    scores = Scores(ids, [sample.scores for sample in samples], record.kind)
    return measure(scores, Outline(ids, record.shape, clusters, tags), seed=result.run.seed)


def _per_item(metric: Metric, values: NDArray[np.float32], shape: tuple[int, int]) -> _PerItem:
    strict, neutral = metric.per_item(values), metric.tie_neutral(values)
    differs = strict != neutral
    return _PerItem(
        metric, strict, neutral, differs.any(axis=1) if differs.ndim == 2 else differs, metric.chance(shape)
    )


def _over_items(
    found: Sequence[_PerItem], clusters: NDArray[np.str_], mask: NDArray[np.bool_], *, seed: int
) -> dict[str, Value]:
    """Average each metric over the items of a mask (micro)."""
    columns = [
        Column(one.strict[mask], one.metric.binary, one.metric.summarise if one.metric.components else None)
        for one in found
    ]
    intervals = intervals_for(columns, clusters[mask], seed=seed)
    return {
        one.metric.name: _value(one, interval, clusters, [mask], "micro: items")
        for one, interval in zip(found, intervals, strict=True)
    }


def _over_values(
    found: Sequence[_PerItem],
    clusters: NDArray[np.str_],
    tag: str,
    groups: Mapping[str, NDArray[np.bool_]],
    *,
    seed: int,
) -> dict[str, Value]:
    """Average each metric over a tag's values, every value weighing the same (macro)."""
    member = np.stack(list(groups.values()), axis=1)  # (item, value of the tag)
    carried: NDArray[np.bool_] = np.logical_or.reduce(list(groups.values()))
    columns = [_macro_column(one.metric, one.strict[carried], member[carried]) for one in found]
    intervals = intervals_for(columns, clusters[carried], seed=seed)
    average = f"macro: {len(groups)} values of {tag}"
    return {
        one.metric.name: _value(one, interval, clusters, list(groups.values()), average)
        for one, interval in zip(found, intervals, strict=True)
    }


def _value(
    one: _PerItem,
    interval: Interval,
    clusters: NDArray[np.str_],
    groups: Sequence[NDArray[np.bool_]],
    average: str,
) -> Value:
    """Record one metric: the unweighted mean over disjoint groups of items, each a mean over its items."""
    mask: NDArray[np.bool_] = np.logical_or.reduce(groups)

    def mean_of(values: NDArray[np.float64]) -> float:
        return float(mean([float(one.metric.summarise(mean(values[group]))) for group in groups]))

    spread = summary(one.strict[mask]) if one.chance is None else None
    return Value(
        value=mean_of(one.strict),
        low=interval.low,
        high=interval.high,
        level=interval.level,
        method=interval.method,
        n=int(mask.sum()),
        clusters=len(set(clusters[mask])),
        ties=int(one.ties[mask].sum()),
        tie_neutral=None if one.chance is None else mean_of(one.neutral),
        chance=one.chance,
        average=average,
        sd=spread.sd if spread else None,
        mean_absolute=spread.mean_absolute if spread else None,
    )


def _macro_column(metric: Metric, strict: NDArray[np.float64], member: NDArray[np.bool_]) -> Column:
    """Lay out a metric so that one bootstrap draw gives every value's own mean.

    Columns are the strict values masked by each value of the tag, then the masks: a resample's mean of the first over
    its mean of the second is the value's mean in that resample, however many of its items were drawn.
    """
    rows = strict[:, None, :] if strict.ndim == 2 else strict[:, None, None]  # (item, 1, component)
    masked = rows * member[:, :, None]  # (item, value, component)
    table = np.concatenate([masked.reshape(len(masked), -1), member.astype(np.float64)], axis=1)
    # Still 0 or 1 where the metric is: without spread the interval is then Wilson's, not a single point.
    return Column(table, metric.binary, _macro_reduce(metric, member.shape[1]))


def _macro_reduce(metric: Metric, values: int) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    def reduce(means: NDArray[np.float64]) -> NDArray[np.float64]:
        sums, shares = means[:, :-values].reshape(len(means), values, -1), means[:, -values:, None]
        # A value of which a resample drew no item has no mean in it; the others stand for it.
        per_value = np.divide(sums, shares, out=np.full_like(sums, np.nan), where=shares > 0)
        folded = metric.summarise(per_value) if metric.components else per_value[:, :, 0]
        return np.asarray(np.nanmean(folded, axis=1))

    return reduce


def _curve(values: NDArray[np.float64]) -> Curve:
    found = histogram(values)
    return Curve(edges=tuple(found.edges.tolist()), counts=tuple(found.counts.tolist()))
