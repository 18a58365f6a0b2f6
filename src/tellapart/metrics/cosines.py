"""Cosines of many vectors by many, as fast as a matrix product and with the bits of each pair computed alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellapart.data.scores import join_names
from tellapart.errors import ScoreError

_GRID = 2.0**26
_BLOCK = 1 << 22  # numbers in memory at once in float64, without the result


def grid_vectors(vectors: ArrayLike, noun: str, first_row: int = 0) -> NDArray[np.float64]:
    """Scale vectors `(vector, dimension)` to length one and round them to multiples of 2^-26.

    Products are then multiples of 2^-52, and by Cauchy-Schwarz no partial sum reaches 2, so that float64 holds all of
    them exactly. However a matrix product orders its sums, equal vectors get equal cosines.

    >>> grid_vectors([[3.0, 4.0]], "images").round(4)
    array([[0.6, 0.8]])
    """
    exact = np.array(vectors, dtype=np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        lengths = np.sqrt((exact * exact).sum(axis=1, keepdims=True))
    bad = np.flatnonzero(~(np.isfinite(lengths[:, 0]) & (lengths[:, 0] > 0)))
    if len(bad):
        raise ScoreError(
            f"{len(bad)} {noun} are zero or not finite, and have no direction: rows "
            f"{join_names([str(first_row + row) for row in bad])}; encode them again"
        )
    exact /= lengths
    exact *= _GRID
    np.rint(exact, out=exact)
    exact /= _GRID
    return exact


def cosines(left: ArrayLike, right: ArrayLike) -> NDArray[np.float32]:
    """Return the cosine of every vector on the left with every one on the right: float32 `(left, right)`.

    Each is rounded once, from the exact product of its two `grid_vectors`.

    >>> cosines([[2.0, 0.0], [3.0, 3.0]], [[0.0, 1.0], [5.0, 0.0]]).round(4)
    array([[0.    , 1.    ],
           [0.7071, 0.7071]], dtype=float32)
    """
    first, second = (np.asarray(side, dtype=np.float64) for side in (left, right))
    if first.ndim != 2 or second.ndim != 2 or first.shape[1] != second.shape[1]:
        raise ScoreError(f"cosines: expected two matrices of one width; got shapes {first.shape} and {second.shape}")
    columns = grid_vectors(second, "vectors on the right").T
    result = np.empty((len(first), len(second)), np.float32)
    step = max(1, _BLOCK // max(len(second), first.shape[1], 1))
    for start in range(0, len(first), step):
        result[start : start + step] = grid_vectors(first[start : start + step], "vectors on the left", start) @ columns
    return result
