"""A model and a pair set in, raw scores out: every distinct image, text or pair is computed once, and kept.

What the store holds already is not computed again; what is computed is stored batch by batch, so a run that was killed
goes on where it was. No number depends on the batch size, on the order of the items or on what the store held before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.data.scores import Scores, named
from tellapart.errors import ModelError, StoreError
from tellapart.models.content import Picture, PictureReader, text_hash
from tellapart.models.protocols import (
    DualEncoder,
    Generator,
    KeyReader,
    Model,
    PairScorer,
    Pixels,
    TextScorer,
    Vectors,
)
from tellapart.models.store import EmbeddingStore

__all__ = ["Progress", "Scored", "score"]

#: Called with the stage ("images", "texts", "pairs" or "items"), what is done of it, and the total.
Progress = Callable[[str, int, int], None]

#: Items whose stored numbers are in memory at the same time.
_BLOCK = 256


@dataclass(frozen=True, slots=True)
class Scored:
    """Raw scores, and what they cost.

    Attributes:
        scores: of every item, in the pair set's order.
        images_encoded: images that the model computed in this call.
        texts_encoded: texts that it computed.
        pairs_scored: image-text pairs that it computed, if it reads both together.
        images_distinct: different images (by their pixels) that its scores needed; 0 if it reads none.
        texts_distinct: different texts that its scores needed; 0 if it reads none by themselves.
        seconds: wall time.

    >>> Scored(Scores(("a",), [[[0.5, 0.1]]], "similarity"), seconds=0.1).images_encoded
    0
    """

    scores: Scores
    images_encoded: int = 0
    texts_encoded: int = 0
    pairs_scored: int = 0
    images_distinct: int = 0
    texts_distinct: int = 0
    seconds: float = 0.0


def score(
    model: Model,
    pairset: PairSet,
    *,
    store: EmbeddingStore,
    batch_size: int = 32,
    progress: Progress | None = None,
) -> Scored:
    """Score every image of every item against every text of that item.

    Args:
        model: of one of the protocols in `tellapart.models.protocols`.
        pairset: items and images.
        store: where what is computed is kept; `EmbeddingStore(None)` forgets.
        batch_size: images, texts or pairs given to the model at once.
        progress: told what is done.

    Raises:
        ModelError: the model is of no protocol, or its output has the wrong shape or type or is not finite.
        DataError: an image is missing or cannot be decoded.
        StoreError: the store is damaged or cannot be written.

    >>> from pathlib import Path
    >>> from tellapart.models.reference import Oracle
    >>> pairs = PairSet("s", (Item(id="a", images=("0.png", "1.png"), texts=("x", "y")),), Path("."))
    >>> score(Oracle(), pairs, store=EmbeddingStore(None)).scores.values.tolist()
    [[[1.0, 0.0], [0.0, 1.0]]]
    """
    if batch_size < 1:
        raise ModelError(f"batch_size must be at least 1; got {batch_size}")
    started = time.perf_counter()
    job = _Job(model, pairset, store, batch_size, progress or _nobody)
    match model:
        case KeyReader():
            values = _read_keys(job, model)
        case TextScorer():
            values = _score_texts(job, model)
        case DualEncoder():
            values = _encode(job, model)
        case PairScorer():
            values = _score_pairs(job, model.score_pairs)
        case Generator():
            values = _score_pairs(job, model.log_likelihoods)
        case _:
            raise ModelError(
                f"{type(model).__name__} is no model that can be scored; it must have one of encode_images with "
                "encode_texts and similarity, score_pairs, score_texts, log_likelihoods or score_item"
            )
    ids = [item.id for item in pairset.items]
    return Scored(Scores(ids, values, model.kind), **job.counts, seconds=time.perf_counter() - started)


def _nobody(stage: str, done: int, total: int, /) -> None:
    """Listen to progress for nobody."""


@dataclass(frozen=True, slots=True)
class _Job:
    """What every way of scoring needs, and the counts that it reports."""

    model: Model
    pairset: PairSet
    store: EmbeddingStore
    batch_size: int
    progress: Progress
    counts: dict[str, int] = field(default_factory=dict)

    def empty(self) -> NDArray[np.float32]:
        return np.zeros((len(self.pairset), *self.pairset.shape), np.float32)

    def blocks(self, size: int) -> Iterator[tuple[int, tuple[Item, ...]]]:
        """Yield runs of items, with the position of the first."""
        for start in range(0, len(self.pairset), size):
            yield start, self.pairset.items[start : start + size]

    def checked(self, output: object, shape: tuple[int | None, ...], names: Sequence[str]) -> NDArray[np.float32]:
        """Return a model's output if it is finite float32 of this shape (None: any)."""
        said = f"model {self.model.name!r}, given {named([repr(name) for name in names], limit=3)},"
        wanted = tuple("d" if side is None else side for side in shape)
        if not isinstance(output, np.ndarray) or output.dtype != np.float32:
            got = output.dtype if isinstance(output, np.ndarray) else type(output).__name__
            raise ModelError(f"{said} must return a float32 array; it returned {got}")
        if output.ndim != len(shape) or any(
            want not in {None, have} for want, have in zip(shape, output.shape, strict=True)
        ):
            raise ModelError(f"{said} must return an array {wanted}; it returned {output.shape}")
        if not np.isfinite(output).all():
            row = int(np.argwhere(~np.isfinite(output))[0, 0])
            culprit = names[min(row, len(names) - 1)]
            raise ModelError(f"{said} returned NaN or infinity, first for {culprit!r}")
        return output


def _read_keys(job: _Job, model: KeyReader) -> NDArray[np.float32]:
    values = job.empty()
    for position, item in enumerate(job.pairset.items):
        values[position] = job.checked(model.score_item(item), job.pairset.shape, [item.id])
        job.progress("items", position + 1, len(values))
    return values


def _score_texts(job: _Job, model: TextScorer) -> NDArray[np.float32]:
    def column(texts: Sequence[str]) -> Vectors:
        return job.checked(model.score_texts(texts), (len(texts),), texts)[:, None]

    _fill_texts(job, column)
    values = job.empty()
    for start, items in job.blocks(_BLOCK):
        keys = [[text_hash(text) for text in item.texts] for item in items]
        stored = job.store.vectors(model.fingerprint, {key for row in keys for key in row})
        for position, row in enumerate(keys, start):
            values[position] = [stored[key][0] for key in row]  # the same beside every image
    return values


def _encode(job: _Job, model: DualEncoder) -> NDArray[np.float32]:
    def encode_texts(texts: Sequence[str]) -> Vectors:
        return job.checked(model.encode_texts(texts), (len(texts), None), texts)

    _fill_texts(job, encode_texts)
    hashes = _fill_images(job, model)
    values = job.empty()
    for start, items in job.blocks(_BLOCK):
        keys = [([hashes[image] for image in item.images], [text_hash(text) for text in item.texts]) for item in items]
        stored = job.store.vectors(model.fingerprint, {key for row in keys for side in row for key in side})
        _check_dimensions(job, stored)
        for position, (images, texts) in enumerate(keys, start):
            # Item by item: one shape throughout, so that no neighbour can move a bit.
            sides = (np.stack([stored[key] for key in images]), np.stack([stored[key] for key in texts]))
            item = job.pairset.items[position]
            values[position] = job.checked(model.similarity(*sides), job.pairset.shape, [item.id])
    return values


def _score_pairs(
    job: _Job, compute: Callable[[Sequence[Pixels], Sequence[str]], NDArray[np.float32]]
) -> NDArray[np.float32]:
    with PictureReader(job.pairset, job.store) as reader:
        _fill_pairs(job, reader, compute)
        hashes = reader.hashes
    values = job.empty()
    for start, items in job.blocks(_BLOCK):
        keys = [[(hashes[image], text_hash(text)) for image in item.images for text in item.texts] for item in items]
        stored = job.store.pair_scores(job.model.fingerprint, {key for row in keys for key in row})
        for position, row in enumerate(keys, start):
            values[position] = np.array([stored[key] for key in row]).reshape(job.pairset.shape)
    return values


def _fill_texts(job: _Job, encode: Callable[[Sequence[str]], Vectors]) -> None:
    """Compute and store what the store lacks of the texts."""
    texts = {text_hash(text): text for item in job.pairset.items for text in item.texts}
    missing = job.store.missing_vectors(job.model.fingerprint, texts)
    done = len(texts) - len(missing)
    job.progress("texts", done, len(texts))
    for start in range(0, len(missing), job.batch_size):
        keys = missing[start : start + job.batch_size]
        vectors = encode([texts[key] for key in keys])
        job.store.put_vectors(job.model.fingerprint, dict(zip(keys, vectors, strict=True)))
        job.progress("texts", done + start + len(keys), len(texts))
    job.counts.update(texts_distinct=len(texts), texts_encoded=len(missing))


def _fill_images(job: _Job, model: DualEncoder) -> dict[str, str]:
    """Compute and store what the store lacks of the images; return reference -> hash."""
    references = list(dict.fromkeys(image for item in job.pairset.items for image in item.images))
    pending: dict[str, Picture] = {}
    encoded = 0

    def encode(batch: Sequence[Picture]) -> None:
        vectors = job.checked(
            model.encode_images(reader.pixels(batch)), (len(batch), None), [picture.reference for picture in batch]
        )
        keys = [picture.hash for picture in batch]
        job.store.put_vectors(model.fingerprint, dict(zip(keys, vectors, strict=True)))

    with PictureReader(job.pairset, job.store) as reader:
        for start in range(0, len(references), job.batch_size):
            block = {picture.hash: picture for picture in reader.read(references[start : start + job.batch_size])}
            for key in job.store.missing_vectors(model.fingerprint, block):
                pending.setdefault(key, block[key])
            last = start + job.batch_size >= len(references)
            while len(pending) >= job.batch_size or (last and pending):
                batch = [pending.pop(key) for key in list(pending)[: job.batch_size]]
                encode(batch)
                encoded += len(batch)
            job.progress("images", min(start + job.batch_size, len(references)) - len(pending), len(references))
    job.counts.update(images_distinct=len(set(reader.hashes.values())), images_encoded=encoded)
    return reader.hashes


def _fill_pairs(
    job: _Job,
    reader: PictureReader,
    compute: Callable[[Sequence[Pixels], Sequence[str]], NDArray[np.float32]],
) -> None:
    """Compute and store what the store lacks of the pairs."""
    images, texts = job.pairset.shape
    pending: dict[tuple[str, str], tuple[Picture, str]] = {}
    total, scored = len(job.pairset) * images * texts, 0
    step = max(1, job.batch_size // (images * texts))
    for start, items in job.blocks(step):
        pictures = {p.reference: p for p in reader.read([image for item in items for image in item.images])}
        block = {
            (pictures[image].hash, text_hash(text)): (pictures[image], text)
            for item in items
            for image in item.images
            for text in item.texts
        }
        stored = job.store.pair_scores(job.model.fingerprint, block)
        for key, pair in block.items():  # in the order of the items: a set's order differs from run to run
            if key not in stored:
                pending.setdefault(key, pair)
        last = start + step >= len(job.pairset)
        while len(pending) >= job.batch_size or (last and pending):
            batch = {key: pending.pop(key) for key in list(pending)[: job.batch_size]}
            _score_batch(job, reader, batch, compute)
            scored += len(batch)
        job.progress("pairs", min(start + step, len(job.pairset)) * images * texts - len(pending), total)
    job.counts.update(
        pairs_scored=scored,
        images_distinct=len(set(reader.hashes.values())),
        texts_distinct=len({text for item in job.pairset.items for text in item.texts}),
    )


def _score_batch(
    job: _Job,
    reader: PictureReader,
    batch: dict[tuple[str, str], tuple[Picture, str]],
    compute: Callable[[Sequence[Pixels], Sequence[str]], NDArray[np.float32]],
) -> None:
    pictures = {picture.hash: picture for picture, _ in batch.values()}  # each decoded once
    pixels = dict(zip(pictures, reader.pixels(list(pictures.values())), strict=True))
    texts = [text for _, text in batch.values()]
    names = [f"{picture.reference} with {text}" for picture, text in batch.values()]
    numbers = job.checked(compute([pixels[image] for image, _ in batch], texts), (len(batch),), names)
    job.store.put_pair_scores(job.model.fingerprint, dict(zip(batch, numbers, strict=True)))


def _check_dimensions(job: _Job, stored: dict[str, Vectors]) -> None:
    sizes = sorted({vector.size for vector in stored.values()})
    if len(sizes) > 1:
        place = job.store.path or "the store in memory"
        raise StoreError(
            f"{place} holds vectors of {' and '.join(map(str, sizes))} dimensions for model {job.model.name!r}: images "
            "and texts differ, or the model changed and its fingerprint did not; delete the store, or name another --cache"
        )
