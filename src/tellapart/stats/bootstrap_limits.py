"""Where the bootstrap holds its level: many clusters of even sizes, many that differ, and values not too skewed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tellapart.stats.bounds import EVEN, Moments, moments_of_mean
from tellapart.stats.interval import FEW_CLUSTERS

# The bootstrap is trusted with clusters of which so many differ from the rest.
_FEW_DISSENTERS = 10
# So many clusters for each squared skewness, beyond the first 20: twice as many as Cochran asks for a normal mean.
_OF_SKEW = 50.0
# Of measured values sizes are to be more even: the draws know nothing of the variance's few degrees of freedom.
_EVEN_FOR_MEASURED = 0.5


def bootstrap_holds(moments: Moments) -> NDArray[np.bool_]:
    """Return where the bootstrap holds: many clusters, many that differ from the rest, and none far above the others.

    >>> bool(bootstrap_holds(moments_of_mean(np.arange(40.0) % 2, np.ones(40))))
    True
    """
    many = (moments.clusters >= FEW_CLUSTERS) & (moments.differing >= _FEW_DISSENTERS) & (moments.variance > 0)
    return np.asarray(many & even_sizes(moments))


def even_sizes(moments: Moments) -> NDArray[np.bool_]:
    """Return where no cluster is far larger than the others, by the degrees of freedom that the clusters give.

    >>> bool(even_sizes(moments_of_mean(np.ones(9), np.r_[np.ones(8), 100.0])))
    False
    """
    return np.asarray(moments.freedom >= EVEN * (moments.clusters - 1))


def draws_hold(moments: Moments) -> NDArray[np.bool_]:
    """Return where the bootstrap holds for measured values: evener sizes, and not too skewed for their number.

    Source: Cochran (1977), Sampling Techniques, 3rd ed., section 2.15 (25 for each squared skewness; 50 here).

    >>> skewed = np.r_[np.zeros(40), np.arange(10.0) ** 2]
    >>> bool(draws_hold(moments_of_mean(skewed, np.ones(50))))
    False
    """
    even = moments.freedom >= _EVEN_FOR_MEASURED * (moments.clusters - 1)
    return np.asarray(bootstrap_holds(moments) & even & (moments.clusters >= FEW_CLUSTERS + _OF_SKEW * moments.skew**2))


def bootstrap_holds_for_groups(sums: NDArray[np.float64], counts: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return where the bootstrap holds for a mean of groups `(..., cluster, group)`: large, none twice another.

    >>> bool(bootstrap_holds_for_groups(np.ones((60, 2)), np.ones((60, 2))))
    False
    """
    size = counts.sum(axis=-2)
    clusters = (counts > 0).sum(axis=-2)
    even = (clusters.min(axis=-1) >= FEW_CLUSTERS) & (size.max(axis=-1) <= 2 * size.min(axis=-1))
    right = (sums > 0).any(axis=-1).sum(axis=-1)
    wrong = (sums < counts).any(axis=-1).sum(axis=-1)
    moments = moments_of_mean(np.moveaxis(sums, -1, -2), np.moveaxis(counts, -1, -2), outcomes=True)
    balanced = (moments.freedom >= EVEN * (moments.clusters - 1)).all(axis=-1)
    return np.asarray(even & balanced & (np.minimum(right, wrong) >= _FEW_DISSENTERS))
