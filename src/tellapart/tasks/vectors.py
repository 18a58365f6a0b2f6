"""Vectors of images and texts from the store, and the table of their similarities."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tellapart.models.protocols import DualEncoder, Vectors
from tellapart.tasks.task import Session

__all__ = ["similarity_table", "stored_vectors"]

#: Images and texts whose similarity is computed at once.
_IMAGES, _TEXTS = 64, 1024


def stored_vectors(model: DualEncoder, session: Session, keys: Sequence[str]) -> Vectors:
    """Return the vectors that the store holds under these hashes, in their order: float32 `(key, ...)`.

    >>> from tellapart.models.find import find_model
    >>> from tellapart.models.store import EmbeddingStore
    >>> model, store = find_model("demo-encoder"), EmbeddingStore(None)
    >>> store.put_vectors(model.fingerprint, {"aa": np.ones(2, np.float32), "bb": np.zeros(2, np.float32)})
    >>> stored_vectors(model, Session(pictures=lambda reference: b"", store=store), ["bb", "aa", "bb"]).tolist()
    [[0.0, 0.0], [1.0, 1.0], [0.0, 0.0]]
    """
    stored = session.store.vectors(model.fingerprint, set(keys))
    return np.stack([stored[key] for key in keys])


def similarity_table(model: DualEncoder, images: Vectors, texts: Vectors) -> NDArray[np.float32]:
    """Return the model's own similarity of every image with every text, block by block: float32 `(image, text)`.

    >>> from tellapart.models.find import find_model
    >>> similarity_table(find_model("demo-encoder"), np.eye(2, dtype=np.float32), np.eye(2, dtype=np.float32)).shape
    (2, 2)
    """
    whole = np.empty((len(images), len(texts)), np.float32)
    for top in range(0, len(images), _IMAGES):
        for left in range(0, len(texts), _TEXTS):
            block = model.similarity(images[top : top + _IMAGES], texts[left : left + _TEXTS])
            whole[top : top + _IMAGES, left : left + _TEXTS] = block
    return whole
