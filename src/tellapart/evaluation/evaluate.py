"""Evaluation of a model, or of predictions made elsewhere, on a benchmark: check that it is defined, run, measure.

Scores of pairs come to numbers without a model or an image: a run folder's samples can be measured again at any time.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from typing import Any, Generic

import numpy as np

from tellapart.benchmarks.benchmark import Benchmark, Records
from tellapart.benchmarks.find import declared_benchmark
from tellapart.benchmarks.locations import Locations
from tellapart.catalog import REFERENCES
from tellapart.data.answer_text import PREDICTION, Reading, watch_reading
from tellapart.data.pairset import Outline, PairSet
from tellapart.data.progress import Progress
from tellapart.data.rows import read_jsonl
from tellapart.data.scores import ScoreKind, Scores, join_names, note_spread
from tellapart.data.strict_json import collector_paused, decode_text, read_whole
from tellapart.data.video import DEFAULT_FRAMES
from tellapart.errors import DataError, MetricError, RunError, ScoreError, quote
from tellapart.metrics.equivariance import histogram
from tellapart.metrics.per_item import PerItem
from tellapart.metrics.tabulate import Tabulated, tabulate
from tellapart.models.find import Deferred
from tellapart.models.memory.adapter import is_stored
from tellapart.models.protocols import Model, NoteTaker
from tellapart.models.scoring.score import Scored
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.records.result import BenchmarkResult, Curve, Metrics, Sample, Value
from tellapart.tasks.authors import add_authors_numbers
from tellapart.tasks.pairs import ListedPairs, measure_pairs
from tellapart.tasks.registry import METRICS, TASKS, find_task
from tellapart.tasks.task import Predictions, Runner, Session, Task, Unit, Units


def _find_positions(task: Task, name: str, records: Any, path: Path) -> Sequence[int]:
    """Return the positions of the items whose ids a file names, one a line, in the benchmark's order."""
    try:
        lines = re.split("\r\n?|\n", decode_text(read_whole(path), path))  # an id may hold U+2028 and its like
    except DataError as error:
        raise RunError(f"items={error}; give a file with an id in each line") from error
    rows: Sequence[Any] = records.items if isinstance(records, PairSet) else getattr(records, "rows", ())
    position = {row.id: number for number, row in enumerate(rows)}
    wanted = [line if line in position else line.strip() for line in lines if line.strip()]
    if not wanted:
        raise RunError(f"items={path}: the file is empty; write an id in each line")
    if twice := [id_ for id_, count in Counter(wanted).items() if count > 1]:
        raise RunError(f"items={path}: named twice: {join_names(twice)}; name each item once")
    if not position:
        raise RunError(f"items={path}: {name} has no id for each {task.noun}; use limit=")
    if missing := [id_ for id_ in wanted if id_ not in position]:
        raise RunError(f"items={path}: {name} has no {join_names(missing)}; ids are like {join_names([*position], 3)}")
    return sorted(position[id_] for id_ in wanted)


def _read_tags(path: Path) -> dict[str, dict[str, str]]:
    """Read the further tags of items: `{"id": "7", "kind": "count"}` in each line."""
    tags: dict[str, dict[str, str]] = {}
    for line, row in read_jsonl(path):
        if "id" not in row or not all(isinstance(value, str) for value in row.values()):
            raise RunError(f"tags={path}:{line}: expected an id and tags, all of them texts; got {quote(row)}")
        if (name := row.pop("id")) in tags:
            raise RunError(f"tags={path}:{line}: id {quote(name)} is there twice")
        tags[name] = row
    if not tags:
        raise RunError(f"tags={path}: the file is empty; write an id and tags in each line")
    return tags


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The record of one model on one benchmark, and the units of each noun, of which the samples are made."""

    result: BenchmarkResult
    measured: tuple[Units, ...]

    @property
    def samples(self) -> tuple[Sample, ...]:
        """All samples, in the benchmark's order."""
        return tuple(self.yield_samples())

    def yield_samples(self) -> Iterator[Sample]:
        """Yield the samples, each made when it is asked for."""
        return chain.from_iterable(map(yield_samples, self.measured))


def chosen(items: int, limit: str | None) -> Sequence[int]:
    """Return the positions that a limit keeps, spread evenly so that no subset at the end is lost.

    A limit is a number of items (`20`) or a share of them (`0.1`); None keeps all.

    >>> chosen(300, "3"), chosen(300, "0.01"), chosen(2, None)
    ([0, 100, 200], [0, 100, 200], range(0, 2))
    """
    if limit is None:
        return range(items)
    if re.fullmatch(r"[1-9]\d{0,8}", limit, re.ASCII):
        count = int(limit)
    elif re.fullmatch(r"[01]?\.\d{1,9}", limit, re.ASCII) and 0 < float(limit) <= 1:
        count = max(1, round(float(limit) * items))
    else:
        raise RunError(f"limit={limit}: give a number of items (20) or a share of them between 0 and 1 (0.1)")
    count = min(count, items)
    return [position * items // count for position in range(count)]


def plan(model: Model | Deferred, benchmark: Benchmark) -> tuple[Model, Runner]:
    """Return the model, loaded if the task needs that, and its runner; refuse a meaningless combination."""
    task = find_task(benchmark.task, benchmark.name)
    run = task.runner(model)
    if run is None and isinstance(model, Deferred):
        model = model.load()
        run = task.runner(model)
    if run is None:
        output = task.output if task.output == "scores" else f"a {task.output}"
        reason = task.refusal.format(output=output, models=task.models, name=benchmark.name)
        raise MetricError(f"{model.name} on {benchmark.name}: {reason}")
    benchmark.expect()
    task.check(model, benchmark)
    return model, run


@dataclass(frozen=True, slots=True)
class Prepared(Generic[Records, Predictions]):
    """A benchmark's records, loaded and limited, and the session that all models share.

    Attributes:
        available: the number of records before the limit.
        unlike: how the records differ from the published ones, in words; empty if no difference is known.
    """

    benchmark: Benchmark[Records]
    task: Task[Records, Predictions]
    records: Records
    available: int
    session: Session
    unlike: str = ""

    @property
    def fingerprint(self) -> str:
        """SHA-256 over the content; of pairs over pixels, too: only images that no model has read are read for it."""
        return self.task.fingerprint_for(self.records, self.session)


def prepare(
    benchmark: Benchmark,
    *,
    store: EmbeddingStore,
    limit: str | None = None,
    items: Path | None = None,
    tags: Path | None = None,
    strict: bool = False,
    frames: int | None = None,
) -> Prepared:
    """Load a benchmark's records. No image is opened yet: the first model that reads one decodes it.

    `items` is a file of ids, one a line; `tags` one of objects, an id and its further tags; `strict` refuses other
    records than the published ones; `frames` are those of each video in an image's place, the set's number if None.
    """
    task = find_task(benchmark.task, benchmark.name)
    everything = benchmark.records()
    if frames is not None and isinstance(everything, PairSet):
        everything = replace(everything, frames=frames)
    if tags is not None and isinstance(everything, PairSet):
        everything = everything.with_tags(_read_tags(tags))
    records, available = everything, task.size(everything)
    if items is not None:
        records = task.select(records, _find_positions(task, benchmark.name, records, items))
    if limit is not None:
        records = task.select(records, chosen(task.size(records), limit))
    unlike = _compare_with_published(benchmark, task, everything, strict)
    pictures = benchmark.read_image(everything) or _no_image
    if frames is not None and not task.shows_videos(records):
        raise RunError(f"frames={frames} has no effect on {benchmark.name}, which shows no videos; leave it out")
    shown = frames or getattr(everything, "frames", None) or DEFAULT_FRAMES
    session = Session(pictures=pictures, store=store, frames=shown)
    return Prepared(benchmark, task, records, available, session, unlike)


@collector_paused()
def prepare_listed(benchmark: Benchmark, *, strict: bool = False) -> Prepared:
    """Load the part of a benchmark that measuring predictions made elsewhere needs; of pairs no image is."""
    task = find_task(benchmark.task, benchmark.name)
    records = task.listed(benchmark)
    unlike = _compare_with_published(benchmark, task, records, strict)
    session = Session(pictures=_no_image, store=EmbeddingStore(None))
    return Prepared(benchmark, task, records, task.size(records), session, unlike)


def read_predictions(
    ready: Prepared[Records, Predictions], path: Path, kind: ScoreKind | None, place: Locations | None
) -> tuple[Predictions, Reading]:
    """Read a file of scores or predictions that were made elsewhere; return the facts of the reading, too.

    The column `prediction` of `place` is the field that the user named.
    """
    read = partial(ready.task.read, kind=kind) if ready.task.kinds else ready.task.read
    with watch_reading(dict((place or Locations()).columns).get(PREDICTION, "")) as reading:
        predictions = read(path, ready.records)
    reading.expect_used(path)
    return predictions, reading


def _no_image(reference: str) -> bytes:
    raise FileNotFoundError(reference)


def evaluate(
    model: Model | Deferred,
    ready: Prepared,
    *,
    batch_size: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Evaluation:
    """Run a model on a benchmark's records, and measure its output.

    Scores in the store are not computed again; each batch is stored as it is done. Neither the batch size nor the
    store changes a number.
    """
    started = time.monotonic()
    subject, run = plan(model, ready.benchmark)
    cut_before = int(getattr(subject, "truncated", 0))
    session = replace(ready.session, batch_size=batch_size, progress=progress, scores=[])
    if not is_stored(subject):
        session = replace(session, store=EmbeddingStore(None))
    with watch_reading() as reading:
        predictions = run(subject, ready.records, session)
    origin = str(ready.benchmark.picture_root())
    evaluation = evaluate_predictions(ready, predictions, origin=origin, seed=seed, reading=reading, progress=progress)
    notes = evaluation.result.notes
    if ready.benchmark.was_mined_by(subject.name):
        notes += (f"{subject.name} chose these items where it failed: its authors leave it out, it does not compare",)
    if cut := int(getattr(subject, "truncated", 0)) - cut_before:
        notes += (f"{cut:,} of the texts encoded in this run are longer than the model reads, and lost their end",)
    if subject.name not in REFERENCES:
        scores = [predictions.scores] if isinstance(predictions, Scored) else session.scores
        notes += note_spread(scores, of_reranker=getattr(subject, "is_reranker", False))
    if ready.task.shows_videos(ready.records):
        notes += (f"each video is read as {session.frames} frames, evenly spread",)
    if isinstance(subject, NoteTaker):
        notes += subject.take_notes()
    notes += tuple(filter(None, (getattr(subject, name, "") for name in ("provenance", "unstored"))))
    update = {"seconds": time.monotonic() - started, "notes": notes}
    return replace(evaluation, result=evaluation.result.model_copy(update=update))


@collector_paused()
def evaluate_predictions(
    ready: Prepared[Records, Predictions],
    predictions: Predictions,
    *,
    origin: str,
    seed: int = 0,
    reading: Reading | None = None,
    notes: tuple[str, ...] = (),
    progress: Progress | None = None,
) -> Evaluation:
    """Measure predictions.

    Predictions are as the task's `read` or its runner returns them; `origin` is their file, or the folder of images;
    `reading` has their field and the thoughts that were stripped; `notes` go into the record with the task's.
    """
    started = time.monotonic()
    reading = reading or Reading()
    task, benchmark, size = ready.task, ready.benchmark, ready.task.size(ready.records)
    measured = task.measure(ready.records, predictions)
    # The authors' units are made of these again: their samples are not written.
    table = tabulate_units(
        add_authors_numbers(benchmark, measured, task.kind_of(predictions)), seed=seed, progress=progress
    )
    tied = [int(value.ties.sum()) for units in measured for value in units.values]
    unlike = (f"{ready.unlike}: the numbers do not compare with published ones",) if ready.unlike else ()
    fields = {
        "tied_items": max(tied, default=0),
        "kind": task.kind_of(predictions),
        "origin": origin,
        **{part: getattr(table, part) for part in ("metrics", "by", "macro", "curves")},
        **task.facts(ready.records, predictions, ready.session),
    }
    result = BenchmarkResult(
        title=benchmark.title,
        fingerprint=ready.fingerprint,
        task=task.name,
        output=task.output,
        official=benchmark.official,
        published_items=benchmark.items if ready.unlike else None,
        limited_from=ready.available if size < ready.available else None,
        limited_to=size if size < ready.available else None,
        field=reading.fields_read,
        thoughts=reading.stripped,
        thoughts_cut=reading.cut,
        notes=(*unlike, *reading.notes(), *task.notes(ready.records, predictions), *notes),
        **fields,
    )
    return Evaluation(result.model_copy(update={"seconds": time.monotonic() - started}), tuple(measured))


def _compare_with_published(benchmark: Benchmark, task: Task[Records], records: Records, strict: bool) -> str:
    """Describe how the user's records differ from the published ones: in number, or else in content."""
    size, unlike = task.size(records), ""
    if benchmark.items and size != benchmark.items:
        unlike = f"these files hold {size:,} records; {benchmark.name} as published holds {benchmark.items:,}"
    # An outline of pairs, known without any file, has no texts to compare.
    elif benchmark.rows and getattr(records, "items", ()) is not None and task.digest(records) != benchmark.rows:
        unlike = f"these files hold {size:,} records, as many as {benchmark.name} as published, but other ones"
    if strict and unlike:
        raise DataError(f"{unlike}; fetch them again, or leave out strict=True")
    return unlike


def yield_samples(units: Units) -> Iterator[Sample]:
    """Yield the samples of measured units."""
    outcomes = {value.name: value.strict.tolist() for value in units.values if value.reduce is None}
    rows = zip(*outcomes.values(), strict=True) if outcomes else repeat(())
    of_unit = dict(zip((unit.id for unit in units.units), rows, strict=False))
    tied: dict[str, list[str]] = {}
    for one in units.values:
        for row in np.flatnonzero(one.ties).tolist():
            tied.setdefault(units.units[row].id, []).append(one.name)
    for unit in units.asked or units.units:
        yield Sample(
            id=unit.id,
            unit=units.noun,
            cluster=unit.cluster,
            tags=dict(unit.tags),
            images=unit.images,
            texts=unit.texts,
            scores=unit.scores,
            output=unit.output,
            gold=unit.gold,
            outcomes=dict(zip(outcomes, of_unit.get(unit.id, ()), strict=False)),
            tied=tuple(tied.get(unit.id, ())),
            true=unit.true,
        )


def tabulate_units(measured: Sequence[Units], *, seed: int = 0, progress: Progress | None = None) -> Tabulated:
    """Average the metrics of all units of a task, each noun over its units."""
    tables = [
        tabulate(
            units.values,
            [unit.cluster for unit in units.units],
            [unit.tags for unit in units.units],
            seed=seed,
            progress=progress,
        )
        for units in measured
    ]
    by: dict[str, dict[str, dict[str, Value]]] = {}
    macro: dict[str, dict[str, Value]] = {}
    for table in tables:
        for tag, groups in table.by.items():
            for value, group in groups.items():
                by.setdefault(tag, {}).setdefault(value, {}).update(group.metrics)
        for tag, group in table.macro.items():
            macro.setdefault(tag, {}).update(group.metrics)
    return Tabulated(
        metrics={name: value for table in tables for name, value in table.metrics.items()},
        by={tag: {value: Metrics(metrics=metrics) for value, metrics in groups.items()} for tag, groups in by.items()},
        macro={tag: Metrics(metrics=metrics) for tag, metrics in macro.items()},
        curves={
            value.name: Curve(edges=tuple(counts.edges.tolist()), counts=tuple(counts.counts.tolist()))
            for units in measured
            for value in units.values
            if value.deviation
            for counts in [histogram(value.strict)]
        },
    )


def measure(scores: Scores, outline: Outline, *, seed: int = 0) -> Tabulated:
    """Measure scores by every metric that is defined for their shape and kind."""
    return tabulate_units(measure_pairs(ListedPairs(outline), Scored(scores)), seed=seed)


@dataclass(frozen=True, slots=True)
class Remeasured:
    """The numbers that a run's samples give; outcomes of pairs: metric -> the value of each item."""

    table: Tabulated
    outcomes: dict[str, list[float]]


def remeasure_samples(benchmark: str, record: BenchmarkResult, samples: Sequence[Sample], *, seed: int) -> Remeasured:
    """Measure samples again: of pairs their scores, of a task their outcomes.

    A task's metrics of its full corpus (BLEU) and means over groups are not among the outcomes, and so not measured.
    """
    if not samples:
        raise RunError(f"there are no samples of {benchmark}")
    if record.shape is None or record.kind is None:
        return Remeasured(_average_outcomes(record, samples, seed), {})
    ids = tuple(sample.id for sample in samples)
    clusters, tags = tuple(sample.cluster for sample in samples), tuple(sample.tags for sample in samples)
    try:
        scores = Scores(ids, [sample.scores for sample in samples], record.kind)
    except ScoreError as error:
        raise RunError(f"samples of {benchmark}: {error}") from error
    # Samples hold the true texts or image in the first places.
    truths = (tuple(range(record.true)),) * len(ids) if record.true > 1 else ()
    listed = ListedPairs(Outline(ids, record.shape, clusters, tags, truths))
    measured = TASKS[record.task].measure(listed, Scored(scores))
    outcomes = {
        value.name: value.strict.tolist() for units in measured for value in units.values if value.reduce is None
    }
    declared = declared_benchmark(benchmark)
    if declared is not None:
        (of_items,) = measured
        shown = zip(of_items.units, samples, strict=True)
        units = tuple(replace(unit, images=one.images, texts=one.texts, true=one.true) for unit, one in shown)
        measured = add_authors_numbers(declared, [replace(of_items, units=units)], record.kind)
    return Remeasured(tabulate_units(measured, seed=seed), outcomes)


def _average_outcomes(record: BenchmarkResult, samples: Sequence[Sample], seed: int) -> Tabulated:
    """Average a task's outcomes, each noun's over its units; they do not give a value with ties broken at random."""
    measured = []
    for noun in dict.fromkeys(sample.unit for sample in samples):
        own = [sample for sample in samples if sample.unit == noun and sample.outcomes]
        names = [name for name in (own[0].outcomes if own else ()) if all(name in of.outcomes for of in own)]
        units = tuple(Unit(id=one.id, cluster=one.cluster, tags=one.tags) for one in own)
        measured.append(Units(noun, units, tuple(_read_outcomes(name, own, record) for name in names)))
    return tabulate_units(measured, seed=seed)


def _read_outcomes(name: str, samples: Sequence[Sample], record: BenchmarkResult) -> PerItem:
    strict = np.array([sample.outcomes[name] for sample in samples])
    stated = record.metrics.get(name)
    metric = next((metric for metric in TASKS[record.task].metrics if metric.name == name), None)
    whole = PerItem(
        name=name,
        strict=strict,
        touched=np.array([name in sample.tied for sample in samples]),
        binary=bool(np.isin(strict, (0, 1)).all()) and (metric is None or metric.binary),
        deviation=stated is not None and stated.mean_absolute is not None,
        bounds=None if metric is None or metric.together else metric.finite_bounds,
    )
    if name not in METRICS or not METRICS[name].together:
        return whole
    return replace(whole, among=lambda mask: whole if mask.all() else None)  # outcomes do not give that of a part
