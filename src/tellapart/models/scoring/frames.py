"""Models that take images, given videos: whatever is computed of one image is averaged over a video's frames."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.models.protocols import Pixels


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


def average_frames(
    compute: Callable[..., NDArray[np.float32]], slots: Sequence[Any], texts: Sequence[str] | None = None
) -> NDArray[np.float32]:
    """Compute vectors `(n, dimensions)` of images, or scores `(n,)` of images with texts; of a video their mean.

    A mean of vectors is scaled to the mean length of the frames' vectors: a model's unit vectors give a unit vector.
    """
    frames = [slot if isinstance(slot, Frames) else [slot] for slot in slots]
    images, counts = [*chain.from_iterable(frames)], [*map(len, frames)]
    repeated = () if texts is None else ([*chain.from_iterable(map(repeat, texts, counts))],)
    numbers = compute(images, *repeated)
    # A wrong output is refused on use.
    if max(counts, default=1) == 1 or getattr(numbers, "ndim", 0) != (2 if texts is None else 1):
        return numbers
    parts = np.split(numbers.astype(np.float64), np.cumsum(counts)[:-1])
    return np.array([_mean_of(part) for part in parts], np.float32)


def _mean_of(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    mean: NDArray[np.float64] = numbers.mean(axis=0)
    length = np.linalg.norm(mean)
    if numbers.ndim == 2 and len(numbers) > 1 and length > 0:
        mean = mean * (np.linalg.norm(numbers, axis=1).mean() / length)
    return mean
