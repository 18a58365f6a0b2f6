"""Prepared pictures, kept so that another model of the same preprocessing decodes none.

They lie in `prepared.sqlite` near the embedding store, under the hash of the preprocessing and that of the decoded
pixels. All of it can be made again: if no file can be used, the log has one line, and pictures are decoded as if there
were none.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tellapart.errors import StoreError, plain
from tellapart.models.store.row_file import RowFile

Answer = TypeVar("Answer")

#: Bytes of pictures that are kept: some 14,000 of 224 by 224 pixels.
LIMIT = 2 * 2**30

#: Pictures after which the bytes of all are counted again: other processes write, too. A full file takes half a second.
_COUNTED = 512

#: Height and width, before the pixels.
_HEAD = struct.Struct("<II")

_REMEDY = "tellapart cache prune --prepared deletes it"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Preparation:
    """A preprocessing, and its rows: pictures, their bytes, and when a model last used it (Unix time)."""

    name: str
    pictures: int
    bytes: int
    used: float


def prepared_path(store: Path) -> Path:
    """Return the file of prepared pictures in the folder of an embedding store's file."""
    return store.with_name("prepared.sqlite")


def kept_preparations(path: Path) -> list[Preparation]:
    """Return the contents of a file of prepared pictures, the latest preprocessing first; none without a file."""
    if not path.exists():
        return []
    with _open_file(path) as file:
        return _list_preparations(file)


def _open_file(path: Path) -> RowFile:
    # Decoding a picture again takes milliseconds, and a power cut may cost the file.
    return RowFile(path, patience=5.0, synchronous="OFF")


def _list_preparations(file: RowFile) -> list[Preparation]:
    kept = [
        Preparation(space.name, space.rows, space.bytes - _HEAD.size * space.rows, space.used)
        for space in file.spaces()
        if space.rows
    ]
    return sorted(kept, key=lambda preparation: -preparation.used)


class PreparedPictures:
    """Prepared pictures, uint8 `(height, width, 3)`, kept between runs. Threads may share one; processes one file.

    The file is opened, and made, when it is first asked. Where all pictures hold more bytes than the limit, other
    preprocessings go first, the one longest unused before the rest; then no more of this one are taken, so that a set
    that is too large still finds its first pictures.

    >>> kept = PreparedPictures(getfixture("tmp_path") / "prepared.sqlite", "crop of 2")
    >>> kept.put("00" * 32, np.full((2, 2, 3), 7, np.uint8))
    >>> kept.get("00" * 32)[0, 0].tolist(), kept.get("11" * 32), kept_preparations(kept.path)[0].bytes
    ([7, 7, 7], None, 12)
    """

    def __init__(self, path: Path, preparation: str, *, limit: int = LIMIT) -> None:
        self.path, self._preparation, self._limit = path, preparation, limit
        self._turn = RLock()
        self._file: RowFile | None = None
        self._held = self._count = 0
        self._lost = self._full = False

    def close(self) -> None:
        """Close the file."""
        with self._turn:
            if self._file is not None:
                self._file.close()
            self._file, self._lost = None, True

    def get(self, content: str) -> NDArray[np.uint8] | None:
        """Return the picture prepared of these pixels; None if there is none, or a damaged one, which is deleted."""
        key = bytes.fromhex(content)
        data = self._try_work(lambda file: file.read(self._preparation, [key]).get(key))
        if data is None:
            return None
        return np.frombuffer(bytearray(data), np.uint8, offset=_HEAD.size).reshape(*_HEAD.unpack_from(data), 3)

    def put(self, content: str, picture: NDArray[np.uint8]) -> None:
        """Keep a picture, unless the store is full."""
        value = _HEAD.pack(*picture.shape[:2]) + picture.tobytes()

        def write(file: RowFile) -> None:
            if self._make_room(file, picture.nbytes):
                file.write(self._preparation, {bytes.fromhex(content): value})

        self._try_work(write)

    def _make_room(self, file: RowFile, size: int) -> bool:
        if self._count % _COUNTED == 0 or (self._held + size > self._limit and not self._full):
            kept = _list_preparations(file)
            self._held = sum(preparation.bytes for preparation in kept)
            for preparation in reversed(kept):
                if self._held + size > self._limit and preparation.name != self._preparation:
                    file.delete([preparation.name])
                    self._held -= preparation.bytes
            self._full = self._held + size > self._limit
        self._count += 1
        if self._held + size > self._limit:
            return False
        self._held += size
        return True

    def _try_work(self, work: Callable[[RowFile], Answer]) -> Answer | None:
        """Do something with the file; None from the first failure on."""
        with self._turn:
            if self._lost:
                return None
            try:
                if self._file is None:
                    self._file = _open_file(self.path)
                    self._file.touch(self._preparation)
                return work(self._file)
            except StoreError as error:
                self._lost = True
                _log.warning("%s", plain(f"{error}; {_REMEDY}: pictures are made again"))
                return None
