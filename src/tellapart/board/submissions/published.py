"""Leaderboards: one row a model, with rounded numbers; private numbers and their effect only after closing.

An interval of hidden numbers is that of independent items (Clopper and Pearson's of 40 or fewer, else Wilson's) around
the rounded number, with each cluster as one trial (fewer where their sizes differ): it is computed from published
numbers and sizes, and gives nothing more away. (A bootstrap interval would be another number computed from the labels.)
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from tellapart.board.entries import HIDDEN, HIDDEN_NUMBERS
from tellapart.board.submissions.measuring import Split
from tellapart.board.submissions.prepared import Prepared
from tellapart.board.submissions.rounding import in_points
from tellapart.errors import StoreError, first_line
from tellapart.records.result import BenchmarkResult, Metrics, ModelRecord, Result, RunRecord, Value
from tellapart.records.run_folder import write_result
from tellapart.stats.bounds import independent_bounds
from tellapart.stats.intervals import independent_interval
from tellapart.tasks.registry import METRICS, TASKS


@dataclass(frozen=True, slots=True)
class MeasuredSubmission:
    """A measured file, sent at so many seconds since 1970 and read from a field, which is empty if not recorded.

    `private` is None while the benchmark is open.
    """

    id: str
    user: str
    model: str
    at: float
    public: Split
    private: Split | None
    field: str = ""

    @property
    def splits(self) -> dict[str, Split]:
        """The published splits by name."""
        return {"public": self.public, **({"private": self.private} if self.private else {})}


_SPLIT = TypeAdapter(Split)


@dataclass(frozen=True, slots=True)
class Standing:
    """A model's row.

    Attributes:
        best: the model's file with the best public number; the earliest of several.
        rank: by the public number, 1 for the best; equal numbers share one.
        private_rank: by the private number; None while the benchmark is open.
    """

    best: MeasuredSubmission
    rank: int
    private_rank: int | None

    @property
    def change(self) -> int | None:
        """Places gained (or, below 0, lost) by the private split; None while the benchmark is open."""
        return None if self.private_rank is None else self.rank - self.private_rank


def standings(measured: Sequence[MeasuredSubmission], metric: str) -> list[Standing]:
    """Rank the models of one benchmark by a metric of their best public file; once published, private numbers decide.

    >>> low, high = (Split(2, 2, 0, {"accuracy": value}) for value in (0.1, 0.5))
    >>> rows = [MeasuredSubmission("0", "ann", "a", 0, low, None), MeasuredSubmission("1", "ann", "b", 1, high, None)]
    >>> [(row.best.model, row.rank, row.change) for row in standings(rows, "accuracy")]
    [('b', 1, None), ('a', 2, None)]
    """
    best: dict[tuple[str, str], MeasuredSubmission] = {}
    for one in sorted(measured, key=lambda one: one.at):
        other = best.get((one.user, one.model))
        if other is None or one.public.values[metric] > other.public.values[metric]:
            best[one.user, one.model] = one
    leaders = list(best.values())
    ranks = _rank_values([one.public.values[metric] for one in leaders])
    private = [one.private.values[metric] for one in leaders if one.private]
    private_ranks = _rank_values(private) if len(private) == len(leaders) else [None] * len(leaders)
    rows = [Standing(one, rank, after) for one, rank, after in zip(leaders, ranks, private_ranks, strict=True)]
    return sorted(rows, key=lambda row: (row.private_rank or row.rank, row.rank, row.best.at))


def _rank_values(values: Sequence[float]) -> list[int]:
    return [1 + sum(other > value for other in values) for value in values]


def read_measured(row: sqlite3.Row, *, private: bool) -> MeasuredSubmission:
    """Read a row of the database."""
    try:
        datetime.fromtimestamp(row["created"], UTC)
        return MeasuredSubmission(
            id=row["id"],
            user=row["user"],
            model=row["model"],
            at=row["created"],
            public=_SPLIT.validate_json(row["public"]),
            private=_SPLIT.validate_json(row["private"]) if private else None,
            field=row["field"],
        )
    except (ArithmeticError, OSError, TypeError, ValueError) as error:
        raise StoreError(
            f"the database of submissions is damaged: submission {row['id']} holds what no board writes "
            f"({first_line(error)}); restore the state from a backup"
        ) from error


def values_of(split: Split, shape: tuple[int, int] | None) -> dict[str, Value]:
    """Return a split's numbers as records have them; `shape` is None for a task's records.

    >>> value = values_of(Split(200, 100, 0, {"group_score": 0.5}), (2, 2))["group_score"]
    >>> value.n, value.clusters, round(value.low, 2), round(value.chance, 3)
    (200, 100, 0.4, 0.167)
    """
    values = {}
    for name, value in split.values.items():
        items, clusters = split.units.get(name, (split.items, split.clusters))
        effective = split.worth.get(name, clusters)
        interval = independent_interval(value * effective, effective)
        values[name] = Value(
            value=value,
            low=interval.low,
            high=interval.high,
            method=f"{interval.method} on clusters, around the rounded number",
            n=items,
            clusters=clusters,
            ties=split.ties,
            chance=METRICS[name].chance(shape),
            average="micro: items",
        )
    return values


def hidden_bounds(
    value: float | NDArray[np.float64], worth: float | NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return 95 % bounds around rounded shares, for so many trials: clusters, or what uneven ones are worth.

    >>> low, high = hidden_bounds(0.5, 100)
    >>> round(float(low), 2), round(float(high), 2)
    (0.4, 0.6)
    """
    return independent_bounds(np.multiply(value, worth), worth, 0.95)


def as_row(standing: Standing, shape: tuple[int, int] | None) -> dict[str, Any]:
    """Return a model's row as the leaderboard shows it: the published part, and nothing of an item."""
    best = standing.best
    splits = {
        split: {metric: value.model_dump() for metric, value in values_of(numbers, shape).items()}
        for split, numbers in best.splits.items()
    }
    places = {"rank": standing.rank, "private_rank": standing.private_rank, "change": standing.change}
    return {"model": best.model, "user": best.user, **places, **splits}


def as_result(standing: Standing, prepared: Prepared) -> Result:
    """Return a model's row as a record without samples, which a board shows like any other."""
    best, settings = standing.best, prepared.benchmark
    numbers = {name: values_of(split, prepared.shape) for name, split in best.splits.items()}
    split = "private" if best.private else "public"
    count = f"{best.splits[split].items:,} {split} of {prepared.items:,}"
    benchmark = BenchmarkResult(
        title=settings.title or settings.name,
        fingerprint=f"{HIDDEN}{prepared.fingerprint}",
        task=prepared.task,
        output=TASKS[prepared.task].output,
        shape=prepared.shape,
        metrics=numbers[split],
        by={"split": {name: Metrics(metrics=values) for name, values in numbers.items()}},
        field=best.field,
        tied_items=best.splits[split].ties,
        origin=f"submission {best.id} by {best.user}",
        notes=(f"labels are hidden; {HIDDEN_NUMBERS}{count} items, rounded to {in_points(settings.step)}",),
    )
    return Result(
        run=RunRecord(started=datetime.fromtimestamp(best.at, UTC).isoformat(), seed=0, command="", versions={}),
        model=ModelRecord(name=best.model, fingerprint=f"submission-{best.id}"),
        benchmarks={settings.name: benchmark},
    )


def write_results(folder: Path, results: Sequence[Result]) -> None:
    """Write a benchmark's records as run folders without samples, and delete all others in the folder."""
    names = {result.model.fingerprint for result in results}
    for result in results:
        write_result(folder / result.model.fingerprint, result)
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.name not in names:
            shutil.rmtree(path, ignore_errors=True)
