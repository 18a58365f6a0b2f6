"""Paired tests and intervals that hold however often one looks while items come in.

A fixed-sample p is right at one look, planned before. These hold at all looks together: the probability that the
p is ever at most 5 %, or that the interval ever misses the difference, is at most 5 % (Ville's inequality).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.errors import MetricError
from tellapart.stats.clusters import Clusters, check_level, number_clusters
from tellapart.stats.paired import Difference

_CALL = "anytime"
#: Halvings of a bracket of the difference: bounds to 2 ** -30.
_HALVINGS = 30


def evidence(only_a: Any, only_b: Any) -> NDArray[np.float64]:
    """Return the natural logarithm of the evidence that two runs are not right equally often: float64 (...,).

    Of b and c items that only one run got right it is ln(B(b + 1/2, c + 1/2) / (B(1/2, 1/2) 2^-(b + c))): the
    likelihood of the wins under a Beta(1/2, 1/2) mixture over that of a fair coin. It is a test martingale if the runs
    are equal, so that it ever exceeds ln 20 with probability 5 % at most.

    Raises:
        MetricError: a count is negative.

    Source: Robbins (1970), Ann. Math. Stat. 41, 1397-1409; Ville (1939).

    >>> round(float(evidence(12, 1)), 3)
    3.928
    """
    from scipy.special import betaln

    b, c = np.asarray(only_a, np.float64), np.asarray(only_b, np.float64)
    if (b < 0).any() or (c < 0).any():
        raise MetricError(f"evidence: counts of items are 0 or more; got {only_a!r} and {only_b!r}")
    return np.asarray(betaln(b + 0.5, c + 0.5) - math.log(math.pi) + (b + c) * math.log(2))


def anytime_p(only_a: int, only_b: int) -> float:
    """Return a p that holds at every look: one over the evidence, at most 1.

    >>> round(anytime_p(12, 1), 3), anytime_p(3, 3)
    (0.02, 1.0)
    """
    return float(min(1.0, math.exp(-float(evidence(only_a, only_b)))))


def net_wins(a: Any, b: Any, clusters: Clusters | None) -> tuple[int, int, int]:
    """Return in how many clusters run A has more right, in how many run B has, and in how many neither.

    If the runs are equal in distribution, the sign of a cluster's difference is a fair coin, as an item's is.

    >>> net_wins([1, 1, 0, 1], [0, 0, 0, 1], ["x", "x", "y", "y"])
    (1, 0, 1)
    """
    difference = np.asarray(a, np.float64) - np.asarray(b, np.float64)
    codes = number_clusters(_CALL, clusters, len(difference))
    net = np.bincount(codes, weights=difference)
    return int((net > 0).sum()), int((net < 0).sum()), int((net == 0).sum())


def anytime_difference(a: Any, b: Any, clusters: Clusters | None) -> tuple[Difference, float, str]:
    """Return the difference of two runs with bounds that hold at every look, its p, and the name of the test.

    Clusters of several items have a p, of the signs of their differences, and no bounds; graded values likewise.

    Raises:
        MetricError: clusters that do not fit the items.

    >>> difference, p, name = anytime_difference([1] * 12 + [0] * 8, [0] * 12 + [1] + [0] * 7, None)
    >>> difference.value, round(p, 3), name
    (0.55, 0.02, 'anytime')
    """
    only_a, only_b, same = net_wins(a, b, clusters)
    change = np.asarray(a, np.float64) - np.asarray(b, np.float64)
    if only_a + only_b + same < len(change) or not np.isin(change, (-1, 0, 1)).all():
        reason = "bounds that hold at every look take one item of right or wrong a cluster"
        difference = Difference(float(change.mean()), None, None, 0.95, "none: clusters", reason)
    else:
        low, high = anytime_bounds(only_a, only_b, same)
        difference = Difference(float(change.mean()), low, high, 0.95, "anytime")
    return difference, anytime_p(only_a, only_b), "anytime"


def anytime_bounds(only_a: int, only_b: int, same: int, *, level: float = 0.95) -> tuple[float, float]:
    """Return bounds of the difference of two proportions that hold at every look.

    A difference d is inside while the evidence against it is below 1 / (1 - level). That is the mean over stakes s of
    (1 + s (1 - d))^b (1 - s (1 + d))^c (1 - s d)^n for b, c and n items that A alone, B alone, and both or neither got
    right: the fortune of a gambler who bets on the next item. At d = 0 it is `evidence`, so that the bounds leave 0 out
    exactly where `anytime_p` is at most 1 - level.

    Raises:
        MetricError: no item, a negative count, or a level outside (0, 1).

    Source: Waudby-Smith and Ramdas (2024), J. R. Stat. Soc. B 86, 1-27, with the arcsine law over all stakes.

    >>> low, high = anytime_bounds(60, 20, 20)
    >>> round(low, 3), round(high, 3)
    (0.117, 0.636)
    """
    check_level(_CALL, level)
    counts = (int(only_a), int(only_b), int(same))
    if min(counts) < 0 or not any(counts):
        raise MetricError(f"anytime_bounds needs counts of one item or more; got {only_a}, {only_b}, {same}")
    middle = (only_a - only_b) / sum(counts)
    return _search(counts, level, middle, -1.0), _search(counts, level, middle, 1.0)


def _search(counts: tuple[int, int, int], level: float, inside: float, outside: float) -> float:
    """Return the difference between `inside` and `outside` from which on the evidence against it is enough."""
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        if abs(middle) == 1:  # every item is the same run's
            break
        if _evidence_against(counts, middle) < -math.log(1 - level):
            inside = middle
        else:
            outside = middle
    return outside


def _evidence_against(counts: tuple[int, int, int], difference: float) -> float:
    """Return the logarithm of the evidence against a difference in (-1, 1)."""
    from scipy.special import logsumexp

    # The mean over the arcsine law is that over Chebyshev's nodes, exactly: a polynomial of so many nodes' degree.
    nodes = np.cos(math.pi * (np.arange(sum(counts) // 2 + 1) + 0.5) / (sum(counts) // 2 + 1))
    least, most = -1 / (1 - difference), 1 / (1 + difference)
    stakes = (least + most) / 2 + (most - least) / 2 * nodes
    steps = (1 - difference, -1 - difference, -difference)
    fortune = sum(k * np.log1p(stakes * step) for k, step in zip(counts, steps, strict=True) if k)
    return float(logsumexp(fortune) - math.log(len(nodes)))
