"""Runs gathered for a picture or a table: which models measured a benchmark, on the same items, by which metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tellapart.errors import RunError
from tellapart.records.result import IDS_ONLY, BenchmarkResult, Result, Sample, Value
from tellapart.records.run_folder import find_runs, read_result, read_samples
from tellapart.report.numbers import is_deviation, plain
from tellapart.report.origin import is_imported
from tellapart.report.sections import ReportRun, labels
from tellapart.tasks.registry import headline

__all__ = ["Measured", "Outcomes", "first_metrics", "gather", "outcomes_of", "pick_benchmark", "samples_of", "value_of"]


@dataclass(frozen=True, slots=True)
class Measured:
    """One model's record of one run.

    Attributes:
        label: the model's name, numbered where several runs have the same.
        folder: the run's.

    >>> Measured.__slots__
    ('label', 'folder', 'result')
    """

    label: str
    folder: Path
    result: Result

    def record(self, benchmark: str) -> BenchmarkResult:
        """Return what it measured on a benchmark.

        Raises:
            RunError: it did not measure that.
        """
        if benchmark not in self.result.benchmarks:
            known = ", ".join(self.result.benchmarks) or "nothing"
            raise RunError(f"{self.folder} did not measure {benchmark!r}; it holds {known}")
        return self.result.benchmarks[benchmark]

    def name_on(self, benchmark: str) -> str:
        """Return its label, marked where another tool measured it on that benchmark.

        Raises:
            RunError: it did not measure that.
        """
        return f"{self.label} (imported)" if is_imported(self.record(benchmark)) else self.label


def gather(folders: Sequence[Path]) -> list[Measured]:
    """Read runs, and the models beside each, in the order named.

    Raises:
        RunError: none is named, or a folder is no run.

    >>> gather([])
    Traceback (most recent call last):
    tellapart.errors.RunError: no run was named; name one or more run folders
    """
    if not folders:
        raise RunError("no run was named; name one or more run folders")
    # A run named twice, or beside one that is also named, is one run.
    found = {run.resolve(): run for folder in folders for run in find_runs(folder)}
    results = [read_result(run) for run in found.values()]
    names = labels([ReportRun(result, {}) for result in results])
    return [
        Measured(plain(name), run, result) for name, run, result in zip(names, found.values(), results, strict=True)
    ]


def pick_benchmark(runs: Sequence[Measured], name: str | None) -> tuple[str, list[Measured]]:
    """Return a benchmark and the runs that measured it, all on the same items; the one there is, if none is named.

    Raises:
        RunError: no run has it, several could be meant, or the runs' items differ.

    >>> pick_benchmark([], "demo")
    Traceback (most recent call last):
    tellapart.errors.RunError: no run measured 'demo'; they hold nothing
    """
    known = list(dict.fromkeys(each for run in runs for each in run.result.benchmarks))
    if name is None and len(known) > 1:
        raise RunError(f"these runs measured {', '.join(known)}; choose one with --benchmark")
    chosen = name or next(iter(known), None)
    own = [run for run in runs if chosen in run.result.benchmarks]
    if chosen is None or not own:
        raise RunError(f"no run measured {chosen or 'anything'!r}; they hold {', '.join(known) or 'nothing'}")
    contents = {run.record(chosen).fingerprint: run for run in own if not _unseen(run.record(chosen))}
    if len(contents) > 1:
        places = " and ".join(str(run.folder) for run in contents.values())
        raise RunError(
            f"{chosen} is not the same in {places} (other items, captions, pixels or --limit); measure the same pairs"
        )
    return chosen, own


def _unseen(record: BenchmarkResult) -> bool:
    """Nothing is known of the captions and pixels behind scores or numbers made elsewhere."""
    return record.fingerprint.startswith(IDS_ONLY) or is_imported(record)


def first_metrics(records: Sequence[BenchmarkResult]) -> tuple[str, ...]:
    """Return the metrics of a first look that all the records have; failing that, all that they share.

    Raises:
        RunError: they share none.

    >>> first_metrics([])
    Traceback (most recent call last):
    tellapart.errors.RunError: these runs share no metric
    """
    named = [[name for name, one in record.metrics.items() if not is_deviation(one)] for record in records]
    shared = [name for name in (named[0] if named else ()) if all(name in others for others in named)]
    if not shared:
        raise RunError("these runs share no metric")
    return headline(shared) or tuple(shared)


def value_of(run: Measured, benchmark: str, metric: str) -> Value:
    """Return one number of a run.

    Raises:
        RunError: the run has no such metric of that benchmark.

    >>> value_of.__name__
    'value_of'
    """
    metrics = run.record(benchmark).metrics
    if metric not in metrics:
        raise RunError(f"{run.folder} has no {metric!r} of {benchmark}; it has {', '.join(metrics) or 'no metric'}")
    return metrics[metric]


def samples_of(run: Measured, benchmark: str) -> list[Sample]:
    """Read a run's items.

    Raises:
        RunError: another tool measured it, or the files are not there.

    >>> samples_of.__name__
    'samples_of'
    """
    if is_imported(run.record(benchmark)):
        raise RunError(
            f"{run.folder} holds numbers of {benchmark} that another tool measured, without outcomes of items; "
            "measure the model with `tellapart run`, or leave that run out"
        )
    return read_samples(run.folder, benchmark)


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What several models made of the same items.

    Attributes:
        of: label -> float64 `(item,)`, the items in one order.
        clusters: one an item.
        tags: of each item.

    >>> Outcomes({}, [], []).of
    {}
    """

    of: dict[str, NDArray[np.float64]]
    clusters: list[str]
    tags: list[Mapping[str, str]]


def outcomes_of(runs: Sequence[Measured], benchmark: str, metric: str) -> Outcomes:
    """Read one metric's value of every item, for models on the same items.

    Raises:
        RunError: another tool measured one of them, the items differ, or the metric has no value of an item.

    >>> outcomes_of([], "demo", "group_score")
    Traceback (most recent call last):
    tellapart.errors.RunError: no run was named; name one or more run folders
    """
    if not runs:
        raise RunError("no run was named; name one or more run folders")
    read = {run.label: samples_of(run, benchmark) for run in runs}
    first = [(one.unit, one.id) for one in read[runs[0].label] if metric in one.outcomes]
    if not first:
        raise RunError(f"{benchmark}: {metric} has no value of an item, so that models cannot be tested on it")
    columns: dict[str, NDArray[np.float64]] = {}
    kept: list[Sample] = []
    for run in runs:
        by_id = {(one.unit, one.id): one for one in read[run.label] if metric in one.outcomes}
        if by_id.keys() != set(first):
            raise RunError(f"{benchmark}: {run.folder} holds other items than {runs[0].folder}; measure the same pairs")
        ordered = [by_id[key] for key in first]
        columns[run.label] = np.array([one.outcomes[metric] for one in ordered])
        kept = kept or ordered
    return Outcomes(columns, [one.cluster for one in kept], [one.tags for one in kept])
