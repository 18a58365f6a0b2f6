"""The embedding store: the vectors, scores and pixel hashes of images, texts and pairs, in one SQLite file.

Numbers are filed under the model's fingerprint and the content's hash, so they serve every benchmark and every later
run. Nothing stored is ever changed: of two writers of one key the first wins, and both wrote the same.
"""

from __future__ import annotations

import json
import os
import sqlite3
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from tellapart.errors import StoreError
from tellapart.models.store_file import MERGE, REMEDY, explain, open_store

__all__ = ["EmbeddingStore", "StoreCounts", "default_store_path"]

Key = TypeVar("Key", bound=tuple[str, ...])


def default_store_path() -> Path:
    """Return the store's file: in `TELLAPART_CACHE`, or else in the user's cache folder."""
    if folder := os.environ.get("TELLAPART_CACHE"):
        return Path(folder).expanduser() / "store.sqlite"
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "tellapart" / "store.sqlite"


@dataclass(frozen=True, slots=True)
class StoreCounts:
    """How many models, vectors, scores of pairs and hashes of pictures a store holds."""

    models: int
    vectors: int
    pairs: int
    pictures: int


class EmbeddingStore:
    """Vectors, pair scores and pixel hashes, kept between runs. Several processes may use one file at once.

    Each `put_...` is one transaction: a process that is killed loses the current batch and nothing else. Threads may
    share a store; their calls wait for each other. The file is in write-ahead mode, which needs a local disk, not a
    network one. A content key is a SHA-256 in hexadecimal.

    Args:
        path: the file, made if it does not exist; None keeps everything in memory.

    Attributes:
        where: the store's name in messages.

    Raises:
        StoreError: the file is no store, is damaged, was written by a newer version, or cannot be written. Every
            method raises it for a damaged file, and those that write for one that cannot be written.

    >>> with EmbeddingStore(None) as store:
    ...     store.put_vectors("model-a", {"00" * 32: np.ones(3, np.float32)})
    ...     store.vectors("model-a", ["00" * 32, "11" * 32])
    {'0000000000000000000000000000000000000000000000000000000000000000': array([1., 1., 1.], dtype=float32)}
    """

    def __init__(self, path: Path | str | None) -> None:
        self.path = None if path is None else Path(path)
        self.where = "the store in memory" if self.path is None else str(self.path)
        self._models: dict[str, int] = {}
        self._turn = Lock()
        with self._explain_errors():
            self._connection = open_store(self.path, self.where)
        # A store in memory is often just dropped; newer Pythons warn of a connection that is not closed.
        weakref.finalize(self, self._connection.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; a store in memory is gone."""
        self._connection.close()

    def vectors(self, model: str, contents: Iterable[str]) -> dict[str, NDArray[np.float32]]:
        """Return the vectors that are stored: content -> float32 `(dimensions,)`."""
        query = "SELECT dimensions, data FROM vector WHERE model = ? AND content = ?"
        vectors = self._select(query, model, ((content,) for content in contents), EmbeddingStore._read_vector)
        return {content: vector for (content,), vector in vectors.items()}

    def missing_vectors(self, model: str, contents: Iterable[str]) -> list[str]:
        """Return the contents that have no vector yet, in the order given."""
        contents = list(contents)
        query = "SELECT 1 FROM vector WHERE model = ? AND content = ?"
        stored = self._select(query, model, ((content,) for content in contents))
        return [content for content in contents if (content,) not in stored]

    def put_vectors(self, model: str, vectors: Mapping[str, NDArray[np.float32]]) -> None:
        """Keep vectors, float32 `(dimensions,)` each, in one transaction.

        Raises:
            StoreError: the file cannot be written, or a vector is not finite.
        """
        for content, vector in vectors.items():
            self._check_finite(model, content, vector)
        rows = ((bytes.fromhex(key), vector.size, vector.astype("<f4").tobytes()) for key, vector in vectors.items())
        self._insert("INSERT OR IGNORE INTO vector VALUES (?, ?, ?, ?)", model, rows)

    def pair_scores(self, model: str, pairs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], np.float32]:
        """Return the scores that are stored: (image, text) -> float32."""
        query = "SELECT score FROM pair WHERE model = ? AND image = ? AND text = ?"
        return self._select(query, model, pairs, EmbeddingStore._read_score)

    def put_pair_scores(self, model: str, scores: Mapping[tuple[str, str], np.float32]) -> None:
        """Keep the scores of (image, text) pairs, in one transaction.

        Raises:
            StoreError: the file cannot be written, or a score is not finite.
        """
        for (image, _), score in scores.items():
            self._check_finite(model, image, score)
        rows = ((*map(bytes.fromhex, pair), float(score)) for pair, score in scores.items())
        self._insert("INSERT OR IGNORE INTO pair VALUES (?, ?, ?, ?)", model, rows)

    def has_pair_scores(self, model: str) -> bool:
        """Return whether any score of a pair is stored."""
        query = "SELECT 1 FROM pair WHERE model = ? LIMIT 1"
        return bool(self._select(query, model, [()]))

    def pixel_hashes(self, files: Iterable[str]) -> dict[str, str]:
        """Return the hashes of decoded pixels that are stored: hash of a file's bytes -> hash of its pixels."""
        query = "SELECT pixels FROM picture WHERE file = ?"
        hashes = self._select(query, None, ((file,) for file in files))
        return {file: pixels.hex() for (file,), pixels in hashes.items()}

    def put_pixel_hashes(self, hashes: Mapping[str, str]) -> None:
        """Keep which file's bytes decode to which pixels, so that a later run need not decode them."""
        rows = (tuple(map(bytes.fromhex, pair)) for pair in hashes.items())
        self._insert("INSERT OR IGNORE INTO picture VALUES (?, ?)", None, rows)

    def model_of(self, source: str) -> dict[str, str] | None:
        """Return what `put_model` kept under a key, or None."""
        with self._transaction("DEFERRED") as connection:
            row = connection.execute("SELECT facts FROM source WHERE key = ?", (source,)).fetchone()
        if row is None:
            return None
        try:
            return dict(json.loads(row[0]))
        except (TypeError, ValueError) as error:
            raise StoreError(f"{self.where} is damaged: its entry of a model is {row[0]!r}; {REMEDY}") from error

    def put_model(self, source: str, facts: Mapping[str, str]) -> None:
        """Keep a model's name, fingerprint and kind under the key of the files that it is made of."""
        row = (source, json.dumps(facts, sort_keys=True))
        self._insert("INSERT OR REPLACE INTO source VALUES (?, ?)", None, [row])

    def counts(self) -> StoreCounts:
        """Count what is stored, over all models."""
        with self._transaction("DEFERRED") as connection:
            tables = ("model", "vector", "pair", "picture")
            counts = (connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in tables)  # noqa: S608
            return StoreCounts(*counts)

    def merge(self, other: Path) -> None:
        """Take over all that another store's file holds, in one transaction; of what both hold, this one's stays."""
        EmbeddingStore(other).close()  # an error if it is no store
        with self._turn, self._explain_errors():
            self._connection.execute("ATTACH DATABASE ? AS other", (str(other),))
        try:
            with self._transaction("IMMEDIATE") as connection:
                for statement in MERGE:
                    connection.execute(statement)
        finally:
            with self._turn, self._explain_errors():
                self._connection.execute("DETACH DATABASE other")

    def _select(
        self, query: str, model: str | None, keys: Iterable[Key], read: Callable[..., Any] | None = None
    ) -> dict[Key, Any]:
        """Read the first row that a query gives for each key, if it gives one, in one transaction.

        Args:
            query: with a parameter for the model, if there is one, and for every hash of a key.
            model: fingerprint.
            keys: each one or more hashes, in hexadecimal.
            read: a method of the store that checks the columns, given the model and the key's first hash; if there is
                none, the value is the only column.
        """
        values: dict[Key, Any] = {}
        with self._transaction("DEFERRED") as connection:
            scope = () if model is None else (self._model(model),)
            for key in keys:
                row = connection.execute(query, (*scope, *map(bytes.fromhex, key))).fetchone()
                if row is not None:
                    values[key] = row[0] if read is None else read(self, model, key[0], *row)
        return values

    def _insert(self, statement: str, model: str | None, rows: Iterable[tuple[Any, ...]]) -> None:
        """Write rows in one transaction, each behind the model's number, if there is a model."""
        with self._transaction("IMMEDIATE") as connection:
            scope = () if model is None else (self._model(model, add=True),)
            connection.executemany(statement, ((*scope, *row) for row in rows))

    @contextmanager
    def _transaction(self, mode: str) -> Iterator[sqlite3.Connection]:
        with self._turn, self._explain_errors():
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
    def _explain_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(f"{self.where} {explain(error)}") from error

    def _model(self, fingerprint: str, *, add: bool = False) -> int:
        """Return a model's number; 0, which no model has, if it is not stored."""
        if fingerprint not in self._models:
            if add:
                self._connection.execute("INSERT OR IGNORE INTO model (fingerprint) VALUES (?)", (fingerprint,))
            row = self._connection.execute("SELECT id FROM model WHERE fingerprint = ?", (fingerprint,)).fetchone()
            if row is None:
                return 0
            self._models[fingerprint] = row[0]
        return self._models[fingerprint]

    def _read_score(self, model: str, image: str, score: object) -> np.float32:
        if not isinstance(score, float) or not np.isfinite(score):
            raise self._damage("score", image, model, f"is {score!r}")
        return np.float32(score)

    def _read_vector(self, model: str, content: str, dimensions: int, data: object) -> NDArray[np.float32]:
        if not isinstance(data, bytes) or len(data) != 4 * dimensions:
            size = f"{len(data)} bytes" if isinstance(data, bytes) else repr(data)
            raise self._damage("vector", content, model, f"should have {4 * dimensions} bytes and is {size}")
        vector = np.frombuffer(data, "<f4").astype(np.float32, copy=False)
        if not np.isfinite(vector).all():
            raise self._damage("vector", content, model, "is not finite")
        return vector

    def _damage(self, what: str, content: str, model: str, how: str) -> StoreError:
        return StoreError(
            f"{self.where} is damaged: the {what} of {content[:12]} for model {model[:12]!r} {how}; {REMEDY}"
        )

    def _check_finite(self, model: str, content: str, numbers: NDArray[np.float32] | np.float32) -> None:
        if not np.isfinite(numbers).all():
            raise StoreError(
                f"{self.where} keeps finite numbers only; model {model[:12]!r} gave others for {content[:12]}"
            )
