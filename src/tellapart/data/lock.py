"""Files that several processes share: a lock that the kernel releases when its holder ends, and the log of SQLite."""

from __future__ import annotations

import os
import sqlite3
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import IO


def use_write_ahead_log(connection: sqlite3.Connection, *, patience: float = 60.0) -> None:
    """Switch a database to its write-ahead log, in which readers go on while one process writes.

    SQLite refuses the switch at once while another process makes it, whatever the connection's timeout.
    """
    deadline = time.monotonic() + patience
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def take_lock(path: Path) -> IO[bytes] | None:
    """Lock a file, made if it does not exist, until it is closed or this process ends; None if it is held already.

    The file holds this process' id. On a file system that has no locks every process gets one.
    """
    while True:
        file = path.open("a+b")
        if not _lock_file(file):
            file.close()
            return None
        with suppress(FileNotFoundError):
            # Else its holder deleted it between the opening and the locking: this lock would be of no file.
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                with suppress(OSError):  # a full disk: the lock holds, without the process id
                    file.truncate(0)
                    os.write(file.fileno(), str(os.getpid()).encode())
                return file
        file.close()


def drop_lock(path: Path, lock: IO[bytes]) -> None:
    """Release a lock that this process holds, and delete its file."""
    with suppress(OSError):  # Windows deletes no open file
        path.unlink()
    lock.close()


def holder_of(path: Path) -> str:
    """Return the id of the process that wrote itself into a lock file; `?` if that cannot be read."""
    try:
        return path.read_text(encoding="ascii").strip() or "?"
    except (OSError, ValueError):
        return "?"


def _lock_file(file: IO[bytes]) -> bool:
    if sys.platform == "win32":
        import msvcrt

        try:
            # A byte behind all content, which stays readable.
            file.seek(2**30)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a network's file system that has no locks
        return True
    return True
