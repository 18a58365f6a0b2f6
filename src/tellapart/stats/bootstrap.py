"""Resampling of clusters: the bootstrap with its expanded percentile interval, where it holds, and the jackknife."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.errors import MetricError
from tellapart.stats.bounds import EVEN, Moments, differing_from_mode, moments_of_mean, skewness
from tellapart.stats.clusters import Clusters, ClusterTotals, check_level, check_values
from tellapart.stats.interval import FEW_CLUSTERS, Interval, Reduce, name_few

RESAMPLES = 10_000

# Draws held at once: 8 bytes each, in at most four arrays, is 32 MB.
_CHUNK = 1 << 20
# The fewest resamples in a chunk, for any number of clusters: multiplied one by one they take three times as long.
_FEWEST_RESAMPLES = 4
# From so many clusters on it is faster to count the draws of one resample after the other than of many at once.
_MANY_CLUSTERS = 500
# Draws of at most so many clusters stay in memory for the next call: of 32 small numbers of clusters, of 4 larger ones.
_MOST_SMALL, _MOST_CACHED = 512, 4096


def cluster_bootstrap(
    values: Any,
    clusters: Clusters | None,
    *,
    reduce: Reduce | None = None,
    resamples: int = RESAMPLES,
    level: float = 0.95,
    seed: int = 0,
) -> Interval:
    """Return the expanded percentile interval of the mean over items, whole clusters drawn with replacement.

    Each resample's mean is its sum over its count, so clusters of unequal sizes are weighed as they are. The
    percentiles are those at which a normal sample's interval would equal Student's (they tend to `level`'s own as
    clusters grow). The result depends on neither the items' order nor the clusters' names. It is too short for few
    clusters, rare outcomes, sizes that differ much and skewed values: `intervals_for` uses it where it holds.

    Args:
        values: float `(item,)`, or `(item, component)` with `reduce`.
        clusters: one name or number an item; None if items are independent.
        reduce: takes component means `(..., component)` to the statistic `(...)`.
        resamples: how many times the clusters are drawn, from `seed`.

    Source: Davison & Hinkley (1997) ch. 2.4 and 3.8; Hesterberg (2015), Am. Stat. 69, 371-386, sec. 4.3 (expanded).

    >>> right = np.tile([1.0, 1.0, 1.0, 0.0], 50)
    >>> interval = cluster_bootstrap(right, np.arange(200) // 2)
    >>> round(interval.low, 3), round(interval.high, 3), interval.method
    (0.7, 0.8, 'cluster bootstrap')
    """
    call = "cluster_bootstrap"
    check_level(call, level)
    array = check_values(call, values)
    if reduce is None and array.ndim == 2:
        raise MetricError(f"{call}: got values of shape {array.shape} and no reduce; say how components combine")
    totals = ClusterTotals.of(call, array, clusters)
    if len(totals) < 2:
        raise MetricError(f"{call}: got 1 cluster; resampling needs 2 or more, and means little below 20")
    means = next(bootstrap_means([totals], seed, resamples))
    return interval_of_draws(reduce_means(means, reduce), totals, level)


def interval_of_draws(statistic: NDArray[np.float64], totals: ClusterTotals, level: float) -> Interval:
    """Return the expanded percentile interval of a bootstrap distribution `(resample,)`."""
    low, high = expanded_percentiles(statistic, len(totals), level)
    method = "bootstrap" if totals.independent else "cluster bootstrap"
    return Interval(float(low), float(high), level, name_few(method, len(totals)))


def expanded_percentiles(
    statistic: NDArray[np.float64], clusters: int, level: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the low and the high end `(...)` of the interval, from bootstrap statistics `(resample, ...)`."""
    from scipy.special import ndtr, stdtrit

    # Hesterberg (2015): the percentile interval is too short by sqrt((C - 1) / C), and by z / t, of C clusters.
    quantile = np.sqrt(clusters / (clusters - 1)) * stdtrit(clusters - 1, (1 + level) / 2)
    tail = float(ndtr(-quantile))
    low, high = np.quantile(statistic, [tail, 1 - tail], axis=0)
    return low, high


def reduce_means(means: NDArray[np.float64], reduce: Reduce | None) -> NDArray[np.float64]:
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


def bootstrap_means(
    totals: Sequence[ClusterTotals], seed: int, resamples: int = RESAMPLES
) -> Iterator[NDArray[np.float64]]:
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
    sums = np.concatenate([times @ table for times in yield_times(len(table), resamples, seed)])
    first = 0
    for total in totals:
        last = first + total.sums.shape[1]  # the column of the counts
        yield total.means(sums[:, first:last], sums[:, last : last + 1])
        first = last + 1


def yield_times(clusters: int, resamples: int, seed: int) -> Iterator[NDArray[np.float64]]:
    """Yield how often each resample drew each cluster, in chunks of float64 `(resample, cluster)`.

    A run measures its models and tags on a few numbers of clusters, and a comparison its pairs: draws are cached.
    """
    if clusters > _MOST_CACHED:
        chunks = _draw(clusters, resamples, seed)
    else:
        cached = _small_draws if clusters <= _MOST_SMALL else _large_draws
        draws, step = cached(clusters, resamples, seed), _CHUNK // clusters
        chunks = (draws[start : start + step] for start in range(0, resamples, step))
    return (chunk.astype(np.float64) for chunk in chunks)


def _draw_all(clusters: int, resamples: int, seed: int) -> NDArray[Any]:
    """Return all chunks of `_draw`, `(resample, cluster)`: 10 kB a cluster if every count fits a byte."""
    drawn = np.concatenate(list(_draw(clusters, resamples, seed)))
    return drawn.astype(np.min_scalar_type(drawn.max()))


_small_draws, _large_draws = lru_cache(32)(_draw_all), lru_cache(4)(_draw_all)


def _draw(clusters: int, resamples: int, seed: int) -> Iterator[NDArray[Any]]:
    """Yield how often each resample drew each cluster, in chunks `(resample, cluster)` of integers."""
    rng = np.random.default_rng(seed)
    step = max(_FEWEST_RESAMPLES, _CHUNK // clusters)
    for start in range(0, resamples, step):
        rows = min(step, resamples - start)
        picks = rng.integers(0, clusters, size=(rows, clusters), dtype=np.uint32)
        if clusters >= _MANY_CLUSTERS:
            yield np.stack([_count_picks(row, clusters) for row in picks])
        else:
            numbered = picks + np.arange(rows)[:, None] * clusters  # another number for every cell of the chunk
            yield np.bincount(numbered.ravel(), minlength=rows * clusters).reshape(rows, clusters)


def _count_picks(picks: NDArray[np.uint32], clusters: int) -> NDArray[Any]:
    """Count each cluster's picks in bytes, which fit a processor's cache; if one overflows, count again."""
    times = np.zeros(clusters, np.uint8)
    np.add.at(times, picks, np.uint8(1))
    return times if times.sum(dtype=np.int64) == len(picks) else np.bincount(picks, minlength=clusters)


def jackknife(reduce: Reduce, totals: ClusterTotals) -> Moments:
    """Return the moments of a statistic of means, from its values without each of the clusters in turn.

    The variance is infinite if the statistic is not defined without one of the clusters.

    Source: Efron and Stein (1981), Ann. Stat. 9, 586-596.
    """
    total, clusters = totals.sums.sum(axis=0, keepdims=True), len(totals)
    sizes = moments_of_mean(totals.counts, totals.counts)
    with np.errstate(divide="ignore", invalid="ignore"):
        point = reduce_means(totals.means(total, totals.items), reduce)[0]
        without = reduce_means(totals.means(total - totals.sums, (totals.items - totals.counts)[:, None]), reduce)
    zero = np.zeros(())
    if not np.isfinite(without).all():
        return replace(sizes, estimate=np.asarray(point), variance=np.asarray(np.inf), skew=zero, differing=zero)
    influence = without.mean() - without
    # Statistics that differ by rounding alone are equal.
    if np.abs(influence).max() <= 1e-12 * max(1.0, abs(float(point))):
        return replace(sizes, estimate=np.asarray(point), variance=zero, skew=zero, differing=zero)
    return replace(
        sizes,
        estimate=np.asarray(point),
        variance=np.asarray((clusters - 1) / clusters * float((influence**2).sum())),
        skew=skewness(influence, np.ones(clusters, bool)),
        differing=differing_from_mode(influence),
    )


# The bootstrap holds if at least so many clusters differ from the most frequent one.
_FEW_DISSENTERS = 10
# So many clusters for each squared skewness, beyond the first 20: twice as many as Cochran asks for a normal mean.
_OF_SKEW = 50.0
# `EVEN` for measured values: draws do not show that uneven sizes leave the variance few degrees of freedom.
_EVEN_FOR_MEASURED = 0.5


def bootstrap_holds(moments: Moments) -> NDArray[np.bool_]:
    """Return where the bootstrap holds: many clusters, many that differ from the most frequent one, of even sizes."""
    many = (moments.clusters >= FEW_CLUSTERS) & (moments.differing >= _FEW_DISSENTERS) & (moments.variance > 0)
    return np.asarray(many & even_sizes(moments))


def even_sizes(moments: Moments) -> NDArray[np.bool_]:
    """Return where no cluster is far larger than the others, by the degrees of freedom that the clusters give."""
    return np.asarray(moments.freedom >= EVEN * (moments.clusters - 1))


def holds_for_measured(moments: Moments) -> NDArray[np.bool_]:
    """Return where the bootstrap holds for measured values: evener sizes, and not too skewed for their number.

    Source: Cochran (1977), Sampling Techniques, 3rd ed., section 2.15 (25 for each squared skewness; 50 here).
    """
    even = moments.freedom >= _EVEN_FOR_MEASURED * (moments.clusters - 1)
    return np.asarray(bootstrap_holds(moments) & even & (moments.clusters >= FEW_CLUSTERS + _OF_SKEW * moments.skew**2))


def bootstrap_holds_for_groups(sums: NDArray[np.float64], counts: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return where the bootstrap holds for a mean of groups `(..., cluster, group)`: large ones, of similar sizes."""
    size = counts.sum(axis=-2)
    clusters = (counts > 0).sum(axis=-2)
    even = (clusters.min(axis=-1) >= FEW_CLUSTERS) & (size.max(axis=-1) <= 2 * size.min(axis=-1))
    right = (sums > 0).any(axis=-1).sum(axis=-1)
    wrong = (sums < counts).any(axis=-1).sum(axis=-1)
    moments = moments_of_mean(np.moveaxis(sums, -1, -2), np.moveaxis(counts, -1, -2), outcomes=True)
    return np.asarray(even & even_sizes(moments).all(axis=-1) & (np.minimum(right, wrong) >= _FEW_DISSENTERS))
