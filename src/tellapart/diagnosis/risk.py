"""Risk and coverage: how many errors are left if a model answers only the items on which it is surest.

The margin of an item is the gap between the best score and the next, the smallest of the metric's comparisons. It needs
no right answer; that of one picture or one caption can be applied where the model is used. Coverage is the share of
items with the largest margins, and risk the share of errors among these.

Source: El-Yaniv & Wiener (2010), JMLR 11, 1605-1641 (risk and coverage); Geifman, Uziel & El-Yaniv (2019), ICLR,
arXiv 1805.08206, section 3 (the area under the curve, and the least area that a model's errors allow).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel
from scipy.special import chdtri, stdtrit

from tellapart.data.scores import join_names
from tellapart.diagnosis.item_analysis import ItemOutcomes, SystemSamples, outcomes_of, read_systems
from tellapart.errors import RunError, quote
from tellapart.evaluation.systems import System
from tellapart.stats.bootstrap import expanded_percentiles, yield_times
from tellapart.stats.clusters import is_binary
from tellapart.stats.interval import FEW_CLUSTERS

#: Metric -> what its model compares: an image's texts, a text's images, or both.
MARGINS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("text_score", "i2t", "set_score"), "texts"),
        **dict.fromkeys(("image_score", "t2i"), "images"),
        **dict.fromkeys(("group_score", "choice_score", "pairwise"), "both"),
        "itt": "false text",
    }
)

#: Resamples of the clusters, and shares of the items at which a curve is kept.
_RESAMPLES, _POINTS = 2000, 100

#: Clusters with an error, and with a right item, from which the bootstrap's spread is known; of fewer the interval is
#: that of a weighted count.
MANY_ERRORS = 10


class RiskRow(BaseModel, frozen=True):
    """One model's curve of risk over coverage.

    Attributes:
        risk: the share of errors if every item is answered.
        area: the mean risk over all coverages, 0 is best. A margin without information has `risk`; of a group score
            less, since a large margin of four scores is right more often, even if the scores are random.
        low, high: its 95% interval over clusters: of Student's t on the logarithm, by the spread of bootstrap draws;
            with errors, or right items, in fewer than 10 clusters, that of a weighted count of them. Of an area above
            one half it is 1 less that of the area of right items. None below 20 clusters.
        least: the area of a margin that is larger on every right item than on any wrong one.
        curve: coverage and risk, at each per cent of the items.
    """

    model: str
    n: int
    clusters: int
    risk: float
    area: float
    low: float | None
    high: float | None
    least: float
    curve: tuple[tuple[float, float], ...]


class RiskDifference(BaseModel, frozen=True):
    """The areas of two models on the same items, b minus a, with a paired 95% interval over clusters."""

    a: str
    b: str
    difference: float
    low: float | None
    high: float | None


class Risks(BaseModel, frozen=True):
    """Curves of risk over coverage of models on one benchmark; `limited_from` and `limited_to` as of `Curves`."""

    benchmark: str
    metric: str
    n: int
    rows: tuple[RiskRow, ...]
    differences: tuple[RiskDifference, ...]
    limited_from: int | None = None
    limited_to: int | None = None


def margin_of(scores: Sequence[Sequence[float]], metric: str) -> float:
    """Return the gap between an item's best score and the next, the smallest of the comparisons of `metric`.

    Args:
        scores: `[image][text]`.
        metric: a name of `MARGINS`.

    >>> margin_of([[0.9, 0.7], [0.2, 0.8]], "text_score"), margin_of([[0.75, 0.5, 0.25]], "itt")
    (0.20000000000000007, 0.25)
    """
    table = np.asarray(scores, np.float64)
    if MARGINS[metric] == "false text":  # the model points to the lowest
        lowest = np.sort(table[0])
        return float(lowest[1] - lowest[0])
    sides = {"texts": [table], "images": [table.T], "both": [table, table.T]}[MARGINS[metric]]
    ordered = [np.sort(side, axis=1) for side in sides if side.shape[1] > 1]
    return float(min((side[:, -1] - side[:, -2]).min() for side in ordered))


def risk_curve(margins: NDArray[np.floating], wrong: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the risk `(item,)` of the k items with the largest margins, k from 1 to all.

    Items of one margin are in no order: the risk is the mean over all orders.

    Args:
        margins: `(item,)`.
        wrong: `(item,)`, 1 for an error and 0 for a right item.

    >>> risk_curve(np.array([3.0, 2.0, 1.0, 1.0]), np.array([0.0, 1.0, 0.0, 1.0])).round(3).tolist()
    [0.0, 0.5, 0.5, 0.5]
    """
    values, group = np.unique(-np.asarray(margins, np.float64), return_inverse=True)
    sizes = np.bincount(group, minlength=len(values))
    shares = np.bincount(group, np.asarray(wrong, np.float64), len(values)) / sizes
    errors: NDArray[np.float64] = np.cumsum(np.repeat(shares, sizes))
    return errors / np.arange(1, len(errors) + 1)


def measure_risks(
    runs: Sequence[System], *, benchmark: str | None = None, metric: str | None = None, seed: int = 0
) -> Risks:
    """Measure each model's curve of risk over coverage, and compare the areas on the same items.

    Raises:
        RunError: runs of other items, no such benchmark or metric, a metric that has no margin, or items without
            scores.
    """
    name, systems = read_systems(runs, benchmark=benchmark)
    outcomes = outcomes_of(name, systems, metric)
    if outcomes.metric not in MARGINS or not is_binary(outcomes.values):
        others = [name for name in outcomes.items[0].outcomes if name in MARGINS]
        hint = f"name metric={join_names(others)}" if others else "its items are not compared by scores"
        raise RunError(f"{outcomes.benchmark}: {outcomes.metric} has no margin; {hint}")
    margins = np.array([_find_margins(system, outcomes) for system in systems]).T
    wrong = 1 - outcomes.values
    codes = np.unique([item.cluster for item in outcomes.items], return_inverse=True)[1]
    rows, draws = [], []
    for model, margin, error in zip(outcomes.systems, margins.T, wrong.T, strict=True):
        draws.append(draw_many(margin, error, codes, seed))
        rows.append(_describe(model, margin, error, codes, draws[-1]))
    differences = [
        _difference(a, b, first, second) for (a, first), (b, second) in combinations(zip(rows, draws, strict=True), 2)
    ]
    return Risks(
        benchmark=outcomes.benchmark, metric=outcomes.metric, n=len(wrong), rows=tuple(rows),
        differences=tuple(differences), limited_from=outcomes.limited_from, limited_to=outcomes.limited_to,
    )  # fmt: skip


def _find_margins(system: SystemSamples, outcomes: ItemOutcomes) -> list[float]:
    margins = []
    for item in outcomes.items:
        scores = system.samples[item.unit, item.id].scores
        if not scores:
            raise RunError(
                f"{system.name} on {outcomes.benchmark}: {item.unit} {quote(item.id)} has no scores, so how sure the "
                "model is cannot be told; name runs that scored images and texts"
            )
        margins.append(margin_of(scores, outcomes.metric))
    return margins


def _difference(
    a: RiskRow, b: RiskRow, first: NDArray[np.float64] | None, second: NDArray[np.float64] | None
) -> RiskDifference:
    """Compare two areas: by draws of the same clusters, or else by both intervals (MOVER)."""
    difference, low, high = b.area - a.area, None, None
    if first is not None and second is not None:
        low, high = map(float, expanded_percentiles(second - first, a.clusters, 0.95))
    elif a.low is not None and a.high is not None and b.low is not None and b.high is not None:
        low = max(-1.0, difference - math.hypot(b.area - b.low, a.high - a.area))
        high = min(1.0, difference + math.hypot(b.high - b.area, a.area - a.low))
    return RiskDifference(a=a.model, b=b.model, difference=difference, low=low, high=high)


def _describe(
    model: str, margins: NDArray[np.float64], wrong: NDArray[np.float64], codes: NDArray[np.intp],
    draws: NDArray[np.float64] | None,
) -> RiskRow:  # fmt: skip
    risks, clusters = risk_curve(margins, wrong), int(codes.max()) + 1
    area, (low, high) = float(risks.mean()), area_bounds(margins, wrong, codes, draws)
    counts = np.unique(np.ceil(np.arange(1, _POINTS + 1) * len(risks) / _POINTS).astype(int))
    return RiskRow(
        model=model, n=len(wrong), clusters=clusters, risk=float(wrong.mean()), area=area, low=low, high=high,
        least=float(risk_curve(1 - wrong, wrong).mean()),
        curve=tuple((k / len(risks), float(risks[k - 1])) for k in counts),
    )  # fmt: skip


def area_bounds(
    margins: NDArray[np.float64], wrong: NDArray[np.float64], codes: NDArray[np.intp], draws: NDArray[np.float64] | None
) -> tuple[float, float] | tuple[None, None]:
    """Return the 95% interval of an area, with its bootstrap draws `(resample,)` if there are many errors.

    Of draws it is Student's on the scale of the logarithm, since they are skewed: an interval of their percentiles
    contains 87 to 93 % of areas where errors are rare. Without draws the area is a sum of weights of the wrong items,
    whose clusters are counted as rare events. Above one half it is 1 less the area of right items.

    Source: Fay & Feuer (1997), Statistics in Medicine 16, 791-801, for weighted counts; Tiwari, Clegg & Zou (2006),
    Statistical Methods in Medical Research 15, 547-569, for the weight of one more event: the mean over all.
    """
    clusters, items = int(codes.max()) + 1, len(wrong)
    if clusters < FEW_CLUSTERS:
        return None, None
    if (area := float(risk_curve(margins, wrong).mean())) > 1 / 2:  # the rarer of right and wrong items is counted
        low, high = area_bounds(margins, 1 - wrong, codes, None if draws is None else 1 - draws)
        return (None, None) if low is None or high is None else (1 - high, 1 - low)
    if draws is not None:
        spread = math.sqrt(clusters / (clusters - 1)) * float(np.log(np.maximum(draws, 1 / items**2)).std())
        reach = math.exp(float(stdtrit(clusters - 1, 0.975)) * spread)
        return area / reach, min(1.0, area * reach)
    weights = _weights(margins)
    by_cluster, errors = np.bincount(codes, weights), np.bincount(codes, weights * wrong)
    area, variance = float(errors.sum()), float((errors**2).sum())
    more, more_variance = area + float(by_cluster.mean()), variance + float((by_cluster**2).mean())
    low = variance / (2 * area) * float(chdtri(2 * area**2 / variance, 0.975)) if area else 0.0
    high = more_variance / (2 * more) * float(chdtri(2 * more**2 / more_variance, 0.025))
    return low, min(1.0, high)


def _weights(margins: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what an error of each item adds to the area: the sum of 1/k from its place to the last, over the items."""
    places = np.arange(1, len(margins) + 1)
    weights = np.cumsum(1 / places[::-1])[::-1] / len(margins)
    group = np.unique(-margins, return_inverse=True)[1]
    in_order = np.empty(len(margins))
    in_order[np.argsort(group, kind="stable")] = weights
    return np.asarray((np.bincount(group, in_order) / np.bincount(group))[group])


def draw_many(
    margins: NDArray[np.float64], wrong: NDArray[np.float64], codes: NDArray[np.intp], seed: int
) -> NDArray[np.float64] | None:
    """Return the draws of an area; None of few clusters, or few of them with an error, or with a right item."""
    rarer = min(len(np.unique(codes[wrong > 0])), len(np.unique(codes[wrong < 1])))
    many = int(codes.max()) + 1 >= FEW_CLUSTERS and rarer >= MANY_ERRORS
    return draw_areas(margins, wrong, codes, seed) if many else None


def draw_areas(
    margins: NDArray[np.float64], wrong: NDArray[np.float64], codes: NDArray[np.intp], seed: int
) -> NDArray[np.float64]:
    """Return the area `(resample,)` of clusters drawn with replacement; copies of an item have one margin."""
    values, group = np.unique(-margins, return_inverse=True)
    starts = np.searchsorted(group[order := np.argsort(group, kind="stable")], np.arange(len(values)))
    clusters, largest = int(codes.max()) + 1, int(np.bincount(codes).max())
    harmonic = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, clusters * largest + 1))])
    areas = []
    for times in yield_times(clusters, _RESAMPLES, seed):
        weights = times[:, codes[order]]
        sizes = np.add.reduceat(weights, starts, axis=1)
        errors = np.add.reduceat(weights * wrong[order], starts, axis=1)
        after = np.cumsum(sizes, axis=1).astype(np.intp)
        before = after - sizes.astype(np.intp)
        share = np.divide(errors, sizes, out=np.zeros_like(errors), where=sizes > 0)
        # The sum over a group of equal margins of (errors before + j * share) / (items before + j), j from 1.
        excess = np.cumsum(errors, axis=1) - errors - share * before
        areas.append((errors + excess * (harmonic[after] - harmonic[before])).sum(axis=1) / after[:, -1])
    return np.concatenate(areas)
