"""Runs read for a picture or a table: models on one benchmark, their metrics, and outcomes of the same items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tellapart.benchmarks.find import set_name
from tellapart.errors import RunError
from tellapart.records import systems
from tellapart.records.result import IDS_ONLY, BenchmarkResult, Sample, Value
from tellapart.records.run_folder import read_samples
from tellapart.records.systems import System
from tellapart.report.numbers import is_imported, items_text, plain
from tellapart.report.sections import shared_headline

__all__ = [
    "Outcomes",
    "first_metrics",
    "gather",
    "name_on",
    "outcomes_of",
    "pick_benchmark",
    "samples_of",
    "sort_runs",
    "value_of",
]


def gather(folders: Sequence[Path], labels: Mapping[str, str] | None = None) -> list[System]:
    """Read runs as `records.systems.gather` does, with labels that are safe to print.

    Raises:
        RunError: none is named, a folder is not a run, or no model has the name of a label.
    """
    return [replace(system, label=plain(system.label)) for system in systems.gather(folders, labels)]


def name_on(run: System, benchmark: str) -> str:
    """Return a system's label, marked if another tool measured it on that benchmark.

    Raises:
        RunError: it did not measure that.
    """
    return f"{run.label} (imported)" if is_imported(run.record(benchmark)) else run.label


def pick_benchmark(runs: Sequence[System], name: str | None) -> tuple[str, list[System]]:
    """Return a benchmark and the runs that measured it, all on the same items; the one there is, if none is named.

    Raises:
        RunError: no run has it, several could be meant, or the runs' items differ.
    """
    known = list(dict.fromkeys(each for run in runs for each in run.result.benchmarks))
    if name is None and len(known) > 1:
        raise RunError(f"these runs measured {', '.join(known)}; choose one with benchmarks=")
    chosen = set_name(name) if name else next(iter(known), None)
    own = [run for run in runs if chosen in run.result.benchmarks]
    if chosen is None or not own:
        raise RunError(f"no run measured {chosen or 'anything'!r}; they hold {', '.join(known) or 'nothing'}")
    contents = {run.record(chosen).fingerprint: run for run in own if not _has_unknown_items(run.record(chosen))}
    if len(contents) > 1:
        what = "; ".join(
            f"{run.folders[chosen]} has {items_text(run.record(chosen))}, content {fingerprint[:8]}"
            for fingerprint, run in contents.items()
        )
        limited = ", without limit=" if any(run.record(chosen).limited_from for run in contents.values()) else ""
        raise RunError(f"{chosen} is not the same in these runs ({what}); measure the same pairs{limited}")
    return chosen, own


def sort_runs(runs: Sequence[System], benchmark: str | None, metric: str) -> list[System]:
    """Order models by a metric of one benchmark, the highest first; those that did not measure it are last.

    Raises:
        RunError: as `pick_benchmark`, or one of them has no such metric.
    """
    chosen, own = pick_benchmark(runs, benchmark)
    own.sort(key=lambda run: -value_of(run, chosen, metric).value)
    return [*own, *(run for run in runs if chosen not in run.result.benchmarks)]


def _has_unknown_items(record: BenchmarkResult) -> bool:
    """Return whether the captions and pixels behind the numbers are unknown: they were made elsewhere."""
    return record.fingerprint.startswith(IDS_ONLY) or is_imported(record)


def first_metrics(records: Sequence[BenchmarkResult]) -> tuple[str, ...]:
    """Return the metrics of a first look that all the records have; failing that, all that they share.

    Raises:
        RunError: they share none.
    """
    shared = shared_headline(records)
    if not shared:
        raise RunError("these runs share no metric")
    return shared


def value_of(run: System, benchmark: str, metric: str) -> Value:
    """Return one number of a run.

    Raises:
        RunError: the run has no such metric of that benchmark.
    """
    metrics = run.record(benchmark).metrics
    if metric not in metrics:
        raise RunError(
            f"{run.folders[benchmark]} has no {metric!r} of {benchmark}; it has {', '.join(metrics) or 'no metric'}"
        )
    return metrics[metric]


def samples_of(run: System, benchmark: str) -> list[Sample]:
    """Read a run's items.

    Raises:
        RunError: another tool measured it, or the files are not there.
    """
    if is_imported(run.record(benchmark)):
        raise RunError(
            f"{run.folders[benchmark]} holds numbers of {benchmark} that another tool measured, without outcomes of "
            "items; measure the model with `tellapart run`, or leave that run out"
        )
    return read_samples(run.folders[benchmark], benchmark, run.record(benchmark))


@dataclass(frozen=True, slots=True)
class Outcomes:
    """One metric's values of the same items, for several models.

    Attributes:
        of: label -> float64 `(item,)`, the items in one order.
        clusters: one an item.
        tags: of each item.
    """

    of: dict[str, NDArray[np.float64]]
    clusters: list[str]
    tags: list[Mapping[str, str]]


def outcomes_of(runs: Sequence[System], benchmark: str, metric: str) -> Outcomes:
    """Read one metric's value of every item, for models on the same items.

    Raises:
        RunError: another tool measured one of them, the items differ, or the metric has no value of an item.
    """
    if not runs:
        raise RunError("no run was named; name one or more run folders")
    samples = {run.label: samples_of(run, benchmark) for run in runs}
    rows = {label: {(one.unit, one.id): one for one in own if metric in one.outcomes} for label, own in samples.items()}
    first = rows[runs[0].label]
    if not first:
        raise RunError(f"{benchmark}: {metric} has no value of an item, so that models cannot be tested on it")
    for run in runs:
        if rows[run.label].keys() != first.keys():
            other, one = run.folders[benchmark], runs[0].folders[benchmark]
            raise RunError(f"{benchmark}: {other} holds other items than {one}; measure the same pairs")
    columns = {label: np.array([own[key].outcomes[metric] for key in first]) for label, own in rows.items()}
    return Outcomes(columns, [one.cluster for one in first.values()], [one.tags for one in first.values()])
