"""Files of the cache that are broken, or another program's: they get another name, and a new file takes their place.

All that a cache keeps can be computed again, so that no such file ends a run. None is deleted: `tellapart cache prune`
does that.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

from tellapart.data.lock import drop_lock, take_lock
from tellapart.errors import StoreError, plain

#: SQLite's files of one database while it is in use.
ENDINGS = ("-shm", "-wal", "")

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

FileId = tuple[int, int]
"""A file's device and number on it, which a new file under its name does not have."""


def file_id(path: Path) -> FileId | None:
    """Return the identity of the file that lies at a path; None if there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def foreign_file(problem: str) -> sqlite3.DatabaseError:
    """Return SQLite's error for a file that another program wrote."""
    error = sqlite3.DatabaseError(problem)
    error.sqlite_errorcode = sqlite3.SQLITE_NOTADB
    return error


def is_damage(error: BaseException | None) -> bool:
    """Return whether an error is of a file's content, not of the disk, of rights or of another process.

    >>> is_damage(foreign_file("a thesis")), is_damage(sqlite3.OperationalError("disk full")), is_damage(None)
    (True, False, False)
    """
    # A message of SQLite's that quotes damage may be no UTF-8.
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    other_tables = code == sqlite3.SQLITE_ERROR and str(error).startswith(_OTHER_TABLES)
    return isinstance(error, UnicodeDecodeError) or code in _DAMAGE or other_tables


def open_or_replace(path: Path, connect: Callable[[], sqlite3.Connection]) -> sqlite3.Connection:
    """Open a database of the cache; one that is broken, or another program's, is set aside first."""
    before = file_id(path)
    try:
        return connect()
    except (sqlite3.Error, UnicodeDecodeError) as error:
        if not is_damage(error):
            raise
        set_aside(path, before, error)
        return connect()


def set_aside(path: Path, damaged: FileId | None, problem: BaseException) -> None:
    """Rename a file that cannot be used, unless another process did so first, and log both names.

    >>> path = getfixture("tmp_path") / "a.sqlite"
    >>> _ = path.write_bytes(b"a thesis")
    >>> set_aside(path, file_id(path), ValueError("no database"))
    >>> [file.name for file in path.parent.iterdir()]
    ['a.sqlite.damaged-1']
    """
    guard = path.with_name(f"{path.name}.lock")
    try:
        while (lock := take_lock(guard)) is None:
            time.sleep(0.02)
        try:
            if damaged is None or file_id(path) != damaged:
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
