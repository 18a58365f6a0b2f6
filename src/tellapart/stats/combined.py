"""Statistics made of several means: a ratio of counts, the smallest mean, the mean of groups' means.

Each is a `Reduce` that knows its parts, so that its interval can be made of theirs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tellapart.stats.bounds import (
    EVEN,
    Moments,
    degrees_of_freedom,
    exact_bounds,
    hall_bounds,
    independent_bounds,
    moments_of_mean,
    share_bounds,
    unbounded_bounds,
)
from tellapart.stats.interval import Reduce

Floats = NDArray[np.float64]

#: With fewer (differing) clusters a mean of values without known bounds has no interval.
FEWEST = 10
# Below so many degrees of freedom a few clusters hold most items.
_LEAST_FREEDOM = 6.0
# With fewer items in the groups that weigh most, a common variance of the groups cannot be estimated.
_FEWEST_POOLED = 3.0


@dataclass(frozen=True, slots=True)
class RatioOfCounts:
    """The count of the first column over that of another column, or over the mean count of several; 0 for 0 / 0.

    Every item that counts in the first column counts in the others: a right yes is an answered yes and a true one. So
    the ratio follows from a share J among the items that count in any other column. Precision is J among the answered,
    recall is J among the true, and F1 is `2 J / (1 + J)` among the items that are either.
    """

    columns: tuple[int, ...]

    def __init__(self, *columns: int) -> None:
        object.__setattr__(self, "columns", columns)

    def __call__(self, means: Floats) -> Floats:
        """Return the ratio of means `(..., column)`."""
        whole = means[..., self.columns].mean(axis=-1)
        return np.asarray(np.divide(means[..., 0], whole, out=np.zeros_like(whole), where=whole > 0))

    def among(self, values: Floats) -> NDArray[np.bool_]:
        """Return which items, of values `(item, column)`, count in a column of the denominator: bool `(item,)`."""
        return np.asarray((values[:, self.columns] > 0).any(axis=1))

    def of_share(self, share: float) -> float:
        """Return the ratio that follows from a share among those items."""
        return share if len(self.columns) == 1 else 2 * share / (1 + share)


@dataclass(frozen=True, slots=True)
class SmallestMean:
    """The smallest of the components' means."""

    def __call__(self, means: Floats) -> Floats:
        """Return the smallest of means `(..., component)`."""
        return np.asarray(means.min(axis=-1))


@dataclass(frozen=True, slots=True)
class MeanOfGroups:
    """The unweighted mean of groups' means; a group without an item in a resample is left out of its mean.

    Columns are first the values of each group, group after group, which are 0 for items of other groups. Then follows a
    column for each group, 1 for its items. `inner` takes a group's component means to its statistic; it is None if a
    group has one column. `names` are the groups' names, for messages.
    """

    groups: int
    inner: Reduce | None = None
    names: tuple[str, ...] = ()

    def __call__(self, means: Floats) -> Floats:
        """Return the mean of groups' means, of column means `(..., column)`."""
        rows = means.reshape(-1, means.shape[-1])
        sums, shares = rows[:, : -self.groups].reshape(len(rows), self.groups, -1), rows[:, -self.groups :, None]
        per_group = np.divide(sums, shares, out=np.full_like(sums, np.nan), where=shares > 0)
        statistics = per_group[:, :, 0] if self.inner is None else self.inner(per_group)
        return np.asarray(np.nanmean(statistics, axis=1)).reshape(means.shape[:-1])

    def name(self, group: int) -> str:
        """Return a group's name for a message."""
        return f"the group {self.names[group]!r}" if self.names else "a group"

    def of_group(self, values: Floats, group: int) -> tuple[NDArray[np.bool_], Floats]:
        """Return which items are in a group, and their values `(item,)` or `(item, component)`."""
        member = values[:, group - self.groups] > 0
        width = (values.shape[1] - self.groups) // self.groups
        group_values = values[member, group * width : (group + 1) * width]
        return member, group_values[:, 0] if self.inner is None else group_values


def needs_more(moments: Moments) -> NDArray[np.bool_]:
    """Return where clusters are too few, too alike or too unequal in size for a mean whose bounds are not known."""
    few = (moments.clusters < FEWEST) | (moments.differing < FEWEST)
    return np.asarray(few | (moments.freedom < np.maximum(_LEAST_FREEDOM, EVEN * (moments.clusters - 1))))


def graded_bounds(moments: Moments, level: float, bounds: tuple[float, float] | None) -> tuple[Floats, Floats]:
    """Return Hall's bounds of a mean, widened to those of a share, or to Student's if the values' `bounds` are None.

    If Hall's would not hold, they are those of a share alone, or NaN if `bounds` is None.
    """
    few = needs_more(moments)
    if bounds is None:
        low, high = unbounded_bounds(moments, level)
        return np.where(few, np.nan, low), np.where(few, np.nan, high)
    low, high = hall_bounds(moments, level)
    wide = [bounds[0] + (bounds[1] - bounds[0]) * end for end in share_bounds(_within_one(moments, bounds), level)]
    # With rare values either of the two is too short now and then, on different data: the wider one holds.
    low = np.where(few, wide[0], np.clip(np.minimum(low, wide[0]), *bounds))
    high = np.where(few, wide[1], np.clip(np.maximum(high, wide[1]), *bounds))
    return low, high


def _within_one(moments: Moments, bounds: tuple[float, float]) -> Moments:
    """Return the moments of values moved and scaled from their bounds to 0 and 1."""
    width = bounds[1] - bounds[0]
    return replace(moments, estimate=(moments.estimate - bounds[0]) / width, variance=moments.variance / width**2)


def macro_bounds(
    sums: Floats, counts: Floats, level: float, *, binary: bool, bounds: tuple[float, float] | None = (0.0, 1.0)
) -> tuple[Floats, Floats]:
    """Return bounds of the unweighted mean of groups' means.

    Groups' intervals are combined by MOVER: the squares of their reaches (from the estimate to the bound) add up. A
    group of one or two items cannot reach beyond 0 and 1, so the sum is too short for many such groups. The bounds are
    therefore at least those of `_pooled_bounds`. Clusters that lie in several groups widen the result.

    `sums`: of values, `(..., cluster, group)`; `binary`: values are 0 or 1.

    Source: Zou and Donner (2008), Stat. Med. 27, 1693-1702 (MOVER).
    """
    totals, size = np.moveaxis(sums, -1, -2), np.moveaxis(counts, -1, -2)
    moments = moments_of_mean(totals, size, outcomes=binary)
    if binary:
        alone = (size <= 1).all(axis=-1)
        of_items = independent_bounds(np.rint(totals.sum(axis=-1)), np.maximum(moments.items, 1), level)
        of_clusters = share_bounds(moments, level)
        low, high = (np.where(alone, *bound) for bound in zip(of_items, of_clusters, strict=True))
    else:
        low, high = graded_bounds(moments, level, bounds)
    downwards, upwards = combine_reaches(moments.estimate, low, high, moments.clusters, bounds, level)
    mean = moments.estimate.mean(axis=-1)
    if bounds is not None:
        scaled = _within_one(moments, bounds)
        width, centre = bounds[1] - bounds[0], scaled.estimate.mean(axis=-1)
        pooled = _pooled_bounds(scaled, centre, level)
        downwards = np.maximum(downwards, width * (centre - pooled[0]))
        upwards = np.maximum(upwards, width * (pooled[1] - centre))
    growth = _error_growth(totals, size, moments, level)
    low, high = mean - growth * downwards, mean + growth * upwards
    if bounds is None:
        return low, high
    return np.maximum(low, bounds[0]), np.minimum(high, bounds[1])


def combine_reaches(
    estimates: Floats, low: Floats, high: Floats, trials: Floats, bounds: tuple[float, float] | None, level: float
) -> tuple[Floats, Floats]:
    """Return how far the interval of a mean of independent estimates `(..., group)` reaches down and up.

    The squares of the groups' reaches add up. For the k smallest groups at a bound (all right, or all wrong) the sum is
    too short: they reach k times s at least, where s is the greatest share of failures (or successes) with which
    `trials` of k groups together may have none.
    """
    groups = estimates.shape[-1]

    def reach(distances: Floats, bound: float | None) -> Floats:
        squares = distances**2
        if bounds is None:
            return np.asarray(np.sqrt(squares.sum(axis=-1)) / groups)
        extreme = estimates == bound
        smallest = np.sort(np.where(extreme, trials, np.inf), axis=-1).cumsum(axis=-1)  # trials of k groups
        shares = (bounds[1] - bounds[0]) * (1 - ((1 - level) / 2) ** (1 / smallest))
        together = (np.arange(1, groups + 1) * shares).max(axis=-1) ** 2
        together = np.maximum(together, np.where(extreme, squares, 0.0).sum(axis=-1))
        return np.asarray(np.sqrt(together + np.where(extreme, 0.0, squares).sum(axis=-1)) / groups)

    least, highest = bounds or (None, None)
    return reach(estimates - low, highest), reach(high - estimates, least)


def _pooled_bounds(moments: Moments, mean: Floats, level: float) -> tuple[Floats, Floats]:
    """Return exact bounds of the mean, as if all groups had one share: their mean weighted by 1 / items."""
    from scipy.special import ndtri, stdtrit

    weights, groups = 1 / moments.items, moments.items.shape[-1]
    total = weights.sum(axis=-1)
    centre = (moments.estimate * weights).sum(axis=-1) / total
    # The effective number of items behind that share, by which its variance is corrected.
    seen = total**2 / (weights**3).sum(axis=-1)
    several = np.isfinite(moments.variance) & (moments.clusters > 1)
    expected = np.where(several, moments.estimate * (1 - moments.estimate) * weights, 0.0).sum(axis=-1)
    pooled = np.where(several, moments.variance, 0.0).sum(axis=-1)
    effect = np.maximum(1.0, pooled / np.where(expected > 0, expected, np.inf))
    variance = centre * (1 - centre) * total * effect / groups**2 * seen / np.where(seen > 1, seen - 1, np.inf)
    flat = (variance <= 0) | (mean <= 0) | (mean >= 1) | (seen < _FEWEST_POOLED)
    upper = (1 + level) / 2
    student = stdtrit(np.maximum(seen - 1, 1.0), upper) / ndtri(upper)
    effective = np.where(flat, 1.0, mean * (1 - mean) / np.where(flat, 1.0, variance)) / student**2
    low, high = exact_bounds(mean, effective, level)
    return np.where(flat, mean, low), np.where(flat, mean, high)


def _error_growth(sums: Floats, counts: Floats, moments: Moments, level: float) -> Floats:
    """Return the factor by which few clusters that lie in several groups increase the error; 1 if none lies in two."""
    from scipy.special import ndtri, stdtrit

    errors = (sums - moments.estimate[..., None] * counts) / moments.items[..., None]
    apart = (errors**2).sum(axis=(-1, -2))
    together = (errors.sum(axis=-2) ** 2).sum(axis=-1)
    growth = np.sqrt(np.maximum(1.0, together / np.where(apart > 0, apart, np.inf)))
    weight = (counts / moments.items[..., None]).mean(axis=-2)
    upper = (1 + level) / 2
    student = stdtrit(np.maximum(degrees_of_freedom(weight), 0.5), upper) / ndtri(upper)
    crossing = ((counts > 0).sum(axis=-2) > 1).any(axis=-1)
    return np.asarray(np.where(crossing, growth * student, 1.0))
