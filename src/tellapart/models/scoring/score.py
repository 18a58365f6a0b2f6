"""Scoring of pair sets: every distinct image, text or pair is computed once, and kept.

Numbers in the store are not computed again; others are stored batch by batch, so a run that was killed goes on
where it was. Threads read, decode and prepare images ahead of the model. No number depends on the batch size, on the
order of the items or on the store's content. If the store holds every score, the model is not used; a deferred one is
not even loaded.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field, replace
from itertools import cycle, islice
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.data.progress import Progress
from tellapart.data.scores import Scores, join_names
from tellapart.errors import ModelError, StoreError
from tellapart.models.find import Deferred
from tellapart.models.protocols import (
    DualEncoder,
    Generator,
    ImagePreparer,
    KeyReader,
    MatrixScorer,
    Model,
    PairScorer,
    StackedSimilarity,
    TextScorer,
    Vectors,
)
from tellapart.models.scoring.frames import average_frames, prepare_slot
from tellapart.models.store.batches import Batches, compute_named
from tellapart.models.store.content_hash import HashedImage, ImageReader, text_hash
from tellapart.models.store.embedding_store import EmbeddingStore, filed_as

#: A model that fills up its forward passes fills up less, the more texts it can put with others of their length: of
#: SugarCrepe's captions, in passes of 16, 18 % more with 64 texts at once, 4 % with 512.
_PASSES = 8

#: Characters by which texts of like length differ. Of the captions of VALSE and SugarCrepe, 512 at once, shared
#: beginnings leave 1 token in 2.01 and 1.57 so; sorted by length alone 1 in 1.82 and 1.44.
_LENGTHS = 24

#: Items whose vectors are stacked, and whose scores are stored, at the same time.
_BLOCK = 256


@dataclass(frozen=True, slots=True)
class Scored:
    """Raw scores of every item, and what the model computed for them in this call.

    `texts_shared` are texts that passed a tower in which common beginnings are computed once. Distinct images and texts
    are those that the scores needed; 0 if the model reads none. `rounded_ties` are items of a file of scores in which
    rounding to float32 made two numbers equal.
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


@dataclass(frozen=True, slots=True)
class Job:
    """A pair set to score, with the model and its store; `counts` are those of `Scored`, by field.

    `hashes`, reference -> hash of pixels, fills as images are read.
    """

    model: Any  # a model, or a deferred one while only what is stored is read
    pairset: PairSet
    store: EmbeddingStore
    batch_size: int | None
    progress: Progress
    hashes: MutableMapping[str, str]
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The key of the model's stored numbers."""
        return filed_as(self.model.fingerprint)

    @property
    def references(self) -> list[str]:
        """Distinct images, in the order of the items."""
        return list(dict.fromkeys(image for item in self.pairset.items for image in item.images))

    def empty_scores(self) -> NDArray[np.float32]:
        """Return zeros for every score: float32 `(items, images, texts)`."""
        return np.zeros((len(self.pairset), *self.pairset.shape), np.float32)

    def pairs_of(self, items: Sequence[Item]) -> list[str]:
        """Return the keys of the items' scores, in order."""
        return [self.hashes[image] + text_hash(text) for item in items for image in item.images for text in item.texts]

    def read_images(self, needs_pixels: Callable[[str, str], bool]) -> AbstractContextManager[Iterator[HashedImage]]:
        """Read the images; needed pixels as the model prepares them."""
        prepare = self.model.prepare_image if isinstance(self.model, ImagePreparer) else None
        slot = prepare_slot(prepare, whole=getattr(self.model, "takes_frames", False))
        reader = ImageReader(self.pairset, self.store, self.hashes, needs_pixels, slot, keeper=self.model)
        return closing(reader.read(self.references))

    def keep(self, keys: Sequence[str], output: object, names: Sequence[str], *, vectors: bool) -> dict[str, Vectors]:
        """Check a model's numbers, a vector or a score of each key, and store them."""
        rows = self.check_output(output, (len(keys), None) if vectors else (len(keys),), names)
        computed = dict(zip(keys, rows.reshape(len(keys), -1), strict=True))
        self.store.put_numbers(self.key, computed)
        return computed

    def fill_scores(self, numbers: Mapping[str, Vectors], items: Sequence[Item]) -> NDArray[np.float32]:
        """Return the scores, given by pair, of items."""
        scores = [numbers[key] for key in self.pairs_of(items)]
        return np.array(scores, np.float32).reshape(-1, *self.pairset.shape)

    def count_distinct(self) -> None:
        """Count the distinct images and texts that the scores need."""
        self.counts["images_distinct"] = len({self.hashes[reference] for reference in self.references})
        self.counts["texts_distinct"] = len({text for item in self.pairset.items for text in item.texts})

    def stack(self, vectors: Mapping[str, Vectors], items: Sequence[Item], side: Literal["images", "texts"]) -> Vectors:
        """Return the vectors, given by content, of items' images or texts: `(items, entries, dimensions)`."""
        name = self.hashes.__getitem__ if side == "images" else text_hash
        rows = [[vectors[name(entry)] for entry in getattr(item, side)] for item in items]
        sizes = sorted({vector.size for row in rows for vector in row})
        if len(sizes) > 1:
            raise StoreError(
                f"{self.store.where} holds vectors of {' and '.join(map(str, sizes))} dimensions for model "
                f"{self.model.name!r}: it changed and its fingerprint did not; delete the store, or name another cache="
            )
        return np.array(rows, np.float32)

    def check_output(self, output: object, shape: tuple[int | None, ...], names: Sequence[str]) -> NDArray[np.float32]:
        """Return a model's output if it is finite float32 of this shape (None: any)."""
        subject = f"model {self.model.name!r}, given {join_names([repr(name) for name in names], limit=3)},"
        if not isinstance(output, np.ndarray) or output.dtype != np.float32:
            kind = output.dtype if isinstance(output, np.ndarray) else type(output).__name__
            raise ModelError(f"{subject} must return a float32 array; it returned {kind}")
        expected = tuple(have if want is None else want for want, have in zip(shape, output.shape, strict=False))
        if len(shape) != output.ndim or output.shape != expected:
            named = tuple("d" if side is None else side for side in shape)
            raise ModelError(f"{subject} must return an array {named}; it returned {output.shape}")
        if not np.isfinite(output).all():
            row = int(np.argwhere(~np.isfinite(output))[0, 0])
            culprit = names[min(row, len(names) - 1)]
            raise ModelError(f"{subject} returned NaN or infinity, first for {culprit!r}")
        return output.copy()  # a model may fill one array again and again


def score(
    model: Model,
    pairset: PairSet,
    *,
    store: EmbeddingStore,
    batch_size: int | None = None,
    hashes: MutableMapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Scored:
    """Score every image of every item against every text of that item."""
    if batch_size is not None and batch_size < 1:
        raise ModelError(f"batch_size must be at least 1; got {batch_size}")
    if not isinstance(model, Model):
        raise _no_model(model)
    started = time.perf_counter()
    job = Job(model, pairset, store, batch_size, progress or (lambda *_: None), {} if hashes is None else hashes)
    values = _read_stored(job)
    if values is None:
        ready = replace(job, model=model.load() if isinstance(model, Deferred) else model)
        try:
            values = _compute_scores(ready)
        except ModelError as error:  # settings of a model may be wrong where an image is named
            if error.__cause__ is None or model.name in str(error):
                raise
            raise ModelError(f"{model.name}: {error}") from error.__cause__
    ids = [item.id for item in pairset.items]
    return Scored(Scores(ids, values, model.kind), **job.counts, seconds=time.perf_counter() - started)


def _read_stored(job: Job) -> NDArray[np.float32] | None:
    """Return the scores if every image was read and every pair scored before; nothing is decoded or computed."""
    if not job.store.has_pair_scores(job.key):
        return None
    unread = [reference for reference in job.references if reference not in job.hashes]
    read = ImageReader(job.pairset, job.store, job.hashes, known_only=True).read(unread)
    if sum(1 for _ in read) < len(unread):
        return None
    values = job.empty_scores()
    for positions, items in _block_items(job.pairset):
        keys = {*job.pairs_of(items)}
        numbers = job.store.numbers(job.key, keys)
        if len(numbers) < len(keys):
            return None
        values[positions] = job.fill_scores(numbers, items)
    job.count_distinct()
    job.progress("pairs", values.size, values.size)
    return values


def _compute_scores(job: Job) -> NDArray[np.float32]:
    match model := job.model:
        case KeyReader():
            return _score_items(job, model.score_item)
        case TextScorer():
            numbers = _compute_texts(job, model.score_texts, vectors=False)
            job.counts["texts_distinct"] = len(numbers)
            # (items, 1, texts): a text gets the same score with every image.
            rows = job.stack(numbers, job.pairset.items, "texts")[:, None, :, 0]
            return np.ascontiguousarray(np.broadcast_to(rows, (len(rows), *job.pairset.shape)))
        case DualEncoder():
            return _encode_and_score(job)
        case MatrixScorer():
            return _score_matrices(job)
        case PairScorer() | Generator():
            compute = model.score_pairs if isinstance(model, PairScorer) else model.log_likelihoods
            numbers = _compute_by_image(job, compute, paired=True)
            job.count_distinct()
            return job.fill_scores(numbers, job.pairset.items)
        case _:
            raise _no_model(model)


def _no_model(thing: object) -> ModelError:
    return ModelError(
        f"{type(thing).__name__} is not a model that can be scored; it must have a name, a fingerprint, a kind, and "
        "one of encode_images with encode_texts and similarity, score_pairs, score_matrix, score_texts, "
        "log_likelihoods or score_item"
    )


def _score_items(job: Job, score_item: Callable[[Item], object]) -> NDArray[np.float32]:
    values = job.empty_scores()
    for position, item in enumerate(job.pairset.items):
        values[position] = job.check_output(score_item(item), job.pairset.shape, [item.id])
        job.progress("items", position + 1, len(values))
    return values


def _score_matrices(job: Job) -> NDArray[np.float32]:
    """Ask item by item; an image is in memory from its first item to its last."""
    held: dict[str, Any] = {}
    last = {image: item.id for item in job.pairset.items for image in item.images}
    with job.read_images(lambda _reference, _hash: True) as images:

        def score_item(item: Item) -> object:
            while not held.keys() >= set(item.images):
                image = next(images)
                held[image.reference] = image.pixels
            pictures = [held[reference] for reference in item.images]
            for reference in {reference for reference in item.images if last[reference] == item.id}:
                del held[reference]
            return compute_named(
                lambda _: job.model.score_matrix(pictures, item.texts),
                [f"{job.pairset.where(item.images[0])}: {', '.join(item.images)}"],
            )

        values = _score_items(job, score_item)
    job.count_distinct()
    job.counts["pairs_scored"] = values.size
    return values


def _encode_and_score(job: Job) -> NDArray[np.float32]:
    of_texts = _compute_texts(job, job.model.encode_texts, vectors=True)
    of_images = _compute_by_image(job, job.model.encode_images, paired=False)
    values, shape = job.empty_scores(), job.pairset.shape
    for positions, items in _block_items(job.pairset):
        images, texts = job.stack(of_images, items, "images"), job.stack(of_texts, items, "texts")
        if isinstance(job.model, StackedSimilarity):
            similarities = job.model.similarities(images, texts)
            scores = job.check_output(similarities, (len(items), *shape), [item.id for item in items])
        else:  # one shape throughout, so that no neighbour can move a bit
            rows = zip(items, map(job.model.similarity, images, texts), strict=True)
            scores = np.array([job.check_output(matrix, shape, [item.id]) for item, matrix in rows])
        values[positions] = scores
        # Kept as well: with them the same set is scored again without a vector, or the model.
        job.store.put_numbers(job.key, dict(zip(job.pairs_of(items), scores.reshape(-1, 1), strict=True)))
        job.progress("pairs", values[: positions.stop].size, values.size)
    job.count_distinct()
    return values


def _block_items(pairset: PairSet) -> Iterator[tuple[slice, tuple[Item, ...]]]:
    """Yield runs of items, with their positions."""
    for start in range(0, len(pairset), _BLOCK):
        items = pairset.items[start : start + _BLOCK]
        yield slice(start, start + len(items)), items


def _compute_texts(
    job: Job, compute: Callable[[Sequence[str]], NDArray[np.float32]], *, vectors: bool
) -> dict[str, NDArray[np.float32]]:
    """Return the numbers of the texts by their hashes: a vector of each, or one number; missing ones are computed."""
    texts = {text_hash(text): text for item in job.pairset.items for text in item.texts}
    numbers = job.store.numbers(job.key, texts)
    # With texts of like length a text is padded little; among these, texts that begin alike come together.
    missing = sorted(texts.keys() - numbers, key=lambda key: (len(texts[key]) // _LENGTHS, texts[key]))
    job.progress("texts", len(numbers), len(texts))

    def encode_batch(keys: Sequence[str]) -> None:
        batch = [texts[key] for key in keys]
        numbers.update(job.keep(keys, compute(batch), batch, vectors=vectors))
        job.progress("texts", len(numbers), len(texts))

    Batches(job.model, job.batch_size, passes=_PASSES).run_samples(encode_batch, missing)
    job.counts["texts_encoded"] = len(missing)
    if getattr(job.model, "shares_beginnings", False):
        job.counts["texts_shared"] = len(missing)
    return numbers


def _compute_by_image(
    job: Job, compute: Callable[..., NDArray[np.float32]], *, paired: bool
) -> dict[str, NDArray[np.float32]]:
    """Return the images' vectors by their hashes, or the scores of each image with its texts by both hashes.

    Missing ones are computed, and each image is decoded once for all of its keys.
    """
    batches = Batches(job.model, job.batch_size)
    # Of each image the rest of its keys, each with the text; of an image alone there is one, without a text.
    texts: dict[str, dict[str, str]] = {reference: {} if paired else {"": ""} for reference in job.references}
    for item in job.pairset.items if paired else ():
        text_of_hash = {text_hash(text): text for text in item.texts}
        for reference in item.images:
            texts[reference].update(text_of_hash)
    numbers: dict[str, NDArray[np.float32]] = {}
    pending: dict[str, tuple[HashedImage, str]] = {}
    scheduled: set[str] = set()  # keys that are pending or were

    def needs_pixels(reference: str, name: str) -> bool:
        keys = [name + key for key in texts[reference]]
        numbers.update(job.store.numbers(job.key, [key for key in keys if key not in numbers]))
        return any(key not in numbers for key in keys)

    def compute_batch(keys: Sequence[str]) -> None:
        images, captions = zip(*(pending[key] for key in keys), strict=True)
        output = compute_named(
            lambda part: average_frames(
                compute, [image.pixels for image in images[part]], captions[part] if paired else None
            ),
            [f"{job.pairset.where(image.reference)}: {image.reference}" for image in images],
        )
        pairs = zip(images, captions, strict=True)
        names = [f"{image.reference} with {text}" if text else image.reference for image, text in pairs]
        numbers.update(job.keep(keys, output, names, vectors=not paired))

    done, total = 0, sum(map(len, texts.values()))
    with job.read_images(needs_pixels) as images:
        for position, image in enumerate(images, 1):
            keys = {image.hash + key: text for key, text in texts[image.reference].items()}
            if image.pixels is not None:
                new = {key: text for key, text in keys.items() if key not in numbers and key not in scheduled}
                scheduled.update(new)
                pending |= {key: (image, text) for key, text in new.items()}
            done += len(keys)
            is_last = position == len(texts)
            ready = len(pending) if is_last else len(pending) // batches.size * batches.size
            if ready:
                batch = list(pending)[:ready]
                batches.run_samples(compute_batch, batch)
                for key in batch:
                    del pending[key]
            if ready or is_last:
                job.progress("pairs" if paired else "images", done - len(pending), total)
    job.counts["pairs_scored" if paired else "images_encoded"] = len(scheduled)
    return numbers


@dataclass(frozen=True, slots=True, eq=False)
class Embeddings:
    """Vectors of a pair set's entries, in its order, `(items, entries, dimensions)`; None of a side not asked for.

    `hashes` are those of the images' pixels, by reference.
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
    """Encode missing entries, and return the vectors as the model gives them (most scale them to length one)."""
    encoder = model.load() if isinstance(model, Deferred) else model
    if not isinstance(encoder, DualEncoder):
        raise ModelError(
            f"{model.name} has no vectors of images and texts apart; name a dual encoder, for example demo-encoder"
        )
    job = Job(encoder, pairs, store, batch_size, progress or (lambda *_: None), {})
    of_images = _compute_by_image(job, encoder.encode_images, paired=False) if images else None
    of_texts = _compute_texts(job, encoder.encode_texts, vectors=True) if texts else None
    return Embeddings(
        None if of_images is None else job.stack(of_images, pairs.items, "images"),
        None if of_texts is None else job.stack(of_texts, pairs.items, "texts"),
        job.hashes,
    )


@dataclass(frozen=True, slots=True)
class _Part(PairSet):
    """Pairs of another set, whose messages name that set's items."""

    whole: PairSet | None = None

    def where(self, reference: str) -> str:
        return PairSet.where(self, reference) if self.whole is None else self.whole.where(reference)


def own_part(model: Model, pairs: PairSet, rank: int, ranks: int) -> PairSet | None:
    """Return the work of process `rank` (from 0) of `ranks`, as pairs of one image and one text; None if nothing.

    An image belongs to a process by the hash of its reference, a text by its hash: neither order nor `--limit`
    moves it. For a dual encoder each image and each text is computed by one process, paired with any other; for a model
    that reads both together, each pair is computed by the process of its image.
    """
    if isinstance(model, KeyReader | MatrixScorer):
        return None  # no store keeps its scores

    def is_mine(content: str) -> bool:
        digest = hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()
        return int(digest[:8], 16) % ranks == rank

    if isinstance(model, TextScorer | DualEncoder):
        reads_images, first = not isinstance(model, TextScorer), pairs.items[0]
        texts = [*filter(is_mine, dict.fromkeys(text for item in pairs.items for text in item.texts))]
        references = (image for item in pairs.items for image in item.images if reads_images)
        images = [*filter(is_mine, dict.fromkeys(references))]
        filled = zip(cycle(images or first.images[:1]), cycle(texts or first.texts[:1]), strict=False)
        filler = list(islice(filled, max(len(images), len(texts))))
    else:
        all_pairs = dict.fromkeys((image, text) for item in pairs.items for image in item.images for text in item.texts)
        filler = [(image, text) for image, text in all_pairs if is_mine(image)]
    if not filler:
        return None
    items = tuple(Item(id=str(k), images=(image,), texts=(text,)) for k, (image, text) in enumerate(filler))
    return _Part(pairs.name, items, pairs.root, read=pairs.read, whole=pairs)
