"""Confidence intervals: for each kind of statistic the method that holds its level on simulated data, or none.

`interval_for` chooses by the number of clusters, by how much their sizes differ, by how many hold a right (or a wrong)
answer and by how skewed their values are. `bench/coverage.py` measures every rule; `docs/statistics.md` has the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.errors import MetricError, counted
from tellapart.stats.bootstrap import (
    bootstrap_holds,
    bootstrap_holds_for_groups,
    bootstrap_means,
    holds_for_measured,
    interval_of_draws,
    jackknife,
    reduce_means,
)
from tellapart.stats.bounds import (
    FEW_ALIKE,
    FEW_ITEMS,
    Moments,
    independent_bounds,
    moments_of_mean,
    share_bounds,
    wilson_bounds,
)
from tellapart.stats.clusters import Clusters, ClusterTotals, check_level, check_values, number_clusters
from tellapart.stats.combined import (
    FEWEST,
    MeanOfGroups,
    RatioOfCounts,
    SmallestMean,
    combine_reaches,
    graded_bounds,
    macro_bounds,
    needs_more,
)
from tellapart.stats.interval import Interval, Reduce, name_few, without_bounds

_CALL, _KORN = "interval_for", "korn-graubard"


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """The per-item values of one metric: float `(item,)`, 0 or 1 if `binary`, or `(item, component)` with `reduce`.

    `bounds` are the least and greatest value that an item (and `reduce`) can have; None where they are not known.
    """

    values: Any
    binary: bool
    reduce: Reduce | None = None
    bounds: tuple[float, float] | None = None


def wilson(successes: int, n: int, *, level: float = 0.95) -> Interval:
    """Return the Wilson score interval of `successes` in `n` independent trials.

    Source: Wilson (1927), J. Am. Stat. Assoc. 22, 209-212.

    >>> interval = wilson(33, 400)
    >>> round(interval.low, 4), round(interval.high, 4)
    (0.0593, 0.1136)
    """
    from scipy.special import ndtri

    check_level("wilson", level)
    if n < 1 or not 0 <= successes <= n:
        raise MetricError(f"wilson: expected 0 <= successes <= n and n >= 1, got {successes} of {n}")
    low, high = wilson_bounds(successes / n, n, ndtri((1 + level) / 2))
    return Interval(float(low), float(high), level, "wilson")


def independent_interval(successes: float, n: float, *, level: float = 0.95) -> Interval:
    """Return the interval of `independent_bounds`, named `clopper-pearson`, `wilson`, or `wilson, rare` if widened."""
    from scipy.special import ndtri

    low, high = independent_bounds(successes, n, level)
    plain = wilson_bounds(successes / n, n, ndtri((1 + level) / 2))
    method = "clopper-pearson" if n <= FEW_ITEMS else "wilson" if plain == (low, high) else "wilson, rare"
    return Interval(float(low), float(high), level, method)


def share_in_clusters(values: Any, clusters: Clusters | None, *, level: float = 0.95) -> Interval:
    """Return the interval of a share that draws nothing: Wilson's, or in clusters Korn and Graubard's.

    It is exact at any level and quick for any number of items. `interval_for` prefers the bootstrap where that holds,
    as it is as short as the data allow; this one is for many intervals at high levels. `values`: 0/1 `(item,)`.

    >>> right, video = [1, 1, 0, 0] * 25, np.arange(100) // 4
    >>> share_in_clusters(right, None).method, share_in_clusters(right, video).method
    ('wilson', 'wilson on clusters')
    """
    check_level("share_in_clusters", level)
    return _interval_of_share(_sum_columns("share_in_clusters", [Column(values, binary=True)], clusters)[0], level)


def interval_for(
    values: Any,
    clusters: Clusters | None,
    *,
    binary: bool,
    reduce: Reduce | None = None,
    bounds: tuple[float, float] | None = None,
    level: float = 0.95,
    seed: int = 0,
) -> Interval:
    """Return the interval that fits the values, chosen as in `intervals_for`.

    >>> interval_for([1, 1, 1, 1], ["a", "a", "b", "b"], binary=True).method
    'clopper-pearson on clusters, few clusters (2)'
    >>> interval_for([0.25], None, binary=False).reason
    'too few for an interval: 1 item'
    """
    return intervals_for([Column(values, binary, reduce, bounds)], clusters, level=level, seed=seed)[0]


def intervals_for(
    columns: Sequence[Column], clusters: Clusters | None, *, level: float = 0.95, seed: int = 0
) -> list[Interval]:
    """Return an interval for each metric of the same items, all from one set of draws.

    A metric's interval is the same alone and among others. The method names the rule:

    - `wilson`: 0/1 values, one item a cluster; `wilson, rare` with Poisson's bound for one to three successes;
      `clopper-pearson` of 40 items or fewer.
    - `cluster bootstrap`, `bootstrap` (one item a cluster): at least 20 clusters of even sizes, 10 of which differ from
      the rest (hold a right, and a wrong, answer), and of measured values as many as their skewness asks for.
    - `korn-graubard`: other 0/1 values in clusters, and measured ones of known bounds in fewer than ten.
    - `wilson on clusters`: all clusters alike; each is one trial (`clopper-pearson on clusters`: fewer than five).
    - `hall`: other measured values, and other statistics of means by the delete-a-cluster jackknife.
    - `mover`: a mean of groups of uneven sizes, or of few items.
    - `smallest of N`: the smallest of means, from their intervals.
    - `none: ...`: no method holds; `reason` has it in words.

    The method names fewer than 20 clusters. 10,000 resamples are drawn.

    >>> columns = [Column([1, 0, 1, 1] * 15, binary=True), Column(np.arange(60.0), binary=False)]
    >>> [interval.method for interval in intervals_for(columns, None)]
    ['wilson', 'bootstrap']
    """
    check_level(_CALL, level)
    totals = _sum_columns(_CALL, columns, clusters)
    codes = None if not columns else number_clusters(_CALL, clusters, len(np.asarray(columns[0].values)))
    columns_with_totals = zip(columns, totals, strict=True)
    intervals = [_without_draws(column, total, codes, level, seed) for column, total in columns_with_totals]
    waiting = [index for index, interval in enumerate(intervals) if interval is None]
    draws = bootstrap_means([totals[index] for index in waiting], seed)
    for index, means in zip(waiting, draws, strict=True):
        intervals[index] = interval_of_draws(reduce_means(means, columns[index].reduce), totals[index], level)
    return [interval for interval in intervals if interval is not None]  # none is None any more


def _without_draws(
    column: Column, totals: ClusterTotals, codes: NDArray[np.int64] | None, level: float, seed: int
) -> Interval | None:
    """Return the interval if it needs no resampling of these clusters, else None."""
    values = np.asarray(column.values, np.float64)
    if isinstance(column.reduce, RatioOfCounts):
        return _interval_of_ratio(column.reduce, values, codes, level, seed)
    if isinstance(column.reduce, SmallestMean):
        parts = [Column(part, column.binary, None, column.bounds) for part in values.T]
        return _interval_of_smallest(parts, codes, level, seed)
    if isinstance(column.reduce, MeanOfGroups):
        if column.reduce.inner is not None:
            return _interval_of_nested(column, column.reduce, values, codes, level)
        return _interval_of_groups(column, column.reduce, totals, codes, level)
    if column.binary and column.reduce is None:
        sums = totals.means(totals.sums, 1)[:, 0]
        in_clusters = not totals.independent and len(totals) > 1
        resampled = in_clusters and bootstrap_holds(moments_of_mean(sums, totals.counts, outcomes=True))
        return None if resampled else _interval_of_share(totals, level)
    return _interval_of_measured(column, totals, level)


def _interval_of_share(totals: ClusterTotals, level: float) -> Interval:
    """Return the interval of 0/1 values in closed form."""
    sums, items, clusters = totals.means(totals.sums, 1)[:, 0], totals.items, len(totals)
    if totals.independent:
        return independent_interval(int(sums.sum()), items, level=level)
    moments = moments_of_mean(sums, totals.counts, outcomes=True)
    if clusters == 1 and moments.estimate not in (0, 1):
        return without_bounds(level, "1 cluster")
    low, high = share_bounds(moments, level)
    of_alike = "clopper-pearson on clusters" if clusters < FEW_ALIKE else "wilson on clusters"
    method = of_alike if np.ptp(sums / totals.counts) == 0 else _KORN
    return Interval(float(low), float(high), level, name_few(method, clusters))


def _interval_of_measured(column: Column, totals: ClusterTotals, level: float) -> Interval | None:
    """Return the interval of measured values, or of any other statistic of means; None where the bootstrap holds."""
    clusters = len(totals)
    if clusters == 1:
        return without_bounds(level, "1 item" if totals.items == 1 else "1 cluster")
    if column.reduce is None:
        moments = moments_of_mean(totals.means(totals.sums, 1)[:, 0], totals.counts)
    else:
        moments = jackknife(column.reduce, totals)
        if not np.isfinite(moments.variance):
            return without_bounds(level, "it is not defined without some of its clusters")
    if column.reduce is None and np.ptp(totals.means(totals.sums, totals.counts[:, None])[:, 0]) == 0:
        moments = replace(moments, variance=np.zeros(()), differing=np.zeros(()))
    if holds_for_measured(moments):
        return None
    low, high = (float(end) for end in graded_bounds(moments, level, _bounds_of(column)))
    if np.isnan(low):
        return without_bounds(level, describe_shortage(moments, independent=totals.independent))
    method = f"{_KORN} within bounds" if needs_more(moments) else "hall"
    return Interval(low, high, level, name_few(method, clusters))


def _bounds_of(column: Column) -> tuple[float, float] | None:
    """Return the bounds of a column's values, 0 and 1 of outcomes; None if a value lies outside them."""
    bounds = (0.0, 1.0) if column.binary else column.bounds
    if bounds is None or column.reduce is not None:
        return bounds
    values = np.asarray(column.values)
    return bounds if bounds[0] <= values.min() and values.max() <= bounds[1] else None


def describe_shortage(moments: Moments, *, independent: bool) -> str:
    """Return in words which number is too small for an interval of a mean: `3 items`, for example."""
    noun, clusters = "items" if independent else "clusters", int(moments.clusters)
    if clusters < FEWEST:
        return f"{clusters} {noun}"
    if moments.differing < FEWEST:
        return f"{int(moments.differing)} of {clusters} {noun} differ from the others"
    return f"{clusters:,} clusters of very uneven sizes"


def _interval_of_ratio(
    ratio: RatioOfCounts, values: NDArray[np.float64], codes: NDArray[np.int64] | None, level: float, seed: int
) -> Interval:
    """Return the interval of a ratio of counts: that of a share among the items that it counts."""
    among = ratio.among(values)
    if not among.any():
        return without_bounds(level, "no item that the ratio counts")
    inner = interval_for(values[among, 0], None if codes is None else codes[among], binary=True, level=level, seed=seed)
    if inner.low is None or inner.high is None:
        return inner
    low, high = ratio.of_share(inner.low), ratio.of_share(inner.high)
    return Interval(low, high, level, f"{inner.method} of {int(among.sum())} that count")


def _interval_of_smallest(
    parts: Sequence[Column], codes: NDArray[np.int64] | None, level: float, seed: int
) -> Interval:
    """Return the interval of the smallest of several means: their lowest low end, and their lowest high end."""
    # The lowest low end is too high only if that of the smallest mean is. The lowest high end is too low if any one is,
    # so the high ends share the error (Bonferroni).
    levels = level, 1 - (1 - level) / len(parts)
    lower, upper = (intervals_for(parts, codes, level=level_of_parts, seed=seed) for level_of_parts in levels)
    if missing := next((bound for bound in lower if bound.low is None), None):
        return missing
    low = min(bound.low for bound in lower if bound.low is not None)
    high = min(bound.high for bound in upper if bound.high is not None)
    return Interval(low, high, level, f"smallest of {len(parts)}: {lower[0].method}")


def _interval_of_groups(
    column: Column, layout: MeanOfGroups, totals: ClusterTotals, codes: NDArray[np.int64] | None, level: float
) -> Interval | None:
    """Return the interval of a mean of groups' means; None where the bootstrap holds."""
    exponent = 0
    if not column.binary and column.bounds is None:
        # Totals round all columns to one grid: values of any scale are brought to the scale of the memberships, 0 or 1.
        results, members = np.split(np.asarray(column.values, np.float64), [-layout.groups], axis=1)
        exponent = int(np.frexp(np.abs(results).max())[1])
        totals = ClusterTotals.of(_CALL, np.concatenate([np.ldexp(results, -exponent), members], axis=1), codes)
    table = totals.means(totals.sums, 1)
    sums, counts = table[:, : -layout.groups], table[:, -layout.groups :]
    clusters = len(totals)
    if clusters == 1 and not totals.independent:
        return without_bounds(level, "1 cluster")
    if column.binary and bootstrap_holds_for_groups(sums, counts):
        return None
    bounds = macro_bounds(sums, counts, level, binary=column.binary, bounds=_bounds_of(column))
    low, high = (float(np.ldexp(end, exponent)) for end in bounds)
    if np.isnan(low):
        sizes = (counts > 0).sum(axis=0)  # clusters of each group
        smallest, fewest = int(sizes.argmin()), int(sizes.min())
        size = counted(fewest, "item" if totals.independent else "cluster")
        return without_bounds(level, f"{size} in {layout.name(smallest)}")
    return Interval(low, high, level, name_few("mover", clusters))


def _interval_of_nested(
    column: Column, layout: MeanOfGroups, values: NDArray[np.float64], codes: NDArray[np.int64] | None, level: float
) -> Interval:
    """Return the interval of a mean of groups' statistics other than means, from the groups' intervals."""
    lows, highs, centres, trials = [], [], [], []
    for group in range(layout.groups):
        member, group_values = layout.of_group(values, group)
        names = None if codes is None else codes[member]
        trials.append(len(group_values) if names is None else len(np.unique(names)))
        part = interval_for(
            group_values, names, binary=column.binary, reduce=layout.inner, bounds=column.bounds, level=level
        )
        if part.low is None or part.high is None:
            return without_bounds(level, f"{part.method.removeprefix('none: ')} in {layout.name(group)}")
        lows.append(part.low)
        highs.append(part.high)
        centres.append(float(reduce_means(group_values.mean(axis=0, keepdims=True), layout.inner)[0]))
    centre, limits = np.array(centres), _bounds_of(column)
    downwards, upwards = combine_reaches(centre, np.array(lows), np.array(highs), np.array(trials), limits, level)
    mean, clusters = float(centre.mean()), len(values) if codes is None else len(np.unique(codes))
    low, high = mean - float(downwards), mean + float(upwards)
    if limits is not None:
        low, high = max(low, limits[0]), min(high, limits[1])
    return Interval(low, high, level, name_few("mover", clusters))


def _sum_columns(call: str, columns: Sequence[Column], clusters: Clusters | None) -> list[ClusterTotals]:
    """Check columns of the same items, and sum them by cluster."""
    totals = []
    codes = None
    for column in columns:
        values = check_values(call, column.values, binary=column.binary)
        if column.reduce is None and values.ndim == 2:
            raise MetricError(f"{call}: got values of shape {values.shape} and no reduce; pass one")
        if codes is None or len(codes) != len(values):
            codes = number_clusters(call, clusters, len(values))
        totals.append(ClusterTotals.of_numbered(values, codes))
    return totals
