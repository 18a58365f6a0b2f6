"""Costs of models for the pictures, read from `tellapart time`'s records or from the user's CSV files."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tellapart.data.strict_json import decode_text, expect_distinct, plain_suffix, read_whole
from tellapart.errors import DataError, RunError
from tellapart.records.timing_record import Timing, read_timings

#: Name -> its text on an axis, and its place in a record.
COSTS: dict[str, tuple[str, Callable[[Timing], float | None]]] = {
    "latency": ("latency of one pair, milliseconds", lambda timing: 1000 * timing.latency.median),
    "parameters": ("parameters, millions", lambda timing: _scale_number(timing.parameters, 1e-6)),
    "flops": ("FLOPs of one pair, billions", lambda timing: _scale_number(timing.flops, 1e-9)),
    "memory": ("peak memory, MiB", lambda timing: _scale_number(timing.peak_memory, 2**-20)),
}


@dataclass(frozen=True, slots=True)
class Costs:
    """One cost of several models.

    Attributes:
        what: its text on an axis, with its unit.
        of: model -> cost.
    """

    what: str
    of: dict[str, float]


@dataclass(frozen=True, slots=True)
class BatchCosts:
    """A cost against the size of a batch.

    Attributes:
        what: its text on the axis, with its unit.
        of: series -> points (batch size, cost), by batch size.
    """

    what: str
    of: dict[str, tuple[tuple[float, float], ...]]


def read_costs(path: Path, which: str = "latency") -> Costs:
    """Read one cost of every model."""
    if plain_suffix(path) == ".csv":
        title, rows = _csv_rows(path, ("model",))
        return Costs(title, {name: cost for (name,), cost in rows.items()})
    if which not in COSTS:
        *others, last = COSTS
        raise RunError(f"no cost {which!r}; use {', '.join(others)} or {last}, or another CSV file")
    title, read = COSTS[which]
    timings = read_timings(path).models
    costs = {timing.model.name: read(timing) for timing in timings}
    if len(costs) < len(timings):
        raise RunError(f"{path} measured a model twice; it has {', '.join(timing.model.name for timing in timings)}")
    if missing := [name for name, cost in costs.items() if cost is None]:
        raise RunError(f"{path} does not say the {which} of {', '.join(missing)}")
    return Costs(title, {name: cost for name, cost in costs.items() if cost is not None})


def read_batch_costs(paths: Sequence[Path]) -> BatchCosts:
    """Read a cost at several sizes of a batch."""
    whats: dict[str, None] = {}
    costs: dict[str, dict[float, float]] = {}
    for path in paths:
        title, rows = _batch_rows(path)
        whats[title] = None
        for (series, size), cost in rows.items():
            points = costs.setdefault(series, {})
            if size in points:
                raise RunError(f"{path}: {series} at a batch of {size:g} was measured in two of these files; name one")
            points[size] = cost
    if not costs:
        raise RunError("no file was named; name records of `tellapart time --out`, or CSV files")
    if len(whats) > 1:
        raise RunError(f"these files measure different things: {'; '.join(whats)}; draw one at a time")
    return BatchCosts(next(iter(whats)), {series: tuple(sorted(points.items())) for series, points in costs.items()})


def _batch_rows(path: Path) -> tuple[str, dict[tuple[str, float], float]]:
    if plain_suffix(path) == ".csv":
        title, rows = _csv_rows(path, ("series", "batch_size"))
        return title, {(series, _read_number(path, size)): cost for (series, size), cost in rows.items()}
    costs: dict[tuple[str, float], float] = {}
    for timing in read_timings(path).models:
        if timing.throughput.pairs is None:
            raise RunError(f"{path} has no throughput of pairs of {timing.model.name}")
        costs[timing.model.name, float(timing.throughput.batch_size)] = 1000 / timing.throughput.pairs
    return "milliseconds a pair", costs


def _csv_rows(path: Path, keys: tuple[str, ...]) -> tuple[str, dict[tuple[str, ...], float]]:
    """Read a CSV file whose first columns are `keys`, and whose next one is a number: its heading, and the rows."""
    try:
        heading, *lines = csv.reader(io.StringIO(decode_text(read_whole(path), path), newline=""))
    except (csv.Error, ValueError) as error:
        raise DataError(f"{path} cannot be read as CSV: {error}") from error
    expect_distinct(heading, path, line=1)
    if tuple(heading[: len(keys)]) != keys or len(heading) <= len(keys):
        raise DataError(f"{path}:1: expected the columns {', '.join(keys)} and a cost; got {', '.join(heading)}")
    rows: dict[tuple[str, ...], float] = {}
    for number, line in enumerate(lines, start=2):
        if not line:
            continue
        if len(line) <= len(keys):
            raise DataError(f"{path}:{number}: expected {len(keys) + 1} cells; got {len(line)}")
        key = tuple(line[: len(keys)])
        if key in rows:
            raise DataError(f"{path}:{number}: {', '.join(key)} is listed twice")
        rows[key] = _read_number(path, line[len(keys)], number)
    return heading[len(keys)], rows


def _read_number(path: Path, cell: str, line: int | None = None) -> float:
    try:
        number = float(cell)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        raise DataError(f"{path}{'' if line is None else f':{line}'}: expected a number above zero; got {cell!r}")
    return number


def _scale_number(number: int | None, factor: float) -> float | None:
    return None if number is None else factor * number
