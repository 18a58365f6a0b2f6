"""Predictions made elsewhere: labels, texts and boxes, one a record, read from jsonl, csv and json.

- `.jsonl`: one object a line; `.json`: a list of them; `.csv`: a header and rows, or without a header the two columns
  id and prediction, as NLVR2's scorer reads them.
- The record's id is the key `id`, or as the task's tools call it: `question_id`, `image_id`, `ref_id`.
- The prediction is the one key that the file has of `prediction`, `output`, `response`, `label`, `answer`, `caption`,
  `bbox`, or the key that the user names. A file with two of them is refused. If its key is `label`, `answer`,
  `caption` or `bbox`, and every value is the gold answer, it is refused, too. Other keys are ignored, so filled
  templates of `tellapart export` and a run's files of samples are read as well.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tellapart.data.answer_text import PREDICTION, current_reading, read_label, strip_thought
from tellapart.data.rows import read_rows
from tellapart.data.scores import as_numbers, join_names
from tellapart.data.strict_binary import read_arrays
from tellapart.data.strict_json import parse_json
from tellapart.data.task_records import align
from tellapart.errors import DataError, ScoreError, quote

T = TypeVar("T")

_ID_FIELDS = ("id", "question_id", "image_id", "ref_id", "identifier")
_MAYBE_GOLD_FIELDS = ("label", "answer", "caption", "bbox")
_PREDICTION_FIELDS = (PREDICTION, "output", "response", *_MAYBE_GOLD_FIELDS)
_COLUMNS_HINT = f"columns={{'{PREDICTION}': 'NAME'}}"
_MOST_PIXELS = 1e9  # beyond any image


def parse_label(value: object) -> bool:
    """Return the label that a value is: true or false, 1 or 0, yes or no, in any case and between any marks."""
    label = read_label(str(value)) if isinstance(value, str | int | float) else None
    if label is None:
        raise ValueError(f"a label is true or false; got {quote(value)}")
    return label


def parse_text(value: object) -> str:
    """Return a text as it is, and a whole number as its digits. An empty text is an answer, too."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise ValueError(f"a prediction here is a text; got {quote(value)}")


def make_name_index(names: Sequence[str]) -> Callable[[str], int]:
    """Return a function from an answer to the index, from 0, of the name that it states; -1 if it states none.

    Case, and quotes and dots at the ends, count only between names that differ in nothing else.

    >>> [*map(make_name_index(["St.", "St", "Dog", "."]), ("St", "St.", "'dog'.", "st", ".", ""))]
    [1, 0, 2, -1, 3, -1]
    """
    exact = _index_unique([name.strip() for name in names])
    plain = _index_unique([_plain_name(name) for name in names])
    return lambda answer: exact.get(answer.strip(), plain.get(_plain_name(answer), -1))


def _index_unique(names: Sequence[str]) -> dict[str, int]:
    return {name: index for index, name in enumerate(names) if name and names.count(name) == 1}


def _plain_name(name: str) -> str:
    return name.strip().strip("\"'.").strip().lower()


def parse_box(value: object) -> tuple[float, float, float, float]:
    """Return x, y, width and height in pixels, of a list or, in a csv file, of its JSON."""
    try:
        sides = finite_numbers(parse_json(value, "a box") if isinstance(value, str) else value, most=_MOST_PIXELS)
    except DataError:
        sides = None
    if sides is None or len(sides) != 4:
        raise ValueError(f"a box is [x, y, width, height] in pixels; got {quote(value)}")
    x, y, width, height = sides
    return x, y, width, height


def finite_numbers(value: object, *, most: float = sys.float_info.max) -> list[float] | None:
    """Return a list of finite numbers of size `most` or less as floats; None if the value is anything else."""
    if not isinstance(value, list):
        return None
    valid = all(type(element) in (int, float) and abs(element) <= most for element in value)  # NaN <= most is false
    return list(map(float, value)) if valid else None


def read_predictions(
    path: Path, ids: Sequence[str], read: Callable[[Any], T], noun: str, is_gold: Callable[[int, T], bool]
) -> list[T]:
    """Read one prediction for each id, in the order of the ids, whatever their order in the file.

    `read` turns a value into a prediction, or raises `ValueError`; texts reach it without their thought. Rows of a
    run's samples whose unit is not `noun` are skipped. `is_gold` takes the position of an id and its prediction, and
    returns whether that is the gold answer. It is called within `watch_reading` alone, and never on a board.
    """
    by_id: dict[str, T] = {}
    rows: list[tuple[str, Mapping[str, Any]]] = []
    # A table of two columns may come without a header.
    header: dict[str, Any] = {"unnamed": ("id", "prediction"), "names": (*_ID_FIELDS, *_PREDICTION_FIELDS, "unit")}
    for place, _, row in read_rows(path, (".jsonl", ".csv", ".json"), "predictions", error=ScoreError, **header):
        if not isinstance(row, Mapping):
            raise ScoreError(f"{place}: expected a list of objects, one a prediction; got {quote(row)}")
        if row.get("unit", noun) == noun:
            rows.append((place, row))
    reading = current_reading()
    key = _find_field(path, rows, reading.named)
    for place, row in rows:
        id_ = read_id(row, place)
        if id_ in by_id:
            raise ScoreError(f"{place}: a second prediction for id {id_}; give one for each")
        by_id[id_] = _read_prediction(row, key, read, place)
    predictions = align_file(path, ids, by_id)
    # `named` is empty if the user named no field, and None if the gold answers are hidden.
    if reading.named == "" and key in _MAYBE_GOLD_FIELDS and all(map(is_gold, range(len(ids)), predictions)):
        raise ScoreError(
            f"{path}: field {key!r} is the gold answer in every row, so it may not be the model's; if it is, say so: "
            f"columns={{'{PREDICTION}': '{key}'}}, or rename it to {PREDICTION!r}"
        )
    reading.fields_read = key
    return predictions


def read_for_records(
    path: Path, rows: Sequence[Any], read: Callable[[Any], T], noun: str, is_gold: Callable[[Any, T], bool]
) -> list[T]:
    """Read one prediction for each record, as `read_predictions` does; `is_gold` takes the record itself."""
    return read_predictions(path, [row.id for row in rows], read, noun, lambda k, value: is_gold(rows[k], value))


def align_file(path: Path, ids: Sequence[str], values: Mapping[str, T], noun: str = "predictions") -> list[T]:
    """Return a file's value of each id, as `align` does; an error names the file."""
    try:
        return align(ids, values, noun)
    except DataError as error:
        raise ScoreError(f"{path}: {error}") from error


def read_by_id(
    path: Path,
    records: Sequence[Any],
    read: Callable[[Any, Mapping[str, Any], str], T],
    noun: str,
    names: Sequence[str] = ("id",),
) -> list[T]:
    """Read one line of JSON for each record, in the order of the records.

    `read` takes a record, its line and the line's place; ids stand under one of `names`.
    """
    by_id = {record.id: record for record in records}
    values: dict[str, Any] = {}
    for place, _, row in read_rows(path, (".jsonl",), noun, error=ScoreError):
        id_ = read_id(row, place, names)
        if id_ in values:
            raise ScoreError(f"{place}: a second row for id {id_}; give one for each")
        values[id_] = read(by_id[id_], row, place) if id_ in by_id else None
    return align_file(path, [*by_id], values, noun)


def read_matrix(
    path: Path, ids: Mapping[str, Sequence[str]], needed: Sequence[str] = (), optional: Sequence[str] = ()
) -> tuple[dict[str, NDArray[Any]], list[list[int]]]:
    """Return the arrays of a `.npz` file, and for each array of `ids` the positions in it of the expected ids."""
    if path.suffix != ".npz":
        raise ScoreError(f"{path}: scores of this task are read from .npz files; got {path.suffix!r}")
    needed = (*ids, *needed)
    arrays = read_arrays(path, (*needed, *optional))
    current_reading().fields_read = ", ".join(name for name in arrays if name not in ids)
    if absent := [name for name in needed if name not in arrays]:
        raise ScoreError(f"{path} has no array {' and '.join(absent)}; `tellapart export` lists the ids")
    return arrays, [_find_positions(path, name, arrays[name], row_id) for name, row_id in ids.items()]


def read_table(path: Path, ids: Mapping[str, Sequence[str]]) -> NDArray[Any]:
    """Read the scores of a `.npz` file, `(row, column)`, in the order of the expected ids of rows and of columns."""
    arrays, (rows, columns) = read_matrix(path, ids, ("scores",))
    scores = as_numbers(arrays["scores"], f"{path}: `scores`", f"({len(rows)}, {len(columns)})", kinds="fiu")
    return scores[np.ix_(rows, columns)]


def _find_positions(path: Path, name: str, stored: NDArray[Any], ids: Sequence[str]) -> list[int]:
    if stored.ndim != 1 or stored.dtype.kind != "U":
        raise ScoreError(f"{path}: {name} must be strings (n,); got {stored.dtype} {stored.shape}")
    position = {str(id_): number for number, id_ in enumerate(stored)}
    if twice := [str(id_) for number, id_ in enumerate(stored) if position[str(id_)] != number]:
        raise ScoreError(f"{path}: {len(twice)} of {name} are repeated: {join_names(twice)}")
    return align_file(path, ids, position, name)


def read_id(row: Mapping[str, Any], place: str, names: Sequence[str] = _ID_FIELDS) -> str:
    """Return a row's id, from the first of these fields that holds one: a text, or a whole number (`100`, `100.0`)."""
    for key in names:
        value = row.get(key)
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # a table of numbers may hold 100 as 100.0
        if isinstance(value, str | int) and not isinstance(value, bool) and value != "":
            return str(value)
    if (wrong := next((row[key] for key in names if row.get(key) not in (None, "")), None)) is not None:
        raise ScoreError(f"{place}: the id must be text or a whole number, got {quote(wrong)}")
    raise ScoreError(f"{place}: no id; it is expected under {' or '.join(map(repr, names))}")


def _find_field(path: Path, rows: Sequence[tuple[str, Mapping[str, Any]]], named: str | None) -> str:
    """Return the field of the predictions: the one that the user named, or the only candidate."""
    names = list(dict.fromkeys(name for _, row in rows for name in row))
    if named and rows:
        if named not in names:
            raise ScoreError(f"{path}: no row has a field {named!r}, which columns= names; it has {join_names(names)}")
        return named
    filled = {name for name in _PREDICTION_FIELDS if any(row.get(name) not in (None, "") for _, row in rows)}
    # A column `prediction` counts even if it is empty: another filled column may then be the gold answer.
    candidates = [name for name in _PREDICTION_FIELDS if name in filled or (name in names and name == PREDICTION)]
    if len(candidates) > 1:
        listed = " and ".join(f"{name!r}{'' if name in filled else ' (empty in every row)'}" for name in candidates)
        # Whoever sends a file to a board names no columns.
        hint = "" if named is None else f"name the field that the model filled in: {_COLUMNS_HINT}, or "
        raise ScoreError(
            f"{path}: the rows have {listed}, and one of them may be the gold answer; {hint}leave all but the field "
            "that the model filled in out of the file"
        )
    present = [name for name in _PREDICTION_FIELDS if name in names]
    return next(iter(candidates or present), PREDICTION)


def _read_prediction(row: Mapping[str, Any], key: str, read: Callable[[Any], T], place: str) -> T:
    if row.get(key) is None:
        expected = f"it is expected under {' or '.join(map(repr, _PREDICTION_FIELDS))}"
        named = "" if current_reading().named is None else f"; another field is named by {_COLUMNS_HINT}"
        raise ScoreError(f"{place}: no prediction; {f'field {key!r} is null' if key in row else expected}{named}")
    value = strip_thought(row[key]) if isinstance(row[key], str) else row[key]
    try:
        return read(value)
    except ValueError as error:
        cause = "; the answer ends inside its thought" if row[key] and value == "" else ""
        raise ScoreError(f"{place}: field {key!r}: {error}{cause}") from error
