"""A dual encoder of 64 numbers from a hash: what a run costs without a network."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np

from tellapart.models.protocols import Vectors
from tellapart.models.vectors import normalise


class Hashing:
    """Its vectors say nothing, and come at once."""

    kind: Literal["similarity"] = "similarity"
    name, fingerprint = "hashing", "bench:hashing-1"

    def encode_images(self, images: Sequence[Any]) -> Vectors:
        """Hash pixels."""
        return _hash(np.asarray(image).tobytes() for image in images)

    def encode_texts(self, texts: Sequence[str]) -> Vectors:
        """Hash bytes."""
        return _hash(text.encode() for text in texts)

    def similarity(self, images: Vectors, texts: Vectors) -> Vectors:
        """Return cosines."""
        return images @ texts.T


def _hash(contents: Iterable[bytes]) -> Vectors:
    digests = [np.frombuffer(hashlib.shake_256(content).digest(64), np.int8) for content in contents]
    return normalise(np.stack(digests).astype(np.float32))


HASHING = Hashing()
