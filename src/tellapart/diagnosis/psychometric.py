"""Psychometric functions: the probability of a right answer over a quantity, with its threshold.

    P(x) = guess + (1 - guess - lapse) / (1 + exp(-slope (x - threshold)))

At the threshold P is half way from chance, the guess rate, to its best. Thresholds compare models across sets whose
items differ by more or by less; shares of right items do not.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.errors import MetricError
from tellapart.stats.bootstrap import expanded_percentiles, yield_times
from tellapart.stats.clusters import Clusters, check_values, number_clusters
from tellapart.stats.interval import FEW_CLUSTERS, Interval, without_bounds

#: In which larger values are easier, and in which they are harder.
DIRECTIONS = ("rising", "falling")
#: Values of the quantity, and items, below which three parameters are not fitted.
LEAST_LEVELS, LEAST_ITEMS = 3, 20
#: Items below which draws do not hold the level (`bench/psychometric.py`).
INTERVAL_ITEMS = 60

_CALL, _LEVEL = "fit_psychometric", 0.95
#: More distinct values are put together, as many items in each: no threshold moves by what could be seen.
_MOST_LEVELS = 100
#: Groups of items by which the fit is tested, and the items in each at least.
_GROUPS, _GROUP_ITEMS = 10, 8
#: The grid of parameters, for values from 0 to 1; thresholds outside differ from those inside.
_STEPS, _OUTSIDE = 60, np.array([0.1, 0.2, 0.5, 1.0, 2.0])
_THRESHOLDS = np.concatenate([-_OUTSIDE[::-1], np.linspace(0, 1, _STEPS + 1), 1 + _OUTSIDE])
_INSIDE = _THRESHOLDS[(_THRESHOLDS >= 0) & (_THRESHOLDS <= 1)]
_SLOPES = np.geomspace(1, 1000, 20)
_LAPSES = np.array([0.0, 0.02, 0.05, 0.1])
#: Thresholds whose log likelihoods differ by less are as likely: between two levels nothing may separate them.
_ALIKE = 0.01
#: Fitted thresholds whose log likelihoods differ by less are the same; the optimiser's last bits decide between them.
_FLAT = 1e-6
#: The difference of log likelihoods by model from which on the direction of the curves is taken as known.
_SURE = 3.0
#: The threshold of a draw that has it outside: an end of an interval that reaches there is open.
_FAR = 1e300


@dataclass(frozen=True, eq=False)
class Psychometric:
    """The fitted function of one model.

    Attributes:
        threshold: in the unit of the values, `smallest` to `largest`; outside of them it is uncertain.
        slope: of the logistic function, by unit of the values; negative if P falls with them.
        lapse, guess: how far P stays from 1 and from 0 at its ends.
        p_fit: that the items deviate so much from the function by chance; None with too few levels.
        draws: the lowest and the highest likeliest threshold of resampled clusters `(direction, 2, resample)`; of
            rising and of falling curves if both fit about as well.
    """

    threshold: float
    slope: float
    lapse: float
    guess: float
    smallest: float
    largest: float
    p_fit: float | None
    draws: NDArray[np.float64]
    clusters: int
    items: int

    def at(self, values: Any) -> NDArray[np.float64]:
        """Return P at some values `(...)`."""
        return _share(np.asarray(values, np.float64), self.guess, self.threshold, self.slope, self.lapse)

    @property
    def outside(self) -> str | None:
        """Whether the threshold lies `below the smallest` or `above the largest` value; None if it does not."""
        if self.threshold < self.smallest:
            return "below the smallest"
        return "above the largest" if self.threshold > self.largest else None

    @cached_property
    def interval(self) -> Interval:
        """The interval of the threshold; an open end, beyond which there are no values, is None."""
        return self._cut_ends(*self._bounds, self.smallest, self.largest)

    @property
    def _bounds(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The least and the highest threshold of each draw `(direction, resample)`.

        A threshold above all values is at least the largest of them.
        """
        return np.minimum(self.draws[:, 0], self.largest), np.maximum(self.draws[:, 1], self.smallest)

    def minus(self, other: Psychometric) -> tuple[float | None, Interval, float | None]:
        """Return the difference of two thresholds that were fitted in one call, its interval, and p that there is none.

        The difference is None where a threshold lies outside of the values, and p where there is no interval.
        """
        from scipy.special import ndtri, stdtr

        value = None if self.outside or other.outside else self.threshold - other.threshold
        (least, highest), (other_least, other_highest) = self._bounds, other._bounds
        low, high = least - other_highest, highest - other_least
        span = self.largest - self.smallest
        interval = self._cut_ends(low, high, -span, span)
        if interval.reason:
            return value, interval, None
        # Student's p with the tail of the draws, whatever the direction: below 5% if the interval leaves out zero.
        opposite = min((low <= 0).sum(axis=1).max(), (high >= 0).sum(axis=1).max())
        tail = min(0.5, (1 + int(opposite)) / (1 + low.shape[1]))
        wide = ndtri(tail) / np.sqrt(self.clusters / (self.clusters - 1))
        return value, interval, float(2 * stdtr(self.clusters - 1, wide))

    def _cut_ends(
        self, low_draws: NDArray[np.float64], high_draws: NDArray[np.float64], smallest: float, largest: float
    ) -> Interval:
        if self.items < INTERVAL_ITEMS:
            return without_bounds(_LEVEL, f"{self.items} items")
        if self.clusters < FEW_CLUSTERS:
            return without_bounds(_LEVEL, f"{self.clusters} clusters")
        low = min(float(expanded_percentiles(draws, self.clusters, _LEVEL)[0]) for draws in low_draws)
        high = max(float(expanded_percentiles(draws, self.clusters, _LEVEL)[1]) for draws in high_draws)
        bounds = [end if smallest <= end <= largest else None for end in (low, high)]
        return Interval(bounds[0], bounds[1], _LEVEL, "cluster bootstrap")


def fit_psychometric(
    values: Any, right: Any, clusters: Clusters | None = None, *, guess: float, direction: str | None = None,
    resamples: int = 2000, seed: int = 0,
) -> list[Psychometric]:  # fmt: skip
    """Fit a psychometric function to each model by maximum likelihood, and draw clusters for intervals.

    All get one of `DIRECTIONS`; if none is given, the one that is likelier of all together. Intervals and p then hold
    for both if they are about as likely. All models get the same draws, so that differences are paired.

    Limits: slopes from 1 to 1,000 by the range of the values. Values crowded in a part of it ask for logarithms.

    `values`: of the quantity, float `(item,)`; `right`: 0 or 1 `(item, model)`; `guess`: the probability of a right
    answer by chance.

    Source: Wichmann & Hill (2001), Percept. Psychophys. 63, 1293-1313 (the function and its lapse rate) and 1314-1329
    (bootstrap).
    """
    from scipy.sparse import csr_array

    x, outcomes = check_values(_CALL, values), check_values(_CALL, right, binary=True)
    if x.ndim != 1 or outcomes.ndim != 2 or len(x) != len(outcomes):
        raise MetricError(
            f"{_CALL}: got values of shape {x.shape} and outcomes of {outcomes.shape}; pass (item,) and (item, model)"
        )
    if not 0 <= guess < 1:
        raise MetricError(f"{_CALL}: got guess={guess:g}; give the probability of a right answer by chance, below 1")
    levels, place = np.unique(x, return_inverse=True)
    if len(x) < LEAST_ITEMS or len(levels) < LEAST_LEVELS:
        raise MetricError(
            f"{_CALL}: got {len(x)} items of {len(levels)} values; a curve takes {LEAST_ITEMS} items of {LEAST_LEVELS} "
            "values at least"
        )
    low, span = float(levels[0]), float(np.ptp(levels))
    if len(levels) > _MOST_LEVELS:
        place = _group_levels(np.bincount(place), _MOST_LEVELS)[place]
        levels = np.bincount(place, x) / np.bincount(place)
    codes = number_clusters(_CALL, clusters, len(x))
    total, *tables = (csr_array((weights, (codes, place))) for weights in (np.ones(len(x)), *outcomes.T))
    rights, counts = np.stack([table.sum(axis=0) for table in tables]), total.sum(axis=0)
    grids = [_Grid(levels, low, span, guess, name == "falling") for name in DIRECTIONS if direction in (None, name)]
    fits = [float(grid.likelihoods(rights, counts).max(axis=(1, 2)).sum()) for grid in grids]
    grid = grids[int(np.argmax(fits))]
    likely_grids = [other for other, fit in zip(grids, fits, strict=True) if fit > max(fits) - _SURE * len(tables)]
    thresholds = np.stack([other.draw_thresholds(tables, total, resamples, seed) for other in likely_grids], axis=1)
    estimates = []
    for table, draws in zip(tables, thresholds, strict=True):
        (threshold, slope, lapse), p_fit = grid.fit(table, total)
        estimates.append(
            Psychometric(
                threshold=float(grid.place(threshold)), slope=(-slope if grid.falls else slope) / span, lapse=lapse,
                guess=guess, smallest=low, largest=low + span, p_fit=p_fit, draws=draws, clusters=total.shape[0],
                items=len(x),
            )
        )  # fmt: skip
    return estimates


class ThresholdSearch:
    """A posterior over threshold, slope, lapse and direction, and the level whose next outcome narrows it most.

    The prior is flat on the grid of `fit_psychometric`, whose slopes are logarithmic. The gain of a level is the
    information that its next outcome is expected to bring on the threshold; the other parameters are averaged out.

    Source: Kontsevich & Tyler (1999), Vision Res. 39, 2729-2737 (the Psi method); Prins (2013), J. Vis. 13(7):3 (the
    gain on the threshold alone).
    """

    def __init__(self, levels: NDArray[np.float64], guess: float, direction: str | None = None) -> None:
        self._low, self._span, self._guess = float(levels[0]), float(np.ptp(levels)), guess
        grids = [_Grid(levels, self._low, self._span, guess, falls) for falls in (False, True)]
        # (level, direction and threshold, slope and lapse)
        shape = len(levels), 2 * len(_THRESHOLDS), -1
        self._odds, self._wrong = (
            np.concatenate(tables, axis=1).reshape(shape)
            for tables in ([grid.odds for grid in grids], [grid.wrong for grid in grids])
        )
        self._share = -np.expm1(self._wrong)
        self._log, self._items = np.zeros(self._wrong.shape[1:]), 0
        if direction is not None:
            self._log.reshape(2, -1)[1 - DIRECTIONS.index(direction)] = -np.inf

    def add(self, level: int, right: float) -> None:
        """Take the outcome, 0 or 1, of an item of a level, by its place among the levels."""
        self._log += self._wrong[level] + right * self._odds[level]
        self._items += 1

    def choose(self, left: NDArray[np.bool_]) -> int:
        """Return the place of the level with the largest expected gain, of those that have items left `(level,)`."""
        from scipy.special import entr

        weights = self._weigh()
        mass = weights.sum(axis=1)
        share = np.einsum("ltk,tk->lt", self._share, weights)  # P(right and threshold)
        mean, within = share.sum(axis=1), np.clip(share / np.maximum(mass, 1e-300), 0, 1)
        gain = entr(mean) + entr(1 - mean) - (entr(within) + entr(1 - within)) @ mass
        return int(np.where(left, gain, -np.inf).argmax())

    def fitted(self) -> Psychometric:
        """Return the posterior's median threshold and mean slope and lapse; its draws are the threshold's quantiles."""
        weights = self._weigh().reshape(2, len(_THRESHOLDS), -1)
        mass = weights[0].sum(axis=1) + weights[1, ::-1].sum(axis=1)  # a falling threshold is turned round
        shares = np.append((np.arange(2000) + 0.5) / 2000, 0.5)
        *draws, middle = self._low + self._span * np.interp(shares, mass.cumsum() - mass / 2, _THRESHOLDS)
        falls = weights[1].sum() > 0.5
        shape = weights[int(falls)].sum(axis=0).reshape(len(_SLOPES), -1) / weights[int(falls)].sum()
        slope = float(np.exp(shape.sum(axis=1) @ np.log(_SLOPES))) / self._span
        return Psychometric(
            threshold=float(middle), slope=-slope if falls else slope, lapse=float(shape.sum(axis=0) @ _LAPSES),
            guess=self._guess, smallest=self._low, largest=self._low + self._span, p_fit=None,
            draws=np.array([[draws, draws]]), clusters=self._items, items=self._items,
        )  # fmt: skip

    def _weigh(self) -> NDArray[np.float64]:
        weights = np.exp(self._log - self._log.max())
        return np.asarray(weights / weights.sum())


def _group_levels(counts: NDArray[Any], wanted: int) -> NDArray[np.intp]:
    """Return the group of each level: neighbours, with about as many items in each group."""
    middles = np.cumsum(counts) - counts / 2
    return np.unique(np.floor(middles / counts.sum() * wanted), return_inverse=True)[1]


def _share(values: NDArray[np.float64], guess: float, threshold: Any, slope: Any, lapse: Any) -> NDArray[np.float64]:
    """Return P `(..., parameters)` at some values `(...)`."""
    from scipy.special import expit

    apart = np.subtract.outer(values, threshold)
    return np.asarray(guess + (1 - guess - lapse) * expit(slope * apart))


class _Grid:
    """Log odds, and log likelihoods of a wrong answer, `(level, parameters)`; of parameters thresholds vary slowest.

    Levels are taken to 0 to 1, and turned round if P falls with them. It finds the thresholds of thousands of
    resamples.
    """

    def __init__(self, levels: NDArray[np.float64], low: float, span: float, guess: float, falls: bool) -> None:
        self.low, self.span, self.guess, self.falls = low, span, guess, falls
        self.levels = self._turn((levels - low) / span)
        self.parameters = np.stack(np.meshgrid(_THRESHOLDS, _SLOPES, _LAPSES, indexing="ij")).reshape(3, -1)
        share = self._shares(*self.parameters)
        self.odds, self.wrong = np.log(share) - np.log1p(-share), np.log1p(-share)

    def _turn(self, levels: Any) -> Any:
        return 1 - levels if self.falls else levels

    def _shares(self, threshold: Any, slope: Any, lapse: Any) -> NDArray[np.float64]:
        return np.clip(_share(self.levels, self.guess, threshold, slope, lapse), 1e-12, 1 - 1e-12)

    def place(self, thresholds: Any) -> Any:
        """Return thresholds in the unit of the values."""
        return self.low + self._turn(thresholds) * self.span

    def likelihoods(self, right: NDArray[np.float64], total: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return log likelihoods of counts `(resample, level)`, `(resample, threshold, slope and lapse)`."""
        return np.asarray((right @ self.odds + total @ self.wrong).reshape(len(right), len(_THRESHOLDS), -1))

    def likeliest(self, likelihoods: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the lowest and the highest likeliest threshold of each resample, `(2, resample)`.

        They differ where neighbours are as likely; else both are the top of a parabola through three of the grid.
        """
        profile = likelihoods.max(axis=2)
        alike = profile >= profile.max(axis=1, keepdims=True) - _ALIKE
        first, last = alike.argmax(axis=1), len(_THRESHOLDS) - 1 - alike[:, ::-1].argmax(axis=1)
        thresholds = _THRESHOLDS[np.stack([first, last])]
        rows = np.flatnonzero((first == last) & (first > len(_OUTSIDE)) & (last < len(_OUTSIDE) + _STEPS))
        before, top, after = (profile[rows, first[rows] + step] for step in (-1, 0, 1))
        thresholds[:, rows] += (before - after) / (before - 2 * top + after) / (2 * _STEPS)
        return np.asarray(thresholds)

    def draw_thresholds(self, tables: list[Any], total: Any, resamples: int, seed: int) -> NDArray[np.float64]:
        """Return the lowest and highest likeliest threshold of each model and resample, `(model, 2, resample)`."""
        drawn = []
        for times in yield_times(total.shape[0], resamples, seed):
            sizes = times @ total
            drawn.append([self._turn(self.likeliest(self.likelihoods(times @ table, sizes))) for table in tables])
        ordered = np.sort(np.concatenate(drawn, axis=2), axis=1)
        return np.select([ordered < 0, ordered > 1], [-_FAR, _FAR], self.low + ordered * self.span)

    def fit(self, table: Any, total: Any) -> tuple[tuple[float, float, float], float | None]:
        """Return the likeliest threshold, slope and lapse of counts `(cluster, level)`, and p of the fit."""
        from scipy.optimize import minimize
        from scipy.special import expit

        right, counts = table.sum(axis=0), total.sum(axis=0)
        likelihoods = self.likelihoods(right[None], counts[None])
        row = int(np.abs(_THRESHOLDS - self.likeliest(likelihoods).mean()).argmin())
        start = self.parameters.reshape(3, len(_THRESHOLDS), -1)[:, row, likelihoods[0, row].argmax()]
        least, largest = self.parameters[:, 0], self.parameters[:, -1]

        def unlikely(share: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.asarray(-(right @ np.log(share) + (counts - right) @ np.log1p(-share)))

        def loss(point: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            threshold, slope, lapse = point[0], np.exp(point[1]), point[2]
            share, height = self._shares(threshold, slope, lapse), 1 - self.guess - lapse
            reached = expit(slope * (self.levels - threshold))
            rise = height * slope * reached * (1 - reached)
            gradient = np.stack([-rise, rise * (self.levels - threshold), -reached])
            return float(unlikely(share)), gradient @ ((counts - right) / (1 - share) - right / share)

        first, *limits = ((threshold, np.log(slope), lapse) for threshold, slope, lapse in (start, least, largest))
        options, bounds = {"ftol": 1e-14, "gtol": 1e-9}, list(zip(*limits, strict=True))
        fitted = minimize(loss, first, method="L-BFGS-B", jac=True, bounds=bounds, options=options).x
        slope, lapse = float(np.exp(fitted[1])), float(fitted[2])
        losses = unlikely(self._shares(_INSIDE, slope, lapse))
        flat = _INSIDE[losses < loss(fitted)[0] + _FLAT]  # of a step between two levels: its place there is open
        point = float(flat[[0, -1]].mean() if len(flat) > 1 else fitted[0]), slope, lapse
        free = int(((least < point) & (point < largest)).sum())
        return point, _test_fit(self._shares(*point), table, total, free)


def _test_fit(share: NDArray[np.float64], right: Any, total: Any, free: int) -> float | None:
    """Return the p of groups of neighbouring levels, whose right items are counted against those expected.

    Parameters on their limits fit nothing: `free` are not.

    Source: Hosmer & Lemeshow (1980), Commun. Stat. A9, 1043-1069; in clusters divided by their mean design effect, as
    Rao & Scott (1981), J. Am. Stat. Assoc. 76, 221-230.
    """
    from scipy.special import chdtrc

    counts = total.sum(axis=0)
    group = _group_levels(counts, min(_GROUPS, int(counts.sum()) // _GROUP_ITEMS))
    groups = group.max() + 1
    if groups <= free:
        return None
    member = np.eye(groups)[group]  # (level, group)
    apart = (right - total * share) @ member  # (cluster, group)
    variance = (counts * share * (1 - share)) @ member
    effect = max(1.0, float(((apart**2).sum(axis=0) / variance).mean()))
    return float(chdtrc(groups - free, (apart.sum(axis=0) ** 2 / variance).sum() / effect))
