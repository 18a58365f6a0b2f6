"""The embedding store: the vectors, scores and pixel hashes of images, texts and pairs, in one SQLite file.

Numbers are filed under the model's fingerprint and the content's hash, so they serve every benchmark and every later
run. Beside it lies a file of prepared pictures.
"""

from __future__ import annotations

import hashlib
import json
import logging
import struct
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import RLock
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tellapart.errors import StoreError, plain
from tellapart.models.store.row_file import RowFile, Space
from tellapart.records.machine import versions

#: Spaces of the file: of a model's vectors and scores, of pictures' hashes, and of models by the files they come from.
_VECTORS, _SCORES, _PICTURES, _SOURCES = "vectors of ", "scores of ", "pictures", "models"


@dataclass(frozen=True, slots=True)
class StoredModel:
    """The rows of a model in a store. Its name is that of the files it was last loaded from; empty if unknown."""

    fingerprint: str
    name: str
    vectors: int = 0
    scores: int = 0


class EmbeddingStore(RowFile):
    """Vectors, pair scores and pixel hashes, kept between runs. Several processes may use one file at once.

    A content is a SHA-256 in hexadecimal, of an image or a text; of a pair it is the image's and then the text's. Those
    of one call are of one of these kinds. Each `put_...` is one transaction. `RowFile` has the rest: damage, other
    processes and threads.

    Args:
        path: the file, made if it does not exist; None keeps everything in memory.

    Attributes:
        where: the store's name in messages.
        prepared: the file of prepared pictures near it; None of a store in memory.

    Raises:
        StoreError: the file was written by another version, or cannot be read or written; of every method, too.

    >>> with EmbeddingStore(None) as store:
    ...     store.put_numbers("model-a", {"00" * 32: np.ones(3, np.float32)})
    ...     store.numbers("model-a", ["00" * 32, "11" * 32])
    {'0000000000000000000000000000000000000000000000000000000000000000': array([1., 1., 1.], dtype=float32)}
    """

    def __init__(self, path: Path | str | None) -> None:
        super().__init__(path)
        self.prepared = None if self.path is None else prepared_path(self.path)

    def numbers(self, model: str, contents: Collection[str]) -> dict[str, NDArray[np.float32]]:
        """Return the numbers that are stored: content -> float32 `(dimensions,)`, or `(1,)` of a pair."""
        rows = self.read(_space_of(model, contents), [bytes.fromhex(content) for content in contents])
        return {key.hex(): np.frombuffer(data, "<f4").astype(np.float32, copy=False) for key, data in rows.items()}

    def put_numbers(self, model: str, numbers: Mapping[str, NDArray[np.float32]]) -> None:
        """Keep vectors, float32 `(dimensions,)` each, or scores of pairs, `(1,)`, in one transaction."""
        for content, number in numbers.items():
            if not np.isfinite(number).all():
                raise StoreError(
                    f"{self.where} keeps finite numbers only; model {model[:12]!r} gave others for {content[:12]}"
                )
        rows = {bytes.fromhex(content): np.asarray(number, "<f4").tobytes() for content, number in numbers.items()}
        self.write(_space_of(model, numbers), rows)

    def has_pair_scores(self, model: str) -> bool:
        """Return whether any score of a pair is stored."""
        return bool(self.keys(_SCORES + model, 1))

    def pixel_hash(self, file: str) -> str:
        """Return the hash of the pixels of a file, given by the hash of its bytes; empty if it is not stored."""
        key = bytes.fromhex(file)
        return self.read(_PICTURES, [key]).get(key, b"").hex()

    def put_pixel_hash(self, file: str, pixels: str) -> None:
        """Keep to which pixels a file's bytes decode, so that a later run need not decode them."""
        self.write(_PICTURES, {bytes.fromhex(file): bytes.fromhex(pixels)})

    def model_of(self, source: str) -> dict[str, str] | None:
        """Return the facts that `put_model` kept under a key, or None."""
        facts = self.read(_SOURCES, [source.encode()]).get(source.encode())
        return None if facts is None else dict(json.loads(facts))

    def put_model(self, source: str, facts: Mapping[str, str]) -> None:
        """Keep a model's name, fingerprint and kind under the key of the files that it is made of."""
        self.write(_SOURCES, {source.encode(): json.dumps(facts, sort_keys=True).encode()})

    def models(self) -> list[StoredModel]:
        """Return the rows of each model, in the order in which they came."""
        names = {facts.get("fingerprint"): facts.get("name", "") for facts in self._sources().values()}
        sizes = dict[str, list[int]]()
        for space in self.spaces():  # one for each set of libraries that computed
            for column, begin in enumerate((_VECTORS, _SCORES)):
                if space.name.startswith(begin):
                    sizes.setdefault(_fingerprint_of(space.name), [0, 0])[column] += space.rows
        return [StoredModel(fingerprint, names.get(fingerprint, ""), *size) for fingerprint, size in sizes.items()]

    def forget(self, models: Iterable[str] | None) -> None:
        """Delete all that is stored of these fingerprints, or of all models and pictures, and make the file smaller."""
        spaces = [space.name for space in self.spaces()]
        if models is None:
            self.delete(spaces)
        else:
            forgotten = {*models}
            entries = [key for key, facts in self._sources().items() if facts.get("fingerprint") in forgotten]
            of_models = [space for space in spaces if _fingerprint_of(space) in forgotten]
            self.delete(of_models, {_SOURCES: entries})
        self.shrink()

    def _sources(self) -> dict[bytes, dict[str, str]]:
        rows = self.read(_SOURCES, self.keys(_SOURCES))
        return {key: json.loads(facts) for key, facts in rows.items()}


def shard_folder(store: Path) -> Path:
    """Return the folder of the shards of a store's file."""
    return store.parent / f"{store.stem}-shards"


def list_shards(folder: Path) -> list[Path]:
    """Return the files of ranks in a folder, and those that came from other machines; others are not a run's."""
    return sorted([*folder.glob("rank-*-of-*.sqlite"), *folder.glob("from-*-rank-*-of-*.sqlite")])


class Shard(EmbeddingStore):
    """A store that one of several processes writes, and that reads the rows of another store, too."""

    def __init__(self, path: Path | None, main: EmbeddingStore) -> None:
        super().__init__(path)
        self._main, self.prepared = main, main.prepared

    def read(self, space: str, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the values of keys that either of both files has."""
        values = super().read(space, keys)
        return values | self._main.read(space, [key for key in keys if key not in values])


def _space_of(model: str, contents: Iterable[str]) -> str:
    """Return the space of a model's vectors, or of its scores if the contents are pairs."""
    is_pair = len(next(iter(contents), "")) > 64
    return (_SCORES if is_pair else _VECTORS) + model


def _fingerprint_of(space: str) -> str:
    """Return the model's fingerprint in the name of a space of its vectors or scores."""
    return space.removeprefix(_VECTORS).removeprefix(_SCORES).partition(_MARK)[0]


_MARK = "@libraries-"


@cache
def library_versions() -> tuple[str, ...]:
    """Return each installed library that may change a number, with its version."""
    return tuple(f"{name} {version}" for name, version in versions().items() if name not in {"python", "tellapart"})


@cache
def _digest() -> str:
    return hashlib.sha256("\n".join(library_versions()).encode()).hexdigest()


def decoded_as(file: str) -> str:
    """Return the key of a picture's pixels: of the SHA-256 of its file's bytes, and of the libraries that decode it."""
    return hashlib.sha256(f"{file}\n{_digest()}".encode()).hexdigest()


def filed_as(fingerprint: str) -> str:
    """Return the key of a model's stored numbers: its fingerprint, and a digest of the libraries' versions."""
    return f"{fingerprint}{_MARK}{_digest()[:8]}"


Answer = TypeVar("Answer")

#: Bytes of pictures that are kept: some 14,000 of 224 by 224 pixels.
LIMIT = 2 * 2**30

#: Height and width, before the pixels.
_HEAD = struct.Struct("<II")

_log = logging.getLogger(__name__)


def prepared_path(store: Path) -> Path:
    """Return the file of prepared pictures in the folder of an embedding store's file."""
    return store.with_name("prepared.sqlite")


def kept_preparations(path: Path) -> list[dict[str, Any]]:
    """Return the contents of a file of prepared pictures, the latest preprocessing first; none without a file.

    Of each the name, the pictures and their bytes, and when a model last used it (Unix time).
    """
    if not path.exists():
        return []
    with _open_file(path) as file:
        spaces = _list_latest(file)
    return [
        {"name": name, "pictures": rows, "bytes": size - _HEAD.size * rows, "used": used}
        for name, used, rows, size in spaces
    ]


def _open_file(path: Path) -> RowFile:
    # Decoding a picture again takes milliseconds, and a power cut may cost the file.
    return RowFile(path, patience=5.0, synchronous="OFF")


def _list_latest(file: RowFile) -> list[Space]:
    return sorted((space for space in file.spaces() if space.rows), key=lambda space: -space.used)


class PreparedPictures:
    """Prepared pictures, uint8 `(height, width, 3)`, kept between runs. Threads may share one; processes one file.

    The file is opened, and made, when it is first asked. Where it would hold more bytes than the limit, other
    preprocessings go first, the one longest unused before the rest; then no more of this one are taken, so that a set
    that is too large still finds its first pictures.
    """

    def __init__(self, path: Path, preparation: str, *, limit: int = LIMIT) -> None:
        self.path, self._preparation, self._limit = path, preparation, limit
        self._turn = RLock()
        self._file: RowFile | None = None
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
        """Keep a picture by the hash of its pixels, unless the store is full."""
        row = {bytes.fromhex(content): _HEAD.pack(*picture.shape[:2]) + picture.tobytes()}
        self._try_work(lambda file: self._make_room(file, picture.nbytes) and file.write(self._preparation, row))

    def _make_room(self, file: RowFile, size: int) -> bool:
        while not self._full and file.bytes_used() + size > self._limit:
            others = [kept.name for kept in _list_latest(file) if kept.name != self._preparation]
            file.delete(others[-1:])
            self._full = not others
        return not self._full

    def _try_work(self, work: Callable[[RowFile], Answer]) -> Answer | None:
        """Do something with the file; None from the first failure on."""
        with self._turn:
            if self._lost:
                return None
            try:
                if self._file is None:
                    self._file = _open_file(self.path)
                    self._file.write(self._preparation, {})
                return work(self._file)
            except StoreError as error:
                self._lost = True
                remedy = "tellapart cache prune --prepared deletes it"
                _log.warning("%s", plain(f"{error}; {remedy}: pictures are made again"))
                return None
