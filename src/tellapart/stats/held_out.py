"""Cross-fitted heads: each entry's probability comes from a head that saw nothing of its cluster."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tellapart.errors import DataError
from tellapart.stats.sigmoid_head import PENALTY, fit_head

FOLDS = 5


def fold_of(clusters: Sequence[str], *, folds: int = FOLDS, seed: int = 0) -> NDArray[np.int64]:
    """Return the fold of each item, int64 `(item,)`: a cluster is never split, so that folds differ by one cluster at
    most.

    Depends on the clusters' names alone: not on the order of items, nor on how many each cluster holds.
    """
    names = sorted(set(clusters))
    if not 2 <= folds <= len(names):
        raise DataError(f"{folds} folds of {len(names)} clusters: give at least 2 folds and as many clusters")
    numbers = np.random.default_rng(seed).permutation(len(names)) % folds
    fold = dict(zip(names, numbers.tolist(), strict=True))
    return np.array([fold[name] for name in clusters], np.int64)


def held_out(
    features: NDArray[np.floating],
    clusters: Sequence[str],
    *,
    folds: int = FOLDS,
    seed: int = 0,
    penalty: float = PENALTY,
) -> NDArray[np.float64]:
    """Return the probability that each entry is not its item's first, by heads fitted on the other folds.

    Args:
        features: `(item, entry, dimensions)`: of an item's images, or of its texts; entry 0 is class 0, the others 1.
        clusters: of the items; a cluster lies in one fold.
        folds: parts.
        seed: of the parts.
        penalty: of `fit_head`.

    Returns:
        float64 `(item, entry)`.

    Raises:
        DataError: as `fold_of` and `fit_head`.

    >>> rng = np.random.default_rng(0)
    >>> features = rng.standard_normal((50, 2, 3)) + np.array([[0.0], [3.0]])
    >>> in_order(held_out(features, [str(k) for k in range(50)])).mean() > 0.95
    np.True_
    """
    parts = fold_of(clusters, folds=folds, seed=seed)
    labels = np.tile(np.minimum(np.arange(features.shape[1]), 1), (len(features), 1))
    probabilities = np.empty(features.shape[:2])
    # In the order of the clusters, not of the file: sums of the fit then have the same bits.
    order = np.array(
        sorted(range(len(features)), key=lambda item: (clusters[item], features[item].tobytes())), np.int64
    )
    for part in range(folds):
        others = order[parts[order] != part]
        head = fit_head(features[others].reshape(-1, features.shape[2]), labels[others].ravel(), penalty=penalty)
        probabilities[parts == part] = head.probabilities(features[parts == part])
    return probabilities


def in_order(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return for each item the share of its later entries with a higher probability than its first; a tie is one half.

    Args:
        probabilities: of not being the first, `(item, entry)`.

    Returns:
        float64 `(item,)`. Chance is one half for any number of entries.

    >>> in_order(np.array([[0.1, 0.9], [0.9, 0.1], [0.5, 0.5]]))
    array([1. , 0. , 0.5])
    """
    first, others = probabilities[:, :1], probabilities[:, 1:]
    shares: NDArray[np.float64] = ((first < others) + 0.5 * (first == others)).mean(axis=1)
    return shares
