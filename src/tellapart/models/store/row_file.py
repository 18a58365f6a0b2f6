"""Rows of bytes in one SQLite file, each with a checksum: all that a cache keeps.

A row lies in a space, under a key. Nothing stored is ever changed: of two writers of one key the first wins, and both
wrote the same. A row that has changed is deleted when it is read, as if it had never been stored. A file that SQLite
cannot read, or another program's, or an earlier version's, gets another name, and a new one takes its place, when it is
opened or later: none is deleted, `tellapart cache prune` does that.
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

from tellapart.data.lock import drop_lock, take_lock, use_write_ahead_log
from tellapart.errors import StoreError, plain

_APPLICATION = 0x74656C6C  # "tell", in the header of the file: it distinguishes a store from other databases
_SCHEMA = 3
_TABLES = (
    "CREATE TABLE space (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, used REAL NOT NULL)",
    """CREATE TABLE entry (space INTEGER NOT NULL, key BLOB NOT NULL, value BLOB NOT NULL, checksum INTEGER NOT NULL,
                           PRIMARY KEY (space, key)) WITHOUT ROWID""",
)
_FACTS = """
SELECT (SELECT application_id FROM pragma_application_id), (SELECT user_version FROM pragma_user_version),
       (SELECT count(*) FROM sqlite_master)
"""
#: Takes over the rows of the database attached as `other`. Each file numbers its spaces by itself.
_MERGE = (
    "INSERT OR IGNORE INTO main.space (name, used) SELECT name, used FROM other.space",
    """INSERT OR IGNORE INTO main.entry SELECT mine.id, key, value, checksum FROM other.entry
       JOIN other.space AS its ON its.id = space JOIN main.space AS mine ON mine.name = its.name""",
)
_ROW = "SELECT value, checksum FROM entry WHERE space = ? AND key = ?"

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
_OTHER_TABLES = ("no such table", "no such column", "table ")

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


def _repeat_on_new_file(
    call: Callable[Concatenate[File, Given], Answer],
) -> Callable[Concatenate[File, Given], Answer]:
    """Let a method be called once more if the file turns out to be damaged, on the new file in its place."""

    @wraps(call)
    def repeat(file: File, /, *args: Given.args, **options: Given.kwargs) -> Answer:
        connection = file._connection
        try:
            return call(file, *args, **options)
        except StoreError as error:
            problem = error.__cause__
            if file.path is None or not file._replaceable or not _is_damage(problem):
                raise
            file._replace_file(file.path, connection, problem)
            return call(file, *args, **options)

    return repeat


class RowFile:
    """Rows of bytes by space and key, kept between runs. Several processes may use one file at once.

    Each write is one transaction: a process that is killed loses the current one and nothing else. Threads may share
    one; their calls wait for each other. The file is in write-ahead mode, which needs a local disk, not a network one.

    The file is made if it does not exist; without a path everything is kept in memory. `patience` are seconds to wait
    for another writer. `synchronous` NORMAL survives a killed process, FULL a power cut, too. A damaged file makes way
    for a new one if it is `replaceable`, and is an error if not.
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
        self._synchronous, self._replaceable = synchronous, replaceable
        self._spaces: dict[str, int] = {}
        self._warned = False
        self._turn = Lock()
        self._open_file()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; what was kept in memory is gone."""
        self._connection.close()

    @_repeat_on_new_file
    def read(self, space: str, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the values of keys that are stored; damaged rows are deleted."""
        values, damaged = dict[bytes, bytes](), list[bytes]()
        with self._open_transaction("DEFERRED") as connection:
            number = self._space_number(space)
            for key in keys if number else ():
                row = connection.execute(_ROW, (number, key)).fetchone()
                if row is not None and _is_whole(space, key, row):
                    values[key] = row[0]
                elif row is not None:
                    damaged.append(key)
        if damaged:
            self._delete_damaged(space, damaged)
        return values

    @_repeat_on_new_file
    def write(self, space: str, rows: Mapping[bytes, bytes]) -> None:
        """Keep rows, in one transaction; those of keys that are stored stay."""
        with self._open_transaction("IMMEDIATE") as connection:
            number = self._space_number(space, add=True)
            connection.executemany(
                "INSERT OR IGNORE INTO entry VALUES (?, ?, ?, ?)",
                ((number, key, value, _checksum(space, key, value)) for key, value in rows.items()),
            )

    @_repeat_on_new_file
    def keys(self, space: str) -> list[bytes]:
        """Return the keys of a space."""
        with self._open_transaction("DEFERRED") as connection:
            query = "SELECT key FROM entry WHERE space = ?"
            return [key for (key,) in connection.execute(query, (self._space_number(space),)).fetchall()]

    @_repeat_on_new_file
    def has_rows(self, space: str) -> bool:
        """Return whether a space has any row."""
        with self._open_transaction("DEFERRED") as connection:
            query = "SELECT 1 FROM entry WHERE space = ? LIMIT 1"
            return connection.execute(query, (self._space_number(space),)).fetchone() is not None

    @_repeat_on_new_file
    def spaces(self) -> list[Space]:
        """Return all spaces, in the order in which they came."""
        with self._open_transaction("DEFERRED") as connection:
            rows = connection.execute(
                "SELECT name, used, count(key), coalesce(sum(length(value)), 0) FROM space "
                "LEFT JOIN entry ON space = id GROUP BY id ORDER BY id"
            ).fetchall()
        return [Space(name.decode(errors="replace"), *numbers) for name, *numbers in rows]

    @_repeat_on_new_file
    def touch(self, space: str) -> None:
        """Note that a space is in use now."""
        with self._open_transaction("IMMEDIATE") as connection:
            number = self._space_number(space, add=True)
            connection.execute("UPDATE space SET used = ? WHERE id = ?", (time.time(), number))

    @_repeat_on_new_file
    def delete(self, spaces: Sequence[str], rows: Mapping[str, Sequence[bytes]] | None = None) -> None:
        """Delete whole spaces, and rows of others: space -> keys."""
        with self._open_transaction("IMMEDIATE") as connection:
            for space in spaces:
                number = (self._space_number(space),)
                connection.execute("DELETE FROM entry WHERE space = ?", number)
                connection.execute("DELETE FROM space WHERE id = ?", number)
            for space, keys in (rows or {}).items():
                marked = [(self._space_number(space), key) for key in keys]
                connection.executemany("DELETE FROM entry WHERE space = ? AND key = ?", marked)

    def shrink(self) -> None:
        """Give the bytes of what was deleted back to the disk."""
        with self._turn, self._explain_errors():
            self._connection.execute("VACUUM")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def merge(self, other: Path) -> None:
        """Take over all that another file holds, in one transaction; of rows in both, this one's stay.

        Another file that is damaged, or none of these, is set aside, and nothing taken over.
        """
        with RowFile(other) as opened:
            opened._check_pages()
        self._take_over(other)

    @_repeat_on_new_file
    def _check_pages(self) -> None:
        """Read all of the file; one that SQLite finds damaged is replaced."""
        with self._turn, self._explain_errors():
            damage = self._connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if damage != b"ok":
                raise _foreign_file(damage.decode(errors="replace"))

    @_repeat_on_new_file
    def _take_over(self, other: Path) -> None:
        with self._turn, self._explain_errors():
            self._connection.execute("ATTACH DATABASE ? AS other", (str(other),))
        try:
            with self._open_transaction("IMMEDIATE") as connection:
                for statement in _MERGE:
                    connection.execute(statement)
        finally:
            with self._turn, self._explain_errors():
                self._connection.execute("DETACH DATABASE other")

    @_repeat_on_new_file
    def _delete_damaged(self, space: str, keys: Sequence[bytes]) -> None:
        """Delete the rows of these keys that are damaged still: another process may have replaced them by now."""
        first: bytes | None = None
        with self._open_transaction("IMMEDIATE") as connection:
            for key in keys:
                row = connection.execute(_ROW, (number := self._space_number(space), key)).fetchone()
                if row is not None and not _is_whole(space, key, row):
                    connection.execute("DELETE FROM entry WHERE space = ? AND key = ?", (number, key))
                    first = first or key
        if first is not None and not self._warned:
            self._warned = True
            problem = f"{self.where} is damaged: its row {first.hex()[:12]} of {space:.20}"
            _log.warning("%s is not what was written; it and others like it are made again", plain(problem))

    def _open_file(self) -> None:
        before = None if self.path is None else _file_id(self.path)
        with self._explain_errors():
            try:
                self._connection = self._connect()
            except (sqlite3.Error, UnicodeDecodeError) as error:
                if self.path is None or not self._replaceable or not _is_damage(error):
                    raise
                _set_aside(self.path, before, error)
                self._connection = self._connect()
        self._file = None if self.path is None else _file_id(self.path)
        # One in memory is often just dropped; newer Pythons warn of a connection that is not closed.
        weakref.finalize(self, self._connection.close)

    def _replace_file(self, path: Path, connection: sqlite3.Connection, problem: BaseException | None) -> None:
        """Begin a new file in place of a damaged one, unless another thread did since this connection was opened."""
        with self._turn:
            if self._connection is connection and problem is not None:
                connection.close()
                _set_aside(path, self._file, problem)
                self._open_file()

    def _connect(self) -> sqlite3.Connection:
        """Open the file, or make it.

        Transactions are begun explicitly: sqlite3's do not cover reads. The garbage collector closes a dropped
        connection in any thread.
        """
        if self.path is not None:
            _check_file(self.path)
        connection = sqlite3.connect(
            self.path or ":memory:", timeout=self._patience, isolation_level=None, check_same_thread=False
        )
        # Other bytes than UTF-8 are damage that a checksum finds, not a separate error.
        connection.text_factory = bytes
        try:
            self._is_new(connection)
            use_write_ahead_log(connection, patience=self._patience)
            connection.execute(f"PRAGMA synchronous = {self._synchronous}")
            connection.execute("BEGIN IMMEDIATE")
            # Another process may have made the tables while this one waited.
            if self._is_new(connection):
                for statement in _TABLES:
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                connection.execute(f"PRAGMA user_version = {_SCHEMA}")
            connection.execute("COMMIT")
        except BaseException:
            connection.close()
            raise
        return connection

    def _is_new(self, connection: sqlite3.Connection) -> bool:
        """Return whether the database is empty; raise if it is neither that nor of this schema."""
        # One statement, and so one state of the file: another process may be making the tables at this moment.
        application, version, tables = connection.execute(_FACTS).fetchone()
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
    def _open_transaction(self, mode: str) -> Iterator[sqlite3.Connection]:
        with self._turn, self._explain_errors():
            self._connection.execute(f"BEGIN {mode}")
            self._spaces.clear()  # another process may have deleted a space, and its number is another one's then
            try:
                yield self._connection
            except BaseException:
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
            match getattr(error, "sqlite_errorcode", 0) & 0xFF:
                case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
                    problem = f"is damaged ({error}); delete it, or name another cache="
                case sqlite3.SQLITE_FULL:
                    problem = f"cannot grow: the disk is full ({error}); free space, or name another cache="
                case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
                    problem = f"cannot be written ({error}); name another cache=, or run with cache=False"
                case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                    problem = f"was locked by another process for {self._patience:g} s"
                    problem += "; end that process, or name another cache="
                case _:
                    problem = f"failed ({error}); run with cache=False, or name another cache="
            raise StoreError(f"{self.where} {problem}") from error
        except UnicodeDecodeError as error:  # a message of SQLite's that quotes a damaged file
            raise StoreError(f"{self.where} is damaged ({error.reason}); delete it, or name another cache=") from error

    def _space_number(self, name: str, *, add: bool = False) -> int:
        """Return a space's number; 0, which no space has, if it is not stored."""
        if name not in self._spaces:
            if add:
                statement = "INSERT OR IGNORE INTO space (name, used) VALUES (?, ?)"
                self._connection.execute(statement, (name, time.time()))
            row = self._connection.execute("SELECT id FROM space WHERE name = ?", (name,)).fetchone()
            if row is None:
                return 0
            self._spaces[name] = row[0]
        return self._spaces[name]


def _checksum(space: str, key: bytes, value: bytes) -> int:
    """Return the CRC-32 over a row, which finds every run of damage of up to 32 bits."""
    return zlib.crc32(value, zlib.crc32(key, zlib.crc32(space.encode())))


def _is_whole(space: str, key: bytes, row: tuple[object, object]) -> bool:
    value, checksum = row
    return isinstance(value, bytes) and checksum == _checksum(space, key, value)


def _check_file(path: Path) -> None:
    """Refuse any file but a SQLite database before SQLite touches it, and make the folder of a new one."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            with path.open("rb") as file:
                head = file.read(16)
            if head not in {b"", b"SQLite format 3\0"}:
                raise _foreign_file("it is not a tellapart store")
    except OSError as error:
        raise StoreError(f"{path} cannot be opened: {error.strerror or error}; name another cache=") from error


def _foreign_file(problem: str) -> sqlite3.DatabaseError:
    """Return SQLite's error for a file that another program wrote."""
    error = sqlite3.DatabaseError(problem)
    error.sqlite_errorcode = sqlite3.SQLITE_NOTADB
    return error


def _is_damage(error: BaseException | None) -> bool:
    """Return whether an error is of a file's content, not of the disk, of rights or of another process."""
    # A message of SQLite's that quotes damage may be no UTF-8.
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    other_tables = code == sqlite3.SQLITE_ERROR and str(error).startswith(_OTHER_TABLES)
    return isinstance(error, UnicodeDecodeError) or code in _DAMAGE or other_tables


def _file_id(path: Path) -> tuple[int, int] | None:
    """Return a file's device and number on it, which a new file under its name does not have; None without a file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _set_aside(path: Path, damaged: tuple[int, int] | None, problem: BaseException) -> None:
    """Rename a file that cannot be used, unless another process did so first, and log both names."""
    guard = path.with_name(f"{path.name}.lock")
    try:
        while (lock := take_lock(guard)) is None:
            time.sleep(0.02)
        try:
            if damaged is None or _file_id(path) != damaged:
                return
            aside = next(name for n in count(1) if not Path(name := f"{path}.damaged-{n}").exists())
            for file in (Path(f"{path}{ending}") for ending in ENDINGS):
                if file.exists():
                    file.rename(f"{aside}{file.name.removeprefix(path.name)}")
        finally:
            drop_lock(guard, lock)
    except OSError as error:
        raise StoreError(
            f"{path} cannot be used ({problem}), nor renamed ({error.strerror or error}); name another cache="
        ) from error
    _log.warning("%s", plain(f"{path} cannot be used ({problem}): it is kept as {aside}, and a new file is begun"))
