"""Rows of bytes in one SQLite file, each with a checksum: all that a cache keeps.

A row lies in a space, under a key. Of two writers of one key the first wins, and both wrote the same. A row that has
changed is deleted when it is read. A file that SQLite cannot read, or another program's, or an earlier version's, gets
another name, and a new one takes its place, when it is opened or later; `tellapart cache prune` deletes it.
"""

from __future__ import annotations

import logging
import sqlite3
import time
import weakref
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Concatenate, NamedTuple, ParamSpec, Self, TypeVar

from tellapart.data.atomic import drop_lock, take_lock, use_write_ahead_log
from tellapart.errors import StoreError, plain

_APPLICATION = 0x74656C6C  # "tell", in the header of the file: it distinguishes a store from other databases
_SCHEMA = 3
_TABLES = (
    "CREATE TABLE space (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, used REAL NOT NULL)",
    """CREATE TABLE entry (space INTEGER NOT NULL, key BLOB NOT NULL, value BLOB NOT NULL, checksum INTEGER NOT NULL,
                           PRIMARY KEY (space, key)) WITHOUT ROWID""",
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {_SCHEMA}",
)
_FACTS = """
SELECT (SELECT application_id FROM pragma_application_id), (SELECT user_version FROM pragma_user_version),
       (SELECT count(*) FROM sqlite_master)
"""
_BYTES_USED = """
SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size
"""
#: Takes over the rows of the database attached as `other`. Each file numbers its spaces by itself.
_MERGE = (
    "INSERT OR IGNORE INTO main.space (name, used) SELECT name, used FROM other.space",
    """INSERT OR IGNORE INTO main.entry SELECT mine.id, key, value, checksum FROM other.entry
       JOIN other.space AS its ON its.id = space JOIN main.space AS mine ON mine.name = its.name""",
)

#: SQLite's files of one database while it is in use.
ENDINGS = ("-shm", "-wal", "")

#: How long a writer waits for another one, in seconds. A batch is written in milliseconds.
_PATIENCE = 60.0

#: SQLite's results for content that it cannot use; others are of the disk, of rights, or of another process.
_DAMAGE = {
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_SCHEMA,
    sqlite3.SQLITE_CONSTRAINT,
    sqlite3.SQLITE_MISMATCH,
    sqlite3.SQLITE_TOOBIG,
}
#: The beginnings of SQLite's messages about a file that has other tables than it should.
_OTHER_TABLES = ("no such table", "no such column", "table ", "unsupported file format")

#: What to do, by SQLite's result.
_REMEDIES = {
    sqlite3.SQLITE_CORRUPT: "delete it",
    sqlite3.SQLITE_NOTADB: "delete it",
    sqlite3.SQLITE_FULL: "free space on the disk",
    sqlite3.SQLITE_BUSY: "end the other process that uses it",
    sqlite3.SQLITE_LOCKED: "end the other process that uses it",
}

_log = logging.getLogger(__name__)

File = TypeVar("File", bound="RowFile")
Given = ParamSpec("Given")
Answer = TypeVar("Answer")


class Space(NamedTuple):
    """A space: when it was last taken into use (Unix time), its rows, and the bytes of their values."""

    name: str
    used: float
    rows: int
    bytes: int


def _in_turn(
    begin: str = "",
) -> Callable[[Callable[Concatenate[File, Given], Answer]], Callable[Concatenate[File, Given], Answer]]:
    """Run a method in one thread at a time, in a transaction if one is named; once more on the new file in place of
    one that turns out to be damaged.
    """

    def decorate(call: Callable[Concatenate[File, Given], Answer]) -> Callable[Concatenate[File, Given], Answer]:
        @wraps(call)
        def run(file: File, /, *args: Given.args, **options: Given.kwargs) -> Answer:
            connection = file._connection
            try:
                with file._open_transaction(begin):
                    return call(file, *args, **options)
            except StoreError as error:
                file._begin_anew(connection, error)
            with file._open_transaction(begin):
                return call(file, *args, **options)

        return run

    return decorate


class RowFile:
    """Rows of bytes by space and key, kept between runs. Several processes may use one file at once.

    A process that is killed loses the current write and nothing else. Threads may share one; their calls wait for each
    other. The file is in write-ahead mode, which needs a local disk; without a path everything is kept in memory.
    `patience` are seconds to wait for another writer. `synchronous` NORMAL survives a killed process, FULL a power cut,
    too. A damaged file makes way for a new one if it is `replaceable`, and is an error if not.
    """

    def __init__(
        self,
        path: Path | str | None,
        *,
        patience: float | None = None,
        synchronous: str = "NORMAL",
        replaceable: bool = True,
    ) -> None:
        self.path = None if path is None else Path(path)
        self.where = "the store in memory" if self.path is None else str(self.path)
        self._patience = _PATIENCE if patience is None else patience
        self._synchronous, self._replaceable, self._warned = synchronous, replaceable, False
        self._turn = Lock()
        self._file = _file_id(self.path)
        try:
            self._connect()
        except StoreError as error:
            self._begin_anew(getattr(self, "_connection", None), error)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; what was kept in memory is gone."""
        self._connection.close()

    def read(self, space: str, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the values of keys that are stored; damaged rows are deleted."""
        rows = self._read_rows(space, keys)
        values = {
            key: value
            for key, (value, checksum) in rows.items()
            if isinstance(value, bytes) and checksum == _checksum(space, key, value)
        }
        damaged = [(key, *row) for key, row in rows.items() if key not in values]
        if damaged and self._delete_rows(space, damaged) and not self._warned:
            self._warned = True
            problem = f"{self.where} is damaged: its row {damaged[0][0].hex()[:12]} of {space:.20}"
            _log.warning("%s is not what was written; it and others like it are made again", plain(problem))
        return values

    @_in_turn("DEFERRED")
    def _read_rows(self, space: str, keys: Sequence[bytes]) -> dict[bytes, tuple[bytes, object]]:
        number = self._space_number(space)
        query = "SELECT value, checksum FROM entry WHERE space = ? AND key = ?"
        found = ((key, self._connection.execute(query, (number, key)).fetchone()) for key in keys if number)
        return {key: row for key, row in found if row is not None}

    @_in_turn("IMMEDIATE")
    def _delete_rows(self, space: str, rows: Sequence[tuple[bytes, object, object]]) -> int:
        """Delete rows that are as they were read, and count them: another process may have replaced some by now."""
        number = self._space_number(space)
        return self._connection.executemany(
            "DELETE FROM entry WHERE space = ? AND key = ? AND CAST(value AS BLOB) IS CAST(? AS BLOB) "
            "AND CAST(checksum AS BLOB) IS CAST(? AS BLOB)",
            [(number, *row) for row in rows],
        ).rowcount

    @_in_turn("IMMEDIATE")
    def write(self, space: str, rows: Mapping[bytes, bytes]) -> None:
        """Keep rows, in one transaction, and note that the space is in use now; rows of keys that are stored stay."""
        add = "INSERT INTO space (name, used) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET used = excluded.used"
        self._connection.execute(add, (space, time.time()))
        number = self._space_number(space)
        self._connection.executemany(
            "INSERT OR IGNORE INTO entry VALUES (?, ?, ?, ?)",
            ((number, key, value, _checksum(space, key, value)) for key, value in rows.items()),
        )

    @_in_turn("DEFERRED")
    def keys(self, space: str, most: int = -1) -> list[bytes]:
        """Return the keys of a space, at most so many."""
        query = "SELECT key FROM entry WHERE space = ? LIMIT ?"
        return [key for (key,) in self._connection.execute(query, (self._space_number(space), most)).fetchall()]

    @_in_turn("DEFERRED")
    def spaces(self) -> list[Space]:
        """Return all spaces, in the order in which they came."""
        rows = self._connection.execute(
            "SELECT name, used, count(key), coalesce(sum(length(value)), 0) FROM space "
            "LEFT JOIN entry ON space = id GROUP BY id ORDER BY id"
        ).fetchall()
        if not all(isinstance(name, bytes) for name, *_ in rows):
            raise _foreign_file("a space has no name")
        return [Space(name.decode(errors="replace"), *numbers) for name, *numbers in rows]

    @_in_turn()
    def bytes_used(self) -> int:
        """Return the bytes of the file's pages that hold something."""
        return int(self._connection.execute(_BYTES_USED).fetchone()[0])

    @_in_turn("IMMEDIATE")
    def delete(self, spaces: Sequence[str], rows: Mapping[str, Sequence[bytes]] | None = None) -> None:
        """Delete whole spaces, and rows of others: space -> keys."""
        for space in spaces:
            number = (self._space_number(space),)
            self._connection.execute("DELETE FROM entry WHERE space = ?", number)
            self._connection.execute("DELETE FROM space WHERE id = ?", number)
        for space, keys in (rows or {}).items():
            marked = [(self._space_number(space), key) for key in keys]
            self._connection.executemany("DELETE FROM entry WHERE space = ? AND key = ?", marked)

    @_in_turn()
    def shrink(self) -> None:
        """Give the bytes of what was deleted back to the disk."""
        self._connection.execute("VACUUM")
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def merge(self, other: Path) -> None:
        """Take over all that another file holds, in one transaction; of rows in both, this one's stay.

        Another file that is damaged, or none of these, is set aside, and nothing taken over.
        """
        with RowFile(other) as opened:
            opened._check_pages()
        self._take_over(other)

    @_in_turn()
    def _check_pages(self) -> None:
        damage = self._connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if damage != b"ok":
            raise _foreign_file(damage.decode(errors="replace"))

    @_in_turn()
    def _take_over(self, other: Path) -> None:
        self._connection.execute("ATTACH DATABASE ? AS other", (str(other),))
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            with self._connection:
                for statement in _MERGE:
                    self._connection.execute(statement)
        finally:
            self._connection.execute("DETACH DATABASE other")

    def _space_number(self, name: str) -> int:
        """Return a space's number; 0, which no space has, if it is not stored."""
        row = self._connection.execute("SELECT id FROM space WHERE name = ?", (name,)).fetchone()
        if row and not isinstance(row[0], int):  # of a damaged index
            raise _foreign_file("a space has no number")
        return row[0] if row else 0

    @contextmanager
    def _open_transaction(self, begin: str) -> Iterator[None]:
        with self._turn, self._explain_errors():
            if begin:
                self._connection.execute(f"BEGIN {begin}")
            with self._connection:  # it commits, or rolls back unless a full disk did
                yield

    def _connect(self) -> None:
        """Open the file, or make it.

        Transactions are begun explicitly: sqlite3's do not cover reads. The garbage collector closes a dropped
        connection in any thread.
        """
        with self._explain_errors():
            if self.path is not None:
                _check_file(self.path)
            connection = self._connection = sqlite3.connect(
                self.path or ":memory:", timeout=self._patience, isolation_level=None, check_same_thread=False
            )
            # Other bytes than UTF-8 are damage that a checksum finds, not a separate error.
            connection.text_factory = bytes
            # One in memory is often just dropped; newer Pythons warn of a connection that is not closed.
            close = weakref.finalize(self, connection.close)
            try:
                connection.execute("BEGIN IMMEDIATE")
                for statement in _TABLES if self._is_new() else ():
                    connection.execute(statement)
                connection.execute("COMMIT")
                use_write_ahead_log(connection, patience=self._patience)
                connection.execute(f"PRAGMA synchronous = {self._synchronous}")
            except BaseException:
                close()
                raise
        self._file = _file_id(self.path)

    def _is_new(self) -> bool:
        """Return whether the database is empty; raise if it is neither that nor of this schema."""
        application, version, tables = self._connection.execute(_FACTS).fetchone()
        if (application, version, tables) == (0, 0, 0):
            return True
        if application != _APPLICATION:
            raise _foreign_file("it is not a tellapart store but another SQLite database")
        if version < _SCHEMA:
            raise _foreign_file(f"an earlier tellapart wrote it: schema {version}, this one reads {_SCHEMA}")
        if version > _SCHEMA:
            raise StoreError(
                f"{self.where} was written by another tellapart (schema {version}, this one reads {_SCHEMA}); delete "
                "it, or name another cache="
            )
        return False

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as error:  # a message of SQLite's may quote a damaged file
            remedy = _REMEDIES.get(getattr(error, "sqlite_errorcode", 0) & 0xFF, "run with cache=False")
            waited = f", for {self._patience:g} s" if remedy.startswith("end") else ""
            raise StoreError(
                f"{self.where} cannot be used ({error}{waited}); {remedy}, or name another cache="
            ) from error

    def _begin_anew(self, connection: sqlite3.Connection | None, error: StoreError) -> None:
        """Begin a new file in place of a damaged one, unless another thread did; raise errors of another kind."""
        cause = error.__cause__
        code = getattr(cause, "sqlite_errorcode", 0) & 0xFF
        other_tables = code == sqlite3.SQLITE_ERROR and str(cause).startswith(_OTHER_TABLES)
        damaged = isinstance(cause, UnicodeDecodeError) or code in _DAMAGE or other_tables
        if not damaged or not self._replaceable or self.path is None:
            raise error
        with self._turn:
            if getattr(self, "_connection", None) is connection:
                if connection is not None:
                    connection.close()
                self._set_aside(self.path, cause)
                self._connect()

    def _set_aside(self, path: Path, problem: BaseException | None) -> None:
        """Rename the file, unless another process did so first, and log both names."""
        guard = path.with_name(f"{path.name}.lock")
        try:
            while (lock := take_lock(guard)) is None:
                time.sleep(0.02)
            try:
                if self._file is None or _file_id(path) != self._file:
                    return
                aside = next(name for n in count(1) if not Path(name := f"{path}.damaged-{n}").exists())
                for file in (Path(f"{path}{ending}") for ending in ENDINGS):
                    if file.exists():
                        file.rename(f"{aside}{file.name.removeprefix(path.name)}")
            finally:
                drop_lock(guard, lock)
        except OSError as failure:
            raise StoreError(
                f"{path} cannot be used ({problem}), nor renamed ({failure.strerror or failure}); name another cache="
            ) from failure
        _log.warning("%s", plain(f"{path} cannot be used ({problem}): it is kept as {aside}, and a new file is begun"))


def _checksum(space: str, key: bytes, value: bytes) -> int:
    """Return the CRC-32 over a row, which finds every run of damage of up to 32 bits."""
    return zlib.crc32(value, zlib.crc32(key, zlib.crc32(space.encode())))


def _check_file(path: Path) -> None:
    """Refuse any file but a SQLite database before SQLite touches it, and make the folder of a new one."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            with path.open("rb") as file:
                if file.read(16) not in {b"", b"SQLite format 3\0"}:
                    raise _foreign_file("it is not a tellapart store")
    except OSError as error:
        raise StoreError(f"{path} cannot be opened: {error.strerror or error}; name another cache=") from error


def _foreign_file(problem: str) -> sqlite3.DatabaseError:
    """Return SQLite's error for a file that another program wrote."""
    error = sqlite3.DatabaseError(problem)
    error.sqlite_errorcode = sqlite3.SQLITE_NOTADB
    return error


def _file_id(path: Path | None) -> tuple[int, int] | None:
    """Return a file's device and number on it, which a new file under its name does not have; None without a file."""
    try:
        status = None if path is None else path.stat()
    except OSError:
        return None
    return status and (status.st_dev, status.st_ino)
