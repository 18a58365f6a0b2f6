"""Benchmarks that several runs measured on the same items, read item by item; runs that differ in data are refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tellapart.data.scores import join_names
from tellapart.errors import RunError
from tellapart.evaluation.systems import System
from tellapart.metrics.registry import METRICS
from tellapart.records.result import IDS_ONLY, BenchmarkResult, Sample, is_imported
from tellapart.records.samples import read_samples
from tellapart.tasks.registry import headline


@dataclass(frozen=True, slots=True)
class SharedBenchmark:
    """A benchmark that several runs measured on the same items.

    Attributes:
        records: number of the run -> its record; those that measured it.
        clusters, tags: of each item.
        outcomes: metric of a first look -> float64 `(item, run)`, runs as in `records`; NaN if an item has no value
            by it.
    """

    name: str
    records: Mapping[int, BenchmarkResult]
    clusters: NDArray[np.str_]
    tags: Sequence[Mapping[str, str]]
    outcomes: Mapping[str, NDArray[np.float64]]

    @property
    def limited_from(self) -> int | None:
        """The benchmark's number of items, if the runs measured a part of them."""
        return next((record.limited_from for record in self.records.values() if record.limited_from is not None), None)

    def values(
        self, metric: str, runs: Sequence[int], items: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.str_]]:
        """Return the values `(item, run)` of items that have one in each of these runs, and the items' clusters."""
        columns = [list(self.records).index(run) for run in runs]
        values = self.outcomes[metric][:, columns]
        chosen = ~np.isnan(values).any(axis=1)
        if items is not None:
            chosen &= items
        return values[chosen], self.clusters[chosen]


def read_shared(runs: Sequence[System], matched: Mapping[str, Mapping[int, str]]) -> list[SharedBenchmark]:
    """Read every benchmark that at least two of the runs measured, item by item.

    Args:
        runs: all of them.
        matched: benchmark -> number of the run -> its name in that run.

    Raises:
        RunError: they share no benchmark, another tool measured one of them, or items or clusters differ.
    """
    shared = {name: held for name, held in matched.items() if len(held) > 1}
    if not shared:
        held = (f"{run.place} has {', '.join(run.result.benchmarks) or 'none'}" for run in runs)
        raise RunError(f"{' and '.join(run.place for run in runs)} share no benchmark: {'; '.join(held)}")
    return [_read_benchmark(name, runs, held) for name, held in shared.items()]


def _read_benchmark(name: str, runs: Sequence[System], held: Mapping[int, str]) -> SharedBenchmark:
    records = {number: runs[number].result.benchmarks[own] for number, own in held.items()}
    for one, other in combinations(records, 2):
        check_same(name, runs[one].folders[held[one]], records[one], runs[other].folders[held[other]], records[other])
    metrics = [*filter(is_testable, headline(set.intersection(*({*record.metrics} for record in records.values()))))]
    columns: list[list[Sample]] = []
    first: dict[tuple[str, str], Sample] = {}
    start = next(runs[number].folders[own] for number, own in held.items())
    for number, own in held.items():
        folder = runs[number].folders[own]
        samples = {(sample.unit, sample.id): sample for sample in read_samples(folder, own, records[number])}
        first = first or samples
        check_items(name, start, first, folder, samples)
        columns.append([samples[key] for key in first])
    return SharedBenchmark(
        name=name,
        records=records,
        clusters=np.array([sample.cluster for sample in first.values()]),
        tags=[sample.tags for sample in first.values()],
        outcomes=lay_out_outcomes(columns, metrics),
    )


def is_testable(metric: str) -> bool:
    """Return whether a metric of scores is right or wrong of one item; a task's metric is taken as it is.

    >>> is_testable("group_score"), is_testable("min_pc_pf"), is_testable("accuracy")
    (True, False, True)
    """
    return metric not in METRICS or (METRICS[metric].binary and not METRICS[metric].components)


def lay_out_outcomes(runs: Sequence[Sequence[Sample]], metrics: Sequence[str]) -> dict[str, NDArray[np.float64]]:
    """Lay out runs' values of the same items: metric -> float64 `(item, run)`, NaN if an item has no value.

    A metric of all the corpus (BLEU) has no value of any item, and is left out.

    >>> right = Sample(id="a", cluster="a", outcomes={"accuracy": 1.0})
    >>> lay_out_outcomes([[right], [right]], ["accuracy", "bleu_4"])
    {'accuracy': array([[1., 1.]])}
    """
    outcomes = {
        metric: np.column_stack(
            [np.fromiter((sample.outcomes.get(metric, np.nan) for sample in run), np.float64, len(run)) for run in runs]
        )
        for metric in metrics
    }
    return {metric: values for metric, values in outcomes.items() if not np.isnan(values).all()}


def check_same(name: str, first: Path, a: BenchmarkResult, second: Path, b: BenchmarkResult) -> None:
    """Check that two runs measured the same content.

    Raises:
        RunError: they did not, or another tool measured one of them.
    """
    for folder, record in ((first, a), (second, b)):
        refuse_imported(folder, {name: record})
    elsewhere = [run.fingerprint.startswith(IDS_ONLY) for run in (a, b)]
    if a.fingerprint != b.fingerprint and elsewhere[0] == elsewhere[1]:
        raise RunError(
            f"{name} is not the same in both runs: {first} measured content {a.fingerprint[:12]}, {second} "
            f"{b.fingerprint[:12]} (other items, captions, pixels or limit=); measure both on the same pairs"
        )


def refuse_imported(folder: Path | str, records: Mapping[str, BenchmarkResult]) -> None:
    """Refuse a run's records of benchmarks, by name, if another tool measured one of them.

    Raises:
        RunError: it names the run, and each such benchmark with its files.
    """
    theirs = [f"{name} ({name_source(one)})" for name, one in records.items() if is_imported(one)]
    if theirs:
        raise RunError(
            f"{folder} holds numbers that another tool measured, of {join_names(theirs)}: the outcomes of items are "
            "unknown, and its ties count otherwise; measure that model with `tellapart run`"
        )


def name_source(record: BenchmarkResult) -> str:
    """Return the name of the file that a record was imported from; of several files their number."""
    files = [name for name in record.origin.split(", ") if Path(name).suffix]
    return f"{len(files)} files" if len(files) > 1 else record.origin


_Samples = Mapping[tuple[str, str], Sample]


def check_items(benchmark: str, first: Path, a: _Samples, second: Path, b: _Samples) -> None:
    """Check that two runs hold samples of the same items in the same clusters.

    Raises:
        RunError: they do not.
    """
    if alone := sorted(id_ for _, id_ in a.keys() ^ b.keys()):
        raise RunError(
            f"{benchmark} is not the same in both: {first} and {second} hold samples of different items "
            f"({join_names(alone)} in one alone); measure both on the same pairs"
        )
    if moved := [sample.id for key, sample in a.items() if sample.cluster != b[key].cluster]:
        raise RunError(
            f"{benchmark}: items have other clusters in {first} than in {second}: {join_names(moved)}; measure both "
            "anew"
        )
