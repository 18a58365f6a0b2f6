"""Write files and folders atomically: under another name beside their place, which they take when they are complete."""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tellapart.errors import DataError

__all__ = ["atomic_file", "atomic_folder"]


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield the path of a draft to write; it becomes `path` if nothing is raised, and is deleted otherwise.

    Raises:
        OSError: the folder is missing, or the file cannot take the name.

    >>> with tempfile.TemporaryDirectory() as scratch:
    ...     with atomic_file(Path(scratch) / "a.txt") as draft:
    ...         _ = draft.write_text("all of it")
    ...     [path.name for path in Path(scratch).iterdir()]
    ['a.txt']
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        yield draft
        draft.replace(path)
    finally:
        with suppress(OSError):  # it has its final name, or was never written
            draft.unlink()


@contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """Yield an empty folder to fill; it becomes `folder` if nothing is raised, and is deleted otherwise.

    Raises:
        DataError: the folder holds something already, or cannot be written.

    >>> with tempfile.TemporaryDirectory() as scratch:
    ...     with atomic_folder(Path(scratch) / "set") as draft:
    ...         (draft / "a.txt").touch()
    ...     [path.name for path in Path(scratch, "set").iterdir()]
    ['a.txt']
    """
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise DataError(f"{folder} holds something already; name a new folder")
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        try:
            yield draft
            draft.chmod(0o755)  # mkdtemp lets only the owner in
            if folder.exists():
                folder.rmdir()
            draft.rename(folder)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    except OSError as error:
        raise DataError(f"{folder} cannot be written ({error})") from error
