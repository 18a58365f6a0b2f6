"""What images and texts are filed under: the hash of decoded pixels, the hash of a text."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from tellapart.data.images import decode, pixel_hash
from tellapart.data.pairset import PairSet
from tellapart.errors import DataError
from tellapart.models.prefetch import Prefetch, bytes_held
from tellapart.models.protocols import Pixels
from tellapart.models.store import EmbeddingStore

__all__ = ["Picture", "PictureReader", "Wanted", "image_hashes", "text_hash"]

#: Images that a thread reads before it comes back: their hashes are looked up in the store together.
_BLOCK = 8

#: Hashes that are written to the store together when nothing else is done with the images.
_WRITE = 256

#: Takes images, as (reference, hash) each, to whether the pixels of each are wanted. Called in several threads.
Wanted = Callable[[Sequence[tuple[str, str]]], Sequence[bool]]


def text_hash(text: str) -> str:
    """Return the SHA-256 that a text, exactly as it is, is filed under.

    >>> text_hash("a cat") == text_hash("a cat ")
    False
    """
    # Marked as text, so that no text shares the key of an image; a lone surrogate is a text, too.
    return hashlib.sha256(b"text\0" + text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """One image of a pair set.

    Attributes:
        reference: as in the item.
        hash: of the decoded pixels: the same picture in two files, or in two formats, has one hash.
        pixels: RGB uint8 `(height, width, 3)`, or what was prepared of them; None if they were not wanted.
        file: hash of the file's bytes, if its pixels' hash was not in the store.

    >>> Picture("a.png", "0" * 64).reference
    'a.png'
    """

    reference: str
    hash: str
    pixels: Any = None
    file: str | None = None


def _none_wanted(images: Sequence[tuple[str, str]]) -> Sequence[bool]:
    return [False] * len(images)


class PictureReader:
    """Reads images of a pair set in threads, ahead of the loop over them, each distinct reference once and in order.

    Decoded are those whose pixels are wanted, and those whose hash the store does not know by the file's.

    Args:
        pairset: whose images to read.
        store: where the hashes of decoded pixels are looked up; `learned` is what it lacks.
        references: of the images.
        wanted: which pixels are wanted; none if not given.
        prepare: what is made of wanted pixels, in the threads; they themselves if not given.
        hashes: reference -> hash of pixels of images that this process read before; those read here are added.
        known_only: stop at the first image whose hash the store does not know, in place of decoding it.
        workers: threads; one for each core if not given. Their number changes nothing.

    Raises:
        DataError: in the image's place: it is missing, cannot be decoded, or changed since its hash was taken.
        StoreError: the store cannot be read.

    >>> from pathlib import Path
    >>> from tellapart.data.item import Item
    >>> pairs = PairSet("s", (Item(id="a", images=("gone.png",), texts=("x", "y")),), Path("."))
    >>> with PictureReader(pairs, EmbeddingStore(None), ["gone.png"]) as reader:
    ...     next(iter(reader))
    Traceback (most recent call last):
    tellapart.errors.DataError: s: item a: field 'images[0]': no image 'gone.png' in .
    """

    def __init__(
        self,
        pairset: PairSet,
        store: EmbeddingStore,
        references: Sequence[str],
        *,
        wanted: Wanted = _none_wanted,
        prepare: Callable[[Pixels], Any] | None = None,
        hashes: MutableMapping[str, str] | None = None,
        known_only: bool = False,
        workers: int | None = None,
    ) -> None:
        self._known_only = known_only
        self._pairset, self._store, self._wanted, self._prepare = pairset, store, wanted, prepare
        self._hashes = {} if hashes is None else hashes
        self._learned: dict[str, str] = {}
        distinct = list(dict.fromkeys(references))
        blocks = [distinct[start : start + _BLOCK] for start in range(0, len(distinct), _BLOCK)]
        self._ahead = Prefetch(self._read, blocks, workers=workers, size=_size)

    def __enter__(self) -> Self:
        self._ahead.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ahead.__exit__(kind, error, trace)

    def __iter__(self) -> Iterator[Picture]:
        for block, error in self._ahead:
            for picture in block:
                if not picture.hash:
                    return
                self._hashes[picture.reference] = picture.hash
                if picture.file is not None:
                    self._learned[picture.file] = picture.hash
                yield picture
            if error is not None:
                raise error

    def learned(self) -> dict[str, str]:
        """Return what `EmbeddingStore.put_pixel_hashes` is to keep of the images yielded since the last call.

        >>> from pathlib import Path
        >>> from tellapart.data.item import Item
        >>> pairs = PairSet("s", (Item(id="a", images=("0.png",), texts=("x", "y")),), Path("."))
        >>> PictureReader(pairs, EmbeddingStore(None), []).learned()
        {}
        """
        learned, self._learned = self._learned, {}
        return learned

    def _read(self, references: Sequence[str]) -> tuple[list[Picture], Exception | None]:
        """Read a block of images in any thread: those before the first that cannot be read, and why it cannot."""
        try:
            return self._read_block(references), None
        except Exception as error:
            if len(references) == 1:
                return [], error
        pictures: list[Picture] = []
        for reference in references:
            read, failed = self._read([reference])
            pictures += read
            if failed is not None:
                return pictures, failed
        return pictures, None

    def _read_block(self, references: Sequence[str]) -> list[Picture]:
        known = [(reference, self._hashes[reference]) for reference in references if reference in self._hashes]
        # Of an image whose hash is known, and whose pixels nobody wants, not even the file is read.
        idle = {reference: name for (reference, name), want in self._which(known).items() if not want}
        files = {reference: self._pairset.read_bytes(reference) for reference in references if reference not in idle}
        keys = {reference: hashlib.sha256(data).hexdigest() for reference, data in files.items()}
        stored = self._store.pixel_hashes(keys.values()) if keys else {}
        wanted = self._which([(reference, stored[key]) for reference, key in keys.items() if key in stored])
        pictures = []
        for reference in references:
            if reference in idle:
                pictures.append(Picture(reference, idle[reference]))
            elif (name := stored.get(key := keys[reference])) is None:
                pictures.append(self._discover(reference, files[reference], key))
            else:
                self._expect(reference, name)
                # The bytes that were hashed are decoded, not the file again: it may have changed meanwhile.
                pixels = self._decode(reference, files[reference]) if wanted[reference, name] else None
                pictures.append(Picture(reference, name, self._prepared(pixels)))
        return pictures

    def _discover(self, reference: str, data: bytes, key: str) -> Picture:
        """Decode an image whose pixels' hash the store does not know; drop the pixels if they are not wanted."""
        if self._known_only:
            return Picture(reference, "")
        pixels = self._decode(reference, data)
        name = pixel_hash(pixels)
        self._expect(reference, name)
        want = self._which([(reference, name)])[reference, name]
        return Picture(reference, name, self._prepared(pixels if want else None), key)

    def _which(self, images: Sequence[tuple[str, str]]) -> dict[tuple[str, str], bool]:
        return dict(zip(images, self._wanted(images), strict=True)) if images else {}

    def _prepared(self, pixels: Pixels | None) -> Any:
        return pixels if pixels is None or self._prepare is None else self._prepare(pixels)

    def _expect(self, reference: str, name: str) -> None:
        if self._hashes.get(reference, name) != name:
            raise DataError(f"{self._pairset.where(reference)}: {reference} changed during the run; start it again")

    def _decode(self, reference: str, data: bytes) -> Pixels:
        try:
            return decode(data, reference)
        except DataError as error:
            raise DataError(f"{self._pairset.where(reference)}: {error}") from error


def _size(read: tuple[list[Picture], Exception | None]) -> int:
    return sum(bytes_held(picture.pixels) for picture in read[0])


def image_hashes(
    pairset: PairSet,
    *,
    store: EmbeddingStore,
    hashes: MutableMapping[str, str] | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> MutableMapping[str, str]:
    """Return the hash of every image's pixels: reference -> hash; for `PairSet.fingerprint` and the ledger.

    Args:
        pairset: whose images to read.
        store: where the hashes are kept.
        hashes: those known already, as `score` gathers them: such an image is not read again. The others are added.
        progress: told the stage ("reading images"), what is done of it, and the total.

    Raises:
        DataError: an image is missing or cannot be decoded.
        StoreError: the store cannot be read or written.

    >>> from pathlib import Path
    >>> from tellapart.data.item import Item
    >>> pairs = PairSet("s", (Item(id="a", images=("gone.png",), texts=("x", "y")),), Path("."))
    >>> image_hashes(pairs, store=EmbeddingStore(None), hashes={"gone.png": "0" * 64}) == {"gone.png": "0" * 64}
    True
    """
    hashes = {} if hashes is None else hashes
    every = dict.fromkeys(reference for item in pairset.items for reference in item.images)
    references = [reference for reference in every if reference not in hashes]
    with PictureReader(pairset, store, references, hashes=hashes) as reader:
        try:
            for done, _ in enumerate(reader, 1):
                if done % _WRITE == 0:
                    store.put_pixel_hashes(reader.learned())
                if progress and (done % _BLOCK == 0 or done == len(references)):
                    progress("reading images", done, len(references))
        finally:
            store.put_pixel_hashes(reader.learned())  # after an error, too: these need not be decoded again
    return hashes
