"""Cosines of many vectors by many, as fast as a matrix product and with the bits of each pair computed alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellapart.data.scores import named
from tellapart.errors import ScoreError

__all__ = ["cosines"]

_GRID = 2.0**26
_BLOCK = 1 << 22  # numbers in memory at once in float64, beside the result


def cosines(left: ArrayLike, right: ArrayLike) -> NDArray[np.float32]:
    """Return the cosine of every vector on the left with every one on the right: float32 `(left, right)`.

    Vectors are scaled to length one and rounded to multiples of 2^-26: products are then multiples of 2^-52 and no partial
    sum reaches 2, so that float64 holds all of them exactly. However a matrix product orders its sums, equal vectors get
    equal cosines.

    Args:
        left: numbers `(left, dimension)`.
        right: numbers `(right, dimension)`.

    Raises:
        ScoreError: the two are no matrices of one width, or a vector has no direction (the rows are named).

    >>> cosines([[2.0, 0.0], [3.0, 3.0]], [[0.0, 1.0], [5.0, 0.0]]).round(4)
    array([[0.    , 1.    ],
           [0.7071, 0.7071]], dtype=float32)
    """
    first, second = (np.asarray(side, dtype=np.float64) for side in (left, right))
    if first.ndim != 2 or second.ndim != 2 or first.shape[1] != second.shape[1]:
        raise ScoreError(f"cosines: expected two matrices of one width; got shapes {first.shape} and {second.shape}")
    gridded = _on_grid(second, "right")
    found = np.empty((len(first), len(second)), np.float32)
    step = max(1, _BLOCK // max(len(second), first.shape[1], 1))
    for start in range(0, len(first), step):
        block = _on_grid(first[start : start + step], "left", start)
        found[start : start + step] = block @ gridded.T
    return found


def _on_grid(vectors: NDArray[np.float64], side: str, start: int = 0) -> NDArray[np.float64]:
    with np.errstate(invalid="ignore", over="ignore"):
        lengths = np.sqrt((vectors * vectors).sum(axis=1, keepdims=True))
    bad = np.flatnonzero(~(np.isfinite(lengths[:, 0]) & (lengths[:, 0] > 0)))
    if len(bad):
        rows = named([str(start + row) for row in bad])
        raise ScoreError(f"cosines: vectors on the {side} are zero or not finite, and have no direction: rows {rows}")
    gridded: NDArray[np.float64] = np.rint(vectors / lengths * _GRID) / _GRID
    return gridded
