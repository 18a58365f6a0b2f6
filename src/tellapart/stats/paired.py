"""Paired tests of runs on the same items: exact McNemar, the difference with its interval, the sign-flip test.

McNemar's test takes items as independent. If clusters hold several items, use `paired_permutation`, which flips
clusters; with one 0/1 item a cluster the two are the same test. `paired` chooses between them.

A fixed-sample p is right at one look, planned before. Those with `anytime` hold at all looks together: the
probability that the p is ever at most 5 %, or that the interval ever misses the difference, is at most 5 % (Ville's
inequality).

A ranking is printed as tiers: models without a significant difference from the best of the models left share a rank.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.errors import MetricError
from tellapart.stats.bootstrap import bootstrap_means, even_sizes, holds_for_measured, interval_of_draws, jackknife
from tellapart.stats.bounds import FEW_ITEMS, degrees_of_freedom, differing_from_mode, moments_of_mean, unbounded_bounds
from tellapart.stats.clusters import Clusters, ClusterTotals, check_level, check_values, is_binary
from tellapart.stats.combined import needs_more
from tellapart.stats.interval import Interval, Reduce, name_few, without_bounds
from tellapart.stats.intervals import describe_shortage
from tellapart.stats.multiple import holm
from tellapart.stats.power import binomial_tail, detectable_difference, effective_items

# Signs in memory at once: 8 bytes each, in at most three arrays.
_CHUNK = 1 << 20

#: Sign vectors that are multiplied at once.
_VECTORS = 64

#: If fewer clusters than this differ from the most frequent change, the bootstrap of 0/1 outcomes is too short.
FEW_DIFFERING = 10
#: Halvings of an interval of at most 2 in search of a bound that holds at every look: it is exact to 2 ** -29.
_HALVINGS = 30
_EXACT, _FLIPS = "exact McNemar", "cluster sign flips"


@dataclass(frozen=True, slots=True)
class Paired:
    """Two runs on the same items.

    Attributes:
        n, clusters: the items, and the groups of them that are flipped and resampled together.
        a, b: the runs' means.
        difference: b minus a, with its paired interval.
        only_a, only_b: items on which one run alone is right; of graded values, on which it is higher.
        p: two-sided.
        test: `exact McNemar` of 0/1 outcomes with one item a cluster, else `cluster sign flips`; `anytime` if it holds
            at every look.
        flips: how many sign vectors the test of sign flips draws if it cannot try them all; None of other tests.
        detectable: the smallest difference that is detected with a power of 0.8, given how often the runs disagree, on
            so many items; of clusters, on their effective number. None if there is none, of graded values, and of
            `anytime`.
    """

    n: int
    clusters: int
    a: float
    b: float
    difference: Difference
    only_a: int
    only_b: int
    p: float
    test: str
    flips: int | None
    detectable: float | None


def paired(
    a: Any, b: Any, clusters: Clusters | None, *, flips: int = 10_000, anytime: bool = False, seed: int = 0
) -> Paired:
    """Compare two runs on the same items: the difference with its interval, the discordant items, and the test.

    `a`: float `(item,)`, values of run A; `flips`: sign vectors that are drawn, as of `enough_flips`; `anytime`: p and
    interval hold at every look.

    >>> paired([1, 1, 1, 1, 0], [0, 0, 0, 1, 0], ["x", "x", "x", "y", "z"]).p
    1.0
    """
    first, second = _check_pair("paired", a, b, binary=False)
    only_a, only_b, _ = net_wins(first, second, None)
    groups = len(ClusterTotals.of("paired", first, clusters))
    binary = is_binary(first) and is_binary(second)
    if anytime:
        wins_b, wins_a, same = net_wins(second, first, clusters)
        changes, test = second - first, "anytime"
        # One run may win most clusters and the other have the higher mean: then neither is shown to be better.
        p = anytime_p(wins_b, wins_a) if (wins_b - wins_a) * changes.mean() > 0 else 1.0
        # Graded values, and clusters of several items, have a p by the signs of their differences, and no bounds.
        if groups == len(first) and np.isin(changes, (-1, 0, 1)).all():
            low, high = anytime_bounds(wins_b, wins_a, same)
            difference = Difference(float(changes.mean()), low, high, 0.95, test)
        else:
            reason = "bounds that hold at every look take one item of right or wrong a cluster"
            difference = Difference(float(changes.mean()), None, None, 0.95, "none: clusters", reason)
    else:
        difference = paired_difference(second, first, clusters, binary=binary, seed=seed)
        test = _EXACT if binary and groups == len(first) else _FLIPS
        if test == _EXACT:
            p = float(mcnemar_p(only_a, only_b))
        else:
            p = paired_permutation(first, second, clusters, resamples=flips, seed=seed)
    discordance = (only_a + only_b) / len(first)
    # If all changes are the same they have no effective number of items; the number of clusters is taken.
    effective = int(effective_items(second - first, clusters) or groups)
    return Paired(
        n=len(first),
        clusters=groups,
        a=float(first.mean()),
        b=float(second.mean()),
        difference=difference,
        only_a=only_a,
        only_b=only_b,
        p=p,
        test=test,
        flips=flips if test == _FLIPS else None,
        # The power is that of the fixed-sample test; an anytime test needs more items.
        detectable=None if anytime or not binary or not discordance else detectable_difference(effective, discordance),
    )


@dataclass(frozen=True, slots=True, eq=False)
class PairTests:
    """The tests of every two of several runs, in the order of `itertools.combinations`.

    Attributes:
        pairs: int `(pair, 2)`, columns of the values.
        differences: float64 `(pair,)`, the first run's mean minus the second's.
        p: float64 `(pair,)`, two-sided.
        test, flips: as of `Paired`.
    """

    pairs: NDArray[np.int64]
    differences: NDArray[np.float64]
    p: NDArray[np.float64]
    test: str
    flips: int | None


def pair_tests(values: Any, clusters: Clusters | None, *, flips: int | None = None, seed: int = 0) -> PairTests:
    """Test every two of several runs at once, as `paired` tests two; sign flips of all pairs share one set of signs.

    `values`: float `(item, run)`, of two runs or more; `flips`: sign vectors that are drawn; enough for all the pairs
    if None.
    """
    table = check_values("pair_tests", values)
    totals = ClusterTotals.of("pair_tests", table, clusters)
    pairs = np.array(list(combinations(range(table.shape[1]), 2)), np.int64)
    first, second = pairs.T
    sums = totals.sums.sum(axis=0)
    change = sums[first] - sums[second]
    differences = totals.means(change, totals.items)
    if totals.independent and is_binary(table):
        right = table.T @ table  # (run, run): items that both got right, exact in float64
        only = right.diagonal()[:, None] - right
        return PairTests(pairs, differences, mcnemar_p(only[first, second], only[second, first]), _EXACT, None)
    flips = flips or enough_flips(len(pairs))
    p = sign_flip_p(totals.sums, pairs, np.abs(change), resamples=flips, seed=seed)
    return PairTests(pairs, differences, p, _FLIPS, flips)


@dataclass(frozen=True, slots=True)
class McNemar:
    """The exact McNemar test: items that only A (only B) got right, the two-sided p, all items."""

    only_a: int
    only_b: int
    p: float
    n: int


@dataclass(frozen=True, slots=True)
class Difference:
    """One run's mean minus another's, and its interval (None if the data cannot give one, for the `reason`)."""

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
    """Return the exact two-sided p of discordant counts, for many pairs of runs at once."""
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

    def subtract(means: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return A minus B, of means `(..., component)` of A's components and then B's."""
        combine = reduce or (lambda of_run: of_run[..., 0])
        return np.asarray(combine(means[..., :half]) - combine(means[..., half:]))

    value = float(subtract(totals.means(totals.sums.sum(axis=0, keepdims=True), totals.items))[0])
    if len(totals) == 1:
        return _with_interval(value, without_bounds(level, "1 item" if totals.items == 1 else "1 cluster"))
    if reduce is None:
        change = totals.means(totals.sums[:, 0] - totals.sums[:, 1], 1)
        moments = moments_of_mean(change, totals.counts)
        changed, off_mode = np.count_nonzero(change), int(differing_from_mode(change / totals.counts))
        scale = 1.0 if binary else max(1.0, float(np.abs([first, second]).max()), float(np.ptp([first, second])))
        same_change = binary and off_mode < FEW_DIFFERING  # nearly all clusters change alike
        if changed < FEW_DIFFERING or same_change or (binary and not even_sizes(moments)):
            low, high = (float(end) for end in bonett_price_bounds(change, totals.counts, level, scale))
            by_mode = same_change and changed >= FEW_DIFFERING
            count = f"{off_mode} clusters differ from the others" if by_mode else f"{changed} clusters differ"
            return Difference(value, low, high, level, f"bonett-price ({count})")
        moments = replace(moments, differing=np.minimum(moments.differing, off_mode))
    else:
        moments = jackknife(subtract, totals)
    if even_sizes(moments) if binary and reduce is None else holds_for_measured(moments):
        draws = subtract(next(bootstrap_means([totals], seed)))
        return _with_interval(value, interval_of_draws(draws, totals, level))
    if needs_more(moments) or not np.isfinite(moments.variance):
        return _with_interval(value, without_bounds(level, describe_shortage(moments, independent=totals.independent)))
    low, high = (float(end) for end in unbounded_bounds(moments, level))
    return Difference(value, low, high, level, name_few("hall", len(totals)))


def _with_interval(value: float, interval: Interval) -> Difference:
    return Difference(value, interval.low, interval.high, interval.level, interval.method, interval.reason)


def bonett_price_bounds(
    change: NDArray[np.float64], counts: NDArray[np.float64], level: float, scale: float = 1.0
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the adjusted Wald bounds of a mean change of paired outcomes, or of values that differ by `scale` at most.

    `change`: sums of each cluster's changes `(..., cluster)`.

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
    residuals = (change - centre * sizes) / items
    independent = (counts == 1).all(axis=-1)
    normal = independent & (counts.shape[-1] > FEW_ITEMS)
    # As in `moments_of_mean`: the weight of the other clusters, which corrects the variance.
    others = np.where(independent[..., None], 1.0, 1 - sizes / items)
    error = np.sqrt((residuals**2 / others).sum(axis=-1))
    upper = (1 + level) / 2
    freedom = degrees_of_freedom(counts / counts.sum(axis=-1, keepdims=True))
    quantile = np.where(normal, ndtri(upper), stdtrit(np.maximum(freedom, 0.5), upper))
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
    sizes = np.sort(np.abs(change[change != 0]))[:, None]
    return float(sign_flip_p(sizes, None, np.abs(change.sum(keepdims=True)), resamples=resamples, seed=seed)[0])


def sign_flip_p(
    sums: NDArray[np.float64],
    pairs: NDArray[np.int64] | None,
    observed: NDArray[np.float64],
    *,
    resamples: int = 10_000,
    seed: int = 0,
) -> NDArray[np.float64]:
    """Return the sign-flip p of each pair of runs, all from one set of signs.

    `sums`: float64 `(cluster, run)`, integers (so that ties with the observed sum are seen); `pairs`: int `(pair, 2)`,
    columns of `sums`, or None if each column has the differences of a pair; `observed`: float64 `(pair,)`, the absolute
    difference of the runs' sums.

    >>> sign_flip_p(np.array([[2.0], [1.0], [3.0]]), None, np.array([6.0]))
    array([0.25])
    """
    if resamples < 1:
        raise MetricError(f"paired_permutation: expected resamples >= 1, got {resamples}; 10,000 is usual")
    clusters = len(sums)
    exhaustive = clusters < 63 and 2**clusters <= resamples
    vectors = 2**clusters if exhaustive else resamples
    rng = np.random.default_rng(seed)
    hits, together = np.zeros(len(observed), dtype=np.int64), sums.sum(axis=0)
    step = max(1, _CHUNK // max(1, clusters, len(observed)))
    for start in range(0, vectors, step):
        rows = min(step, vectors - start)
        if exhaustive:
            bits = np.arange(start, start + rows)[:, None] >> np.arange(clusters) & 1
        else:
            # The top bit of a byte, which is what `rng.integers(0, 2)` takes, in a third of its time.
            bits = np.frombuffer(rng.bytes(rows * clusters), np.uint8).reshape(rows, clusters) >> 7
        # A few vectors at a time: as floats they stay in the processor's cache, which is three times as fast.
        for top in range(0, rows, _VECTORS):
            # A pair's signed sum is a difference of its runs': as many products as runs, not as pairs.
            signed = 2.0 * (bits[top : top + _VECTORS].astype(np.float64) @ sums) - together
            differences = signed if pairs is None else signed[:, pairs[:, 0]] - signed[:, pairs[:, 1]]
            hits += (np.abs(differences) >= observed).sum(axis=0)
    return hits / vectors if exhaustive else (1 + hits) / (1 + vectors)


def enough_flips(tests: int, alpha: float = 0.05) -> int:
    """Return how many sign vectors to draw for each of several tests that are corrected together.

    The smallest p that a drawn test can give, times the tests, must lie well below alpha, or nothing could differ.

    >>> enough_flips(3), enough_flips(1000)
    (10000, 80000)
    """
    return max(10_000, math.ceil(4 * tests / alpha))


def at_floor(p: float, flips: int | None) -> bool:
    """Return whether none of so many drawn sign vectors was as extreme: p is the smallest that they can show."""
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


def evidence(only_a: Any, only_b: Any) -> NDArray[np.float64]:
    """Return the natural logarithm of the evidence that two runs are not right equally often: float64 (...,).

    Of b and c items that only one run got right it is ln(B(b + 1/2, c + 1/2) / (B(1/2, 1/2) 2^-(b + c))): the
    likelihood of the wins under a Beta(1/2, 1/2) mixture over that of a fair coin. It is a test martingale if the runs
    are equal, so that it ever exceeds ln 20 with probability 5 % at most.

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
    """Return a p that holds at every look: one over the evidence, at most 1."""
    return float(min(1.0, math.exp(-float(evidence(only_a, only_b)))))


def net_wins(a: Any, b: Any, clusters: Clusters | None) -> tuple[int, int, int]:
    """Return in how many clusters run A has more right, in how many run B has, and in how many neither.

    If the runs are equal in distribution, the sign of a cluster's difference is a fair coin, as an item's is. Values
    that differ by rounding alone are equal.
    """
    totals = ClusterTotals.of("net_wins", np.column_stack([a, b]), clusters)
    net = totals.sums[:, 0] - totals.sums[:, 1]
    # `ClusterTotals` rounds values to whole steps of a grid: a difference of one step an item is only rounding.
    won, lost = net > totals.counts, net < -totals.counts
    return int(won.sum()), int(lost.sum()), int((~won & ~lost).sum())


def anytime_bounds(only_a: int, only_b: int, same: int, *, level: float = 0.95) -> tuple[float, float]:
    """Return bounds of the difference of two proportions that hold at every look.

    A difference d is inside while the evidence against it is below 1 / (1 - level). That is the mean over stakes s of
    (1 + s (1 - d))^b (1 - s (1 + d))^c (1 - s d)^n for b, c and n items that A alone, B alone, and both or neither got
    right: the fortune of a gambler who bets on the next item. At d = 0 it is `evidence`, so that the bounds leave 0 out
    exactly where `anytime_p` is at most 1 - level.

    Source: Waudby-Smith and Ramdas (2024), J. R. Stat. Soc. B 86, 1-27, with the arcsine law over all stakes.

    >>> low, high = anytime_bounds(60, 20, 20)
    >>> round(low, 3), round(high, 3)
    (0.117, 0.636)
    """
    check_level("anytime_bounds", level)
    counts = (int(only_a), int(only_b), int(same))
    if min(counts) < 0 or not any(counts):
        raise MetricError(f"anytime_bounds needs counts of one item or more; got {only_a}, {only_b}, {same}")
    middle = (only_a - only_b) / sum(counts)
    return _find_bound(counts, level, middle, -1.0), _find_bound(counts, level, middle, 1.0)


def _find_bound(counts: tuple[int, int, int], level: float, inside: float, outside: float) -> float:
    """Return the first difference on the way from `inside` to `outside` with enough evidence against it."""
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        if abs(middle) == 1:  # every item is won by the same run
            break
        if _evidence_against(counts, middle) < -math.log(1 - level):
            inside = middle
        else:
            outside = middle
    return outside


def _evidence_against(counts: tuple[int, int, int], difference: float) -> float:
    """Return the logarithm of the evidence against a difference in (-1, 1)."""
    from scipy.special import logsumexp

    # The fortune is a polynomial of the stake, of degree `sum(counts)`: its mean over the arcsine law is exactly that
    # over more than half as many of Chebyshev's nodes.
    number = sum(counts) // 2 + 1
    nodes = np.cos(math.pi * (np.arange(number) + 0.5) / number)
    least, most = -1 / (1 - difference), 1 / (1 + difference)
    stakes = (least + most) / 2 + (most - least) / 2 * nodes
    steps = (1 - difference, -1 - difference, -difference)
    log_fortune = sum(k * np.log1p(stakes * step) for k, step in zip(counts, steps, strict=True) if k)
    return float(logsumexp(log_fortune) - math.log(number))


def _check_pair(call: str, a: Any, b: Any, *, binary: bool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Check both runs' values, and that they have one shape."""
    first, second = (check_values(call, values, binary=binary) for values in (a, b))
    if first.shape != second.shape:
        raise MetricError(f"{call}: got shapes {first.shape} and {second.shape}; pass the same items in the same order")
    return first, second


def better_beyond_doubt(now: Any, before: Any, clusters: Clusters | None, looks: int = 1) -> bool:
    """Return whether the paired interval of the difference of 0/1 outcomes `(item,)`, now less before, lies above 0.

    Its level is 95 % for one look. Of several each gets an equal part of the 5 % (Bonferroni), so that in a run that
    gets no better at all of them together, one in twenty at most mistakes noise for progress.
    """
    low = paired_difference(now, before, clusters, binary=True, level=1 - 0.05 / looks).low
    return low is not None and low > 0


def paired_by_seed(
    a: Sequence[float], b: Sequence[float]
) -> tuple[float | None, float | None, float | None, float | None]:
    """Return Student's 95 % interval of the mean of a - b, the paired t-test's p, and Wilcoxon's.

    Each value is a number of one run, such as a training under another seed; `a[k]` and `b[k]` belong together.
    """
    from scipy.stats import ttest_rel

    first, second = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if len(first) < 2:
        return None, None, None, None
    ranks = _signed_ranks_p(first - second)
    if np.ptp(first - second) < 1e-12:
        return None, None, None, ranks
    test = ttest_rel(first, second)
    low, high = test.confidence_interval(0.95)
    return float(low), float(high), float(test.pvalue), ranks


def _signed_ranks_p(changes: NDArray[np.float64]) -> float:
    """Return the exact p of Wilcoxon's signed ranks; scipy only approximates it with ties, or overlooks them (1.11)."""
    from scipy.stats import rankdata

    moved = changes.round(12)  # so that 0.3 - 0.2 and 0.2 - 0.1 share a rank
    moved = moved[moved != 0]
    doubled = (2 * rankdata(np.abs(moved))).astype(int)  # a shared rank may be a half
    shares = np.ones(1)  # index: sum of the doubled ranks of positive changes -> share of all choices of signs
    for rank in doubled:
        shares = np.convolve(shares, np.bincount([0, rank]) / 2)
    positive = int(doubled[moved > 0].sum())
    return float(min(1.0, 2 * shares[: positive + 1].sum(), 2 * shares[positive:].sum()))


@dataclass(frozen=True, slots=True)
class Tier:
    """Models with no significant difference from the best of them; all models of later tiers have one.

    Attributes:
        rank: 1 for the best tier; a tier after k models has rank k + 1.
        names: best mean first, equal means by name.
        means: their means, in the same order.
    """

    rank: int
    names: tuple[str, ...]
    means: tuple[float, ...]


def tiers(outcomes: Mapping[str, Any], clusters: Clusters | None, *, alpha: float = 0.05, seed: int = 0) -> list[Tier]:
    """Rank models by mean (higher is better), in tiers that differ significantly.

    The first tier is the best model with every model that does not differ from it at `alpha`, by Holm's correction over
    all pairs of models; the next is the best of the models left with every one of them that does not differ from it.
    A model may thus be in a better tier than one with a higher mean: the two of a pair with many discordant items are
    harder to distinguish. The test is exact McNemar for 0/1 outcomes with one item a cluster, else the cluster
    sign-flip test. The order of models and items and the names of clusters do not matter. A tier does not prove
    equality: these items do not distinguish its members from its best.

    Args:
        outcomes: model name -> float `(item,)`, all on the same items in the same order.
        clusters: one name or number an item; None if items are independent.
        alpha: family-wise error over all pairs.

    Raises:
        MetricError: no models, or outcomes that are empty, not finite or of different lengths; clusters that do
            not fit; alpha outside (0, 1).

    >>> good, fair, poor = np.tile([1] * 9 + [0], 10), np.tile([1] * 8 + [0] * 2, 10), np.tile([1] + [0] * 9, 10)
    >>> [(tier.rank, tier.names) for tier in tiers({"poor": poor, "fair": fair, "good": good}, None)]
    [(1, ('good',)), (2, ('fair',)), (3, ('poor',))]
    """
    check_level("tiers", alpha)
    names = sorted(outcomes)
    table = _stack_outcomes(names, outcomes)
    totals = ClusterTotals.of("tiers", table, clusters)
    means = totals.means(totals.sums.sum(axis=0), totals.items)
    distinct = np.zeros((len(names), len(names)), dtype=np.bool_)
    if len(names) > 1:
        tests = pair_tests(table, clusters, flips=enough_flips(math.comb(len(names), 2), alpha), seed=seed)
        first, second = tests.pairs.T
        distinct[first, second] = distinct[second, first] = holm(tests.p) <= alpha
    left = sorted(range(len(names)), key=lambda model: (-means[model], names[model]))
    groups: list[list[int]] = []
    while left:
        groups.append([model for model in left if not distinct[left[0], model]])
        left = [model for model in left if distinct[left[0], model]]
    ranks = accumulate(map(len, groups), initial=1)
    return [
        Tier(rank, tuple(names[m] for m in group), tuple(float(means[m]) for m in group))
        for rank, group in zip(ranks, groups, strict=False)
    ]


def _stack_outcomes(names: list[str], outcomes: Mapping[str, Any]) -> NDArray[np.float64]:
    """Return outcomes as `(item, model)`."""
    if not names:
        raise MetricError("tiers: got no models; pass a mapping from a model's name to its outcomes")
    columns = [check_values(f"tiers: model {name!r}", outcomes[name]) for name in names]
    for name, column in zip(names, columns, strict=True):
        if column.ndim != 1 or column.shape != columns[0].shape:
            raise MetricError(
                f"tiers: model {name!r} has outcomes of shape {column.shape} and {names[0]!r} of "
                f"{columns[0].shape}; rank models on the same items"
            )
    return np.column_stack(columns)
