"""Prediction-powered means: people judge some items, a model judges all, and people's mean over all is estimated.

The model's mean over many items is corrected by its error on the items that people judged. So the estimate has no bias,
however bad the model is, and a good model narrows the interval.
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
    """An estimate of people's mean with the help of a model, and how much the model helps.

    Attributes:
        weight: of the model's values in the estimate, from 0 (not used) to 1.
        worth: how many items people alone would have to judge for an interval as short.
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
        people: people's values of the items that they judged, float `(n,)`; if all are 0 or 1, the interval is within
            [0, 1].
        judge: the judge's values of the same items, `(n,)`.
        others: the judge's values of other items of the same kind, `(N,)`.
        clusters, other_clusters: the cluster of each item; items are independent if None. A name in both is one
            cluster.

    Raises:
        MetricError: shapes differ, or a value is not finite.

    The mean is `w mean(others) + mean(people - w judge)`, with the weight w from 0 to 1 that has the least variance. If
    people's values are 0 or 1, it is Wilson's interval of as many items as give this variance: it holds near 0 and 1.

    Source: Angelopoulos, Duchi & Zrnic (2023), PPI++, equation 4 and section 6.

    >>> people, judge = [1, 1, 1, 0, 1, 1, 0, 1] * 10, [1, 1, 1, 0, 1, 1, 0, 0] * 10
    >>> powered = prediction_powered(people, judge, [1, 1, 0, 1, 0] * 200)
    >>> round(powered.mean, 3), round(powered.weight, 2), powered.worth > 80
    (0.735, 0.6, True)
    """
    check_level(_CALL, level)
    values, guesses, other_guesses = (check_values(_CALL, column) for column in (people, judge, others))
    if len(values) != len(guesses):
        raise MetricError(f"{_CALL}: people judged {len(values)} items and the judge {len(guesses)} of them; give all")
    n, count, binary = len(values), len(other_guesses), is_binary(values) and is_binary(guesses)
    codes, other_codes = number_clusters(_CALL, clusters, n), number_clusters(_CALL, other_clusters, count)
    spread = float(np.var(np.concatenate([guesses, other_guesses]), ddof=1))
    covariance = float(np.mean((values - values.mean()) * (guesses - guesses.mean())))
    weight = 0.0 if spread == 0 else min(max(covariance / ((1 + n / count) * spread), 0.0), 1.0)
    corrections = values - weight * guesses
    mean = weight * float(other_guesses.mean()) + float(corrections.mean())
    if is_binary(values):  # a judge with more right among the others could lift a share above 1
        mean = min(max(mean, 0.0), 1.0)
    variance = weight**2 * _variance(other_guesses, other_codes) + _variance(corrections, codes)
    if clusters is not None and other_clusters is not None:  # clusters of which people judged a part: a covariance
        _, here, there = np.intersect1d(np.unique(clusters), np.unique(other_clusters), return_indices=True)
        totals = np.bincount(codes, corrections - corrections.mean())[here]
        other_totals = np.bincount(other_codes, other_guesses - other_guesses.mean())[there]
        variance += 2 * weight * float(totals @ other_totals) / (n * count)
    if weight > 0 and binary:
        # If the judge made no error, the estimated variance would be 0. So the variance of one more error is added, and
        # less if there are errors; bench/prediction_powered.py measures how often intervals then hold the truth.
        wrong = np.count_nonzero(np.bincount(codes, values != guesses))  # clusters with an error
        variance += 1 / (1 + wrong / 2) / n**2
    groups = len(np.unique(codes))
    if groups < _FEWEST:
        noun = "items" if clusters is None else "clusters"
        return Powered(mean, without_bounds(level, f"{groups} {noun}"), weight, n)
    worth = float(n if variance == 0 else n * max(_variance(values, codes) / variance, 1.0))
    return Powered(mean, _interval(mean, variance, values, groups, level), weight, worth)


def _variance(values: NDArray[np.float64], codes: NDArray[np.int64]) -> float:
    """Return the variance of a mean, by the totals of the clusters' residuals."""
    totals = np.bincount(codes, values - values.mean())
    groups = len(totals)
    return 0.0 if groups < 2 else float((totals**2).sum() * groups / (groups - 1) / len(values) ** 2)


def _interval(mean: float, variance: float, people: NDArray[np.float64], groups: int, level: float) -> Interval:
    from scipy.stats import t

    quantile = float(t.ppf((1 + level) / 2, groups - 1))
    if not np.isin(people, (0, 1)).all():
        reach = quantile * variance**0.5
        return Interval(mean - reach, mean + reach, level, "prediction-powered")
    share = min(max(mean, 0.0), 1.0)
    # As many independent items as give this variance; for a share of 0 or 1, or without variance, the clusters.
    items = share * (1 - share) / variance if variance > 0 and 0 < share < 1 else float(groups)
    low, high = wilson_bounds(share, items, quantile)
    return Interval(float(low), float(high), level, "prediction-powered, wilson")
