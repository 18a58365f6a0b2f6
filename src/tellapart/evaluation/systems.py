"""Systems: the runs of one model put together; the models of run folders; benchmarks that several models measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, count
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tellapart.catalog import REFERENCES, is_ranked
from tellapart.data.scores import join_names
from tellapart.errors import RunError, nearest, plain, quote
from tellapart.evaluation.verified import read_result
from tellapart.metrics.registry import METRICS
from tellapart.models.transductive import MARK
from tellapart.records.result import IDS_ONLY, BenchmarkResult, Result, Sample, is_imported
from tellapart.records.run_folder import find_runs
from tellapart.records.samples import read_samples
from tellapart.tasks.registry import headline

#: Samples by unit and id.
KeyedSamples: TypeAlias = Mapping[tuple[str, str], Sample]


@dataclass(frozen=True, slots=True)
class System:
    """One model's record of one run, or of several on different benchmarks.

    Attributes:
        label: the model's name, or the user's label; numbered if two systems share it.
        folders, titles: benchmark -> the run folder that measured it, and the user's label of it.
        result: the record, with the benchmarks of all these folders.
        runs: all of its run folders; two of a reference model may have measured the same benchmark.
    """

    label: str
    folders: Mapping[str, Path]
    result: Result
    titles: Mapping[str, str] = field(default_factory=dict)
    runs: tuple[Path, ...] = ()

    @classmethod
    def of(cls, folder: Path, result: Result | None = None) -> System:
        """Return the system of one run folder, without its further models; its record is read unless it is `result`."""
        result = result or read_result(folder)
        return cls(result.model.name, dict.fromkeys(result.benchmarks, folder), result, runs=(folder,))

    @property
    def place(self) -> str:
        """Its run folders, as messages name them."""
        return ", ".join(dict.fromkeys(map(str, self.folders.values()))) or self.label

    def record(self, benchmark: str) -> BenchmarkResult:
        """Return the system's record of a benchmark."""
        if benchmark not in self.result.benchmarks:
            benchmarks = ", ".join(self.result.benchmarks) or "nothing"
            raise RunError(f"{self.label} did not measure {benchmark!r}; its runs hold {benchmarks}")
        return self.result.benchmarks[benchmark]


def gather(
    folders: Sequence[Path], labels: Mapping[str, str] | None = None, results: Mapping[Path, Result] | None = None
) -> list[System]:
    """Return the systems of runs, in the order named; runs of one model on different benchmarks are one system.

    A run's further models are read, too. `results` holds records that were read before, by their folders.
    """
    if not folders:
        raise RunError("no run was named; name one or more run folders")
    # A run named twice, or as part of one that is also named, is one run.
    paths = list({run.resolve(): run for folder in folders for run in find_runs(folder)}.values())
    systems: list[System] = []
    for path in paths:
        _join_run(systems, System.of(path, (results or {}).get(path)))
    measured = {benchmark for system in systems for benchmark in system.folders}
    titles = {name: label for name, label in (labels or {}).items() if name in measured}
    of_models = {name: label for name, label in (labels or {}).items() if name not in titles}
    # A model of score files is marked if a model that was computed here has the same name.
    computed = {system.label for system in systems if system.result.model.fingerprint}
    models = [
        system.label + " (score files)" * (system.label in computed and not system.result.model.fingerprint)
        for system in systems
    ]
    labelled = _apply_labels(models, of_models, sorted(measured))
    model_of: dict[str, str] = {}
    for model, label in zip(models, labelled, strict=True):
        if model_of.setdefault(label, model) != model:
            raise RunError(
                f"labels=: {model_of[label]} and {model} would be called {label!r}; give each model another label"
            )
    names = label_runs(labelled)
    return [replace(system, label=name, titles=titles) for name, system in zip(names, systems, strict=True)]


def omit_references(systems: Sequence[System]) -> list[System]:
    """Return systems without reference models and draws of answers, which are not ranked; all if none is left."""
    return [system for system in systems if is_ranked(system.result.model.name)] or list(systems)


def _join_run(systems: list[System], new: System) -> None:
    """Add a run to its model's system in the list; as a new system, if that one has measured one of its benchmarks.

    A reference model gets the same on the same items, so a second run of it is no further system.
    """
    for number, first in enumerate(systems):
        if first.result.model.system != new.result.model.system:
            continue
        shared = first.folders.keys() & new.folders.keys()
        same = all(first.record(name).fingerprint == new.record(name).fingerprint for name in shared)
        if not shared or (same and new.result.model.name in REFERENCES):
            # The order and the values are those of the first run; the second one adds its other benchmarks.
            benchmarks = first.result.benchmarks | new.result.benchmarks | first.result.benchmarks
            result = first.result.model_copy(update={"benchmarks": benchmarks})
            places = {**first.folders, **new.folders, **first.folders}
            systems[number] = replace(first, folders=places, result=result, runs=(*first.runs, *new.runs))
            return
    systems.append(new)


def _apply_labels(names: Sequence[str], labels: Mapping[str, str], benchmarks: Sequence[str]) -> list[str]:
    """Return models' names, or the user's labels in place of them; a transductive model's label ends in `MARK`."""
    if unknown := [name for name in labels if name not in names]:
        raise RunError(
            f"labels={unknown[0]!r}: no model and no benchmark has that name; these runs hold {', '.join(names)} on "
            f"{', '.join(benchmarks)}"
        )
    marks = [MARK if name.endswith(MARK) else "" for name in names]
    return [labels.get(name, name).removesuffix(mark) + mark for name, mark in zip(names, marks, strict=True)]


def label_runs(names: Sequence[str]) -> list[str]:
    """Return a distinct label for each model's name, numbered if the name repeats: `a (run 1)`, `b`, `a (run 2)`."""
    labels, used, counts = [], {*names}, Counter(names)
    for name in names:
        numbered = (f"{name} (run {turn})" for turn in count(1))
        label = next(label for label in numbered if label not in used) if counts[name] > 1 else name
        used.add(label)
        labels.append(label)
    return labels


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """The models of some run folders that are compared, with labels that can be printed.

    `left_out` are labels of reference models and draws of answers that were not named. Every model is compared with
    the `baseline`, if there is one.
    """

    runs: tuple[System, ...]
    left_out: tuple[str, ...]
    baseline: str | None = None


def choose_models(folders: Sequence[Path], baseline: str | None = None, *, two: bool = False) -> ModelChoice:
    """Choose the models of some run folders; `two` refuses fewer than two.

    A reference model or a draw is chosen only if its folder is named, or if it is the baseline: it bounds the values
    that numbers can mean, and its pairs would cost the others power (Holm).
    """
    runs = [replace(run, label=plain(run.label)) for run in gather(folders)]
    label = None if baseline is None else _find_label(runs, plain(baseline))
    places = {folder.resolve() for folder in folders}
    left_out = [
        run
        for run in runs
        if not is_ranked(run.result.model.name)
        and run.label != label
        and places.isdisjoint(folder.resolve() for folder in run.runs)
    ]
    choice = ModelChoice(tuple(run for run in runs if run not in left_out), tuple(run.label for run in left_out), label)
    if two and len(choice.runs) < 2:
        hint = f" beside {', '.join(choice.left_out)}; name it with baseline=, or by its folder"
        raise RunError(
            f"{' and '.join(map(str, folders))}: one model, {', '.join(run.label for run in choice.runs)},"
            f"{hint if choice.left_out else ' and two are needed: name a run of another model, too'}"
        )
    return choice


def _find_label(runs: Sequence[System], name: str) -> str:
    """Return the label of the model that has a name, or a label; several such models are refused."""
    labels = [run.label for run in runs if name in {run.label, plain(run.result.model.name)}]
    if len(labels) != 1:
        models = ", ".join(run.label for run in runs)
        raise RunError(
            f"baseline={name}: {len(labels)} runs are of that model; name one of {', '.join(labels)}"
            if labels
            else f"baseline={name}: no run is of that model; the models are {models}"
        )
    return labels[0]


def match_benchmarks(results: Sequence[Result]) -> dict[str, dict[int, str]]:
    """Match the benchmarks of runs: name in the comparison -> number of the run -> name in that run.

    A run that holds two sets `pairs` calls one of them `folder:pairs#1f0c9a2e`. It matches the `folder:pairs` of
    another run if the contents of the two agree.
    """
    matched: dict[str, dict[int, str]] = {}
    contents: dict[tuple[str, str], str] = {}
    for number, result in enumerate(results):
        for name, record in result.benchmarks.items():
            content = name.partition("#")[0], record.fingerprint
            key = name if name in matched else contents.setdefault(content, name)  # the name matches first
            matched.setdefault(key, {})[number] = name
    return matched


@dataclass(frozen=True, slots=True)
class SharedBenchmark:
    """A benchmark that several runs measured on the same items, with each item's cluster and tags.

    `records` are by the runs' numbers. `outcomes`: metric -> float64 `(item, run)`, runs in the order of `records`, NaN
    if an item has no value. `tags` are those of any run; `retagged`: tag -> an item that has two values of it.
    """

    name: str
    records: Mapping[int, BenchmarkResult]
    clusters: NDArray[np.str_]
    tags: Sequence[Mapping[str, str]]
    outcomes: Mapping[str, NDArray[np.float64]]
    retagged: Mapping[str, str] = field(default_factory=dict)

    @property
    def limits(self) -> dict[str, int | None]:
        """The numbers of records before and after a limit, `limited_from` and `limited_to`; None without a limit."""
        part = next((record for record in self.records.values() if record.limited_from is not None), None)
        return {name: getattr(part, name, None) for name in ("limited_from", "limited_to")}

    def values(
        self, metric: str, runs: Sequence[int], items: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.str_]]:
        """Return the values `(item, run)` of items that have one in each of these runs, and the items' clusters."""
        columns = [list(self.records).index(run) for run in runs]
        values = self.outcomes[metric][:, columns]
        complete = ~np.isnan(values).any(axis=1)
        if items is not None:
            complete &= items
        return values[complete], self.clusters[complete]


def read_shared(runs: Sequence[System], matched: Mapping[str, Mapping[int, str]]) -> list[SharedBenchmark]:
    """Read every benchmark that at least two of the runs measured, item by item."""
    shared = [read_benchmark(name, runs, names) for name, names in matched.items() if len(names) > 1]
    if not shared:
        listed = (f"{run.place} has {', '.join(run.result.benchmarks) or 'none'}" for run in runs)
        raise RunError(f"{' and '.join(run.place for run in runs)} share no benchmark: {'; '.join(listed)}")
    return shared


def read_benchmark(
    name: str, runs: Sequence[System], names: Mapping[int, str], metrics: Sequence[str] | None = None
) -> SharedBenchmark:
    """Read a benchmark of runs, by their numbers, item by item: these metrics, or the headline ones of all runs."""
    records = {number: runs[number].record(of_run) for number, of_run in names.items()}
    if metrics is None:
        first, *rest = (record.metrics for record in records.values())
        # In the first run's order: of another tool's log the first metric is the main one.
        common = [metric for metric in first if all(metric in numbers for numbers in rest)]
        metrics = [*filter(is_testable, headline(common))]
    items, *others = share_items(samples.values() for samples in read_same_items(name, runs, names).values())
    clusters = np.array([sample.cluster for sample in items])
    tags, retagged = merge_tags([items, *others])
    return SharedBenchmark(name, records, clusters, tags, lay_out_outcomes([items, *others], metrics), retagged)


def read_same_items(name: str, runs: Sequence[System], names: Mapping[int, str]) -> dict[int, KeyedSamples]:
    """Read the samples of a benchmark, by the numbers of the runs; refuse runs of other content, items or clusters."""
    places = {number: (runs[number].folders[of_run], runs[number].record(of_run)) for number, of_run in names.items()}
    for folder, record in places.values():
        refuse_imported(folder, {name: record})
    expect_same_content(name, [*places.values()])
    keyed: dict[int, KeyedSamples] = {}
    for number, (folder, record) in places.items():
        keyed[number] = key_samples(read_samples(folder, names[number], record))
        start = next(iter(keyed))
        check_items(name, places[start][0], keyed[start], folder, keyed[number])
    return keyed


def expect_same_content(benchmark: str, measured: Sequence[tuple[Path, BenchmarkResult]]) -> None:
    """Refuse runs, by their folders, of different content; fingerprints of ids alone are compared with such alone."""
    for (first, a), (second, b) in combinations(measured, 2):
        if a.fingerprint != b.fingerprint and a.fingerprint.startswith(IDS_ONLY) == b.fingerprint.startswith(IDS_ONLY):
            again = ", and import both with one version" if is_imported(a) else ""
            raise RunError(
                f"{benchmark} is not the same in both runs: {first} measured content {a.fingerprint[:12]}, {second} "
                f"{b.fingerprint[:12]} (other items, captions, pixels or limit=); measure both on the same pairs{again}"
            )


def key_samples(samples: Iterable[Sample]) -> dict[tuple[str, str], Sample]:
    """Return samples by unit and id."""
    return {(sample.unit, sample.id): sample for sample in samples}


def share_items(runs: Iterable[Iterable[Sample]]) -> list[list[Sample]]:
    """Return the samples of the items that all runs have, in the first run's order."""
    keyed = [*map(key_samples, runs)]
    shared = [key for key in keyed[0] if all(key in samples for samples in keyed)]
    return [[samples[key] for key in shared] for samples in keyed]


def merge_tags(runs: Sequence[Sequence[Sample]]) -> tuple[list[dict[str, str]], dict[str, str]]:
    """Return the tags that each item has in any run, and tag -> an item whose values of it differ between runs."""
    tags = [sample.tags for sample in runs[0]]
    retagged: dict[str, str] = {}
    for run in runs[1:]:
        for row, sample in enumerate(run):
            if sample.tags != tags[row]:
                shared = sample.tags.keys() & tags[row].keys()
                retagged |= {tag: sample.id for tag in shared if sample.tags[tag] != tags[row][tag]}
                tags[row] = {**sample.tags, **tags[row]}
    return tags, retagged


def expect_tag(by: str, tags: Sequence[str]) -> None:
    """Refuse a tag that no item has."""
    if by not in tags:
        hint = f"the tags are {', '.join(tags)}" if tags else "these items have no tags"
        raise RunError(f"by={by!r}: no item has that tag{nearest(by, tags) or ';'} {hint}")


def expect_same_tag(benchmark: str, by: str, retagged: Mapping[str, str]) -> None:
    """Refuse a tag of which two runs have different values."""
    if by in retagged:
        raise RunError(
            f"{benchmark}: item {quote(retagged[by])} has another value of the tag {by!r} in one run than in another; "
            "measure both anew"
        )


def is_testable(metric: str) -> bool:
    """Return whether a metric of scores has one outcome an item, right or wrong; other tasks' metrics always pass."""
    return metric not in METRICS or (METRICS[metric].binary and not METRICS[metric].components)


def lay_out_outcomes(runs: Sequence[Sequence[Sample]], metrics: Sequence[str]) -> dict[str, NDArray[np.float64]]:
    """Return runs' values of the same items: metric -> float64 `(item, run)`, NaN if an item has no value.

    A metric of all items together (BLEU) has no value of any item, and is left out.
    """
    outcomes = {
        metric: np.column_stack(
            [np.fromiter((sample.outcomes.get(metric, np.nan) for sample in run), np.float64, len(run)) for run in runs]
        )
        for metric in metrics
    }
    return {metric: values for metric, values in outcomes.items() if not np.isnan(values).all()}


def refuse_imported(folder: Path | str, records: Mapping[str, BenchmarkResult]) -> None:
    """Refuse a run's records of benchmarks, by name, if another tool measured one of them, without samples."""
    imported = {name: record for name, record in records.items() if is_imported(record) and record.samples is None}
    if imported:
        names = join_names([f"{name} ({name_source(record)})" for name, record in imported.items()])
        raise RunError(
            f"{folder} holds numbers that another tool measured, of {names}: the outcomes of items are "
            "unknown, and its ties count otherwise; measure that model with `tellapart run`"
        )


def name_source(record: BenchmarkResult) -> str:
    """Return the name of the file that a record was imported from; of several files their number."""
    files = [name for name in record.origin.split(", ") if Path(name).suffix]
    return f"{len(files)} files" if len(files) > 1 else record.origin


def check_items(benchmark: str, first: Path, a: KeyedSamples, second: Path, b: KeyedSamples) -> None:
    """Refuse two runs whose samples differ in their items, clusters, or captions, if both hold captions."""
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
    recaptioned = [k for k, sample in a.items() if sample.texts and b[k].texts and sample.texts != b[k].texts]
    if recaptioned:
        raise RunError(
            f"{benchmark}: items have other captions, or another true one, in {first} than in {second}: "
            f"{join_names([id_ for _, id_ in recaptioned])}; measure both anew"
        )
