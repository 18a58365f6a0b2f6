"""The embedding store: what a model once said of an image, a text or a pair, in one SQLite file.

Numbers are filed under the model's fingerprint and the content's hash, so they serve every benchmark and every later
run. Nothing stored is ever changed: of two writers of one key the first wins, and both wrote the same.
"""

from __future__ import annotations

import json
import os
import sqlite3
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from tellapart.errors import StoreError
from tellapart.models.store_file import MERGE, REMEDY, explain, open_store

__all__ = ["Counts", "EmbeddingStore", "default_store_path"]


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

    Each `put_...` is one transaction: a process that is killed loses the batch at hand and nothing else. Threads may
    share a store; their calls wait for each other. The file is in write-ahead mode, which needs a local disk, not a
    network one. A content key is a SHA-256 in hexadecimal.

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
        self._turn = Lock()
        with self._explained():
            self._connection = open_store(self.path, self._where)
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

    def model_of(self, source: str) -> dict[str, str] | None:
        """Return what `put_model` kept under a key, or None.

        Raises:
            StoreError: the file is damaged.

        >>> EmbeddingStore(None).model_of("00" * 32) is None
        True
        """
        with self._transaction("DEFERRED") as connection:
            row = connection.execute("SELECT facts FROM source WHERE key = ?", (source,)).fetchone()
        if row is None:
            return None
        try:
            return dict(json.loads(row[0]))
        except (TypeError, ValueError) as error:
            raise StoreError(f"{self._where} is damaged: what it holds of a model is {row[0]!r}; {REMEDY}") from error

    def put_model(self, source: str, facts: Mapping[str, str]) -> None:
        """Keep what a model said of itself, under the key of the files that it was made of.

        Raises:
            StoreError: the file cannot be written.

        >>> store = EmbeddingStore(None)
        >>> store.put_model("00" * 32, {"name": "a"})
        >>> store.model_of("00" * 32)
        {'name': 'a'}
        """
        with self._transaction("IMMEDIATE") as connection:
            row = (source, json.dumps(facts, sort_keys=True))
            connection.execute("INSERT OR REPLACE INTO source VALUES (?, ?)", row)

    def has_pair_scores(self, model: str) -> bool:
        """Return whether there is any score of a pair.

        Raises:
            StoreError: the file is damaged.

        >>> EmbeddingStore(None).has_pair_scores("model-a")
        False
        """
        with self._transaction("DEFERRED") as connection:
            query = "SELECT 1 FROM pair WHERE model = ? LIMIT 1"
            return connection.execute(query, (self._model(model),)).fetchone() is not None

    def counts(self) -> Counts:
        """Count what is stored, over all models.

        >>> EmbeddingStore(None).counts().vectors
        0
        """
        with self._transaction("DEFERRED") as connection:
            tables = ("model", "vector", "pair", "picture")
            return Counts(*(connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in tables))  # noqa: S608

    def merge(self, other: Path) -> None:
        """Take over all that another store's file holds, in one transaction; of what both hold, this one's stays.

        Raises:
            StoreError: the file is no store or is damaged, or this one cannot be written.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as scratch, EmbeddingStore(None) as store:
        ...     with EmbeddingStore(Path(scratch) / "other.sqlite") as other:
        ...         other.put_vectors("model-a", {"00" * 32: np.ones(3, np.float32)})
        ...     store.merge(Path(scratch) / "other.sqlite")
        ...     store.counts().vectors
        1
        """
        EmbeddingStore(other).close()  # recognised, or refused
        with self._turn, self._explained():
            self._connection.execute("ATTACH DATABASE ? AS other", (str(other),))
        try:
            with self._transaction("IMMEDIATE") as connection:
                for statement in MERGE:
                    connection.execute(statement)
        finally:
            with self._turn, self._explained():
                self._connection.execute("DETACH DATABASE other")

    @contextmanager
    def _transaction(self, mode: str) -> Iterator[sqlite3.Connection]:
        with self._turn, self._explained():
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
            raise StoreError(f"{self._where} {explain(error)}") from error

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
            f"{self._where} is damaged: the {what} of {content[:12]} for model {model[:12]!r} {how}; {REMEDY}"
        )

    def _check_finite(self, model: str, content: str, numbers: NDArray[np.float32] | np.float32) -> None:
        if not np.isfinite(numbers).all():
            raise StoreError(
                f"{self._where} keeps finite numbers only; model {model[:12]!r} gave others for {content[:12]}"
            )
