"""Classification: the rank of the true class among all, and recall averaged over classes of unequal size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellapart.data.scores import as_float32, as_numbers, expect_finite
from tellapart.errors import ScoreError
from tellapart.metrics.retrieval import Ranks

_BLOCK = 1 << 22  # scores compared at once


@dataclass(frozen=True, slots=True, eq=False)
class LabelRanks:
    """The rank of each picture's true class, a tie never in its favour, and the class that is first, or -1."""

    ranks: Ranks
    first: NDArray[np.int64]


def rank_labels(scores: ArrayLike, labels: ArrayLike) -> LabelRanks:
    """Count, for each picture, the classes that score more than the true one and as much.

    Scores `(picture, class)` are compared in float32; labels are the true classes, integers `(picture,)` from 0.

    >>> labels = rank_labels([[0.9, 0.1, 0.3], [0.9, 0.9, 0.3]], [0, 1])
    >>> labels.ranks.recall(1), labels.ranks.tie_neutral_recall(1)
    (array([1., 0.]), array([1. , 0.5]))
    """
    table, gold = as_numbers(scores, "scores", "(picture, class)", kinds="fiu"), np.asarray(labels)
    if gold.shape != table.shape[:1] or 0 in table.shape:
        raise ScoreError(
            f"scores must be numbers (picture, class) for {gold.size} labels; got {table.dtype} {table.shape}"
        )
    if gold.dtype.kind not in "iu" or gold.min() < 0 or gold.max() >= table.shape[1]:
        raise ScoreError(f"labels must be integers from 0 to {table.shape[1] - 1}; got {gold.min()} to {gold.max()}")
    higher, tied, first = (np.empty(len(gold), np.int64) for _ in range(3))
    step = max(1, _BLOCK // table.shape[1])
    for start in range(0, len(gold), step):
        rows = slice(start, start + step)
        block = as_float32(table[rows])
        expect_finite(block, "scores", "pictures", first=start)
        true = np.take_along_axis(block, gold[rows, None], axis=1)
        higher[rows] = (block > true).sum(axis=1)
        tied[rows] = (block == true).sum(axis=1) - 1
        alone = (block == block.max(axis=1, keepdims=True)).sum(axis=1) == 1
        first[rows] = np.where(alone, block.argmax(axis=1), -1)
    return LabelRanks(Ranks(higher, tied, np.ones_like(higher)), first)


def class_recall_table(right: NDArray[np.float64], labels: NDArray[np.int64], classes: int) -> NDArray[np.float64]:
    """Lay out outcomes, 0 to 1 `(picture,)`, so that `MeanOfGroups` of their means is the mean of the classes' recalls.

    They are in their class's column, of classes with a picture, then as many columns have 1 there.
    """
    member = (labels[:, None] == np.flatnonzero(np.bincount(labels, minlength=classes))).astype(np.float64)
    return np.concatenate([right[:, None] * member, member], axis=1)
