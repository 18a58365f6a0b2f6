"""The server's SQLite database: accounts, submissions, and the log of who did what.

Every change is one transaction with `BEGIN IMMEDIATE`, so nobody else writes between its reads and its writes: of two
files sent at the same moment only one can be the last that a limit allows.
"""

from __future__ import annotations

import json
import sqlite3
import weakref
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from tellapart.data.lock import use_write_ahead_log
from tellapart.errors import StoreError

_SCHEMA = 3
_TABLES = (
    "CREATE TABLE user (name TEXT PRIMARY KEY, role TEXT NOT NULL, created REAL NOT NULL)",
    """CREATE TABLE token (id TEXT PRIMARY KEY, user TEXT NOT NULL REFERENCES user (name), digest BLOB NOT NULL,
                    created REAL NOT NULL, expires REAL NOT NULL, revoked REAL)""",
    """CREATE TABLE session (digest BLOB PRIMARY KEY, token TEXT NOT NULL REFERENCES token (id),
                    expires REAL NOT NULL)""",
    """CREATE TABLE submission (id TEXT PRIMARY KEY, user TEXT NOT NULL REFERENCES user (name), benchmark TEXT NOT NULL,
                         model TEXT NOT NULL, file TEXT NOT NULL, sha256 TEXT NOT NULL, bytes INTEGER NOT NULL,
                         created REAL NOT NULL, state TEXT NOT NULL, starts INTEGER NOT NULL DEFAULT 0,
                         error TEXT NOT NULL DEFAULT '', public TEXT, private TEXT,
                         field TEXT NOT NULL DEFAULT '')""",
    "CREATE INDEX of_user ON submission (benchmark, user, created)",
    "CREATE INDEX waiting ON submission (state)",
    "CREATE TABLE closing (benchmark TEXT PRIMARY KEY, at REAL NOT NULL)",
    """CREATE TABLE log (id INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, who TEXT NOT NULL, what TEXT NOT NULL,
                  about TEXT NOT NULL)""",
    "CREATE TRIGGER log_is_kept BEFORE DELETE ON log BEGIN SELECT RAISE (ABORT, 'the log is only added to'); END",
    """CREATE TRIGGER log_is_not_changed BEFORE UPDATE ON log
                    BEGIN SELECT RAISE (ABORT, 'the log is only added to'); END""",
    "CREATE TABLE mark (name TEXT PRIMARY KEY, value TEXT NOT NULL)",  # facts that tie the database to its files
)

_REMEDY = "use the tellapart that wrote it, or another state folder"

#: Counts that only grow, each as a query.
_COUNTERS = {
    "users": "SELECT count(*) FROM user",
    "submissions": "SELECT count(*) FROM submission",
    "closings": "SELECT count(*) FROM closing",
    "log entries": "SELECT coalesce(max(id), 0) FROM log",
}


class Database:
    """The database; each use opens a connection, so threads and processes can share the file.

    One more connection stays open and idle. While it does, SQLite keeps its log files next to the database: a request
    does not wait until they are created, and reading still works when the disk is full.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as scratch:
    ...     database = Database(Path(scratch) / "board.sqlite")
    ...     with database.change() as connection:
    ...         database.log(connection, 0.0, "ann", "came", {})
    ...     [row["what"] for row in database.all("SELECT what FROM log")]
    ['came']
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            path.touch(mode=0o600)  # SQLite would create it, and its log files, readable by everybody
            path.chmod(0o600)
            with self._open_connection() as connection:
                use_write_ahead_log(connection)
                connection.execute("BEGIN IMMEDIATE")
                if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                    for statement in _TABLES:
                        connection.execute(statement)
                    connection.execute(f"PRAGMA user_version = {_SCHEMA}")
                version = connection.execute("PRAGMA user_version").fetchone()[0]
                connection.execute("COMMIT")
            idle = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
            weakref.finalize(self, idle.close)
            idle.execute("PRAGMA user_version").fetchone()  # the first query opens the files
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"{path} cannot be used as the board's database: {error}") from error
        if version != _SCHEMA:
            raise StoreError(f"{path} has version {version}, and this tellapart reads {_SCHEMA}; {_REMEDY}")

    @contextmanager
    def _open_connection(self) -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(self.path, timeout=30, isolation_level=None)
        try:
            connection.row_factory = sqlite3.Row
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA synchronous = FULL")  # a submission that was confirmed survives a power cut
            yield connection
        finally:
            connection.close()

    @contextmanager
    def change(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection in a transaction, which is committed unless an exception leaves the block."""
        with self._open_connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                if connection.in_transaction:  # a full disk has rolled back already
                    connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    @contextmanager
    def look(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection whose reads all see the same state, and which blocks nobody."""
        with self._open_connection() as connection:
            connection.execute("BEGIN")
            yield connection

    def all(self, query: str, *values: object) -> list[sqlite3.Row]:
        """Return the rows of a query."""
        with self._open_connection() as connection:
            return connection.execute(query, values).fetchall()

    def one(self, query: str, *values: object) -> sqlite3.Row | None:
        """Return the first row of a query, or None."""
        with self._open_connection() as connection:
            row: sqlite3.Row | None = connection.execute(query, values).fetchone()
            return row

    def counters(self) -> dict[str, int]:
        """Return the counts that only grow: users, submissions, closings and entries of the log."""
        with self.look() as connection:
            return self.read_counters(connection)

    @staticmethod
    def read_counters(connection: sqlite3.Connection) -> dict[str, int]:
        """Return the `counters` of an open database; empty if it has no tables."""
        if not _table_columns(connection):
            return {}
        return {name: int(connection.execute(query).fetchone()[0]) for name, query in _COUNTERS.items()}

    @staticmethod
    def read_marks(connection: sqlite3.Connection) -> dict[str, str]:
        """Return the marks that tie this database to its files; none if it has no tables."""
        if not _table_columns(connection):
            return {}
        return dict(map(tuple, connection.execute("SELECT name, value FROM mark")))

    @staticmethod
    def log(connection: sqlite3.Connection, at: float, who: str, what: str, about: Mapping[str, Any]) -> None:
        """Add an entry to the log, in the same transaction as the change that it records."""
        connection.execute(
            "INSERT INTO log (at, who, what, about) VALUES (?, ?, ?, ?)", (at, who, what, json.dumps(about))
        )


def describe_damage(connection: sqlite3.Connection) -> str:
    """Return the faults of an open database, in words; nothing if it is intact, or has no tables yet."""
    tables = _table_columns(connection)
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if tables and version != _SCHEMA:
        return f"it has version {version}, and this tellapart reads {_SCHEMA}; {_REMEDY}"
    with closing(sqlite3.connect(":memory:")) as empty:
        for statement in _TABLES:
            empty.execute(statement)
        expected = _table_columns(empty)
    for table, columns in expected.items() if tables else ():
        if table not in tables:
            return f"it has no table {table!r}"
        if lacking := [column for column in columns if column not in tables[table]]:
            return f"its table {table!r} has no column {lacking[0]!r}"
    first = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
    return "" if first == "ok" else " ".join(first.split())


def _table_columns(connection: sqlite3.Connection) -> dict[str, list[str]]:
    """Return the tables of an open database, each with its columns."""
    names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    table_names = [name for name in names if not name.startswith("sqlite_")]
    return {
        name: [row[0] for row in connection.execute("SELECT name FROM pragma_table_info(?)", (name,))]
        for name in table_names
    }
