"""The worth of items in clusters: the number of independent ones, and the fall of a score that they could show."""

from __future__ import annotations

from typing import Any

import numpy as np

from tellapart.errors import MetricError
from tellapart.stats.clusters import Clusters, ClusterTotals, check_level, check_values, is_binary
from tellapart.stats.power import smallest_seen


def effective_items(values: Any, clusters: Clusters | None) -> float | None:
    """Return how many independent items would give a mean as precise as that of these: n over the design effect.

    The design effect is the variance of the mean over draws of clusters, divided by that over draws of single items. If
        clusters balance themselves it is below 1, which is not believed: the result is n at most.

    `values`: float `(item,)`, each item's value of a metric.

    Returns:
        None if clusters hold several items and their values do not show it: one cluster, or the same value everywhere.

    Source: Kish (1965), Survey Sampling, section 8.2.

    >>> right = [1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 0, 0]
    >>> effective_items(right, None), round(effective_items(right, np.arange(12) // 4), 2)
    (12.0, 3.27)
    >>> effective_items([1, 1, 1, 1], ["a", "a", "b", "b"]) is None
    True
    """
    array = check_values("effective_items", values)
    if array.ndim != 1:
        raise MetricError(f"effective_items: expected shape (item,), got {array.shape}; pass one metric at a time")
    totals = ClusterTotals.of("effective_items", array, clusters)
    if totals.independent:
        return float(len(array))
    if len(totals) < 2 or np.ptp(array) == 0:
        return None
    of_clusters, of_items = totals.variance(), ClusterTotals.of("effective_items", array, None).variance()
    # Not the quotient's minimum with n: clusters of the same mean have no variance, and no quotient.
    return len(array) * of_items / of_clusters if of_clusters > of_items else float(len(array))


def detectable_fall(
    base: Any, new: Any, clusters: Clusters | None, *, tests: int = 1, alpha: float = 0.05, power: float = 0.8
) -> float | None:
    """Return the smallest true fall from `base` to `new` that a paired test of these items shows with this power.

    The test is `compare`'s (exact McNemar, or sign flips of clusters), at the level that Holm's first step leaves
    to one of several. How often the two disagree, and how much of that is shared within clusters, is taken from the
    data.

    Args:
        base: float `(item,)`, values from 0 upwards of the run that may have been better.
        new: values of the other run on the same items in the same order.
        clusters: one name or number an item; None if items are independent.
        tests: how many tests p is corrected for.
        alpha: the family-wise error.
        power: the probability that a fall of that size is significant.

    Returns:
        A fraction, `base`'s mean at most: a fall to 0. None if not even that would be significant.

    Raises:
        MetricError: empty, not finite, of different lengths; clusters that do not fit; alpha or power outside (0, 1).

    >>> base, new = np.tile([1, 1, 0, 1, 1], 80), np.tile([1, 0, 1, 1, 1], 80)
    >>> round(detectable_fall(base, new, None), 3), round(detectable_fall(base, new, None, tests=6), 3)
    (0.09, 0.111)
    >>> detectable_fall([1, 1, 0, 1], [1, 1, 0, 1], None) is None
    True
    """
    call = "detectable_fall"
    level = check_level(call, alpha) / tests
    first, second = check_values(call, base), check_values(call, new)
    if first.ndim != 1 or first.shape != second.shape:
        raise MetricError(
            f"{call}: got values of shape {first.shape} and {second.shape}; pass the same items in the same order"
        )
    right = ClusterTotals.of(call, first, clusters)
    # If all were lost, every sign would be the same: the smallest p that there can be.
    if 2.0 ** (1 - np.count_nonzero(right.sums)) > level:
        return None
    change = ClusterTotals.of(call, first - second, clusters)
    most = float(first.mean())
    if is_binary(first) and is_binary(second):
        # Runs that agree everywhere show nothing of their clusters: each is then worth one item.
        effective = effective_items(first - second, clusters) or len(change)
        seen = smallest_seen(max(1, int(effective)), float((first != second).mean()), alpha=level, power=power)
    else:
        seen = _normal_change(change, level, power)
    return most if seen is None else min(seen, most)


def _normal_change(change: ClusterTotals, alpha: float, power: float) -> float | None:
    """Return the change that lies so many standard errors from 0; None if every item changed alike."""
    from scipy.special import stdtrit

    error = float(np.sqrt(change.variance()))
    freedom = len(change) - 1
    return float(stdtrit(freedom, 1 - alpha / 2) + stdtrit(freedom, power)) * error or None
