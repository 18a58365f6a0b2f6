"""A task's predictions, a model's own or made elsewhere, to a record: measured unit by unit, with intervals."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tellapart.benchmarks.task_benchmark import TaskBenchmark
from tellapart.data.progress import Progress
from tellapart.errors import MetricError
from tellapart.evaluation.evaluate import Evaluation, chosen, notes_on_cut_texts, texts_cut
from tellapart.evaluation.tabulate import tabulate
from tellapart.models.protocols import Model
from tellapart.models.store import EmbeddingStore
from tellapart.records.result import BenchmarkResult, Metrics, Sample
from tellapart.tasks.registry import find_task
from tellapart.tasks.task import Session, Task, Units

__all__ = ["PreparedTask", "evaluate_predictions", "evaluate_task", "plan_task", "prepare_task"]


@dataclass(frozen=True, slots=True)
class PreparedTask:
    """A task benchmark's records, ready for any number of models: loaded and limited.

    Attributes:
        benchmark: where they come from.
        task: what a model must put out for them.
        records: those that the limit keeps.
        fingerprint: SHA-256 over them, as they were read; pixels are not part of it.
        available: how many there were before the limit.

    >>> PreparedTask.__slots__
    ('benchmark', 'task', 'records', 'fingerprint', 'available')
    """

    benchmark: TaskBenchmark
    task: Task
    records: Any
    fingerprint: str
    available: int


def prepare_task(benchmark: TaskBenchmark, *, limit: str | None = None) -> PreparedTask:
    """Load a task benchmark's records.

    Raises:
        DataError: they are not there or not what their format says, or the task is unknown.
        RunError: the limit is no number or share of records.

    >>> from tellapart.benchmarks.benchmark import find_benchmark
    >>> prepare_task(find_benchmark("vlue-nlvr2"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    tellapart.errors.DataError: vlue-nlvr2 needs nlvr2_vlue_test.json, and no --data was given...
    """
    task = find_task(benchmark.task, benchmark.name)
    everything = benchmark.records()
    available = task.size(everything)
    records = everything if limit is None else task.select(everything, chosen(available, limit))
    return PreparedTask(benchmark, task, records, _fingerprint(task.content(records)), available)


def plan_task(model: Model, benchmark: TaskBenchmark) -> Callable[[Any, Any, Session], Any]:
    """Return what runs the model; refuse, before anything is computed, a task without files or that it cannot do.

    Raises:
        DataError: neither the user's folders nor the hub have the benchmark's files.
        MetricError: the model is of no kind that can put out what the task asks for.

    >>> from tellapart.benchmarks.benchmark import find_benchmark
    >>> from tellapart.models.reference import Constant
    >>> plan_task(Constant(), find_benchmark("vlue-nlvr2"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    tellapart.errors.MetricError: constant on vlue-nlvr2: the task asks for a label, of a model that answers in words...
    """
    task = find_task(benchmark.task, benchmark.name)
    run = task.runner(model)
    if run is None:
        raise MetricError(
            f"{model.name} on {benchmark.name}: the task asks for {_article(task.output)}, of {task.models}; for predictions "
            f"made elsewhere: tellapart export {benchmark.name} --to FILE, then tellapart score {benchmark.name} --scores FILE"
        )
    benchmark.expect()
    return run


def evaluate_task(
    model: Model,
    ready: PreparedTask,
    *,
    store: EmbeddingStore,
    batch_size: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Evaluation:
    """Run a model on a task's records, and measure what it puts out.

    Raises:
        TellapartError: an image cannot be read, the model's output is not what its protocol says, or the model is of
            no kind that can do the task.

    >>> evaluate_task.__name__
    'evaluate_task'
    """
    started = time.monotonic()
    run = plan_task(model, ready.benchmark)
    session = Session(
        pictures=ready.benchmark.read_image(), store=store, batch_size=batch_size or 32, progress=progress
    )
    cut_before = texts_cut(model)
    predictions = run(model, ready.records, session)
    found = evaluate_predictions(ready, predictions, origin=str(ready.benchmark.picture_root()), seed=seed)
    update = {
        "seconds": time.monotonic() - started,
        "notes": (*found.result.notes, *notes_on_cut_texts(texts_cut(model) - cut_before)),
    }
    return dataclasses.replace(found, result=found.result.model_copy(update=update))


def evaluate_predictions(ready: PreparedTask, predictions: Any, *, origin: str, seed: int = 0) -> Evaluation:
    """Measure predictions that were made elsewhere.

    Args:
        ready: the records.
        predictions: as the task's `read` returns them.
        origin: the file, for the record.
        seed: of the bootstrap.

    Raises:
        MetricError: there is nothing to measure.

    >>> from tellapart.data.task_records import Statement, StatementSet
    >>> from tellapart.benchmarks.benchmark import find_benchmark
    >>> records = StatementSet("nlvr2", (Statement("0", "Both show a dog.", "a.png", "b.png", True),))
    >>> ready = PreparedTask(find_benchmark("vlue-nlvr2"), find_task("nlvr2", ""), records, "0", 1)
    >>> evaluate_predictions(ready, [True], origin="doc").result.metrics["accuracy"].value
    1.0
    """
    started = time.monotonic()
    measured = ready.task.measure(ready.records, predictions)
    tables = [_tabulated(units, seed) for units in measured]
    by: dict[str, dict[str, dict[str, Any]]] = {}
    for table in tables:
        for tag, groups in table.by.items():
            for value, group in groups.items():
                by.setdefault(tag, {}).setdefault(value, {}).update(group.metrics)
    macro: dict[str, dict[str, Any]] = {}
    for table in tables:
        for tag, group in table.macro.items():
            macro.setdefault(tag, {}).update(group.metrics)
    tied = [one.ties for units in measured for one in units.found]
    kept = ready.task.size(ready.records)
    result = BenchmarkResult(
        title=ready.benchmark.title,
        fingerprint=ready.fingerprint,
        task=ready.task.name,
        output=ready.task.output,
        metrics={name: value for table in tables for name, value in table.metrics.items()},
        by={tag: {value: Metrics(metrics=found) for value, found in groups.items()} for tag, groups in by.items()},
        macro={tag: Metrics(metrics=found) for tag, found in macro.items()},
        tied_items=max((int(each.sum()) for each in tied), default=0),
        seconds=time.monotonic() - started,
        limited_from=ready.available if kept < ready.available else None,
        origin=origin,
        notes=(*_unlike_published(ready), *ready.task.notes(ready.records, predictions)),
    )
    return Evaluation(result, tuple(sample for units in measured for sample in _samples(units)))


def _unlike_published(ready: PreparedTask) -> tuple[str, ...]:
    """Say so where the user's file is not as long as the published one: its numbers are not the benchmark's."""
    if ready.available == ready.benchmark.items:
        return ()
    return (
        f"these files hold {ready.available:,} records; {ready.benchmark.name} as published holds "
        f"{ready.benchmark.items:,}: the numbers do not compare with published ones",
    )


def _tabulated(units: Units, seed: int) -> Any:
    return tabulate(units.found, [unit.cluster for unit in units.units], [unit.tags for unit in units.units], seed=seed)


def _samples(units: Units) -> Sequence[Sample]:
    plain = [one for one in units.found if one.reduce is None]
    columns = {one.name: one.strict.tolist() for one in plain}
    tied = {one.name: one.ties.tolist() for one in units.found}
    return [
        Sample(
            id=unit.id,
            unit=units.noun,
            cluster=unit.cluster,
            tags=dict(unit.tags),
            images=unit.images,
            texts=unit.texts,
            output=unit.output,
            gold=unit.gold,
            outcomes={name: column[row] for name, column in columns.items()},
            tied=tuple(name for name, column in tied.items() if column[row]),
        )
        for row, unit in enumerate(units.units)
    ]


def _fingerprint(content: Any) -> str:
    return f"records-{hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()}"


def _article(output: str) -> str:
    return output if output == "scores" else f"a {output}"
