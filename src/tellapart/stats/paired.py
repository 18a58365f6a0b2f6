"""Paired tests of two runs on the same items: exact McNemar, the difference with its interval, the sign-flip test.

McNemar's test takes items as independent. If clusters hold several items, use `paired_permutation`, which flips
clusters; with one 0/1 item a cluster the two are the same test.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.errors import MetricError
from tellapart.stats.bootstrap import RESAMPLES, bootstrap_means, interval_of_draws
from tellapart.stats.bootstrap_limits import draws_hold, even_sizes
from tellapart.stats.bounds import (
    FEW_ITEMS,
    degrees_of_freedom,
    differing_from_mode,
    moments_of_mean,
    unbounded_bounds,
)
from tellapart.stats.clusters import Clusters, ClusterTotals, check_level, check_values
from tellapart.stats.combined import needs_more
from tellapart.stats.interval import Interval, Reduce, name_few, without_bounds
from tellapart.stats.intervals import what_is_missing
from tellapart.stats.jackknife import jackknife
from tellapart.stats.power import binomial_tail

# Signs held at once: 8 bytes each, in at most three arrays.
_CHUNK = 1 << 20
#: Below this number of clusters that differ from the most frequent change, the bootstrap of 0/1 outcomes under-covers.
FEW_DIFFERING = 10


@dataclass(frozen=True, slots=True)
class McNemar:
    """The exact McNemar test: items that only A (only B) got right, the two-sided p, all items.

    >>> mcnemar([1] * 8 + [0] * 2, [0] * 8 + [1] * 2)
    McNemar(only_a=8, only_b=2, p=0.109375, n=10)
    """

    only_a: int
    only_b: int
    p: float
    n: int


@dataclass(frozen=True, slots=True)
class Difference:
    """Run A minus run B: the value, and its interval (None if the data cannot give one, for the `reason`).

    >>> Difference(0.1, 0.02, 0.18, 0.95, "cluster bootstrap").value
    0.1
    """

    value: float
    low: float | None
    high: float | None
    level: float
    method: str
    reason: str = ""


def mcnemar(a: Any, b: Any) -> McNemar:
    """Test whether two runs are right equally often: exact, two-sided, on the items on which they differ.

    Args:
        a: 0/1 `(item,)`, outcomes of run A.
        b: 0/1 `(item,)`, outcomes of run B on the same items in the same order.

    Raises:
        MetricError: empty, not 0/1, or of different lengths.

    Source: McNemar (1947), Psychometrika 12, 153-157; the exact form is the sign test on discordant items.

    >>> mcnemar([1, 1, 1, 1, 0], [0, 0, 0, 1, 0])
    McNemar(only_a=3, only_b=0, p=0.25, n=5)
    """
    first, second = _check_pair("mcnemar", a, b, binary=True)
    if first.ndim != 1:
        raise MetricError(f"mcnemar: expected shape (item,), got {first.shape}; test one metric at a time")
    only_a, only_b = int((first > second).sum()), int((second > first).sum())
    return McNemar(only_a, only_b, float(mcnemar_p(only_a, only_b)), len(first))


def mcnemar_p(only_a: Any, only_b: Any) -> NDArray[np.float64]:
    """Return the exact two-sided p of discordant counts, for many pairs of runs at once.

    Args:
        only_a: integers of any shape: items that run A alone got right.
        only_b: likewise of run B.

    >>> mcnemar_p([3, 5, 0], [0, 5, 0]).tolist()
    [0.25, 1.0, 1.0]
    """
    fewer, discordant = np.minimum(only_a, only_b), np.add(only_a, only_b)
    tails = 2 * binomial_tail(discordant - fewer, discordant, 0.5)
    return np.asarray(np.where(2 * fewer >= discordant - 1, 1.0, tails), dtype=np.float64)


def paired_difference(
    a: Any,
    b: Any,
    clusters: Clusters | None,
    *,
    binary: bool,
    reduce: Reduce | None = None,
    level: float = 0.95,
    seed: int = 0,
) -> Difference:
    """Return the mean of A minus the mean of B, with its paired interval.

    Both runs share each resample of clusters (10,000 are drawn). Where fewer than 10 clusters differ from the most
    frequent change (mostly 0, but A may be right and B wrong on nearly all), and for 0/1 outcomes in clusters of very
    uneven sizes, the bootstrap is too short and the method is `bonett-price`: one imagined cluster is added for A and
    one for B, so two runs that never differ still get an interval around 0. For measured values whose differences are
    skewed it is Hall's, and there is none of fewer than ten clusters, or of fewer than ten that differ from the others.

    Args:
        a: float `(item,)`, or `(item, component)` with `reduce`: values of run A.
        b: values of run B on the same items in the same order.
        clusters: one name or number an item; None if items are independent.
        binary: every value is 0 or 1.
        reduce: takes component means `(..., component)` to the metric `(...)`.

    Raises:
        MetricError: empty, not finite, of different shapes, not 0/1 with `binary`; clusters that do not fit.

    Source: Bonett & Price (2012), Br. J. Math. Stat. Psychol. 65, 94-105 (adjusted Wald), with Student's quantile for
    40 items or fewer; its extension to clusters adds two clusters of average size, and takes the linearised variance
    and Student's quantile.

    >>> a, b = np.tile([1, 1, 0, 1], 25), np.tile([1, 0, 0, 1], 25)
    >>> difference = paired_difference(a, b, None, binary=True)
    >>> difference.value, round(difference.low, 2), round(difference.high, 2), difference.method
    (0.25, 0.17, 0.34, 'bootstrap')
    """
    call = "paired_difference"
    check_level(call, level)
    first, second = _check_pair(call, a, b, binary=binary)
    if reduce is None and first.ndim == 2:
        raise MetricError(f"{call}: got values of shape {first.shape} and no reduce; pass one")
    totals = ClusterTotals.of(call, np.column_stack([first, second]), clusters)
    half = totals.sums.shape[1] // 2

    def minus(means: NDArray[np.float64]) -> NDArray[np.float64]:
        if reduce is None:
            return means[..., 0] - means[..., 1]
        return np.asarray(reduce(means[..., :half]) - reduce(means[..., half:]))

    value = float(minus(totals.means(totals.sums.sum(axis=0, keepdims=True), totals.items))[0])
    if len(totals) == 1:
        return _without_interval(value, without_bounds(level, "1 item" if totals.items == 1 else "1 cluster"))
    if reduce is None:
        change = totals.means(totals.sums[:, 0] - totals.sums[:, 1], 1)
        moments = moments_of_mean(change, totals.counts)
        differing, apart = np.count_nonzero(change), int(differing_from_mode(change / totals.counts))
        scale = 1.0 if binary else max(1.0, float(np.abs([first, second]).max()), float(np.ptp([first, second])))
        if min(differing, apart if binary else differing) < FEW_DIFFERING or (binary and not even_sizes(moments)):
            low, high = (float(end) for end in bonett_price_bounds(change, totals.counts, level, scale))
            alike = binary and apart < FEW_DIFFERING <= differing
            few = f"{apart} clusters differ from the others" if alike else f"{differing} clusters differ"
            return Difference(value, low, high, level, f"bonett-price ({few})")
        moments = replace(moments, differing=np.minimum(moments.differing, apart))
    else:
        moments = jackknife(minus, totals)
    enough = even_sizes(moments) if binary and reduce is None else draws_hold(moments)
    if enough:
        draws = minus(next(bootstrap_means([totals], RESAMPLES, seed)))
        interval = interval_of_draws(draws, totals, level)
        return Difference(value, interval.low, interval.high, level, interval.method)
    if needs_more(moments) or not np.isfinite(moments.variance):
        return _without_interval(value, without_bounds(level, what_is_missing(moments, independent=totals.independent)))
    low, high = (float(end) for end in unbounded_bounds(moments, level))
    return Difference(value, low, high, level, name_few("hall", len(totals)))


def _without_interval(value: float, interval: Interval) -> Difference:
    return Difference(value, None, None, interval.level, interval.method, interval.reason)


def bonett_price_bounds(
    change: NDArray[np.float64], counts: NDArray[np.float64], level: float, scale: float = 1.0
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the adjusted Wald bounds of a mean change of paired outcomes, or of values that differ by `scale` at most.

    Args:
        change: sums of each cluster's changes `(..., cluster)`.
        counts: of its items.
        level: confidence level.
        scale: the greatest change of an item.

    >>> low, high = bonett_price_bounds(np.zeros(50), np.ones(50), 0.95)
    >>> round(float(high), 3), float(low + high)
    (0.053, 0.0)
    """
    from scipy.special import ndtri, stdtrit

    size = counts.mean(axis=-1, keepdims=True)
    change = np.concatenate([change, scale * size, -scale * size], axis=-1)
    sizes = np.concatenate([counts, size, size], axis=-1)
    items = sizes.sum(axis=-1, keepdims=True)
    centre = change.sum(axis=-1, keepdims=True) / items
    apart = (change - centre * sizes) / items
    alone = (counts == 1).all(axis=-1)
    many = alone & (counts.shape[-1] > FEW_ITEMS)
    # In clusters, those that hold much of all items weigh more, and leave fewer degrees of freedom.
    rest = np.where(alone[..., None], 1.0, 1 - sizes / items)
    error = np.sqrt((apart**2 / rest).sum(axis=-1))
    upper = (1 + level) / 2
    freedom = degrees_of_freedom(counts / counts.sum(axis=-1, keepdims=True))
    quantile = np.where(many, ndtri(upper), stdtrit(np.maximum(freedom, 0.5), upper))
    middle = centre[..., 0]
    return np.maximum(-scale, middle - quantile * error), np.minimum(scale, middle + quantile * error)


def paired_permutation(a: Any, b: Any, clusters: Clusters | None, *, resamples: int = 10_000, seed: int = 0) -> float:
    """Return the two-sided p of the cluster sign-flip test that runs A and B are exchangeable.

    Under the null the names A and B could be swapped in any cluster. If there are at most `resamples` such swaps, all
    are made (the p is exact); else that many are drawn and p is `(1 + hits) / (1 + resamples)`. It depends on neither
    the items' order, nor the clusters' names, nor on which run is called A.

    Args:
        a: float `(item,)`, values of run A.
        b: values of run B on the same items in the same order.
        clusters: one name or number an item; None if items are independent.
        resamples: how many sign vectors are drawn.
        seed: of the draws.

    Raises:
        MetricError: empty, not finite, of different lengths; clusters that do not fit; resamples < 1.

    Source: Good (2005), Permutation, Parametric and Bootstrap Tests, ch. 3; the `1 +`: Phipson & Smyth (2010).

    >>> paired_permutation([1, 1, 1, 1, 0], [0, 0, 0, 1, 0], None)
    0.25
    >>> paired_permutation([1, 1, 1, 1, 0], [0, 0, 0, 1, 0], ["x", "x", "x", "y", "z"])
    1.0
    """
    call = "paired_permutation"
    first, second = _check_pair(call, a, b, binary=False)
    if first.ndim != 1:
        raise MetricError(f"{call}: expected shape (item,), got {first.shape}; test one metric at a time")
    totals = ClusterTotals.of(call, np.column_stack([first, second]), clusters)
    change = totals.sums[:, 0] - totals.sums[:, 1]
    # The signs are drawn, so only sizes matter, and sorted sizes do not depend on which run is A.
    sizes = np.sort(np.abs(change[change != 0]))
    against = np.column_stack([sizes, np.zeros_like(sizes)])
    observed = np.abs(change.sum(keepdims=True))
    return float(sign_flip_p(against, np.array([[0, 1]]), observed, resamples=resamples, seed=seed)[0])


def sign_flip_p(
    sums: NDArray[np.float64],
    pairs: NDArray[np.int64],
    observed: NDArray[np.float64],
    *,
    resamples: int = 10_000,
    seed: int = 0,
) -> NDArray[np.float64]:
    """Return the sign-flip p of each pair of runs, all from one set of signs.

    Args:
        sums: float64 `(cluster, run)`, integers (so that ties with the observed sum are seen).
        pairs: int `(pair, 2)`, columns of `sums`.
        observed: float64 `(pair,)`, the absolute difference of the runs' sums.
        resamples: how many sign vectors are drawn, if they are not all enumerated.
        seed: of the draws.

    Raises:
        MetricError: resamples < 1.

    >>> sign_flip_p(np.array([[2.0, 0.0], [1.0, 0.0], [3.0, 0.0]]), np.array([[0, 1]]), np.array([6.0]))
    array([0.25])
    """
    if resamples < 1:
        raise MetricError(f"paired_permutation: expected resamples >= 1, got {resamples}; 10,000 is usual")
    clusters = len(sums)
    every = clusters < 63 and 2**clusters <= resamples
    vectors = 2**clusters if every else resamples
    rng = np.random.default_rng(seed)
    first, second = pairs.T
    hits = np.zeros(len(pairs), dtype=np.int64)
    step = max(1, _CHUNK // max(1, clusters, len(pairs)))
    for start in range(0, vectors, step):
        rows = min(step, vectors - start)
        if every:
            bits = np.arange(start, start + rows)[:, None] >> np.arange(clusters) & 1
        else:
            bits = rng.integers(0, 2, size=(rows, clusters), dtype=np.int8)
        # A signed sum is a difference of signed sums: as many products as runs, not as pairs.
        signed = (bits * 2.0 - 1.0) @ sums
        hits += (np.abs(signed[:, first] - signed[:, second]) >= observed).sum(axis=0)
    return hits / vectors if every else (1 + hits) / (1 + vectors)


def enough_flips(tests: int, alpha: float = 0.05) -> int:
    """Return how many sign vectors to draw for each of several tests that are corrected together.

    The smallest p that a drawn test can give, times the tests, must lie well below alpha, or nothing could differ.

    >>> enough_flips(3), enough_flips(1000)
    (10000, 80000)
    """
    return max(10_000, math.ceil(4 * tests / alpha))


def at_floor(p: float, flips: int | None) -> bool:
    """Return whether none of so many drawn sign vectors was as extreme: p is the smallest that they can show.

    >>> at_floor(1 / 10_001, 10_000), at_floor(0.04, 10_000), at_floor(0.0, None)
    (True, False, False)
    """
    return flips is not None and p <= 1 / (1 + flips)


def write_p(p: float, *, at_most: bool = False) -> str:
    """Write a p-value with three significant digits.

    Args:
        p: from 0 to 1.
        at_most: none of the drawn sign vectors was as extreme, so that the true p is this or smaller.

    >>> write_p(0.04567), write_p(1 / 10_001, at_most=True), write_p(1.0, at_most=True)
    ('0.0457', '<= 0.0001', '1')
    """
    return f"{'<= ' if at_most and p < 1 else ''}{p:.3g}"


def _check_pair(call: str, a: Any, b: Any, *, binary: bool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Check both runs' values, and that they have one shape."""
    first, second = (check_values(call, values, binary=binary) for values in (a, b))
    if first.shape != second.shape:
        raise MetricError(
            f"{call}: got values of shape {first.shape} and {second.shape}; pass the same items in the same order"
        )
    return first, second
