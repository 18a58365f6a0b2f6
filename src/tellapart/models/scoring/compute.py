"""Compute the numbers that the store lacks: of texts, of images, of pairs, each distinct one once.

Threads read, decode and prepare images ahead of the model. What it computed is in the store before it goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.data.pairset import PairSet
from tellapart.data.progress import Progress
from tellapart.data.scores import join_names
from tellapart.errors import ModelError, StoreError
from tellapart.models.protocols import DualEncoder, ImagePreparer, Model, Pixels, Vectors
from tellapart.models.scoring.frames import encode_slots, prepare_slot, score_slots
from tellapart.models.store.batches import Batches, compute_named
from tellapart.models.store.content_hash import HashedImage, ImageReader, PixelFilter, text_hash
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.models.store.libraries import filed_as

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
    references = job.references
    batches = Batches(model, job.batch_size)
    vectors: dict[str, NDArray[np.float32]] = {}
    pending: list[HashedImage] = []
    scheduled: set[str] = set()  # hashes that are pending or were

    def needs_pixels(images: Sequence[tuple[str, str]]) -> list[bool]:
        vectors.update(job.store.vectors(job.key, {name for _, name in images if name not in vectors}))
        return [name not in vectors for _, name in images]

    def encode_batch(batch: Sequence[HashedImage]) -> None:
        output = job.compute_images(
            lambda part: encode_slots(model.encode_images, [image.pixels for image in batch[part]]),
            [image.reference for image in batch],
        )
        rows = job.check_output(output, (len(batch), None), [image.reference for image in batch])
        computed = {image.hash: row for image, row in zip(batch, rows, strict=True)}
        job.store.put_pixel_hashes(reader.take_new_hashes())
        job.store.put_vectors(job.key, computed)
        vectors.update(computed)

    with job.open_reader(needs_pixels) as reader:
        for done, image in enumerate(reader, 1):
            if image.pixels is not None and image.hash not in scheduled:
                scheduled.add(image.hash)
                pending.append(image)
            if len(pending) >= batches.size or done == len(references):
                batches.run_samples(encode_batch, pending)
                pending.clear()
                job.progress("images", done, len(references))
    job.store.put_pixel_hashes(reader.take_new_hashes())
    job.counts["images_encoded"] = len(scheduled)
    return vectors


def compute_pairs(
    job: Job, score: Callable[[Sequence[Pixels], Sequence[str]], NDArray[np.float32]]
) -> dict[tuple[str, str], np.float32]:
    """Return the numbers of the pairs by their hashes; missing ones are computed.

    Pairs come image by image: each is decoded once, for all its texts.
    """
    texts = _texts_of_images(job)
    total, done = sum(map(len, texts.values())), 0
    batches = Batches(job.model, job.batch_size)
    scores: dict[tuple[str, str], np.float32] = {}
    pending: dict[tuple[str, str], tuple[HashedImage, str]] = {}
    scheduled: set[tuple[str, str]] = set()  # pairs that are pending or were

    def find_missing(reference: str, name: str) -> list[tuple[str, str]]:
        pairs = [(name, text) for text in texts[reference]]
        scores.update(job.store.pair_scores(job.key, [pair for pair in pairs if pair not in scores]))
        return [pair for pair in pairs if pair not in scores]

    def needs_pixels(images: Sequence[tuple[str, str]]) -> list[bool]:
        return [bool(find_missing(reference, name)) for reference, name in images]

    def score_batch(keys: Sequence[tuple[str, str]]) -> None:
        images = [pending[key][0] for key in keys]
        captions = [pending[key][1] for key in keys]
        names = [f"{image.reference} with {text}" for image, text in zip(images, captions, strict=True)]
        output = job.compute_images(
            lambda part: score_slots(score, [image.pixels for image in images[part]], captions[part]),
            [image.reference for image in images],
        )
        computed = dict(zip(keys, job.check_output(output, (len(keys),), names), strict=True))
        job.store.put_pixel_hashes(reader.take_new_hashes())
        job.store.put_pair_scores(job.key, computed)
        scores.update(computed)

    with job.open_reader(needs_pixels) as reader:
        for position, image in enumerate(reader, 1):
            if image.pixels is not None:
                new = [pair for pair in find_missing(image.reference, image.hash) if pair not in scheduled]
                scheduled.update(new)
                pending.update((pair, (image, texts[image.reference][pair[1]])) for pair in new)
            done += len(texts[image.reference])
            ready = len(pending) if position == len(texts) else len(pending) // batches.size * batches.size
            if ready:
                keys = list(pending)[:ready]
                batches.run_samples(score_batch, keys)
                for key in keys:
                    del pending[key]
            if ready or position == len(texts):
                job.progress("pairs", done - len(pending), total)
    job.store.put_pixel_hashes(reader.take_new_hashes())
    job.counts["pairs_scored"] = len(scheduled)
    return scores


def _texts_of_images(job: Job) -> Mapping[str, Mapping[str, str]]:
    """Return image reference -> hash of a text -> text, of every text that an item holds with that image."""
    texts: dict[str, dict[str, str]] = {reference: {} for reference in job.references}
    for item in job.pairset.items:
        text_of_hash = {text_hash(text): text for text in item.texts}
        for image in item.images:
            texts[image].update(text_of_hash)
    return texts
