"""Bounds in closed form, for many data sets at once: of shares, of means, and of means in clusters.

Arrays have any leading axes; the last one is the cluster. A cluster of no item counts for nothing, so that subsets of
different sizes fit one array. `bench/coverage.py` calls these functions on thousands of simulated data sets.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

#: Clusters are of even sizes if they give at least this share of the degrees of freedom that equal ones would.
EVEN = 0.3
#: Up to so many independent items the exact interval is taken.
FEW_ITEMS = 40
# Up to so many successes (or failures) Wilson's bound near 0 (near 1) excludes the truth too often.
_RARE = 3
#: Of fewer clusters that are all alike Wilson's interval covers 79 to 93 %.
FEW_ALIKE = 5


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """A statistic of clusters with the moments of its error; each array has the data sets' axes.

    The influence of a cluster is the part that it adds to the error of the estimate.
    """

    estimate: Floats
    variance: Floats
    freedom: Floats  # degrees of freedom of the variance, by Satterthwaite's rule
    skew: Floats  # skewness of the influences
    clusters: Floats  # number of clusters with an item
    items: Floats
    differing: Floats  # number of clusters with another influence than the most frequent


def wilson_bounds(share: ArrayLike, n: ArrayLike, quantile: ArrayLike) -> tuple[Floats, Floats]:
    """Return Wilson's bounds for shares seen in `n` trials (`n` may be an effective, fractional number).

    Source: Wilson (1927), J. Am. Stat. Assoc. 22, 209-212.
    """
    shares, quantiles = np.asarray(share, np.float64), np.asarray(quantile, np.float64)
    square = quantiles * quantiles / np.asarray(n, np.float64)
    centre = (shares + square / 2) / (1 + square)
    reach = np.sqrt(square * (shares * (1 - shares) + square / 4)) / (1 + square)
    # The low bound of 0 is 0 and the high one of 1 is 1; rounding must not leave 1e-17 there.
    low = np.where(shares == 0, 0.0, np.maximum(0.0, centre - reach))
    high = np.where(shares == 1, 1.0, np.minimum(1.0, centre + reach))
    return low, high


def exact_bounds(share: ArrayLike, n: ArrayLike, level: float) -> tuple[Floats, Floats]:
    """Return Clopper and Pearson's bounds for shares seen in `n` trials (which may be a fractional number).

    Source: Clopper and Pearson (1934), Biometrika 26, 404-413, by quantiles of the beta distribution.
    """
    from scipy.special import betaincinv

    shares, trials = np.asarray(share, np.float64), np.asarray(n, np.float64)
    hits, misses, tail = shares * trials, (1 - shares) * trials, (1 - level) / 2
    low = np.where(shares == 0, 0.0, betaincinv(np.maximum(hits, 1e-12), misses + 1, tail))
    high = np.where(shares == 1, 1.0, betaincinv(hits + 1, np.maximum(misses, 1e-12), 1 - tail))
    return low, high


def independent_bounds(successes: ArrayLike, n: ArrayLike, level: float) -> tuple[Floats, Floats]:
    """Return Wilson's bounds, and Poisson's in place of the one near 0 (near 1) of one to three successes (failures).

    Wilson's interval covers as little as 84 % of rare outcomes: with one success its low bound is 0.18 / n, where
    Poisson's is 0.05 / n. Of 40 trials or fewer it covers as little as 87 % of any outcomes: there the bounds are
    Clopper and Pearson's.

    Source: Brown, Cai and DasGupta (2001), Stat. Sci. 16, 101-133, section 4.1.1 (the modified Wilson interval).

    >>> [round(float(bound), 5) for bound in independent_bounds(1, 100, 0.95)]
    [0.00051, 0.05449]
    """
    from scipy.special import chdtri, ndtri

    hits, trials = np.asarray(successes, np.float64), np.asarray(n, np.float64)
    low, high = wilson_bounds(hits / trials, trials, ndtri((1 + level) / 2))
    misses = trials - hits

    def poisson_mean(count: Floats) -> Floats:
        """Return the mean of a Poisson variable that reaches a rare count with probability 1 - level; else infinity."""
        rare = (count > 0) & (count <= _RARE)
        return np.where(rare, chdtri(2 * np.maximum(count, 1), level) / 2, np.inf)

    low = np.minimum(low, poisson_mean(hits) / trials)
    high = np.maximum(high, 1 - poisson_mean(misses) / trials)
    few = trials <= FEW_ITEMS
    if not few.any():
        return low, high
    exact = exact_bounds(hits / trials, trials, level)
    return np.where(few, exact[0], low), np.where(few, exact[1], high)


def moments_of_mean(sums: Floats, counts: Floats, *, outcomes: bool = False) -> Moments:
    """Return the mean over items, sum over count, with its variance over draws of clusters.

    The variance is the bias-reduced one of Bell and McCaffrey, in which a cluster that holds much of all items weighs
    more; its degrees of freedom are those for clusters of which all items are alike, the fewest that there can be. With
    clusters of one size these are the textbook's: C - 1 degrees, and C / (C - 1) in the variance.

    `sums`: sums of each cluster's values `(..., cluster)`; `counts`: its items. With `outcomes` the values are 0 or 1:
    `differing` is then the number of clusters with a right item, or of those with a wrong one if that is smaller, and
    `skew` is 0, since no bound of shares uses it.

    Source: Bell and McCaffrey (2002), Survey Methodology 28, 169-181; Imbens and Kolesar (2016), Rev. Econ. Stat. 98,
    701-712.
    """
    items = counts.sum(axis=-1, keepdims=True)
    weight = counts / items
    mean = sums.sum(axis=-1, keepdims=True) / items
    error = (sums - mean * counts) / items
    others = np.where(weight < 1, 1 - weight, 1.0)  # weight of the other clusters
    variance = (error**2 / others).sum(axis=-1)
    present = counts > 0
    clusters = present.sum(axis=-1).astype(np.float64)
    if outcomes:
        right, wrong = (present & (sums > 0)).sum(axis=-1), (present & (sums < counts)).sum(axis=-1)
        skew, differing = np.zeros(clusters.shape), np.minimum(right, wrong).astype(np.float64)
    else:
        skew, differing = skewness(error, present), differing_from_mode(np.where(present, error * items, np.nan))
    variance = np.where(clusters > 1, variance, np.inf)
    return Moments(mean[..., 0], variance, degrees_of_freedom(weight), skew, clusters, items[..., 0], differing)


def degrees_of_freedom(weight: Floats) -> Floats:
    """Return Satterthwaite's degrees of freedom of a mean's variance, by weights `(..., cluster)` that add to 1."""
    present = weight > 0
    # The variance is the sum of s u^2 with s = w^2 / (1 - w), where u = (I - 1 w') p are deviations of the clusters'
    # means p from their weighted mean. The covariance of u_i and u_j is |w|^2 - w_i - w_j, and 1 more if i = j. `trace`
    # is the expected sum, and `square` half the variance of the sum.
    scale = np.where(weight < 1, weight**2 / np.where(weight < 1, 1 - weight, 1.0), 0.0)
    size = (weight**2).sum(axis=-1, keepdims=True)
    off = size - 2 * weight
    trace = (scale * (1 + off)).sum(axis=-1)
    total, first, second = (np.where(present, scale * weight**k, 0.0).sum(axis=-1) for k in range(3))
    size = size[..., 0]
    square = (size * total) ** 2 - 4 * size * total * first + 2 * total * second + 2 * first**2
    square += (scale**2 * ((1 + off) ** 2 - off**2)).sum(axis=-1)
    return np.asarray(np.where(square > 0, trace**2 / np.where(square > 0, square, 1.0), 0.0))


def skewness(influence: Floats, present: NDArray[np.bool_]) -> Floats:
    """Return the sample skewness of influences `(..., cluster)` that add to 0; 0 where there is no spread."""
    n = present.sum(axis=-1).astype(np.float64)
    few = n < 3
    second = (influence**2).sum(axis=-1) / np.where(few, 1, n - 1)
    flat = few | (second <= 0)
    third = (influence**3).sum(axis=-1) * n / np.where(few, 1, (n - 1) * (n - 2))
    return np.where(flat, 0.0, third / np.where(flat, 1.0, second) ** 1.5)


def differing_from_mode(influence: Floats) -> Floats:
    """Count the clusters whose influence differs from the most frequent one; NaN is no cluster."""
    scale = np.nanmax(np.abs(influence), axis=-1, keepdims=True, initial=0.0)
    rounded = np.sort(np.rint(influence / np.where(scale > 0, scale, 1.0) * 1e9), axis=-1)  # NaN come last
    index = np.arange(rounded.shape[-1])
    starts = np.ones(rounded.shape, bool)  # whether a run of equal values starts here
    starts[..., 1:] = rounded[..., 1:] != rounded[..., :-1]
    run_length = index - np.maximum.accumulate(np.where(starts, index, 0), axis=-1) + 1  # up to here
    measured = ~np.isnan(rounded)
    return np.asarray((measured.sum(axis=-1) - np.where(measured, run_length, 0).max(axis=-1)).astype(np.float64))


def share_bounds(moments: Moments, level: float) -> tuple[Floats, Floats]:
    """Return bounds of a share of items in clusters: the exact ones of a smaller number of independent items.

    That number is `p (1 - p) / variance`, at most that of the items. It is reduced by the square of the ratio of the
    normal quantile to Student's. The degrees of freedom are at most `2 * differing`. If all clusters are alike, each is
    one trial of Wilson's interval, and of the exact one if they are fewer than five. The bounds hold for values from 0
    to 1, too, and are then wider than necessary.

    Source: Korn and Graubard (1998), Survey Methodology 24, 193-201.
    """
    from scipy.special import ndtri, stdtrit

    share, upper = np.clip(moments.estimate, 0, 1), (1 + level) / 2
    normal = float(ndtri(upper))
    alike = (share == 0) | (share == 1) | ~np.isfinite(moments.variance) | (moments.variance <= 0)
    spread = np.where(alike, 1.0, moments.variance)
    effective = np.minimum(moments.items, share * (1 - share) / spread)
    freedom = np.minimum(moments.freedom, np.maximum(2.0 * moments.differing, 1.0))
    student = stdtrit(np.where(alike, 1.0, np.maximum(freedom, 0.5)), upper)
    trials = np.where(alike, 1.0, np.maximum(effective, 1e-6)) * (normal / student) ** 2
    of_items = exact_bounds(share, trials, level)
    of_few = exact_bounds(share, moments.clusters, level)
    of_many = wilson_bounds(share, moments.clusters, normal)
    low, high = (
        np.where(alike, np.where(moments.clusters < FEW_ALIKE, few, many), different)
        for few, many, different in zip(of_few, of_many, of_items, strict=True)
    )
    return low, high


def hall_bounds(moments: Moments, level: float) -> tuple[Floats, Floats]:
    """Return Student's bounds, each moved by the skewness of the clusters' influence.

    The studentised mean of skewed values is skewed itself; a cubic polynomial of it is not, and is inverted here.

    Source: Hall (1992), J. R. Stat. Soc. B 54, 221-228; Student's quantile is that of `moments.freedom`, widened as in
    Hesterberg (2015).
    """
    from scipy.special import stdtrit

    clusters = np.maximum(moments.freedom, 0.5) + 1  # as many of one size as give these degrees of freedom
    quantile = stdtrit(clusters - 1, (1 + level) / 2) * np.sqrt(clusters / (clusters - 1))
    error, slope = np.sqrt(moments.variance), moments.skew / 3 / np.sqrt(clusters)
    symmetric = np.abs(slope) < 1e-9
    divisor = np.where(symmetric, 1.0, slope)

    def bound(student: Floats) -> Floats:
        moved = (np.cbrt(1 + 3 * divisor * (student - slope / 2)) - 1) / divisor
        return np.asarray(moments.estimate - error * np.where(symmetric, student, moved))

    return bound(quantile), bound(-quantile)


def unbounded_bounds(moments: Moments, level: float) -> tuple[Floats, Floats]:
    """Return the wider of Hall's and Student's bounds on each side, for values that may have long tails on both.

    The skewness of such a sample is an accident, and moves both of Hall's bounds to one side.
    """
    low, high = hall_bounds(moments, level)
    low_without, high_without = hall_bounds(replace(moments, skew=np.zeros(())), level)
    return np.minimum(low, low_without), np.maximum(high, high_without)
