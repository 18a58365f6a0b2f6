"""Quadruples in memory: two images, their two captions, and captions that are false of each image."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.errors import DataError

__all__ = ["Quadruples"]

Texts = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Quadruples:
    """`n` quadruples.

    Attributes:
        ids: distinct names.
        images: uint8 `(n, 2, size, size, 3)`, RGB.
        texts: text `k` of a quadruple is true of its image `k` and false of the other one.
        paraphrases: for each image, other captions that are true of it and false of the other one.
        foils: for each image, groups of captions that are false of it, a group for each kind of change.
        aspects: attribute, counting or location.
        places: float32 `(n, 2, 5, 3)`: the objects of each image: number of the object, x and y of its centre in
            [-1, 1], right and down; the number is -1 where there are fewer objects.
        source: their origin, for the record.

    Raises:
        DataError: the parts do not have the same length, or the images are not such an array.
    """

    ids: tuple[str, ...]
    images: NDArray[np.uint8]
    texts: tuple[tuple[str, str], ...]
    paraphrases: tuple[tuple[Texts, Texts], ...]
    foils: tuple[tuple[tuple[Texts, ...], tuple[Texts, ...]], ...]
    aspects: tuple[str, ...]
    places: NDArray[np.float32]
    source: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        parts = (self.ids, self.images, self.texts, self.paraphrases, self.foils, self.aspects, self.places)
        lengths = {len(part) for part in parts}
        if len(lengths) != 1:
            raise DataError(f"quadruples: the parts have different lengths: {sorted(lengths)}")
        if self.images.ndim != 5 or self.images.shape[1] != 2 or self.images.dtype != np.uint8:
            raise DataError(
                f"quadruples: expected uint8 images (n, 2, size, size, 3); got {self.images.dtype} {self.images.shape}"
            )

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: NDArray[np.int64]) -> Quadruples:
        """Return some of the quadruples, in the order of `rows`."""
        picked = [int(row) for row in rows]
        return Quadruples(
            ids=tuple(self.ids[row] for row in picked),
            images=self.images[picked],
            texts=tuple(self.texts[row] for row in picked),
            paraphrases=tuple(self.paraphrases[row] for row in picked),
            foils=tuple(self.foils[row] for row in picked),
            aspects=tuple(self.aspects[row] for row in picked),
            places=self.places[picked],
            source=self.source,
        )

    def fingerprint(self) -> str:
        """Return the SHA-256 over ids, captions and pixels."""
        digest = hashlib.sha256(json.dumps([self.ids, self.texts, self.paraphrases, self.foils, self.aspects]).encode())
        digest.update(np.ascontiguousarray(self.images).tobytes())
        digest.update(np.ascontiguousarray(self.places).tobytes())
        return digest.hexdigest()

    def sentences(self) -> list[str]:
        """Return every caption, true and false."""
        true = [text for pair in self.texts for text in pair]
        also = [text for sides in self.paraphrases for side in sides for text in side]
        false = [text for sides in self.foils for side in sides for group in side for text in group]
        return true + also + false
