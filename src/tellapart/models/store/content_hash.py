"""Content hashes, under which the store files numbers: of an image's decoded pixels, of a text."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Generator, MutableMapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tellapart.data.images import pixel_hash
from tellapart.data.pairset import PairSet
from tellapart.errors import DataError
from tellapart.models.protocols import KeptPreparer, Model, Pixels
from tellapart.models.store.batches import bytes_held, compute_named, prefetch
from tellapart.models.store.embedding_store import EmbeddingStore, PreparedPictures, decoded_as

__all__ = ["text_hash"]


def text_hash(text: str) -> str:
    """Return the SHA-256 of a text, exactly as written."""
    # Marked as text, so that no text shares the key of an image; a lone surrogate is a text, too.
    return hashlib.sha256(b"text\0" + text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True, eq=False)
class HashedImage:
    """One image of a pair set, with its hash."""

    reference: str  # as in the item
    #: Of the decoded pixels, in any format of file. Empty for the first unknown image, if known ones alone are read.
    hash: str
    pixels: Any = None  # RGB uint8 (height, width, 3), or the prepared image; None if they are not needed
    new_key: str = ""  # the file's key, if the store does not have its hash yet


@dataclass(eq=False)
class ImageReader:
    """Reads images of a pair set in threads, ahead of the loop over them, each distinct reference once and in order.

    It decodes images whose pixels are needed, which `prepare` is applied to in the threads, and images whose hash the
    store does not know by the file's; the store then keeps the hash. A `keeper` is a model whose prepared pictures are
    kept near the store. `needs_pixels`, of a reference and a hash, is asked in several threads. `hashes`, reference ->
    hash of pixels, has the images that this process read before; those read here are added. With `known_only` it stops
    at the first image whose hash the store does not know. An image that is missing, cannot be decoded, or changed since
    its hash was taken, is an error in the loop.
    """

    pairset: PairSet
    store: EmbeddingStore
    hashes: MutableMapping[str, str] = field(default_factory=dict)
    needs_pixels: Callable[[str, str], bool] = lambda _reference, _hash: False
    prepare: Callable[[Pixels], Any] = lambda pixels: pixels
    keeper: Model | None = None
    known_only: bool = False

    def read(self, references: Sequence[str], *, workers: int | None = None) -> Generator[HashedImage, None, None]:
        """Yield the images; closing the generator ends the threads."""
        file, keeper = self.store.prepared, self.keeper if isinstance(self.keeper, KeptPreparer) else None
        kept = PreparedPictures(file, keeper.preparation) if file and keeper else None
        read_image, distinct = partial(self._read_image, keeper=keeper, kept=kept), list(dict.fromkeys(references))
        ahead = prefetch(read_image, distinct, workers=workers, size=lambda image: bytes_held(image.pixels))
        with nullcontext() if kept is None else closing(kept), closing(ahead):
            for image in ahead:
                if not image.hash:
                    return
                if image.new_key:  # in order: of images behind a broken one, nothing is stored
                    self.store.put_pixel_hash(image.new_key, image.hash)
                self.hashes[image.reference] = image.hash
                yield image

    def _read_image(self, reference: str, *, keeper: KeptPreparer | None, kept: PreparedPictures | None) -> HashedImage:
        expected = self.hashes.get(reference, "")
        # Of an image whose hash is known, and whose pixels are not needed, not even the file is read.
        if expected and not self.needs_pixels(reference, expected):
            return HashedImage(reference, expected)
        where, data, pixels = self.pairset.where(reference), self.pairset.read_bytes(reference), None
        key = decoded_as(self.pairset.content_key(reference, data))
        name, new_key = self.store.pixel_hash(key), ""
        if not name and not self.known_only:
            pixels, new_key = self.pairset.decode(reference, data), key
            name = pixel_hash(pixels)
        if name and expected and name != expected:
            raise DataError(f"{where}: {reference} changed during the run; start it again")
        if not (name and self.needs_pixels(reference, name)):
            return HashedImage(reference, name, new_key=new_key)
        if keeper and kept and pixels is None and (packed := kept.get(name)) is not None:
            return HashedImage(reference, name, keeper.unpack_image(packed))
        # The bytes that were hashed are decoded, not the file again: it may have changed meanwhile.
        decoded = self.pairset.decode(reference, data) if pixels is None else pixels
        prepared = compute_named(lambda _: self.prepare(decoded), [f"{where}: {reference}"])
        if keeper and kept and decoded.ndim == 3:  # frames of a video are not kept
            kept.put(name, keeper.pack_image(prepared))
        return HashedImage(reference, name, prepared, new_key)


def image_hashes(
    pairset: PairSet, *, store: EmbeddingStore, hashes: MutableMapping[str, str] | None = None
) -> MutableMapping[str, str]:
    """Return the hash of every image's pixels: reference -> hash; for `PairSet.fingerprint` and the ledger.

    `hashes` are those known already, as `score` gathers them: such an image is not read again. The others are added.
    """
    hashes = {} if hashes is None else hashes
    references = [image for item in pairset.items for image in item.images if image not in hashes]
    deque(ImageReader(pairset, store, hashes).read(references), maxlen=0)
    return hashes
