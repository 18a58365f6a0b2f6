"""Predictions made elsewhere: labels, texts and boxes, one a record, read from jsonl, csv and json.

- `.jsonl`: one object a line; `.json`: a list of them; `.csv`: a header and rows, or without a header the two columns
  id and prediction, as NLVR2's scorer reads them.
- The record's id is the key `id`, or as the task's tools call it: `question_id`, `image_id`, `ref_id`.
- The prediction is the one key that the file has of `prediction`, `output`, `response`, `label`, `answer`, `caption`,
  `bbox`, or the key that the user names. A file with two of them is refused; so is one of the last four if it is the
  gold answer in every row. Other keys are not looked at, so a filled template of `tellapart export`, and a file of
  samples of a run, are read too.
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

_IDS = ("id", "question_id", "image_id", "ref_id", "identifier")
_MAY_BE_GOLD = ("label", "answer", "caption", "bbox")
_PREDICTIONS = (PREDICTION, "output", "response", *_MAY_BE_GOLD)
_NAMED = f"columns={{'{PREDICTION}': 'NAME'}}"
_LARGEST = 1e9  # pixels: beyond any image; NaN is not at most that either
_MOST = sys.float_info.max


def label(value: object) -> bool:
    """Return a label: true or false, 1 or 0, yes or no, in any case, marks around it aside."""
    read = read_label(str(value)) if isinstance(value, str | int | float) else None
    if read is None:
        raise ValueError(f"a label is true or false; got {quote(value)}")
    return read


def text(value: object) -> str:
    """Return a text as it is; a number is its digits. An empty text is an answer, too."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise ValueError(f"a prediction here is a text; got {quote(value)}")


def number_names(names: Sequence[str]) -> Callable[[str], int]:
    """Return the function that takes an answer to the number of the name that it is, from 0; to -1 if it is none.

    Case, and quotes and dots at the ends, do not count, but between names that differ in nothing else.

    >>> [*map(number_names(["St.", "St", "Dog", "."]), ("St", "St.", "'dog'.", "st", ".", ""))]
    [1, 0, 2, -1, 3, -1]
    """
    exact, folded = (
        {name: number for number, name in enumerate(folds) if name and folds.count(name) == 1}  # marks alone fold to ""
        for folds in ([*map(fold, names)] for fold in (str.strip, _plain_name))
    )
    return lambda answer: exact.get(answer.strip(), folded.get(_plain_name(answer), -1))


def _plain_name(name: str) -> str:
    return name.strip().strip("\"'.").strip().lower()


def box(value: object) -> tuple[float, float, float, float]:
    """Return a box: x, y, width, height in pixels; in a csv file as a JSON list."""
    try:
        sides = finite_numbers(parse_json(value, "a box") if isinstance(value, str) else value, most=_LARGEST)
    except DataError:
        sides = None
    if sides is None or len(sides) != 4:
        raise ValueError(f"a box is [x, y, width, height] in pixels; got {quote(value)}")
    x, y, width, height = sides
    return x, y, width, height


def finite_numbers(value: object, *, most: float = _MOST) -> list[float] | None:
    """Return a list of finite numbers, none larger than `most`; None if the value is anything else."""
    if not isinstance(value, list):
        return None
    valid = all(type(element) in (int, float) and abs(element) <= most for element in value)
    return list(map(float, value)) if valid else None


def read_predictions(
    path: Path, ids: Sequence[str], read: Callable[[Any], T], noun: str, is_gold: Callable[[int, T], bool]
) -> list[T]:
    """Read one prediction for each id, in the order of the ids, whatever their order in the file.

    `read` takes a value, a text without its thought, to a prediction, or raises `ValueError`. Rows of a run's samples
    that are of another unit than `noun` are passed over. `is_gold` takes the number of an id and its prediction to
    whether that is the gold answer. It is asked within `watch_reading` alone, and not on a board, whose gold is hidden.
    """
    by_id: dict[str, T] = {}
    rows: list[tuple[str, Mapping[str, Any]]] = []
    # A table of two columns may come without their names.
    header: dict[str, Any] = {"unnamed": ("id", "prediction"), "names": (*_IDS, *_PREDICTIONS, "unit")}
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
    if reading.named == "" and key in _MAY_BE_GOLD and all(map(is_gold, range(len(ids)), predictions)):
        raise ScoreError(
            f"{path}: field {key!r} is the gold answer in every row, so it may not be the model's; if it is, say so: "
            f"columns={{'{PREDICTION}': '{key}'}}, or rename it to {PREDICTION!r}"
        )
    reading.stated = key
    return predictions


def read_for(
    path: Path, rows: Sequence[Any], read: Callable[[Any], T], noun: str, is_gold: Callable[[Any, T], bool]
) -> list[T]:
    """Read one prediction for each record, as `read_predictions` does; `is_gold` takes the record itself."""
    return read_predictions(path, [row.id for row in rows], read, noun, lambda k, value: is_gold(rows[k], value))


def align_file(path: Path, ids: Sequence[str], values: Mapping[str, T], noun: str = "predictions") -> list[T]:
    """Return the value of each id that a file gives, in the order of the ids."""
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
    """Read the arrays of a `.npz` file, and for each array of ids the file's position of each expected id."""
    if path.suffix != ".npz":
        raise ScoreError(f"{path}: scores of this task are read from .npz files; got {path.suffix!r}")
    needed = (*ids, *needed)
    arrays = read_arrays(path, (*needed, *optional))
    current_reading().stated = ", ".join(name for name in arrays if name not in ids)
    if absent := [name for name in needed if name not in arrays]:
        raise ScoreError(f"{path} has no array {' and '.join(absent)}; `tellapart export` lists the ids")
    return arrays, [_find_positions(path, name, arrays[name], row_id) for name, row_id in ids.items()]


def read_table(path: Path, ids: Mapping[str, Sequence[str]]) -> NDArray[Any]:
    """Read the scores of a `.npz` file in the order of two arrays of ids: `(row, column)`."""
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


def read_id(row: Mapping[str, Any], place: str, names: Sequence[str] = _IDS) -> str:
    """Return the id of a row, which stands under one of some names; a whole number is one, as `100` and as `100.0`."""
    for key in names:
        value = row.get(key)
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # of a table that holds numbers
        if isinstance(value, str | int) and not isinstance(value, bool) and value != "":
            return str(value)
    if (answer := next((row[key] for key in names if row.get(key) not in (None, "")), None)) is not None:
        raise ScoreError(f"{place}: the id must be text or a whole number, got {quote(answer)}")
    raise ScoreError(f"{place}: no id; it is expected under {' or '.join(map(repr, names))}")


def _find_field(path: Path, rows: Sequence[tuple[str, Mapping[str, Any]]], named: str | None) -> str:
    """Return the field of the predictions: the named one, or the only one that may be theirs."""
    names = list(dict.fromkeys(name for _, row in rows for name in row))
    if named and rows:
        if named not in names:
            raise ScoreError(f"{path}: no row has a field {named!r}, which columns= names; it has {join_names(names)}")
        return named
    filled = {name for name in _PREDICTIONS if any(row.get(name) not in (None, "") for _, row in rows)}
    held = [name for name in _PREDICTIONS if name in filled or (name in names and name == PREDICTION)]
    if len(held) > 1:
        listed = " and ".join(f"{name!r}{'' if name in filled else ' (empty in every row)'}" for name in held)
        # Whoever sends a file to a board names no columns.
        name = "" if named is None else f"name the field that the model filled in: {_NAMED}, or "
        raise ScoreError(
            f"{path}: the rows have {listed}, and one of them may be the gold answer; {name}leave all but the field "
            "that the model filled in out of the file"
        )
    return held[0] if held else next((name for name in _PREDICTIONS if name in names), PREDICTION)


def _read_prediction(row: Mapping[str, Any], key: str, read: Callable[[Any], T], place: str) -> T:
    if row.get(key) is None:
        expected = f"it is expected under {' or '.join(map(repr, _PREDICTIONS))}"
        named = "" if current_reading().named is None else f"; another field is named by {_NAMED}"
        raise ScoreError(f"{place}: no prediction; {f'field {key!r} is null' if key in row else expected}{named}")
    value = strip_thought(row[key]) if isinstance(row[key], str) else row[key]
    try:
        return read(value)
    except ValueError as error:
        cut = "; the answer ends inside its thought" if row[key] and value == "" else ""
        raise ScoreError(f"{place}: field {key!r}: {error}{cut}") from error
