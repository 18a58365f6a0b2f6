"""Content hashes, under which the store files numbers: of an image's decoded pixels, of a text."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from tellapart.data.images import pixel_hash
from tellapart.data.pairset import PairSet
from tellapart.errors import DataError
from tellapart.models.protocols import KeptPreparer, Model, Pixels
from tellapart.models.store.batches import bytes_held, compute_named, prefetch
from tellapart.models.store.embedding_store import EmbeddingStore, PreparedPictures, decoded_as

__all__ = ["text_hash"]

#: Images that a thread reads before it comes back: their hashes are looked up in the store together.
_BLOCK = 8

#: Decides whose pixels are needed, of images given as (reference, hash) each. Called in several threads.
PixelFilter = Callable[[Sequence[tuple[str, str]]], Sequence[bool]]


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
        needs_pixels: PixelFilter = lambda images: [False] * len(images),
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
            self._read, blocks, workers=workers, size=lambda block: sum(bytes_held(image.pixels) for image in block[0])
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._ahead.close()
        if self._kept is not None:
            self._kept.close()

    def __iter__(self) -> Iterator[HashedImage]:
        for block, error in self._ahead:
            for image in block:
                if not image.hash:
                    return
                self._hashes[image.reference] = image.hash
                yield image
            if error is not None:
                raise error

    def _read(self, references: Sequence[str]) -> tuple[list[HashedImage], Exception | None]:
        """Read a block of images in any thread: those before the first that cannot be read, and why it cannot."""
        try:
            return self._read_block(references), None
        except Exception as error:
            if len(references) == 1:
                return [], error
        images: list[HashedImage] = []
        for reference in references:
            block, failure = self._read([reference])
            images += block
            if failure is not None:
                return images, failure
        return images, None

    def _read_block(self, references: Sequence[str]) -> list[HashedImage]:
        hashed = [(reference, self._hashes[reference]) for reference in references if reference in self._hashes]
        # Of an image whose hash is known, and whose pixels are not needed, not even the file is read.
        names = {image[0]: image[1] for image, needed in self._decide(hashed).items() if not needed}
        files = {reference: self._pairset.read_bytes(reference) for reference in references if reference not in names}
        keys = {reference: decoded_as(self._pairset.content_key(reference, data)) for reference, data in files.items()}
        stored = self._store.pixel_hashes(keys.values()) if keys else {}
        needed = self._decide([(reference, stored[key]) for reference, key in keys.items() if key in stored])
        new: dict[str, str] = {}
        packed: dict[str, Pixels] = {}
        images = []
        for reference in references:
            name, pixels, prepared = names.get(reference, ""), None, None
            if reference in files:
                name = stored.get(keys[reference], "")
                if not name and not self._known_only:
                    pixels = self._decode_image(reference, files[reference])
                    name = new[keys[reference]] = pixel_hash(pixels)
                    needed |= self._decide([(reference, name)])
                if name and self._hashes.get(reference, name) != name:
                    raise DataError(
                        f"{self._pairset.where(reference)}: {reference} changed during the run; start it again"
                    )
                if needed.get((reference, name)):
                    prepared = self._prepare_image(reference, name, pixels, files[reference], packed)
            images.append(HashedImage(reference, name, prepared))
        self._store.put_pixel_hashes(new)
        if self._kept and packed:
            self._kept.put(packed)
        return images

    def _decide(self, images: Sequence[tuple[str, str]]) -> dict[tuple[str, str], bool]:
        """Return whose pixels are needed."""
        return dict(zip(images, self._needs_pixels(images), strict=True)) if images else {}

    def _prepare_image(
        self, reference: str, name: str, pixels: Pixels | None, data: bytes, packed: dict[str, Pixels]
    ) -> object:
        """Return an image as the model takes it: kept from before, or prepared and then added to `packed`."""
        kept = self._kept.get(name) if self._kept and pixels is None else None
        if kept is not None and self._keeper is not None:
            return self._keeper.unpack_image(kept)
        # The bytes that were hashed are decoded, not the file again: it may have changed meanwhile.
        decoded = self._decode_image(reference, data) if pixels is None else pixels
        prepared = compute_named(lambda _: self._prepare(decoded), [f"{self._pairset.where(reference)}: {reference}"])
        if self._keeper and self._kept and decoded.ndim == 3:  # frames of a video are not kept
            packed[name] = self._keeper.pack_image(prepared)
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
