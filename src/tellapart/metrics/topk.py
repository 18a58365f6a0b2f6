"""The top entries of a gallery for each query, found block by block, for people to look at."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["DEPTH", "TopEntries", "merge_top_entries", "top_entries"]

#: Entries for each query, as in COCO-Counterfactuals' Figure 9.
DEPTH = 5


@dataclass(frozen=True, slots=True, eq=False)
class TopEntries:
    """The entries that score most for each query, the best first; equal scores keep the gallery's order.

    Attributes:
        entry: positions in the gallery, int64 `(query, k)`; `k` is `DEPTH`, or less if the gallery is smaller.
        score: their scores, float32 `(query, k)`.

    >>> TopEntries(np.array([[1, 0]]), np.float32([[0.9, 0.1]])).of(0)
    ((1, 0.8999999761581421), (0, 0.10000000149011612))
    """

    entry: NDArray[np.int64]
    score: NDArray[np.float32]

    def of(self, query: int) -> tuple[tuple[int, float], ...]:
        """Return the entries of one query with their scores."""
        return tuple(zip(self.entry[query].tolist(), self.score[query].tolist(), strict=True))


def top_entries(scores: NDArray[np.float32], *, start: int = 0) -> TopEntries:
    """Return the top entries of each row without sorting it.

    Args:
        scores: finite float32 `(query, entry)`; not changed.
        start: the position in the gallery of the first column.

    >>> top_entries(np.float32([[0, 2, 1, 2]]), start=10).entry
    array([[11, 13, 12, 10]])
    """
    remaining = np.array(scores, dtype=np.float32, order="C")
    rows = np.arange(len(remaining))
    depth = min(DEPTH, remaining.shape[1])
    entry, score = np.empty((len(rows), depth), np.int64), np.empty((len(rows), depth), np.float32)
    for rank in range(depth):
        best = remaining.argmax(axis=1)  # the first of equal ones
        entry[:, rank], score[:, rank] = best + start, remaining[rows, best]
        remaining[rows, best] = -np.inf
    return TopEntries(entry, score)


def merge_top_entries(before: TopEntries | None, after: TopEntries) -> TopEntries:
    """Return the top entries of two parts of a gallery, the first part's ahead if scores are equal.

    >>> part = top_entries(np.float32([[1, 3]]))
    >>> merge_top_entries(part, top_entries(np.float32([[3, 2]]), start=2)).entry
    array([[1, 2, 3, 0]])
    """
    if before is None:
        return after
    entry = np.concatenate([before.entry, after.entry], axis=1)
    score = np.concatenate([before.score, after.score], axis=1)
    order = np.argsort(-score, axis=1, kind="stable")[:, :DEPTH]
    return TopEntries(np.take_along_axis(entry, order, axis=1), np.take_along_axis(score, order, axis=1))
