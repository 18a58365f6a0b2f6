"""Write files and folders atomically: under another name in the same folder, until they are complete.

A file is complete when it is on the disk: a system may write a new name before the content, and after a power cut the
file has its name and is empty. So the content is synced before it gets the name, and then the folder that holds the
name.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

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
def atomic_folder(folder: Path) -> Iterator[Path]:
    """Yield an empty folder to fill; it becomes `folder` if nothing is raised, and is deleted otherwise.

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
            draft.chmod(0o755)  # mkdtemp lets only the owner in
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
