"""Vectors of a pair set from a frozen dual encoder: one for every image and every text, kept in the store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tellapart.data.pairset import PairSet
from tellapart.data.progress import Progress
from tellapart.errors import ModelError
from tellapart.models.protocols import DualEncoder, Model
from tellapart.models.scoring.compute import Job, compute_images, compute_texts
from tellapart.models.scoring.deferred import Deferred
from tellapart.models.store.content_hash import text_hash
from tellapart.models.store.embedding_store import EmbeddingStore


@dataclass(frozen=True, slots=True, eq=False)
class Embeddings:
    """Vectors of a pair set's entries, in its order.

    Attributes:
        images: float32 `(item, image, dimensions)`; None if they were not asked for.
        texts: float32 `(item, text, dimensions)`; None likewise.
        hashes: image reference -> hash of its pixels.
    """

    images: NDArray[np.float32] | None
    texts: NDArray[np.float32] | None
    hashes: Mapping[str, str]


def embeddings(
    model: Model | Deferred,
    pairs: PairSet,
    *,
    store: EmbeddingStore,
    images: bool = True,
    texts: bool = True,
    batch_size: int | None = None,
    progress: Progress | None = None,
) -> Embeddings:
    """Encode missing entries, and return the vectors as the model gives them (most scale them to length one).

    >>> from tellapart.benchmarks.find import load_pairs
    >>> from tellapart.models.find import find_model
    >>> few = load_pairs("demo").select(range(3))
    >>> vectors = embeddings(find_model("demo-encoder"), few, store=EmbeddingStore(None))
    >>> vectors.images.shape == vectors.texts.shape, vectors.images.shape[:2]
    (True, (3, 2))
    """
    loaded = model.load() if isinstance(model, Deferred) else model
    if not isinstance(loaded, DualEncoder):
        raise ModelError(
            f"{model.name} has no vectors of images and texts apart; name a dual encoder, for example demo-encoder"
        )
    encoder: DualEncoder = loaded
    hashes: dict[str, str] = {}

    job = Job(encoder, pairs, store, batch_size, progress or (lambda *_: None), hashes)
    of_images = compute_images(job, encoder) if images else {}
    of_texts = compute_texts(job, encoder.encode_texts, vectors=True) if texts else {}
    return Embeddings(
        job.stack_vectors(of_images, [[hashes[image] for image in item.images] for item in pairs.items])
        if images
        else None,
        job.stack_vectors(of_texts, [[*map(text_hash, item.texts)] for item in pairs.items]) if texts else None,
        hashes,
    )
