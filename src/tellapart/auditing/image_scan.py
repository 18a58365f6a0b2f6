"""A scan of a set's pictures: each is decoded once, and everything that the checks need is kept."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tellapart.auditing.change import Change, change_of
from tellapart.data.images import pixel_hash
from tellapart.data.pairset import PairSet
from tellapart.data.perceptual import ImageHashes, gather_hashes, perceptual_hash, thumbnail
from tellapart.data.progress import Progress
from tellapart.data.video import as_picture


@dataclass(frozen=True, slots=True, eq=False)
class ImageScan:
    """The facts of a set's pictures that the checks need.

    Attributes:
        references: distinct references, in the order in which items name them.
        pixels: reference -> hash of the decoded pixels.
        hashes: perceptual hash and thumbnail of each reference; of a video as `as_picture` shows it.
        changes: of each item; empty if items have one picture.
    """

    references: tuple[str, ...]
    pixels: dict[str, str]
    hashes: ImageHashes
    changes: tuple[Change, ...]


def scan_images(pairs: PairSet, *, changes: bool = True, progress: Progress | None = None) -> ImageScan:
    """Decode a set's pictures, item by item.

    >>> from tellapart.benchmarks.find import load_pairs
    >>> scan = scan_images(load_pairs("demo").select(range(2)))
    >>> len(scan.references), len(scan.changes), len(set(scan.pixels.values()))
    (4, 2, 4)
    """
    compare = changes and pairs.shape[0] > 1
    pixels: dict[str, str] = {}
    hashes: list[tuple[int, NDArray[np.uint8]]] = []
    item_changes: list[Change] = []
    for done, item in enumerate(pairs.items, start=1):
        names = item.images if compare else [name for name in item.images if name not in pixels]
        decoded = {name: pairs.pixels(name) for name in dict.fromkeys(names)}
        for name, picture in decoded.items():
            if name not in pixels:
                pixels[name] = pixel_hash(picture)
                look = as_picture(picture)
                hashes.append((perceptual_hash(look), thumbnail(look)))
        if compare:
            item_changes.append(change_of([decoded[name] for name in item.images]))
        if progress:
            progress("items", done, len(pairs))
    return ImageScan(tuple(pixels), pixels, gather_hashes(hashes), tuple(item_changes))
