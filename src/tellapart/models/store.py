"""The embedding store: what a model once said of an image, a text or a pair, in one SQLite file.

Numbers are filed under the model's fingerprint and the content's hash, so they serve every benchmark and every later
run. Nothing stored is ever changed: of two writers of one key the first wins, and both wrote the same.
"""

from __future__ import annotations

import os
import sqlite3
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from tellapart.errors import StoreError

__all__ = ["Counts", "EmbeddingStore", "default_store_path"]

_APPLICATION = 0x74656C6C  # "tell", in the header of the file: it tells a store from any other database
_SCHEMA = 1
_TABLES = """
CREATE TABLE model (id INTEGER PRIMARY KEY, fingerprint TEXT NOT NULL UNIQUE);
CREATE TABLE vector (model INTEGER NOT NULL, content BLOB NOT NULL, dimensions INTEGER NOT NULL, data BLOB NOT NULL,
                     PRIMARY KEY (model, content)) WITHOUT ROWID;
CREATE TABLE pair (model INTEGER NOT NULL, image BLOB NOT NULL, text BLOB NOT NULL, score REAL NOT NULL,
                   PRIMARY KEY (model, image, text)) WITHOUT ROWID;
CREATE TABLE picture (file BLOB PRIMARY KEY, pixels BLOB NOT NULL) WITHOUT ROWID;
"""
_REMEDY = "delete it, or name another --cache"

#: How long a writer waits for another one, in seconds. A batch is written in milliseconds.
_PATIENCE = 60.0


def default_store_path() -> Path:
    """Return where the store lies: in `TELLAPART_CACHE`, or else in the user's cache folder.

    >>> default_store_path().name
    'store.sqlite'
    """
    if folder := os.environ.get("TELLAPART_CACHE"):
        return Path(folder).expanduser() / "store.sqlite"
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "tellapart" / "store.sqlite"


@dataclass(frozen=True, slots=True)
class Counts:
    """How much a store holds.

    >>> EmbeddingStore(None).counts()
    Counts(models=0, vectors=0, pairs=0, pictures=0)
    """

    models: int
    vectors: int
    pairs: int
    pictures: int


class EmbeddingStore:
    """Vectors, pair scores and pixel hashes, kept between runs. Several processes may use one file at once.

    Each `put_...` is one transaction: a process that is killed loses the batch at hand and nothing else. The file is
    in write-ahead mode, which needs a local disk, not a network one. A content key is a SHA-256 in hexadecimal.

    Args:
        path: the file, made if it is not there; None keeps everything in memory.

    Raises:
        StoreError: the file is no store, is damaged, was written by a newer version, or cannot be written.

    >>> with EmbeddingStore(None) as store:
    ...     store.put_vectors("model-a", {"00" * 32: np.ones(3, np.float32)})
    ...     store.vectors("model-a", ["00" * 32, "11" * 32])
    {'0000000000000000000000000000000000000000000000000000000000000000': array([1., 1., 1.], dtype=float32)}
    """

    def __init__(self, path: Path | str | None) -> None:
        self.path = None if path is None else Path(path)
        self._where = "the store in memory" if self.path is None else str(self.path)
        self._models: dict[str, int] = {}
        if self.path is not None:
            self._look_at_file(self.path)
        with self._explained():
            # Transactions are begun by hand: sqlite3's own do not cover reads. One thread uses the store, but a
            # dropped one is closed by the garbage collector, which runs in whatever thread allocates.
            self._connection = sqlite3.connect(
                self.path or ":memory:", timeout=_PATIENCE, isolation_level=None, check_same_thread=False
            )
        try:
            with self._explained():
                self._prepare()
        except BaseException:
            self._connection.close()
            raise
        # A store in memory is often just dropped; newer Pythons warn of a connection that nobody closed.
        weakref.finalize(self, self._connection.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; a store in memory is gone.

        >>> EmbeddingStore(None).close()
        """
        self._connection.close()

    def vectors(self, model: str, contents: Iterable[str]) -> dict[str, NDArray[np.float32]]:
        """Return the vectors there are: content -> float32 `(dimensions,)`.

        Raises:
            StoreError: a stored vector is damaged.

        >>> EmbeddingStore(None).vectors("model-a", ["00" * 32])
        {}
        """
        query = "SELECT dimensions, data FROM vector WHERE model = ? AND content = ?"
        found: dict[str, NDArray[np.float32]] = {}
        with self._transaction("DEFERRED") as connection:
            number = self._model(model)
            for content in contents:
                row = connection.execute(query, (number, bytes.fromhex(content))).fetchone()
                if row is not None:
                    found[content] = self._vector(model, content, *row)
        return found

    def missing_vectors(self, model: str, contents: Iterable[str]) -> list[str]:
        """Return the contents that have no vector yet, in the order given.

        Raises:
            StoreError: the file is damaged.

        >>> EmbeddingStore(None).missing_vectors("model-a", ["00" * 32]) == ["00" * 32]
        True
        """
        query = "SELECT 1 FROM vector WHERE model = ? AND content = ?"
        with self._transaction("DEFERRED") as connection:
            number = self._model(model)
            return [
                content
                for content in contents
                if connection.execute(query, (number, bytes.fromhex(content))).fetchone() is None
            ]

    def put_vectors(self, model: str, vectors: Mapping[str, NDArray[np.float32]]) -> None:
        """Keep vectors, float32 `(dimensions,)` each, in one transaction.

        Raises:
            StoreError: the file cannot be written, or a vector is not finite.

        >>> EmbeddingStore(None).put_vectors("model-a", {"00" * 32: np.array([np.nan], np.float32)})
        Traceback (most recent call last):
        tellapart.errors.StoreError: the store in memory keeps finite numbers only; model 'model-a' gave others for 000000000000
        """
        for content, vector in vectors.items():
            self._check_finite(model, content, vector)
        with self._transaction("IMMEDIATE") as connection:
            number = self._model(model, add=True)
            connection.executemany(
                "INSERT OR IGNORE INTO vector VALUES (?, ?, ?, ?)",
                (
                    (number, bytes.fromhex(content), vector.size, vector.astype("<f4").tobytes())
                    for content, vector in vectors.items()
                ),
            )

    def pair_scores(self, model: str, pairs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], np.float32]:
        """Return the scores there are: (image, text) -> float32.

        Raises:
            StoreError: the file is damaged.

        >>> store = EmbeddingStore(None)
        >>> store.put_pair_scores("model-a", {("00" * 32, "11" * 32): np.float32(0.5)})
        >>> list(store.pair_scores("model-a", [("00" * 32, "11" * 32), ("00" * 32, "22" * 32)]).values())
        [np.float32(0.5)]
        """
        query = "SELECT score FROM pair WHERE model = ? AND image = ? AND text = ?"
        found: dict[tuple[str, str], np.float32] = {}
        with self._transaction("DEFERRED") as connection:
            number = self._model(model)
            for image, text in pairs:
                row = connection.execute(query, (number, bytes.fromhex(image), bytes.fromhex(text))).fetchone()
                if row is not None:
                    if not isinstance(row[0], float) or not np.isfinite(row[0]):
                        raise self._damaged("score", image, model, f"is {row[0]!r}")
                    found[image, text] = np.float32(row[0])
        return found

    def put_pair_scores(self, model: str, scores: Mapping[tuple[str, str], np.float32]) -> None:
        """Keep the scores of (image, text) pairs, in one transaction.

        Raises:
            StoreError: the file cannot be written, or a score is not finite.

        >>> store = EmbeddingStore(None)
        >>> store.put_pair_scores("model-a", {("00" * 32, "11" * 32): np.float32(0.5)})
        >>> store.counts().pairs
        1
        """
        for (image, _), score in scores.items():
            self._check_finite(model, image, score)
        with self._transaction("IMMEDIATE") as connection:
            number = self._model(model, add=True)
            connection.executemany(
                "INSERT OR IGNORE INTO pair VALUES (?, ?, ?, ?)",
                (
                    (number, bytes.fromhex(image), bytes.fromhex(text), float(score))
                    for (image, text), score in scores.items()
                ),
            )

    def pixel_hashes(self, files: Iterable[str]) -> dict[str, str]:
        """Return the hashes of decoded pixels there are: hash of a file's bytes -> hash of its pixels.

        Raises:
            StoreError: the file is damaged.

        >>> store = EmbeddingStore(None)
        >>> store.put_pixel_hashes({"00" * 32: "11" * 32})
        >>> store.pixel_hashes(["00" * 32]) == {"00" * 32: "11" * 32}
        True
        """
        query = "SELECT pixels FROM picture WHERE file = ?"
        found: dict[str, str] = {}
        with self._transaction("DEFERRED") as connection:
            for file in files:
                row = connection.execute(query, (bytes.fromhex(file),)).fetchone()
                if row is not None:
                    found[file] = row[0].hex()
        return found

    def put_pixel_hashes(self, hashes: Mapping[str, str]) -> None:
        """Keep which file's bytes decode to which pixels, so that a later run need not decode them.

        Raises:
            StoreError: the file cannot be written.

        >>> store = EmbeddingStore(None)
        >>> store.put_pixel_hashes({"00" * 32: "11" * 32})
        >>> store.counts().pictures
        1
        """
        with self._transaction("IMMEDIATE") as connection:
            connection.executemany(
                "INSERT OR IGNORE INTO picture VALUES (?, ?)",
                ((bytes.fromhex(file), bytes.fromhex(pixels)) for file, pixels in hashes.items()),
            )

    def counts(self) -> Counts:
        """Count what is stored, over all models.

        >>> EmbeddingStore(None).counts().vectors
        0
        """
        with self._transaction("DEFERRED") as connection:
            tables = ("model", "vector", "pair", "picture")
            return Counts(*(connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in tables))  # noqa: S608

    def _look_at_file(self, path: Path) -> None:
        """Refuse what is no SQLite file before SQLite touches it, and make the folder of a new one."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists():
                with path.open("rb") as file:
                    head = file.read(16)
                if head not in {b"", b"SQLite format 3\0"}:
                    raise StoreError(f"{path} is not a tellapart store; {_REMEDY}")
        except OSError as error:
            raise StoreError(f"{path} cannot be opened: {error.strerror or error}; name another --cache") from error

    def _prepare(self) -> None:
        connection = self._connection
        connection.execute(f"PRAGMA busy_timeout = {int(_PATIENCE * 1000)}")
        self._is_new()
        self._switch_to_write_ahead()
        # In write-ahead mode NORMAL still survives a killed process; a power cut may cost the last batches.
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Another process may have made the tables while this one waited.
            if self._is_new():
                for statement in _TABLES.split(";")[:-1]:
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                connection.execute(f"PRAGMA user_version = {_SCHEMA}")
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise

    def _is_new(self) -> bool:
        """Return whether the database is empty; raise if it is not a store of this schema."""
        application, version, tables = (
            self._connection.execute(query).fetchone()[0]
            for query in ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
        )
        if (application, version, tables) == (0, 0, 0):
            return True
        if application != _APPLICATION:
            raise StoreError(
                f"{self._where} is not a tellapart store but another SQLite database; name another --cache"
            )
        if version != _SCHEMA:
            age = "a newer" if version > _SCHEMA else "an older"
            raise StoreError(
                f"{self._where} was written by {age} tellapart (schema {version}, this one reads {_SCHEMA}); {_REMEDY}"
            )
        return False

    def _switch_to_write_ahead(self) -> None:
        # Two processes that switch a new file at once: SQLite does not wait here, whatever the timeout.
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                self._connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    @contextmanager
    def _transaction(self, mode: str) -> Iterator[sqlite3.Connection]:
        with self._explained():
            self._connection.execute(f"BEGIN {mode}")
            try:
                yield self._connection
            except BaseException:
                self._models.clear()  # a number given in this transaction is void
                # A full disk rolls back by itself, and a second rollback would hide why.
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(f"{self._where} {_explain(error)}") from error

    def _model(self, fingerprint: str, *, add: bool = False) -> int:
        """Return a model's number; 0, which no model has, if it is not there."""
        if fingerprint not in self._models:
            if add:
                self._connection.execute("INSERT OR IGNORE INTO model (fingerprint) VALUES (?)", (fingerprint,))
            row = self._connection.execute("SELECT id FROM model WHERE fingerprint = ?", (fingerprint,)).fetchone()
            if row is None:
                return 0
            self._models[fingerprint] = row[0]
        return self._models[fingerprint]

    def _vector(self, model: str, content: str, dimensions: int, data: bytes) -> NDArray[np.float32]:
        if not isinstance(data, bytes) or len(data) != 4 * dimensions:
            got = f"{len(data)} bytes" if isinstance(data, bytes) else repr(data)
            raise self._damaged("vector", content, model, f"should have {4 * dimensions} bytes and is {got}")
        vector = np.frombuffer(data, "<f4").astype(np.float32, copy=False)
        if not np.isfinite(vector).all():
            raise self._damaged("vector", content, model, "is not finite")
        return vector

    def _damaged(self, what: str, content: str, model: str, how: str) -> StoreError:
        return StoreError(
            f"{self._where} is damaged: the {what} of {content[:12]} for model {model[:12]!r} {how}; {_REMEDY}"
        )

    def _check_finite(self, model: str, content: str, numbers: NDArray[np.float32] | np.float32) -> None:
        if not np.isfinite(numbers).all():
            raise StoreError(
                f"{self._where} keeps finite numbers only; model {model[:12]!r} gave others for {content[:12]}"
            )


def _explain(error: sqlite3.Error) -> str:
    """Say what happened, and what to do, by SQLite's primary result code."""
    match getattr(error, "sqlite_errorcode", 0) & 0xFF:
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return f"is damaged ({error}); {_REMEDY}"
        case sqlite3.SQLITE_FULL:
            return f"cannot grow: the disk is full ({error}); free space, or name another --cache"
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return f"cannot be written ({error}); name another --cache, or run with --no-cache"
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return f"was locked by another process for {_PATIENCE:g} s; end that process, or name another --cache"
        case _:
            return f"failed ({error}); run with --no-cache, or name another --cache"
