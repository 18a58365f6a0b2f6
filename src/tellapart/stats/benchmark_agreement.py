"""Whether benchmarks agree: rank correlations over models, clusters, and how many dimensions they measure.

Source: VLUE Figure 2 and EqBen Figure 1 ask it of two benchmarks; Horn, Psychometrika 30 (1965), of the dimensions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellapart.errors import MetricError

#: Shuffled tables that the number of dimensions is estimated from.
_SHUFFLES = 200


@dataclass(frozen=True, slots=True, eq=False)
class BenchmarkAgreement:
    """How alike benchmarks rank the same models.

    Attributes:
        spearman: rank correlation of each two benchmarks: float64 `(benchmark, benchmark)`.
        order: benchmarks in the order of a clustering (average linkage of 1 - correlation): neighbours are alike.
        shares: of the variance of ranks, by principal component, the greatest first: `(benchmark,)`.
        dimensions: how many of the first components explain more than in 95 of 100 tables with shuffled columns.
    """

    spearman: NDArray[np.float64]
    order: tuple[int, ...]
    shares: NDArray[np.float64]
    dimensions: int

    def nearest(self, benchmark: int) -> int:
        """Return the benchmark that ranks models most like this one."""
        correlations = self.spearman[benchmark].copy()
        correlations[benchmark] = -np.inf
        return int(np.argmax(correlations))

    def mean(self, benchmark: int) -> float:
        """Return a benchmark's mean correlation with the others."""
        return float((self.spearman[benchmark].sum() - 1) / (len(self.spearman) - 1))


def agree(values: ArrayLike, *, seed: int = 0) -> BenchmarkAgreement:
    """Correlate the ranks that benchmarks give the same models; `values` `(model, benchmark)`, higher is better.

    >>> agreement = agree([[0.1, 0.2, 0.9], [0.2, 0.4, 0.5], [0.3, 0.5, 0.7], [0.4, 0.9, 0.1]])
    >>> agreement.nearest(0), agreement.shares.round(2)
    (1, array([0.91, 0.09, 0.  ]))
    """
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 2 or table.shape[0] < 3 or table.shape[1] < 2:
        raise MetricError(f"agree needs three models or more on two benchmarks or more; got {table.shape}")
    if not np.isfinite(table).all():
        model, benchmark = np.argwhere(~np.isfinite(table))[0]
        raise MetricError(f"agree: model {model} has no finite value on benchmark {benchmark}; leave one of them out")
    ranks = np.apply_along_axis(mean_ranks, 0, table)
    if len(equal := np.flatnonzero(np.ptp(ranks, axis=0) == 0)):
        raise MetricError(f"agree: all models are equal on benchmark {equal[0]}; leave it out")
    spearman: NDArray[np.float64] = np.asarray(np.corrcoef(ranks, rowvar=False))
    eigenvalues, rng = _find_eigenvalues(spearman), np.random.default_rng(seed)
    drawn = [_find_eigenvalues(np.corrcoef(rng.permuted(ranks, axis=0), rowvar=False)) for _ in range(_SHUFFLES)]
    significant = eigenvalues > np.quantile(drawn, 0.95, axis=0)
    dimensions = int(significant.cumprod().sum())
    return BenchmarkAgreement(spearman, _order_leaves(spearman), eigenvalues / eigenvalues.sum(), dimensions)


def items_to_tell_apart(values: ArrayLike, n: int, *, reliability: float = 0.9) -> float | None:
    """Return how many of a benchmark's items would rank these models with a certain reliability; few is good.

    The variance of models' shares is the sum of the variance between models and that of drawing `n` items. The
    reliability is the first over the sum, for as many items as are returned (Spearman and Brown's rule). Items count as
    independent. None if models differ no more than chance makes them.

    Args:
        values: share of right answers of each model: `(model,)`.
        n: how many items the shares are over.
        reliability: the wanted one, between 0 and 1.
    """
    shares = np.asarray(values, dtype=np.float64)
    if shares.ndim != 1 or len(shares) < 2 or not ((shares >= 0) & (shares <= 1)).all():
        raise MetricError(f"items_to_tell_apart needs the shares of two or more models, 0 to 1; got {shares}")
    if n < 1 or not 0 < reliability < 1:
        raise MetricError(f"items_to_tell_apart: {n} items, reliability {reliability}; give one or more, and 0 to 1")
    noise = float((shares * (1 - shares)).mean())
    between = float(shares.var(ddof=1)) - noise / n
    return None if between <= 0 else noise / between * reliability / (1 - reliability)


def mean_ranks(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return ranks from 1, the lowest value first; equal values share the mean of their ranks."""
    # The same as scipy.stats.rankdata, which takes a second or more to import: the board's first reader would wait.
    _, index, count = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(count) - (count - 1) / 2)[index])


def _order_leaves(spearman: NDArray[np.float64]) -> tuple[int, ...]:
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    distance = np.clip(1 - spearman, 0, 2)
    np.fill_diagonal(distance, 0)
    tree = linkage(squareform(distance, checks=False), "average", optimal_ordering=True)
    return tuple(int(leaf) for leaf in leaves_list(tree))


def _find_eigenvalues(correlations: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.clip(np.linalg.eigvalsh(correlations)[::-1], 0, None)
