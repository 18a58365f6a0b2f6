"""Sections of the page: one a benchmark, with every model that was measured on the same items."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tellapart.catalog import REFERENCES
from tellapart.errors import RunError
from tellapart.evaluation.systems import label_runs
from tellapart.metrics.registry import one_name_each
from tellapart.records.result import BenchmarkResult, Result, Sample, Value
from tellapart.report.items import margins, shared_outcomes, worst_first
from tellapart.report.numbers import is_deviation, worth_text
from tellapart.tasks.registry import headline, main_metric


@dataclass(frozen=True, slots=True)
class ReportRun:
    """One model's run: samples by benchmark; `read_image` takes benchmark and reference to a file's bytes."""

    result: Result
    samples: Mapping[str, Sequence[Sample]]
    read_image: Callable[[str, str], bytes] | None = None


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """One model on one benchmark: its number and label on the page, and its samples in the section's order."""

    model: int
    label: str
    record: BenchmarkResult
    samples: tuple[Sample, ...]
    run: ReportRun


@dataclass(frozen=True, slots=True)
class Section:
    """One benchmark and the models that were measured on the same items of it, at least one."""

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
        """How many items there are; a task's units of other nouns are not counted with them."""
        return max((value.n for value in self.record.metrics.values()), default=len(self.samples))

    @property
    def worth(self) -> str:
        """How many independent items would be as precise; empty if that is about as many as there are."""
        return worth_of([(entry.run.result.model.name, entry.record) for entry in self.entries])

    @property
    def notes(self) -> list[str]:
        """Facts that no number shows, each note once with the models that it is about."""
        columns = [f"read as {self.record.read_as}"] if self.record.read_as else []
        columns += [f"read from field {self.record.field}"] if self.record.field else []
        return columns + note_lines([(entry.label, entry.record.notes) for entry in self.entries])

    @property
    def headline(self) -> tuple[str, ...]:
        """The metrics of the first look: those that every model here has."""
        return shared_headline([entry.record for entry in self.entries])

    @property
    def main(self) -> str:
        """The metric that ranks the models: of those of the first look one that has a value of each item, if any."""
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

    def worst(self) -> list[int]:
        """Return the items' positions, every model's worst first."""
        scores = (np.array([sample.scores for sample in entry.samples], np.float32) for entry in self.entries)
        return worst_first([margins(values, self.record.true) for values in scores])


def sections(runs: Sequence[ReportRun]) -> tuple[Section, ...]:
    """Arrange runs by benchmark; the same name with another fingerprint is another section."""
    entries_of: dict[tuple[str, str], list[ModelEntry]] = {}
    for model, (run, label) in enumerate(zip(runs, label_runs([run.result.model.name for run in runs]), strict=True)):
        for benchmark, record in run.result.benchmarks.items():
            entries = entries_of.setdefault((benchmark, record.fingerprint), [])
            samples = _align_samples(run, label, benchmark, entries[0].samples if entries else None)
            entries.append(ModelEntry(model, label, record, samples, run))
    if not entries_of:
        raise RunError(f"a report needs at least one run that measured a benchmark; got {len(runs)} runs")
    return tuple(
        Section(benchmark, f"benchmark-{number}", tuple(entries))
        for number, ((benchmark, _), entries) in enumerate(entries_of.items(), start=1)
    )


def shared_headline(records: Sequence[BenchmarkResult]) -> tuple[str, ...]:
    """Return the metrics that the authors report, else of a first look, that all have; failing that, all shares."""
    first = records[0].metrics if records else {}
    shared = [name for name in first if all(name in record.metrics for record in records)]
    if records and records[0].official and all(name in shared for name in records[0].official):
        return records[0].official
    return headline(shared) or tuple(name for name in shared if not is_deviation(first[name]))


def worth_of(records: Sequence[tuple[str, BenchmarkResult]]) -> str:
    """Write how many independent items are as good as a benchmark's, by the main metric of models but references."""
    measured = [record for name, record in records if name not in REFERENCES] or [record for _, record in records]
    main = main_metric(shared_headline(measured))
    return worth_text(record.metrics[main] for record in measured if main in record.metrics)


def note_lines(notes_of: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
    """Return each note once, after the names of the models that it is about."""
    lines = []
    for note in dict.fromkeys(note for _, notes in notes_of for note in notes):
        models = [model for model, notes in notes_of if note in notes]
        everyone = len(models) == len(notes_of) > 1
        lines.append(f"{'all models' if everyone else ', '.join(models)}: {note}")
    return lines


def _align_samples(run: ReportRun, label: str, benchmark: str, first: tuple[Sample, ...] | None) -> tuple[Sample, ...]:
    """Return a run's samples in the order of the section's first model."""
    samples = tuple(run.samples.get(benchmark, ()))
    if not samples:
        raise RunError(f"{label} has a result but no samples of {benchmark}; read them with read_samples")
    shape, place = run.result.benchmarks[benchmark].shape, f"{label} on {benchmark}"
    for sample in samples if shape is not None else ():
        if (found := (len(sample.scores), len(sample.scores[0]))) != shape:
            sizes = "{}x{} scores, the record says {}x{}".format(*found, *shape)
            raise RunError(f"{place}: item {sample.id} has {sizes}; measure the run again")
    if first is None:
        return samples
    by_id = {(sample.unit, sample.id): sample for sample in samples}
    if by_id.keys() != {(sample.unit, sample.id) for sample in first}:
        others = f"{len(by_id)} items that are not the {len(first)} of the other runs"
        raise RunError(f"{place}: {others}, though the fingerprints agree; the run folder is incomplete")
    return tuple(by_id[sample.unit, sample.id] for sample in first)
