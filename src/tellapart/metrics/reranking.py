"""Two-stage retrieval: a cheap score picks the candidates, a costly one orders them, the rest stays below.

The protocol of ALBEF and X-VLM: contrastive similarity picks the top k of a gallery, the matching head scores
these pairs again. Each direction has separate candidates; for text to image pass the transposed scores.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellapart.data.scores import join_names
from tellapart.errors import MetricError, ScoreError

_LARGEST = 2.0**22  # integers up to four times this are exact in float32


def candidates(first: ArrayLike, k: int) -> NDArray[np.int64]:
    """Return the pairs to be scored again, int64 `(candidate, 2)`: query and entry, in order.

    A query's candidates are its `k` highest entries, and every entry tied with the lowest of these.

    `first`: float32 `(query, entry)`, the scores of the first stage.

    Source: VLUE's X-VLM baseline (`k_test` = 256).

    >>> candidates([[0.9, 0.1, 0.5], [0.3, 0.3, 0.1]], k=1).tolist()
    [[0, 0], [1, 0], [1, 1]]
    """
    values = _check_finite(first)
    if k < 1:
        raise MetricError(f"candidates: k must be at least 1; got {k}")
    cut = min(k, values.shape[1])
    lowest = np.partition(values, -cut, axis=1)[:, -cut]
    return np.argwhere(values >= lowest[:, None]).astype(np.int64)


def rerank(first: ArrayLike, pairs: ArrayLike, second: ArrayLike) -> NDArray[np.float32]:
    """Return scores that order each gallery by the second stage, and all other entries below: float32 `(query, entry)`.

    The entries that were not scored again keep their first scores and so their order; each candidate gets an integer
    above them, its place among the query's second scores. Ties stay ties. Only the order within a row is
    meaningful: pass the result to `scores_both_ways` and read the direction it was made for.

    `first`: float32 `(query, entry)`, the scores of the first stage; `pairs`: int64 `(candidate, 2)`, as from
    `candidates`; `second`: float32 `(candidate,)`, their scores in the second stage.

    >>> rerank([[0.9, 0.1, 0.5]], [[0, 0], [0, 2]], [-3.0, 4.0]).tolist()
    [[1.0, 0.10000000149011612, 2.0]]
    """
    result = _check_finite(first).copy()
    place, scores = np.asarray(pairs), np.asarray(second, dtype=np.float32)  # where: (candidate, 2)
    if place.ndim != 2 or place.shape[1] != 2 or place.dtype.kind not in "iu" or scores.shape != (len(place),):
        raise ScoreError(
            f"rerank needs integer pairs (candidate, 2) and one second score for each; got {place.dtype} {place.shape} "
            f"and {scores.shape}"
        )
    if len(bad := np.flatnonzero(~np.isfinite(scores))):
        raise ScoreError(f"{len(bad)} second scores are not finite: candidates {join_names([str(row) for row in bad])}")
    if len(place) and ((place < 0) | (place >= result.shape)).any():
        raise MetricError(f"a pair lies outside the scores, which are {result.shape[0]} queries by {result.shape[1]}")
    if len(np.unique(place, axis=0)) < len(place):
        raise MetricError("a pair of query and entry is given twice; give each candidate one second score")
    query = place[:, 0]
    order = np.lexsort((scores, query))
    new_query = np.diff(query[order], prepend=-1) != 0
    step = np.diff(scores[order], prepend=np.float32(0)) != 0
    rises = np.cumsum(step | new_query)
    rank = rises - np.maximum.accumulate(np.where(new_query, rises, 0))  # from 0 within the query
    floor = np.floor(result.max(axis=1)) + 1
    result[query[order], place[order, 1]] = floor[query[order]] + rank
    return result


def _check_finite(first: ArrayLike) -> NDArray[np.float32]:
    values = np.asarray(first, dtype=np.float32)
    if values.ndim != 2 or values.size == 0:
        raise ScoreError(f"two-stage retrieval needs first scores (query, entry); got shape {values.shape}")
    if len(bad := np.flatnonzero(~(np.abs(values) < _LARGEST).all(axis=1))):
        raise ScoreError(
            f"first scores must be finite and below {_LARGEST:.0f} in size; not so in the rows of {len(bad)} queries: "
            f"{join_names([str(row) for row in bad])}"
        )
    return values
