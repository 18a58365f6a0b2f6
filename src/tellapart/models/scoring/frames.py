"""Models that take images, given videos: whatever is computed of one image is averaged over a video's frames."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.models.protocols import Pixels, Vectors


class Frames(list[Any]):
    """The frames of a video, each as pixels or as the model prepared it."""


def list_frames(pixels: Pixels) -> list[Pixels]:
    """Return a video's frames, or an image alone: each `(height, width, 3)`."""
    return list(pixels) if pixels.ndim == 4 else [pixels]


def prepare_slot(prepare: Callable[[Pixels], Any] | None, *, whole: bool = False) -> Callable[[Pixels], Any]:
    """Return the preparation of an image or a video `(frames, height, width, 3)`; `whole` leaves videos."""
    prepare_frame = prepare or (lambda pixels: pixels)
    return lambda pixels: (
        Frames(map(prepare_frame, pixels)) if pixels.ndim == 4 and not whole else prepare_frame(pixels)
    )


def encode_slots(encode: Callable[[Sequence[Any]], Vectors], slots: Sequence[Any]) -> Vectors:
    """Encode images, and videos by the mean of their frames' vectors: float32 `(n, dimensions)`.

    The mean is scaled to the mean length of the frames' vectors: a model's unit vectors give a unit vector.
    """
    vectors, counts = encode([image for slot in slots for image in _images_of(slot)]), _count_images(slots)
    if max(counts, default=1) == 1 or getattr(vectors, "ndim", 0) != 2:  # a wrong output is refused on use
        return vectors
    rows = []
    for frame_vectors in np.split(vectors.astype(np.float64), np.cumsum(counts)[:-1]):
        mean = frame_vectors.mean(axis=0)
        length = np.linalg.norm(mean)
        if len(frame_vectors) > 1 and length > 0:
            mean = mean * (np.linalg.norm(frame_vectors, axis=1).mean() / length)
        rows.append(mean)
    return np.stack(rows).astype(np.float32)


def score_slots(
    score: Callable[[Sequence[Any], Sequence[str]], NDArray[np.float32]], slots: Sequence[Any], texts: Sequence[str]
) -> NDArray[np.float32]:
    """Score pairs, those of a video by the mean over its frames: float32 `(n,)`."""
    counts = _count_images(slots)
    images = [image for slot in slots for image in _images_of(slot)]
    scores = score(images, [text for text, count in zip(texts, counts, strict=True) for _ in range(count)])
    if max(counts, default=1) == 1 or getattr(scores, "ndim", 0) != 1:
        return scores
    parts = np.split(scores.astype(np.float64), np.cumsum(counts)[:-1])
    return np.array([part.mean() for part in parts], np.float32)


def _images_of(slot: object) -> Sequence[Any]:
    return slot if isinstance(slot, Frames) else [slot]


def _count_images(slots: Sequence[Any]) -> list[int]:
    return [len(_images_of(slot)) for slot in slots]
