"""Simulated data sets with a known truth: clusters, shares, measured values, groups, answers, labels, captions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Draws = np.random.Generator

SOFT = np.array([0.0, 0.3, 0.6, 0.9, 1.0])
_SOFT_SHARES = {
    "soft accuracy": [0.5, 0.1, 0.1, 0.1, 0.2],
    "soft accuracy, rarely right": [0.94, 0.01, 0.01, 0.01, 0.03],
    "soft accuracy, nearly perfect": [0.02, 0.02, 0.02, 0.04, 0.9],
    "soft accuracy, right or wrong": [0.12, 0.0, 0.0, 0.0, 0.88],
}
#: Measured values: name -> the bounds that an item can have, None where there are none, and the true mean.
MEASURED: dict[str, tuple[tuple[float, float] | None, float]] = {
    "normal": (None, 0.0),
    "long tails": (None, 0.0),
    "lognormal": (None, float(np.exp(0.5))),
    "CIDEr": ((0.0, 10.0), 0.7 * 0.8),
    **{name: ((0.0, 1.0), float(SOFT @ shares)) for name, shares in _SOFT_SHARES.items()},
    "ROUGE-L": ((0.0, 1.0), 2 / 7),
    "rank correlation": ((-1.0, 1.0), 0.2),
}


def cluster_sizes(rng: Draws, kind: str, shape: tuple[int, ...]) -> Floats:
    """Return items of each cluster: a number, `1 to 8`, or Pareto with exponent 1.5, of 300 items at most."""
    if kind == "1 to 8":
        return rng.integers(1, 9, shape).astype(np.float64)
    if kind == "Pareto":
        return np.minimum(np.floor((1 - rng.random(shape)) ** (-1 / 1.5)), 300.0)
    return np.full(shape, float(kind))


def right_in_clusters(rng: Draws, counts: Floats, share: float, correlation: float) -> Floats:
    """Return how many items of each cluster are right, beta-binomial with a correlation of the items in a cluster."""
    inside: Floats | float = share
    if correlation:
        odds = (1 - correlation) / correlation
        inside = rng.beta(share * odds, (1 - share) * odds, counts.shape)
    return rng.binomial(counts.astype(np.int64), inside).astype(np.float64)


def measured(rng: Draws, name: str, shape: tuple[int, ...]) -> Floats:
    """Return independent measured values."""
    if name.startswith("soft accuracy"):
        return SOFT[np.searchsorted(np.cumsum(_SOFT_SHARES[name])[:-1], rng.random(shape), side="right")]
    return _DRAWN[name](rng, shape)


_DRAWN: dict[str, Callable[[Draws, tuple[int, ...]], Floats]] = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "long tails": lambda rng, shape: rng.standard_t(4, size=shape),
    "lognormal": lambda rng, shape: np.exp(rng.normal(size=shape)),
    "CIDEr": lambda rng, shape: np.minimum((rng.random(shape) < 0.7) * rng.gamma(0.8, 1.0, shape), 10.0),
    "ROUGE-L": lambda rng, shape: rng.beta(2.0, 5.0, shape),
    "rank correlation": lambda rng, shape: 2 * rng.beta(1.2, 0.8, shape) - 1,
}


def measured_in_clusters(rng: Draws, name: str, counts: Floats, correlation: float) -> Floats:
    """Return sums of measured values of each cluster, some of which repeat the first one, for the correlation."""
    shared = measured(rng, name, counts.shape)
    repeated = 1 + rng.binomial(counts.astype(np.int64) - 1, np.sqrt(correlation))
    others = (counts - repeated).astype(np.int64)
    fresh = measured(rng, name, (int(others.sum()),))
    owner = np.repeat(np.arange(others.size), others.ravel())
    return shared * repeated + np.bincount(owner, fresh, minlength=others.size).reshape(counts.shape)


def caption_counts(rng: Draws, images: int) -> Floats:
    """Return rows like those of captions that BLEU is made of, with the columns of `BLEU_STATISTICS`."""
    written = rng.integers(7, 15, images)
    good = rng.beta(2.0, 2.0, images)
    found, rows = written.astype(np.int64), []
    for order in range(4):
        possible = np.maximum(written - order, 0)
        found = rng.binomial(np.minimum(found, possible), good ** (0.6 + 0.25 * order))
        rows.append((found, possible))
    reference = written + rng.integers(-2, 4, images)
    columns = [written, reference, *(one for _, one in rows), *(one for one, _ in rows)]
    return np.stack(columns, axis=1).astype(np.float64)


def labels(rng: Draws, table: Floats, datasets: int, items: int) -> NDArray[np.int64]:
    """Return two people's labels `(data set, item, 2)`, drawn from the shares of each pair of labels."""
    pairs = np.searchsorted(table.ravel().cumsum()[:-1], rng.random((datasets, items)), side="right")
    return np.stack(np.divmod(pairs, len(table)), axis=-1).astype(np.int64)


def table_with_kappa(shares: Floats, kappa: float) -> Floats:
    """Return shares of each pair of labels `(label, label)` with these marginals and this kappa."""
    return kappa * np.diag(shares) + (1 - kappa) * np.outer(shares, shares)
