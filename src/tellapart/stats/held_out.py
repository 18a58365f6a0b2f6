"""Cross-fitted heads: each entry's probability comes from a head that saw nothing of its cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tellapart.errors import DataError

#: `PENALTY / 2` times the squared L2 norm of the weights is added to the mean cross-entropy.
PENALTY = 1e-2


@dataclass(frozen=True, slots=True, eq=False)
class SigmoidHead:
    """A linear layer with one output and a sigmoid: it maps features to the probability of class 1."""

    weights: NDArray[np.float64]
    bias: float

    def probabilities(self, features: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return the probability of class 1 for features `(..., dimensions)`: float64 `(...)`."""
        from scipy.special import expit

        if features.shape[-1] != len(self.weights):
            raise DataError(
                f"the head was fitted on features of {len(self.weights)} dimensions and is given {features.shape[-1]}; "
                "use the same encoder"
            )
        # Summed row by row and not by matrix product: equal rows get exactly equal numbers.
        logits = (features.astype(np.float64) * self.weights).sum(axis=-1) + self.bias
        return np.asarray(expit(logits), np.float64)


def fit_head(features: NDArray[np.floating], labels: NDArray[np.integer], *, penalty: float = PENALTY) -> SigmoidHead:
    """Fit the neuron: minimise binary cross-entropy on standardised features plus `penalty / 2` times the squared norm.

    The paper prevents overfitting by early stopping of stochastic gradient descent instead; the penalty has a unique
    optimum, whatever the order of the entries.

    `features`: `(entry, dimensions)`, finite; `labels`: 0 or 1 for each entry; `penalty`: above 0.

    Source: BiVLC (Miranda et al. 2024), appendix E.3: a sigmoid neuron on the frozen encoder, binary cross-entropy.
    """
    from scipy.optimize import minimize
    from scipy.special import expit

    exact = np.asarray(features, np.float64)
    _check_inputs(exact, labels, penalty)
    centre, scale = exact.mean(axis=0), exact.std(axis=0)
    varies = scale > 1e-9 * (1 + np.abs(centre))  # a feature that varies only by rounding gets weight 0
    rows = (exact[:, varies] - centre[varies]) / scale[varies]
    signs = np.where(labels == 1, -1.0, 1.0)

    def loss(point: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Return the loss, and its gradient, of the weights followed by the bias."""
        weights, bias = point[:-1], point[-1]
        logits = signs * (rows @ weights + bias)
        slopes = signs * expit(logits) / len(rows)  # of the mean cross-entropy by each entry's output
        gradient = np.append(slopes @ rows + penalty * weights, slopes.sum())
        return float(np.logaddexp(0, logits).mean() + penalty / 2 * weights @ weights), gradient

    start = np.zeros(rows.shape[1] + 1)
    limits = {"maxiter": 2000, "ftol": 1e-11, "gtol": 1e-6}
    optimum = minimize(loss, start, jac=True, method="L-BFGS-B", options=limits).x
    weights = np.zeros(len(centre))
    weights[varies] = optimum[:-1] / scale[varies]
    return SigmoidHead(weights, float(optimum[-1] - centre @ weights))


def _check_inputs(features: NDArray[np.float64], labels: NDArray[np.integer], penalty: float) -> None:
    if features.ndim != 2 or labels.shape != features.shape[:1]:
        raise DataError(f"features {features.shape} and labels {labels.shape}: give (entry, dimensions) and (entry,)")
    if not np.isfinite(features).all():
        raise DataError("features that are not finite; look for the entry that the encoder fails on")
    if {*np.unique(labels).tolist()} != {0, 1}:
        raise DataError(f"labels are {np.unique(labels).tolist()}: give entries of both classes, 0 and 1")
    if not penalty > 0:
        raise DataError(f"penalty {penalty:g}: give a number above 0; without one, separable classes have no optimum")


FOLDS = 5


def fold_of(clusters: Sequence[str], *, folds: int = FOLDS, seed: int = 0) -> NDArray[np.int64]:
    """Return the fold of each item, int64 `(item,)`; no cluster is split, and folds have as many clusters, or one more.

    The folds depend on the clusters' names alone: not on the order of items, nor on the clusters' sizes.
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
    """Return the probability that each entry is not its item's first, `(item, entry)`, from heads of other folds.

    `features`: `(item, entry, dimensions)`, of an item's images or of its texts; entry 0 is class 0, the others are 1.
    """
    item_fold = fold_of(clusters, folds=folds, seed=seed)
    labels = np.tile(np.minimum(np.arange(features.shape[1]), 1), (len(features), 1))
    probabilities = np.empty(features.shape[:2])
    # In the order of the clusters, not of the file: then the fit adds in the same order, to the same bits.
    in_clusters = sorted(range(len(features)), key=lambda item: (clusters[item], features[item].tobytes()))
    order = np.array(in_clusters, np.int64)
    for fold in range(folds):
        others = order[item_fold[order] != fold]
        head = fit_head(features[others].reshape(-1, features.shape[2]), labels[others].ravel(), penalty=penalty)
        probabilities[item_fold == fold] = head.probabilities(features[item_fold == fold])
    return probabilities


def in_order(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return for each item the share of its later entries with a higher probability than its first: float64 `(item,)`.

    `probabilities` are as of `held_out`. A tie counts one half, and so is chance, for any number of entries.

    >>> in_order(np.array([[0.1, 0.9], [0.9, 0.1], [0.5, 0.5]]))
    array([1. , 0. , 0.5])
    """
    first, others = probabilities[:, :1], probabilities[:, 1:]
    shares: NDArray[np.float64] = ((first < others) + 0.5 * (first == others)).mean(axis=1)
    return shares
