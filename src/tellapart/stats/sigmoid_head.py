"""The head of a detector: one sigmoid neuron on frozen features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tellapart.errors import DataError

__all__ = ["PENALTY", "SigmoidHead", "fit_head"]

#: Weight of the squared length of the weights, against the mean cross-entropy.
PENALTY = 1e-2


@dataclass(frozen=True, slots=True, eq=False)
class SigmoidHead:
    """A linear layer of one neuron, with a sigmoid: features in, probability that an entry is of class 1 out.

    Attributes:
        weights: float64 `(dimensions,)`.
        bias: of the neuron.

    >>> SigmoidHead(np.array([1.0, 0.0]), 0.0).probabilities(np.zeros((1, 2)))
    array([0.5])
    """

    weights: NDArray[np.float64]
    bias: float

    def probabilities(self, features: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return the probability of class 1 for features `(..., dimensions)`: float64 `(...)`.

        Raises:
            DataError: features of other dimensions than those it was fitted on.
        """
        from scipy.special import expit

        if features.shape[-1] != len(self.weights):
            raise DataError(
                f"the head was fitted on features of {len(self.weights)} dimensions and is given {features.shape[-1]}; "
                "use the same encoder"
            )
        # Each number is a sum over its features, in one order: equal features tie to the bit.
        logits = (features.astype(np.float64) * self.weights).sum(axis=-1) + self.bias
        return np.asarray(expit(logits), np.float64)


def fit_head(features: NDArray[np.floating], labels: NDArray[np.integer], *, penalty: float = PENALTY) -> SigmoidHead:
    """Fit the neuron: mean binary cross-entropy of standardised features, plus `penalty / 2` times the squared weights.

    The paper stops stochastic descent early to the same end; the penalised optimum is one point, in any order.

    Args:
        features: `(entry, dimensions)`, finite.
        labels: 0 or 1 for each entry.
        penalty: above 0.

    Raises:
        DataError: other shapes, features that are not finite, labels of one class only, or no penalty.

    Source: BiVLC (Miranda et al. 2024), appendix E.3: a sigmoid neuron on the frozen encoder, binary cross-entropy.

    >>> head = fit_head(np.array([[0.0], [1.0], [4.0], [5.0]]), np.array([0, 0, 1, 1]))
    >>> head.probabilities(np.array([[0.5], [2.5], [4.5]])).round(2)
    array([0.03, 0.5 , 0.97])
    """
    from scipy.optimize import minimize
    from scipy.special import expit

    exact = np.asarray(features, np.float64)
    _check_inputs(exact, labels, penalty)
    centre, scale = exact.mean(axis=0), exact.std(axis=0)
    moves = scale > 1e-9 * (1 + np.abs(centre))  # a feature that only rounding moves does not count
    rows = (exact[:, moves] - centre[moves]) / scale[moves]
    signs = np.where(labels == 1, -1.0, 1.0)

    def loss(point: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        margins = signs * (rows @ point[:-1] + point[-1])
        pull = signs * expit(margins) / len(rows)
        slope = np.append(pull @ rows + penalty * point[:-1], pull.sum())
        return float(np.logaddexp(0, margins).mean() + penalty / 2 * point[:-1] @ point[:-1]), slope

    start = np.zeros(rows.shape[1] + 1)
    optimum = minimize(
        loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 2000, "ftol": 1e-11, "gtol": 1e-6}
    ).x
    weights = np.zeros(len(centre))
    weights[moves] = optimum[:-1] / scale[moves]
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
