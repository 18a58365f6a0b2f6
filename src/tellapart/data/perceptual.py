"""Perceptual hashes: pictures that look alike have hashes that differ in few bits.

The hash is pHash: the signs of the 64 lowest frequencies of a 32 by 32 grey picture about their median. It knows
neither colour nor brightness, so a thumbnail of 8 by 8 colours must agree, too.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: Bits that may differ between the hashes of near-duplicates, of 64.
BITS = 4

#: How far apart their thumbnails may lie on average, in levels of 255.
LEVELS = 6.0

_SIDE, _LOW, _THUMB = 32, 8, 8

#: Pairs of pictures that are compared at once.
_BLOCK = 1 << 16

#: The places at which the 64 bits are cut: two hashes that differ in at most 4 bits agree in one of 5 parts.
_CUTS = ((0, 13), (13, 13), (26, 13), (39, 13), (52, 12))


@dataclass(frozen=True, slots=True, eq=False)
class ImageHashes:
    """Hashes, uint64 `(picture,)`, and thumbnails, uint8 `(picture, 192)`, to find near-duplicates."""

    hashes: NDArray[np.uint64]
    thumbnails: NDArray[np.uint8]


def perceptual_hash(pixels: NDArray[np.uint8]) -> int:
    """Return the pHash of an RGB picture, uint8 `(height, width, 3)`: 64 bits, the highest first.

    Source: Zauner (2010), Implementation and Benchmarking of Perceptual Image Hash Functions, sec. 3.2.1.
    """
    from PIL import Image
    from scipy.fft import dctn

    grey = Image.fromarray(pixels).convert("L").resize((_SIDE, _SIDE), Image.Resampling.LANCZOS)
    # In float64, and rounded: a flat picture's frequencies are zero, not noise.
    frequencies = np.round(dctn(np.asarray(grey, np.float64))[:_LOW, :_LOW], 6).ravel()
    bits = frequencies > np.median(frequencies)
    return int.from_bytes(np.packbits(bits).tobytes(), "big")


def thumbnail(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the mean colours of 8 by 8 fields of an RGB picture: uint8 `(192,)`."""
    from PIL import Image

    small = Image.fromarray(pixels).resize((_THUMB, _THUMB), Image.Resampling.BOX)
    return np.asarray(small, np.uint8).ravel()


def gather_hashes(pictures: Sequence[tuple[int, NDArray[np.uint8]]]) -> ImageHashes:
    """Gather hashes and thumbnails."""
    hashes = np.array([value for value, _ in pictures], np.uint64)
    small = np.array([colours for _, colours in pictures], np.uint8).reshape(len(pictures), 3 * _THUMB**2)
    return ImageHashes(hashes, small)


def near_duplicates(ours: ImageHashes, theirs: ImageHashes) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield the positions of near-duplicates, ours and theirs; a pair may come more than once.

    Exact: every pair of hashes that differ in at most 4 bits agrees in one of five parts of them, so only those that
    share a part are compared. Memory is bounded.
    """
    for start, width in _CUTS:
        mask = np.uint64((1 << width) - 1)
        parts = ((hashes >> np.uint64(start)) & mask for hashes in (ours.hashes, theirs.hashes))
        for positions in _equal_values(*parts):
            alike = _count_bits(ours.hashes[positions[0]] ^ theirs.hashes[positions[1]]) <= BITS
            i, j = (np.broadcast_to(side, alike.shape)[alike] for side in positions)
            for at in range(0, len(i), _BLOCK // 192):  # a thumbnail has 192 values
                a, b = i[at : at + _BLOCK // 192], j[at : at + _BLOCK // 192]
                apart = np.abs(ours.thumbnails[a].astype(np.int16) - theirs.thumbnails[b]).mean(axis=1)
                yield a[apart <= LEVELS], b[apart <= LEVELS]


def _equal_values(
    ours: NDArray[np.uint64], theirs: NDArray[np.uint64]
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield the positions of equal values, ours and theirs, which broadcast to at most `_BLOCK` pairs."""
    order, edge = np.argsort(theirs), math.isqrt(_BLOCK)
    first, last = (np.searchsorted(theirs[order], ours, side) for side in ("left", "right"))
    is_frequent = last - first >= edge
    for value in np.unique(ours[is_frequent]):  # all against all, several times as fast as pair by pair
        i, j = np.flatnonzero(ours == value), np.flatnonzero(theirs == value)
        for a, b in itertools.product(range(0, len(i), edge), range(0, len(j), edge)):
            yield i[a : a + edge, None], j[b : b + edge]
    # Other pairs are numbered: those of our first value, of the second... Each ends before this number.
    ends = np.cumsum(np.where(is_frequent, 0, last - first))
    count = int(ends[-1]) if len(ends) else 0
    for at in range(0, count, _BLOCK):
        pairs = np.arange(at, min(at + _BLOCK, count))
        i = np.searchsorted(ends, pairs, "right")
        yield i, order[last[i] - ends[i] + pairs]


def _count_bits(words: NDArray[np.uint64]) -> NDArray[np.uint8]:
    if hasattr(np, "bitwise_count"):  # numpy 1 has none
        return np.bitwise_count(words)
    counts: NDArray[np.uint8] = np.unpackbits(words[..., None].view(np.uint8), axis=-1).sum(axis=-1, dtype=np.uint8)
    return counts
