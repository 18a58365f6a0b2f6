"""Files and folders that are complete or absent, and files that several processes share.

What is written bears another name in the same folder until it is complete.

A file is complete when it is on the disk: a system may write a new name before the content, and after a power cut the
file has its name and is empty. So the content is synced before it gets the name, and then the folder that holds the
name.
"""

from __future__ import annotations

import os
import secrets
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from tellapart.errors import DataError

__all__ = ["atomic_file", "atomic_folder", "sync_folder"]

#: Files that are synced at once: a disk takes the changes of all of them in one go.
_AT_ONCE = 16


def sync_folder(folder: Path, *, deep: bool = False) -> None:
    """Wait until the names in a folder are on the disk; `deep`: and all that is in it, at every level."""
    if deep:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(_sync, folder.rglob("*")))
    _sync(folder)


def _sync(path: Path) -> None:
    if os.name != "posix" and path.is_dir():  # which cannot be opened there
        return
    descriptor = os.open(path, os.O_RDONLY if os.name == "posix" else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def atomic_file(path: Path, *, synced: bool = True) -> Iterator[Path]:
    """Yield the path of a draft to write; it becomes `path` if nothing is raised, and is deleted otherwise.

    Args:
        path: of the file.
        synced: whether it is on the disk when it has its name; not for thousands of files that are made again at need.

    Raises:
        OSError: the folder is missing, or the file cannot take the name.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        yield draft
        if synced:
            _sync(draft)
        draft.replace(path)
        if synced:
            sync_folder(path.parent)
    finally:
        with suppress(OSError):  # it has its final name, or was never written
            draft.unlink()


@contextmanager
def atomic_folder(folder: Path, mode: int = 0o755) -> Iterator[Path]:
    """Yield an empty folder to fill; it becomes `folder`, of that mode, if nothing is raised, and is deleted otherwise.

    Raises:
        DataError: the folder holds something already, or cannot be written.
    """
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise DataError(f"{folder} holds something already; name a new folder")
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        try:
            yield draft
            draft.chmod(mode)  # mkdtemp lets only the owner in
            sync_folder(draft, deep=True)
            if folder.exists():
                folder.rmdir()
            draft.rename(folder)
            sync_folder(folder.parent)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    except OSError as error:
        first = error.args[0][0][-1] if isinstance(error, shutil.Error) else error  # of a list: (from, to, why)
        raise DataError(f"{folder} cannot be written ({first})") from error


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
    except OSError as error:  # of another kind on a network's file system that has no locks
        return not isinstance(error, BlockingIOError)
    return True
