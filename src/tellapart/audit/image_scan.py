"""Every picture of a set is decoded once; what the checks need of it is kept."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tellapart.audit.change import Change, change_of
from tellapart.data.images import pixel_hash
from tellapart.data.pairset import PairSet
from tellapart.data.perceptual import Prints, perceptual_hash, prints, thumbnail
from tellapart.data.progress import Progress

__all__ = ["Look", "look"]


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """What was seen of a set's pictures.

    Attributes:
        references: distinct references, in the order in which items name them.
        pixels: reference -> hash of the decoded pixels.
        prints: perceptual hash and thumbnail of each reference.
        changes: of each item; empty if items have one picture.

    >>> Look((), {}, prints([]), ()).references
    ()
    """

    references: tuple[str, ...]
    pixels: dict[str, str]
    prints: Prints
    changes: tuple[Change, ...]


def look(pairs: PairSet, *, changes: bool = True, progress: Progress | None = None) -> Look:
    """Decode a set's pictures, item by item.

    Args:
        pairs: the set.
        changes: whether pictures of an item are compared.
        progress: told what is done.

    Raises:
        DataError: a picture is missing or cannot be decoded.

    >>> from tellapart.benchmarks.benchmark import find_benchmark
    >>> seen = look(find_benchmark("demo").pairs().select(range(2)))
    >>> len(seen.references), len(seen.changes), len(set(seen.pixels.values()))
    (4, 2, 4)
    """
    compare = changes and pairs.shape[0] > 1
    pixels: dict[str, str] = {}
    kept: list[tuple[int, NDArray[np.uint8]]] = []
    found: list[Change] = []
    for place, item in enumerate(pairs.items):
        wanted = item.images if compare else [name for name in item.images if name not in pixels]
        decoded = {name: pairs.pixels(name) for name in dict.fromkeys(wanted)}
        for name, picture in decoded.items():
            if name not in pixels:
                pixels[name] = pixel_hash(picture)
                kept.append((perceptual_hash(picture), thumbnail(picture)))
        if compare:
            found.append(change_of([decoded[name] for name in item.images]))
        if progress:
            progress("items", place + 1, len(pairs))
    return Look(tuple(pixels), pixels, prints(kept), tuple(found))
