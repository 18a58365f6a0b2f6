"""Verify a run: numbers against samples, these against digest, set and file of scores, the model against the store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.find import find_again
from tellapart.benchmarks.locations import Locations
from tellapart.catalog import DEFAULT_MODEL, REFERENCES
from tellapart.data.answer_text import watch_reading
from tellapart.data.item import Item
from tellapart.data.pairset import Outline, PairSet
from tellapart.data.scores import join_names
from tellapart.data.strict_json import plain_stem
from tellapart.errors import RunError, TellapartError, quote
from tellapart.evaluation.evaluate import (
    Prepared,
    Remeasured,
    chosen,
    prepare,
    prepare_listed,
    remeasure_samples,
    yield_samples,
)
from tellapart.evaluation.systems import name_source
from tellapart.evaluation.verified import count_moved, differing_fields, list_numbers
from tellapart.models.find import find_model
from tellapart.models.options import ModelOptions
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.records.result import IDS_ONLY, BenchmarkResult, Located, Result, Sample, is_imported
from tellapart.records.run_folder import RESULTS, Checksum, find_located, locate, read_stored
from tellapart.records.samples import read_samples, samples_path
from tellapart.tasks.pairs import ListedPairs
from tellapart.tasks.registry import TASKS, find_task
from tellapart.tasks.task import Session

State = Literal["equal", "different", "cannot be checked"]

#: Facts of the record and of a set.
_MODEL, _SET = "model", "items of the set"

_CHECKSUMS: dict[Checksum, tuple[State, str]] = {
    "right": ("equal", ""),
    "wrong": ("different", "its checksum is not its content's"),
    "missing": ("cannot be checked", "it has no checksum"),
}

_UNKNOWN = "times, versions, the command, notes, how the model was read (dtype, weights), and how much was encoded"


class Check(BaseModel, frozen=True):
    """One fact of a record, checked.

    Attributes:
        benchmark: empty of the record itself.
        fact: a metric, with the tag's value in front if it is of a part; or a file.
        recorded, measured: the number in the record, and measured again: of the first field that differs.
        why: the field that differs, or the reason for which nothing can be checked.
    """

    benchmark: str = ""
    fact: str
    state: State = "equal"
    recorded: float | None = None
    measured: float | None = None
    why: str = ""


class Verification(BaseModel, frozen=True):
    """A run folder, verified; `unknown` are the facts of the record that nothing here can show."""

    run: str
    model: str
    checks: tuple[Check, ...]
    unknown: tuple[str, ...] = ()

    def count(self, state: State) -> int:
        """Count the checks that ended so."""
        return Counter(check.state for check in self.checks)[state]


def _judge(fact: str, why: str) -> Check:
    """Return a fact that differs for a reason, or is equal without one."""
    return Check(fact=fact, state="different" if why else "equal", why=why)


def verify_run(folder: Path, store: EmbeddingStore | None = None, scores: Sequence[Path] = ()) -> Verification:
    """Measure every number of a run folder again from its samples, and check the samples, the set and the model.

    The store has the names of models by their fingerprints, and pictures' hashes. A run's file of scores is that of
    `scores` with its hash, or else with its name.
    """
    stored = read_stored(folder, checked=False)
    store, result = store or EmbeddingStore(None), stored.result
    _hash_file.cache_clear()
    _refuse_foreign(scores, folder, result)
    model = _check_model(result, store)
    unknown = (_UNKNOWN, *([model] if isinstance(model, str) else []))
    state, why = _CHECKSUMS[stored.checksum]
    checks = [Check(fact=RESULTS, state=state, why=why), *([model] if isinstance(model, Check) else [])]
    for name in result.benchmarks:
        of_benchmark = _check_benchmark(folder, result, name, store, scores)
        checks += [check.model_copy(update={"benchmark": name}) for check in of_benchmark]
    return Verification(run=str(folder), model=result.model.name, checks=tuple(checks), unknown=unknown)


def _check_model(result: Result, store: EmbeddingStore) -> Check | str:
    """Check the model's name against the bundled models and the store, or describe why nothing here can show it."""
    model, options = result.model, ModelOptions(seed=result.run.seed)
    bundled = {find_model(name, options).fingerprint: name for name in (*REFERENCES, DEFAULT_MODEL)}
    names = {entry.fingerprint: entry.name for entry in store.models() if entry.name} | bundled
    name = names.get(model.fingerprint)
    # Scores from a file have its name unless the user gave another one.
    paths = [Path(record.file.path) for record in result.benchmarks.values() if record.file is not None]
    files = [name for path in paths for name in (plain_stem(path), path.stem)]  # older records name packed files so
    if name == model.name or (not model.fingerprint and model.name in files):
        return Check(fact=_MODEL)
    if name is None:
        if model.name in REFERENCES:
            return _judge(_MODEL, f"its fingerprint is not that of {quote(model.name)}")
        if files and not model.fingerprint and result.run.command and model.name not in result.run.command:
            return _judge(
                _MODEL, f"neither its file, {quote(files[0])}, nor the command has the name {quote(model.name)}"
            )
        return f"whether the model is {quote(model.name)}: nothing here knows its fingerprint"
    why = f"its fingerprint is that of {quote(name)}; the record has it as {quote(model.name)}"
    if model.name in result.run.command:
        return f"whether the model is {quote(model.name)}, as the command names it: {why}"
    certain = result.run.command and model.fingerprint in bundled
    return Check(fact=_MODEL, state="different" if certain else "cannot be checked", why=why)


def _check_benchmark(
    folder: Path, result: Result, name: str, store: EmbeddingStore, scores: Sequence[Path]
) -> Iterator[Check]:
    record = result.benchmarks[name]
    stated = list_numbers(record)
    try:
        if is_imported(record):
            missing = "no item is known" if record.samples is None else "its judgement of an item is not made again"
            raise RunError(f"another tool measured it ({name_source(record)}), and {missing}")
        samples = read_samples(folder, name, record.model_copy(update={"samples": None}))
        measured = remeasure_samples(name, record, samples, seed=result.run.seed)
    except TellapartError as error:
        if record.samples is not None:
            yield _check_digest(folder, name, record)
        yield from (
            Check(fact=_name_fact(key), state="cannot be checked", recorded=value.value, why=str(error))
            for key, value in stated.items()
        )
        return
    yield _check_digest(folder, name, record)
    yield from _check_numbers(record, measured)
    if measured.outcomes:
        moved = count_moved(samples, measured.outcomes)
        why = f"of {moved} of {len(samples)} items they do not follow from the scores" if moved else ""
        yield _judge("outcomes of items", why)
    yield from _check_set(folder, result, name, samples, store)
    if record.file is not None:
        yield _check_file(folder, result, name, record.file, samples, _find_file(record.file, folder, result, scores))


def _name_fact(key: tuple[str, str, str]) -> str:
    tag, value, metric = key
    return metric if not tag else f"{tag} = {value}: {metric}" if value else f"macro of {tag}: {metric}"


def _check_digest(folder: Path, name: str, record: BenchmarkResult) -> Check:
    fact = samples_path(folder, name).relative_to(folder).as_posix()
    if record.samples is None:
        return Check(fact=fact, state="cannot be checked", why="the record has no digest of it")
    try:
        read_samples(folder, name, record)
    except RunError as error:
        return _judge(fact, str(error))
    return Check(fact=fact)


def _check_numbers(record: BenchmarkResult, measured: Remeasured) -> Iterator[Check]:
    stated, recomputed = list_numbers(record), list_numbers(measured.table)
    for key in dict.fromkeys((*stated, *recomputed)):
        fact, old, new = _name_fact(key), stated.get(key), recomputed.get(key)
        if old is None or new is None:
            why = "the record lacks it" if old is None else "the samples hold no value of an item by it"
            value, again = (None if number is None else number.value for number in (old, new))
            yield Check(fact=fact, state="cannot be checked", recorded=value, measured=again, why=why)
            continue
        fields = differing_fields(old, new, partly=record.shape is None)
        field = fields[0] if fields else "value"
        yield Check(
            fact=fact,
            state="different" if fields else "equal",
            recorded=getattr(old, field),
            measured=getattr(new, field),
            why=", ".join(fields),
        )


@cache
def _hash_file(path: Path) -> str:
    """Return a file's SHA-256, for which it is read once in a verification."""
    return locate(path, path.parent, hashed=True).sha256


def _refuse_foreign(scores: Sequence[Path], folder: Path, result: Result) -> None:
    """Refuse a file that nothing would be checked against."""
    files = [record.file for record in result.benchmarks.values() if record.file is not None]
    names, hashes = {Path(file.path).name for file in files}, {file.sha256 for file in files}
    for path in scores if len(files) != 1 else ():
        if path.name not in names and _hash_file(path) not in hashes:
            made_of = join_names(sorted(names)) if names else "no file of scores"
            raise RunError(f"{folder} was made of {made_of}; {path} is none by name or content: leave it out")


def _find_file(file: Located, folder: Path, result: Result, scores: Sequence[Path]) -> Path | None:
    """Return the file that a record was made of: one of those that were named, the recorded one, or one beside."""
    name = Path(file.path).name

    def same(path: Path) -> bool:
        return path.is_file() and _hash_file(path) == file.sha256

    alone = sum(record.file is not None for record in result.benchmarks.values()) == 1
    candidates = [path for path in scores if path.name == name] or (scores if alone else [])
    if path := next(filter(same, scores), next(iter(candidates), None)):
        return path
    return find_located(file, folder) or next(filter(same, (folder / name, folder.resolve().parent / name)), None)


def _check_file(
    folder: Path, result: Result, name: str, file: Located, samples: Sequence[Sample], path: Path | None
) -> Check:
    """Check samples against the file of scores or predictions that they were read from."""
    fact = f"samples against {Path(file.path).name}"
    if path is None or not path.is_file():
        return Check(fact=fact, state="cannot be checked", why=f"{file.path} is not here; name it by --scores FILE")
    if _hash_file(path) != file.sha256:
        return _judge(fact, f"{path} is another file now: its SHA-256 is not the record's")
    try:
        rows = _read_file(folder, result, name, path, samples)
    except TellapartError as error:
        return Check(fact=fact, state="cannot be checked", why=str(error))
    of_file = {(row.unit, row.id): (row.scores, row.outcomes) for row in rows}
    moved = sum(of_file.get((sample.unit, sample.id)) != (sample.scores, sample.outcomes) for sample in samples)
    other = moved or len(of_file) != len(samples)
    return _judge(fact, f"{moved} of {len(samples)} items are not as {path} has them" if other else "")


def _read_file(folder: Path, result: Result, name: str, path: Path, samples: Sequence[Sample]) -> list[Sample]:
    """Read a file of scores or predictions as its run did, with the benchmark's files, or for pairs without them."""
    record = result.benchmarks[name]
    task = find_task(record.task, name)
    try:
        records = prepare_listed(find_set(folder, result, name)).records
    except TellapartError:
        if record.shape is None:
            raise
        records = ListedPairs(_outline(record.shape, samples))
    with watch_reading(record.field):
        predictions = task.read(path, records, kind=record.kind) if task.kinds else task.read(path, records)
    return [sample for units in TASKS[record.task].measure(records, predictions) for sample in yield_samples(units)]


def find_set(folder: Path, result: Result, name: str) -> Benchmark:
    """Find the benchmark of a run's record again, where its files lie now; errors are those of `find_again`."""
    files, data, images = (
        None if located is None else find_located(located, folder)
        for located in (result.benchmarks[name].own, result.run.data, result.run.images)
    )
    return find_again(name, files, Locations(data, images, columns=tuple(result.run.columns.items())))


def _outline(shape: tuple[int, int], samples: Sequence[Sample]) -> Outline:
    truths = tuple(sample.true for sample in samples) if any(sample.true for sample in samples) else ()
    ids, clusters, tags = zip(*((sample.id, sample.cluster, sample.tags) for sample in samples), strict=True)
    return Outline(ids, shape, clusters, tags, truths)


def _check_set(
    folder: Path, result: Result, name: str, samples: Sequence[Sample], store: EmbeddingStore
) -> Iterator[Check]:
    """Check what a record has of its set against the set's files, and against the samples what these give."""
    record = result.benchmarks[name]

    def compare(fact: str, stated: object, measured: object) -> Check:
        return _judge(
            fact, "" if stated == measured else f"recorded {quote(stated)}, and the set gives {quote(measured)}"
        )

    if (ids_only := record.fingerprint.startswith(IDS_ONLY)) and record.shape is not None:
        listed = ListedPairs(_outline(record.shape, samples))
        session = Session(pictures=lambda _reference: b"", store=store)
        yield compare("fingerprint", record.fingerprint, find_task(record.task, name).fingerprint_for(listed, session))
    try:
        benchmark = find_set(folder, result, name)
        yield compare("title", record.title, benchmark.title)
        if (place := benchmark.here()) is None:
            raise RunError(benchmark.needs())
        ready = prepare(replace(benchmark, place=place), store=store)  # without the network
        places = _find_places(ready, result, name, samples)
        limited = len(places) < ready.available
        records = ready.task.select(ready.records, places) if limited else ready.records
    except TellapartError as error:
        yield Check(fact=_SET, state="cannot be checked", why=str(error))
        return
    yield compare("published_items", record.published_items, benchmark.items if ready.unlike else None)
    in_python = limited and not (record.limited_from or result.run.command or result.run.limit)
    why = f"a caller in Python may have selected {len(places)} of the set's {ready.available}"
    stated = compare("limited_from", record.limited_from, ready.available if limited else None)
    yield Check(fact="limited_from", state="cannot be checked", why=why) if in_python else stated
    if record.limited_to is not None:  # older records have none
        yield compare("limited_to", record.limited_to, len(places) if limited else None)
    if isinstance(records, PairSet):
        moved = sum(map(_differs, samples, map(Item.truth_first, records.items)))
        yield _judge(_SET, f"{moved} of {len(samples)} items are not as the set has them" if moved else "")
        pairs = zip(samples, records.items, strict=True)
        if further := sorted({tag for sample, item in pairs for tag in sample.tags.keys() - item.tags.keys()}):
            yield Check(fact=f"further tags: {join_names(further)}", state="cannot be checked", why="of a file")
    if ids_only:
        return
    try:
        fingerprint = ready.task.fingerprint_for(records, ready.session)
    except TellapartError as error:
        yield Check(fact="fingerprint", state="cannot be checked", why=str(error))
        return
    hidden = ""
    if ready.task.shows_videos(records):
        hidden = "the record does not have the number of frames of a video"
    elif limited and not isinstance(records, PairSet):
        hidden = "the record does not show which of the set's were measured"
    if hidden and fingerprint != record.fingerprint:
        yield Check(fact="fingerprint", state="cannot be checked", why=hidden)
    else:
        yield compare("fingerprint", record.fingerprint, fingerprint)


def _find_places(ready: Prepared, result: Result, name: str, samples: Sequence[Sample]) -> Sequence[int]:
    """Return the places of a run's records in the set: of pairs and rows by their ids, of others by the limit."""
    if isinstance(ready.records, PairSet):
        places = {item.id: place for place, item in enumerate(ready.records.items)}
        if missing := [sample.id for sample in samples if sample.id not in places]:
            raise RunError(f"the set has no item {join_names(missing)}")
        return [places[sample.id] for sample in samples]
    if result.benchmarks[name].limited_from is None:
        return range(ready.available)
    measured = {sample.id for sample in samples if sample.unit == samples[0].unit}  # a group may have a row's id
    if rows := [place for place, row in enumerate(getattr(ready.records, "rows", ())) if row.id in measured]:
        return rows
    if result.run.limit is None:
        raise RunError("the record does not show which of the set's records were measured")
    return chosen(ready.available, result.run.limit)


def _differs(sample: Sample, item: Item) -> bool:
    tags = {tag: value for tag, value in sample.tags.items() if tag in item.tags}
    content = (sample.cluster, tags, sample.images or item.images, sample.texts or item.texts)
    return content != (item.cluster, item.tags, item.images, item.texts)
