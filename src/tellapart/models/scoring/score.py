"""Scoring of pair sets: every distinct image, text or pair is computed once, and kept.

Numbers in the store are not computed again; others are stored batch by batch, so a run that was killed goes on
where it was. No number depends on the batch size, on the order of the items or on the store's content. If the
store holds every score, the model is not used; a deferred one is not even loaded.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.data.progress import Progress
from tellapart.data.scores import Scores
from tellapart.errors import ModelError
from tellapart.models.protocols import (
    DualEncoder,
    Generator,
    KeyReader,
    MatrixScorer,
    Model,
    PairScorer,
    Pixels,
    StackedSimilarity,
    TextScorer,
    Vectors,
)
from tellapart.models.scoring.compute import Job, compute_images, compute_pairs, compute_texts
from tellapart.models.scoring.deferred import Deferred
from tellapart.models.store.batches import compute_named
from tellapart.models.store.content_hash import ImageReader, text_hash
from tellapart.models.store.embedding_store import EmbeddingStore

#: Items whose vectors are stacked, and whose scores are stored, at the same time.
_BLOCK = 256


@dataclass(frozen=True, slots=True)
class Scored:
    """Raw scores, and their cost.

    Attributes:
        scores: of every item, in the pair set's order.
        images_encoded: images that the model computed in this call.
        texts_encoded: texts that it computed.
        texts_shared: those of them that passed a tower in which common beginnings are computed once.
        pairs_scored: image-text pairs that it computed, if it reads both together.
        images_distinct: different images (by their pixels) that its scores needed; 0 if it reads none.
        texts_distinct: different texts that its scores needed; 0 if it reads none by themselves.
        seconds: wall time.
        rounded_ties: of scores from a file: items in which rounding to float32 made two numbers equal.
    """

    scores: Scores
    images_encoded: int = 0
    texts_encoded: int = 0
    texts_shared: int = 0
    pairs_scored: int = 0
    images_distinct: int = 0
    texts_distinct: int = 0
    seconds: float = 0.0
    rounded_ties: int = 0


def score(
    model: Model,
    pairset: PairSet,
    *,
    store: EmbeddingStore,
    batch_size: int | None = None,
    hashes: MutableMapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Scored:
    """Score every image of every item against every text of that item.

    >>> from pathlib import Path
    >>> from tellapart.models.reference import Oracle
    >>> pairs = PairSet("s", (Item(id="a", images=("0.png", "1.png"), texts=("x", "y")),), Path("."))
    >>> score(Oracle(), pairs, store=EmbeddingStore(None)).scores.values.tolist()
    [[[1.0, 0.0], [0.0, 1.0]]]
    """
    if batch_size is not None and batch_size < 1:
        raise ModelError(f"batch_size must be at least 1; got {batch_size}")
    if not isinstance(model, Model):
        raise _no_model(model)
    started = time.perf_counter()
    hashes = {} if hashes is None else hashes

    job = Job(model, pairset, store, batch_size, progress or (lambda *_: None), hashes)
    values = _read_stored(job)
    if values is None:
        values = _compute_scores(replace(job, model=model.load() if isinstance(model, Deferred) else model))
    ids = [item.id for item in pairset.items]
    return Scored(Scores(ids, values, model.kind), **job.counts, seconds=time.perf_counter() - started)


def _read_stored(job: Job) -> NDArray[np.float32] | None:
    """Return the scores if every image was read and every pair scored before; nothing is decoded or computed."""
    if not job.store.has_pair_scores(job.key):
        return None
    with ImageReader(job.pairset, job.store, job.references, hashes=job.hashes, known_only=True) as reader:
        stored_count = sum(1 for _ in reader)
    if stored_count < len(job.references):
        return None
    values = job.empty_scores()
    for positions, items in _block_items(job.pairset):
        keys = _pairs_of(job, items)
        stored = job.store.pair_scores(job.key, keys)
        if len(stored) < len(set(keys)):
            return None
        values[positions] = np.array([stored[key] for key in keys]).reshape(-1, *job.pairset.shape)
    job.count_distinct()
    job.progress("pairs", values.size, values.size)
    return values


def _pairs_of(job: Job, items: Sequence[Item]) -> list[tuple[str, str]]:
    return [(job.hashes[image], text_hash(text)) for item in items for image in item.images for text in item.texts]


def _compute_scores(job: Job) -> NDArray[np.float32]:
    match model := job.model:
        case KeyReader():
            return _read_keys(job, model)
        case TextScorer():
            return _score_texts(job, model)
        case DualEncoder():
            return _encode_and_score(job, model)
        case MatrixScorer():
            return _score_matrices(job, model)
        case PairScorer():
            return _score_pairs(job, model.score_pairs)
        case Generator():
            return _score_pairs(job, model.log_likelihoods)
        case _:
            raise _no_model(model)


def _no_model(thing: object) -> ModelError:
    return ModelError(
        f"{type(thing).__name__} is not a model that can be scored; it must have a name, a fingerprint, a kind, and "
        "one of encode_images with encode_texts and similarity, score_pairs, score_matrix, score_texts, "
        "log_likelihoods or score_item"
    )


def _read_keys(job: Job, model: KeyReader) -> NDArray[np.float32]:
    values = job.empty_scores()
    for position, item in enumerate(job.pairset.items):
        values[position] = job.check_output(model.score_item(item), job.pairset.shape, [item.id])
        job.progress("items", position + 1, len(values))
    return values


def _score_matrices(job: Job, model: MatrixScorer) -> NDArray[np.float32]:
    """Ask item by item; an image is in memory from its first item to its last."""
    values = job.empty_scores()
    held: dict[str, Any] = {}
    last = {image: position for position, item in enumerate(job.pairset.items) for image in item.images}
    with job.open_reader(lambda images: [True] * len(images)) as reader:
        images = iter(reader)
        for position, item in enumerate(job.pairset.items):
            while not held.keys() >= set(item.images):
                one = next(images)
                held[one.reference] = one.pixels
            pictures = [held[image] for image in item.images]
            matrix = compute_named(
                lambda _, pictures=pictures, texts=item.texts: model.score_matrix(pictures, texts),  # type: ignore[misc]
                [f"{job.pairset.where(item.images[0])}: {', '.join(item.images)}"],
            )
            values[position] = job.check_output(matrix, job.pairset.shape, [item.id])
            for image in {image for image in item.images if last[image] == position}:
                del held[image]
            job.progress("items", position + 1, len(values))
        job.store.put_pixel_hashes(reader.take_new_hashes())
    job.count_distinct()
    job.counts["pairs_scored"] = values.size
    return values


def _score_texts(job: Job, model: TextScorer) -> NDArray[np.float32]:
    scores = compute_texts(job, model.score_texts, vectors=False)
    job.counts["texts_distinct"] = len(scores)
    # (items, 1, texts): a text gets the same score with every image.
    rows = job.stack_vectors(scores, [[*map(text_hash, item.texts)] for item in job.pairset.items])[:, None, :, 0]
    return np.ascontiguousarray(np.broadcast_to(rows, (len(rows), *job.pairset.shape)))


def _encode_and_score(job: Job, model: DualEncoder) -> NDArray[np.float32]:
    of_texts, of_images = compute_texts(job, model.encode_texts, vectors=True), compute_images(job, model)
    values = job.empty_scores()
    for positions, items in _block_items(job.pairset):
        images = job.stack_vectors(of_images, [[job.hashes[image] for image in item.images] for item in items])
        texts = job.stack_vectors(of_texts, [[*map(text_hash, item.texts)] for item in items])
        values[positions] = _score_vectors(job, model, images, texts, [item.id for item in items])
        # Kept as well: with them the same set is scored again without a vector, or the model.
        scores = dict(zip(_pairs_of(job, items), values[positions].reshape(-1), strict=True))
        job.store.put_pair_scores(job.key, scores)
        job.progress("pairs", values[: positions.stop].size, values.size)
    job.count_distinct()
    return values


def _score_vectors(
    job: Job, model: DualEncoder, images: Vectors, texts: Vectors, ids: Sequence[str]
) -> NDArray[np.float32]:
    """Score vectors `(items, images, dimensions)` against `(items, texts, dimensions)`, item by item."""
    if isinstance(model, StackedSimilarity):
        return job.check_output(model.similarities(images, texts), (len(ids), *job.pairset.shape), ids)
    # One shape throughout, so that no neighbour can move a bit.
    rows = zip(images, texts, ids, strict=True)
    return np.stack([job.check_output(model.similarity(i, t), job.pairset.shape, [name]) for i, t, name in rows])


def _score_pairs(
    job: Job, compute: Callable[[Sequence[Pixels], Sequence[str]], NDArray[np.float32]]
) -> NDArray[np.float32]:
    scores = compute_pairs(job, compute)
    job.count_distinct()
    values = np.array([scores[key] for key in _pairs_of(job, job.pairset.items)], np.float32)
    return values.reshape(-1, *job.pairset.shape)


def _block_items(pairset: PairSet) -> Iterator[tuple[slice, tuple[Item, ...]]]:
    """Yield runs of items, with their positions."""
    for start in range(0, len(pairset), _BLOCK):
        items = pairset.items[start : start + _BLOCK]
        yield slice(start, start + len(items)), items
