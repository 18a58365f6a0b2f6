"""The dry run of `tellapart run`: list problems, count what is stored, forecast the time; and parts for any dry run."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.filesize import decimal

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.catalog import REFERENCES
from tellapart.data.images import pixel_hash
from tellapart.data.pairset import PairSet
from tellapart.data.progress import Progress
from tellapart.data.scores import join_names
from tellapart.errors import TellapartError, plain
from tellapart.evaluation.evaluate import Prepared, chosen, evaluate, plan
from tellapart.evaluation.run import Settings, holds, look_up, place_runs, prepare_for, resolve, settle_dtype
from tellapart.models.find import Deferred, find_prefix
from tellapart.models.memory.adapter import is_stored
from tellapart.models.protocols import DualEncoder, Model
from tellapart.models.store.content_hash import text_hash
from tellapart.models.store.embedding_store import EmbeddingStore, decoded_as, filed_as
from tellapart.records.machine import device_peak, resident_memory
from tellapart.records.result import Result
from tellapart.report.frame import Frame, columns_of
from tellapart.report.terminal import console, print_lines

#: A line on a row or a file that cannot be read, such as `pairs.jsonl:3: field 'image': no file 'a.png'`; and a quoted
#: value in it, which differs from row to row, or the name of a field, which does not.
_FAULT = re.compile(r"(?P<place>.+?)(?::(?P<line>\d+))?: (?P<fault>.*)", re.DOTALL)
_VALUE = re.compile(r"((?:field|key) '[^']*')|'[^']*'|\"[^\"]*\"")

#: Numbers of items that are timed; the second is left out if the first took more than `_PATIENCE` seconds.
TRIED_ITEMS = (8, 32)
_PATIENCE = 5.0


@dataclass
class Problems:
    """The problems found so far, each a line that names its place and the next step."""

    found: list[str] = field(default_factory=list)
    _texts: set[str] = field(default_factory=set)  # as `found`, for a fast look-up among a million unreadable rows

    def add(self, problem: object) -> None:
        """Keep a problem, once."""
        if (text := plain(str(problem))) not in self._texts:
            self._texts.add(text)
            self.found.append(text)

    @contextmanager
    def collect(self, before: str = "") -> Iterator[None]:
        """Keep an error of the block as a problem, with a text before it, and go on after the block."""
        try:
            yield
        except (TellapartError, OSError) as error:
            self.add(f"{before}{error}")


def join_faults(lines: Iterable[str]) -> list[str]:
    """Return the first line of each fault, with the places of the other rows or files that have the same fault."""
    alike: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for line in lines:
        match = _FAULT.fullmatch(line)
        place, number, fault = match.groups() if match else (line, None, line)
        key = (place if number else "", _VALUE.sub(r"\1", fault))
        alike.setdefault(key, []).append((line, f"line {number}" if number else place))
    return [
        first + (f"; likewise {join_names([place for _, place in others], limit=3)}" if others else "")
        for (first, _), *others in alike.values()
    ]


def fit_seconds(measure_some: Callable[[int], None], items: int) -> float:
    """Time 8 items, then 32, and return the seconds that all items would take, on a line through both times.

    If 8 items took long, 32 are not timed, and the line goes through 0 items in 0 seconds.
    """
    points = [(0, 0.0)]
    for count in sorted({min(items, item) for item in TRIED_ITEMS}):
        began = time.perf_counter()
        measure_some(count)
        points.append((count, time.perf_counter() - began))
        if points[-1][1] > _PATIENCE:
            break
    (few, short), (many, long) = points[-2:]
    return long + max(0.0, long - short) / (many - few) * (items - many)


#: Seconds for which pictures of a set are decoded to find equal ones; later pictures count as distinct.
_DECODING = 5.0

#: A set, and its images: reference -> hash of pixels, or the reference itself if the image was not decoded.
_Opened = tuple[Prepared, dict[str, str]]


@dataclass(frozen=True, slots=True)
class RunPlan:
    """The outcome of a dry run.

    Attributes:
        problems: lines, each of which would stop the run; if there is one, nothing is timed.
        sets: a row for each set: its items and distinct images; of pairs also captions, distinct texts, and scores.
        parts: a row for each model on each set: images, texts and scores that the store lacks, None if it keeps none;
            wall seconds for them without loading the model, None if unknown, and the basis of this number.
        opening: seconds to open all sets and models.
        memory: bytes, the most that this process, or its GPU, held.
    """

    out: str
    problems: tuple[str, ...]
    sets: Frame
    parts: Frame
    opening: float
    memory: int | None

    def to_json(self) -> dict[str, Any]:
        """Return the JSON of `tellapart run --dry-run --json`."""
        facts = {name: getattr(self, name) for name in self.__slots__}
        return {"passed": not self.problems, **facts, "sets": self.sets.rows(), "parts": self.parts.rows()}

    def show(self) -> None:
        """Print sets, parts, costs and problems."""
        print_lines(plain(f"a dry run: nothing is written, and the run would go to {self.out}"))
        for frame in filter(len, (self.sets, self.parts)):
            console().print(*frame.tables())
        if len(self.parts) and not self.problems:
            seconds, memory = self.parts["seconds"], "unknown" if self.memory is None else decimal(self.memory)
            print_lines(
                f"time: about {self.opening:,.0f} s to open sets and models, {sum(filter(None, seconds)):,.0f} s to "
                f"compute, {seconds.count(None)} parts unknown; memory: {memory} up to here, more in larger batches"
            )
        print_lines(*(f"problem: {problem}" for problem in join_faults(self.problems)))
        print_lines(f"{len(self.problems):,} to mend before this run" if self.problems else "no problem found")


class _ReadStore(EmbeddingStore):
    """The user's store, which a dry run only reads; it is empty if there is no file."""

    def __init__(self, path: Path | None) -> None:
        super().__init__(path if path is not None and path.is_file() else None)
        self.path = None  # no file is replaced, or made beside it

    def put_model(self, source: str, facts: Mapping[str, str]) -> None:
        """Keep nothing."""


def plan_run(
    settings: Settings, out: Path, path: Path | None, progress: Progress | None = None, faults: Sequence[str] = ()
) -> RunPlan:
    """Find every problem of a run, count what it needs and what is stored, and try a few items for the time.

    `path` is the store's file, None for one in memory. `progress` is called with "models on sets". `faults` are
    problems of names in a file of Python, whose models and sets are not in the settings.
    """
    began, problems, parts = time.monotonic(), Problems([*faults]), list[dict[str, Any]]()
    settings = replace(settings, names=()) if faults else settings
    with _ReadStore(path) as store:
        with problems.collect():
            settings = settle_dtype(settings)
        benchmarks, models = _open_all(settings, store, problems)
        opening = time.monotonic() - began
        opened = [one for benchmark in benchmarks for one in _open_set(benchmark, settings, store, problems)]
        names = settings.names if len(settings.names) == len(models) else [model.name for model in models]
        measured = _read_measured(models, settings, out, problems) if len(models) == len(settings.models) else {}
        for row, model in enumerate(models):
            for one in opened:
                if progress is not None:
                    progress("models on sets", len(parts), len(models) * len(opened))
                with problems.collect():
                    plan(model, one[0].benchmark)
                    lacks = _count_lacking(model, *one)
                    seconds, basis = None, "mend the problems first"
                    if row in measured and holds(out, measured[row], one[0]):
                        seconds, basis = 0.0, f"measured in {out} already"
                    elif not problems.found:
                        seconds, basis = _time_items(model, settings.models[row], one, lacks, settings)
                    news = {f"new_{kind}": lacks.get(kind) for kind in ("images", "texts", "scores")}
                    name = one[0].benchmark.name
                    parts.append({"set": name, "model": names[row], "basis": basis, **news, "seconds": seconds})
    sets = [{"set": ready.benchmark.name, **_count(ready, hashes)} for ready, hashes in opened]
    peak = resident_memory(peak=True) if settings.device == "cpu" else device_peak(settings.device)
    return RunPlan(str(out), tuple(problems.found), Frame(columns_of(sets)), Frame(columns_of(parts)), opening, peak)


def _open_all(
    settings: Settings, store: EmbeddingStore, problems: Problems
) -> tuple[list[Benchmark], list[Model | Deferred]]:
    """Open sets and models as the run does; if that fails, those that can be opened alone, for their problems."""
    with problems.collect():
        return resolve(settings, store)
    benchmarks, models, alone = list[Benchmark](), list[Model | Deferred](), replace(settings, names=(), items=None)
    for benchmark in settings.benchmarks:
        with problems.collect():
            benchmarks += resolve(replace(alone, models=(), benchmarks=(benchmark,)), store)[0]
    for model in settings.models:
        if model not in REFERENCES:  # alone they would refuse the options of the others
            with problems.collect():
                models += resolve(replace(alone, models=(model,), benchmarks=()), store)[1]
    return benchmarks, models


def _read_measured(
    models: Sequence[Model | Deferred], settings: Settings, out: Path, problems: Problems
) -> dict[int, Result]:
    """Return the record in each model's folder; one of another run is a problem, but where a dtype is chosen."""
    measured: dict[int, Result] = {}
    if out.exists() and settings.flips is None:
        with problems.collect():
            for row, place in enumerate(place_runs(models, [settings.dtype] * len(models), settings, out)):
                with problems.collect():
                    found = look_up(*place)
                    measured |= {row: found} if is_stored(models[row]) else {}
    return measured


def _open_set(benchmark: Benchmark, settings: Settings, store: EmbeddingStore, problems: Problems) -> Iterator[_Opened]:
    with problems.collect():
        ready = prepare_for(settings, benchmark, store)
        pairs, until = ready.records if isinstance(ready.records, PairSet) else None, time.monotonic() + _DECODING

        def read_picture(reference: str) -> str:
            with problems.collect("" if pairs else f"{benchmark.name}: "):
                data = (pairs.read_bytes if pairs else ready.session.pictures)(reference)
                key = decoded_as(pairs.content_key(reference, data) if pairs else "")
                if name := store.pixel_hash(key):
                    return name
                if time.monotonic() < until:
                    return pixel_hash((pairs or ready.session).pixels(reference))
            return reference

        references = ready.task.images_of(ready.records)
        with ThreadPoolExecutor() as pool:
            yield ready, dict(zip(references, pool.map(read_picture, references), strict=True))


def _count(ready: Prepared, hashes: Mapping[str, str]) -> dict[str, Any]:
    """Count the items, and what they need."""
    counts: dict[str, Any] = dict.fromkeys(("items", "images", "captions", "texts", "scores"))
    counts |= {"items": ready.task.size(ready.records), "images": len({*hashes.values()})}
    if isinstance(ready.records, PairSet):
        texts = [text for item in ready.records.items for text in item.texts]
        scores = len(_list_scores(ready.records, hashes))
        counts |= {"captions": len(texts), "texts": len({*texts}), "scores": scores}
    return counts


def _list_scores(pairs: PairSet, hashes: Mapping[str, str]) -> set[str]:
    return {hashes[image] + text_hash(text) for item in pairs.items for image in item.images for text in item.texts}


def _count_lacking(model: Model | Deferred, ready: Prepared, hashes: Mapping[str, str]) -> dict[str, int]:
    """Count the images, texts and scores that the store lacks; nothing of a model or a task of which it keeps none."""
    if not isinstance(ready.records, PairSet) or not is_stored(model):
        return {}
    store, key, scores = ready.session.store, filed_as(model.fingerprint), _list_scores(ready.records, hashes)
    decoded = {name for reference, name in hashes.items() if name != reference}
    stored = store.numbers(key, [pair for pair in scores if pair[:-64] in decoded])
    texts = {pair[-64:] for pair in scores}  # the hash of a text ends the key
    return {
        "images": len({*hashes.values()}) - len(store.numbers(key, decoded)),
        "texts": len(texts) - len(store.numbers(key, texts)),
        "scores": len(scores) - len(stored),
    }


def _time_items(
    model: Model | Deferred, given: object, opened: _Opened, lacks: Mapping[str, int], settings: Settings
) -> tuple[float | None, str]:
    """Measure a few items as if nothing were stored; return the seconds for all that is lacking, and their basis."""
    if lacks and not lacks["scores"]:
        return 0.0, "all scores are stored"
    if isinstance(given, str) and (prefix := find_prefix(given)) and "calls" in (prefix.takes or ()):
        return None, "a server is not asked"
    model = model.load() if isinstance(model, Deferred) else model
    ready, hashes = opened

    def take_some(count: int) -> Prepared:
        session = replace(ready.session, store=EmbeddingStore(None), hashes={})
        rows = chosen(ready.task.size(ready.records), str(count))
        return replace(ready, records=ready.task.select(ready.records, rows), session=session)

    def measure_some(count: int) -> None:
        evaluate(model, take_some(count), batch_size=settings.batch_size, seed=settings.seed)

    few, kinds = take_some(TRIED_ITEMS[1]), ("images", "texts") if isinstance(model, DualEncoder) else ("scores",)
    tried = _count(few, {reference: hashes[reference] for reference in few.task.images_of(few.records)})
    needed, kinds = (lacks, kinds) if lacks else (_count(ready, hashes), ("items",))
    items = tried["items"] * sum(needed[kind] for kind in kinds) / sum(tried[kind] for kind in kinds)
    measure_some(1)  # a model is slower at first
    return fit_seconds(measure_some, max(1, math.ceil(items))), f"at most {TRIED_ITEMS[1]} items, timed"
