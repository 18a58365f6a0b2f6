"""A board's records in memory: run folders, imported numbers and timings as tables, with tiers of models.

A thread looks for changed files. If there are any, it makes new tables, which replace the old ones.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from tellapart.benchmarks.find import declared_benchmark
from tellapart.catalog import REFERENCES, is_ranked
from tellapart.data.arguments import PathGiven, as_path
from tellapart.data.rows import read_toml
from tellapart.data.validation import validate
from tellapart.errors import DataError, RunError, TellapartError, UnknownNameError, first_line, plain
from tellapart.evaluation.compare import rank_outcomes
from tellapart.evaluation.verified import read_result
from tellapart.models.transductive import MARK
from tellapart.records.imported import Imported, ImportedModel
from tellapart.records.result import HIDDEN, IDS_ONLY, IMPORTED, BenchmarkResult, Result, RunRecord, Sample, Value
from tellapart.records.run_folder import RESULTS, file_name
from tellapart.records.samples import read_samples
from tellapart.records.timing_record import Timings, read_timings
from tellapart.tasks.registry import headline, is_higher_better, main_metric, read_bounded

_TOML_TABLES = {"board", "submissions", "hidden"}


class BoardSettings(BaseModel, frozen=True, extra="forbid"):
    """The settings of a board, from a TOML file or options.

    Attributes:
        title: the title of every page.
        about: a paragraph below the first page's title.
        runs: folders that hold run folders at any depth; `timing.json` files in them give models' costs.
        imported: files of imported numbers.
        performance: benchmarks over which a model's mean is taken; all of them if empty.
        file: the board file, if one was read: it lists the hidden benchmarks.
    """

    title: str = "Which model can tell them apart?"
    about: str = ""
    runs: tuple[Path, ...] = ()
    imported: tuple[Path, ...] = ()
    performance: tuple[str, ...] = ()
    file: Path | None = Field(default=None, exclude=True)


def as_board_file(board: PathGiven | None) -> Path:
    """Return the path of a board file; a folder is refused."""
    path = as_path(board, "board")
    if path.is_dir():
        raise DataError(f"board={path} is a folder; name the board file, such as {path / 'board.toml'}", path=path)
    return path


def read_settings(path: Path) -> BoardSettings:
    """Read a board file; its paths are relative to it."""
    content = read_toml(path)
    if unknown := sorted(set(content) - _TOML_TABLES):
        raise DataError(f"{path}: there is no table {unknown[0]!r}; a board file has {', '.join(sorted(_TOML_TABLES))}")
    settings = validate(BoardSettings, content.get("board", {}), f"{path}: [board]")
    update: dict[str, Any] = {"file": path}
    for name in ("runs", "imported"):
        update[name] = tuple(path.parent / entry.expanduser() for entry in getattr(settings, name))
    return settings.model_copy(update=update)


class Model(BaseModel, frozen=True):
    """A model with certain weights and a certain way of being scored; it has one row for all of its runs.

    Pages get its slug, label and kind; the fields with `exclude` stay on the server.
    """

    slug: str  # its name in addresses
    label: str  # its name on the board, which no other model has
    kind: str  # `model`, `reference`, `draw` (answers at a temperature) or `human`
    name: str = Field(exclude=True)
    identity: str = Field(exclude=True)  # equal for two records of the same model
    fingerprint: str = Field(default="", exclude=True)
    note: str = Field(default="", exclude=True)
    latency: float | None = Field(default=None, exclude=True)  # seconds for one pair
    parameters: int | None = Field(default=None, exclude=True)  # how many; None if unknown
    training_images: int | None = Field(default=None, exclude=True)  # how many; None if unknown
    cost_source: str = Field(default="", exclude=True)  # where latency and the two counts are from


@dataclass(frozen=True, slots=True)
class Item:
    """One item of a benchmark, or a task's query, statement or question."""

    name: str
    unit: str
    cluster: str
    gold: str
    tags: Mapping[str, str]
    images: tuple[str, ...]
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ItemList:
    """The items of a benchmark in order. Runs on the same items share one list."""

    rows: tuple[Item, ...] = ()
    digest: str = ""  # of ids, units and clusters, in any order; empty if no items are known

    @property
    def clusters(self) -> list[str]:
        """The cluster of each item."""
        return [item.cluster for item in self.rows]


class Benchmark(BaseModel, frozen=True):
    """A set of items. Records with the same name and another fingerprint are another benchmark.

    The fields with `exclude` stay on the server.
    """

    slug: str
    name: str
    title: str  # `set_title`, and `part` in parentheses
    task: str
    n: int = 0  # the number of items; 0 if unknown
    metric: str = ""  # the metric that ranks its models
    has_items: bool = False  # whether its items are in the tables, and have pages
    part: str = ""  # `20 of 300 items` if runs measured a part of the benchmark alone (`--limit`), else empty
    fingerprint: str = Field(exclude=True)
    set_title: str = Field(exclude=True)
    shape: tuple[int, int] | None = Field(default=None, exclude=True)  # images and texts of an item; None for tasks
    items: ItemList = Field(default=ItemList(), exclude=True)
    limited_from: int | None = Field(default=None, exclude=True)  # items of the full benchmark, if this is a part
    headline: tuple[str, ...] = Field(default=(), exclude=True)  # the metrics of the leaderboard
    domain: str = Field(default="", exclude=True)  # VLUE's, `in-domain` or `out-of-domain`, from the catalogue
    rival: str = Field(default="", exclude=True)  # the name of the benchmark of the other domain

    @property
    def label(self) -> str:
        """Its name, and its part if it is one."""
        return f"{self.name} ({self.part})" if self.part else self.name

    @property
    def is_hidden(self) -> bool:
        """Whether its labels stay on the server, and its numbers are rounded."""
        return self.fingerprint.startswith(HIDDEN)


@dataclass(frozen=True, slots=True)
class Entry:
    """The numbers of one model on one benchmark."""

    name: str  # the benchmark's name in the run; on the board, the start of a fingerprint may follow it
    record: BenchmarkResult
    items: ItemList = ItemList()
    model: str = ""  # model, benchmark: their slugs; empty until the entry is in the tables
    benchmark: str = ""
    started: str = ""
    folder: Path | None = None  # the run folder; None for imported numbers
    run: RunRecord | None = None  # how, when and with which versions it was measured
    on_trust: bool = False  # whether its scores were computed elsewhere, or its numbers imported
    tie_rule: str = ""  # empty for the strict rule of this package; else a description of the rule that was used
    note: str = ""
    values: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)  # metric -> (item,); NaN without a value
    tied: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)  # metric -> (item,); only metrics with ties
    scores: NDArray[np.float32] | None = None  # (item, image, text); None for tasks, and without items
    outputs: tuple[Any, ...] = ()  # a model's output for each item of a task

    @property
    def mark(self) -> str:
        """The mark of its numbers: empty, `on trust` or `imported`."""
        if not self.on_trust:
            return ""
        # Imported numbers have a `tie_rule`, also in run folders; scores from elsewhere get the strict rule.
        return "on trust" if self.folder is not None and not self.tie_rule else "imported"


@dataclass(frozen=True, slots=True)
class Tables:
    """One state of a board's records. Every page is made from one state; after files changed, a new one is made."""

    settings: BoardSettings
    version: int = 0  # how often the records have changed
    models: dict[str, Model] = field(default_factory=dict)  # by slug, like benchmarks
    benchmarks: dict[str, Benchmark] = field(default_factory=dict)
    entries: dict[tuple[str, str], Entry] = field(default_factory=dict)  # (benchmark, model), by slug
    unread: dict[Path, str] = field(default_factory=dict)  # file that could not be read -> why, for readers
    # (benchmark, metric) -> model -> its rank among the models that were tested against each other
    tiers: dict[tuple[str, str], dict[str, int]] = field(default_factory=dict)

    def model(self, slug: str) -> Model:
        """Return the model with this slug."""
        if slug not in self.models:
            raise UnknownNameError(f"this board has no model {slug[:200]!r}")
        return self.models[slug]

    def benchmark(self, slug: str) -> Benchmark:
        """Return the benchmark with this slug."""
        if slug not in self.benchmarks:
            raise UnknownNameError(f"this board has no benchmark {slug[:200]!r}")
        return self.benchmarks[slug]

    def benchmark_named(self, name: str) -> Benchmark | None:
        """Return the first benchmark with a name; None if there is none, or if the name is empty."""
        return next((benchmark for benchmark in self.benchmarks.values() if name and benchmark.name == name), None)

    def entries_of(self, *, model: str = "", benchmark: str = "") -> list[Entry]:
        """Return the entries of a model, or those on a benchmark."""
        return [entry for key, entry in self.entries.items() if key[0] == benchmark or key[1] == model]


#: The file of models' costs, anywhere below a folder of runs.
TIMING = "timing.json"

#: The folders of an absolute path in an error's text: `/home/ann/` of `cannot read /home/ann/run.json`.
_FOLDERS = re.compile(r"""(?<![^\s"'(=:,])/(?:[^/\s"':;,]+/)+""")
#: Letters of an error that readers see.
_MOST_LETTERS = 300

#: If tiers need sign flips, so many of the best models are tested, and the others have no tier. The time grows with the
#: cube of the number: 1.6 s a metric for 40 models (8,000 items, 4,000 clusters, one core), 27 s for 100.
MOST_TESTED = 40

#: Called with one line for each file that is left out.
ReportProblem = Callable[[str], None]

#: A file's path -> its kind (`run`, `imported` or `timing`), the time of its change and its size.
Signature = dict[Path, tuple[str, int, int]]


@dataclass(frozen=True, slots=True)
class FileContent:
    """The content of one file of the board: entries with their models, or timings, or why it could not be read."""

    state: tuple[str, int, int]  # as in `Signature`; the file is read again when this changes
    entries: tuple[tuple[Model, Entry | None], ...] = ()
    timings: Timings | None = None
    problem: str = ""  # why the file could not be read; such a file is read again when any file changes


#: The state of the records of hidden benchmarks, which are in no file.
_HIDDEN = ("hidden", 0, 0)


class Board:
    """The records of a board's files, and of its hidden benchmarks. `tables` is their newest state."""

    def __init__(self, settings: BoardSettings, hidden: Callable[[], Sequence[Result]] = tuple) -> None:
        self.settings, self.tables, self._read_hidden = settings, Tables(settings), hidden
        self._files: dict[Path, FileContent] = {}  # in the order in which they were first read, which decides names
        self._seen: Signature = {}  # the files' states when they were last read in
        self._hidden = FileContent(_HIDDEN)
        self._lists: dict[str, ItemList] = {}  # digest -> the list that runs on these items share
        # benchmark -> the records that its tiers were computed from, and metric -> model -> tier
        self._ranked: dict[str, tuple[object, dict[str, dict[str, int]]]] = {}
        self._lock = Lock()

    def read_in(self, report: ReportProblem) -> int:
        """Bring the tables up to date with the files, and return how many of these were read.

        A file that cannot be read is reported, left out, shown with its reason (`Tables.unread`) and tried again.
        """
        with self._lock:
            results = self._read_hidden()
            hidden = FileContent(_HIDDEN, tuple(entry for result in results for entry in self._entries_of(result)))
            states = signature(self.settings)
            if states == self._seen and hidden == self._hidden:
                return 0
            unchanged = {
                path: content
                for path, content in self._files.items()
                if states.get(path) == content.state and not content.problem
            }
            entries = (entry for content in unchanged.values() for _, entry in content.entries if entry)
            self._lists = {entry.items.digest: entry.items for entry in entries}
            fresh = {path: self._read_file(path, state) for path, state in states.items() if path not in unchanged}
            files = {**unchanged, **fresh}
            tables = Tables(self.settings, self.tables.version + 1)
            for path, content in files.items():
                try:
                    tables = _add_entries(tables, content.entries)
                except Exception as error:
                    files[path] = FileContent(content.state, problem=_describe_error(path, error))
            tables = _add_entries(tables, hidden.entries)
            for path, content in files.items():
                if content.problem:
                    report(content.problem)
                    tables.unread[path] = _shorten_problem(content.problem, path)
                if content.timings:
                    _add_costs(tables, path, content.timings)
            self._rank(tables)
            self._files, self._seen, self._hidden, self.tables = files, states, hidden, tables
            return len(fresh)

    def _read_file(self, path: Path, state: tuple[str, int, int]) -> FileContent:
        try:
            if state[0] == "timing":
                return FileContent(state, timings=read_timings(path))
            if state[0] == "imported":
                return FileContent(state, _read_imported(path))
            result = read_result(path.parent)
            if result.model.name.endswith(MARK):
                raise RunError(
                    f"{path}: {result.model.name} was trained on the items that it is measured on, so it has no place "
                    "among other models; take the run out of the board's folders"
                )
            return FileContent(state, tuple(self._entries_of(result, path.parent)))
        except Exception as error:  # whatever is wrong with one file, the others are shown
            return FileContent(state, problem=_describe_error(path, error))

    def _entries_of(self, result: Result, folder: Path | None = None) -> Iterator[tuple[Model, Entry | None]]:
        """Yield the model and an entry for each benchmark of a result; hidden ones have no folder and no samples."""
        source = result.model
        # An imported model's fingerprint is that of its file. The name is equal in all files with numbers of the model.
        is_imported = source.fingerprint.startswith(IMPORTED)
        kind = "model" if is_ranked(source.name) else "reference" if source.name in REFERENCES else "draw"
        kind = "human" if source.name == "human" else kind
        notes = (source.dtype, _count_flips(result), source.reading, source.prompt)
        model = Model(
            slug=file_name(source.name),
            name=source.name,
            label=source.name,
            kind=kind,
            identity=f"{IMPORTED}{source.name}" if is_imported else "\n".join(source.system),
            fingerprint=source.fingerprint,
            note=", ".join(filter(None, notes)),
        )
        for name, record in result.benchmarks.items():
            imported = record.fingerprint.startswith(IMPORTED)
            lacks_samples = record.fingerprint.startswith((IMPORTED, HIDDEN))
            samples = [] if folder is None or lacks_samples else read_samples(folder, name, record)
            metrics = dict.fromkeys(metric for sample in samples for metric in sample.outcomes)
            tied = {metric: np.array([metric in sample.tied for sample in samples]) for metric in metrics}
            has_scores = bool(samples) and all(sample.scores for sample in samples)
            entry = Entry(
                name=name,
                record=record,
                items=self._share_items(samples),
                started=result.run.started,
                run=result.run,
                folder=folder,
                on_trust=record.fingerprint.startswith((IDS_ONLY, IMPORTED)),
                tie_rule=next(iter(record.notes), "not known") if imported else "",
                values={
                    metric: np.array([sample.outcomes.get(metric, np.nan) for sample in samples], np.float32)
                    for metric in metrics
                },
                tied={metric: ties for metric, ties in tied.items() if ties.any()},
                scores=np.array([sample.scores for sample in samples], np.float32) if has_scores else None,
                outputs=tuple(sample.output for sample in samples) if record.shape is None else (),
            )
            yield model, entry

    def _share_items(self, samples: Sequence[Sample]) -> ItemList:
        """Return the items of samples; runs on the same items get the same list."""
        if not samples:
            return ItemList()
        rows = tuple(Item(s.id, s.unit, s.cluster, s.gold, s.tags, s.images, s.texts) for s in samples)
        names = json.dumps(sorted((item.unit, item.name, item.cluster) for item in rows))
        items = ItemList(rows, hashlib.sha256(names.encode()).hexdigest())
        stored = self._lists.setdefault(items.digest, items)
        return stored if stored == items else items  # the digest lacks texts, images and the order

    def _rank(self, tables: Tables) -> None:
        """Set headlines and tiers of each benchmark in the tables; those of unchanged records are computed once."""
        ranked: dict[str, tuple[object, dict[str, dict[str, int]]]] = {}
        for benchmark in tables.benchmarks.values():
            entries = tables.entries_of(benchmark=benchmark.slug)
            measured = [pair for entry in entries for pair in entry.record.metrics.items()]
            accuracies = dict.fromkeys(metric for metric, value in measured if value.mean_absolute is None)
            # The papers' metrics if any model has them, else every accuracy.
            chosen = tuple(headline(accuracies) or sorted(accuracies))
            benchmark = benchmark.model_copy(update={"headline": chosen, "metric": main_metric(chosen)})  # noqa: PLW2901
            tables.benchmarks[benchmark.slug] = benchmark
            if benchmark.limited_from is not None:
                continue
            key = (benchmark, [(entry.model, entry.record) for entry in entries])
            before, tiers = self._ranked.get(benchmark.slug, (None, {}))
            if before != key:
                tiers = {metric: rank(tables, benchmark, metric, entries) for metric in benchmark.headline}
            ranked[benchmark.slug] = (key, tiers)
            tables.tiers.update({(benchmark.slug, metric): ranks for metric, ranks in tiers.items()})
        self._ranked = ranked


def _add_costs(tables: Tables, path: Path, timings: Timings) -> None:
    for timing in timings.models:
        for slug, model in tables.models.items():
            if (model.name, model.fingerprint) == (timing.model.name, timing.model.fingerprint):
                source = f"{path}: {timing.machine.processor}, {timing.device}, {timing.dtype}"
                costs = {"latency": timing.latency.median, "parameters": timing.parameters}
                tables.models[slug] = model.model_copy(update={**costs, "cost_source": source})


def _describe_error(path: Path, error: Exception) -> str:
    return str(error) if isinstance(error, TellapartError) else f"{path}: {first_line(error)}"


def rank(tables: Tables, benchmark: Benchmark, metric: str, entries: Sequence[Entry]) -> dict[str, int]:
    """Return the tier of each model that was tested against others by a metric: no reference models, no people.

    It is empty for a metric of which high values are not the best.
    """
    if not is_higher_better(metric):
        return {}
    models = tables.models
    tested = [
        entry
        for entry in entries
        if models[entry.model].kind == "model" and metric in entry.values and metric in entry.record.metrics
    ]
    # Best first: if sign flips of all pairs would take too long, only the first are tested.
    tested.sort(key=lambda entry: (-entry.record.metrics[metric].value, models[entry.model].label))
    outcomes = {entry.model: entry.values[metric] for entry in tested}
    tiers = rank_outcomes(outcomes, benchmark.items.clusters, most=MOST_TESTED) if outcomes else []
    return {slug: tier.rank for tier in tiers for slug in tier.names}


def rank_places(values: Sequence[float | None]) -> list[int | None]:
    """Return the places of values, 1 for the largest; equal ones share one, and None has none."""
    ordered = sorted(-value for value in values if value is not None)
    return [None if value is None else 1 + bisect_left(ordered, -value) for value in values]


def _add_entries(tables: Tables, entries: Iterable[tuple[Model, Entry | None]]) -> Tables:
    """Return a copy of the tables with all entries of a file; an error leaves the tables as they were."""
    tables = replace(tables, models={**tables.models}, benchmarks={**tables.benchmarks}, entries={**tables.entries})
    for read_model, entry in entries:
        model = _add_model(tables, read_model)
        if entry is None:
            continue
        benchmark = _add_benchmark(tables, entry)
        key = (benchmark.slug, model.slug)
        stored = tables.entries.get(key)
        if stored is None or stored.started <= entry.started:  # the latest run of a model on a benchmark stays
            tables.entries.pop(key, None)
            tables.entries[key] = replace(_sort_items(entry, benchmark), benchmark=benchmark.slug, model=model.slug)
    return tables


def _add_model(tables: Tables, model: Model) -> Model:
    """Add a model, with a unique label and slug, or return the one with the same identity."""
    stored = next((other for other in tables.models.values() if other.identity == model.identity), None)
    if stored is not None:
        return stored
    labels, count, slug = {other.label for other in tables.models.values()}, 1, model.slug
    while model.label in labels:
        count += 1
        model, slug = model.model_copy(update={"label": f"{model.name} ({count})"}), f"{model.slug}-{count}"
    slug = _free_slug(slug, tables.models)
    tables.models[slug] = model.model_copy(update={"slug": slug})
    return tables.models[slug]


def _add_benchmark(tables: Tables, entry: Entry) -> Benchmark:
    """Add the benchmark of an entry, or return the stored one with the same items.

    Scores computed elsewhere have only the items' ids: they belong to the benchmark of their name with the same ids.
    Imported numbers have only the benchmark's name: they belong to the first of that name. If two sets have one name
    and different content, the start of the second's fingerprint follows its name: `folder:pairs#7f31c2aa`.
    """
    name, record = entry.name, entry.record
    set_name = name.partition("#")[0] if record.own else name  # a user's set may have a fingerprint in its name already
    full_size = record.limited_from  # a limited run is listed apart from runs on all items
    stored = [
        benchmark
        for benchmark in tables.benchmarks.values()
        if (benchmark.name == set_name or benchmark.name.startswith(f"{set_name}#"))
        and benchmark.limited_from == full_size
    ]
    for benchmark in stored:
        if _has_same_items(benchmark, entry):
            if entry.items.rows and not benchmark.items.rows:
                benchmark = tables.benchmarks[benchmark.slug] = _fill_facts(benchmark, entry)  # noqa: PLW2901
            return benchmark
    if stored and full_size is None:
        name = f"{set_name}#{record.fingerprint.rpartition('-')[2][:8]}"
    slug = file_name(name) if full_size is None else f"{file_name(name)}-{_count_items(entry)}-of-{full_size}"
    slug = _free_slug(slug, tables.benchmarks)
    listed = declared_benchmark(set_name)
    title = (listed and listed.title) or record.title
    facts: dict[str, Any] = {"task": record.task, "fingerprint": record.fingerprint, "limited_from": full_size}
    facts |= {"domain": listed.domain, "rival": listed.rival} if listed else {}
    benchmark = Benchmark(slug=slug, name=name, title=title, set_title=title, **facts)
    tables.benchmarks[slug] = _fill_facts(benchmark, entry)
    return tables.benchmarks[slug]


def _has_same_items(benchmark: Benchmark, entry: Entry) -> bool:
    fingerprints = (benchmark.fingerprint, entry.record.fingerprint)
    if fingerprints[0] == fingerprints[1]:
        return True
    if any(fingerprint.startswith(HIDDEN) for fingerprint in fingerprints):
        return False  # a hidden benchmark's items are not compared
    if not entry.items.digest or not benchmark.items.digest:
        return True  # one of the two has no ids: only the name can match
    ids_only = any(fingerprint.startswith(IDS_ONLY) for fingerprint in fingerprints)
    return ids_only and benchmark.items.digest == entry.items.digest


def _count_items(entry: Entry) -> int:
    """Return the number of items of an entry; further units of a task, such as groups of items, are not counted."""
    measured = max((value.n for value in entry.record.metrics.values()), default=0)
    return entry.record.limited_to or measured or len(entry.items.rows)


def _fill_facts(benchmark: Benchmark, entry: Entry) -> Benchmark:
    """Return a benchmark with the items and the facts of an entry's record."""
    record, items = entry.record, entry.items
    n = _count_items(entry)
    part = "" if benchmark.limited_from is None else f"{n:,} of {benchmark.limited_from:,} items"
    title = record.title if items.rows else benchmark.set_title
    facts = {name: getattr(record, name) for name in ("fingerprint", "task", "shape")}
    facts |= {"n": n, "part": part, "items": items, "has_items": bool(items.rows)}
    return benchmark.model_copy(update={**facts, "set_title": title, "title": f"{title} ({part})" if part else title})


def _sort_items(entry: Entry, benchmark: Benchmark) -> Entry:
    """Return an entry with its items in the benchmark's order."""
    if not entry.items.rows or entry.items is benchmark.items:
        return entry
    positions = {(item.unit, item.name): k for k, item in enumerate(entry.items.rows)}
    keys = [(item.unit, item.name) for item in benchmark.items.rows]
    if positions.keys() != {*keys}:
        raise RunError(
            f"{entry.folder}: {len(positions):,} samples of {benchmark.name} are not its {len(keys):,} items, "
            "though the fingerprints agree; the run folder was cut off: measure it again"
        )
    order = [positions[key] for key in keys]
    return replace(
        entry,
        items=benchmark.items,
        values={name: column[order] for name, column in entry.values.items()},
        tied={name: column[order] for name, column in entry.tied.items()},
        scores=None if entry.scores is None else entry.scores[order],
        outputs=tuple(entry.outputs[k] for k in order) if entry.outputs else (),
    )


def _free_slug(slug: str, used: Iterable[str]) -> str:
    # Slugs are also file names: two that differ only in case would be one file on some systems.
    lower, name, count = {other.lower() for other in used}, slug or "model", 1
    while name.lower() in lower:
        count += 1
        name = f"{slug}-{count}"
    return name


def signature(settings: BoardSettings) -> Signature:
    """Return the files of a board by their absolute paths, with states that differ if a file has changed."""
    files = {
        path: "run" if path.name == RESULTS else "timing"
        for folder in settings.runs
        for path in sorted(path for name in (RESULTS, TIMING) for path in folder.resolve().rglob(name))
        if path.is_file()  # reading a pipe of this name would wait for its writer
    }
    files |= dict.fromkeys((path.resolve() for path in settings.imported), "imported")
    states = {}
    for path, kind in files.items():
        states[path] = (kind, 0, 0)
        with suppress(OSError):  # deleted since it was listed: reading it then reports the error
            stat = path.stat()
            states[path] = (kind, stat.st_mtime_ns, stat.st_size)
    return states


def _shorten_problem(problem: str, path: Path) -> str:
    """Return why a file could not be read, for a page: on one line and without its path on this machine."""
    line = " ".join(problem.split()).replace(f"{path.parent}{os.sep}", "")
    return plain(_FOLDERS.sub("…/", line)[:_MOST_LETTERS]) or "it cannot be read"


def _count_flips(result: Result) -> str:
    """Return in words how many outcomes a lower precision flips; empty if that was not checked."""
    checks = (benchmark.precision for benchmark in result.benchmarks.values() if benchmark.precision is not None)
    used = [check for check in checks if check.dtype == result.model.dtype]  # not if `auto` refused that precision
    flips = [flip for check in used for flip in check.flips.values()]
    if not flips:
        return ""
    return f"{sum(flip.flipped for flip in flips):,} of {sum(flip.n for flip in flips):,} outcomes flip against float32"


def _read_imported(path: Path) -> tuple[tuple[Model, Entry | None], ...]:
    imported = read_bounded(path)
    entries: list[tuple[Model, Entry | None]] = []
    for source in imported.models:
        model = Model(
            slug=file_name(source.name),
            label=source.name,
            identity=f"{IMPORTED}{source.name}",
            fingerprint=IMPORTED,
            parameters=None if source.parameters is None else round(source.parameters),
            training_images=None if source.training_images is None else round(source.training_images),
            cost_source=imported.source,
            **source.model_dump(include={"name", "kind", "note", "latency"}),
        )
        tagged = (name for groups in source.by.values() for scores in groups.values() for name in scores)
        entries.append((model, None))  # a model without scores may still have costs
        for name in dict.fromkeys((*source.scores, *tagged)):
            record = _make_record(name, source, imported)
            entry = Entry(name, record, on_trust=True, tie_rule=imported.tie_rule, note=imported.source)
            entries.append((model, entry))
    return tuple(entries)


def _make_record(name: str, model: ImportedModel, imported: Imported) -> BenchmarkResult:
    items = imported.items.get(name, 0)

    def make_values(scores: dict[str, float]) -> dict[str, Value]:
        return {
            metric: Value(value=value, method="as reported", n=items, clusters=items, average="as reported")
            for metric, value in scores.items()
        }

    by = {
        tag: {value: {"metrics": make_values(scores[name])} for value, scores in groups.items() if name in scores}
        for tag, groups in model.by.items()
    }
    return BenchmarkResult.model_validate(
        {
            "title": name,
            "fingerprint": IMPORTED + name,
            "metrics": make_values(model.scores.get(name, {})),
            "by": {tag: groups for tag, groups in by.items() if groups},
            "origin": imported.source,
        }
    )


def tireless_thread(name: str, turn: Callable[[], float], over: Event, *, wait: float = 0.0) -> Thread:
    """Return a thread that calls `turn` until `over` is set; a turn returns the seconds to wait until the next.

    If the thread ends before that, so does the process, for a supervisor to start it again.
    """

    def take_turns() -> None:
        pause = wait
        try:
            while not over.is_set():
                with suppress(BaseException):  # also SystemExit and the like, as no other thread does this work
                    while not over.wait(pause):
                        pause = turn()
        finally:
            if not over.is_set():
                os.kill(os.getpid(), signal.SIGTERM)

    return Thread(target=take_turns, name=name, daemon=True)


#: Seconds between two looks at the folders; they double after every failure, up to the second number.
SECONDS, _MOST_SECONDS = 5.0, 30.0


@contextmanager
def watch(board: Board, report: ReportProblem, *, seconds: float = SECONDS) -> Iterator[Callable[[], float]]:
    """Look for changes every few seconds while the block lasts; yield a function that returns the board's age.

    The age is the seconds since the last look without an error. After an error, which is reported, the next look tries
    again.
    """
    over, succeeded, pause = Event(), time.monotonic(), seconds

    def look() -> float:
        nonlocal succeeded, pause
        try:
            board.read_in(report)
            succeeded, pause = time.monotonic(), seconds
        except BaseException as error:
            expected = isinstance(error, TellapartError)
            reason = str(error) if expected else f"{type(error).__name__}: {first_line(error)}"
            pause = min(2 * pause, max(_MOST_SECONDS, seconds))
            with suppress(Exception):  # standard error may be closed
                report(f"the board could not be brought up to date: {reason}; it is tried again in {pause:g} s")
        return pause

    thread = tireless_thread("watch", look, over, wait=seconds)
    thread.start()
    try:
        yield lambda: time.monotonic() - succeeded
    finally:
        over.set()
        thread.join()
