"""Prepared pictures, kept so that another model of the same preprocessing decodes none.

They lie in `prepared.sqlite` near the embedding store, under the hash of the preprocessing and that of the decoded
pixels, each row with a checksum. All of it can be made again: a damaged file is set aside for a new one. If no file can
be used, the log has one line, and pictures are decoded as if there were none.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tellapart.data.lock import use_write_ahead_log
from tellapart.errors import StoreError, plain
from tellapart.models.store.damaged import FileId, file_id, foreign_file, is_damage, open_or_replace, set_aside
from tellapart.models.store.rows import Table, checksum

Answer = TypeVar("Answer")

#: Bytes of pictures that are kept: some 14,000 of 224 by 224 pixels.
LIMIT = 2 * 2**30

_TABLES = """
CREATE TABLE IF NOT EXISTS preparation (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, used REAL NOT NULL,
                                        pictures INTEGER NOT NULL, bytes INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS prepared (preparation INTEGER NOT NULL, content BLOB NOT NULL, height INTEGER NOT NULL,
                                     width INTEGER NOT NULL, data BLOB NOT NULL, checksum INTEGER NOT NULL,
                                     PRIMARY KEY (preparation, content));
"""
#: How many tables of other programs a database has.
_FOREIGN = (
    "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name NOT IN ('preparation', 'prepared') "
    "AND name NOT LIKE 'sqlite^_%' ESCAPE '^'"
)
_ROWS = Table("prepared", "picture", ("preparation", "content"), ("height", "width", "data"))
_REMEDY = "tellapart cache prune --prepared deletes it"

#: Seconds to wait for another writer: decoding a picture again takes milliseconds.
_PATIENCE = 5.0

_log = logging.getLogger(__name__)


def kept_preparations(path: Path) -> list[Preparation]:
    """Return the contents of a file of prepared pictures, the latest preprocessing first; none without a file."""
    if not path.exists():
        return []
    try:
        with closing(_connect_file(path)) as connection:
            query = "SELECT name, pictures, bytes, used FROM preparation WHERE pictures > 0 ORDER BY used DESC"
            return [Preparation(*row) for row in connection.execute(query)]
    except (sqlite3.Error, OSError) as error:
        raise StoreError(f"{path} cannot be read ({error}); {_REMEDY}") from error


def prepared_path(store: Path) -> Path:
    """Return the file of prepared pictures in the folder of an embedding store's file."""
    return store.with_name("prepared.sqlite")


@dataclass(frozen=True, slots=True)
class Preparation:
    """A preprocessing, and its rows: pictures, their bytes, and when a model last used it (Unix time)."""

    name: str
    pictures: int
    bytes: int
    used: float


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
        self._turn = Lock()
        self._connection: sqlite3.Connection | None = None
        self._file: FileId | None = None
        self._number: int | None = None
        self._lost = self._warned = False

    def close(self) -> None:
        """Close the file."""
        with self._turn:
            if self._connection is not None:
                self._connection.close()
            self._connection, self._lost = None, True

    def get(self, content: str) -> NDArray[np.uint8] | None:
        """Return the picture prepared of these pixels; None if there is none, or a damaged one, which is deleted."""
        key = bytes.fromhex(content)

        def read(connection: sqlite3.Connection) -> NDArray[np.uint8] | None:
            row = connection.execute(_ROWS.select, (self._number, key)).fetchone()
            if row is None:
                return None
            height, width, data, stored_sum = row
            intact = stored_sum is not None and stored_sum == checksum(self._preparation, key, height, width, data)
            if intact and len(data) == 3 * height * width:
                return np.frombuffer(bytearray(data), np.uint8).reshape(height, width, 3)
            connection.execute(_ROWS.delete, (self._number, key))
            self._warn_once(
                f"is damaged: its picture {content[:12]} is not what was written; it and others like it are"
            )
            return None

        return self._try_work(read)

    def put(self, content: str, picture: NDArray[np.uint8]) -> None:
        """Keep a picture, unless the store is full."""
        key, (height, width, _), data = bytes.fromhex(content), picture.shape, picture.tobytes()

        def write(connection: sqlite3.Connection) -> None:
            if self._make_room(connection, len(data)):
                row = (key, height, width, data)
                done = connection.execute(_ROWS.insert, (self._number, *row, checksum(self._preparation, *row)))
                if done.rowcount == 1:
                    query = "UPDATE preparation SET pictures = pictures + 1, bytes = bytes + ? WHERE id = ?"
                    connection.execute(query, (len(data), self._number))

        self._try_work(write)

    def _make_room(self, connection: sqlite3.Connection, size: int) -> bool:
        query = "SELECT id, bytes FROM preparation ORDER BY id = ? DESC, used DESC"
        rows = connection.execute(query, (self._number,)).fetchall()
        held: int = sum(row[1] for row in rows) + size
        for number, own in reversed(rows[1:]):
            if held <= self._limit:
                break
            connection.execute("DELETE FROM prepared WHERE preparation = ?", (number,))
            connection.execute("DELETE FROM preparation WHERE id = ?", (number,))
            held -= own
        return held <= self._limit

    def _try_work(self, work: Callable[[sqlite3.Connection], Answer]) -> Answer | None:
        """Do something in one transaction; None from the first failure on."""
        with self._turn:
            if self._lost:
                return None
            try:
                return self._work_once(work)
            except (sqlite3.Error, OSError, StoreError, TypeError) as error:
                self._lost = True
                self._warn_once(f"cannot be used ({error}; {_REMEDY}): pictures are")
                return None

    def _work_once(self, work: Callable[[sqlite3.Connection], Answer]) -> Answer:
        """Do something in one transaction; once more, on a new file, if this one is damaged."""
        try:
            with self._open_transaction() as connection:
                return work(connection)
        except (sqlite3.Error, TypeError) as error:  # TypeError: damage put another type into a column
            if self._connection is None or not (is_damage(error) or isinstance(error, TypeError)):
                raise
            self._connection.close()
            self._connection = None
            set_aside(self.path, self._file, error)
            with self._open_transaction() as connection:
                return work(connection)

    @contextmanager
    def _open_transaction(self) -> Iterator[sqlite3.Connection]:
        if self._connection is None:
            self._connection = _connect_file(self.path)
            self._file, self._number = file_id(self.path), None
        # The first one writes when this preprocessing was used; after it, readers do not wait for each other.
        self._connection.execute("BEGIN IMMEDIATE" if self._number is None else "BEGIN DEFERRED")
        try:
            self._number = self._find_number(self._connection)
            yield self._connection
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    def _find_number(self, connection: sqlite3.Connection) -> int:
        """Return the preprocessing's number: a new one if another process has deleted it to make room."""
        query = "SELECT id FROM preparation WHERE name = ?"
        row = connection.execute(query, (self._preparation,)).fetchone()
        if row is None or self._number is None:
            connection.execute(
                "INSERT INTO preparation (name, used, pictures, bytes) VALUES (?, ?, 0, 0) "
                "ON CONFLICT (name) DO UPDATE SET used = excluded.used",
                (self._preparation, time.time()),
            )
            row = connection.execute(query, (self._preparation,)).fetchone()
        return int(row[0])

    def _warn_once(self, problem: str) -> None:
        if not self._warned:
            self._warned = True
            _log.warning("%s made again", plain(f"{self.path} {problem}"))


def _connect_file(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    return open_or_replace(path, lambda: _open_tables(path))


def _open_tables(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
    try:
        if connection.execute(_FOREIGN).fetchone()[0]:
            raise foreign_file("it is another SQLite database")
        use_write_ahead_log(connection, patience=_PATIENCE)
        # A power cut may cost the file, which can be made again.
        connection.execute("PRAGMA synchronous = OFF")
        for statement in _TABLES.split(";")[:-1]:
            connection.execute(statement)
    except BaseException:
        connection.close()
        raise
    return connection
