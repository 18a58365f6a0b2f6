"""The state of hidden benchmarks on the disk: the secret, the database, and the marks by which a loss is noticed.

Without its secret every token is void; with an emptied or older database limits and closings are forgotten, and
with another truth every number changes. None of this looks like an error by itself, so files that belong together are
marked in both places: the database holds the secret's fingerprint and the digests of the prepared files, and
`marker.json` next to it the fingerprint and the database's counters, which only grow. A start finds them in agreement,
or stops.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import sqlite3
import tempfile
import time
import weakref
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, NonNegativeInt

from tellapart.board.submissions.hidden_items import keyed_hash
from tellapart.data.atomic import atomic_file, sync_folder
from tellapart.data.lock import use_write_ahead_log
from tellapart.data.rows import read_object
from tellapart.data.validation import validate_table
from tellapart.errors import StoreError, TellapartError

# The server's SQLite database: accounts, submissions, and the log of who did what.
#
# Every change is one transaction with `BEGIN IMMEDIATE`, so nobody else writes between its reads and its writes: of two
# files sent at the same moment only one can be the last that a limit allows.

_SCHEMA = 3
_TABLES = Path(__file__).with_name("tables.sql").read_text(encoding="utf-8").split("\n\n")

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


SECRET, DATABASE, MARKER = "secret", "submissions.sqlite", "marker.json"
"""Files of the state's folder."""

REMEDY = (
    "restore the state from a backup (`tellapart board backup` makes them), or, if this is what you want, take it as "
    "it is with `tellapart board accept`"
)
"""What to do about a loss."""

SECRET_BYTES = 32
"""The size of a secret."""


class Marker(BaseModel):
    """The content of `marker.json`: the secret's fingerprint, and the database's counters when it was written."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    secret: str
    counters: dict[str, NonNegativeInt]


def open_state(state: Path, *, accept: bool = False) -> tuple[bytes, Database]:
    """Return the secret and the database; make them if the folder is new."""
    if not accept and (loss := next(find_losses(state), None)):
        raise StoreError(f"{loss}; {REMEDY}")
    secret = _read_secret(state)
    database = Database(state / DATABASE)
    with database.change() as rows:
        if accept:
            rows.execute("DELETE FROM mark")
            Database.log(rows, time.time(), "command line", "state accepted", {})
        rows.execute("INSERT OR IGNORE INTO mark VALUES ('secret', ?)", (_secret_fingerprint(secret),))
    if accept or not (state / MARKER).is_file():
        write_marker(state, secret, database.counters())
    return secret, database


def write_marker(state: Path, secret: bytes, counters: Mapping[str, int]) -> None:
    """Write `marker.json`."""
    marker = Marker(secret=_secret_fingerprint(secret), counters=dict(counters))
    try:
        with atomic_file(state / MARKER) as draft, draft.open("w", encoding="utf-8") as file:
            file.write(marker.model_dump_json())
            file.flush()
            os.fsync(file.fileno())  # or a power cut could leave an empty one, which stops the next start
    except OSError as error:
        raise StoreError(f"{state / MARKER} cannot be written: {error}") from error


def find_losses(state: Path, *, at_rest: bool = False) -> Iterator[str]:
    """Yield, in a line each, the lost, replaced or damaged parts of the state; nothing for a folder that is new."""
    marker = None
    try:
        marker = _read_marker(state / MARKER)  # before the database, whose counters only grow
    except TellapartError as error:
        yield str(error)
    database, secret = state / DATABASE, state / SECRET
    used = (state / MARKER).exists() or any(state.glob("hidden/*/truth.json"))
    counters: dict[str, int] = {}
    marks: dict[str, str] = {}
    try:
        with look_into(database, at_rest=at_rest) as rows:
            if damage := describe_damage(rows):
                yield f"{database} is damaged: {damage}"
                return
            counters, marks = Database.read_counters(rows), Database.read_marks(rows)
    except (sqlite3.Error, OSError) as error:
        # A file that was missing may exist now, made by another server that starts at the same time.
        if not isinstance(error, FileNotFoundError) and database.exists():
            yield f"{database} cannot be used as the board's database: {error}"
            return
    if used and not counters:
        gone = "is empty" if database.exists() else "is gone"
        yield f"{database} {gone}, and with it every account, limit and closing"
    if (used or counters) and not secret.exists():
        yield f"{secret} is gone: every token is void without it, and no task could be made again"
    elif secret.exists() and secret.stat().st_size == SECRET_BYTES:
        fingerprint = _secret_fingerprint(secret.read_bytes())
        if marks.get("secret", fingerprint) != fingerprint:
            yield f"{secret} is not the one that the database and the tokens were made with"
        elif marker and marker.secret != fingerprint:
            yield f"{state / MARKER} was not written with this secret: one of the two is of another state"
    if counters and marker:
        for name, least in marker.counters.items():
            if (count := counters.get(name, 0)) < least:
                yield f"{database} is older than {MARKER} beside it: its {name} were {least:,}, and are {count:,}"
                break


@contextlib.contextmanager
def look_into(database: Path, *, at_rest: bool = False) -> Iterator[sqlite3.Connection]:
    """Yield a connection that only reads."""
    if not database.is_file():
        raise FileNotFoundError(f"there is no {database}")
    # Not mode=ro: after a power cut the log of changes must be taken in first, which writes.
    uri = f"{database.absolute().as_uri()}?{'immutable=1' if at_rest else 'mode=rw'}"
    rows = sqlite3.connect(uri, uri=True, timeout=30, isolation_level=None)
    try:
        rows.execute("PRAGMA query_only = ON")
        rows.row_factory = sqlite3.Row
        yield rows
    finally:
        rows.close()


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _secret_fingerprint(secret: bytes) -> str:
    return keyed_hash(secret, "fingerprint").hex()[:32]


def _read_marker(path: Path) -> Marker | None:
    return validate_table(Marker, read_object(path), str(path)) if path.exists() else None


def _read_secret(state: Path) -> bytes:
    """Return the server's secret, the key of every shuffle, token and session; make it if it is missing."""
    path = state / SECRET
    try:
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():
            _make_secret(path)
        secret = path.read_bytes()
        foreign = [folder for folder in (state, path) if folder.stat().st_uid != os.geteuid()]
        open_to_others = path.stat().st_mode & 0o077 or state.stat().st_mode & 0o022
    except OSError as error:
        raise StoreError(f"{state} cannot hold the server's state: {error}; look at [submissions] state") from error
    if len(secret) != SECRET_BYTES:
        raise StoreError(f"{path} is not the secret that this server made; restore it, or no file can be measured")
    if foreign:
        raise StoreError(f"{foreign[0]} belongs to another user, who could read or change it; use a folder of your own")
    if open_to_others:
        raise StoreError(f"others can read {path} or write to {state}: chmod 700 {state}; chmod 600 {path}")
    return secret


def _make_secret(path: Path) -> None:
    """Write a new secret atomically: on the disk before it has its name, and by one of several processes."""
    number, draft = tempfile.mkstemp(prefix=".secret-", dir=path.parent)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(secrets.token_bytes(SECRET_BYTES))
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(draft)
        sync_folder(path.parent)  # or the next start after a power cut makes another, under which no token is good
    finally:
        Path(draft).unlink()
