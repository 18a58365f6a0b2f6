"""Every printed p-value on simulated data: how often it is at most 5 % where nothing is to be found, and its power."""

from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from coverage_intervals import Draws, Floats, cluster_sizes
from scipy.stats import binom, pearsonr

from tellapart.auditing.origin import Evidence, detectable
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.stats.benchmark_agreement import agree
from tellapart.stats.item_analysis import item_statistics
from tellapart.stats.multiple import holm
from tellapart.stats.paired import enough_flips, mcnemar_p, paired_by_seed, paired_difference, sign_flip_p, tiers

ALPHA = 0.05


def mcnemar_level(_rng: Draws, _datasets: int, *, items: int, differing: float) -> dict[str, float]:
    """McNemar's test, every outcome enumerated; the exact test has a coin that takes it to 5 % exactly."""

    def shares(better: float) -> tuple[float, float]:
        counts = np.arange(items + 1)
        of_counts = binom.pmf(counts, items, differing)
        rejected = tossed = 0.0
        for count, weight in zip(counts.tolist(), of_counts.tolist(), strict=True):
            only = np.arange(count + 1)
            p = mcnemar_p(only, count - only)
            at = binom.pmf(only, count, better)
            null = binom.pmf(only, count, 0.5)
            below = p <= ALPHA
            rejected += weight * float(at[below].sum())
            least = float(p[~below].min()) if (~below).any() else 1.0
            edge = ~below & (np.abs(p - least) < 1e-12)
            coin = (ALPHA - float(null[below].sum())) / max(float(null[edge].sum()), 1e-300)
            tossed += weight * float(at[below].sum() + min(1.0, coin) * at[edge].sum())
        return rejected, tossed

    alarms, (power, exact) = shares(0.5)[0], shares(0.75)
    return {"alarms": alarms, "power": power, "exact_power": exact}


def _changes(rng: Draws, clusters: int, sizes: str, values: str) -> tuple[Floats, Floats]:
    """Return both runs' sums `(cluster, 2)` of exchangeable values, and what A alone gains in each."""
    counts = cluster_sizes(rng, sizes, (clusters,))
    shared = rng.normal(size=clusters) if values == "measured" else rng.integers(-1, 2, clusters).astype(np.float64)
    change = np.rint(1024 * shared * counts)
    return np.stack([np.maximum(change, 0), np.maximum(-change, 0)], axis=1), counts


def flips_reject(sums: Floats, resamples: int = 1000, seed: int = 3) -> bool:
    """Return whether flips of clusters tell both columns of sums apart."""
    observed = np.abs(np.diff(sums.sum(axis=0)))
    return float(sign_flip_p(sums, np.array([[0, 1]]), observed, resamples=resamples, seed=seed)[0]) <= ALPHA


def sign_flip_level(rng: Draws, datasets: int, *, clusters: int, sizes: str, values: str) -> dict[str, float]:
    """Sign flips of clusters that are alike within, under the null and with A better by a third of the spread."""
    alarms = power = exact = 0
    for _ in range(datasets):
        sums, counts = _changes(rng, clusters, sizes, values)
        moved = sums + np.stack([np.rint(400 * counts), np.zeros(clusters)], axis=1)
        alarms += flips_reject(sums)
        power += flips_reject(moved)
        exact += flips_reject(moved, resamples=4096, seed=4)
    return {"alarms": alarms / datasets, "power": power / datasets, "exact_power": exact / datasets}


def counted(part: int = 1) -> Callable[[Callable[..., bool]], Callable[..., dict[str, float]]]:
    """Count the alarms of a trial that is drawn for every data set, or for one of so many."""

    def decorate(trial: Callable[..., bool]) -> Callable[..., dict[str, float]]:
        def level(rng: Draws, datasets: int, **setting: Any) -> dict[str, float]:
            trials = datasets // part
            return {"alarms": sum(bool(trial(rng, **setting)) for _ in range(trials)) / trials}

        return level

    return decorate


@counted()
def holm_level(rng: Draws, *, models: int, items: int, alike: float) -> bool:
    """Holm's family of all pairs of equally good models (`compare`, tiers and the board): any alarm is one."""
    pairs = np.array(list(combinations(range(models), 2)))
    common = rng.random((items, 1)) < 0.6
    right = np.where(rng.random((items, models)) < alike, common, rng.random((items, models)) < 0.6).astype(float)
    both = right.T @ right
    only = both.diagonal()[:, None] - both
    return bool((holm(mcnemar_p(only[pairs[:, 0], pairs[:, 1]], only[pairs[:, 1], pairs[:, 0]])) <= ALPHA).any())


@counted()
def tier_level(rng: Draws, *, models: int, clusters: int) -> bool:
    """Tiers of equally good models on clustered items: any second tier is an alarm."""
    codes = np.repeat(np.arange(clusters), 3)
    shared = rng.random((clusters, models)) < 0.5
    right = np.where(rng.random((len(codes), models)) < 0.6, shared[codes], rng.random((len(codes), models)) < 0.5)
    return len(tiers({f"m{k}": column.astype(float) for k, column in enumerate(right.T)}, codes, seed=1)) > 1


@counted()
def gate_level(rng: Draws, *, headlines: int, items: int, clusters: bool) -> bool:
    """The gate: a model as good as its base stops at any headline that falls significantly."""
    flips, pair = enough_flips(headlines), np.array([[0, 1]])
    tests, falls = [], []
    for _ in range(headlines):
        if clusters:
            sums, _ = _changes(rng, items, "1 to 8", "outcomes")
            observed = np.abs(np.diff(sums.sum(axis=0)))
            tests.append(float(sign_flip_p(sums, pair, observed, resamples=flips // 5, seed=2)[0]))
            falls.append(sums[:, 0].sum() > sums[:, 1].sum())
        else:
            base, new = rng.random((2, items)) < 0.7
            tests.append(float(mcnemar_p((base & ~new).sum(), (new & ~base).sum())))
            falls.append((base & ~new).sum() > (new & ~base).sum())
    return bool(((holm(tests) <= ALPHA) & np.array(falls)).any())


@counted()
def margin_level(rng: Draws, *, items: int, margin: float) -> bool:
    """Non-inferiority: a model that is worse by just the margin passes if the paired interval lies above it."""
    outcome = rng.random(items)
    base, new = outcome < 0.7, (outcome < 0.6 - margin) | (outcome >= 0.9)
    low = paired_difference(new, base, None, binary=True).low
    return low is not None and low > -margin


@counted()
def seeds_level(rng: Draws, *, seeds: int, test: str) -> bool:
    """The paired t-test and Wilcoxon's signed ranks over seeds."""
    p = paired_by_seed(rng.normal(size=seeds).tolist(), [0.0] * seeds)[2 if test == "t" else 3]
    return p is not None and p <= ALPHA


def correlation_level(rng: Draws, datasets: int, *, points: int) -> dict[str, float]:
    """Pearson's correlation of label frequencies and changes in performance."""
    x, y = rng.normal(size=(2, datasets, points))
    found = [pearsonr(a, b).pvalue for a, b in zip(x, y, strict=True)]
    return {"alarms": float(np.mean(np.array(found) <= ALPHA))}


@counted(part=2)
def better_level(rng: Draws, *, items: int, looks: int) -> bool:
    """Early stopping: a run that gets no better is thought to, at any of its looks."""
    first, found = (rng.random(items) < 0.5).astype(float), False
    for _ in range(looks):
        now = np.where(rng.random(items) < 0.5, first, (rng.random(items) < 0.5).astype(float))
        low = paired_difference(now, first, None, binary=True, level=1 - ALPHA / looks).low
        found |= low is not None and low > 0
    return found


@counted()
def dimensions_level(rng: Draws, *, models: int, benchmarks: int) -> bool:
    """Dimensions that benchmarks share: benchmarks that rank models independently share none."""
    return agree(rng.random((models, benchmarks))).dimensions > 0


@counted()
def suspect_level(rng: Draws, *, systems: int, right: float) -> bool:
    """Items that better systems get less often: an item that has nothing to do with the others."""
    rest = rng.random((10, systems)) < 1 / (1 + np.exp(-rng.normal(size=systems)))
    table = np.concatenate([rng.random((1, systems)) < right, rest]).astype(float)
    return bool(item_statistics(table).p[0] <= ALPHA)


@counted(part=4)
def detectable_level(rng: Draws, *, items: int, statistics: int) -> bool:
    """The audit's detectability: entries of items that come from one process are told apart."""
    names = tuple(map(str, range(statistics)))
    pairs = PairSet("s", tuple(Item(id=str(k), images=("0", "1"), texts=("x",)) for k in range(items)), Path())
    features = rng.normal(size=(items, 2, statistics))
    return detectable(Evidence("images", "file", features, names), pairs).verdict == "warn"
