"""The embedding store: the vectors, scores and pixel hashes of images, texts and pairs, in one SQLite file.

Numbers are filed under the model's fingerprint and the content's hash, so they serve every benchmark and every later
run. Nothing stored is ever changed: of two writers of one key the first wins, and both wrote the same. Each row has a
checksum: a row that has changed is deleted when it is read, as if it had never been stored. A file that SQLite cannot
read is set aside, and a new one begun, when it is opened or later.
"""

from __future__ import annotations

import json
import logging
import sqlite3
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from threading import Lock
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from tellapart.data.lock import use_write_ahead_log
from tellapart.errors import StoreError, plain
from tellapart.models.store.damaged import file_id, foreign_file, is_damage, open_or_replace, set_aside
from tellapart.models.store.libraries import split_filed
from tellapart.models.store.prepared import prepared_path
from tellapart.models.store.rows import PAIRS, PICTURES, SOURCES, VECTORS, Table, checksum

_APPLICATION = 0x74656C6C  # "tell", in the header of the file: it distinguishes a store from other databases
_SCHEMA = 2
_TABLES = """
CREATE TABLE model (id INTEGER PRIMARY KEY, fingerprint TEXT NOT NULL UNIQUE);
CREATE TABLE vector (model INTEGER NOT NULL, content BLOB NOT NULL, dimensions INTEGER NOT NULL, data BLOB NOT NULL,
                     checksum INTEGER, PRIMARY KEY (model, content)) WITHOUT ROWID;
CREATE TABLE pair (model INTEGER NOT NULL, image BLOB NOT NULL, text BLOB NOT NULL, score REAL NOT NULL,
                   checksum INTEGER, PRIMARY KEY (model, image, text)) WITHOUT ROWID;
CREATE TABLE picture (file BLOB PRIMARY KEY, pixels BLOB NOT NULL, checksum INTEGER) WITHOUT ROWID;
CREATE TABLE source (key TEXT PRIMARY KEY, facts TEXT NOT NULL, checksum INTEGER) WITHOUT ROWID;
"""

#: Takes over the rows of the database attached as `other`. Each file numbers its models by itself.
MERGE = (
    "INSERT OR IGNORE INTO main.model (fingerprint) SELECT fingerprint FROM other.model",
    """INSERT OR IGNORE INTO main.vector SELECT own.id, content, dimensions, data, checksum FROM other.vector
       JOIN other.model AS its ON its.id = model JOIN main.model AS own ON own.fingerprint = its.fingerprint""",
    """INSERT OR IGNORE INTO main.pair SELECT own.id, image, text, score, checksum FROM other.pair
       JOIN other.model AS its ON its.id = model JOIN main.model AS own ON own.fingerprint = its.fingerprint""",
    "INSERT OR IGNORE INTO main.picture SELECT file, pixels, checksum FROM other.picture",
    "INSERT OR IGNORE INTO main.source SELECT key, facts, checksum FROM other.source",
)

REMEDY = "delete it, or name another cache="

_FACTS = """
SELECT (SELECT application_id FROM pragma_application_id), (SELECT user_version FROM pragma_user_version),
       (SELECT count(*) FROM sqlite_master)
"""

#: How long a writer waits for another one, in seconds. A batch is written in milliseconds.
_PATIENCE = 60.0


def open_store(path: Path | None, place: str) -> sqlite3.Connection:
    """Open a store's file, or create it; None keeps everything in memory. `place` is its name for messages.

    Transactions are begun explicitly: sqlite3's do not cover reads. The connection may be used in any thread, by
    one at a time: the garbage collector closes a dropped store in any thread. A file that is damaged or no store is set
    aside, with a warning, and a new one made.
    """
    if path is None:
        return _connect_file(None, place)
    return open_or_replace(path, lambda: _connect_file(path, place))


def _connect_file(path: Path | None, place: str) -> sqlite3.Connection:
    if path is not None:
        _check_file(path)
    connection = sqlite3.connect(path or ":memory:", timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
    # Other bytes than UTF-8 are damage that a checksum finds, not a separate error.
    connection.text_factory = bytes
    try:
        _prepare_connection(connection, place)
    except BaseException:
        connection.close()
        raise
    return connection


def _check_file(path: Path) -> None:
    """Refuse any file but a SQLite database before SQLite touches it, and make the folder of a new one."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            with path.open("rb") as file:
                head = file.read(16)
            if head not in {b"", b"SQLite format 3\0"}:
                raise foreign_file("it is not a tellapart store")
    except OSError as error:
        raise StoreError(f"{path} cannot be opened: {error.strerror or error}; name another cache=") from error


def _prepare_connection(connection: sqlite3.Connection, place: str) -> None:
    connection.execute(f"PRAGMA busy_timeout = {int(_PATIENCE * 1000)}")
    _is_new(connection, place)
    use_write_ahead_log(connection, patience=_PATIENCE)
    # In write-ahead mode NORMAL still survives a killed process; a power cut may cost the last batches.
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have made the tables while this one waited.
        if _is_new(connection, place):
            for statement in _TABLES.split(";")[:-1]:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            connection.execute(f"PRAGMA user_version = {_SCHEMA}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _is_new(connection: sqlite3.Connection, place: str) -> bool:
    """Return whether the database is empty; raise if it is neither that nor a store of this schema."""
    # One statement, and so one state of the file: another process may be making the tables at this moment.
    application, version, tables = connection.execute(_FACTS).fetchone()
    if (application, version, tables) == (0, 0, 0):
        return True
    if application != _APPLICATION:
        raise foreign_file("it is not a tellapart store but another SQLite database")
    if version != _SCHEMA:
        raise StoreError(
            f"{place} was written by another tellapart (schema {version}, this one reads {_SCHEMA}); {REMEDY}"
        )
    return False


def explain_failure(error: sqlite3.Error) -> str:
    """Return the cause and the fix, by SQLite's primary result code."""
    match getattr(error, "sqlite_errorcode", 0) & 0xFF:
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return f"is damaged ({error}); {REMEDY}"
        case sqlite3.SQLITE_FULL:
            return f"cannot grow: the disk is full ({error}); free space, or name another cache="
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return f"cannot be written ({error}); name another cache=, or run with cache=False"
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return f"was locked by another process for {_PATIENCE:g} s; end that process, or name another cache="
        case _:
            return f"failed ({error}); run with cache=False, or name another cache="


Key = TypeVar("Key", bound=tuple[str, ...])
Store = TypeVar("Store", bound="EmbeddingStore")
Given = ParamSpec("Given")
Answer = TypeVar("Answer")

#: Vectors that are read at once to check them: all of a benchmark's may not fit into memory.
_BLOCK = 256

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StoreCounts:
    """How many models, vectors, scores of pairs and hashes of pictures a store holds."""

    models: int
    vectors: int
    pairs: int
    pictures: int


@dataclass(frozen=True, slots=True)
class StoredModel:
    """The rows of a model in a store. Its name is that of the files it was last loaded from; empty if unknown."""

    fingerprint: str
    name: str
    vectors: int
    scores: int


def _on_a_new_file(
    call: Callable[Concatenate[Store, Given], Answer],
) -> Callable[Concatenate[Store, Given], Answer]:
    """Let a method be called once more if the file turns out to be damaged, on the new file in its place."""

    @wraps(call)
    def call_again(store: Store, /, *args: Given.args, **options: Given.kwargs) -> Answer:
        values: Any = [list(value) if isinstance(value, Iterator) else value for value in args]
        connection = store._connection
        try:
            return call(store, *values, **options)
        except StoreError as error:
            if store.path is None or not is_damage(error.__cause__):
                raise
            store._replace_file(connection, error.__cause__)
            return call(store, *values, **options)

    return call_again


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
        StoreError: the file was written by another version, or cannot be read or written; of every method, too.
            A damaged row is not an error: the log names it once, and the row counts as never stored. Nor is a file
            that is damaged or no store: it gets another name, which the log has, and a new file takes its place.

    >>> with EmbeddingStore(None) as store:
    ...     store.put_vectors("model-a", {"00" * 32: np.ones(3, np.float32)})
    ...     store.vectors("model-a", ["00" * 32, "11" * 32])
    {'0000000000000000000000000000000000000000000000000000000000000000': array([1., 1., 1.], dtype=float32)}
    """

    def __init__(self, path: Path | str | None) -> None:
        self.path = None if path is None else Path(path)
        self.where = "the store in memory" if self.path is None else str(self.path)
        self._models: dict[str, int] = {}
        self._warned = False
        self._turn = Lock()
        self._losses = 0
        self._open_file()

    def _open_file(self) -> None:
        with self._explain_errors():
            self._connection = open_store(self.path, self.where)
        self._file = None if self.path is None else file_id(self.path)
        # A store in memory is often just dropped; newer Pythons warn of a connection that is not closed.
        weakref.finalize(self, self._connection.close)

    def _replace_file(self, connection: sqlite3.Connection, problem: BaseException | None) -> None:
        """Begin a new file in place of a damaged one, unless another thread did since this connection was opened."""
        with self._turn:
            if self._connection is connection and self.path is not None and problem is not None:
                connection.close()
                set_aside(self.path, self._file, problem)
                self._models.clear()
                self._losses += 1
                self._open_file()

    @property
    def losses(self) -> int:
        """How often the file was damaged, and replaced, since it was opened."""
        return self._losses

    @property
    def prepared(self) -> Path | None:
        """The file of prepared pictures near it; None of a store in memory."""
        return None if self.path is None else prepared_path(self.path)

    def repeat_if_lost(self, compute: Callable[[], Answer]) -> Answer:
        """Return a result; if the file was lost while it was computed, it is computed again.

        >>> EmbeddingStore(None).repeat_if_lost(lambda: 3)
        3
        """
        before = self.losses
        try:
            return compute()
        except StoreError as error:
            if self.losses == before:
                if self.path is None or not is_damage(error.__cause__):
                    raise
                self.check_pages()
            if self.losses == before:  # rows were lost, and SQLite sees no damage
                self._replace_file(self._connection, error.__cause__)
            return compute()

    def explain_loss(self, rows: str) -> StoreError:
        """Return the error of rows that were stored and are not found: `repeat_if_lost` takes it for damage."""
        error = StoreError(f"{self.where} is damaged: it lost {rows} that were there; {REMEDY}")
        error.__cause__ = foreign_file(f"it lost {rows} that were there")
        return error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; a store in memory is gone."""
        self._connection.close()

    def vectors(self, model: str, contents: Iterable[str]) -> dict[str, NDArray[np.float32]]:
        """Return the vectors that are stored: content -> float32 `(dimensions,)`."""
        return {content: _read_vector(data) for content, data in self._vector_data(model, contents).items()}

    def missing_vectors(self, model: str, contents: Iterable[str]) -> list[str]:
        """Return the contents that have no vector yet, or a damaged one, in the order given."""
        contents, missing = list(contents), []
        for start in range(0, len(contents), _BLOCK):
            block = contents[start : start + _BLOCK]
            stored = self._vector_data(model, block)
            missing += [content for content in block if content not in stored]
        return missing

    def put_vectors(self, model: str, vectors: Mapping[str, NDArray[np.float32]]) -> None:
        """Keep vectors, float32 `(dimensions,)` each, in one transaction.

        Raises:
            StoreError: the file cannot be written, or a vector is not finite.
        """
        for content, vector in vectors.items():
            self._check_finite(model, content, vector)
        rows = ((bytes.fromhex(key), vector.size, vector.astype("<f4").tobytes()) for key, vector in vectors.items())
        self._insert_rows(VECTORS, model, rows)

    def pair_scores(self, model: str, pairs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], np.float32]:
        """Return the scores that are stored: (image, text) -> float32."""
        return {pair: np.float32(score) for pair, (score,) in self._select_rows(PAIRS, model, pairs).items()}

    def put_pair_scores(self, model: str, scores: Mapping[tuple[str, str], np.float32]) -> None:
        """Keep the scores of (image, text) pairs, in one transaction.

        Raises:
            StoreError: the file cannot be written, or a score is not finite.
        """
        for (image, _), score in scores.items():
            self._check_finite(model, image, score)
        rows = ((*map(bytes.fromhex, pair), float(score)) for pair, score in scores.items())
        self._insert_rows(PAIRS, model, rows)

    @_on_a_new_file
    def has_pair_scores(self, model: str) -> bool:
        """Return whether any score of a pair is stored."""
        with self._open_transaction("DEFERRED") as connection:
            query = "SELECT 1 FROM pair WHERE model = ? LIMIT 1"
            return connection.execute(query, (self._model_number(model),)).fetchone() is not None

    def pixel_hashes(self, files: Iterable[str]) -> dict[str, str]:
        """Return the hashes of decoded pixels that are stored: hash of a file's bytes -> hash of its pixels."""
        hashes = self._select_rows(PICTURES, None, ((file,) for file in files))
        return {file: pixels.hex() for (file,), (pixels,) in hashes.items()}

    def put_pixel_hashes(self, hashes: Mapping[str, str]) -> None:
        """Keep which file's bytes decode to which pixels, so that a later run need not decode them."""
        self._insert_rows(PICTURES, None, (tuple(map(bytes.fromhex, pair)) for pair in hashes.items()))

    def model_of(self, source: str) -> dict[str, str] | None:
        """Return the facts that `put_model` kept under a key, or None."""
        facts = self._select_rows(SOURCES, None, [(source,)]).get((source,))
        if facts is None:
            return None
        try:
            return dict(json.loads(facts[0]))
        except (TypeError, ValueError) as error:
            raise StoreError(f"{self.where} is damaged: its entry of a model is {facts[0]!r:.80}; {REMEDY}") from error

    def put_model(self, source: str, facts: Mapping[str, str]) -> None:
        """Keep a model's name, fingerprint and kind under the key of the files that it is made of."""
        self._insert_rows(SOURCES, None, [(source, json.dumps(facts, sort_keys=True))])

    @_on_a_new_file
    def counts(self) -> StoreCounts:
        """Count all rows, over all models."""
        with self._open_transaction("DEFERRED") as connection:
            tables = ("model", "vector", "pair", "picture")
            counts = (connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in tables)  # noqa: S608
            return StoreCounts(*counts)

    @_on_a_new_file
    def models(self) -> list[StoredModel]:
        """Return the rows of each model, in the order in which they came."""
        with self._open_transaction("DEFERRED") as connection:
            entries = connection.execute(
                "SELECT json_extract(facts, '$.fingerprint'), json_extract(facts, '$.name') FROM source "
                "WHERE json_valid(facts)"  # damage is found on use
            ).fetchall()
            counts = [
                dict(connection.execute(f"SELECT model, count(*) FROM {table} GROUP BY model").fetchall())  # noqa: S608
                for table in ("vector", "pair")
            ]
            rows = connection.execute("SELECT id, fingerprint FROM model ORDER BY id").fetchall()
        names, sizes = dict(entries), dict[str, list[int]]()
        for number, key in rows:  # one for each set of libraries that computed
            size = sizes.setdefault(split_filed(key.decode()), [0, 0])
            size[:] = [total + table.get(number, 0) for total, table in zip(size, counts, strict=True)]
        return [StoredModel(key, (names.get(key.encode()) or b"").decode(), *size) for key, size in sizes.items()]

    @_on_a_new_file
    def forget(self, models: Iterable[str] | None) -> None:
        """Delete all that is stored of these fingerprints, or of all models and pictures, and make the file smaller."""
        with self._open_transaction("IMMEDIATE") as connection:
            self._models.clear()
            if models is None:
                for table in ("vector", "pair", "picture", "source", "model"):
                    connection.execute(f"DELETE FROM {table}")  # noqa: S608
            for fingerprint in models or ():
                rows = connection.execute("SELECT id, fingerprint FROM model").fetchall()
                filed = [(number,) for number, key in rows if split_filed(key.decode()) == fingerprint]
                for table, column in (("vector", "model"), ("pair", "model"), ("model", "id")):
                    connection.executemany(f"DELETE FROM {table} WHERE {column} = ?", filed)  # noqa: S608
                its = "CASE WHEN json_valid(facts) THEN json_extract(facts, '$.fingerprint') END"
                connection.execute(f"DELETE FROM source WHERE {its} = ?", (fingerprint,))  # noqa: S608
        with self._turn, self._explain_errors():
            self._connection.execute("VACUUM")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def merge(self, other: Path) -> None:
        """Take over all that another store's file holds, in one transaction; of rows in both, this one's stay.

        Another file that is damaged, or no store, is set aside, and nothing taken over.
        """
        with EmbeddingStore(other) as opened:
            opened.check_pages()
        self._take_over(other)

    @_on_a_new_file
    def check_pages(self) -> None:
        """Read all of the file; one that SQLite finds damaged is replaced."""
        with self._turn, self._explain_errors():
            damage = self._connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if damage != b"ok":
                raise foreign_file(damage.decode(errors="replace"))

    @_on_a_new_file
    def _take_over(self, other: Path) -> None:
        with self._turn, self._explain_errors():
            self._connection.execute("ATTACH DATABASE ? AS other", (str(other),))
        try:
            with self._open_transaction("IMMEDIATE") as connection:
                for statement in MERGE:
                    connection.execute(statement)
        finally:
            with self._turn, self._explain_errors():
                self._connection.execute("DETACH DATABASE other")

    def _vector_data(self, model: str, contents: Iterable[str]) -> dict[str, bytes]:
        rows = self._select_rows(VECTORS, model, ((content,) for content in contents))
        return {content: data for (content,), (_, data) in rows.items()}

    @_on_a_new_file
    def _select_rows(self, table: Table, model: str | None, keys: Iterable[Key]) -> dict[Key, tuple[Any, ...]]:
        """Read the values of the rows of keys that are stored, in one transaction; damaged rows are deleted."""
        query, values, damaged = table.select, {}, []
        with self._open_transaction("DEFERRED") as connection:
            scope = () if model is None else (self._model_number(model),)
            for key in keys:
                columns = _key_columns(table, key)
                row = connection.execute(query, (*scope, *columns)).fetchone()
                if row is None:
                    continue
                if _is_whole(model, columns, row):
                    values[key] = row[:-1]
                else:
                    damaged.append(columns)
        if damaged:
            self._delete_damaged(table, model, damaged)
        return values

    @_on_a_new_file
    def _delete_damaged(self, table: Table, model: str | None, keys: Iterable[tuple[bytes | str, ...]]) -> None:
        """Delete the rows of these keys that are damaged still: another process may have replaced them by now."""
        first: bytes | str | None = None
        with self._open_transaction("IMMEDIATE") as connection:
            scope = () if model is None else (self._model_number(model),)
            for key in keys:
                row = connection.execute(table.select, (*scope, *key)).fetchone()
                if row is not None and not _is_whole(model, key, row):
                    connection.execute(table.delete, (*scope, *key))
                    first = first or key[0]
        if first is not None and not self._warned:
            self._warned = True
            name = first.hex() if isinstance(first, bytes) else first
            of_model = "" if model is None else f" for model {model[:12]!r}"
            _log.warning(
                "%s is not what was written; it and others like it are made again",
                plain(f"{self.where} is damaged: its {table.what} of {name[:12]}{of_model}"),
            )

    @_on_a_new_file
    def _insert_rows(self, table: Table, model: str | None, rows: Iterable[tuple[Any, ...]]) -> None:
        """Write rows in one transaction, each behind the model's number, if there is a model."""
        start = () if model is None else (model,)
        with self._open_transaction("IMMEDIATE") as connection:
            scope = () if model is None else (self._model_number(model, add=True),)
            connection.executemany(table.insert, ((*scope, *row, checksum(*start, *row)) for row in rows))

    @contextmanager
    def _open_transaction(self, mode: str) -> Iterator[sqlite3.Connection]:
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
            raise StoreError(f"{self.where} {explain_failure(error)}") from error
        except UnicodeDecodeError as error:  # a message of SQLite's that quotes a damaged file
            raise StoreError(f"{self.where} is damaged ({error.reason}); {REMEDY}") from error

    def _model_number(self, fingerprint: str, *, add: bool = False) -> int:
        """Return a model's number; 0, which no model has, if it is not stored."""
        if fingerprint not in self._models:
            if add:
                self._connection.execute("INSERT OR IGNORE INTO model (fingerprint) VALUES (?)", (fingerprint,))
            row = self._connection.execute("SELECT id FROM model WHERE fingerprint = ?", (fingerprint,)).fetchone()
            if row is None:
                return 0
            self._models[fingerprint] = row[0]
        return self._models[fingerprint]

    def _check_finite(self, model: str, content: str, numbers: NDArray[np.float32] | np.float32) -> None:
        if not np.isfinite(numbers).all():
            raise StoreError(
                f"{self.where} keeps finite numbers only; model {model[:12]!r} gave others for {content[:12]}"
            )


def _key_columns(table: Table, key: tuple[str, ...]) -> tuple[bytes | str, ...]:
    return key if table is SOURCES else tuple(map(bytes.fromhex, key))


def _is_whole(model: str | None, key: tuple[bytes | str, ...], row: tuple[Any, ...]) -> bool:
    """Return whether a row's checksum, its last column, is that of its key and its values."""
    start = () if model is None else (model,)
    return row[-1] is not None and row[-1] == checksum(*start, *key, *row[:-1])


def _read_vector(data: bytes) -> NDArray[np.float32]:
    return np.frombuffer(data, "<f4").astype(np.float32, copy=False)
