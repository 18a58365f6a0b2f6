"""Readers of a stranger's file, in a process that has only the published part of the benchmark.

Nothing here trusts the file. The readers are those of any user's machine, in a process with limited time and memory
(`worker.py`); before an archive is unpacked its table of contents is checked.
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
from tellapart.data.validation import first_problem
from tellapart.errors import DataError, ScoreError, TellapartError
from tellapart.models.memory.external import read_scores

_MOST_MEMBERS = 16
_PLAIN = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # numpy writes no other, and deflate packs 1,032 to 1 at most


def read_published(path: Path, task: str) -> Any:
    """Read the published items: a pair set, or a task's records without labels."""
    content = read_object(path)
    try:
        if task in ("pairs", "pairing"):
            return PairSet("hidden", tuple(Item.model_validate(row) for row in content["items"]), Path())
        from tellapart.tasks.registry import HIDEABLE  # slow to import, and scores do not need it

        return TypeAdapter(HIDEABLE[task].records).validate_python(content["records"])
    except (DataError, KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{path} is not what is published of a hidden benchmark ({first_problem(error)}); open the board again"
        ) from error


def _check_archive(path: Path, ids: int, shape: tuple[int, int], longest_id: int) -> None:
    """Refuse an npz file whose table of contents is not that of such scores, or is too large; nothing is unpacked."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
    except Exception as error:  # damaged archives fail anywhere, with any exception
        raise ScoreError(f"{path} is not an npz file: {_describe_start(path)}") from error
    if len(members) > _MOST_MEMBERS:
        raise ScoreError(f"{path} holds {len(members)} members; ids, scores and kind are three")
    # Room for any honest way to write them: twice the doubles of the scores, four times the UTF-32 of the ids.
    limits = {"scores": 2 * 8 * ids * math.prod(shape) + 4096, "ids": 4 * 4 * ids * longest_id + 4096}
    wanted = f"send ids, texts {(ids,)}, and scores, float32 {(ids, *shape)}, and no other array"
    for member in members:
        name = member.filename.removesuffix(".npy")
        if "/" in name or "\\" in name or name.startswith("."):
            raise ScoreError(f"{path}: member {member.filename!r:.80} is named with a path; arrays have plain names")
        if member.flag_bits & 1 or member.compress_type not in _PLAIN:
            raise ScoreError(f"{path}: member {name!r:.80} is encrypted, or packed as numpy does not; use numpy.savez")
        if member.file_size > limits.get(name, 4096):
            raise ScoreError(
                f"{path}: {name!r:.80} unpacks to {member.file_size:,} bytes, "
                f"and at limits {limits.get(name, 4096):,} are read; {wanted}"
            )


def _describe_start(path: Path) -> str:
    """Return what else a file is by its first bytes, and what to send in its place."""
    with path.open("rb") as file:
        start = file.read(24)
    if start.startswith(b"PK"):
        return "it is an archive that is cut off or damaged; write it again, and send all of it"
    return f"it begins with {start!r}; write arrays with numpy.savez; a table keeps its ending, .csv or .jsonl"


def read_sent(path: Path, records: Any, task: str) -> Any:
    """Read a submitted file, every item exactly once.

    Returns:
        `Scores`, `BothOrders` or a task's predictions, in the published order.
    """
    try:
        if task == "pairs":
            ids = records.outline.ids
            if path.suffix == ".npz":
                _check_archive(path, len(ids), records.shape, max(map(len, ids)))
            return read_scores(path, ids=ids, shape=records.shape)
        from tellapart.tasks.registry import TASKS

        return TASKS[task].read(path, records)
    except TellapartError:
        raise
    except (ValueError, RecursionError, OverflowError) as error:  # digits without end, for example
        raise ScoreError(f"{path} cannot be read: {error!s:.200}") from error
