"""Agreement of annotators: the share of equal labels, Cohen's kappa and Krippendorff's alpha, with intervals.

Kappa and alpha are 1 - observed / expected disagreement. Their interval is that of a share, the observed disagreement,
over the expected one; its standard error is the coefficient's jackknife over clusters of items.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.errors import MetricError, counted
from tellapart.stats.bootstrap import jackknife
from tellapart.stats.bounds import share_bounds
from tellapart.stats.clusters import Clusters, ClusterTotals, check_level
from tellapart.stats.combined import FEWEST
from tellapart.stats.interval import Interval, Reduce, name_few, without_bounds

Labels = Sequence[str] | Sequence[int] | NDArray[Any]


@dataclass(frozen=True, slots=True)
class AgreementCoefficient:
    """A coefficient of agreement, its interval over items, and the number of items with at least two labels.

    The value is at most 1; 0 is agreement by chance. It is None if all labels are the same (0 / 0).
    """

    value: float | None
    interval: Interval
    items: int


def percent_agreement(a: Labels, b: Labels) -> float:
    """Return the share, 0 to 1, of items to which two annotators gave the same label."""
    first, second, _ = _code_labels("percent_agreement", a, b)
    return float((first == second).mean())


def alpha_with_interval(
    labels: Sequence[Sequence[str | None]], clusters: Clusters | None = None, *, level: float = 0.95
) -> AgreementCoefficient:
    """Return Krippendorff's alpha for nominal labels, with its interval if there are ten clusters or more.

    `labels`: a row an item, an entry an annotator; None if an annotator did not label the item. Items with fewer than
    two labels are left out.

    Source: Krippendorff (2011), Computing Krippendorff's Alpha-Reliability.
    """
    terms, rows = _alpha_terms(labels)
    if clusters is not None and len(clusters) != len(labels):
        raise MetricError(f"alpha_with_interval: got {len(labels)} items and {len(clusters)} clusters; pass as many")
    items = len(rows)

    def alpha(means: NDArray[np.float64]) -> NDArray[np.float64]:
        counts = means[..., 1:]  # of each label, a mean over items
        total = counts.sum(axis=-1)
        expected = total**2 - (counts**2).sum(axis=-1)
        return _correct_for_chance((total - 1 / items) * means[..., 0], expected)

    row_clusters = None if clusters is None else np.asarray(clusters)[rows]
    disagreement, *counts = terms.sum(axis=0).tolist()
    total = sum(counts)
    expected = total**2 - sum(count**2 for count in counts)
    value = None if expected == 0 else 1 - (total - 1) * disagreement / expected
    expected_share = expected / (total * (total - 1))
    interval = _coefficient_interval(value, terms, row_clusters, alpha, (disagreement / total, expected_share), level)
    # With m labels an item alpha is at least -1 / (m - 1), since the variance of a mean of m is not negative.
    least = -1 / (float(terms[:, 1:].sum(axis=1).min()) - 1)
    low = None if interval.low is None else max(interval.low, least)
    return AgreementCoefficient(value, replace(interval, low=low), items)


def kappa_with_interval(
    a: Sequence[str], b: Sequence[str], clusters: Clusters | None = None, *, level: float = 0.95
) -> AgreementCoefficient:
    """Return Cohen's kappa, unweighted, with its interval over items if there are ten clusters or more.

    Source: Cohen (1960), Educ. Psychol. Meas. 20, 37-46.
    """
    codes_a, codes_b, count = _code_labels("kappa_with_interval", a, b)
    # All shares are multiplied by len(a)**2: integers, so that a chance agreement of exactly 1 is recognised.
    chance = int(np.bincount(codes_a, minlength=count) @ np.bincount(codes_b, minlength=count))
    agreed, total = int((codes_a == codes_b).sum()) * len(a), len(a) ** 2
    value = None if chance == total else (agreed - chance) / (total - chance)
    first, second = (np.eye(count)[codes] for codes in (codes_a, codes_b))  # one-hot, (item, label)
    terms = np.column_stack([(first * second).sum(axis=1), first, second])

    def kappa(means: NDArray[np.float64]) -> NDArray[np.float64]:
        shares_a, shares_b = means[..., 1 : count + 1], means[..., count + 1 :]
        expected = 1 - (shares_a * shares_b).sum(axis=-1)
        return _correct_for_chance(1 - means[..., 0], expected)

    means = terms.mean(axis=0)
    expected_share = 1 - float(means[1 : count + 1] @ means[count + 1 :])
    interval = _coefficient_interval(value, terms, clusters, kappa, (1 - float(means[0]), expected_share), level)
    return AgreementCoefficient(value, interval, len(a))


def _code_labels(call: str, a: Labels, b: Labels) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Return both annotators' labels as numbers from 0, and how many distinct labels there are."""
    first, second = np.asarray(a), np.asarray(b)
    if first.ndim != 1 or first.shape != second.shape or first.size == 0:
        raise MetricError(
            f"{call}: got labels of shape {first.shape} and {second.shape}; pass one label an item from each annotator"
        )
    if (first.dtype.kind in "US") != (second.dtype.kind in "US") or "O" in first.dtype.char + second.dtype.char:
        raise MetricError(f"{call}: got labels of {first.dtype} and {second.dtype}; give all as strings or as numbers")
    labels, codes = np.unique(np.concatenate([first, second]), return_inverse=True)
    return codes[: first.size], codes[first.size :], len(labels)


def _alpha_terms(labels: Sequence[Sequence[str | None]]) -> tuple[NDArray[np.float64], list[int]]:
    """Return each item's disagreement, then its count of each label, `(item, 1 + label)`; and the items' rows."""
    by_item = [[label for label in row if label is not None] for row in labels]
    rows = [number for number, row in enumerate(by_item) if len(row) > 1]
    if not rows:
        raise MetricError(
            f"alpha_with_interval: none of {len(labels)} items has labels of two annotators; let two label some items"
        )
    categories = sorted({label for row in by_item for label in row})
    counts = np.array([[by_item[number].count(category) for category in categories] for number in rows], np.float64)
    total = counts.sum(axis=1)
    disagreement = (counts * (total[:, None] - counts)).sum(axis=1) / (total - 1)
    return np.column_stack([disagreement, counts]), rows


def _correct_for_chance(observed: NDArray[np.float64], expected: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return 1 - observed / expected disagreement; 1 if the expected one is 0."""
    is_zero = expected < 1e-12  # not `== 0`: the shares that it is computed from are rounded
    coefficient: NDArray[np.float64] = 1 - np.where(is_zero, 0.0, observed) / np.where(is_zero, 1.0, expected)
    return coefficient


def _coefficient_interval(
    value: float | None,
    terms: NDArray[np.float64],
    clusters: Clusters | None,
    reduce: Reduce,
    shares: tuple[float, float],
    level: float,
) -> Interval:
    """Return the interval, within [-1, 1], of 1 - observed / expected disagreement, which are the two `shares`."""
    check_level("agreement", level)
    if value is None:
        return Interval(None, None, level, "none: one label", "undefined: everybody gave one and the same label")
    totals = ClusterTotals.of("agreement", terms, clusters)
    count, noun = len(totals), "item" if totals.independent else "cluster"
    if count < FEWEST:
        return without_bounds(level, counted(count, noun))
    observed, expected = shares
    moments = jackknife(reduce, totals)
    share = replace(moments, estimate=np.asarray(observed), variance=moments.variance * expected**2)
    low, high = share_bounds(share, level)
    # More disagreement is less agreement: the bounds change places.
    bounds = max(-1.0, 1 - float(high) / expected), 1 - float(low) / expected
    return Interval(*bounds, level, name_few("jackknife, korn-graubard", count))
