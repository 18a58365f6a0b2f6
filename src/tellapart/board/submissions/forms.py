"""Forms: the contents of a file as plain JSON, from the process that reads it to the one that measures it.

The file may have taken over the process that reads, so a form is checked like any stranger's input, twice: by the
server before it passes the form on, and by the process that measures. A form has no ids: it holds one row for each item
or record, in their published order.
"""

from __future__ import annotations

import base64
import math
import zipfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.data.rows import read_object
from tellapart.data.scores import ScoreKind, Scores
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
        with path.open("rb") as file:
            start = file.read(24)
        what = f"it begins with {start!r}; write arrays with numpy.savez; a table keeps its ending, .csv or .jsonl"
        if start.startswith(b"PK"):
            what = "it is an archive that is cut off or damaged; write it again, and send all of it"
        raise ScoreError(f"{path} is not an npz file: {what}") from error
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


def read_sent(path: Path, records: Any, task: str) -> Any:
    """Read `Scores`, `BothOrders` or a task's predictions from a submitted file, in the published order."""
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


_Choice = Literal[-1, 0, 1]
_Side = Annotated[float, Field(ge=-1e9, le=1e9, allow_inf_nan=False)]  # as `tasks.predictions.box` has it
#: Task -> its two columns of predictions, which have rows of two.
_COLUMNS = {"pairing": ("in_order", "swapped"), "choice": ("true_first", "true_second")}
#: Task -> type of its rows.
_ROWS: Mapping[str, Any] = {
    "pairing": list[tuple[str, str]],
    "nlvr2": list[bool],
    "vqa": list[str],
    "vqa2": list[str],
    "grounding": list[tuple[_Side, _Side, _Side, _Side]],
    "choice": list[tuple[_Choice, _Choice]],
    "yes-no": list[str],
}
_A_ROW = 128  # bytes of a row without its texts: four doubles as JSON
_AROUND = 64  # bytes of the rest: brackets, names, a kind


class _Numbers(BaseModel):
    """Scores: a float32 array `(item, image, text)`, little-endian, in base64."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    kind: ScoreKind
    scores: str


def form_bytes(task: str, items: int, shape: tuple[int, int] | None, sent_bytes: int) -> int:
    """Return the largest size of a form: exact for scores, else in proportion to the file."""
    if task == "pairs" and shape is not None:
        return 4 * math.ceil(4 * items * math.prod(shape) / 3) + _AROUND
    return 2 * sent_bytes + _A_ROW * items + _AROUND


def pack(sent: Any, task: str) -> bytes:
    """Return the form of the result of `read_sent`."""
    if task == "pairs":
        data = base64.b64encode(sent.values.astype("<f4").tobytes()).decode()
        return _Numbers(kind=sent.kind, scores=data).model_dump_json().encode()
    if columns := _COLUMNS.get(task):
        sent = list(zip(*(getattr(sent, name) for name in columns), strict=True))
    try:
        return _row_adapter(task).dump_json(sent)
    except ValueError as error:  # half a surrogate pair, which JSON's escapes can write and UTF-8 cannot
        raise ScoreError("a prediction holds what is no character; send texts of Unicode") from error


def unpack(form: bytes, task: str, items: int, shape: tuple[int, int] | None) -> Any:
    """Return the input of `pack`, with positions as ids; refuse a form that `pack` does not make."""
    wrong = ScoreError(f"what was read is not in the form of {task!r} with {items} rows")
    try:
        if task == "pairs":
            numbers = _Numbers.model_validate_json(form)
            if shape is None:
                raise wrong
            values = np.frombuffer(base64.b64decode(numbers.scores, validate=True), "<f4")
            return Scores(_position_ids(items), values.reshape(items, *shape), numbers.kind)
        rows = _row_adapter(task).validate_json(form)
    except (ValueError, ScoreError):
        raise wrong from None
    if len(rows) != items:
        raise wrong
    if task not in _COLUMNS:
        return rows
    # Imported here, so that a process that reads scores starts sooner.
    from tellapart.models.generative.choice import BothOrders
    from tellapart.tasks.choice import Chosen

    first, second = tuple(row[0] for row in rows), tuple(row[1] for row in rows)
    return Chosen(first, second) if task == "choice" else BothOrders(_position_ids(items), first, second)


def _position_ids(items: int) -> tuple[str, ...]:
    return tuple(map(str, range(items)))


@cache
def _row_adapter(task: str) -> TypeAdapter[Any]:
    return TypeAdapter(_ROWS[task], config=ConfigDict(strict=True))
