"""Item analysis: difficulty and discrimination of items over many systems, reliability of sets, and short forms.

Systems are the sample here and items are fixed: intervals leave out one family of systems at a time, because
checkpoints of one architecture are not independent draws. Outcomes are float64 `(item, system)`, right is 1.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.errors import MetricError
from tellapart.stats.bounds import differing_from_mode
from tellapart.stats.clusters import Clusters, check_values, is_binary, number_clusters
from tellapart.stats.multiple import benjamini_hochberg, holm
from tellapart.stats.paired import enough_flips
from tellapart.stats.power import power_of_difference

#: Fewer families of systems are no sample of systems in general: there are no intervals.
LEAST_FAMILIES = 5
#: An item that fewer systems than this get, or miss, is in no group: any two such items agree by chance.
_LEAST_MINORITY = 5
#: The most items that are grouped: all pairs of them are in memory at once, 8 bytes a pair.
MOST_PAIRED = 1_000
_SIMULATIONS = 100
#: The jackknife is too short if a smaller share of the systems differs from the most frequent outcome.
_LEAST_DIFFERING = 0.1
#: Correlations are limited to this: 1 would be infinite on Fisher's scale.
_NEARLY_ONE = 1 - 1e-12
_DRAWS_AT_ONCE, _MOST_DRAWS = 2_000, 400_000
#: An item with so many permutations as extreme as its outcomes is tested no further: its p is not small.
_ENOUGH_HITS = 40


@dataclass(frozen=True, slots=True, eq=False)
class ItemStatistics:
    """Statistics of each item, all float64 `(item,)`; NaN if they cannot be computed from these systems.

    `right` is the share of systems that get the item; `low` and `high` are of its discrimination, the correlation with
    the mean of the other items over systems. `p` is one-sided, of the null hypothesis that better systems get the item
    at least as often; `p_holm` and `p_fdr` are adjusted over the items by Holm, and by Benjamini and Hochberg.
    """

    right: NDArray[np.float64]
    discrimination: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    p: NDArray[np.float64]
    p_holm: NDArray[np.float64]
    p_fdr: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Reliability:
    """How well a set of items ranks systems.

    Attributes:
        alpha, low, high: Cronbach's alpha, with its 95% interval over systems; None if all systems score the same.
        spread: the standard deviation of the systems' scores.
        measurement_error: the part of that spread which other items would not repeat, `spread * sqrt(1 - alpha)`.
        sampling_error: the standard error of one system's score over draws of items, the root mean square of all.
    """

    alpha: float | None
    low: float | None
    high: float | None
    spread: float
    measurement_error: float | None
    sampling_error: float


def check_outcomes(
    call: str, values: Any, families: Clusters | None = None
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return outcomes as float64 `(item, system)` and each system's family, numbered from 0."""
    array = check_values(call, values)
    if array.ndim != 2 or array.shape[0] < 2 or array.shape[1] < 3:
        raise MetricError(f"{call}: got outcomes of shape {array.shape}; pass (item, system), of at least (2, 3)")
    return array, number_clusters(call, families, array.shape[1])


def item_statistics(values: Any, families: Clusters | None = None, *, seed: int = 0) -> ItemStatistics:
    """Return each item's difficulty and discrimination over systems, with intervals, and tests for suspects.

    An item whose discrimination is below 0 is one that better systems get wrong more often: the place to look for a
    wrong label. Its p permutes the item's outcomes among the families (means of them, if they hold several systems)
    against the mean of the other items.

    The interval leaves out one family at a time (the jackknife), on Fisher's scale, with Student's quantile; it is NaN
    if fewer than five families are there, if one family alone makes the item differ between systems, or if fewer than
    a tenth of the systems differ from the others.

    Source: Lord & Novick (1968), Statistical Theories of Mental Test Scores, section 15.5 (item-rest correlation);
    Efron & Tibshirani (1993), An Introduction to the Bootstrap, ch. 11 (jackknife).
    """
    array, family = check_outcomes("item_statistics", values, families)
    correlation, low, high = discrimination_bounds(array, family)
    p = _permutation_p(array, correlation, family, seed)
    adjusted, tested = np.full((2, len(p)), np.nan), ~np.isnan(p)
    if tested.any():
        adjusted[:, tested] = holm(p[tested]), benjamini_hochberg(p[tested])
    return ItemStatistics(array.mean(axis=1), correlation, low, high, p, adjusted[0], adjusted[1])


def discrimination_bounds(
    array: NDArray[np.float64], family: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return each item's discrimination, and the bounds of its 95% interval; NaN if there is none."""
    count = int(family.max()) + 1
    everyone = np.ones((1, len(family)))
    correlation = _item_rest(array, everyone)[0]
    low = high = np.full(len(array), np.nan)
    if count >= LEAST_FAMILIES:
        left_out = _item_rest(array, everyone - (family == np.arange(count)[:, None]))
        low, high = _jackknife(correlation, left_out, np.arctanh, np.tanh)
        few = differing_from_mode(array) < _LEAST_DIFFERING * array.shape[1]
        low[few] = high[few] = np.nan
    return correlation, low, high


def discriminations(values: Any) -> NDArray[np.float64]:
    """Return each item's discrimination, as of `item_statistics` and without intervals: float64 `(item,)`."""
    array, _ = check_outcomes("discriminations", values)
    return np.asarray(_item_rest(array, np.ones((1, array.shape[1])))[0])


def reliability(values: Any, families: Clusters | None = None) -> Reliability:
    """Return how well items rank systems: Cronbach's alpha (KR-20) with its interval, and the errors of a score.

    The interval leaves out one family at a time, on the scale of log(1 - alpha); None of fewer than five families.
    It is around the alpha among systems of different families, which is `alpha` if every system has its own family.

    Source: Kuder & Richardson (1937), Psychometrika 2, 151-160; Cronbach (1951), Psychometrika 16, 297-334.
    """
    array, family = check_outcomes("reliability", values, families)
    count = int(family.max()) + 1
    scores = array.mean(axis=0)
    spread = float(scores.std(ddof=1))
    sampling = float(np.sqrt((array.var(axis=0) / len(array)).mean()))
    alpha = float(_alphas(array, np.arange(len(family)), np.ones((1, len(family))))[0])
    if np.isnan(alpha):
        return Reliability(None, None, None, spread, None, sampling)
    low = high = None
    masks = np.vstack([np.ones(count), 1 - np.eye(count)])  # all families, then all but one
    # log(1 - alpha) is infinite at an alpha of 1, also by rounding, and NaN at NaN: the comparison is False for both.
    if count >= LEAST_FAMILIES and (among := _alphas(array, family, masks)).max() < _NEARLY_ONE:
        bounds = _jackknife(among[:1], among[1:, None], lambda value: np.log1p(-value), lambda value: -np.expm1(value))
        # The lower bound of log(1 - alpha) is the higher bound of alpha.
        low, high = (None if np.isnan(bound[0]) else float(bound[0]) for bound in reversed(bounds))
    error = spread * float(np.sqrt(max(0.0, 1 - alpha)))
    return Reliability(alpha, low, high, spread, error, sampling)


def items_needed(values: Any, difference: float, *, alpha: float = 0.05, power: float = 0.8) -> int | None:
    """Return how many such items show a true `difference` of two systems with this `power`, by the exact McNemar test.

    Two systems that differ by d disagree on at least a share d of the items. They disagree on more, by twice the share
    that the worse one alone gets; the median of that surplus over all pairs of systems is added. None if more than
    2**23 items (8.4 million) are needed.

    >>> rng = np.random.default_rng(0)
    >>> outcomes = (rng.random((200, 12)) < np.linspace(0.2, 0.8, 12)).astype(float)
    >>> items_needed(outcomes, 0.2), items_needed(outcomes, 0.05)
    (96, 1022)
    """
    array, _ = check_outcomes("items_needed", values)
    if not 0 < difference <= 1 or not is_binary(array):
        raise MetricError(f"items_needed: got a difference of {difference:g}; pass one in (0, 1], and outcomes 0 or 1")
    right = array.T @ array
    only = right.diagonal()[:, None] - right  # (system, system): items that the first gets, and the second does not
    # Two systems that differ by d disagree on a share d + 2 w of the items, if the worse one alone gets a share w.
    worse_alone = np.minimum(only, only.T)[np.triu_indices(len(right), 1)]
    discordance = min(1.0, difference + 2 * float(np.median(worse_alone)) / len(array))

    def shows(items: int) -> bool:
        return power_of_difference(difference, items, discordance, alpha=alpha) >= power

    powers = (2**k for k in range(24))
    enough: int | None = next(filter(shows, powers), None)
    return None if enough is None else bisect_left(range(enough), True, lo=enough // 2 + 1, key=shows)


def shared_residuals(values: Any, families: Clusters | None = None, *, seed: int = 0) -> list[list[int]]:
    """Return groups of items that the same systems get, more often than difficulties and systems' scores explain.

    Each outcome is compared with its probability by the item's difficulty and the system's ability (the Rasch model).
    The remainders, without their trend over the systems' scores, correlate among items of one group. Groups are joined
    by average linkage as long as their mean correlation exceeds the largest one of all pairs of items in 95 of 100
    simulations of that model, in which all systems of a family answer from one draw. An item that fewer than five
    systems get, or miss, is in no group. Groups are positions of items, the largest group first; groups of one item are
    left out. There are no groups if there are more than 1,000 items.

    Source: Yen (1984), Applied Psychological Measurement 8, 125-145 (correlated residuals, Q3).
    """
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    array, family = check_outcomes("shared_residuals", values, families)
    rows = np.flatnonzero(_vary_enough(array))
    if len(rows) < 2 or len(array) > MOST_PAIRED:
        return []
    outcomes, expected = array[rows], expected_outcomes(array)[rows]
    # Items that discriminate more, or less, than most would correlate by a common trend over ability.
    trend = np.vander(array.mean(axis=0), 3)
    without_trend = np.eye(len(trend)) - trend @ np.linalg.pinv(trend)
    rng = np.random.default_rng(seed)
    largest = np.empty(_SIMULATIONS)
    for number in range(_SIMULATIONS):
        drawn = (rng.random((len(rows), int(family.max()) + 1))[:, family] < expected).astype(np.float64)
        varied = _vary_enough(drawn)
        correlations = _correlate_rows((drawn - expected)[varied] @ without_trend)
        largest[number] = correlations[np.triu_indices(len(correlations), 1)].max(initial=0.0)
    critical = np.quantile(largest, 0.95)
    distance = 1 - _correlate_rows((outcomes - expected) @ without_trend)
    labels = fcluster(linkage(squareform(distance, checks=False), "average"), 1 - critical, "distance")
    groups = [sorted(rows[labels == label].tolist()) for label in np.unique(labels)]
    return sorted((group for group in groups if len(group) > 1), key=lambda group: (-len(group), group))


def _vary_enough(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    right = values.sum(axis=1)
    return np.asarray(np.minimum(right, values.shape[1] - right) >= _LEAST_MINORITY)


def _correlate_rows(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the cosines of rows with each other; 0 of a row without any length."""
    length = np.sqrt((rows**2).sum(axis=1, keepdims=True))
    unit = np.divide(rows, length, out=np.zeros_like(rows), where=length > 1e-9)
    cosines: NDArray[np.float64] = np.clip(unit @ unit.T, -1, 1)
    np.fill_diagonal(cosines, 1)
    return cosines


def _item_rest(values: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return each item's correlation with the sum of the others under weights `(draw, system)`: `(draw, item)`."""
    share = weights / weights.sum(axis=1, keepdims=True)
    total = values.sum(axis=0)
    # Centred first, so that no variance is the difference of two large numbers.
    items, total = values - values.mean(axis=1, keepdims=True), total - total.mean()
    means, mean_total = share @ items.T, (share @ total)[:, None]
    variance = share @ (items**2).T - means**2
    with_total = share @ (items * total).T - means * mean_total
    rest = (share @ total**2)[:, None] - mean_total**2 - 2 * with_total + variance
    varied = (variance > 1e-12) & (rest > 1e-12)
    correlation = np.full(variance.shape, np.nan)
    np.divide(with_total - variance, np.sqrt(np.where(varied, variance * rest, 1)), out=correlation, where=varied)
    return correlation.clip(-_NEARLY_ONE, _NEARLY_ONE)


def _alphas(values: NDArray[np.float64], family: NDArray[np.int64], masks: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return Cronbach's alpha `(draw,)` of the families with 1 in `masks (draw, family)`; NaN if all scores are equal.

    A variance is half the mean square difference of two systems of different families. Systems of one family are alike,
    and would make the variance smaller than among new systems.
    """
    belongs = (family[:, None] == np.arange(masks.shape[1])).astype(np.float64)
    items = values - values.mean(axis=1, keepdims=True)
    rows = np.vstack([items, items.sum(axis=0)])
    sizes, sums, squares = belongs.sum(axis=0), rows @ belongs, rows**2 @ belongs  # of each family
    systems = masks @ sizes
    pairs = systems**2 - masks @ sizes**2  # ordered pairs of systems of different families
    half_sums = systems * (squares @ masks.T) - (sizes * squares) @ masks.T - (sums @ masks.T) ** 2 + sums**2 @ masks.T
    variance = np.divide(half_sums, pairs, out=np.zeros_like(half_sums), where=pairs > 0)  # (items, total; draw)
    varied = variance[-1] > 1e-12
    ratio = np.divide(variance[:-1].sum(axis=0), variance[-1], out=np.full(len(masks), np.nan), where=varied)
    number = len(values)
    alpha: NDArray[np.float64] = number / (number - 1) * (1 - ratio)
    return alpha


def _jackknife(
    value: NDArray[np.float64], left_out: NDArray[np.float64], to_scale: Any, from_scale: Any
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return 95% bounds of `value (item,)` from its values without each family, `(family, item)`, on another scale."""
    from scipy.special import stdtrit

    count = len(left_out)
    centre, draws = to_scale(value), to_scale(left_out)
    error = np.sqrt((count - 1) / count * ((draws - draws.mean(axis=0)) ** 2).sum(axis=0))
    reach = stdtrit(count - 1, 0.975) * error
    return from_scale(centre - reach), from_scale(centre + reach)


def _permutation_p(
    values: NDArray[np.float64], correlation: NDArray[np.float64], family: NDArray[np.int64], seed: int
) -> NDArray[np.float64]:
    """Return the one-sided p that better systems get each item less often; 1 if they get it as often or more."""
    sizes = np.bincount(family)
    belongs = (family[:, None] == np.arange(len(sizes))) / sizes
    items, total = values @ belongs, values.sum(axis=0) @ belongs
    p = np.where(np.isnan(correlation), np.nan, 1.0)
    draws = min(_MOST_DRAWS, enough_flips(len(values)))
    rng = np.random.default_rng(seed)
    active = np.flatnonzero(correlation < -1e-9)  # 0 may be rounded to less
    hits, done = np.zeros(len(values), np.int64), 0
    while len(active) and done < draws:
        orders = rng.permuted(np.tile(np.arange(len(sizes)), (_DRAWS_AT_ONCE, 1)), axis=1)  # shared by all items
        for item in active:
            rest = total - items[item]
            observed = items[item] @ rest + 1e-9 * max(1.0, float(np.abs(rest).max()))
            hits[item] += int((items[item][orders] @ rest <= observed).sum())
        done += _DRAWS_AT_ONCE
        p[active] = (1 + hits[active]) / (1 + done)
        active = active[hits[active] < _ENOUGH_HITS]
    return p


_FOLDS, _RANDOM_FORMS = 5, 20


@dataclass(frozen=True, slots=True)
class ShortForm:
    """The cost of one size of short form, for systems that were not used to choose its items.

    Attributes:
        error: root mean square error of the score on all items, as predicted from the short form by a straight line.
        ordered: the share of pairs of systems that the short form puts in the order of all items; a tie is one half.
        alpha: reliability on those systems, a mean over folds; None if they all score the same.
        random_error, random_ordered: the same of items drawn at random.
    """

    size: int
    error: float
    ordered: float
    alpha: float | None
    random_error: float
    random_ordered: float


def order_items(values: Any, most: int | None = None) -> list[int]:
    """Order items so that the first k are a short form, for every k.

    Each step adds the item with which the short form's score correlates most, over systems, with the score on all
    items; of equally good items the first. With `most`, only so many are ordered.
    """
    array, _ = check_outcomes("order_items", values)
    centred = array - array.mean(axis=1, keepdims=True)
    total = centred.sum(axis=0)
    with_total, variances = centred @ total, (centred**2).sum(axis=1)
    score, left = np.zeros(array.shape[1]), np.ones(len(array), np.bool_)
    positions: list[int] = []
    for _ in range(len(array) if most is None else min(most, len(array))):
        spread = score @ score + 2 * (centred @ score) + variances
        varied = left & (spread > 1e-12)
        gains = np.where(left, -1.0, -np.inf)
        np.divide(score @ total + with_total, np.sqrt(np.where(varied, spread, 1)), out=gains, where=varied)
        # Rounded, so that equally good items have equal gains and `argmax` takes the first.
        item = int(np.argmax(np.round(gains / max(float(np.sqrt(total @ total)), 1e-12), 9)))
        positions.append(item)
        left[item] = False
        score = score + centred[item]
    return positions


def try_short_forms(values: Any, families: Clusters | None, sizes: Sequence[int], *, seed: int = 0) -> list[ShortForm]:
    """Return the cost of short forms for systems that had no part in choosing their items.

    Systems are parted into five folds, families never split. Items are chosen, and the line to the score on all items
    is fitted, on four folds; error, order and reliability are those of the systems of the fifth.
    """
    call = "try_short_forms"
    array, family = check_outcomes(call, values, families)
    if wrong := [size for size in sizes if not 1 <= size <= len(array)]:
        raise MetricError(f"{call}: got a size of {wrong[0]} of {len(array)} items; pass sizes from 1 to that")
    if int(family.max()) + 1 < _FOLDS or array.shape[1] < 2 * _FOLDS:
        raise MetricError(
            f"{call}: got {array.shape[1]} systems in {int(family.max()) + 1} families; to choose items on some and "
            f"try them on others takes {2 * _FOLDS} systems in {_FOLDS} families"
        )
    rng = np.random.default_rng(seed)
    fold = (rng.permutation(int(family.max()) + 1) % _FOLDS)[family]
    chosen: dict[int, list[_Trial]] = {size: [] for size in sizes}
    drawn: dict[int, list[_Trial]] = {size: [] for size in sizes}
    for number in range(_FOLDS):
        train, test = array[:, fold != number], array[:, fold == number]
        order = order_items(train, max(sizes))
        for size in sizes:
            chosen[size].append(_try_form(train, test, order[:size]))
            random_forms = (rng.choice(len(array), size, replace=False).tolist() for _ in range(_RANDOM_FORMS))
            drawn[size] += [_try_form(train, test, form) for form in random_forms]
    forms = []
    for size in sizes:
        (error, ordered), (random_error, random_ordered) = _join_trials(chosen[size]), _join_trials(drawn[size])
        alphas = [trial.alpha for trial in chosen[size] if trial.alpha is not None]
        alpha = float(np.mean(alphas)) if alphas else None
        forms.append(ShortForm(size, error, ordered, alpha, random_error, random_ordered))
    return forms


@dataclass(frozen=True, slots=True)
class _Trial:
    """A form on one fold's systems: squared errors, pairs in the right order, pairs with different scores, alpha."""

    squares: NDArray[np.float64]
    ordered: float
    pairs: int
    alpha: float | None


def _try_form(train: NDArray[np.float64], test: NDArray[np.float64], form: Sequence[int]) -> _Trial:
    short, full = train[form].mean(axis=0), train.mean(axis=0)
    slope = float(np.cov(short, full)[0, 1] / short.var(ddof=1)) if np.ptp(short) else 0.0
    score, truth = test[form].mean(axis=0), test.mean(axis=0)
    predicted = full.mean() + slope * (score - short.mean())
    pairs = [(a, b) for a, b in combinations(range(len(truth)), 2) if abs(truth[a] - truth[b]) > 1e-12]
    signs = [np.sign(round(score[a] - score[b], 12)) * np.sign(truth[a] - truth[b]) for a, b in pairs]
    alpha = reliability(test[form]).alpha if len(form) > 1 and len(truth) > 2 else None
    return _Trial((predicted - truth) ** 2, float(sum((1 + sign) / 2 for sign in signs)), len(pairs), alpha)


def _join_trials(trials: Sequence[_Trial]) -> tuple[float, float]:
    """Return the root mean square error and the share of ordered pairs over folds."""
    pairs = sum(trial.pairs for trial in trials)
    squares = np.concatenate([trial.squares for trial in trials])
    return float(np.sqrt(squares.mean())), sum(trial.ordered for trial in trials) / pairs if pairs else 0.5


# The Rasch model: the log odds that a system gets an item are the system's ability minus the item's difficulty. The fit
# uses only systems' scores and items' shares, and gives them a scale on which differences near 0 and 100 % are
# comparable with those in the middle.

#: Systems from which on difficulties are stable to one logit, 95% of the time.
LEAST_SYSTEMS = 30
_STEPS = 200
#: Estimates are clipped to these log odds; only all right or all wrong answers would lead farther.
_FARTHEST = 15.0


@dataclass(frozen=True, slots=True, eq=False)
class Rasch:
    """Items and systems on one scale, in logits (log odds); the mean difficulty is 0.

    NaN of an item that all systems get, or none does, and of a system that gets all items, or none. An item's infit is
    its squared residuals over their expectation; well above 1, other systems get it than its difficulty predicts.
    """

    difficulty: NDArray[np.float64]
    difficulty_error: NDArray[np.float64]
    infit: NDArray[np.float64]
    ability: NDArray[np.float64]
    ability_error: NDArray[np.float64]


def fit_rasch(values: Any, *, least: int = LEAST_SYSTEMS) -> Rasch:
    """Fit the Rasch model to right and wrong answers, by joint maximum likelihood.

    Limits: items and systems without any right, or any wrong, answer have no finite estimate and are left out. The
    estimates of n items are too far apart by n / (n - 1), which is taken back. All items discriminate alike in this
    model; a slope of each would need hundreds of systems.

    Source: Wright & Panchapakesan (1969), Educ. Psychol. Meas. 29, 23-48; 30 systems: Linacre (1994), Rasch Measurement
    Transactions 7:4, 328.
    """
    array = check_values("fit_rasch", values, binary=True)
    if array.ndim != 2 or array.shape[1] < least:
        systems = array.shape[1] if array.ndim == 2 else 0
        raise MetricError(
            f"fit_rasch: got {systems} systems; difficulties on this scale need {least}: below that they are not "
            "stable to one logit; take each item's share of right answers"
        )
    items, systems, items_logit, systems_logit = _fit_margins(array)
    if items.sum() < 2 or systems.sum() < 2:
        raise MetricError(
            f"fit_rasch: {int(items.sum())} items and {int(systems.sum())} systems are neither all right nor all "
            "wrong; it takes two of each"
        )
    share = _sigmoid(systems_logit - items_logit[:, None])
    weight = share * (1 - share)
    selected = array[np.ix_(items, systems)]
    infit = ((selected - share) ** 2).sum(axis=1) / weight.sum(axis=1)
    shrink = (len(items_logit) - 1) / len(items_logit)
    return Rasch(
        difficulty=_fill_in(items, items_logit * shrink),
        difficulty_error=_fill_in(items, 1 / np.sqrt(weight.sum(axis=1))),
        infit=_fill_in(items, infit),
        ability=_fill_in(systems, systems_logit * shrink),
        ability_error=_fill_in(systems, 1 / np.sqrt(weight.sum(axis=0))),
    )


def expected_outcomes(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return each outcome's probability `(item, system)` by difficulty and ability alone; its sums are the data's."""
    items, systems, items_logit, systems_logit = _fit_margins(values)
    expected = values.copy()
    if items.any() and systems.any():
        expected[np.ix_(items, systems)] = _sigmoid(systems_logit - items_logit[:, None])
    return expected


def _fit_margins(
    values: NDArray[np.float64],
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.float64], NDArray[np.float64]]:
    """Return the items and systems with finite estimates (masks), and the estimates; the items' mean is 0."""
    items, systems = np.ones(len(values), np.bool_), np.ones(values.shape[1], np.bool_)
    while True:  # leaving out a system may leave an item without a wrong answer
        of_items, of_systems = values[:, systems].mean(axis=1), values[items].mean(axis=0)
        keep_items = items & (of_items > 0) & (of_items < 1)
        keep_systems = systems & (of_systems > 0) & (of_systems < 1)
        if (keep_items == items).all() and (keep_systems == systems).all():
            break
        items, systems = keep_items, keep_systems
        if not (items.any() and systems.any()):
            return np.zeros_like(items), np.zeros_like(systems), np.zeros(0), np.zeros(0)
    selected = values[np.ix_(items, systems)]
    difficulty, ability = -_logit(selected.mean(axis=1)), _logit(selected.mean(axis=0))
    difficulty -= difficulty.mean()
    for _ in range(_STEPS):
        share = _sigmoid(ability - difficulty[:, None])
        step = (selected - share).sum(axis=0) / (share * (1 - share)).sum(axis=0)
        ability = np.clip(ability + np.clip(step, -1, 1), -_FARTHEST, _FARTHEST)
        share = _sigmoid(ability - difficulty[:, None])
        change = (share - selected).sum(axis=1) / (share * (1 - share)).sum(axis=1)
        difficulty = np.clip(difficulty + np.clip(change, -1, 1), -_FARTHEST, _FARTHEST)
        centre = difficulty.mean()
        difficulty, ability = difficulty - centre, ability - centre
        if max(np.abs(step).max(), np.abs(change).max()) < 1e-10:
            break
    return items, systems, difficulty, ability


def _fill_in(mask: NDArray[np.bool_], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the values at the mask's places, and NaN elsewhere."""
    filled = np.full(len(mask), np.nan)
    filled[mask] = values
    return filled


def _logit(share: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.log(share / (1 - share))


def _sigmoid(logit: NDArray[np.float64]) -> NDArray[np.float64]:
    return 1 / (1 + np.exp(-logit))
