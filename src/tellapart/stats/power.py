"""Minimum detectable effects of a benchmark's size, from exact binomial power.

Power is the probability that a true effect is detected. An effect is detected by the rules of the reports: its Wilson
interval lies above chance, or its exact McNemar p is at most alpha. For clustered items pass the effective number as
`n` (items divided by the design effect).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.errors import MetricError
from tellapart.stats.clusters import check_level


def binomial_tail(least: Any, n: Any, p: Any) -> NDArray[np.float64]:
    """Return the probability of at least so many successes of n, of any shape.

    scipy.stats has the same numbers; it takes half a second to import.

    Args:
        least: successes, integers.
        n: trials.
        p: the probability of a success.

    >>> binomial_tail([0, 2, 3], 2, 0.5).tolist()
    [1.0, 0.25, 0.0]
    """
    from scipy.special import betainc

    inside = np.clip(least, 1, np.maximum(n, 1))
    tail = betainc(inside, np.maximum(np.subtract(n, inside), 0) + 1, p)
    return np.asarray(np.select([np.less_equal(least, 0), np.greater(least, n)], [1.0, 0.0], tail), np.float64)


def power_above_chance(share: float, n: int, chance: float, *, alpha: float = 0.05) -> float:
    """Return the probability that the Wilson interval of a model whose true score is `share` lies above chance.

    Args:
        share: the true score, in [0, 1].
        n: independent items.
        chance: the score of guessing, in (0, 1).
        alpha: one minus the interval's level.

    Raises:
        MetricError: n < 1, share outside [0, 1], chance or alpha outside (0, 1).

    >>> round(power_above_chance(0.25, 400, 1 / 6), 3)
    0.985
    """
    call = "power_above_chance"
    _check_n(call, n)
    if not 0 <= share <= 1:
        raise MetricError(f"{call}: expected share in [0, 1], got {share:g}; 25 % is written 0.25")
    return float(binomial_tail(_critical_count(call, n, chance, alpha) + 1, n, share))


def detectable_above_chance(n: int, chance: float, *, alpha: float = 0.05, power: float = 0.8) -> float | None:
    """Return the smallest true margin above chance that is detected with this power, or None if `n` is too small.

    `power` is the probability of an interval above chance; the rest is as for `power_above_chance`.

    Raises:
        MetricError: n < 1, or chance, alpha or power outside (0, 1).

    >>> round(detectable_above_chance(400, 1 / 6), 3)
    0.055
    >>> detectable_above_chance(3, 1 / 2) is None
    True
    """
    from scipy.special import bdtri

    call = "detectable_above_chance"
    _check_n(call, n)
    check_level(call, power)
    most = _critical_count(call, n, chance, alpha)
    if most >= n:
        return None
    # The share at which at most `most` successes have probability 1 - power.
    return float(bdtri(most, n, 1 - power)) - chance


def _critical_count(call: str, n: int, chance: float, alpha: float) -> int:
    """Return the largest number of successes whose Wilson interval does not lie above chance."""
    from scipy.special import ndtri

    check_level(call, alpha)
    check_level(call, chance)
    # Wilson's low bound exceeds chance exactly if the score test rejects, which has a closed form.
    limit = n * chance + ndtri(1 - alpha / 2) * np.sqrt(n * chance * (1 - chance))
    return int(np.floor(limit))


def power_of_difference(difference: float, n: int, discordance: float, *, alpha: float = 0.05) -> float:
    """Return the probability that the exact McNemar p of two runs is at most alpha.

    Args:
        difference: the true difference of their scores.
        n: independent items.
        discordance: the share of items on which exactly one is right, at least `abs(difference)`.
        alpha: significance level.

    Raises:
        MetricError: n < 1, discordance outside (0, 1], a difference larger than it, alpha outside (0, 1).

    >>> round(power_of_difference(0.08, 400, 0.2), 3)
    0.943
    """
    from scipy.special import bdtrik, gammaln, xlog1py, xlogy

    call = "power_of_difference"
    _check_n(call, n)
    check_level(call, alpha)
    _check_discordance(call, discordance)
    if not abs(difference) <= discordance:
        raise MetricError(
            f"{call}: got a difference of {difference:g} with discordance {discordance:g}; runs cannot differ by "
            "more than the share of items on which they differ"
        )
    low, high = np.fmax(0, np.floor(bdtrik([1e-12, 1 - 1e-12], n, discordance))).astype(int)
    discordant = np.arange(low, min(n, high + 1) + 1)
    # The largest k with 2 P(X <= k) <= alpha is next to the root of the continued function.
    nearby = np.floor(np.fmax(0, bdtrik(alpha / 2, discordant, 0.5))) + np.array([[-1], [0], [1]])
    critical = nearby[0] - 1 + (2 * binomial_tail(discordant - nearby, discordant, 0.5) <= alpha).sum(axis=0)
    share = 0.5 + difference / discordance / 2
    rejected = sum(binomial_tail(discordant - critical, discordant, p) for p in (share, 1 - share))
    log_counts = gammaln(n + 1) - gammaln(discordant + 1) - gammaln(n - discordant + 1)
    log_mass = log_counts + xlogy(discordant, discordance) + xlog1py(n - discordant, -discordance)
    return float((np.exp(log_mass) * rejected).sum())


def detectable_difference(n: int, discordance: float, *, alpha: float = 0.05, power: float = 0.8) -> float | None:
    """Return the smallest true difference that McNemar detects with this power, or None if `n` is too small.

    `power` is the probability of p <= alpha; the rest is as for `power_of_difference`.

    Raises:
        MetricError: n < 1, discordance outside (0, 1], alpha or power outside (0, 1).

    >>> round(detectable_difference(400, 0.2), 3)
    0.064
    >>> detectable_difference(20, 0.1) is None
    True
    """
    from scipy.optimize import brentq

    call = "detectable_difference"
    _check_n(call, n)
    _check_discordance(call, discordance)
    check_level(call, power)
    check_level(call, alpha)

    def surplus(difference: float) -> float:
        return power_of_difference(difference, n, discordance, alpha=alpha) - power

    if surplus(discordance) < 0:
        return None
    if surplus(0.0) >= 0:  # only if power <= alpha
        return 0.0
    return float(brentq(surplus, 0.0, discordance, xtol=1e-9))


def smallest_seen(n: int, discordance: float, *, alpha: float = 0.05, power: float = 0.8) -> float | None:
    """Return the smallest true difference that McNemar detects with this power, raising the discordance if necessary.

    It is `detectable_difference` if runs with this discordance can differ enough. Else the discordance is raised to the
    difference: the same run is then right on every item on which the two disagree. None if `n` is too small even so.

    Args:
        n: independent items.
        discordance: the share of items on which exactly one is right, in [0, 1].
        alpha: significance level.
        power: the probability of p <= alpha.

    Raises:
        MetricError: n < 1, discordance outside [0, 1], alpha or power outside (0, 1).

    >>> round(smallest_seen(400, 0.2), 3), round(smallest_seen(400, 0.0), 3), smallest_seen(5, 0.0)
    (0.064, 0.02, None)
    """
    from scipy.optimize import brentq

    call = "smallest_seen"
    _check_n(call, n)
    check_level(call, power)
    check_level(call, alpha)
    if discordance != 0:
        _check_discordance(call, discordance)

    def surplus(difference: float) -> float:
        return power_of_difference(difference, n, max(difference, discordance), alpha=alpha) - power

    least = 1e-9  # above 0, at which the discordance may be 0, too
    if surplus(1.0) < 0:
        return None
    return float(brentq(surplus, least, 1.0, xtol=1e-9)) if surplus(least) < 0 else 0.0


def _check_n(call: str, n: int) -> None:
    if n < 1:
        raise MetricError(f"{call}: expected n >= 1 items, got {n}")


def _check_discordance(call: str, discordance: float) -> None:
    if not 0 < discordance <= 1:
        raise MetricError(
            f"{call}: expected discordance in (0, 1], got {discordance:g}; it is the share of items on which "
            "exactly one run is right"
        )
