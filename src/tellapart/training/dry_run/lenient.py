"""Configurations and pictures with all of their problems, in place of the first alone."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tellapart.data.images import decode, pixel_hash
from tellapart.data.scores import join_names
from tellapart.data.validation import find_problems
from tellapart.errors import DataError, TellapartError, plain
from tellapart.training.config import TrainConfig, config_tables, locate_reported, read_values
from tellapart.training.data.rows import TrainingRows
from tellapart.training.data.shards import read_image
from tellapart.training.losses.terms import read_terms

#: A line on a row or a file that cannot be read; and the values in it, which differ from row to row.
_FAULT = re.compile(r"(?P<place>.+?)(?::(?P<line>\d+))?: (?P<fault>.*)", re.DOTALL)
_VALUE = re.compile(r"(field '[^']*')|'[^']*'|\"[^\"]*\"")

#: Values of needed tables that are wrong or missing, by which the rest of a configuration can still be checked.
_STAND_INS: Mapping[str, Any] = {
    "name": "unnamed",
    "model": "unnamed",
    "loss": {"name": "itc"},
    "optimiser": {"learning_rate": 1e-6, "steps": 2},
    "batch": {"size": 2},
}


@dataclass
class Problems:
    """The problems found so far, each a line that names its place and the next step."""

    found: list[str] = field(default_factory=list)

    def add(self, problem: object) -> None:
        """Keep a problem, once."""
        text = plain(str(problem))
        if text not in self.found:
            self.found.append(text)

    @contextmanager
    def collect(self, before: str = "") -> Iterator[None]:
        """Keep an error of the block as a problem, with a text before it, and go on after the block."""
        try:
            yield
        except (TellapartError, OSError) as error:
            self.add(f"{before}{error}")


def read_leniently(path: Path, problems: Problems) -> TrainConfig | None:
    """Read a configuration and keep all of its problems.

    Wrong keys are left out, and stand-ins take the place of needed ones, so that data and sets can be checked in the
    same call. None if the file cannot be read, or names no data.
    """
    with problems.collect():
        return _complete_values(path, read_values(path), problems)
    return None


def _complete_values(path: Path, given: Mapping[str, Any], problems: Problems) -> TrainConfig | None:
    values, tables = dict(given), config_tables()
    for key, table in tables.items():
        if not isinstance(values.get(key), Mapping):
            continue
        inner = dict(values[key])
        for problem in find_problems(table, inner, f"{path}: [{key}]"):
            problems.add(problem)
            _drop_key(inner, problem)
        values[key] = inner
        if find_problems(table, inner, ""):
            values[key] = _STAND_INS.get(key, {})
    for problem in find_problems(TrainConfig, values, str(path)):
        key = str(problem.field).partition(".")[0]
        if key not in tables or not isinstance(values.get(key), Mapping):  # else it is found already
            problems.add(problem)
        _drop_key(values, problem)
    with problems.collect():
        if isinstance(values.get("loss"), Mapping):
            read_terms(values["loss"], f"{path}: [loss]")
    if problems.found:
        values = {**_STAND_INS, **values}
        try:
            read_terms(values["loss"])
        except TellapartError:
            values["loss"] = _STAND_INS["loss"]
    if find_problems(TrainConfig, values, ""):
        return None
    return locate_reported(TrainConfig.model_validate(values), path.parent)


def _drop_key(values: dict[str, Any], problem: DataError) -> None:
    values.pop(str(problem.field).partition(".")[0].partition("[")[0], None)


def open_images(rows: TrainingRows, seconds: float) -> tuple[TrainingRows, int, list[str]]:
    """Open every image, and decode as many as the time allows."""
    paths = list(dict.fromkeys(row.image for row in rows.rows if row.image != Path()))
    until = time.monotonic() + seconds

    def open_one(path: Path) -> tuple[str, str]:
        try:
            if time.monotonic() < until:
                return pixel_hash(decode(read_image(path), str(path))), ""
            with path.open("rb") if path.is_file() else io.BytesIO(read_image(path)) as file:
                return "", "" if file.read(16) else f"{path}: is empty"
        except DataError as error:
            return "", str(error)
        except OSError as error:
            return "", f"{path}: cannot be read ({error.strerror})"

    with ThreadPoolExecutor(4) as pool:
        opened = dict(zip(paths, pool.map(open_one, paths), strict=True))
    numbers = [number for number, row in enumerate(rows.rows) if row.image in opened and not opened[row.image][1]]
    bad = [error for _, error in opened.values() if error]
    hashes = {path: value for path, (value, _) in opened.items() if value}
    return rows.select(numbers).with_pictures(hashes), len(hashes), bad


def join_faults(lines: Iterable[str]) -> list[str]:
    """Return the first line of each fault, with the other rows or files that have it."""
    firsts: dict[tuple[str, str], str] = {}
    others: dict[tuple[str, str], list[str]] = {}
    for line in lines:
        found = _FAULT.fullmatch(line)
        place, number, fault = found.groups() if found else (line, None, line)
        key = (place if number else "", _VALUE.sub(r"\1", fault))
        if firsts.setdefault(key, line) is not line:
            others.setdefault(key, []).append(f"line {number}" if number else place)
    return [
        f"{first}; likewise {join_names(others[key], limit=3)}" if key in others else first
        for key, first in firsts.items()
    ]
