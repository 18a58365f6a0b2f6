"""Predictions made elsewhere: labels, texts and boxes, one a record, read from jsonl, csv and json.

- `.jsonl`: one object a line; `.json`: a list of them; `.csv`: a header and rows.
- The record's id is the key `id`, or as the task's own tools call it: `question_id`, `image_id`, `ref_id`.
- The prediction is the key `prediction`, or `label`, `answer`, `caption`, `bbox`. Other keys are not looked at, so a
  filled template of `tellapart export`, and a file of samples of a run, are read too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tellapart.data.rows import read_csv, read_json, read_jsonl
from tellapart.data.task_records import align
from tellapart.errors import DataError, ScoreError

__all__ = ["box", "label", "read_predictions", "text"]

_IDS = ("id", "question_id", "image_id", "ref_id", "identifier")
_PREDICTIONS = ("prediction", "output", "label", "answer", "caption", "bbox")
_LARGEST = 1e9  # pixels: beyond any image; NaN is not at most that either
_LABELS = {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False}


def label(value: Any) -> bool:
    """Return a label: true or false, 1 or 0, yes or no, in any case.

    Raises:
        ValueError: it is neither.

    >>> label("True"), label(0)
    (True, False)
    """
    if isinstance(value, bool):
        return value
    read = _LABELS.get(str(value).strip().lower()) if isinstance(value, str | int) else None
    if read is None:
        raise ValueError(f"a label is true or false; got {value!r:.60}")
    return read


def text(value: Any) -> str:
    """Return a text as it is; a number is its digits. An empty text is an answer, too.

    Raises:
        ValueError: it is no text.

    >>> text("two"), text(2)
    ('two', '2')
    """
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise ValueError(f"a prediction here is a text; got {value!r:.60}")


def box(value: Any) -> tuple[float, float, float, float]:
    """Return a box: x, y, width, height in pixels; in a csv file as a JSON list.

    Raises:
        ValueError: not four finite numbers.

    >>> box([1, 2, 3, 4]), box("[1, 2, 3, 4]")
    ((1.0, 2.0, 3.0, 4.0), (1.0, 2.0, 3.0, 4.0))
    """
    try:
        sides = json.loads(value) if isinstance(value, str) else value
    except json.JSONDecodeError:
        sides = None
    if (
        not isinstance(sides, list)
        or len(sides) != 4
        or not all(
            isinstance(side, int | float) and not isinstance(side, bool) and abs(side) <= _LARGEST for side in sides
        )
    ):
        raise ValueError(f"a box is [x, y, width, height] in pixels; got {value!r:.60}")
    x, y, width, height = map(float, sides)
    return x, y, width, height


def read_predictions(path: Path, ids: Sequence[str], read: Callable[[Any], Any], noun: str) -> list[Any]:
    """Read one prediction for each id, in the order of the ids, whatever their order in the file.

    Args:
        path: a `.jsonl`, `.csv` or `.json` file.
        ids: of all records.
        read: takes one value to a prediction, or raises `ValueError`.
        noun: what one record is: "statement". Rows of a run's samples that are of another unit are passed over.

    Raises:
        ScoreError: the suffix is another one; a row has no id, no prediction or one that cannot be read; ids are
            missing, unknown or repeated (the first ten are named).
        DataError: the file is not what its format says.

    >>> path = getfixture("tmp_path") / "labels.csv"
    >>> _ = path.write_text("id,prediction\\nb,no\\na,yes\\n")
    >>> read_predictions(path, ["a", "b"], label, "statement")
    [True, False]
    """
    readers: dict[str, Callable[[Path], Iterator[tuple[str, Mapping[str, Any]]]]] = {
        ".jsonl": _lines(read_jsonl),
        ".csv": _lines(read_csv),
        ".json": _listed,
    }
    if path.suffix not in readers:
        raise ScoreError(f"{path}: predictions are read from .jsonl, .csv or .json files; got {path.suffix!r}")
    by_id: dict[str, Any] = {}
    for where, row in readers[path.suffix](path):
        if row.get("unit", noun) != noun:
            continue
        id_ = _id(row, where)
        if id_ in by_id:
            raise ScoreError(f"{where}: a second prediction for id {id_}; give one for each")
        by_id[id_] = _prediction(row, read, where)
    try:
        return align(ids, by_id)
    except DataError as error:
        raise ScoreError(f"{path}: {error}") from error


def _lines(
    reader: Callable[[Path], Iterator[tuple[int, Mapping[str, Any]]]],
) -> Callable[[Path], Iterator[tuple[str, Mapping[str, Any]]]]:
    def rows(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
        for number, row in reader(path):
            yield f"{path}:{number}", row

    return rows


def _listed(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    content = read_json(path)
    if not isinstance(content, list):
        raise ScoreError(f"{path}: a list of objects is expected, one a prediction; got {type(content).__name__}")
    for number, row in enumerate(content):
        if not isinstance(row, dict):
            raise ScoreError(f"{path}: row {number}: expected an object; got {type(row).__name__}")
        yield f"{path}: row {number}", row


def _id(row: Mapping[str, Any], where: str) -> str:
    for key in _IDS:
        value = row.get(key)
        if isinstance(value, str | int) and not isinstance(value, bool) and value != "":
            return str(value)
    raise ScoreError(f"{where}: no id; it is expected under {' or '.join(repr(key) for key in _IDS)}")


def _prediction(row: Mapping[str, Any], read: Callable[[Any], Any], where: str) -> Any:
    key = next((key for key in _PREDICTIONS if row.get(key) is not None), None)
    if key is None:
        raise ScoreError(
            f"{where}: no prediction; it is expected under {' or '.join(repr(key) for key in _PREDICTIONS)}"
        )
    try:
        return read(row[key])
    except ValueError as error:
        raise ScoreError(f"{where}: field {key!r}: {error}") from error
