"""Agreement of a model's scores with people: ratings (pairs, ranks, lines, two labels), and orders of candidates.

Each number of ratings is of all images together: it has no value of one image alone. An image's value here is the
number plus the image's influence on it, so that the mean over images is the number, and means over resampled images
spread as the number does (Efron 1982, The Jackknife, section 6.3).

Scores and ratings are finite numbers `(image,)` of two images or more, scores compared in float32; another number of
ratings, or a number that is not finite, raises `MetricError`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellapart.data.scores import as_float32, as_numbers, expect_finite
from tellapart.errors import MetricError
from tellapart.stats.benchmark_agreement import mean_ranks

Floats = NDArray[np.float64]

#: Images that are compared with all others at once.
_BLOCK = 256


class TieCalibrated(NamedTuple):
    """Accuracy over pairs of images, the mean of `values`, and the difference of scores that is best for it.

    Two scores that differ by `epsilon` or less count as equal; `tied` is the share of pairs that people rate the same.
    """

    values: Floats
    epsilon: float
    tied: float


class Separation(NamedTuple):
    """How often an image of label 1 has a higher score than one of label 0, by image.

    A tie is wrong, or counts a half; `touched` are the images with the score of an image of the other label.
    """

    strict: Floats
    neutral: Floats
    touched: NDArray[np.bool_]


def pairwise_accuracy(scores: ArrayLike, ratings: ArrayLike) -> TieCalibrated:
    """Return the share of pairs of images that scores order, or tie, as people do, ties calibrated.

    Epsilon is 0 or a difference of two of these scores: the least of those at which the accuracy is highest, fitted to
    the images that it is measured on. A constant score gets the share of pairs that people tie.

    Source: Deutsch, Foster and Freitag (2023), Ties Matter, sections 5 and 6.

    >>> found = pairwise_accuracy([0.9, 0.5, 0.4], [5, 1, 1])
    >>> float(found.values.mean()), round(found.epsilon, 3)
    (1.0, 0.1)
    """
    x, y = _check("pairwise_accuracy", scores, ratings)
    above = (x[rows, None] - x[lower] for rows, lower, _ in _compare(y))
    ordered = np.sort(np.concatenate([higher[higher > 0] for higher in above]))
    apart = [np.abs(x[rows, None] - x[equals]).ravel() for rows, _, equals in _compare(y)]
    tied = np.sort(np.concatenate(apart))  # each pair twice, and itself
    # Only where a pair that people tie becomes one does the accuracy rise.
    steps = np.unique(tied)
    gained = np.searchsorted(tied, steps, "right") / 2 - np.searchsorted(ordered, steps, "right")
    epsilon = float(steps[gained.argmax()])
    right = np.zeros(len(x))
    for rows, lower, equals in _compare(y):
        higher = x[rows, None] - x[lower] > epsilon
        right[rows] += higher.sum(axis=1) + (np.abs(x[rows, None] - x[equals]) <= epsilon).sum(axis=1) - 1
        right[lower] += higher.sum(axis=0)
    share = right / (len(x) - 1)
    return TieCalibrated(2 * share - share.mean(), epsilon, (len(tied) / len(x) - 1) / (len(x) - 1))


def preference_accuracy(differences: ArrayLike, people: ArrayLike) -> TieCalibrated:
    """Return 1 for each pair of images whose difference of scores orders, or ties, them as people do, ties calibrated.

    `people` prefer the first image (1), the second (-1) or neither (0). Epsilon is 0 or one of these differences: the
    least of those at which the accuracy is highest.

    Source: Deutsch, Foster and Freitag (2023), Ties Matter; EditReward (Wu et al. 2025), `calc_accuracy_with_ties`.

    >>> preference_accuracy([0.5, -0.1, -0.4], [1, 0, -1])
    TieCalibrated(values=array([1., 1., 1.]), epsilon=0.1, tied=0.3333333333333333)
    """
    above, choice = np.asarray(differences, np.float64), np.asarray(people, np.float64)
    size, ordered, equal = np.abs(above), above * choice > 0, choice == 0
    steps = np.unique(np.append(size, 0.0))
    lost, gained = (np.searchsorted(np.sort(size[rows]), steps, "right") for rows in (ordered, equal))
    epsilon = float(steps[(gained - lost).argmax()])
    right = np.where(size <= epsilon, equal, ordered).astype(np.float64)
    return TieCalibrated(right, epsilon, float(equal.mean()))


def kendall_tau_b(scores: ArrayLike, ratings: ArrayLike) -> Floats:
    """Return Kendall's tau-b of scores and ratings by image: float64 `(image,)`; 0 if all scores or ratings tie.

    Source: Kendall (1945), The treatment of ties in ranking problems, Biometrika 33, 239-251.

    >>> [float(kendall_tau_b(scores, [1, 2, 4]).mean()) for scores in ([0.1, 0.5, 0.9], [0.9, 0.5, 0.1], [0, 0, 0])]
    [1.0, -1.0, 0.0]
    """
    x, y = _check("kendall_tau_b", scores, ratings)
    agreeing = np.zeros(len(x))
    for rows, lower, _ in _compare(y):
        signs = np.sign(x[rows, None] - x[lower])
        agreeing[rows] += signs.sum(axis=1)
        agreeing[lower] += signs.sum(axis=0)
    parts = (agreeing / (len(x) - 1), *(_differing(values) for values in (x, y)))
    return _correlate(*(2 * part - part.mean() for part in parts))


def spearman_rho(scores: ArrayLike, ratings: ArrayLike) -> Floats:
    """Return Spearman's correlation of ranks by image: float64 `(image,)`; 0 if all scores or ratings tie.

    Tied images share their mean rank.

    Source: Spearman (1904), The proof and measurement of association between two things, Am. J. Psychol. 15, 72-101.

    >>> round(float(spearman_rho([0.9, 0.1, 0.5, 0.7], [4, 1, 3, 2]).mean()), 6)
    0.8
    """
    x, y = _check("spearman_rho", scores, ratings)
    a, b = (0.5 - _weigh_above(values, np.ones(len(x))) for values in (x, y))

    def covary(one: Floats, values: Floats, other: Floats, others: Floats) -> Floats:
        # An image counts by its ranks, and by those of others that it moves.
        product = one * other
        moved = _weigh_above(values, other) + _weigh_above(others, one)
        return np.asarray(product + moved - 2 * product.mean())

    return _correlate(covary(a, x, b, y), covary(a, x, a, x), covary(b, y, b, y))


def pearson_r(scores: ArrayLike, ratings: ArrayLike) -> Floats:
    """Return Pearson's correlation by image: float64 `(image,)`; 0 if all scores or ratings are the same.

    Source: Pearson (1895), Notes on regression and inheritance, Proc. R. Soc. Lond. 58, 240-242.

    >>> round(float(pearson_r([1, 2, 3], [1, 2, 6]).mean()), 6)
    0.944911
    """
    x, y = (values - values.mean() for values in _check("pearson_r", scores, ratings))
    return _correlate(x * y, x * x, y * y)


def roc_auc(scores: ArrayLike, labels: ArrayLike) -> Separation:
    """Return how often an image of label 1 has a higher score than one of label 0: the area under the ROC curve.

    Labels are 0 and 1 `(image,)`, some of each.

    Source: Hanley and McNeil (1982), Radiology 143, 29-36; DeLong et al. (1988), Biometrics 44, 837-845.

    >>> found = roc_auc([0.9, 0.5, 0.5], [1, 1, 0])
    >>> float(found.strict.mean()), float(found.neutral.mean())
    (0.5, 0.75)
    """
    x, y = _check("roc_auc", scores, labels)
    if not np.array_equal(np.unique(y), (0, 1)):
        raise MetricError(f"roc_auc: labels must be 0 and 1, some of each; got {np.unique(y)[:5].tolist()}")
    true = y == 1
    strict, lenient = np.empty(len(x)), np.empty(len(x))
    for member, signed in ((true, x), (~true, -x)):
        others = np.sort(signed[~member])
        strict[member] = np.searchsorted(others, signed[member], "left") / len(others)
        lenient[member] = np.searchsorted(others, signed[member], "right") / len(others)
    weight = len(x) / np.where(true, true.sum(), (~true).sum())

    def centre(share: Floats) -> Floats:
        area = share[true].mean()
        return np.asarray(area + weight * (share - area))

    neutral = centre((strict + lenient) / 2)
    return Separation(centre(strict), neutral, strict != lenient)


def _check(call: str, scores: ArrayLike, ratings: ArrayLike) -> tuple[Floats, Floats]:
    values = as_float32(np.asarray(scores)).astype(np.float64)
    people = np.asarray(ratings, dtype=np.float64)
    if values.ndim != 1 or values.shape != people.shape or len(values) < 2:
        raise MetricError(
            f"{call} needs a score and a rating for each of two or more images; got {values.shape} and {people.shape}"
        )
    expect_finite(values, f"{call}: scores", "images", error=MetricError)
    expect_finite(people, f"{call}: ratings", "images", error=MetricError)
    return values, people


def _compare(ratings: Floats) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]]:
    """Yield images of one rating, all images of lower ratings, and all images of that rating: each block once."""
    order = np.argsort(ratings, kind="stable")
    stops = [*np.flatnonzero(np.diff(ratings[order])) + 1, len(order)]
    for start, end in zip([0, *stops[:-1]], stops, strict=True):
        for first in range(start, end, _BLOCK):
            yield order[first : min(first + _BLOCK, end)], order[:start], order[start:end]


def _differing(values: Floats) -> Floats:
    """Return the share of other images with another value, of each image."""
    _, level, count = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((len(values) - count[level]) / (len(values) - 1))


def _weigh_above(values: Floats, weights: Floats) -> Floats:
    """Return the weights of the images above each one as a mean over all images; of equal ones half."""
    _, level = np.unique(values, return_inverse=True)
    at = np.bincount(level, weights)
    return np.asarray((at[::-1].cumsum()[::-1] - at / 2)[level] / len(values))


def _correlate(both: Floats, first: Floats, second: Floats) -> Floats:
    """Return a covariance over the root of two variances, from the values of each by image: its values by image."""
    covariance, first_variance, other = (float(part.mean()) for part in (both, first, second))
    if min(first_variance, other) <= 0:
        return np.zeros(len(both))
    scale = np.sqrt(first_variance * other)
    ratio = covariance / scale
    return np.asarray(both / scale - ratio / 2 * (first / first_variance + second / other) + ratio)


# Agreement of a model's ranking of images with people's, and its movement when one word of the caption changes.
#
# EqBen's Fig. 1: people rank 25 images for "the house on the right side of the road"; a model that matches words finds
# the first image, orders the rest otherwise, and keeps its order when "right" becomes "left".


@dataclass(frozen=True, slots=True)
class Agreement:
    """Kendall's tau-b and Spearman's rho of two rankings: 1 the same, -1 reversed, None if one is all ties."""

    kendall: float | None
    spearman: float | None


@dataclass(frozen=True, slots=True, eq=False)
class Movement:
    """How a ranking moves when its query is edited: `places` before and after the edit, and the agreement of both."""

    before: NDArray[np.float64]
    after: NDArray[np.float64]
    agreement: Agreement

    @property
    def mean_shift(self) -> float:
        """By how many places a candidate moves, on average (Spearman's footrule by candidate)."""
        return float(np.abs(self.after - self.before).mean())

    @property
    def share_of_largest(self) -> float:
        """The movement as a share of the largest possible one, that of a reversal: 0 to 1."""
        return float(np.abs(self.after - self.before).sum()) / (len(self.before) ** 2 // 2)


def places(scores: ArrayLike) -> NDArray[np.float64]:
    """Return the place of each candidate, from 1 for the highest score: float64 `(candidate,)`.

    Tied ones share their mean place; scores are compared in float32.

    >>> places([0.2, 0.9, 0.2, 0.1])
    array([2.5, 1. , 2.5, 4. ])
    """
    return mean_ranks(-_check_ranking("places", scores).astype(np.float32))


def agreement_with_people(scores: ArrayLike, people: ArrayLike) -> Agreement:
    """Compare a model's scores of candidates, higher is closer, with the places that people gave them, 1 the closest.

    Source: EqBen Fig. 1 (a) and Fig. 7.

    >>> agreement_with_people([0.9, 0.1, 0.5], [1, 2, 3]).spearman
    0.5
    """
    ranks = places(scores)
    theirs = _check_ranking("agreement_with_people", people)
    if ranks.shape != theirs.shape:
        raise MetricError(
            f"agreement_with_people: {len(ranks)} scores and {len(theirs)} places; rank the same candidates"
        )
    return _measure_agreement(ranks, theirs)


def movement(before: ArrayLike, after: ArrayLike) -> Movement:
    """Compare a model's scores of the same candidates for a caption and for its minimal edit.

    Source: EqBen Fig. 1 (a) and Fig. 7 ("right" to "left").

    >>> unmoved = movement([0.9, 0.5, 0.1], [0.8, 0.4, 0.2])
    >>> unmoved.mean_shift, unmoved.agreement.kendall
    (0.0, 1.0)
    """
    old, new = places(before), places(after)
    if old.shape != new.shape:
        raise MetricError(f"movement: {len(old)} scores before the edit and {len(new)} after it; score the same images")
    return Movement(old, new, _measure_agreement(old, new))


def _measure_agreement(a: NDArray[np.float64], b: NDArray[np.float64]) -> Agreement:
    if a.min() == a.max() or b.min() == b.max():
        return Agreement(None, None)
    from scipy import stats

    return Agreement(float(stats.kendalltau(a, b).statistic), float(stats.spearmanr(a, b).statistic))


def _check_ranking(call: str, values: ArrayLike) -> NDArray[Any]:
    array = as_numbers(values, call, "(candidate,)", error=MetricError)
    if len(array) < 2:
        raise MetricError(f"{call} needs a number for each of two or more candidates; got {array.dtype} {array.shape}")
    expect_finite(array, call, "candidates", error=MetricError)
    return array
