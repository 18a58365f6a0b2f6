"""How far people's labels can be relied on: Krippendorff's alpha, and intervals for it and for Cohen's kappa.

Both are functions of sums over items, so the cluster bootstrap draws items (with all their labels) and not labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tellapart.errors import MetricError
from tellapart.stats.agreement import cohens_kappa
from tellapart.stats.clusters import Clusters, checked_level
from tellapart.stats.intervals import Interval, Reduce, cluster_bootstrap

__all__ = ["Reliability", "alpha_with_interval", "kappa_with_interval", "krippendorffs_alpha"]


@dataclass(frozen=True, slots=True)
class Reliability:
    """A coefficient of agreement with its interval.

    Attributes:
        value: at most 1; 0 is luck; None where everybody gave one label to everything (0 / 0).
        interval: over items; without bounds where the value has none, or there is one cluster.
        items: with at least two labels.

    >>> kappa_with_interval(["a", "b"], ["a", "b"], ["scene", "scene"]).interval.method
    'none: 1 cluster'
    """

    value: float | None
    interval: Interval
    items: int


def krippendorffs_alpha(labels: Sequence[Sequence[str | None]]) -> float | None:
    """Return Krippendorff's alpha for nominal labels: 1 - observed / expected disagreement.

    None where all labels are one and the same: luck explains all, alpha is 0 / 0.

    Args:
        labels: a row an item, an entry an annotator; None where an annotator did not label the item. Items with
            fewer than two labels say nothing of agreement, and are left out.

    Raises:
        MetricError: no item has two labels.

    Source: Krippendorff (2011), Computing Krippendorff's Alpha-Reliability.

    >>> krippendorffs_alpha([["a", "a"], ["b", "b"], ["a", "b"], ["a", None]])
    0.4444444444444444
    """
    sums = _alpha_terms(labels)[0].sum(axis=0)
    disagreement, counts = float(sums[0]), sums[1:]
    total = float(counts.sum())
    expected = total**2 - float(counts @ counts)
    return None if expected == 0 else 1 - (total - 1) * disagreement / expected


def alpha_with_interval(
    labels: Sequence[Sequence[str | None]], clusters: Clusters | None = None, *, level: float = 0.95, seed: int = 0
) -> Reliability:
    """Return `krippendorffs_alpha` with its bootstrap interval over items.

    A resample in which only one label was drawn has no alpha; everybody agreed in it, so that it counts as 1.

    Args:
        labels: as `krippendorffs_alpha` has them.
        clusters: one name an item; items of one cluster are drawn together.
        level: confidence level.
        seed: of the draws.

    Raises:
        MetricError: no item has two labels, clusters do not fit, or a level outside (0, 1).

    >>> found = alpha_with_interval([["a", "a"], ["b", "b"], ["a", "b"]] * 20)
    >>> round(found.value, 3), found.items, found.interval.method
    (0.339, 60, 'bootstrap')
    """
    terms, rows = _alpha_terms(labels)
    if clusters is not None and len(clusters) != len(labels):
        raise MetricError(
            f"alpha_with_interval: got {len(labels)} items and {len(clusters)} clusters; pass one an item"
        )
    items = len(rows)

    def alpha(means: NDArray[np.float64]) -> NDArray[np.float64]:
        counts = means[..., 1:]
        total = counts.sum(axis=-1)
        expected = total**2 - (counts**2).sum(axis=-1)
        return _luck_taken_out((total - 1 / items) * means[..., 0], expected)

    own = None if clusters is None else np.asarray(clusters)[rows]
    value = krippendorffs_alpha(labels)
    return Reliability(value, _interval(value, terms, own, alpha, level, seed), items)


def kappa_with_interval(
    a: Sequence[str], b: Sequence[str], clusters: Clusters | None = None, *, level: float = 0.95, seed: int = 0
) -> Reliability:
    """Return Cohen's kappa of two annotators with its bootstrap interval over items.

    A resample in which both gave only one and the same label has no kappa; it counts as 1.

    Args:
        a: the first annotator's label of each item.
        b: the second's.
        clusters: one name an item; items of one cluster are drawn together.
        level: confidence level.
        seed: of the draws.

    Raises:
        MetricError: no labels, not one an item from each, clusters that do not fit, or a level outside (0, 1).

    >>> found = kappa_with_interval(["a", "b", "a", "b"] * 10, ["a", "b", "b", "b"] * 10)
    >>> found.value, round(found.interval.low, 2), round(found.interval.high, 2)
    (0.5, 0.26, 0.75)
    """
    value = cohens_kappa(a, b)
    kinds = sorted({*a, *b})
    first, second = (np.array([[label == kind for kind in kinds] for label in given], float) for given in (a, b))
    terms = np.column_stack([(first * second).sum(axis=1), first, second])

    def kappa(means: NDArray[np.float64]) -> NDArray[np.float64]:
        ours, theirs = means[..., 1 : len(kinds) + 1], means[..., len(kinds) + 1 :]
        expected = 1 - (ours * theirs).sum(axis=-1)
        return _luck_taken_out(1 - means[..., 0], expected)

    return Reliability(value, _interval(value, terms, clusters, kappa, level, seed), len(a))


def _alpha_terms(labels: Sequence[Sequence[str | None]]) -> tuple[NDArray[np.float64], list[int]]:
    """Return `(item, 1 + label)`: the item's disagreement, and how often it got each label; and the items' rows."""
    given = [[label for label in row if label is not None] for row in labels]
    rows = [number for number, row in enumerate(given) if len(row) > 1]
    if not rows:
        raise MetricError(
            f"krippendorffs_alpha: none of {len(labels)} items has labels of two annotators; let two label the same items"
        )
    kinds = {kind: place for place, kind in enumerate(sorted({label for row in given for label in row}))}
    counts = np.zeros((len(rows), len(kinds)))
    for place, number in enumerate(rows):
        for label in given[number]:
            counts[place, kinds[label]] += 1
    times = counts.sum(axis=1)
    disagreement = (counts * (times[:, None] - counts)).sum(axis=1) / (times - 1)
    return np.column_stack([disagreement, counts]), rows


def _luck_taken_out(observed: NDArray[np.float64], expected: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return 1 - observed / expected disagreement, and 1 where none can be expected."""
    # What remains of 1 - 1 after rounding is no disagreement.
    none = expected < 1e-12
    share: NDArray[np.float64] = 1 - np.where(none, 0.0, observed) / np.where(none, 1.0, expected)
    return share


def _interval(
    value: float | None,
    terms: NDArray[np.float64],
    clusters: Clusters | None,
    reduce: Reduce,
    level: float,
    seed: int,
) -> Interval:
    checked_level("agreement", level)
    if value is None:
        return Interval(None, None, level, "none: one label")
    if len(terms if clusters is None else set(np.asarray(clusters).tolist())) < 2:
        return Interval(None, None, level, "none: 1 cluster")
    return cluster_bootstrap(terms, clusters, reduce=reduce, level=level, seed=seed)
