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

__all__ = ["anytime_bounds", "anytime_p", "evidence", "net_wins"]

_CALL = "anytime"
#: Halvings of a bracket of the difference: bounds to 2 ** -40.
_HALVINGS = 40


def evidence(only_a: Any, only_b: Any) -> NDArray[np.float64]:
    """Return the natural logarithm of the evidence that two runs are not right equally often: float64 (...,).

    Of b and c items that only one run got right it is ln(B(b + 1/2, c + 1/2) / (B(1/2, 1/2) 2^-(b + c))): the
    likelihood of the wins under a Beta(1/2, 1/2) mixture over that of a fair coin. It is a test martingale if the runs
    are equal, so that it ever exceeds ln 20 with probability 5 % at most.

    Raises:
        MetricError: a count is negative.

    Source: Robbins (1970), Ann. Math. Stat. 41, 1397-1409; Ville (1939).

    >>> evidence(0, 0).round(3), evidence(12, 1).round(3)
    (array(0.), array(3.912))
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
    net = difference if codes is None else np.bincount(codes, weights=difference)
    return int((net > 0).sum()), int((net < 0).sum()), int((net == 0).sum())


def anytime_bounds(only_a: int, only_b: int, same: int, *, level: float = 0.95) -> tuple[float, float]:
    """Return bounds of the difference of two proportions that hold at every look.

    The items' three outcomes (A alone, B alone, the same) have a Dirichlet(1/2, 1/2, 1/2) mixture. A difference is
    inside while the mixture's likelihood is below 1 / (1 - level) times the largest likelihood with that difference.

    Raises:
        MetricError: no item, a negative count, or a level outside (0, 1).

    Source: the method of mixtures, as in Howard et al. (2021), Ann. Stat. 49, 1055-1080.

    >>> low, high = anytime_bounds(30, 10, 60)
    >>> round(low, 3), round(high, 3)
    (0.026, 0.368)
    """
    check_level(_CALL, level)
    counts = np.array([only_a, only_b, same], np.float64)
    if (counts < 0).any() or not counts.any():
        raise MetricError(f"anytime_bounds needs counts of one item or more; got {only_a}, {only_b}, {same}")
    from scipy.special import gammaln

    n = float(counts.sum())
    mixture = float(gammaln(1.5) - 3 * gammaln(0.5) + gammaln(counts + 0.5).sum() - gammaln(n + 1.5))
    least = mixture + math.log(1 - level)
    middle = (only_a - only_b) / n
    return _search(counts, least, middle, -1.0), _search(counts, least, middle, 1.0)


def _search(counts: NDArray[np.float64], least: float, inside: float, end: float) -> float:
    """Return the difference between `inside` and `end` at which the likelihood falls below `least`."""
    if _log_likelihood(counts, end) >= least:
        return end
    outside = end
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        if _log_likelihood(counts, middle) >= least:
            inside = middle
        else:
            outside = middle
    return outside


def _log_likelihood(counts: NDArray[np.float64], difference: float) -> float:
    """Return the largest log likelihood of the three outcomes whose first two differ so much.

    The share x of B alone at the maximum solves a / (x + d) + b / x = 2 same / (1 - d - 2x), a quadratic equation.
    """
    a, b, same = counts
    d = difference
    quadratic, linear, constant = 2 * counts.sum(), 2 * d * (b + same) - (a + b) * (1 - d), -b * d * (1 - d)
    root = math.sqrt(max(0.0, linear * linear - 4 * quadratic * constant))
    x = min(max((-linear + root) / (2 * quadratic), max(0.0, -d)), (1 - d) / 2)
    shares = np.array([x + d, x, 1 - d - 2 * x])
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = np.where(counts > 0, counts * np.log(np.maximum(shares, 0.0)), 0.0)
    return float(parts.sum())
