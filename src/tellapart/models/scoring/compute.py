"""Compute the numbers that the store lacks: of texts, of images, of pairs, each distinct one once.

Threads read, decode and prepare images ahead of the model. What it computed is in the store before it goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tellapart.data.pairset import PairSet
from tellapart.data.progress import Progress
from tellapart.data.scores import join_names
from tellapart.errors import ModelError, StoreError
from tellapart.models.protocols import DualEncoder, ImagePreparer, Model, Pixels, Vectors
from tellapart.models.scoring.deferred import Deferred
from tellapart.models.scoring.frames import encode_slots, prepare_slot, score_slots
from tellapart.models.store.batches import Batches, compute_named
from tellapart.models.store.content_hash import HashedImage, ImageReader, PixelFilter, text_hash
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.models.store.libraries import filed_as

Key = TypeVar("Key", str, tuple[str, str])
Number = TypeVar("Number", NDArray[np.float32], np.float32)

#: A model that fills up its forward passes fills up less, the more texts it can put with others of their length: of
#: SugarCrepe's captions, in passes of 16, 18 % more with 64 texts at once, 4 % with 512.
_PASSES = 8

#: Characters by which texts of like length differ. Of the captions of VALSE and SugarCrepe, 512 at once, shared
#: beginnings leave 1 token in 2.01 and 1.57 so; sorted by length alone 1 in 1.82 and 1.44.
_LENGTHS = 24


@dataclass(frozen=True, slots=True)
class Job:
    """The parts that every way of scoring a pair set needs, and the counts that it reports.

    Attributes:
        batch_size: None for the model's.
        progress: called with the stage, how many are done, and the total.
        hashes: image reference -> hash of pixels, filled as images are read.
        counts: the counts of `Scored`.
    """

    model: Model
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

    def open_reader(self, needs_pixels: PixelFilter) -> ImageReader:
        """Return a reader of the images that prepares needed pixels for the model."""
        prepare = self.model.prepare_image if isinstance(self.model, ImagePreparer) else None
        return ImageReader(
            self.pairset,
            self.store,
            self.references,
            needs_pixels=needs_pixels,
            prepare=prepare_slot(prepare, whole=getattr(self.model, "takes_frames", False)),
            hashes=self.hashes,
            keeper=self.model,
        )

    def count_distinct(self) -> None:
        """Count the distinct images and texts that the scores need."""
        self.counts["images_distinct"] = len({self.hashes[reference] for reference in self.references})
        self.counts["texts_distinct"] = len({text for item in self.pairset.items for text in item.texts})

    def compute_images(self, compute: Callable[[slice], NDArray[np.float32]], references: Sequence[str]) -> Any:
        """Ask the model about images; an error that one of them raises names its item and file."""
        return compute_named(compute, [f"{self.pairset.where(image)}: {image}" for image in references])

    def stack_vectors(self, vectors: Mapping[str, NDArray[np.float32]], contents: Sequence[Sequence[str]]) -> Vectors:
        """Return vectors, given by content, of the same number of contents an item: `(items, contents, dimensions)`."""
        sizes = sorted({vectors[key].size for row in contents for key in row})
        if len(sizes) > 1:
            raise StoreError(
                f"{self.store.where} holds vectors of {' and '.join(map(str, sizes))} dimensions for model "
                f"{self.model.name!r}: it changed and its fingerprint did not; delete the store, or name another cache="
            )
        return np.array([[vectors[key] for key in row] for row in contents], np.float32)

    def check_output(self, output: object, shape: tuple[int | None, ...], names: Sequence[str]) -> NDArray[np.float32]:
        """Return a model's output if it is finite float32 of this shape (None: any)."""
        subject = f"model {self.model.name!r}, given {join_names([repr(name) for name in names], limit=3)},"
        if not isinstance(output, np.ndarray) or output.dtype != np.float32:
            kind = output.dtype if isinstance(output, np.ndarray) else type(output).__name__
            raise ModelError(f"{subject} must return a float32 array; it returned {kind}")
        if output.ndim != len(shape) or any(
            want not in {None, have} for want, have in zip(shape, output.shape, strict=True)
        ):
            expected = tuple("d" if side is None else side for side in shape)
            raise ModelError(f"{subject} must return an array {expected}; it returned {output.shape}")
        if not np.isfinite(output).all():
            row = int(np.argwhere(~np.isfinite(output))[0, 0])
            culprit = names[min(row, len(names) - 1)]
            raise ModelError(f"{subject} returned NaN or infinity, first for {culprit!r}")
        return output.copy()  # a model may fill one array again and again


def compute_texts(
    job: Job, compute: Callable[[Sequence[str]], NDArray[np.float32]], *, vectors: bool
) -> dict[str, NDArray[np.float32]]:
    """Return the numbers of the texts by their hashes: a vector of each, or one number; missing ones are computed."""
    texts = {text_hash(text): text for item in job.pairset.items for text in item.texts}
    numbers = job.store.vectors(job.key, texts)
    # With texts of like length a text is padded little; among these, texts that begin alike come together.
    missing = sorted(texts.keys() - numbers, key=lambda key: (len(texts[key]) // _LENGTHS, texts[key]))
    job.progress("texts", len(numbers), len(texts))

    def encode_batch(keys: Sequence[str]) -> None:
        batch = [texts[key] for key in keys]
        rows = job.check_output(compute(batch), (len(keys), None) if vectors else (len(keys),), batch)
        computed = dict(zip(keys, rows.reshape(len(keys), -1), strict=True))
        job.store.put_vectors(job.key, computed)
        numbers.update(computed)
        job.progress("texts", len(numbers), len(texts))

    Batches(job.model, job.batch_size, passes=_PASSES).run_samples(encode_batch, missing)
    job.counts["texts_encoded"] = len(missing)
    if getattr(job.model, "shares_beginnings", False):
        job.counts["texts_shared"] = len(missing)
    return numbers


def compute_images(job: Job, model: DualEncoder) -> dict[str, NDArray[np.float32]]:
    """Return the vectors of the images by their hashes, and fill in the hash of each; missing ones are computed."""

    def encode(_keys: Sequence[str], images: Sequence[HashedImage]) -> NDArray[np.float32]:
        references = [image.reference for image in images]
        output = job.compute_images(
            lambda part: encode_slots(model.encode_images, [image.pixels for image in images[part]]), references
        )
        return job.check_output(output, (len(images), None), references)

    vectors, job.counts["images_encoded"] = _compute_by_image(
        job,
        "images",
        lambda _reference, name: [name],
        lambda names: job.store.vectors(job.key, names),
        encode,
        lambda computed: job.store.put_vectors(job.key, computed),
    )
    return vectors


def compute_pairs(
    job: Job, score: Callable[[Sequence[Pixels], Sequence[str]], NDArray[np.float32]]
) -> dict[tuple[str, str], np.float32]:
    """Return the numbers of the pairs by their hashes; missing ones are computed."""
    texts: dict[str, dict[str, str]] = {reference: {} for reference in job.references}  # hash of a text -> text
    for item in job.pairset.items:
        text_of_hash = {text_hash(text): text for text in item.texts}
        for image in item.images:
            texts[image].update(text_of_hash)

    def score_keys(keys: Sequence[tuple[str, str]], images: Sequence[HashedImage]) -> NDArray[np.float32]:
        captions = [texts[image.reference][text] for image, (_, text) in zip(images, keys, strict=True)]
        output = job.compute_images(
            lambda part: score_slots(score, [image.pixels for image in images[part]], captions[part]),
            [image.reference for image in images],
        )
        names = [f"{image.reference} with {text}" for image, text in zip(images, captions, strict=True)]
        return job.check_output(output, (len(keys),), names)

    scores, job.counts["pairs_scored"] = _compute_by_image(
        job,
        "pairs",
        lambda reference, name: [(name, text) for text in texts[reference]],
        lambda pairs: job.store.pair_scores(job.key, pairs),
        score_keys,
        lambda computed: job.store.put_pair_scores(job.key, computed),
    )
    return scores


def _compute_by_image(
    job: Job,
    stage: str,
    keys_of: Callable[[str, str], list[Key]],
    read_stored: Callable[[list[Key]], Mapping[Key, Number]],
    compute: Callable[[Sequence[Key], Sequence[HashedImage]], Iterable[Number]],
    put: Callable[[Mapping[Key, Number]], None],
) -> tuple[dict[Key, Number], int]:
    """Return numbers by key, and how many of them were computed: each image is decoded once, for all its keys.

    `keys_of` lists the keys of an image, given its reference and its hash.
    """
    batches, references = Batches(job.model, job.batch_size), job.references
    numbers: dict[Key, Number] = {}
    pending: dict[Key, HashedImage] = {}
    scheduled: set[Key] = set()  # keys that are pending or were
    done, total = 0, sum(len(keys_of(reference, "")) for reference in references)

    def needs_pixels(images: Sequence[tuple[str, str]]) -> list[bool]:
        keys = [keys_of(*image) for image in images]
        numbers.update(read_stored([key for row in keys for key in row if key not in numbers]))
        return [any(key not in numbers for key in row) for row in keys]

    reader = job.open_reader(needs_pixels)

    def compute_batch(keys: Sequence[Key]) -> None:
        computed = dict(zip(keys, compute(keys, [pending[key] for key in keys]), strict=True))
        job.store.put_pixel_hashes(reader.take_new_hashes())
        put(computed)
        numbers.update(computed)

    with reader:
        for position, image in enumerate(reader, 1):
            keys = keys_of(image.reference, image.hash)
            if image.pixels is not None:
                new = [key for key in keys if key not in numbers and key not in scheduled]
                scheduled.update(new)
                pending |= dict.fromkeys(new, image)
            done += len(keys)
            ready = len(pending) if position == len(references) else len(pending) // batches.size * batches.size
            if ready:
                batch = list(pending)[:ready]
                batches.run_samples(compute_batch, batch)
                for key in batch:
                    del pending[key]
            if ready or position == len(references):
                job.progress(stage, done - len(pending), total)
    job.store.put_pixel_hashes(reader.take_new_hashes())
    return numbers, len(scheduled)


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
