"""The store's file: an SQLite database in write-ahead mode, which is created, recognised or replaced."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np

from tellapart.data.write_ahead import use_write_ahead_log
from tellapart.errors import StoreError
from tellapart.models.store.damaged import foreign_file, open_or_replace
from tellapart.models.store.rows import PAIRS, PICTURES, SOURCES, VECTORS, checksum

__all__ = ["MERGE", "REMEDY", "explain_failure", "open_store"]

_APPLICATION = 0x74656C6C  # "tell", in the header of the file: it distinguishes a store from other databases
#: Schema 2 added the checksums.
_SCHEMA = 2
_TABLES = """
CREATE TABLE model (id INTEGER PRIMARY KEY, fingerprint TEXT NOT NULL UNIQUE);
CREATE TABLE vector (model INTEGER NOT NULL, content BLOB NOT NULL, dimensions INTEGER NOT NULL, data BLOB NOT NULL,
                     PRIMARY KEY (model, content)) WITHOUT ROWID;
CREATE TABLE pair (model INTEGER NOT NULL, image BLOB NOT NULL, text BLOB NOT NULL, score REAL NOT NULL,
                   PRIMARY KEY (model, image, text)) WITHOUT ROWID;
CREATE TABLE picture (file BLOB PRIMARY KEY, pixels BLOB NOT NULL) WITHOUT ROWID;
"""

#: A table that the first files of schema 1 do not have.
_LATER = "CREATE TABLE IF NOT EXISTS source (key TEXT PRIMARY KEY, facts TEXT NOT NULL) WITHOUT ROWID"

#: Takes the rows of schema 1 to be sound, but for impossible ones, and gives each its checksum.
_ADD_CHECKSUMS = (
    """UPDATE vector
       SET checksum = checksum((SELECT fingerprint FROM model WHERE id = model), content, dimensions, data)
       WHERE is_vector(dimensions, data)""",
    """UPDATE pair SET checksum = checksum((SELECT fingerprint FROM model WHERE id = model), image, text, score)
       WHERE typeof(score) = 'real' AND abs(score) < 1e39""",
    "UPDATE picture SET checksum = checksum(file, pixels)",
    "UPDATE source SET checksum = checksum(key, facts)",
)

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


def open_store(path: Path | None, where: str) -> sqlite3.Connection:
    """Open a store's file, or create it; None keeps everything in memory. `where` is its name for messages.

    Transactions are begun explicitly: sqlite3's do not cover reads. The connection may be used in any thread, by
    one at a time: the garbage collector closes a dropped store in any thread. A file that is damaged or no store is set
    aside, with a warning, and a new one made.

    Raises:
        StoreError: the file was written by another version.
        sqlite3.Error: it cannot be read or written.
    """
    if path is None:
        return _connect_file(None, where)
    return open_or_replace(path, lambda: _connect_file(path, where))


def _connect_file(path: Path | None, where: str) -> sqlite3.Connection:
    if path is not None:
        _check_file(path)
    connection = sqlite3.connect(path or ":memory:", timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
    # Other bytes than UTF-8 are damage that a checksum finds, not a separate error.
    connection.text_factory = bytes
    try:
        _prepare_connection(connection, where)
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


def _prepare_connection(connection: sqlite3.Connection, where: str) -> None:
    connection.execute(f"PRAGMA busy_timeout = {int(_PATIENCE * 1000)}")
    _schema_version(connection, where)
    use_write_ahead_log(connection, patience=_PATIENCE)
    # In write-ahead mode NORMAL still survives a killed process; a power cut may cost the last batches.
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have made the tables while this one waited.
        version = _schema_version(connection, where)
        if version == 0:
            for statement in _TABLES.split(";")[:-1]:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
        if version < _SCHEMA:
            connection.execute(_LATER)
            _add_checksums(connection)
            connection.execute(f"PRAGMA user_version = {_SCHEMA}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _add_checksums(connection: sqlite3.Connection) -> None:
    connection.create_function("checksum", -1, checksum, deterministic=True)
    connection.create_function("is_vector", 2, _is_vector, deterministic=True)
    for table, statement in zip((VECTORS, PAIRS, PICTURES, SOURCES), _ADD_CHECKSUMS, strict=True):
        connection.execute(f"ALTER TABLE {table.name} ADD COLUMN checksum INTEGER")
        connection.execute(statement)


def _is_vector(dimensions: object, data: object) -> bool:
    if not isinstance(data, bytes) or not isinstance(dimensions, int) or len(data) != 4 * dimensions:
        return False
    return bool(np.isfinite(np.frombuffer(data, "<f4")).all())


def _schema_version(connection: sqlite3.Connection, where: str) -> int:
    """Return the schema of the database, 0 for an empty one; raise if it is not a store that this version reads."""
    # One statement, and so one state of the file: another process may be making the tables at this moment.
    application, version, tables = connection.execute(_FACTS).fetchone()
    if (application, version, tables) == (0, 0, 0):
        return 0
    if application != _APPLICATION:
        raise foreign_file("it is not a tellapart store but another SQLite database")
    if version < 1:
        raise foreign_file(f"no tellapart writes its schema {version}")
    if version > _SCHEMA:
        raise StoreError(
            f"{where} was written by a newer tellapart (schema {version}, this one reads {_SCHEMA}); {REMEDY}"
        )
    return int(version)


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
