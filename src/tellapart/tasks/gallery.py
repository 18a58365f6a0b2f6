"""A dual encoder on a whole gallery: every distinct image and caption encoded once, then ranked both ways."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.data.task_records import RetrievalSet
from tellapart.metrics.retrieval import Retrieval, embeddings_both_ways, scores_both_ways
from tellapart.models.content_hash import image_hashes, text_hash
from tellapart.models.protocols import DualEncoder
from tellapart.models.scoring import score
from tellapart.tasks.task import Session
from tellapart.tasks.vectors import similarity_table, stored_vectors

__all__ = ["rank_gallery"]


def rank_gallery(model: DualEncoder, records: RetrievalSet, session: Session) -> Retrieval:
    """Encode a gallery and rank it both ways.

    A model that says so of itself (`ranks_by_cosine`) is ranked by the exact cosine of its vectors, in seconds and
    without the matrix of scores; any other by its own `similarity`, block by block.

    Raises:
        DataError: an image is missing or cannot be decoded.
        ModelError: the model's output is not what its protocol says.
        StoreError: the store cannot be read or written.

    >>> from tellapart.benchmarks.find import load_pairs
    >>> from tellapart.models.store import EmbeddingStore
    >>> pairs = load_pairs("demo")
    >>> session = Session(pictures=pairs.read_bytes, store=EmbeddingStore(None))
    >>> from tellapart.models.bundled import demo_encoder
    >>> from tellapart.models.options import ModelOptions
    >>> first = pairs.items[0]
    >>> two = RetrievalSet.of("two", list(first.images), [[text] for text in first.texts])
    >>> rank_gallery(demo_encoder(ModelOptions()), two, session).image_to_text.recall(1).tolist()
    [1.0, 1.0]
    """
    pairs = PairSet(records.name, tuple(_items(records)), Path(), read=session.pictures)
    score(model, pairs, store=session.store, batch_size=session.batch, progress=session.progress)
    hash_of = image_hashes(pairs, store=session.store)
    images = stored_vectors(model, session, [hash_of[reference] for reference in records.images])
    captions = stored_vectors(model, session, [text_hash(caption) for caption in records.captions])
    true = np.array(records.pairs)
    if getattr(model, "ranks_by_cosine", False) and images.shape[1] == captions.shape[1]:
        return embeddings_both_ways(images, captions, true)
    return scores_both_ways(similarity_table(model, images, captions), true)


def _items(records: RetrievalSet) -> Iterator[Item]:
    """A pair for each true one: together they hold every image and every caption."""
    for number, (image, caption) in enumerate(records.pairs):
        yield Item(id=str(number), images=(records.images[image],), texts=(records.captions[caption],))
