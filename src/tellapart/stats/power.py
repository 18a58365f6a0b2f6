"""Minimum detectable effects of a benchmark's size, from exact binomial power; and the worth of items in clusters.

Power is the probability that a true effect is detected. An effect is detected by the rules of the reports: its Wilson
interval lies above chance, or its exact McNemar p is at most alpha. For clustered items pass the effective number as
`n` (items divided by the design effect).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tellapart.errors import MetricError
from tellapart.stats.clusters import Clusters, ClusterTotals, check_level, check_values, is_binary


def binomial_tail(least: Any, n: Any, p: Any) -> NDArray[np.float64]:
    """Return the probability of at least `least` successes of n with probability p each; arrays of one shape.

    scipy.stats has the same numbers; it takes half a second to import.
    """
    from scipy.special import betainc

    inside = np.clip(least, 1, np.maximum(n, 1))
    tail = betainc(inside, np.maximum(np.subtract(n, inside), 0) + 1, p)
    return np.asarray(np.select([np.less_equal(least, 0), np.greater(least, n)], [1.0, 0.0], tail), np.float64)


def detectable_above_chance(n: int, chance: float, *, alpha: float = 0.05, power: float = 0.8) -> float | None:
    """Return the smallest true margin above chance that is detected with this power, or None if `n` is too small.

    `power` is the probability that the model's Wilson interval at the level 1 - `alpha` lies above chance.

    >>> round(detectable_above_chance(400, 1 / 6), 3)
    0.055
    """
    from scipy.special import bdtri, ndtri

    _check_size("detectable_above_chance", n, power, alpha, chance)
    # Wilson's low bound lies above chance exactly if there are more than `critical` successes (the score test).
    critical = int(np.floor(n * chance + ndtri(1 - alpha / 2) * np.sqrt(n * chance * (1 - chance))))
    # `bdtri`: the share at which `critical` successes or fewer have probability 1 - power.
    return None if critical >= n else float(bdtri(critical, n, 1 - power)) - chance


def power_of_difference(difference: float, n: int, discordance: float, *, alpha: float = 0.05) -> float:
    """Return the probability that the exact McNemar p of two runs is at most alpha.

    Args:
        difference: the true difference of their scores.
        n: independent items.
        discordance: the share of items on which exactly one is right, at least `abs(difference)`.
        alpha: significance level.

    >>> round(power_of_difference(0.08, 400, 0.2), 3)
    0.943
    """
    call = "power_of_difference"
    _check_size(call, n, alpha)
    _check_discordance(call, discordance)
    if not abs(difference) <= discordance:
        raise MetricError(
            f"{call}: got a difference of {difference:g} with discordance {discordance:g}; runs cannot differ by "
            "more than the share of items on which they differ"
        )
    discordant, critical, mass = _discordant_items(n, discordance, alpha)
    share = 0.5 + difference / discordance / 2  # of the discordant items, those that the better run gets
    rejected = sum(binomial_tail(discordant - critical, discordant, p) for p in (share, 1 - share))
    return float((mass * rejected).sum())


class _DiscordantItems(NamedTuple):
    """Probable numbers of items on which exactly one run is right, each array of one entry a number."""

    numbers: NDArray[np.int64]
    critical: NDArray[np.float64]  # McNemar's p is at most alpha if the worse run is right on at most so many of them
    mass: NDArray[np.float64]


@lru_cache(maxsize=8)  # the search for a difference asks for the same ones at each step
def _discordant_items(n: int, discordance: float, alpha: float) -> _DiscordantItems:
    from scipy.special import bdtrik, gammaln, xlog1py, xlogy

    low, high = np.fmax(0, np.floor(bdtrik([1e-12, 1 - 1e-12], n, discordance))).astype(int)
    numbers = np.arange(low, min(n, high + 1) + 1)
    # The critical k is the largest with 2 P(X <= k) <= alpha. `bdtrik` inverts P for real k, so it is one of three.
    nearby = np.floor(np.fmax(0, bdtrik(alpha / 2, numbers, 0.5))) + np.array([[-1], [0], [1]])
    critical = nearby[0] - 1 + (2 * binomial_tail(numbers - nearby, numbers, 0.5) <= alpha).sum(axis=0)
    log_counts = gammaln(n + 1) - gammaln(numbers + 1) - gammaln(n - numbers + 1)
    log_mass = log_counts + xlogy(numbers, discordance) + xlog1py(n - numbers, -discordance)
    return _DiscordantItems(numbers, critical, np.exp(log_mass))


def detectable_difference(n: int, discordance: float, *, alpha: float = 0.05, power: float = 0.8) -> float | None:
    """Return the smallest true difference that McNemar detects with this power, or None if `n` is too small.

    `power` is the probability of p <= alpha; the rest is as for `power_of_difference`.

    >>> round(detectable_difference(400, 0.2), 3)
    0.064
    """
    call = "detectable_difference"
    _check_size(call, n, power, alpha)
    _check_discordance(call, discordance)
    return _find_smallest(
        lambda difference: power_of_difference(difference, n, discordance, alpha=alpha) - power, 0.0, discordance
    )


def smallest_seen(n: int, discordance: float, *, alpha: float = 0.05, power: float = 0.8) -> float | None:
    """Return the smallest true difference that McNemar detects with this power, raising the discordance if necessary.

    It is `detectable_difference` if runs with this discordance can differ enough. Else the discordance is raised to the
    difference: the same run is then right on every item on which the two disagree. None if `n` is too small even so.

    >>> round(smallest_seen(400, 0.2), 3), round(smallest_seen(400, 0.0), 3), smallest_seen(5, 0.0)
    (0.064, 0.02, None)
    """
    call = "smallest_seen"
    _check_size(call, n, power, alpha)
    if discordance != 0:
        _check_discordance(call, discordance)

    def surplus(difference: float) -> float:
        return power_of_difference(difference, n, max(difference, discordance), alpha=alpha) - power

    return _find_smallest(surplus, 1e-9, 1.0)  # above 0, at which the discordance may be 0, too


def _find_smallest(surplus: Callable[[float], float], least: float, most: float) -> float | None:
    """Return the smallest difference with a surplus of power >= 0; 0 if `least` has it, None if `most` lacks it."""
    if surplus(most) < 0:
        return None
    return find_root(surplus, least, most) if surplus(least) < 0 else 0.0


def find_root(function: Callable[[float], float], low: float, high: float, *, tolerance: float = 1e-9) -> float:
    """Return the root of a function between two points at which its signs differ, by Brent's method.

    Its steps are those of scipy.optimize's `brentq`, without that import, which takes a sixth of a command's time.

    Source: Brent (1973), Algorithms for Minimization Without Derivatives, chapter 4.
    """
    before, now, across = low, high, low
    f_before, f_now = function(before), function(now)
    f_across, step_before, step = f_before, 0.0, 0.0
    while f_before != 0:
        if f_now != 0 and (f_before < 0) != (f_now < 0):
            across, f_across = before, f_before
            step_before = step = now - before
        if abs(f_across) < abs(f_now):
            before, now, across = now, across, now
            f_before, f_now, f_across = f_now, f_across, f_now
        least = (tolerance + 4 * np.finfo(float).eps * abs(now)) / 2
        half = (across - now) / 2
        if f_now == 0 or abs(half) < least:
            return now
        attempt = np.inf  # longer than any step that is taken: the interval is then halved
        if abs(step_before) > least and abs(f_now) < abs(f_before):
            if before == across:
                attempt = -f_now * (now - before) / (f_now - f_before)
            else:
                slope, other = (f_before - f_now) / (before - now), (f_across - f_now) / (across - now)
                attempt = -f_now * (f_across * other - f_before * slope) / (other * slope * (f_across - f_before))
        short = 2 * abs(attempt) < min(abs(step_before), 3 * abs(half) - least)
        step_before, step = (step, attempt) if short else (half, half)
        before, f_before = now, f_now
        now += step if abs(step) > least else least if half > 0 else -least
        f_now = function(now)
    return before


def _check_size(call: str, n: int, *levels: float) -> None:
    if n < 1:
        raise MetricError(f"{call}: expected n >= 1 items, got {n}")
    for level in levels:
        check_level(call, level)


def _check_discordance(call: str, discordance: float) -> None:
    if not 0 < discordance <= 1:
        raise MetricError(
            f"{call}: expected discordance in (0, 1], got {discordance:g}; it is the share of items on which "
            "exactly one run is right"
        )


def effective_items(values: Any, clusters: Clusters | None) -> float | None:
    """Return how many independent items would give a mean as precise as that of these: n over the design effect.

    The design effect is the variance of the mean over draws of clusters, divided by that over draws of single items. If
    clusters balance themselves it is below 1, which is not believed: the result is n at most. It is None if clusters
    hold several items and their values `(item,)` do not show it: one cluster, or the same value everywhere.

    Source: Kish (1965), Survey Sampling, section 8.2.

    >>> right = [1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 0, 0]
    >>> effective_items(right, None), round(effective_items(right, np.arange(12) // 4), 2)
    (12.0, 3.27)
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
    # Compared before it is divided: clusters of one mean have a variance of 0.
    return len(array) * of_items / of_clusters if of_clusters > of_items else float(len(array))


def detectable_fall(
    base: Any, new: Any, clusters: Clusters | None, *, tests: int = 1, alpha: float = 0.05, power: float = 0.8
) -> float | None:
    """Return the smallest true fall from `base` to `new` that a paired test of these items shows with this power.

    The test is `compare`'s (exact McNemar, or sign flips of clusters), at the level that Holm's first step leaves
    to one of several. How often the two disagree, and how much of that is shared within clusters, is taken from the
    data.

    Args:
        base: float `(item,)`, values of the run that may have been better.
        new: values of the other run on the same items in the same order.
        clusters: one name or number an item; None if items are independent.
        tests: how many tests p is corrected for.
        alpha: the family-wise error.
        power: the probability that a fall of that size is significant.

    No fall is larger than that of `base`'s mean to 0, or to the lowest value if any is negative. None if not even that
    would be significant.

    >>> base, new = np.tile([1, 1, 0, 1, 1], 80), np.tile([1, 0, 1, 1, 1], 80)
    >>> round(detectable_fall(base, new, None), 3), round(detectable_fall(base, new, None, tests=6), 3)
    (0.09, 0.111)
    """
    from scipy.special import stdtrit

    call = "detectable_fall"
    level = check_level(call, alpha) / tests
    first, second = check_values(call, base), check_values(call, new)
    if first.ndim != 1 or first.shape != second.shape:
        raise MetricError(f"{call}: got shapes {first.shape} and {second.shape}; pass the same items in the same order")
    lowest = min(0.0, float(first.min()), float(second.min()))
    first, second = first - lowest, second - lowest
    totals = ClusterTotals.of(call, first, clusters)
    # If `new` lost everything, all clusters' signs would be the same. That gives the smallest possible p.
    if 2.0 ** (1 - np.count_nonzero(totals.sums)) > level:
        return None
    change = ClusterTotals.of(call, first - second, clusters)
    most = float(first.mean())
    if is_binary(first) and is_binary(second):
        # Runs that agree everywhere have no effective number of items: each cluster then counts as one.
        effective = effective_items(first - second, clusters) or len(change)
        smallest = smallest_seen(max(1, int(effective)), float((first != second).mean()), alpha=level, power=power)
    else:  # None if every item changed alike, without a standard error
        freedom, error = len(change) - 1, float(np.sqrt(change.variance()))
        smallest = float(stdtrit(freedom, 1 - level / 2) + stdtrit(freedom, power)) * error or None
    return most if smallest is None else min(smallest, most)
