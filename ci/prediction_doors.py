"""Doors of predictions: the files of every task, as `tellapart score` reads them, and the numbers that they come to."""

import tomllib
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from doors import DECLARED, Door, door_of
from pydantic import TypeAdapter
from reshape import FIELDS, ROWS

from tellapart.data import task_records as sets
from tellapart.data.answer_text import watch_reading
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.tasks.registry import TASKS

_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))

#: Files of arrays: the task, and the arrays.
ARRAYS: dict[str, tuple[str, dict[str, Any]]] = {
    name: (arrays.pop("task"), {key: np.array(values) if key == "scores" else values for key, values in arrays.items()})
    for name, arrays in _TABLES.pop("arrays").items()
}


def _read_records(kind: str, rows: Sequence[dict[str, Any]] = (), **fields: Any) -> Any:
    """Return the records of a table; pairs are no records, and have items."""
    if kind == "PairSet":
        items = tuple(map(TypeAdapter(Item).validate_python, fields["items"]))
        return PairSet(fields["name"], items, Path())
    numbered = {"rows": [{"id": str(number)} | row for number, row in enumerate(rows)]} if rows else {}
    return TypeAdapter(getattr(sets, kind)).validate_python(fields | numbered)


#: Task -> records, of which the files of predictions get some right and some wrong.
RECORDS: dict[str, Any] = {task: _read_records(**table) for task, table in _TABLES.items()}


def open_prediction_doors(folder: Path) -> Iterator[Door]:
    """Yield the doors of the files that `open_doors` has copied below a folder."""
    home = folder / "predicted"
    for name, task in ((name, task) for task, names in DECLARED["predicted"].items() for name in names):
        # A cell holds any text, and an empty one is an answer, too.
        knows = (FIELDS | ROWS) - ({"null", "type"} if name.endswith(".csv") else set())
        yield door_of(home / name, partial(read_outcomes, task), name=f"predictions: {name}", knows=knows)
    for name, (task, arrays) in ARRAYS.items():
        np.savez(home / name, **arrays)
        yield door_of(home / name, partial(read_outcomes, task), name=f"predictions: {name}", whole=False)


def read_outcomes(task: str, path: Path) -> Any:
    """Read a file of predictions of one of the records above, and return all that is measured of it."""
    declared, records = TASKS[task], RECORDS[task]
    with watch_reading():
        predictions = declared.read(path, records)
    found = []
    for measured in declared.measure(records, predictions):
        sides = [(one.name, [one.strict, *([] if one.neutral is None else [one.neutral])]) for one in measured.values]
        values = [(name, [side.tolist() for side in both]) for name, both in sides]
        found.append((measured.noun, [(unit.id, unit.output) for unit in measured.units], values))
    return found
