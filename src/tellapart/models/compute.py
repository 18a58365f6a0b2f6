"""Compute what the store lacks: of texts, of images, of pairs, each distinct one once.

Images are read, decoded and prepared by threads ahead of the model; what it said is written by a thread behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tellapart.data.pairset import PairSet
from tellapart.data.scores import named
from tellapart.errors import ModelError
from tellapart.models.batches import Batches
from tellapart.models.content_hash import Picture, PictureReader, Wanted, text_hash
from tellapart.models.protocols import DualEncoder, ImagePreparer, Model, Pixels, Vectors
from tellapart.models.store import EmbeddingStore
from tellapart.models.writer import Writer

__all__ = ["Job", "fill_images", "fill_pairs", "fill_texts"]

#: A model that fills up its own forward passes fills up less, the more texts it can put with others of their length: of
#: SugarCrepe's captions, in passes of 16, 18 % more with 64 texts at once, 4 % with 512.
_PASSES = 8


@dataclass(frozen=True, slots=True)
class Job:
    """What every way of scoring needs, and the counts that it reports.

    Attributes:
        model: that computes.
        pairset: items and images.
        store: where what is computed is kept.
        writer: writes to it.
        batch_size: None for what suits the model.
        progress: told the stage, what is done of it, and the total.
        hashes: image reference -> hash of pixels, filled as images are read.
        counts: what `Scored` reports.

    >>> Job.__slots__[:3]
    ('model', 'pairset', 'store')
    """

    model: Model
    pairset: PairSet
    store: EmbeddingStore
    writer: Writer
    batch_size: int | None
    progress: Callable[[str, int, int], None]
    hashes: MutableMapping[str, str]
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def references(self) -> list[str]:
        """Distinct images, in the order of the items."""
        return list(dict.fromkeys(image for item in self.pairset.items for image in item.images))

    def empty(self) -> NDArray[np.float32]:
        """Return zeros for every score: float32 `(items, images, texts)`."""
        return np.zeros((len(self.pairset), *self.pairset.shape), np.float32)

    def reader(self, wanted: Wanted) -> PictureReader:
        """Return what reads the images ahead; wanted pixels come as the model is to be given them."""
        prepare = self.model.prepare_image if isinstance(self.model, ImagePreparer) else None
        return PictureReader(
            self.pairset, self.store, self.references, wanted=wanted, prepare=prepare, hashes=self.hashes
        )

    def reads(self) -> None:
        """Count the distinct images and texts that the scores need."""
        self.counts["images_distinct"] = len({self.hashes[reference] for reference in self.references})
        self.counts["texts_distinct"] = len({text for item in self.pairset.items for text in item.texts})

    def keep(self, put: Callable[[], None], hashes: dict[str, str] | None = None) -> None:
        """Store what was computed, and what was learned of images on the way to it, while the model goes on."""

        def write() -> None:
            if hashes:
                self.store.put_pixel_hashes(hashes)
            put()

        self.writer.write(write)

    def checked(self, output: object, shape: tuple[int | None, ...], names: Sequence[str]) -> NDArray[np.float32]:
        """Return a model's output if it is finite float32 of this shape (None: any).

        Raises:
            ModelError: it is not.
        """
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


def fill_texts(job: Job, encode: Callable[[Sequence[str]], Vectors]) -> None:
    """Compute and store what the store lacks of the texts.

    Raises:
        TellapartError: what `encode` gives is wrong, or the store cannot be written.

    >>> from pathlib import Path
    >>> from tellapart.data.item import Item
    >>> from tellapart.models.reference import Random
    >>> pairs = PairSet("s", (Item(id="a", images=("0.png",), texts=("x", "y")),), Path("."))
    >>> with Writer() as writer:
    ...     job = Job(Random(seed=0), pairs, EmbeddingStore(None), writer, None, print, {})
    ...     fill_texts(job, lambda texts: np.ones((len(texts), 1), np.float32))
    texts 0 2
    texts 2 2
    """
    texts = {text_hash(text): text for item in job.pairset.items for text in item.texts}
    missing = job.store.missing_vectors(job.model.fingerprint, texts)
    missing.sort(key=lambda key: len(texts[key]))  # beside texts of its own length a text is padded little
    done = len(texts) - len(missing)
    job.progress("texts", done, len(texts))

    def encode_batch(keys: Sequence[str]) -> None:
        nonlocal done
        vectors = dict(zip(keys, encode([texts[key] for key in keys]), strict=True))
        job.keep(lambda: job.store.put_vectors(job.model.fingerprint, vectors))
        done += len(keys)
        job.progress("texts", done, len(texts))

    Batches(job.model, job.batch_size, passes=_PASSES).run(encode_batch, missing)
    job.writer.settle()
    job.counts["texts_encoded"] = len(missing)


def fill_images(job: Job, model: DualEncoder) -> None:
    """Compute and store what the store lacks of the images, and learn the hash of each.

    Raises:
        TellapartError: an image cannot be read, the model's output is wrong, or the store cannot be written.

    >>> from pathlib import Path
    >>> from tellapart.data.item import Item
    >>> from tellapart.models.reference import Random
    >>> pairs = PairSet("s", (Item(id="a", images=("0.png",), texts=("x", "y")),), Path("."))
    >>> with Writer() as writer:
    ...     job = Job(Random(seed=0), pairs, EmbeddingStore(None), writer, None, print, {})
    ...     fill_images(job, job.model)
    Traceback (most recent call last):
    tellapart.errors.DataError: s: item a: field 'images[0]': no image '0.png' in .
    """
    references = job.references
    batches = Batches(model, job.batch_size)
    pending: list[Picture] = []
    taken: set[str] = set()  # hashes that are pending or were

    def wanted(images: Sequence[tuple[str, str]]) -> list[bool]:
        missing = set(job.store.missing_vectors(model.fingerprint, [name for _, name in images]))
        return [name in missing for _, name in images]

    def encode_batch(batch: Sequence[Picture]) -> None:
        output = model.encode_images([picture.pixels for picture in batch])
        rows = job.checked(output, (len(batch), None), [picture.reference for picture in batch])
        vectors = {picture.hash: row for picture, row in zip(batch, rows, strict=True)}
        job.keep(lambda: job.store.put_vectors(model.fingerprint, vectors), reader.learned())

    with job.reader(wanted) as reader:
        for done, picture in enumerate(reader, 1):
            if picture.pixels is not None and picture.hash not in taken:
                taken.add(picture.hash)
                pending.append(picture)
            if len(pending) >= batches.size or done == len(references):
                batches.run(encode_batch, pending)
                pending.clear()
                job.progress("images", done, len(references))
    job.writer.settle()
    job.store.put_pixel_hashes(reader.learned())
    job.counts["images_encoded"] = len(taken)


def fill_pairs(job: Job, compute: Callable[[Sequence[Pixels], Sequence[str]], NDArray[np.float32]]) -> int:
    """Compute and store what the store lacks of the pairs, image by image: each is decoded once, for all its texts.

    Returns:
        How many pairs of different references and texts there are.

    Raises:
        TellapartError: an image cannot be read, the model's output is wrong, or the store cannot be written.

    >>> from pathlib import Path
    >>> from tellapart.data.item import Item
    >>> from tellapart.models.reference import Random
    >>> pairs = PairSet("s", (Item(id="a", images=("0.png",), texts=("x", "y")),), Path("."))
    >>> with Writer() as writer:
    ...     job = Job(Random(seed=0), pairs, EmbeddingStore(None), writer, None, print, {})
    ...     fill_pairs(job, job.model.score_pairs)
    Traceback (most recent call last):
    tellapart.errors.DataError: s: item a: field 'images[0]': no image '0.png' in .
    """
    texts = _texts_of_images(job)
    total, done = sum(map(len, texts.values())), 0
    batches = Batches(job.model, job.batch_size)
    pending: dict[tuple[str, str], tuple[Picture, str]] = {}
    taken: set[tuple[str, str]] = set()  # pairs that are pending or were

    def missing(reference: str, name: str) -> list[tuple[str, str]]:
        pairs = [(name, text) for text in texts[reference]]
        stored = job.store.pair_scores(job.model.fingerprint, pairs)
        return [pair for pair in pairs if pair not in stored]

    def wanted(images: Sequence[tuple[str, str]]) -> list[bool]:
        return [bool(missing(reference, name)) for reference, name in images]

    def score_batch(keys: Sequence[tuple[str, str]]) -> None:
        pictures = [pending[key][0] for key in keys]
        captions = [pending[key][1] for key in keys]
        names = [f"{picture.reference} with {text}" for picture, text in zip(pictures, captions, strict=True)]
        numbers = job.checked(compute([picture.pixels for picture in pictures], captions), (len(keys),), names)
        scores = dict(zip(keys, numbers, strict=True))
        job.keep(lambda: job.store.put_pair_scores(job.model.fingerprint, scores), reader.learned())

    with job.reader(wanted) as reader:
        for place, picture in enumerate(reader, 1):
            if picture.pixels is not None:
                new = [pair for pair in missing(picture.reference, picture.hash) if pair not in taken]
                taken.update(new)
                pending.update((pair, (picture, texts[picture.reference][pair[1]])) for pair in new)
            done += len(texts[picture.reference])
            whole = len(pending) if place == len(texts) else len(pending) // batches.size * batches.size
            if whole:
                keys = list(pending)[:whole]
                batches.run(score_batch, keys)
                for key in keys:
                    del pending[key]
            if whole or place == len(texts):
                job.progress("pairs", done - len(pending), total)
    job.writer.settle()
    job.store.put_pixel_hashes(reader.learned())
    job.counts["pairs_scored"] = len(taken)
    return total


def _texts_of_images(job: Job) -> Mapping[str, Mapping[str, str]]:
    """Return image reference -> hash of a text -> text, of every text that stands beside that image in an item."""
    texts: dict[str, dict[str, str]] = {reference: {} for reference in job.references}
    for item in job.pairset.items:
        beside = {text_hash(text): text for text in item.texts}
        for image in item.images:
            texts[image].update(beside)
    return texts
