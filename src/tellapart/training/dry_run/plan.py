"""The outcome of a dry run: problems, plan and forecast, as JSON and on the terminal."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any

from rich.filesize import decimal

from tellapart.data.scores import join_names
from tellapart.errors import TellapartError, plain
from tellapart.report.numbers import thousands
from tellapart.report.terminal import console, print_lines, table
from tellapart.training.data.duplicates import Duplicates

#: Missing pictures that are listed on the terminal; JSON has all.
_LISTED = 10

_BLOCKS = {True: "▁▂▃▄▅▆▇█", False: "_.-=+*#@"}

#: A line on a row or a file that cannot be read; and the values in it, which differ from row to row.
_FAULT = re.compile(r"(?P<place>.+?)(?::(?P<line>\d+))?: (?P<fault>.*)", re.DOTALL)
_VALUE = re.compile(r"(field '[^']*')|'[^']*'|\"[^\"]*\"")


@dataclass
class Problems:
    """The problems found so far, each a line that names its place and the next step."""

    found: list[str] = field(default_factory=list)

    def add(self, problem: object) -> None:
        """Keep a problem, once."""
        if (text := plain(str(problem))) not in self.found:
            self.found.append(text)

    @contextmanager
    def collect(self, before: str = "") -> Iterator[None]:
        """Keep an error of the block as a problem, with a text before it, and go on after the block."""
        try:
            yield
        except (TellapartError, OSError) as error:
            self.add(f"{before}{error}")


def join_faults(lines: Iterable[str]) -> list[str]:
    """Return the first line of each fault, with the other rows or files that have it.

    >>> join_faults(["a.csv:2: field 'image': no 'x'", "a.csv:3: field 'image': no 'y'", "a.csv:4: field 'text': ''"])
    ["a.csv:2: field 'image': no 'x'; likewise line 3", "a.csv:4: field 'text': ''"]
    """
    alike: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for line in lines:
        match = _FAULT.fullmatch(line)
        place, number, fault = match.groups() if match else (line, None, line)
        key = (place if number else "", _VALUE.sub(r"\1", fault))
        alike.setdefault(key, []).append((line, f"line {number}" if number else place))
    return [
        first + (f"; likewise {join_names([place for _, place in others], limit=3)}" if others else "")
        for (first, _), *others in alike.values()
    ]


@dataclass(frozen=True, slots=True)
class DataPlan:
    """The data: rows and images of training, and how many images were decoded and compared with the reported sets.

    `missing` has a line for each image or row that cannot be read; `validation` is the number of items that choose the
    weights, by a `metric` of theirs, if any do. `duplicates` are counted if the model was opened.
    """

    rows: int
    images: int
    decoded: int
    compared: int
    missing: tuple[str, ...]
    validation: int | None = None
    metric: str | None = None
    duplicates: Duplicates | None = None


@dataclass(frozen=True, slots=True)
class WeightGroup:
    """Weights of one part of the model that are treated alike: a factor on the learning rate, None if frozen."""

    part: str
    parameters: int
    rate: float | None
    decay: float | None


@dataclass(frozen=True, slots=True)
class Schedule:
    """The steps in all, their pairs in equal parts, shares of the highest rate evenly spread, and measurements."""

    steps: int
    epochs: float
    pairs: int
    parts: int
    learning_rate: float
    warm_up: int
    decay: str
    rates: tuple[float, ...]
    every: int
    measurements: int


@dataclass(frozen=True, slots=True)
class Trial:
    """The steps that were taken and thrown away.

    `seconds` are of those that were timed. `same` is whether the step taken again after resuming wrote the same
    checkpoint. `loss` has the parts of the last step.
    """

    steps: int
    seconds: tuple[float, ...]
    peak_bytes: int | None
    checkpoint_bytes: int
    checkpoint_seconds: float
    same: bool
    loss: dict[str, float]


@dataclass(frozen=True, slots=True)
class Span:
    """A forecast number with its interval."""

    low: float
    value: float
    high: float


@dataclass(frozen=True, slots=True)
class Forecast:
    """The cost of the run: wall time as if nothing else ran, its parts, and disk in the end and at most.

    The interval of time has steps as fast as the tenth and as slow as the ninetieth percentile of those taken, and a
    quarter more or less for each other part.
    """

    seconds: Span
    parts: dict[str, float]
    disk_bytes: int
    disk_peak_bytes: int


@dataclass(frozen=True, slots=True)
class DryRun:
    """The outcome of a dry run, whose folder does not exist yet; parts that a problem kept from being tried are None.

    `problems` are lines: training would fail, or not do as the configuration means. `notes` are worth reading. The
    forecast is for so many `seeds`; `seconds` are the dry run's.
    """

    name: str
    out: str
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    seconds: float
    seeds: int = 1
    data: DataPlan | None = None
    weights: tuple[WeightGroup, ...] = ()
    schedule: Schedule | None = None
    trial: Trial | None = None
    forecast: Forecast | None = None

    @property
    def passed(self) -> bool:
        """Whether no problem was found."""
        return not self.problems

    def to_json(self) -> dict[str, Any]:
        """Return the JSON of `tellapart train --dry-run --json`."""
        return {"passed": self.passed, **asdict(self)}

    def show(self) -> None:
        """Print the plan, the forecast, and every problem."""
        print_lines(*map(plain, self._plan_lines()))
        if self.weights:
            rows = table("weights", "parameters", "rate", "decay", numbers_from=1)
            for group in self.weights:
                rate = "frozen" if group.rate is None else f"x {group.rate:g}"
                decay = "" if group.decay is None else f"{group.decay:g}"
                rows.add_row(plain(group.part), thousands(group.parameters), rate, decay)
            print_lines("")
            console().print(rows)
        print_lines("", *map(plain, self._result_lines()))

    def _plan_lines(self) -> Iterator[str]:
        yield f"{self.name}: a dry run, in {self.seconds:.0f} s; nothing is written, and the run would go to {self.out}"
        data, schedule = self.data, self.schedule
        if data is not None:
            yield (
                f"data: {data.rows:,} rows, {data.images:,} images, {data.decoded:,} of them decoded; "
                f"{data.compared:,} compared with the reported sets"
            )
            if data.duplicates is not None and (counts := data.duplicates.describe()):
                yield f"  {counts}"
            faults = join_faults(data.missing)
            if len(faults) > 1:  # one alone is among the problems
                yield from (f"  {fault}" for fault in faults[:_LISTED])
            if len(faults) > _LISTED:
                yield f"  and {len(faults) - _LISTED:,} more (--json lists all)"
        if schedule is not None:
            parts = "" if schedule.parts == 1 else f" in {schedule.parts} parts of {schedule.pairs // schedule.parts}"
            yield (
                f"schedule: {schedule.steps:,} steps of {schedule.pairs:,} pairs{parts}, {schedule.epochs:.2f} epochs; "
                f"rate {schedule.learning_rate:g} after {schedule.warm_up:,} steps, then {schedule.decay}"
            )
            blocks, width = _BLOCKS[(sys.stdout.encoding or "ascii").lower().startswith("utf")], len(schedule.rates)
            yield "  " + "".join(blocks[min(7, int(8 * rate))] for rate in schedule.rates)
            measured = (*range(schedule.every, schedule.steps, schedule.every), schedule.steps)
            marked = {(step - 1) * width // schedule.steps for step in measured} | {width - 1}
            yield "  " + "".join("^" if column in marked else " " for column in range(width))
            many = schedule.measurements > 1
            times = f"every {schedule.every:,} steps, {schedule.measurements:,} times (^)" if many else "at the end (^)"
            if data is not None and data.validation is not None:
                yield f"measured {times}; weights are chosen by {data.metric} of {data.validation:,} items"
            else:
                yield f"a checkpoint {times}; nothing is measured on the way, and the last weights are kept"

    def _result_lines(self) -> Iterator[str]:
        trial, forecast = self.trial, self.forecast
        if trial is not None:
            middle = sorted(trial.seconds)[len(trial.seconds) // 2]
            memory = "" if trial.peak_bytes is None else f", {decimal(trial.peak_bytes)} of memory at the peak"
            yield f"tried: {trial.steps} steps of {middle:.3g} s{memory}"
            yield (
                f"checkpoint: {decimal(trial.checkpoint_bytes)} in {trial.checkpoint_seconds:.2g} s; read again "
                f"and resumed: {'the same weights' if trial.same else 'other weights'}"
            )
        if forecast is not None:
            seconds, seeds = forecast.seconds, "" if self.seeds == 1 else f" for {self.seeds} seeds"
            clock = [str(timedelta(seconds=round(bound))) for bound in (seconds.value, seconds.low, seconds.high)]
            parts = (f"{name} {timedelta(seconds=round(long))}" for name, long in forecast.parts.items() if long >= 0.5)
            yield f"time{seeds}: {clock[0]} ({clock[1]} to {clock[2]}), of it {', '.join(parts)}"
            yield (
                f"disk{seeds}: {decimal(forecast.disk_bytes)} in the end, {decimal(forecast.disk_peak_bytes)} at most"
            )
        yield from (f"note: {note}" for note in self.notes)
        yield from (f"problem: {problem}" for problem in self.problems)
        yield "no problem found" if self.passed else f"{len(self.problems)} to mend before this run"
