"""The folders in which a user keeps the benchmarks' files, and the files found there."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tellapart.errors import DataError, first_line, quote

#: The folder of the annotations in a benchmark's repository, below the folder that the user names.
_BELOW = ("", "data", "annotations")

#: As long as a path may be on Linux.
_LONGEST = 4_096


@dataclass(frozen=True, slots=True)
class Locations:
    """The folders that `--data` and `--images` name.

    Attributes:
        data: of annotation files: each benchmark's in a folder of its name, or of one benchmark directly.
        images: likewise of images, if they do not lie with the annotations.
        columns: for `table:FILE`, field -> its column, as pairs.
        outside: images may lie outside of these folders and of a set's folder, by absolute paths, `..` and links. A set
            that a stranger wrote could then name any picture of this machine.
    """

    data: Path | None = None
    images: Path | None = None
    outside: bool = False
    columns: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        for name, folder in (("data", self.data), ("images", self.images)):
            if folder is not None and not folder.is_dir():
                raise DataError(f"{name}={folder}: that folder does not exist")

    def folder(self, benchmark: str) -> Path | None:
        """Return the folder with a benchmark's annotations: `DATA/benchmark` if that is there, else `DATA`."""
        return _folder_of(self.data, benchmark)

    def named_images(self, benchmark: str) -> Path | None:
        """Return the folder that `--images` names for a benchmark: `IMAGES/benchmark` if that is there, else `IMAGES`.

        None if the option was not given.
        """
        return _folder_of(self.images, benchmark)

    def pictures(self, benchmark: str, *usual: str) -> Path:
        """Return the folder with a benchmark's images: that of `--images`, or a usual one next to the annotations."""
        named = self.named_images(benchmark)
        if named is not None:
            return named
        base = self.folder(benchmark) or Path()
        candidates = (base / inner / name for inner in _BELOW for name in usual)
        return next((folder for folder in candidates if folder.is_dir()), base)


def _folder_of(named: Path | None, benchmark: str) -> Path | None:
    if named is None:
        return None
    named_folder = named / benchmark
    return named_folder if named_folder.is_dir() else named


def find_files(folder: Path, pattern: str) -> list[Path]:
    """Return the files of a pattern (`a.json`, `test-*.parquet`), in order of their names; `a|b` tries `a` first.

    They may lie in the folder itself, in its `data/` or in its `annotations/`.
    """
    for choice in re.split(r"\s*\|\s*", pattern):
        if len(choice) > _LONGEST or choice.count("**") > 1:  # minutes of work before a file is looked for
            why = f"longer than {_LONGEST:,} characters, or ** twice"
            raise DataError(f"{folder}: {quote(choice)} is not a pattern of files below a folder ({why})")
        for inner in _BELOW:
            try:
                files = sorted(path for path in (folder / inner).glob(choice) if path.is_file())
            except (OSError, NotImplementedError, ValueError) as error:
                why = f"{type(error).__name__}: {first_line(error)[:80]}"
                raise DataError(
                    f"{folder}: {quote(choice)} is not a pattern of files below a folder ({why})"
                ) from error
            if files:
                return files
    return []


def first_file(place: Locations, benchmark: str, pattern: str) -> Path:
    """Return the first of a benchmark's files of a pattern: one is there, or the benchmark is not loaded."""
    return find_files(place.folder(benchmark) or Path(), pattern)[0]


def one_file(benchmark: str, pattern: str, read: Callable[[Path], Any]) -> Callable[[Locations], Any]:
    """Return the function that loads a benchmark that is one file: found by its pattern, read by `read`."""
    return lambda place: read(first_file(place, benchmark, pattern))
