"""Exact nearest neighbours: the same ones for any block size, number of threads and order of summation."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tellapart.data.progress import Progress
from tellapart.errors import DataError
from tellapart.models.vectors import normalise

__all__ = ["BLOCK", "nearest"]


#: TrainingRows of the product in memory at once: 25,000 columns of float32 take 25 MB.
BLOCK = 256

#: Pairs whose products are summed in float64 at once.
_PAIRS = 1 << 14


def nearest(
    vectors: NDArray[np.float32], k: int, *, block: int = BLOCK, progress: Progress | None = None
) -> NDArray[np.int64]:
    """Return for each vector the `k` others of largest cosine, the nearest first; of equals the lower number first.

    A float32 matrix product finds the candidates, with its rounding error as their margin; their cosines are then
    summed in float64, each by itself. So the answer is that of the slow way, and depends on no order of computation.

    Args:
        vectors: float32 `(n, dimensions)`; none has length zero.
        k: neighbours; `n - 1` at most.
        block: rows at once. Changes no number.
        progress: called with the stage, the number done, and the total.

    Returns:
        int64 `(n, k)`.

    Raises:
        DataError: k is not in 1..n - 1.
        ModelError: a vector has length zero or is not finite.

    >>> nearest(np.array([[1, 0], [0, 1], [1, 0.1], [1, 0.2]], np.float32), 2).tolist()
    [[2, 3], [3, 2], [3, 0], [2, 0]]
    """
    if not 1 <= k < len(vectors):
        raise DataError(f"{k} nearest of {len(vectors)} images: ask for at least 1 and fewer than there are")
    unit = normalise(vectors)
    # Of a sum of d products of unit vectors in float32, in any order (Higham 2002, section 3.1), and both sides err.
    margin = np.float32(2.2 * unit.shape[1] * np.finfo(np.float32).eps / 2)
    neighbours = np.empty((len(unit), k), np.int64)
    for start in range(0, len(unit), block):
        rows = unit[start : start + block]
        cosines = rows @ unit.T
        cosines[np.arange(len(rows)), start + np.arange(len(rows))] = -np.inf
        limits = np.partition(cosines, len(unit) - k, axis=1)[:, len(unit) - k] - margin
        row, column = np.nonzero(cosines >= limits[:, None])
        order = np.lexsort((column, -_exact_cosines(rows, unit, row, column), row))
        firsts = np.searchsorted(row, np.arange(len(rows)))  # `nonzero` goes row by row
        neighbours[start : start + block] = column[order][firsts[:, None] + np.arange(k)]
        if progress:
            progress("nearest images", min(start + block, len(unit)), len(unit))
    return neighbours


def _exact_cosines(
    rows: NDArray[np.float32], unit: NDArray[np.float32], row: NDArray[np.int64], column: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Cosines of pairs, each summed in float64 and in one order."""
    sums = np.empty(len(row))
    for start in range(0, len(row), _PAIRS):
        part = slice(start, start + _PAIRS)
        sums[part] = (rows[row[part]].astype(np.float64) * unit[column[part]]).sum(axis=1)
    return sums
