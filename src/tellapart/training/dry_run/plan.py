"""The outcome of a dry run: problems, plan and forecast, as JSON and on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

from rich.filesize import decimal

from tellapart.errors import plain
from tellapart.report.numbers import thousands
from tellapart.report.terminal import console, print_lines, table
from tellapart.training.data.duplicates import Duplicates
from tellapart.training.dry_run.lenient import join_faults

#: Missing pictures that are listed on the terminal; JSON has all.
_LISTED = 10

_BLOCKS = {True: "▁▂▃▄▅▆▇█", False: "_.-=+*#@"}


@dataclass(frozen=True, slots=True)
class DataPlan:
    """The data.

    Attributes:
        rows, images: of training.
        decoded: images that were decoded; the rest were opened.
        compared: images that were compared with those of the reported sets.
        missing: a line for each image or row that cannot be read.
        validation: items that choose the weights; None if none do.
        metric: by which metric of theirs.
        duplicates: rows with the same caption or decoded picture, and texts that are cut; None if the model was not
            opened.
    """

    rows: int
    images: int
    decoded: int
    compared: int
    missing: tuple[str, ...]
    validation: int | None
    metric: str | None
    duplicates: Duplicates | None = None


@dataclass(frozen=True, slots=True)
class WeightGroup:
    """Weights of one part of the model that are treated alike.

    Attributes:
        part: the beginning of their names.
        parameters: how many numbers.
        rate: factor on the learning rate; None if they are frozen.
        decay: of the weights; None if they are frozen.
    """

    part: str
    parameters: int
    rate: float | None
    decay: float | None


@dataclass(frozen=True, slots=True)
class Schedule:
    """The steps.

    Attributes:
        steps: in all.
        epochs: passes over the rows.
        pairs: a step.
        parts: equal parts of a step, each with its similarity matrix.
        learning_rate, warm_up, decay: as configured.
        rates: shares of the highest rate, evenly spread over the steps.
        every: steps between two measurements.
        measurements: how many there are.
    """

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

    Attributes:
        steps: how many.
        seconds: of those that were timed, wall time.
        peak_bytes: the most memory of the process, or of the GPU.
        checkpoint_bytes: of one checkpoint.
        checkpoint_seconds: to write it.
        same: whether the checkpoint read again, and the step taken again after resuming, had the same weights.
        loss: the parts of the loss in the last step.
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
    """The cost of the run.

    Attributes:
        seconds: wall time, as if nothing else ran. The interval has steps as fast as the tenth and as slow as the
            ninetieth percentile of those taken, and a quarter more or less for each other part.
        parts: seconds of each part.
        disk_bytes: of the folder when the run is done.
        disk_peak_bytes: the most while it trains.
    """

    seconds: Span
    parts: dict[str, float]
    disk_bytes: int
    disk_peak_bytes: int


@dataclass(frozen=True, slots=True)
class DryRun:
    """The outcome of a dry run; parts that a problem kept from being tried are None.

    Attributes:
        name: of the run.
        out: its folder, which does not exist yet.
        problems: lines; training would fail, or not do as the configuration means.
        notes: lines worth reading.
        seconds: of the dry run.
        seeds: for how many seeds the forecast is.
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
            yield f"  {_draw_rates(schedule.rates)}"
            yield f"  {_mark_measurements(schedule)}"
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
            yield f"time{seeds}: {clock[0]} ({clock[1]} to {clock[2]}), of it {_join_parts(forecast.parts)}"
            yield (
                f"disk{seeds}: {decimal(forecast.disk_bytes)} in the end, {decimal(forecast.disk_peak_bytes)} at most"
            )
        yield from (f"note: {note}" for note in self.notes)
        yield from (f"problem: {problem}" for problem in self.problems)
        yield "no problem found" if self.passed else f"{len(self.problems)} to mend before this run"


def _draw_rates(rates: Sequence[float]) -> str:
    blocks = _BLOCKS[(sys.stdout.encoding or "ascii").lower().startswith("utf")]
    return "".join(blocks[min(7, int(8 * rate))] for rate in rates)


def _mark_measurements(schedule: Schedule) -> str:
    """Mark the columns of the picture in which a measurement falls."""
    width, steps = len(schedule.rates), schedule.steps
    marked = {min(width - 1, (step - 1) * width // steps) for step in range(schedule.every, steps, schedule.every)}
    marked.add(width - 1)
    return "".join("^" if column in marked else " " for column in range(width))


def _join_parts(parts: dict[str, float]) -> str:
    return ", ".join(f"{name} {timedelta(seconds=round(seconds))}" for name, seconds in parts.items() if seconds >= 0.5)
