"""Confidence intervals: Wilson if items are independent, the cluster bootstrap if they are not.

`interval_for` chooses by the coverage measured on simulated clusters (`bench/coverage.py`): the percentile bootstrap
is too short when few clusters were drawn, or when few of them hold a right (or a wrong) answer; there the Wilson
interval at the effective sample size covers at its level.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.errors import MetricError
from tellapart.stats.clusters import Clusters, ClusterTotals, check_level, check_values, number_clusters

__all__ = [
    "Column",
    "Interval",
    "Reduce",
    "cluster_bootstrap",
    "interval_for",
    "intervals_for",
    "wilson",
    "wilson_in_clusters",
]

Reduce = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""Component means `(..., component)` -> `(...)`."""

# Draws held at once: 8 bytes each, in at most four arrays, is 32 MB.
_CHUNK = 1 << 20
# From so many clusters on it is faster to count the draws of one resample after the other than of many at once.
_MANY_CLUSTERS = 500
# Draws of at most so many clusters are kept for the next call.
_KEPT_CLUSTERS = 512
# Below these the bootstrap is not trusted with a proportion: clusters, and clusters with a right (a wrong) answer.
_FEW_CLUSTERS = 20
_FEW_DISSENTERS = 10


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval; `low` and `high` are None if the data cannot give one.

    `method` names the estimator and warns (`few clusters`) if it leans on little.

    >>> Interval(0.1, 0.3, 0.95, "wilson").high
    0.3
    """

    low: float | None
    high: float | None
    level: float
    method: str


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """The per-item values of one metric of a run.

    Attributes:
        values: float `(item,)`, or `(item, component)` with `reduce`.
        binary: every value is 0 or 1 (an outcome), so the metric is a proportion.
        reduce: takes component means `(..., component)` to the metric `(...)`, as the minimum of p_c and p_f does.

    >>> intervals_for([Column([0, 1, 1], binary=True)], None)[0].method
    'wilson'
    """

    values: Any
    binary: bool
    reduce: Reduce | None = None


def wilson(successes: int, n: int, *, level: float = 0.95) -> Interval:
    """Return the Wilson score interval of `successes` in `n` independent trials.

    Raises:
        MetricError: n < 1, successes outside 0..n, or a level outside (0, 1).

    Source: Wilson (1927), J. Am. Stat. Assoc. 22, 209-212.

    >>> interval = wilson(33, 400)
    >>> round(interval.low, 4), round(interval.high, 4)
    (0.0593, 0.1136)
    """
    from scipy.special import ndtri

    check_level("wilson", level)
    if n < 1 or not 0 <= successes <= n:
        raise MetricError(f"wilson: expected 0 <= successes <= n and n >= 1, got {successes} of {n}")
    low, high = _score_bounds(successes / n, n, float(ndtri((1 + level) / 2)))
    return Interval(low, high, level, "wilson")


def wilson_in_clusters(values: Any, clusters: Clusters | None, *, level: float = 0.95) -> Interval:
    """Return Wilson's interval of 0/1 values, at the effective sample size if items are in clusters.

    It draws nothing, so that it is exact at any level and quick for any number of items. `interval_for` prefers the
    bootstrap, which is as short as the data allow; this one is for many intervals at high levels.

    Args:
        values: 0/1 `(item,)`.
        clusters: one name or number an item; None if items are independent.
        level: of the interval.

    Raises:
        MetricError: no items, values that are not 0 or 1, clusters that do not fit, a level outside (0, 1).

    Source: Korn & Graubard (1998), Survey Methodology 24, 193-201.

    >>> right, video = [1, 1, 0, 0] * 25, np.arange(100) // 4
    >>> wilson_in_clusters(right, None).method, wilson_in_clusters(right, video).method
    ('wilson', 'wilson, design effect')
    >>> wilson_in_clusters([1, 0, 1], ["a", "a", "a"]).low is None
    True
    """
    check_level("wilson_in_clusters", level)
    totals = _sum_columns("wilson_in_clusters", [Column(values, binary=True)], clusters)[0]
    right = totals.means(totals.sums, 1)[:, 0]
    if totals.independent:
        return wilson(int(right.sum()), totals.items, level=level)
    if len(totals) == 1:
        return Interval(None, None, level, "none: 1 cluster")
    share = float(right.sum() / totals.items)
    return _wilson_on_clusters(share, totals, level) if share in (0, 1) else _wilson_design_effect(right, totals, level)


def _score_bounds(share: float, n: float, quantile: float) -> tuple[float, float]:
    """Return Wilson's bounds for a share seen in `n` trials (`n` may be an effective, fractional one)."""
    square = quantile * quantile / n
    centre = (share + square / 2) / (1 + square)
    half = np.sqrt(square * (share * (1 - share) + square / 4)) / (1 + square)
    # At 0 and 1 the bound is exact; rounding must not leave 1e-17 there.
    low = 0.0 if share == 0 else max(0.0, centre - half)
    high = 1.0 if share == 1 else min(1.0, centre + half)
    return float(low), float(high)


def cluster_bootstrap(
    values: Any,
    clusters: Clusters | None,
    *,
    reduce: Reduce | None = None,
    resamples: int = 10_000,
    level: float = 0.95,
    seed: int = 0,
) -> Interval:
    """Return the expanded percentile interval of the mean over items, clusters drawn with replacement.

    Each resample's mean is its sum over its count, so clusters of unequal sizes are weighed as they are. The
    percentiles are those at which a normal sample's interval would equal Student's (they tend to `level`'s as
    clusters grow). The result depends on neither the items' order nor the clusters' names.

    Args:
        values: float `(item,)`, or `(item, component)` with `reduce`.
        clusters: one name or number an item; None if items are independent.
        reduce: takes component means `(..., component)` to the statistic `(...)`.
        resamples: how many times the clusters are drawn, from `seed`.

    Raises:
        MetricError: values are empty, not finite or two-dimensional without `reduce`; clusters do not fit them;
            fewer than two clusters; level outside (0, 1); resamples < 1.

    Source: Davison & Hinkley (1997) ch. 2.4 and 3.8; Hesterberg (2015), Am. Stat. 69, 371-386, sec. 4.3 (expanded).

    >>> right = np.tile([1.0, 1.0, 1.0, 0.0], 50)
    >>> interval = cluster_bootstrap(right, np.arange(200) // 2)
    >>> round(interval.low, 3), round(interval.high, 3), interval.method
    (0.7, 0.8, 'cluster bootstrap')
    """
    call = "cluster_bootstrap"
    check_level(call, level)
    totals = _sum_columns(call, [Column(values, binary=False, reduce=reduce)], clusters)[0]
    if len(totals) < 2:
        raise MetricError(f"{call}: got 1 cluster; resampling needs 2 or more, and means little below 20")
    means = next(_bootstrap_means([totals], resamples, seed))
    return _percentile_interval(_reduce_means(means, reduce), totals, level)


def interval_for(
    values: Any,
    clusters: Clusters | None,
    *,
    binary: bool,
    reduce: Reduce | None = None,
    level: float = 0.95,
    seed: int = 0,
) -> Interval:
    """Return the interval that fits the values, chosen as in `intervals_for`.

    Raises:
        MetricError: as `intervals_for`.

    >>> interval_for([1, 1, 0, 1], None, binary=True).method
    'wilson'
    >>> interval_for([1, 1, 1, 1], ["a", "a", "b", "b"], binary=True).method
    'wilson on clusters, few clusters (2)'
    >>> interval_for([0.25], None, binary=False).low is None
    True
    """
    return intervals_for([Column(values, binary, reduce)], clusters, level=level, seed=seed)[0]


def intervals_for(
    columns: Sequence[Column], clusters: Clusters | None, *, level: float = 0.95, seed: int = 0
) -> list[Interval]:
    """Return an interval for each metric of the same items, all from one set of draws.

    A metric's interval is the same alone and among others. The method names the rule:

    - `wilson`: 0/1 values, one item a cluster.
    - `wilson, design effect`: 0/1 values in clusters, of which fewer than 20 were drawn, or fewer than 10 hold a
      right (or a wrong) answer; n is the effective one, the quantile Student's (Korn & Graubard 1998).
    - `wilson on clusters`: 0/1 values whose resamples are all alike (all right, all wrong); n counts clusters.
    - `cluster bootstrap`, `bootstrap` (one item a cluster): everything else.
    - `none: 1 cluster`: no interval; `no spread`: measured values that are all the same.

    The method names fewer than 20 clusters. 10,000 resamples are drawn.

    Raises:
        MetricError: no items; values not finite, or not 0/1 in a binary column; two-dimensional values without
            `reduce`; clusters that do not fit the values; a level outside (0, 1).

    >>> columns = [Column([1, 0, 1, 1], binary=True), Column([0.5, 0.1, -0.2, 0.3], binary=False)]
    >>> [interval.method for interval in intervals_for(columns, None)]
    ['wilson', 'bootstrap, few clusters (4)']
    """
    call = "interval_for"
    check_level(call, level)
    totals = _sum_columns(call, columns, clusters)
    intervals = [_closed_form(column, total, level) for column, total in zip(columns, totals, strict=True)]
    waiting = [index for index, interval in enumerate(intervals) if interval is None]
    draws = _bootstrap_means([totals[index] for index in waiting], 10_000, seed)
    for index, means in zip(waiting, draws, strict=True):
        column, total = columns[index], totals[index]
        statistic = _reduce_means(means, column.reduce)
        point = float(statistic[0])
        if np.ptp(statistic) > 0:
            intervals[index] = _percentile_interval(statistic, total, level)
        elif column.binary:
            intervals[index] = _wilson_on_clusters(point, total, level)
        else:
            intervals[index] = Interval(point, point, level, _with_warning("no spread", len(total)))
    return [interval for interval in intervals if interval is not None]


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


def _closed_form(column: Column, totals: ClusterTotals, level: float) -> Interval | None:
    """Return the interval if it needs no resampling, else None."""
    if column.binary and column.reduce is None:
        right = totals.means(totals.sums, 1)[:, 0]
        if totals.independent:
            return wilson(int(right.sum()), totals.items, level=level)
        share = float(right.sum() / totals.items)
        if share in (0, 1):
            return _wilson_on_clusters(share, totals, level)
        dissenters = min(int((right > 0).sum()), int((right < totals.counts).sum()))
        if len(totals) > 1 and (len(totals) < _FEW_CLUSTERS or dissenters < _FEW_DISSENTERS):
            return _wilson_design_effect(right, totals, level)
    if len(totals) == 1:
        return Interval(None, None, level, "none: 1 cluster")
    return None


def _wilson_on_clusters(share: float, totals: ClusterTotals, level: float) -> Interval:
    """Return Wilson's interval with every cluster as one trial: outcomes without spread support no more."""
    from scipy.special import ndtri

    low, high = _score_bounds(share, len(totals), float(ndtri((1 + level) / 2)))
    return Interval(low, high, level, _with_warning("wilson on clusters", len(totals)))


def _wilson_design_effect(right: NDArray[np.float64], totals: ClusterTotals, level: float) -> Interval:
    """Return Wilson's interval at the effective n, `p (1 - p) / var`, with the clusters' degrees of freedom.

    An effective n above the true one (clusters that balance themselves) is not believed.
    """
    from scipy.special import stdtrit

    clusters, items = len(totals), totals.items
    share = float(right.sum() / items)
    variance = totals.variance()
    effective = items if variance == 0 else min(items, share * (1 - share) / variance)
    low, high = _score_bounds(share, effective, float(stdtrit(clusters - 1, (1 + level) / 2)))
    return Interval(low, high, level, _with_warning("wilson, design effect", clusters))


def _with_warning(method: str, clusters: int) -> str:
    return f"{method}, few clusters ({clusters})" if clusters < _FEW_CLUSTERS else method


def _bootstrap_means(totals: Sequence[ClusterTotals], resamples: int, seed: int) -> Iterator[NDArray[np.float64]]:
    """Yield, for each metric, its means `(resample, component)`; the draws are made once, for all of them.

    The totals are of the same clusters. Sums are exact (see `ClusterTotals`), so neither the number of metrics,
    nor the chunk, nor the threads of the matrix product can change a bit.
    """
    if resamples < 1:
        raise MetricError(f"cluster_bootstrap: expected resamples >= 1, got {resamples}; 10,000 is usual")
    if not totals:
        return
    # (cluster, component of any metric, then each metric's counts): one product gives sums and counts at once.
    table = np.concatenate([np.column_stack([total.sums, total.counts]) for total in totals], axis=1)
    sums = np.empty((resamples, table.shape[1]))
    clusters = len(table)
    at = 0
    for times in _times_drawn(clusters, resamples, seed):
        sums[at : at + len(times)] = times @ table
        at += len(times)
    at = 0
    for total in totals:
        components = total.sums.shape[1]
        block = sums[:, at : at + components + 1]
        yield total.means(block[:, :-1], block[:, -1:])
        at += components + 1


def _times_drawn(clusters: int, resamples: int, seed: int) -> Iterator[NDArray[np.float64]]:
    """Yield how often each resample drew each cluster, in chunks of float64 `(resample, cluster)`.

    A run measures its models and tags on few numbers of clusters, again and again: small draws are kept.
    """
    if clusters > _KEPT_CLUSTERS:
        chunks = _draw_counts(clusters, resamples, seed)
    else:
        kept, step = _kept_draws(clusters, resamples, seed), max(1, _CHUNK // clusters)
        chunks = (kept[start : start + step] for start in range(0, resamples, step))
    return (chunk.astype(np.float64) for chunk in chunks)


@lru_cache(maxsize=32)
def _kept_draws(clusters: int, resamples: int, seed: int) -> NDArray[Any]:
    """Return all chunks of `_draw_counts` at once: of 10,000 resamples 10 kB a cluster: a count seldom exceeds 255."""
    drawn = np.concatenate(list(_draw_counts(clusters, resamples, seed)))
    return drawn.astype(np.min_scalar_type(drawn.max()))


def _draw_counts(clusters: int, resamples: int, seed: int) -> Iterator[NDArray[Any]]:
    """Draw as many clusters as there are, again and again; yield how often each was drawn, in chunks of resamples."""
    rng = np.random.default_rng(seed)
    step = max(1, _CHUNK // clusters)
    for start in range(0, resamples, step):
        rows = min(step, resamples - start)
        picks = rng.integers(0, clusters, size=(rows, clusters), dtype=np.uint32)
        if clusters >= _MANY_CLUSTERS:
            yield np.stack([np.bincount(row, minlength=clusters) for row in picks])
        else:
            numbered = picks + np.arange(rows)[:, None] * clusters
            yield np.bincount(numbered.ravel(), minlength=rows * clusters).reshape(rows, clusters)


def _reduce_means(means: NDArray[np.float64], reduce: Reduce | None) -> NDArray[np.float64]:
    """Take component means `(resample, component)` to the statistic `(resample,)`."""
    if reduce is None:
        return means[:, 0]
    statistic = np.asarray(reduce(means), dtype=np.float64)
    if statistic.shape != means.shape[:1]:
        raise MetricError(
            f"interval_for: reduce took means of shape {means.shape} to {statistic.shape}, expected "
            f"{means.shape[:1]}; reduce the last axis, as np.min(means, axis=-1) does"
        )
    return statistic


def _percentile_interval(statistic: NDArray[np.float64], totals: ClusterTotals, level: float) -> Interval:
    """Return the expanded percentile interval of a bootstrap distribution `(resample,)`."""
    from scipy.special import ndtr, stdtrit

    # Hesterberg (2015): the percentile interval is short by sqrt((C - 1) / C) and by z for t.
    clusters = len(totals)
    wide = np.sqrt(clusters / (clusters - 1)) * stdtrit(clusters - 1, (1 + level) / 2)
    tail = float(ndtr(-wide))
    low, high = np.quantile(statistic, [tail, 1 - tail])
    method = "bootstrap" if totals.independent else "cluster bootstrap"
    return Interval(float(low), float(high), level, _with_warning(method, clusters))
