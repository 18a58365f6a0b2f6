"""The delete-a-cluster jackknife of any statistic of means."""

from __future__ import annotations

import numpy as np

from tellapart.stats.bootstrap import reduce_means
from tellapart.stats.bounds import Moments, differing_from_mode, moments_of_mean, skewness
from tellapart.stats.clusters import ClusterTotals
from tellapart.stats.interval import Reduce


def jackknife(reduce: Reduce, totals: ClusterTotals) -> Moments:
    """Return the moments of a statistic of means by leaving out one cluster after the other.

    The variance is infinite where the statistic is not defined without some cluster.

    Source: Efron and Stein (1981), Ann. Stat. 9, 586-596.

    >>> totals = ClusterTotals.of("doc", np.arange(30.0)[:, None], None)
    >>> moments = jackknife(lambda means: means[..., 0], totals)
    >>> float(moments.estimate), round(float(moments.variance), 3)
    (14.5, 2.583)
    """
    total, clusters = totals.sums.sum(axis=0, keepdims=True), len(totals)
    sizes = moments_of_mean(totals.counts, totals.counts)
    with np.errstate(divide="ignore", invalid="ignore"):
        point = reduce_means(totals.means(total, totals.items), reduce)[0]
        without = reduce_means(totals.means(total - totals.sums, (totals.items - totals.counts)[:, None]), reduce)
    influence = without.mean() - without
    finite = bool(np.isfinite(without).all())
    variance = (clusters - 1) / clusters * float((influence**2).sum()) if finite else np.inf
    if not finite:
        influence = np.zeros(clusters)
    # What rounding leaves of equal statistics is no difference.
    flat = bool(np.abs(influence).max() <= 1e-12 * max(1.0, abs(float(point))))
    return Moments(
        np.asarray(point),
        np.asarray(0.0 if flat and finite else variance),
        sizes.freedom,
        skewness(influence, np.ones(clusters, bool)) if not flat else np.zeros(()),
        sizes.clusters,
        sizes.items,
        differing_from_mode(influence) if not flat else np.zeros(()),
    )
