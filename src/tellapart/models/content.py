"""What images and texts are filed under: the hash of decoded pixels, the hash of a text."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from tellapart.data.images import decode, pixel_hash
from tellapart.data.pairset import PairSet
from tellapart.errors import DataError
from tellapart.models.store import EmbeddingStore

__all__ = ["Picture", "PictureReader", "image_hashes", "text_hash"]

#: Images whose hashes are looked up together when nothing else is done with them.
_BLOCK = 64


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
        pixels: RGB uint8 `(height, width, 3)`, if it was decoded on the way to the hash.

    >>> Picture("a.png", "0" * 64, None).reference
    'a.png'
    """

    reference: str
    hash: str
    pixels: NDArray[np.uint8] | None


class PictureReader:
    """Reads a pair set's images; decodes those alone whose pixels the store does not know by the file's hash.

    Args:
        pairset: whose images to read.
        store: where the hashes of decoded pixels are kept.
        workers: threads that read and decode; the cores of this machine, at most 8, if not given. Their number
            changes nothing that is returned.

    Attributes:
        hashes: reference -> hash of pixels, of every image read so far.

    >>> from pathlib import Path
    >>> from tellapart.data.item import Item
    >>> pairs = PairSet("s", (Item(id="a", images=("0.png",), texts=("x", "y")),), Path("."))
    >>> with PictureReader(pairs, EmbeddingStore(None)) as reader:
    ...     reader.read([])
    []
    """

    def __init__(self, pairset: PairSet, store: EmbeddingStore, *, workers: int | None = None) -> None:
        self.hashes: dict[str, str] = {}
        self._pairset = pairset
        self._store = store
        self._pool = ThreadPoolExecutor(workers or min(8, os.cpu_count() or 1))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True)

    def read(self, references: Sequence[str]) -> list[Picture]:
        """Hash images, in the order given; what has been hashed before is not read again.

        Raises:
            DataError: an image is missing or cannot be decoded.
            StoreError: the store cannot be read or written.

        >>> from pathlib import Path
        >>> from tellapart.data.item import Item
        >>> pairs = PairSet("s", (Item(id="a", images=("gone.png",), texts=("x", "y")),), Path("."))
        >>> with PictureReader(pairs, EmbeddingStore(None)) as reader:
        ...     reader.read(["gone.png"])
        Traceback (most recent call last):
        tellapart.errors.DataError: s: item a: field 'images[0]': no image 'gone.png' in .
        """
        new = [reference for reference in dict.fromkeys(references) if reference not in self.hashes]
        files = list(self._pool.map(self._pairset.read_bytes, new))
        keys = [hashlib.sha256(data).hexdigest() for data in files]
        known = self._store.pixel_hashes(keys)
        unknown = [k for k, key in enumerate(keys) if key not in known]
        # The bytes that were hashed are decoded, not the file again: it may have changed meanwhile.
        decoded = list(self._pool.map(lambda k: self._decode(new[k], files[k]), unknown))
        found = {keys[k]: hash_of for k, (_, hash_of) in zip(unknown, decoded, strict=True)}
        if found:
            self._store.put_pixel_hashes(found)
        known |= found
        self.hashes.update(zip(new, map(known.__getitem__, keys), strict=True))
        pixels = {new[k]: array for k, (array, _) in zip(unknown, decoded, strict=True)}
        return [Picture(reference, self.hashes[reference], pixels.get(reference)) for reference in references]

    def pixels(self, pictures: Sequence[Picture]) -> list[NDArray[np.uint8]]:
        """Return the pictures' pixels, RGB uint8 `(height, width, 3)`, decoding those that need it.

        Raises:
            DataError: an image is missing or cannot be decoded.

        >>> from pathlib import Path
        >>> from tellapart.data.item import Item
        >>> pairs = PairSet("s", (Item(id="a", images=("0.png",), texts=("x", "y")),), Path("."))
        >>> with PictureReader(pairs, EmbeddingStore(None)) as reader:
        ...     reader.pixels([Picture("0.png", "0" * 64, np.zeros((1, 2, 3), np.uint8))])[0].shape
        (1, 2, 3)
        """
        return list(self._pool.map(self._pixels_of, pictures))

    def _pixels_of(self, picture: Picture) -> NDArray[np.uint8]:
        return self._pairset.pixels(picture.reference) if picture.pixels is None else picture.pixels

    def _decode(self, reference: str, data: bytes) -> tuple[NDArray[np.uint8], str]:
        try:
            pixels = decode(data, reference)
        except DataError as error:
            raise DataError(f"{self._pairset.where(reference)}: {error}") from error
        return pixels, pixel_hash(pixels)


def image_hashes(
    pairset: PairSet, *, store: EmbeddingStore, progress: Callable[[str, int, int], None] | None = None
) -> dict[str, str]:
    """Return the hash of every image's pixels: reference -> hash; for `PairSet.fingerprint` and the ledger.

    Args:
        pairset: whose images to read.
        store: where the hashes are kept.
        progress: told the stage ("reading images"), what is done of it, and the total.

    Raises:
        DataError: an image is missing or cannot be decoded.
        StoreError: the store cannot be read or written.

    >>> from pathlib import Path
    >>> from tellapart.data.item import Item
    >>> pairs = PairSet("s", (Item(id="a", images=("gone.png",), texts=("x", "y")),), Path("."))
    >>> image_hashes(pairs, store=EmbeddingStore(None))
    Traceback (most recent call last):
    tellapart.errors.DataError: s: item a: field 'images[0]': no image 'gone.png' in .
    """
    references = list(dict.fromkeys(reference for item in pairset.items for reference in item.images))
    with PictureReader(pairset, store) as reader:
        for start in range(0, len(references), _BLOCK):
            reader.read(references[start : start + _BLOCK])
            if progress:
                progress("reading images", min(start + _BLOCK, len(references)), len(references))
        return reader.hashes
