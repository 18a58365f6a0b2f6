"""Boundary grounding: the moment of a video at which "before" becomes "after".

Frames are taken at 5 a second and compared with both captions; the boundary score of two adjacent frames is
`s(I1, T1) + s(I2, T2)`, and the moment predicted is the middle between them. EqBen measures the accuracy within a
tolerance, GEB+ the F1 of several predictions against several gold moments. Both use eight tolerances with a strict
`<`, and both are exact here: nothing is drawn at random.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellapart.data.scores import expect_finite
from tellapart.errors import MetricError, ScoreError

TOLERANCES = (0.1, 0.2, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0)
"""Seconds. EqBen's Avg is the mean over all eight; GEB+'s readme misprints the third as 0.3."""

COUNT_PROBABILITIES = (0.8658, 0.0852, 0.0304, 0.0109, 0.0045, 0.0009, 0.0011, 0.0012)
"""The probabilities of 1 to 8 predictions, from which GEB+'s script draws one number for its whole evaluation."""


def frame_times(duration: float, rate: float = 5.0) -> NDArray[np.float64]:
    """Return the times of the frames of a video in seconds, from 0, `rate` a second: float64 `(frame,)`.

    Source: EqBen appendix A.6 (5 a second).
    """
    frames = int(np.ceil(duration * rate - 1e-9)) if np.isfinite(duration * rate) else 0
    if frames < 2:
        raise MetricError(f"{duration} s at {rate} frames a second are fewer than two frames; a boundary needs two")
    return np.arange(frames) / rate


def boundary_scores(before: ArrayLike, after: ArrayLike) -> NDArray[np.float32]:
    """Return `s(I1, T1) + s(I2, T2)` of each two adjacent frames: float32 `(frame - 1,)`.

    `before` and `after` are similarities of each frame `(frame,)` to the captions of the states before and after.

    Source: EqBen appendix A.6.

    >>> boundary_scores([1.0, 1.0, 0.0], [0.0, 0.5, 1.0])
    array([1.5, 2. ], dtype=float32)
    """
    first, second = np.asarray(before, dtype=np.float64), np.asarray(after, dtype=np.float64)
    if first.ndim != 1 or first.shape != second.shape or len(first) < 2:
        raise ScoreError(
            f"boundary_scores needs a similarity of each of two or more frames to both captions; got shapes "
            f"{first.shape}, {second.shape}"
        )
    return _check_finite((first[:-1] + second[1:]).astype(np.float32))


def boundary_times(times: ArrayLike) -> NDArray[np.float64]:
    """Return the moment in the middle of each two adjacent frames: float64 `(frame - 1,)`.

    >>> boundary_times([0.0, 0.2, 0.4]).round(2)
    array([0.1, 0.3])
    """
    frames = np.asarray(times, dtype=np.float64)
    if frames.ndim != 1 or len(frames) < 2 or not (np.diff(frames) > 0).all():
        raise MetricError(f"boundary_times needs rising times of two or more frames; got shape {frames.shape}")
    return np.asarray((frames[:-1] + frames[1:]) / 2)


def boundary_accuracy(
    times: ArrayLike, scores: ArrayLike, gold: Sequence[float], tolerances: Sequence[float] = TOLERANCES
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return whether the moment with the highest score is right, strict and tie-neutral: float64 `(tolerance,)` each.

    Moments, in seconds, and scores, compared in float32, are `(candidate,)`. Right is: nearer than the tolerance
    (strictly) to a gold moment. If moments tie at the top the strict value is 1 only if every one of them is right, the
    tie-neutral value is their share that is.

    Source: EqBen appendix A.6 and Table 12.

    >>> boundary_accuracy([0.1, 0.3, 0.5], [0.2, 0.9, 0.9], [0.3], tolerances=(0.1, 0.5))
    (array([0., 1.]), array([0.5, 1. ]))
    """
    moments, values, true = _check_query(times, scores, gold, tolerances)
    top = moments[values == values.max()]
    near = np.abs(top[:, None] - true).min(axis=1)[:, None] < np.asarray(tolerances)  # (tied moment, tolerance)
    return near.all(axis=0).astype(np.float64), near.mean(axis=0)


def random_accuracy(
    gold: Sequence[float], duration: float, tolerances: Sequence[float] = TOLERANCES
) -> NDArray[np.float64]:
    """Return the chance that a moment drawn evenly from the video is right: float64 `(tolerance,)`; exact.

    Source: GEB+ `evaluation_utils.py` (drawn there, once a query).

    >>> random_accuracy([0.5, 9.0], duration=10.0, tolerances=(1.0,))
    array([0.35])
    """
    true, width = _sort_moments("gold", gold), _check_tolerances(tolerances)[:, None]
    if not (np.isfinite(duration) and duration > 0) or (true < 0).any() or (true > duration).any():
        raise MetricError(f"gold moments {list(gold)} do not lie in a video of {duration} s")
    # Both (tolerance, moment), rising with the moment.
    starts, stops = np.clip(true - width, 0, duration), np.clip(true + width, 0, duration)
    # Neighbouring windows may overlap: each adds the part beyond the end of those before it.
    covered = np.concatenate([np.zeros_like(width), np.maximum.accumulate(stops, axis=1)[:, :-1]], axis=1)
    return np.asarray(np.maximum(stops - np.maximum(starts, covered), 0).sum(axis=1) / duration)


def boundary_f1(
    times: ArrayLike,
    scores: ArrayLike,
    gold: Sequence[float],
    tolerances: Sequence[float] = TOLERANCES,
    predictions: int | None = None,
) -> NDArray[np.float64]:
    """Return GEB+'s F1 of the highest-scoring moments against the gold moments: float64 `(tolerance,)`.

    Gold moments, in order of time, each take the nearest free prediction, and it counts if it is nearer than the
    tolerance. GEB+'s script draws the number of predictions once for all queries; here it is `predictions` or, by
    default, the exact expectation of that draw. If candidates tie at the cut the value is that of the worst choice
    among them, so that a tie is never right.

    Source: GEB+ `evaluation_utils.py` (`EvalGrd`).

    >>> boundary_f1([1.0, 2.0, 5.0], [0.9, 0.8, 0.7], [1.0, 5.0], tolerances=(0.5,), predictions=2)
    array([0.5])
    """
    moments, values, true = _check_query(times, scores, gold, tolerances)
    counts = range(1, len(COUNT_PROBABILITIES) + 1) if predictions is None else (predictions,)
    probabilities = COUNT_PROBABILITIES if predictions is None else (1.0,)
    if min(counts) < 1:
        raise MetricError(f"boundary_f1: predict at least one moment; got {predictions}")
    limits = _check_tolerances(tolerances)
    f1 = np.zeros(len(limits))
    for count, probability in zip(counts, probabilities, strict=True):
        predicted = min(count, len(moments))
        cut = np.partition(values, -predicted)[-predicted]  # the lowest score that is still among the predictions
        sure, tied = np.sort(moments[values > cut]), np.sort(moments[values == cut])
        places = predicted - len(sure)  # for the tied moments
        hits = np.array([_fewest_hits(sure, tied, places, true, limit) for limit in limits])
        f1 += probability * (2 * hits / (predicted + len(true)))
    return f1


def _fewest_hits(
    sure: NDArray[np.float64], tied: NDArray[np.float64], places: int, gold: NDArray[np.float64], tolerance: float
) -> int:
    """Return the fewest gold moments that are hit, whichever tied moments take the `places` behind the sure ones.

    All moments rise. The worst choice begins with the tied moments that are near no gold moment.
    """
    if places < len(tied):
        near = (np.abs(tied[:, None] - gold) < tolerance).any(axis=1)
        places, tied = max(0, places - int((~near).sum())), tied[near]
    if places in (0, len(tied)):
        return _count_hits(np.sort(np.concatenate([sure, tied[:places]])), gold, tolerance)
    if len(gold) == 1:
        return 1  # every tied moment that is left is near it
    return _fewest_hits_of_choices(tuple(sure.tolist()), tuple(tied.tolist()), places, gold.tolist(), tolerance)


def _count_hits(predicted: NDArray[np.float64], gold: NDArray[np.float64], tolerance: float) -> int:
    """Return how many gold moments, in order of time, are nearer than the tolerance to the nearest free prediction."""
    free = predicted.copy()
    hits = 0
    for moment in gold:
        distances = np.abs(free - moment)
        if distances.size and distances[nearest := int(distances.argmin())] < tolerance:
            hits += 1
            free[nearest] = np.inf  # taken
    return hits


def _fewest_hits_of_choices(
    sure: tuple[float, ...], tied: tuple[float, ...], places: int, gold: Sequence[float], tolerance: float
) -> int:
    """Return the fewest hits by following every way in which leaving out tied moments can matter.

    A further prediction adds one hit or none, so it is enough to leave out as few as must be. A gold moment either
    takes the nearest free prediction, or every tied one that is nearer than the nearest sure one is left out. Nothing
    between gives fewer hits: if it took a tied one with nearer ones left out, it could take the nearest of these.
    """
    # Hits so far, tied moments left out so far, free sure moments, free tied moments.
    states = {(0, 0, sure, tied)}
    for moment in gold:
        following = set()
        for hits, left_out, free_sure, free_tied in states:
            nearest = min(free_sure, key=lambda time: abs(time - moment), default=np.inf)
            reach = min(tolerance, abs(nearest - moment))
            hit = abs(nearest - moment) < tolerance
            # Of two equally near the earlier is taken.
            nearer = [t for t in free_tied if (abs(t - moment), t) < (reach, nearest if hit else -np.inf)]
            if nearer:
                taken = min(nearer, key=lambda time: abs(time - moment))
                following.add((hits + 1, left_out, free_sure, _remove_moments(free_tied, [taken])))
            if left_out + len(nearer) <= len(tied) - places:
                rest = _remove_moments(free_sure, [nearest]) if hit else free_sure
                following.add((hits + hit, left_out + len(nearer), rest, _remove_moments(free_tied, nearer)))
        states = following
    return min(hits for hits, *_ in states)


def _remove_moments(moments: tuple[float, ...], taken: Sequence[float]) -> tuple[float, ...]:
    """Return the moments without the taken ones; each taken one removes one equal moment."""
    rest = list(moments)
    for moment in taken:
        rest.remove(moment)
    return tuple(rest)


def _check_query(
    times: ArrayLike, scores: ArrayLike, gold: Sequence[float], tolerances: Sequence[float]
) -> tuple[NDArray[np.float64], NDArray[np.float32], NDArray[np.float64]]:
    moments, values = np.asarray(times, dtype=np.float64), _check_finite(np.asarray(scores, dtype=np.float32))
    if moments.ndim != 1 or moments.shape != values.shape or not np.isfinite(moments).all():
        raise ScoreError(f"one finite time and one score for each candidate; got {moments.shape} and {values.shape}")
    _check_tolerances(tolerances)
    return moments, values, _sort_moments("gold", gold)


def _check_finite(values: NDArray[np.float32]) -> NDArray[np.float32]:
    if values.size == 0:
        raise ScoreError("no candidate moments; a query needs at least one")
    expect_finite(values, "boundary scores", "candidates")
    return values


def _sort_moments(noun: str, values: Sequence[float]) -> NDArray[np.float64]:
    moments: NDArray[Any] = np.unique(np.asarray(values, dtype=np.float64))  # a moment marked twice is one moment
    if moments.size == 0 or not np.isfinite(moments).all():
        raise MetricError(f"a query needs one or more finite {noun} moments; got {list(values)}")
    return moments


def _check_tolerances(values: Sequence[float]) -> NDArray[np.float64]:
    limits = np.asarray(values, dtype=np.float64)
    if limits.ndim != 1 or limits.size == 0 or not (limits > 0).all():
        raise MetricError(f"tolerances are seconds above 0; got {list(values)}")
    return limits
