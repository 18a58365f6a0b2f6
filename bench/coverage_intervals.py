"""Simulations: each function draws data sets of one setting, and takes the intervals that would be printed of them."""

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau, pearsonr, rankdata, spearmanr

from tellapart.diagnosis.gap import difference_bounds
from tellapart.diagnosis.risk import area_bounds, draw_many, risk_curve
from tellapart.metrics.captions import bleu
from tellapart.metrics.per_item import PerItem
from tellapart.metrics.ratings import kendall_tau_b, pairwise_accuracy, pearson_r, roc_auc, spearman_rho
from tellapart.stats.agreement import alpha_with_interval, kappa_with_interval
from tellapart.stats.bootstrap import (
    RESAMPLES,
    bootstrap_holds,
    bootstrap_holds_for_groups,
    even_sizes,
    expanded_percentiles,
    holds_for_measured,
    yield_times,
)
from tellapart.stats.bounds import differing_from_mode, independent_bounds, moments_of_mean, share_bounds
from tellapart.stats.combined import MeanOfGroups, RatioOfCounts, SmallestMean, graded_bounds, macro_bounds
from tellapart.stats.intervals import interval_for
from tellapart.stats.item_analysis import discrimination_bounds, reliability
from tellapart.stats.paired import FEW_DIFFERING, bonett_price_bounds, paired_by_seed, paired_difference
from tellapart.tasks import retrieval

Floats = NDArray[np.float64]
Draws = np.random.Generator
Ends = tuple[Floats, Floats]
#: An estimate, and its interval or both ends.
Estimated = tuple[float | None, Any]


class Values(NamedTuple):
    """Measured values: the bounds that an item can have, None without; the true mean; and how a shape is drawn."""

    bounds: tuple[float, float] | None
    truth: float
    draw: Callable[[Draws, tuple[int, ...]], Floats]


SOFT = np.array([0.0, 0.3, 0.6, 0.9, 1.0])


def _soft(*shares: float) -> Values:
    """Values of soft accuracy with such shares."""

    def draw(rng: Draws, shape: tuple[int, ...]) -> Floats:
        return SOFT[np.searchsorted(np.cumsum(shares)[:-1], rng.random(shape), side="right")]

    return Values((0.0, 1.0), float(SOFT @ shares), draw)


def _cider(rng: Draws, shape: tuple[int, ...]) -> Floats:
    return np.minimum((rng.random(shape) < 0.7) * rng.gamma(0.8, 1.0, shape), 10.0)


MEASURED = {
    "normal": Values(None, 0.0, lambda rng, shape: rng.normal(size=shape)),
    "long tails": Values(None, 0.0, lambda rng, shape: rng.standard_t(4, size=shape)),
    "lognormal": Values(None, float(np.exp(0.5)), lambda rng, shape: np.exp(rng.normal(size=shape))),
    "CIDEr": Values((0.0, 10.0), 0.7 * 0.8, _cider),
    "soft accuracy": _soft(0.5, 0.1, 0.1, 0.1, 0.2),
    "soft accuracy, rarely right": _soft(0.94, 0.01, 0.01, 0.01, 0.03),
    "soft accuracy, nearly perfect": _soft(0.02, 0.02, 0.02, 0.04, 0.9),
    "soft accuracy, right or wrong": _soft(0.12, 0.0, 0.0, 0.0, 0.88),
    "ROUGE-L": Values((0.0, 1.0), 2 / 7, lambda rng, shape: rng.beta(2.0, 5.0, shape)),
    "rank correlation": Values((-1.0, 1.0), 0.2, lambda rng, shape: 2 * rng.beta(1.2, 0.8, shape) - 1),
}


def cluster_sizes(rng: Draws, kind: str, shape: tuple[int, ...]) -> Floats:
    """Return items of each cluster: a number, `1 to 8`, or Pareto with exponent 1.5, of 300 items at most."""
    if kind == "1 to 8":
        return rng.integers(1, 9, shape).astype(np.float64)
    if kind == "Pareto":
        return np.minimum(np.floor((1 - rng.random(shape)) ** (-1 / 1.5)), 300.0)
    return np.full(shape, float(kind))


def right_in_clusters(rng: Draws, counts: Floats, share: float, correlation: float) -> Floats:
    """Return how many items of each cluster are right, beta-binomial with a correlation of the items in a cluster."""
    inside: Floats | float = share
    if correlation:
        odds = (1 - correlation) / correlation
        inside = rng.beta(share * odds, (1 - share) * odds, counts.shape)
    return rng.binomial(counts.astype(np.int64), inside).astype(np.float64)


def measured_in_clusters(rng: Draws, name: str, counts: Floats, correlation: float) -> Floats:
    """Return sums of measured values of each cluster, some of which repeat the first one, for the correlation."""
    shared = MEASURED[name].draw(rng, counts.shape)
    repeated = 1 + rng.binomial(counts.astype(np.int64) - 1, np.sqrt(correlation))
    others = (counts - repeated).astype(np.int64)
    fresh = MEASURED[name].draw(rng, (int(others.sum()),))
    owner = np.repeat(np.arange(others.size), others.ravel())
    return shared * repeated + np.bincount(owner, fresh, minlength=others.size).reshape(counts.shape)


def caption_counts(rng: Draws, images: int) -> Floats:
    """Return rows like those of captions that BLEU is made of, with the columns of `BLEU_STATISTICS`."""
    written = rng.integers(7, 15, images)
    good = rng.beta(2.0, 2.0, images)
    found, rows = written.astype(np.int64), []
    for order in range(4):
        possible = np.maximum(written - order, 0)
        found = rng.binomial(np.minimum(found, possible), good ** (0.6 + 0.25 * order))
        rows.append((found, possible))
    reference = written + rng.integers(-2, 4, images)
    columns = [written, reference, *(one for _, one in rows), *(one for one, _ in rows)]
    return np.stack(columns, axis=1).astype(np.float64)


#: Kinds, tests, and the grids of their settings.
CATALOGUE: dict[str, Any] = tomllib.loads(Path(__file__).with_name("coverage.toml").read_text(encoding="utf-8"))
#: Name -> the items of each group.
GROUPS: dict[str, list[int]] = CATALOGUE["groups"]

LEVEL = 0.95
# Data sets whose resamples are held at once: 10,000 float64 each.
_AT_ONCE = 200


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Intervals of simulated data sets, each `(data set,)`; NaN where none is printed."""

    estimate: Floats
    low: Floats
    high: Floats
    truth: float


def join(parts: Sequence[Found]) -> Found:
    """Return the intervals of several parts of one setting."""
    columns = (np.concatenate([getattr(part, name) for part in parts]) for name in ("estimate", "low", "high"))
    return Found(*columns, parts[0].truth)


@lru_cache(maxsize=1)
def _drawn(clusters: int) -> Floats:
    return np.concatenate([*yield_times(clusters, RESAMPLES, 0)])


def resampled(sums: Floats, counts: Floats) -> Ends:
    """Return `cluster_bootstrap`'s bounds of ratios of sums to counts, both `(data set, cluster)`, in its order."""
    order = np.lexsort((sums, counts))
    sums, counts = np.take_along_axis(sums, order, axis=1), np.take_along_axis(counts, order, axis=1)
    times, ends = _drawn(sums.shape[1]), []
    even = bool((counts == counts[:1, :1]).all())
    for at in range(0, len(sums), _AT_ONCE):
        part = slice(at, at + _AT_ONCE)
        drawn = times @ sums[part].T
        drawn /= sums.shape[1] * counts[0, 0] if even else times @ counts[part].T
        ends.append(np.stack(expanded_percentiles(drawn, sums.shape[1], LEVEL)))
    low, high = np.concatenate(ends, axis=1) if ends else np.empty((2, 0))
    return low, high


def _where_drawn(drawn: np.ndarray, closed: Ends, sums: Floats, counts: Floats) -> Ends:
    low, high = np.array(closed, np.float64)
    if drawn.any():
        low[drawn], high[drawn] = resampled(sums[drawn], counts[drawn])
    return low, high


# -- shares


def independent_share(rng: Draws, datasets: int, *, items: int, share: float) -> Found:
    """Wilson's interval of 0/1 values, one a cluster."""
    right = rng.binomial(items, share, datasets).astype(np.float64)
    return Found(right / items, *independent_bounds(right, items, LEVEL), share)


def share_intervals(sums: Floats, counts: Floats) -> Ends:
    """Return `interval_for`'s bounds of 0/1 values in clusters, `(data set, cluster)`."""
    moments = moments_of_mean(sums, counts, outcomes=True)
    return _where_drawn(bootstrap_holds(moments), share_bounds(moments, LEVEL), sums, counts)


def _share_in_clusters(intervals: Callable[[Floats, Floats], Ends]) -> Callable[..., Found]:
    """Simulate 0/1 values in clusters, and take intervals of their sums and counts, `(data set, cluster)`."""

    def simulate(rng: Draws, datasets: int, *, clusters: int, sizes: str, share: float, correlation: float) -> Found:
        counts = cluster_sizes(rng, sizes, (datasets, clusters))
        sums = right_in_clusters(rng, counts, share, correlation)
        return Found(sums.sum(axis=1) / counts.sum(axis=1), *intervals(sums, counts), share)

    return simulate


clustered_share = _share_in_clusters(share_intervals)
#: Without resampling: `share_in_clusters`, of validation and of weak subsets.
undrawn_share = _share_in_clusters(lambda *table: share_bounds(moments_of_mean(*table, outcomes=True), LEVEL))


# -- measured values


def measured_mean(rng: Draws, datasets: int, *, clusters: int, sizes: str, values: str, correlation: float) -> Found:
    """Measured values: soft accuracy, overlap, captions' metrics, rank correlations, deviations."""
    bounds, truth, _ = MEASURED[values]
    counts = cluster_sizes(rng, sizes, (datasets, clusters))
    sums = measured_in_clusters(rng, values, counts, correlation)
    moments = moments_of_mean(sums, counts)
    ends = _where_drawn(holds_for_measured(moments), graded_bounds(moments, LEVEL, bounds), sums, counts)
    return Found(moments.estimate, *ends, truth)


# -- means of groups


def _items_alone(groups: Sequence[int]) -> Floats:
    """Return how many items of each group are in each cluster, `(cluster, group)`: each item is a cluster."""
    return np.repeat(np.eye(len(groups)), groups, axis=0)


def _grouped(rng: Draws, datasets: int, groups: Sequence[int], shares: Floats, correlation: float) -> Ends:
    """Return sums and counts `(data set, cluster, group)`: items of a group alone, or a cluster across all groups."""
    counts = _items_alone(groups)
    if correlation:
        counts = (np.arange(max(groups))[:, None] < np.array(groups)).astype(np.float64)
        common = rng.random((datasets, len(counts), 1)) < np.sqrt(correlation)
        drawn = np.where(common, rng.random((datasets, len(counts), 1)), rng.random((datasets, *counts.shape)))
    else:
        drawn = rng.random((datasets, *counts.shape))
    sums = (drawn < shares) * counts
    return sums, np.broadcast_to(counts, sums.shape)


def in_parts(simulate: Callable[..., Found]) -> Callable[..., Found]:
    """Simulate a hundred data sets at once, which fit the processor's memory."""

    def all_parts(rng: Draws, datasets: int, **setting: Any) -> Found:
        return join([simulate(rng, min(100, datasets - at), **setting) for at in range(0, datasets, 100)])

    return all_parts


@in_parts
def macro_of_shares(rng: Draws, datasets: int, *, groups: str, share: str, correlation: float) -> Found:
    """The mean of groups' shares, and the mean recall of classes."""
    count = len(GROUPS[groups])
    shares = np.linspace(*map(float, share.split(" to ")), count) if " to " in share else np.full(count, float(share))
    sums, counts = _grouped(rng, datasets, GROUPS[groups], shares, correlation)
    estimate = (sums.sum(axis=1) / counts.sum(axis=1)).mean(axis=1)
    low, high = macro_bounds(sums, counts, LEVEL, binary=True)
    drawn = bootstrap_holds_for_groups(sums, counts)
    low, high = np.array((low, high))
    if counts.shape[1] == 1:  # all groups in one cluster: none is printed
        low[:] = high[:] = np.nan
    reduce = MeanOfGroups(count)
    for row in np.flatnonzero(drawn):
        table = np.concatenate([sums[row], counts[row]], axis=1)
        means = _drawn(len(table)) @ table[np.lexsort((*table.T[::-1],))] / len(table)
        low[row], high[row] = expanded_percentiles(reduce(means), len(table), LEVEL)
    return Found(estimate, low, high, float(shares.mean()))


@in_parts
def macro_of_means(rng: Draws, datasets: int, *, groups: str, values: str) -> Found:
    """The mean of groups' means of measured values."""
    bounds, truth, _ = MEASURED[values]
    counts = _items_alone(GROUPS[groups])
    sums = MEASURED[values].draw(rng, (datasets, len(counts), 1)) * counts
    counts = np.broadcast_to(counts, sums.shape)
    estimate = (sums.sum(axis=1) / counts.sum(axis=1)).mean(axis=1)
    return Found(estimate, *macro_bounds(sums, counts, LEVEL, binary=False, bounds=bounds), truth)


# -- ratios, the smallest of two, and other statistics of means: data set after data set, by `interval_for`


def one_by_one(truth: Callable[..., float]) -> Callable[[Callable[..., Estimated]], Callable[..., Found]]:
    """Simulate data sets by a function that draws one."""

    def decorate(draw: Callable[..., Estimated]) -> Callable[..., Found]:
        def simulate(rng: Draws, datasets: int, **setting: Any) -> Found:
            true, rows = truth(rng, **setting), []
            for _ in range(datasets):
                estimate, found = draw(rng, **setting)
                rows.append((estimate, *(found if isinstance(found, tuple) else (found.low, found.high))))
            return Found(*np.array(rows, np.float64).T, true)

        return simulate

    return decorate


# Of a question to be answered yes the share right is `right`; so is precision's, as both answers are as frequent.
@one_by_one(lambda _, *, right, **__: right)
def ratio_of_counts(rng: Draws, *, of: str, clusters: int, sizes: str, right: float, correlation: float) -> Estimated:
    """Precision, recall and F1 of yes; half of the questions are to be answered so."""
    ratio = {"precision": RatioOfCounts(1), "recall": RatioOfCounts(2), "F1": RatioOfCounts(1, 2)}[of]
    counts = cluster_sizes(rng, sizes, (clusters,)).astype(np.int64)
    hits = right_in_clusters(rng, counts.astype(np.float64), right, correlation).astype(np.int64)
    correct = np.concatenate([np.arange(n) < k for n, k in zip(counts, hits, strict=True)])
    is_yes = rng.random(len(correct)) < 0.5
    answered = np.where(correct, is_yes, ~is_yes)
    table = np.stack([answered & is_yes, answered, is_yes], axis=1).astype(np.float64)
    codes = np.repeat(np.arange(clusters), counts)
    return float(ratio(table.mean(axis=0))), interval_for(table, codes, binary=True, reduce=ratio)


@one_by_one(lambda _, *, first, second, **__: min(first, second))
def smallest_of_two(rng: Draws, *, items: int, first: float, second: float) -> Estimated:
    """The smaller of captions accepted and foils rejected."""
    table = (rng.random((items, 2)) < (first, second)).astype(np.float64)
    return float(table.mean(axis=0).min()), interval_for(table, None, binary=True, reduce=SmallestMean())


def _true_six(rng: Draws, *, recalls: tuple[float, float, float], **_: Any) -> float:
    # The fractional part of hard + u / 2 is not uniform: the truth is that of a large draw.
    many = np.mod(rng.random((400_000, 1)) * 0.5 + rng.beta(2, 2, (400_000, 1)), 1.0)
    return float(np.mean([(many < recall).mean() for recall in recalls]))


@one_by_one(_true_six)
def mean_of_six(rng: Draws, *, images: int, recalls: tuple[float, float, float]) -> Estimated:
    """Retrieval's mean of six recalls: of images, and of the five captions of each; deeper recalls hold shallower."""
    hard = rng.beta(2, 2, (images, 1))
    passed = np.mod(rng.random((images, 6)) * 0.5 + hard, 1.0)
    found = [np.stack([row < recall for recall in recalls], axis=-1) for row in (passed[:, :1], passed[:, 1:])]
    table = np.column_stack([found[0][:, 0], found[1].sum(axis=1), np.full(images, 5.0)]).astype(np.float64)
    interval = interval_for(table, None, binary=False, reduce=retrieval.mean_of_six, bounds=(0.0, 1.0))
    return float(retrieval.mean_of_six(table.mean(axis=0))), interval


@lru_cache(maxsize=4)
def _true_bleu(order: int) -> float:
    return float(bleu(caption_counts(np.random.default_rng(99), 400_000).sum(axis=0))[order - 1])


@one_by_one(lambda _, *, order, **__: _true_bleu(order))
def corpus_bleu(rng: Draws, *, images: int, order: int) -> Estimated:
    """BLEU of a set of captions."""
    rows = caption_counts(rng, images)

    def reduce(means: Floats) -> Floats:
        return np.asarray(bleu(means * images)[..., order - 1])

    return float(reduce(rows.mean(axis=0))), interval_for(rows, None, binary=False, reduce=reduce, bounds=(0.0, 1.0))


# -- agreement


def _agreement(of: Callable[..., Any]) -> Callable[..., Found]:
    """Simulate a statistic of two people's labels; of the same marginals alpha is kappa in a large sample."""

    @one_by_one(lambda _, *, kappa, **__: kappa)
    def simulate(rng: Draws, *, units: int, shares: tuple[float, ...], kappa: float) -> Estimated:
        marginals = np.array(shares)
        # Shares of each pair of labels with these marginals and this kappa.
        table = kappa * np.diag(marginals) + (1 - kappa) * np.outer(marginals, marginals)
        pairs = np.searchsorted(table.ravel().cumsum()[:-1], rng.random(units), side="right")
        found = of([[str(label) for label in divmod(pair, len(shares))] for pair in pairs.tolist()])
        return found.value, found.interval

    return simulate


kappas = _agreement(lambda rows: kappa_with_interval(*map(list, zip(*rows, strict=True))))
alphas = _agreement(alpha_with_interval)


# -- agreement with people's ratings: prompts of four images each (TIFA has five, GenAI-Bench six)

#: Images of one prompt.
IMAGES = 4
#: Metric -> its values by image.
AGREEMENT: dict[str, Callable[[Floats, Floats], Floats]] = {
    "pairwise_accuracy": lambda scores, ratings: pairwise_accuracy(scores, ratings).values,
    "roc_auc": lambda scores, labels: roc_auc(scores, labels).strict,
    **{function.__name__: function for function in (kendall_tau_b, spearman_rho, pearson_r)},
}


def draw_ratings(rng: Draws, prompts: int, noise: float, *, labels: bool) -> Ends:
    """Draw a model's scores and people's ratings (1 to 5, or labels 0 and 1), four images after another of a prompt."""
    better = np.repeat(rng.normal(size=prompts), IMAGES) + rng.normal(size=prompts * IMAGES)
    ratings = (better > 0).astype(np.float64) if labels else np.clip(np.round(1.2 * better), -2, 2) + 3
    return better + noise * rng.normal(size=len(better)), ratings


@lru_cache
def true_agreement(metric: str, noise: float) -> float:
    """Return a metric of endlessly many prompts: images of two prompts are independent."""
    scores, ratings = draw_ratings(np.random.default_rng(97), 400_000, noise, labels=metric == "roc_auc")
    if metric in (correlations := {"kendall_tau_b": kendalltau, "spearman_rho": spearmanr, "pearson_r": pearsonr}):
        return float(correlations[metric](scores, ratings).statistic)
    if metric == "roc_auc":
        true = ratings == 1
        return float((rankdata(scores)[true].mean() - (true.sum() + 1) / 2) / (~true).sum())
    half = len(scores) // 2
    apart, people = scores[:half] - scores[half:], ratings[:half] - ratings[half:]
    equal, ordered = np.sort(np.abs(apart[people == 0])), np.sort((apart * np.sign(people))[people != 0])
    right = np.arange(1, len(equal) + 1) + len(ordered) - np.searchsorted(ordered, equal, "right")
    return float(max(right.max(), (ordered > 0).sum()) / half)


@one_by_one(lambda _, *, metric, noise, **__: true_agreement(metric, noise))
def agreement_with_people(rng: Draws, *, metric: str, prompts: int, noise: float) -> Estimated:
    """One of the metrics of the task `ratings`, its interval over prompts."""
    scores, ratings = draw_ratings(rng, prompts, noise, labels=metric == "roc_auc")
    values, codes = AGREEMENT[metric](scores, ratings), np.repeat(np.arange(prompts), IMAGES)
    item = PerItem(name=metric, strict=values)
    return float(values.mean()), interval_for(values, codes, binary=False, reduce=item.reduce, bounds=item.bounds)


# -- items, over systems


def _abilities(rng: Draws, systems: int, spread: float, of_family: int = 1) -> Floats:
    """Return outcomes `(item, system)` of 20 Rasch items, the first four of rising difficulty; families are alike."""
    hard = np.concatenate([[0.0, 1.0, 2.0, 3.0], np.linspace(-2, 2, 16)])
    ability = rng.normal(size=systems)
    if of_family > 1:
        ability = np.sqrt(0.4) * ability + np.sqrt(0.6) * rng.normal(size=systems)[np.arange(systems) // of_family]
    chance = 1 / (1 + np.exp(hard[:, None] - spread * ability))
    return (rng.random(chance.shape) < chance).astype(np.float64)


@lru_cache(maxsize=8)
def _true_items(spread: float) -> tuple[Floats, float]:
    many = _abilities(np.random.default_rng(98), 200_000, spread)
    total = many.sum(axis=0)
    alone = np.array([np.corrcoef(row, total - row)[0, 1] for row in many])
    items = len(many)
    return alone, float(items / (items - 1) * (1 - many.var(axis=1).sum() / total.var()))


@one_by_one(lambda _, *, spread, item, **__: float(_true_items(spread)[0][item]))
def item_discrimination(rng: Draws, *, systems: int, spread: float, item: int, of_family: int = 1) -> Estimated:
    """An item's discrimination over systems; 0 is of middling difficulty, 3 the hardest."""
    outcomes, family = _abilities(rng, systems, spread, of_family), np.arange(systems) // of_family
    estimate, low, high = (column[item] for column in discrimination_bounds(outcomes, family))
    return estimate, (low, high)


@one_by_one(lambda _, *, spread, **__: _true_items(spread)[1])
def item_reliability(rng: Draws, *, systems: int, spread: float, of_family: int = 1) -> Estimated:
    """Cronbach's alpha over systems."""
    found = reliability(_abilities(rng, systems, spread, of_family), np.arange(systems) // of_family)
    return found.alpha, found


# -- two runs


def difference_of_shares(
    rng: Draws, datasets: int, *, clusters: int, sizes: str, only: tuple[float, float], correlation: float
) -> Found:
    """The paired difference of two runs' 0/1 values; of clusters of `1 of 2` the second item is always the same."""
    counts = cluster_sizes(rng, "1" if sizes == "1 of 2" else sizes, (datasets, clusters))
    inside: Any = np.array([*only, 1 - sum(only)])
    if correlation:
        inside = rng.gamma(inside * (1 - correlation) / correlation, size=(datasets, clusters, 3)) + 1e-300
        inside = inside / inside.sum(axis=-1, keepdims=True)
    drawn = rng.multinomial(counts.astype(np.int64), inside)
    change = (drawn[..., 0] - drawn[..., 1]).astype(np.float64)
    same = 1 if sizes == "1 of 2" else 0
    counts += same
    moments = moments_of_mean(change, counts)
    enough = (differing_from_mode(change / counts) >= FEW_DIFFERING) & even_sizes(moments)
    low, high = _where_drawn(enough, bonett_price_bounds(change, counts, LEVEL), change, counts)
    return Found(moments.estimate, low, high, (only[0] - only[1]) / (1 + same))


@one_by_one(lambda *_, **__: 0.0)
def difference_of_means(rng: Draws, *, items: int, values: str, same: float) -> Estimated:
    """The paired difference of two runs' measured values, of which a part is the same in both."""
    first, second = MEASURED[values].draw(rng, (items,)), MEASURED[values].draw(rng, (items,))
    second = np.where(rng.random(items) < same, first, second)
    found = paired_difference(first, second, None, binary=False)
    return found.value, found


@one_by_one(lambda *_, **__: 0.0)
def difference_in_clusters(rng: Draws, *, clusters: int, sizes: str, values: str, same: float) -> Estimated:
    """The paired difference of measured values in clusters, in a part of which both runs have the same values."""
    codes = np.repeat(np.arange(clusters), cluster_sizes(rng, sizes, (clusters,)).astype(np.int64))
    runs = []
    for _ in range(2):  # some items repeat their cluster's first value, for a correlation of 0.6
        first, repeats = MEASURED[values].draw(rng, (clusters,)), rng.random(len(codes)) < np.sqrt(0.6)
        runs.append(np.where(repeats, first[codes], MEASURED[values].draw(rng, (len(codes),))))
    runs[1] = np.where((rng.random(clusters) < same)[codes], *runs)
    found = paired_difference(*runs, codes, binary=False)
    return found.value, found


def gaps(rng: Draws, datasets: int, *, inside: int, outside: int, shares: tuple[float, float]) -> Found:
    """The gap between two benchmarks' shares, from their own intervals."""
    parts = [
        independent_share(rng, datasets, items=items, share=share)
        for items, share in zip((inside, outside), shares, strict=True)
    ]
    low, high = difference_bounds(*((one.estimate, one.low, one.high) for one in parts))
    return Found(parts[0].estimate - parts[1].estimate, low, high, shares[0] - shares[1])


def hidden_share(rng: Draws, datasets: int, *, clusters: int, sizes: str, share: float, correlation: float) -> Found:
    """A hidden benchmark's rounded share: each cluster is one trial, or fewer where their sizes differ much."""
    counts = cluster_sizes(rng, sizes, (datasets, clusters))
    right = right_in_clusters(rng, counts, share, correlation).sum(axis=1)
    value = np.round(right / counts.sum(axis=1), 2)
    worth = counts.sum(axis=1) ** 2 / (counts**2).sum(axis=1)
    return Found(value, *independent_bounds(np.multiply(value, worth), worth, 0.95), share)


@one_by_one(lambda *_, **__: 0.0)
def over_seeds(rng: Draws, *, seeds: int) -> Estimated:
    """Student's interval of the mean difference over seeds."""
    row = rng.normal(size=seeds)
    return float(row.mean()), paired_by_seed(row.tolist(), [0.0] * seeds)[:2]


# -- risk over coverage


def _draw_decisions(rng: Draws, clusters: int, size: int, rate: float) -> Ends:
    """Return margins that are alike in a cluster, and errors, which small margins have more often."""
    margins = 0.5 * np.repeat(rng.normal(size=clusters), size) + 0.87 * rng.normal(size=clusters * size)
    margins = margins.round(2)
    wrong = rng.random(len(margins)) < 1 / (1 + np.exp(1.2 * margins) * (1 - rate) / rate)
    return margins, wrong.astype(np.float64)


@lru_cache(maxsize=16)
def _true_area(clusters: int, size: int, rate: float) -> float:
    rng = np.random.default_rng(97)
    return float(np.mean([risk_curve(*_draw_decisions(rng, clusters, size, rate)).mean() for _ in range(4000)]))


@one_by_one(lambda _, **setting: _true_area(**setting))
def risk_area(rng: Draws, *, clusters: int, size: int, rate: float) -> Estimated:
    """The area under risk over coverage."""
    codes = np.repeat(np.arange(clusters), size)
    margins, wrong = _draw_decisions(rng, clusters, size, rate)
    bounds = area_bounds(margins, wrong, codes, draw_many(margins, wrong, codes, seed=0))
    return float(risk_curve(margins, wrong).mean()), tuple(bounds)
