"""What is told of measured files: one row a model, rounded; private numbers and what they change only after closing.

An interval of hidden numbers is Wilson's around the rounded one, over clusters as if each were one trial: it is made of
what is told already, and tells nothing more. (An interval by bootstrap would be another number made of the labels.)
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tellapart.board.entries import HIDDEN
from tellapart.board.submissions.measuring import Split
from tellapart.board.submissions.prepared import Prepared
from tellapart.metrics.registry import METRICS
from tellapart.records.result import BenchmarkResult, Metrics, ModelRecord, Result, RunRecord, Value
from tellapart.records.run_folder import write_result
from tellapart.stats.intervals import wilson
from tellapart.tasks.registry import TASK_METRICS, TASKS

__all__ = ["Measured", "Standing", "as_result", "standings", "values_of", "write_results"]


@dataclass(frozen=True, slots=True)
class Measured:
    """A file that was measured.

    Attributes:
        id: the submission's.
        at: when it was sent, seconds since 1970.
        private: None while the benchmark is open.

    >>> Measured("5f", "ann", "clip", 0.0, Split(2, 2, 0, {"group_score": 0.5}), None).model
    'clip'
    """

    id: str
    user: str
    model: str
    at: float
    public: Split
    private: Split | None


@dataclass(frozen=True, slots=True)
class Standing:
    """A model's row.

    Attributes:
        best: of the model's files the one with the best public number; the earliest of several.
        rank: by the public number, 1 for the best; equal numbers share one.
        private_rank: by the private number; None while the benchmark is open.

    >>> Standing.__slots__
    ('best', 'rank', 'private_rank')
    """

    best: Measured
    rank: int
    private_rank: int | None

    @property
    def change(self) -> int | None:
        """Places gained (or, below 0, lost) by the private split; None while the benchmark is open."""
        return None if self.private_rank is None else self.rank - self.private_rank


def standings(measured: Sequence[Measured], metric: str) -> list[Standing]:
    """Rank models, by their best public file; sorted by the private numbers once these are told.

    Args:
        measured: files of one benchmark.
        metric: by whose number they are ranked.

    >>> rows = [Measured(str(k), "ann", m, k, Split(2, 2, 0, {"g": v}), None) for k, (m, v) in enumerate([("a", 0.1), ("b", 0.5)])]
    >>> [(row.best.model, row.rank, row.change) for row in standings(rows, "g")]
    [('b', 1, None), ('a', 2, None)]
    """
    best: dict[tuple[str, str], Measured] = {}
    for one in sorted(measured, key=lambda one: one.at):
        held = best.get((one.user, one.model))
        if held is None or one.public.values[metric] > held.public.values[metric]:
            best[one.user, one.model] = one
    chosen = list(best.values())
    ranks = _ranks([one.public.values[metric] for one in chosen])
    private = [one.private.values[metric] for one in chosen if one.private]
    told = _ranks(private) if len(private) == len(chosen) else [None] * len(chosen)
    rows = [Standing(one, rank, after) for one, rank, after in zip(chosen, ranks, told, strict=True)]
    return sorted(rows, key=lambda row: (row.private_rank or row.rank, row.rank, row.best.at))


def _ranks(values: Sequence[float]) -> list[int]:
    return [1 + sum(other > value for other in values) for value in values]


def values_of(split: Split, shape: tuple[int, int] | None) -> dict[str, Value]:
    """Return a split's numbers as records have them.

    Args:
        split: what a file got.
        shape: images and texts of an item; None for a task's records.

    >>> value = values_of(Split(200, 100, 0, {"group_score": 0.5}), (2, 2))["group_score"]
    >>> value.n, value.clusters, round(value.low, 2), round(value.chance, 3)
    (200, 100, 0.4, 0.167)
    """
    found = {}
    for name, value in split.values.items():
        items, clusters = split.units.get(name, (split.items, split.clusters))
        interval = wilson(round(value * clusters), clusters)
        chance = TASK_METRICS[name].chance if shape is None or name in TASK_METRICS else METRICS[name].chance(shape)
        found[name] = Value(
            value=value,
            low=interval.low,
            high=interval.high,
            level=interval.level,
            method="wilson on clusters, around the rounded number",
            n=items,
            clusters=clusters,
            ties=split.ties,
            chance=chance,
            average="micro: items",
        )
    return found


def as_result(standing: Standing, prepared: Prepared) -> Result:
    """Return a model's row as a record, which a board shows like any other; it has no samples.

    >>> as_result.__name__
    'as_result'
    """
    best = standing.best
    splits: Mapping[str, Split] = {"public": best.public, **({"private": best.private} if best.private else {})}
    numbers = {name: values_of(split, prepared.shape) for name, split in splits.items()}
    declared = prepared.benchmark
    benchmark = BenchmarkResult(
        title=declared.title or declared.name,
        fingerprint=f"{HIDDEN}{prepared.fingerprint}",
        task=prepared.task,
        output=TASKS[prepared.task].output if prepared.task in TASKS else "scores",
        shape=prepared.shape,
        metrics=numbers["private" if best.private else "public"],
        by={"split": {name: Metrics(metrics=values) for name, values in numbers.items()}},
        tied_items=(best.private or best.public).ties,
        origin=f"submission {best.id} by {best.user}",
        notes=(f"labels are hidden; numbers are rounded to {declared.step}",),
    )
    sent = datetime.fromtimestamp(best.at, UTC).isoformat()
    return Result(
        run=RunRecord(started=sent, seed=0, command="", versions={}),
        model=ModelRecord(name=best.model, fingerprint=f"submission-{best.id}"),
        benchmarks={declared.name: benchmark},
    )


def write_results(folder: Path, results: Sequence[Result]) -> None:
    """Write records as run folders without samples, and delete those of models that have a better file since.

    Args:
        folder: of one benchmark; holds nothing else.
        results: of all its models.

    Raises:
        RunError: they cannot be written.

    >>> write_results(Path("never made"), [])
    """
    wanted = {result.model.fingerprint: result for result in results}
    for name, result in wanted.items():
        write_result(folder / name, result)
    for place in folder.iterdir() if folder.is_dir() else ():
        if place.name not in wanted:
            shutil.rmtree(place, ignore_errors=True)
