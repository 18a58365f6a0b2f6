"""Runs arranged by benchmark: the models that were measured on the same items, and their numbers by a tag's values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from tellapart.benchmarks.find import declared_benchmark
from tellapart.catalog import REFERENCES
from tellapart.errors import RunError, nearest, plain
from tellapart.evaluation.systems import key_samples, label_runs
from tellapart.metrics.registry import one_name_each
from tellapart.records.result import BenchmarkResult, Result, Sample, Value, is_imported
from tellapart.report.items import margins, shared_outcomes, worst_first
from tellapart.report.numbers import is_deviation, items_text, worth_text
from tellapart.report.templates import write_lines
from tellapart.tasks.registry import headline, main_metric


@dataclass(frozen=True, slots=True)
class ReportRun:
    """One model's run: samples by benchmark, None if they are not read.

    `read_image` takes benchmark and reference to a file's bytes.
    """

    result: Result
    samples: Mapping[str, Sequence[Sample]] | None = None
    read_image: Callable[[str, str], bytes] | None = None


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """One model on one benchmark: its number and label on the page, and its samples in the first model's order."""

    model: int
    label: str
    record: BenchmarkResult
    samples: tuple[Sample, ...]
    run: ReportRun

    @property
    def name(self) -> str:
        """The model's name, which two runs may share."""
        return self.run.result.model.name


@dataclass(frozen=True, slots=True)
class BenchmarkRuns:
    """One benchmark and the models that were measured on the same items of it, at least one: a section of the page."""

    name: str
    anchor: str
    entries: tuple[ModelEntry, ...]

    @property
    def record(self) -> BenchmarkResult:
        """The first model's record; its facts about the benchmark hold for all."""
        return self.entries[0].record

    @property
    def samples(self) -> tuple[Sample, ...]:
        """The first model's samples: ids, tags, texts and images hold for all."""
        return self.entries[0].samples

    @property
    def size(self) -> int:
        """How many items there are; further units of a task, such as groups of items, are not counted."""
        return max((value.n for value in self.record.metrics.values()), default=len(self.samples))

    @property
    def records(self) -> dict[str, BenchmarkResult]:
        """The models' records by their labels."""
        return {entry.label: entry.record for entry in self.entries}

    @property
    def models(self) -> list[tuple[str, Result]]:
        """The models' labels, and the records of their runs."""
        return [(entry.label, entry.run.result) for entry in self.entries]

    @property
    def worth(self) -> str:
        """How many independent items would be as precise, by the models' main metric; empty if about all."""
        measured = [entry.record for entry in self.entries if entry.name not in REFERENCES] or [*self.records.values()]
        main = main_metric(shared_headline(measured))
        return worth_text(record.metrics[main] for record in measured if main in record.metrics)

    def counts_differ(self, names: Sequence[str]) -> bool:
        """Return whether one of these metrics is a mean of groups or the like, and so not of all the items."""
        return any(self.record.metrics[name].n != self.size for name in names if name in self.record.metrics)

    def title(self, names: Sequence[str]) -> str:
        """Write a table's title: the benchmark, its number of items and clusters, and the level of the intervals."""
        facts = {"is_imported": is_imported(self.record), "differ": self.counts_differ(names)}
        return write_lines("title", same=self, name=plain(self.name), size=items_text(self.record), **facts)[0]

    @property
    def notes(self) -> list[str]:
        """The notes of the records, each once with the models that it is about."""
        lines = []
        for note in dict.fromkeys(note for entry in self.entries for note in entry.record.notes):
            models = [entry.label for entry in self.entries if note in entry.record.notes]
            everyone = len(models) == len(self.entries) > 1
            lines.append(f"{'all models' if everyone else ', '.join(models)}: {note}")
        return lines

    @property
    def headline(self) -> tuple[str, ...]:
        """The metrics of the first look: those that every model here has."""
        return shared_headline([*self.records.values()])

    @property
    def main(self) -> str:
        """The metric that ranks the models: of the headline metrics with values of items, or of all without."""
        per_item = [name for name in self.headline if any(name in sample.outcomes for sample in self.samples)]
        return main_metric(per_item or self.headline)

    @property
    def outcomes(self) -> tuple[str, ...]:
        """The metrics by which an item is right or wrong for some model, headline first, each under one name."""
        of_some = {name for entry in self.entries for name in shared_outcomes(entry.samples)}
        numbers = (pair for entry in self.entries for pair in entry.record.metrics.items())
        return tuple(self._order_names(name for name, of in numbers if name in of_some and not is_deviation(of)))

    def shares(self, entry: ModelEntry) -> list[tuple[str, tuple[str, ...], Value]]:
        """Return a model's shares of right items: name, other names of the same number, and the number."""
        metrics = entry.record.metrics
        names = self._order_names(name for name, value in metrics.items() if not is_deviation(value))
        return [(name, others, metrics[name]) for name, others in names.items()]

    def _order_names(self, names: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """Return names, the headline first, each with further names of the same number."""
        held = dict.fromkeys(names)
        return one_name_each(dict.fromkeys([*(name for name in self.headline if name in held), *held]))

    def worst(self, entries: Sequence[ModelEntry]) -> list[int]:
        """Return the items' positions, the worst of each of these models first."""
        scores = (np.array([sample.scores for sample in entry.samples], np.float32) for entry in entries)
        return worst_first([margins(values, self.record.true) for values in scores])


def arrange_runs(runs: Sequence[ReportRun], labels: Sequence[str] = ()) -> tuple[BenchmarkRuns, ...]:
    """Arrange runs by benchmark; the same name with another fingerprint is another one."""
    labels = labels or label_runs([run.result.model.name for run in runs])
    entries_of: dict[tuple[str, str], list[ModelEntry]] = {}
    for model, (run, label) in enumerate(zip(runs, labels, strict=True)):
        for benchmark, record in run.result.benchmarks.items():
            entries = entries_of.setdefault((benchmark, record.fingerprint), [])
            samples = _align_samples(run, label, benchmark, entries[0].samples if entries else None)
            entries.append(ModelEntry(model, label, record, samples, run))
    return tuple(
        BenchmarkRuns(benchmark, f"benchmark-{number}", tuple(entries))
        for number, ((benchmark, _), entries) in enumerate(entries_of.items(), start=1)
    )


def shared_headline(records: Sequence[BenchmarkResult]) -> tuple[str, ...]:
    """Return the authors' metrics if all records have them, else their common headline metrics, else all shares."""
    first = records[0].metrics if records else {}
    shared = [name for name in first if all(name in record.metrics for record in records)]
    if records and records[0].official and all(name in shared for name in records[0].official):
        return records[0].official
    return headline(shared) or tuple(name for name in shared if not is_deviation(first[name]))


def _align_samples(run: ReportRun, label: str, benchmark: str, first: tuple[Sample, ...] | None) -> tuple[Sample, ...]:
    """Return a run's samples in the order of the first model's."""
    if run.samples is None:
        return ()
    samples = tuple(run.samples.get(benchmark, ()))
    if not samples:
        raise RunError(f"{label} has a result but no samples of {benchmark}; read them with read_samples")
    shape, place = run.result.benchmarks[benchmark].shape, f"{label} on {benchmark}"
    for sample in samples if shape is not None else ():
        if (found := (len(sample.scores), len(sample.scores[0]))) != shape:
            sizes = "{}x{} scores, the record says {}x{}".format(*found, *(shape or ()))
            raise RunError(f"{place}: item {sample.id} has {sizes}; measure the run again")
    if first is None:
        return samples
    keyed, keys = key_samples(samples), key_samples(first).keys()
    if keyed.keys() != keys:
        others = f"{len(keyed)} items that are not the {len(first)} of the other runs"
        raise RunError(f"{place}: {others}, though the fingerprints agree; the run folder is incomplete")
    return tuple(keyed[key] for key in keys)


@dataclass(frozen=True, slots=True)
class HeatRow:
    """A row: each model's metric, None without one, over the `n` items of a tag's value or over all (0: unknown)."""

    name: str
    n: int
    values: tuple[Value | None, ...]


@dataclass(frozen=True, slots=True)
class HeatMap:
    """One metric of several models by the values of a tag."""

    metric: str
    tag: str
    models: tuple[str, ...]
    rows: tuple[HeatRow, ...]

    @property
    def chance(self) -> float | None:
        """The value of a model without information, over all items."""
        chances = (value.chance for value in self.rows[-1].values if value is not None)
        return next((chance for chance in chances if chance is not None), None)


def heat_map(
    records: Mapping[str, BenchmarkResult], benchmark: str, metric: str | None = None, tag: str | None = None
) -> HeatMap:
    """Arrange models' records of one benchmark by the values of a tag."""
    metric = metric or main_metric(shared_headline(list(records.values())))
    total, first = [record.metrics.get(metric) for record in records.values()], next(iter(records.values()))
    if not any(total):
        raise RunError(f"{benchmark} has no {metric!r}; it has {', '.join(first.metrics) or 'no metric'}")
    if any(value is not None and is_deviation(value) for value in total):
        raise RunError(f"{metric} is a deviation in the unit of the scores; a heat map shows shares of items")
    tags = list(dict.fromkeys(tag for record in records.values() for tag in record.by))
    if not tags:
        raise RunError(f"the items of {benchmark} have no tags to break it down by")
    tag = breakdown_tag(records, benchmark) if tag is None else tag
    if tag is None:
        raise RunError(f"{benchmark} can be broken down by {', '.join(tags)}; choose one with tag=")
    if tag not in tags:
        hint = nearest(tag, tags) or ";"
        raise RunError(f"{benchmark} is not broken down by {tag!r}{hint} its tags are {', '.join(tags)}")
    groups = [record.by.get(tag, {}) for record in records.values()]
    names = dict.fromkeys(chain.from_iterable(groups))
    cells = [(name, [of[name].metrics.get(metric) if name in of else None for of in groups]) for name in names]
    rows = [
        HeatRow(name, max((value.n for value in values if value is not None), default=0), tuple(values))
        for name, values in (*cells, ("all items", total))
    ]
    # Another tool measured over a number of items that is unknown.
    shown = (row for row in rows[:-1] if row.n or any(value.method == "imported" for value in row.values if value))
    return HeatMap(metric, tag, tuple(records), (*shown, rows[-1]))


def breakdown_tag(records: Mapping[str, BenchmarkResult], benchmark: str) -> str | None:
    """Return the tag that breaks a benchmark down: its paper's, or the only one; None if neither is clear."""
    tags = dict.fromkeys(tag for record in records.values() for tag in record.by)
    declared = declared_benchmark(benchmark)
    if declared is not None and declared.paper is not None and declared.paper.tag in tags:
        return declared.paper.tag
    return next(iter(tags)) if len(tags) == 1 else None


def first_breakdown(records: Mapping[str, BenchmarkResult], benchmark: str, *, most: int | None = None) -> str | None:
    """Return the tag of a first look, of those with 2 to `most` values: `breakdown_tag`'s, else the first, or None."""
    sizes: dict[str, int] = {}
    for record in records.values():
        for tag, groups in record.by.items():
            sizes[tag] = max(len(groups), sizes.get(tag, 0))
    fitting = [tag for tag, size in sizes.items() if size > 1 and (most is None or size <= most)]
    preferred = breakdown_tag(records, benchmark)
    return preferred if preferred in fitting else next(iter(fitting), None)


def is_above_chance(value: Value) -> bool:
    """Return whether all of a number's interval lies above chance; also if no chance or no interval is defined."""
    return value.chance is None or value.low is None or value.low > value.chance
