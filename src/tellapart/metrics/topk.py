"""The first few of a gallery for each query, found block by block: what a person looks at beside a rank."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["DEPTH", "First", "first_of_rows", "merged"]

#: How many entries are kept of each query: those that COCO-Counterfactuals' Figure 9 shows.
DEPTH = 5


@dataclass(frozen=True, slots=True, eq=False)
class First:
    """The entries that score most for each query, the best first; equal scores stand in the gallery's order.

    Attributes:
        entry: positions in the gallery, int64 `(query, k)`; `k` is `DEPTH`, or less where the gallery is smaller.
        score: their scores, float32 `(query, k)`.

    >>> First(np.array([[1, 0]]), np.float32([[0.9, 0.1]])).of(0)
    ((1, 0.8999999761581421), (0, 0.10000000149011612))
    """

    entry: NDArray[np.int64]
    score: NDArray[np.float32]

    def of(self, query: int) -> tuple[tuple[int, float], ...]:
        """Return the entries of one query with their scores.

        >>> First(np.array([[4]]), np.float32([[0.5]])).of(0)
        ((4, 0.5),)
        """
        return tuple(zip(self.entry[query].tolist(), self.score[query].tolist(), strict=True))


def first_of_rows(scores: NDArray[np.float32], *, start: int = 0) -> First:
    """Return the first entries of each row; a few passes for the largest, nothing is sorted.

    Args:
        scores: finite float32 `(query, entry)`; left as they are.
        start: the position in the gallery of the first column.

    >>> first_of_rows(np.float32([[0, 2, 1, 2]]), start=10).entry
    array([[11, 13, 12, 10]])
    """
    left = np.array(scores, dtype=np.float32, order="C")
    rows = np.arange(len(left))
    depth = min(DEPTH, left.shape[1])
    entry, score = np.empty((len(left), depth), np.int64), np.empty((len(left), depth), np.float32)
    for place in range(depth):
        best = left.argmax(axis=1)  # the first of equal ones
        entry[:, place], score[:, place] = best + start, left[rows, best]
        left[rows, best] = -np.inf
    return First(entry, score)


def merged(before: First | None, after: First) -> First:
    """Return the first entries of two parts of a gallery, the first part's ahead where scores are equal.

    >>> part = first_of_rows(np.float32([[1, 3]]))
    >>> merged(part, first_of_rows(np.float32([[3, 2]]), start=2)).entry
    array([[1, 2, 3, 0]])
    """
    if before is None:
        return after
    entry = np.concatenate([before.entry, after.entry], axis=1)
    score = np.concatenate([before.score, after.score], axis=1)
    order = np.argsort(-score, axis=1, kind="stable")[:, :DEPTH]
    return First(np.take_along_axis(entry, order, axis=1), np.take_along_axis(score, order, axis=1))
