"""A file that was sent, read with suspicion, by a process that knows of the benchmark what everybody may know.

Nothing here trusts the file. It is read by the same readers as on anybody's own machine, in a process whose time and memory
are limited (`worker.py`); before an archive is unpacked its table of contents must be what such a file's can be.
"""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.data.rows import read_object
from tellapart.errors import DataError, ScoreError, TellapartError
from tellapart.models.external import read_scores

__all__ = ["check_archive", "read_published", "read_sent"]

_MOST_MEMBERS = 16
_PLAIN = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # numpy writes no other, and deflate packs 1,032 to 1 at most


def read_published(path: Path, task: str) -> Any:
    """Read what is published of a benchmark: a pair set of the published items, or a task's bare records.

    Args:
        path: as `prepare` writes it.
        task: as records name it: `pairs`, `pairing` or a task's name.

    Raises:
        DataError: the file is missing, or not what `prepare` writes.

    >>> read_published(Path("gone.json"), "pairs")
    Traceback (most recent call last):
    tellapart.errors.DataError: gone.json: cannot be read (No such file or directory)
    """
    found = read_object(path)
    try:
        if task in ("pairs", "pairing"):
            return PairSet("hidden", tuple(Item.model_validate(row) for row in found["items"]), Path())
        from tellapart.board.submissions.hideable import HIDEABLE  # not loaded where scores are read: it takes a while

        return TypeAdapter(HIDEABLE[task].records).validate_python(found["records"])
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{path} is not what is published of a hidden benchmark ({error}); open the board again"
        ) from error


def check_archive(path: Path, ids: int, shape: tuple[int, int], longest_id: int) -> None:
    """Refuse an npz file whose table of contents is not that of scores of this benchmark; nothing is unpacked.

    Args:
        path: the file.
        ids: how many items there are.
        shape: images and texts of an item.
        longest_id: characters.

    Raises:
        ScoreError: too many members, one that is encrypted, packed in another way or named with a path, or one that would
            unpack to far more than such an array can be.

    >>> check_archive(Path("gone.npz"), 1, (2, 2), 24)
    Traceback (most recent call last):
    tellapart.errors.ScoreError: gone.npz is not an npz file: [Errno 2] No such file or directory: 'gone.npz'
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise ScoreError(f"{path} is not an npz file: {error}") from error
    if len(members) > _MOST_MEMBERS:
        raise ScoreError(f"{path} holds {len(members)} members; ids, scores and kind are three")
    # Twice doubles for the scores, four times the ids' own length: room for any honest way to write them.
    most = {"scores": 2 * 8 * ids * math.prod(shape) + 4096, "ids": 4 * 4 * ids * longest_id + 4096}
    for member in members:
        name = member.filename.removesuffix(".npy")
        if "/" in name or "\\" in name or name.startswith("."):
            raise ScoreError(f"{path}: member {member.filename!r:.80} is named with a path; arrays have plain names")
        if member.flag_bits & 1 or member.compress_type not in _PLAIN:
            raise ScoreError(f"{path}: member {name!r:.80} is encrypted, or packed as numpy does not; use numpy.savez")
        if member.file_size > most.get(name, 4096):
            raise ScoreError(
                f"{path}: {name!r:.80} unpacks to {member.file_size:,} bytes; "
                f"for {ids} items of {shape} at most {most.get(name, 4096):,} are read"
            )


def read_sent(path: Path, records: Any, task: str) -> Any:
    """Read what was sent, every item exactly once.

    Args:
        path: the file.
        records: as `read_published` returns them.
        task: as it takes it.

    Returns:
        `Scores`, `BothOrders` or a task's predictions, of the items as they are published and in that order.

    Raises:
        ScoreError: it is not what its format says, or ids are missing, unknown or repeated, or a number is not finite.
        DataError: a line is not what its format says.

    >>> one = PairSet("p", (Item(id="a", images=("0.png",), texts=("x", "y")),), Path())
    >>> read_sent(Path("gone.csv"), one, "pairs")
    Traceback (most recent call last):
    tellapart.errors.ScoreError: gone.csv cannot be read: No such file or directory
    """
    try:
        if task == "pairs":
            ids = records.outline.ids
            if path.suffix == ".npz":
                check_archive(path, len(ids), records.shape, max(map(len, ids)))
            return read_scores(path, ids=ids, shape=records.shape)
        from tellapart.tasks.registry import TASKS

        return TASKS[task].read(path, records)
    except TellapartError:
        raise
    except (ValueError, RecursionError, OverflowError) as error:  # digits without end, say
        raise ScoreError(f"{path} cannot be read: {error!s:.200}") from error
