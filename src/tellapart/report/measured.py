"""Read several runs for a figure or a table: those of one benchmark, their metrics and their outcomes of items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tellapart.errors import RunError, plain
from tellapart.evaluation import systems
from tellapart.evaluation.systems import SharedBenchmark, System, read_benchmark
from tellapart.records.result import IDS_ONLY, IMPORTED, BenchmarkResult, Sample, Value, is_imported
from tellapart.records.samples import read_samples
from tellapart.report.benchmark_runs import shared_headline
from tellapart.report.numbers import items_text
from tellapart.tasks.registry import is_higher_better, main_metric


def gather(folders: Sequence[Path], labels: Mapping[str, str] | None = None) -> list[System]:
    """Read runs as `evaluation.systems.gather` does, with labels that are safe to print."""
    return [replace(system, label=plain(system.label)) for system in systems.gather(folders, labels)]


def mark_imported(runs: Sequence[System], benchmarks: Sequence[str] = ()) -> list[System]:
    """Mark the label of each system that another tool measured; if on some of these benchmarks only, by their names."""
    from tellapart.benchmarks.find import set_name  # with every reader of a set

    names, marked = {*map(set_name, benchmarks)}, []
    for run in runs:
        records = {name: record for name, record in run.result.benchmarks.items() if name in names or not names}
        imported = [title_of_set([run], name) for name, record in records.items() if is_imported(record)]
        some = "" if len(imported) == len(records) else f": {', '.join(imported)}"
        marked.append(replace(run, label=f"{run.label} (imported{some})") if imported else run)
    return marked


def title_of_set(runs: Sequence[System], benchmark: str) -> str:
    """Return a benchmark's heading for a paper: the user's label, or its name without prefix and underscores."""
    label = next((run.titles[benchmark] for run in runs if benchmark in run.titles), None)
    prefix, _, name = benchmark.rpartition(":")
    return plain(label or (name.replace("_", " ") if prefix and "CLIP_benchmark" not in prefix else benchmark))


def title_of(runs: Sequence[System], benchmark: str) -> str:
    """Return a picture's title: the benchmark, its items, the kind of intervals."""
    record = runs[0].record(benchmark)
    levels = {value.level for value in record.metrics.values() if value.low is not None}
    parts = [title_of_set(runs, benchmark), items_text(record), *(f"{level:.0%} intervals" for level in sorted(levels))]
    return ", ".join(filter(None, parts))


def pick_benchmark(runs: Sequence[System], name: str | None) -> tuple[str, list[System]]:
    """Return a benchmark's name and the runs that measured it, all on the same items."""
    from tellapart.benchmarks.find import set_name

    names = list(dict.fromkeys(benchmark for run in runs for benchmark in run.result.benchmarks))
    if name is None and len(names) > 1:
        raise RunError(f"these runs measured {', '.join(names)}; choose one with benchmarks= (of bars several)")
    picked = set_name(name) if name else next(iter(names), None)
    measured = [run for run in runs if picked in run.result.benchmarks]
    if picked is None or not measured:
        raise RunError(f"no run measured {picked or 'anything'!r}; they hold {', '.join(names) or 'nothing'}")
    # Of numbers made elsewhere the content is unknown: they are compared with any.
    contents = {run.record(picked).fingerprint: run for run in measured}
    contents = {content: run for content, run in contents.items() if not content.startswith((IDS_ONLY, IMPORTED))}
    if len(contents) > 1:
        listed = (f"{run.folders[picked]} has {items_text(run.record(picked))}, content {fingerprint[:8]}"
                  for fingerprint, run in contents.items())  # fmt: skip
        limited = ", without limit=" if any(run.record(picked).limited_from for run in contents.values()) else ""
        raise RunError(f"{picked} is not the same in these runs ({'; '.join(listed)}); measure the same pairs{limited}")
    return picked, measured


def sort_runs(runs: Sequence[System], benchmark: str | None, metric: str) -> list[System]:
    """Order models by a metric of one benchmark, the best first; those that did not measure it are last."""
    name, measured = pick_benchmark(runs, benchmark)
    sign = 1 if is_higher_better(metric) is False else -1
    measured.sort(key=lambda run: sign * value_of(run, name, metric).value)
    return [*measured, *(run for run in runs if name not in run.result.benchmarks)]


def first_metrics(records: Sequence[BenchmarkResult]) -> tuple[str, ...]:
    """Return the headline metrics that all the records have; if there are none, all metrics that they share."""
    shared = shared_headline(records)
    if not shared:
        raise RunError("these runs share no metric")
    return shared


def ranking_metrics(measured: Mapping[str, Sequence[System]], asked: Sequence[str] = ()) -> dict[str, str]:
    """Return the metric by which models are ranked on each benchmark, as in a first look and in a report."""
    metrics = {}
    for benchmark, runs in measured.items():
        records = [run.record(benchmark) for run in runs]
        shared = [name for name in asked if all(name in record.metrics for record in records)]
        if len(shared) > 1:
            raise RunError(f"{benchmark} has {' and '.join(shared)}, and is shown by one metric; leave the others out")
        metrics[benchmark] = (*shared, *asked)[0] if asked else main_metric(first_metrics(records))
    if unused := [name for name in asked if name not in metrics.values()]:
        raise RunError(f"no model has {', '.join(unused)} of {' or '.join(measured)}; leave it out")
    return metrics


def value_of(run: System, benchmark: str, metric: str) -> Value:
    """Return one number of a run."""
    metrics = run.record(benchmark).metrics
    if metric not in metrics:
        held = ", ".join(metrics) or "no metric"
        raise RunError(f"{run.folders[benchmark]} has no {metric!r} of {benchmark}; it has {held}")
    return metrics[metric]


def samples_of(run: System, benchmark: str) -> list[Sample]:
    """Read the items of a run with their outcomes; numbers of another tool have none."""
    systems.refuse_imported(run.folders[benchmark], {benchmark: run.record(benchmark)})
    return read_samples(run.folders[benchmark], benchmark, run.record(benchmark))


def outcomes_of(runs: Sequence[System], benchmark: str, metrics: Sequence[str]) -> SharedBenchmark:
    """Read metrics' values of the items of a benchmark, for models on the same items."""
    if not runs:
        raise RunError("no run was named; name one or more run folders")
    return read_benchmark(benchmark, runs, dict.fromkeys(range(len(runs)), benchmark), metrics)
