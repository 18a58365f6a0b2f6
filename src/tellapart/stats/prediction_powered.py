"""Prediction-powered means: people judge some items, a model all of them, and the mean is that of people.

The model's mean over many items is corrected by its error on the items that people judged, so that the estimate is
people's whatever the model is worth; a good one narrows the interval.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tellapart.errors import MetricError
from tellapart.stats.bounds import wilson_bounds
from tellapart.stats.clusters import Clusters, check_level, check_values, is_binary, number_clusters
from tellapart.stats.interval import Interval, without_bounds

_CALL = "prediction_powered"  #: for messages

#: Clusters with people's values below which there is no interval.
_FEWEST = 20


class Powered(NamedTuple):
    """A mean of people's values: with the model's help, its weight, and the items that the help is worth.

    Attributes:
        weight: how much the model counts, from 0 (not at all) to 1.
        worth: people's items that would give an interval as short without a model.
    """

    mean: float
    interval: Interval
    weight: float
    worth: float


def prediction_powered(
    people: Any,
    judge: Any,
    others: Any,
    clusters: Clusters | None = None,
    other_clusters: Clusters | None = None,
    *,
    level: float = 0.95,
) -> Powered:
    """Return the mean of people's values with the help of a judge.

    Args:
        people: of the items that people judged, float `(n,)`; of 0 and 1 the interval keeps to [0, 1].
        judge: the judge's values of the same items, `(n,)`.
        others: the judge's values of other items of the same kind, `(N,)`.
        clusters, other_clusters: the unit of resampling of each item; every item by itself if None. A name in both is
            one cluster.

    Raises:
        MetricError: shapes differ, or a value is not finite.

    The mean is `w mean(others) + mean(people - w judge)` with the weight w that makes it most exact, from 0 to 1. Of
    shares the interval is Wilson's for as many items as the variance is worth, which holds near 0 and 1.

    Source: Angelopoulos, Duchi & Zrnic (2023), PPI++, equation 4 and section 6.

    >>> people, judge = [1, 1, 1, 0, 1, 1, 0, 1] * 10, [1, 1, 1, 0, 1, 1, 0, 0] * 10
    >>> powered = prediction_powered(people, judge, [1, 1, 0, 1, 0] * 200)
    >>> round(powered.mean, 3), round(powered.weight, 2), powered.worth > 80
    (0.735, 0.6, True)
    """
    check_level(_CALL, level)
    values, guesses, rest = (check_values(_CALL, part, binary=False) for part in (people, judge, others))
    if len(values) != len(guesses):
        raise MetricError(f"{_CALL}: people judged {len(values)} items and the judge {len(guesses)} of them; give all")
    codes, other_codes = (
        number_clusters(_CALL, names, len(part)) for names, part in ((clusters, values), (other_clusters, rest))
    )
    n, count, binary = len(values), len(rest), is_binary(values) and is_binary(guesses)
    spread = float(np.var(np.concatenate([guesses, rest]), ddof=1))
    covariance = float(np.mean((values - values.mean()) * (guesses - guesses.mean())))
    weight = 0.0 if spread == 0 else min(max(covariance / ((1 + n / count) * spread), 0.0), 1.0)
    mean = weight * float(rest.mean()) + float((values - weight * guesses).mean())
    if is_binary(values):  # a judge that gets more of the others right could lift a share above 1
        mean = min(max(mean, 0.0), 1.0)
    variance = weight**2 * _variance(rest, other_codes) + _variance(values - weight * guesses, codes)
    if clusters is not None and other_clusters is not None:  # people may have judged a part of a cluster
        shared = np.intersect1d(np.unique(clusters), np.unique(other_clusters), return_indices=True)[1:]
        parts = ((values - weight * guesses, codes, shared[0]), (rest, other_codes, shared[1]))
        totals = [np.bincount(numbers, part - part.mean())[held] for part, numbers, held in parts]
        variance += 2 * weight * float(totals[0] @ totals[1]) / (n * count)
    if weight > 0 and binary:
        # Without an error of the judge the estimated variance would be 0: the variance of one more error is added,
        # less of it the more errors there are. bench/prediction_powered.py measures how often intervals hold the truth.
        errors = values != guesses
        wrong = errors.sum() if codes is None else np.count_nonzero(np.bincount(codes, errors))
        variance += 1 / (1 + wrong / 2) / n**2
    groups = n if codes is None else len(np.unique(codes))
    if groups < _FEWEST:
        return Powered(
            mean, without_bounds(level, f"{groups} {'items' if clusters is None else 'clusters'}"), weight, n
        )
    worth = float(n if variance == 0 else n * max(_variance(values, codes) / variance, 1.0))
    return Powered(mean, _interval(mean, variance, values, groups, level), weight, worth)


def _variance(values: NDArray[np.float64], codes: NDArray[np.int64] | None) -> float:
    """Return the variance of a mean, of clusters by their totals of residuals."""
    residuals = values - values.mean()
    totals = residuals if codes is None else np.bincount(codes, residuals)
    groups = np.count_nonzero(np.bincount(codes)) if codes is not None else len(values)
    return 0.0 if groups < 2 else float((totals**2).sum() * groups / (groups - 1) / len(values) ** 2)


def _interval(mean: float, variance: float, people: NDArray[np.float64], groups: int, level: float) -> Interval:
    from scipy.stats import t

    quantile = float(t.ppf((1 + level) / 2, groups - 1))
    if not np.isin(people, (0, 1)).all():
        reach = quantile * variance**0.5
        return Interval(mean - reach, mean + reach, level, "prediction-powered")
    share = min(max(mean, 0.0), 1.0)
    # A share of 0 or 1, or one without variance, is worth its clusters.
    worth = share * (1 - share) / variance if variance > 0 and 0 < share < 1 else float(groups)
    low, high = wilson_bounds(share, worth, quantile)
    return Interval(float(low), float(high), level, "prediction-powered, wilson")
