"""Ties: the tied comparisons of an item, and the expectation when ties are broken at random.

A strict metric calls a tie wrong, so a constant model scores 0 and not chance; a lenient one (`>=`, or `argmax` with
the truth first) calls it right, so a constant model scores 100 %. The tie-neutral value is the mean over all orders
of the tied scores, each equally likely.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellapart.errors import MetricError

TieRule = Literal["wrong", "right", "first", "last"]
"""How a benchmark's own code breaks a tie: a tie is `wrong`, it is `right` (the true entry comes first), or the `first`
or the `last` of the tied in the order of the file comes first (`argmax` takes the first)."""

_MOST_ENTRIES = 6  # 720 orders; beyond it a metric must bring its closed form
_ROWS_AT_ONCE = 1 << 18  # bounds the memory of the enumeration, whatever the number of items


def tie_neutral_by_enumeration(
    strict: Callable[[NDArray[np.float32]], NDArray[np.float64]], scores: ArrayLike
) -> NDArray[np.float64]:
    """Return the mean of `strict` over all orders of each item's tied scores, all equally likely: exact.

    Only for a metric that depends on the order of an item's scores, at most six, and not on their size.

    >>> def first_wins(scores):
    ...     return (scores[:, 0, 0] > scores[:, 0, 1:].max(axis=1)).astype(float)
    >>> tie_neutral_by_enumeration(first_wins, [[[1, 1, 0]], [[1, 1, 1]], [[0, 1, 1]]]).round(3)
    array([0.5  , 0.333, 0.   ])
    """
    values = np.asarray(scores, dtype=np.float32)
    result = strict(values)
    entries = values.shape[1] * values.shape[2]
    flat = values.reshape(len(values), entries)
    ordered = np.sort(flat, axis=1)
    tied = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
    if len(tied) == 0:
        return result
    if entries > _MOST_ENTRIES:
        raise MetricError(
            f"ties are enumerated for items of up to {_MOST_ENTRIES} scores; got "
            f"{values.shape[1]}x{values.shape[2]} items: give the metric a closed form of its tie-neutral value "
            "(Metric.neutral)"
        )
    orders = np.array(list(permutations(range(entries))), dtype=np.float32)  # (order, entry)
    block = max(1, _ROWS_AT_ONCE // len(orders))
    result = result.copy()
    for start in range(0, len(tied), block):
        rows = tied[start : start + block]
        # An entry's level is how many entries lie below it; its place in the permutation decides among equals.
        smaller = (flat[rows][:, :, None] > flat[rows][:, None, :]).sum(axis=2)  # (item, entry)
        broken = smaller[:, None, :].astype(np.float32) * entries + orders  # (item, order, entry), all distinct
        outcome = strict(broken.reshape(-1, *values.shape[1:]))
        outcome = outcome.reshape(len(rows), len(orders), *outcome.shape[1:])
        # Right-or-wrong values sum exactly, so 4 of 24 is the same float64 as 1/6.
        result[rows] = outcome.sum(axis=1) / len(orders)
    return result


def break_ties(scores: ArrayLike, rule: TieRule, true: int = 1) -> NDArray[np.float32]:
    """Return numbers in the order of each item's scores, ties broken by a rule: float32 `(item, image, text)`.

    A metric of them equals that of the benchmark's code. Only for metrics that depend on the order of an item's
    scores and not on their size; with the rule `wrong` ties stay. Scores are in the order of the file for `first` and
    `last`, and the true ones, of which several may be texts of one image, come first for `right`.

    >>> break_ties([[[0.5, 0.5]], [[0.2, 0.5]]], "right").tolist(), break_ties([[[0.5, 0.5]]], "last").tolist()
    ([[[1.0, 0.0]], [[1.0, 3.0]]], [[[0.0, 1.0]]])
    """
    values = np.asarray(scores, dtype=np.float32)
    n, images, texts = values.shape
    flat = values.reshape(n, images * texts)
    ordered = np.sort(flat, axis=1)
    # An entry's level: how many of its item's scores lie below it.
    level = np.stack([(ordered < column[:, None]).sum(axis=1) for column in flat.T], axis=1).reshape(values.shape)
    if rule == "wrong":
        return level.astype(np.float32)
    image, text = np.indices((images, texts))
    if rule == "right":
        favour = (image == text) if true == 1 else text < true
    else:
        favour = image + text if rule == "last" else -(image + text)
    return np.asarray((images + texts) * level + favour, dtype=np.float32)


def tied_comparisons(scores: ArrayLike, true: int = 1) -> NDArray[np.int64]:
    """Return how many of each item's comparisons are ties, in float32: int64 (item,).

    A comparison is between a true pair and another entry of its row or column: four in a 2x2 item, m - 1 in a
    1xm item (true pairs have equal image and text index).

    >>> tied_comparisons([[[0.5, 0.5], [0.2, 0.8]], [[1.0, 1.0], [1.0, 1.0]], [[0.9, 0.3], [0.3, 0.8]]])
    array([1, 4, 0])
    """
    values = np.asarray(scores, dtype=np.float32)
    if true > 1:
        flat = values[:, 0, :]
        return np.asarray((flat[:, :true, None] == flat[:, None, true:]).sum(axis=(1, 2)), dtype=np.int64)
    count = np.zeros(len(values), dtype=np.int64)
    for pair in range(min(values.shape[1:])):
        diagonal = values[:, pair, pair, None]
        row, column = values[:, pair, :] == diagonal, values[:, :, pair] == diagonal
        count += row.sum(axis=1) + column.sum(axis=1) - 2  # the true pair equals itself in both
    return count
