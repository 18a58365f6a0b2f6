"""Content hashes, under which the store files numbers: of an image's decoded pixels, of a text."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Self

from tellapart.data.images import pixel_hash
from tellapart.data.pairset import PairSet
from tellapart.errors import DataError
from tellapart.models.protocols import KeptPreparer, Model, Pixels
from tellapart.models.store.batches import bytes_held, compute_named, prefetch
from tellapart.models.store.embedding_store import EmbeddingStore, PreparedPictures, decoded_as

__all__ = ["text_hash"]

#: Images that a thread reads before it comes back.
_BLOCK = 8

#: Decides whether the pixels of an image, given by its reference and its hash, are needed; in several threads at once.
PixelFilter = Callable[[str, str], bool]


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


class ImageReader:
    """Reads images of a pair set in threads, ahead of the loop over them, each distinct reference once and in order.

    It decodes images whose pixels are needed, which `prepare` is applied to in the threads, and images whose hash the
    store does not know by the file's; the store then keeps the hash. A `keeper` is a model whose prepared pictures are
    kept near the store. `hashes`, reference -> hash of pixels, has the images that this process read before; those read
    here are added. With `known_only` it stops at the first image whose hash the store does not know. An image that is
    missing, cannot be decoded, or changed since its hash was taken, is an error in the loop.
    """

    def __init__(
        self,
        pairset: PairSet,
        store: EmbeddingStore,
        references: Sequence[str],
        *,
        needs_pixels: PixelFilter = lambda _reference, _name: False,
        prepare: Callable[[Pixels], Any] = lambda pixels: pixels,
        hashes: MutableMapping[str, str] | None = None,
        keeper: Model | None = None,
        known_only: bool = False,
        workers: int | None = None,
    ) -> None:
        self._pairset, self._store, self._needs_pixels, self._known_only = pairset, store, needs_pixels, known_only
        self._prepare, self._hashes = prepare, {} if hashes is None else hashes
        self._keeper = keeper if isinstance(keeper, KeptPreparer) else None
        prepared = store.prepared
        self._kept = PreparedPictures(prepared, self._keeper.preparation) if self._keeper and prepared else None
        distinct = list(dict.fromkeys(references))
        blocks = [distinct[start : start + _BLOCK] for start in range(0, len(distinct), _BLOCK)]
        self._ahead = prefetch(
            self._read, blocks, workers=workers, size=lambda block: sum(bytes_held(image.pixels) for image in block)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._ahead.close()
        if self._kept is not None:
            self._kept.close()

    def __iter__(self) -> Iterator[HashedImage]:
        for image in chain.from_iterable(self._ahead):
            if not image.hash:
                return
            self._hashes[image.reference] = image.hash
            yield image

    def _read(self, references: Sequence[str]) -> list[HashedImage]:
        """Read a block of images, in any thread; new hashes are kept together, for a write costs more than a hash."""
        new: dict[str, str] = {}
        try:
            return [self._read_image(reference, new) for reference in references]
        finally:
            self._store.put_pixel_hashes(new)

    def _read_image(self, reference: str, new: dict[str, str]) -> HashedImage:
        before = self._hashes.get(reference, "")
        # Of an image whose hash is known, and whose pixels are not needed, not even the file is read.
        if before and not self._needs_pixels(reference, before):
            return HashedImage(reference, before)
        data, pixels = self._pairset.read_bytes(reference), None
        key = decoded_as(self._pairset.content_key(reference, data))
        name = self._store.pixel_hashes([key]).get(key, "")
        if not name and not self._known_only:
            pixels = self._decode_image(reference, data)
            name = new[key] = pixel_hash(pixels)
        if before not in {"", name}:
            raise DataError(f"{self._pairset.where(reference)}: {reference} changed during the run; start it again")
        if not name or not self._needs_pixels(reference, name):
            return HashedImage(reference, name)
        return HashedImage(reference, name, self._prepare_image(reference, name, pixels, data))

    def _prepare_image(self, reference: str, name: str, pixels: Pixels | None, data: bytes) -> object:
        """Return an image as the model takes it: kept from before, or prepared."""
        kept = self._kept.get(name) if self._kept and pixels is None else None
        if kept is not None and self._keeper is not None:
            return self._keeper.unpack_image(kept)
        # The bytes that were hashed are decoded, not the file again: it may have changed meanwhile.
        decoded = self._decode_image(reference, data) if pixels is None else pixels
        prepared = compute_named(lambda _: self._prepare(decoded), [f"{self._pairset.where(reference)}: {reference}"])
        if self._keeper and self._kept and decoded.ndim == 3:  # frames of a video are not kept
            self._kept.put(name, self._keeper.pack_image(prepared))
        return prepared

    def _decode_image(self, reference: str, data: bytes) -> Pixels:
        try:
            return self._pairset.decode(reference, data)
        except DataError as error:
            raise DataError(f"{self._pairset.where(reference)}: {error}") from error


def image_hashes(
    pairset: PairSet, *, store: EmbeddingStore, hashes: MutableMapping[str, str] | None = None
) -> MutableMapping[str, str]:
    """Return the hash of every image's pixels: reference -> hash; for `PairSet.fingerprint` and the ledger.

    `hashes` are those known already, as `score` gathers them: such an image is not read again. The others are added.
    """
    hashes = {} if hashes is None else hashes
    references = [image for item in pairset.items for image in item.images if image not in hashes]
    with ImageReader(pairset, store, references, hashes=hashes) as reader:
        deque(reader, maxlen=0)
    return hashes
