"""Run folders, imported numbers and timings, as rows: what is new or changed is read, and what went is deleted."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from sqlmodel import Session, delete, select

from tellapart.board.entries import HIDDEN, Numbers, add_benchmark, add_model, add_numbers, remove
from tellapart.board.imported import Imported, ImportedModel, read_imported
from tellapart.board.settings import BoardSettings
from tellapart.board.store import Store
from tellapart.board.tables import Benchmark, Entry, Item, Model, Score, Source
from tellapart.board.tiering import rank
from tellapart.catalog import REFERENCES
from tellapart.errors import TellapartError
from tellapart.metrics.registry import headline
from tellapart.records.result import IDS_ONLY, BenchmarkResult, Result, Value
from tellapart.records.run_folder import RESULTS, file_name, read_result, read_samples
from tellapart.records.timing_record import read_timings

__all__ = ["IMPORTED", "TIMING", "read_in", "signature"]

#: The file of what models cost, wherever it lies below a folder of runs.
TIMING = "timing.json"

#: How a fingerprint begins that stands for numbers from elsewhere: nothing is known of the items behind them.
IMPORTED = "imported-"

Problem = Callable[[str], None]


def read_in(store: Store, settings: BoardSettings, problem: Problem) -> int:
    """Make the database hold what the settings name, and return how many files were read.

    A file that cannot be read is told to `problem`; the others are shown nevertheless.

    >>> with Store("sqlite://") as store:
    ...     read_in(store, BoardSettings(), print)
    0
    """
    with store.session() as session:
        files = list(_files(settings))
        known = {source.path: source for source in session.exec(select(Source)).all()}
        now = {str(path): (kind, _digest(path)) for path, kind in files}
        gone = [source for path, source in known.items() if now.get(path) != (source.kind, source.digest)]
        touched = _forget(session, gone, list(known.values())) if gone else set()
        still = set(session.exec(select(Source.path)).all())
        fresh = [(path, *now[str(path)]) for path, _ in files if str(path) not in still]
        for path, kind, digest in fresh:
            source = Source(path=str(path), digest=digest, kind=kind)
            session.add(source)
            session.flush()
            try:
                with session.begin_nested():
                    touched |= _READERS[kind](session, path, source)
            except TellapartError as error:
                problem(str(error))
        _tidy(session)
        if fresh:
            _cost(session, [path for path, kind in files if kind == "timing"], problem)
        for number in sorted(touched):
            if (benchmark := session.get(Benchmark, number)) is not None:
                _settle(session, benchmark)
                rank(session, benchmark)
        if fresh or gone:
            store.changed(session)
    return len(fresh)


def signature(settings: BoardSettings) -> tuple[tuple[str, int, int], ...]:
    """Return path, time of change and size of every file that would be read: another signature, and something changed.

    >>> signature(BoardSettings())
    ()
    """
    found = []
    for path, _ in _files(settings):
        with suppress(OSError):  # gone since it was listed
            stat = path.stat()
            found.append((str(path), stat.st_mtime_ns, stat.st_size))
    return tuple(found)


def _files(settings: BoardSettings) -> Iterator[tuple[Path, str]]:
    for folder in settings.runs:
        found = sorted(path for name in (RESULTS, TIMING) for path in folder.rglob(name))
        yield from ((path, "run" if path.name == RESULTS else "timing") for path in found)
    yield from ((path, "imported") for path in settings.imported)


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""  # its reader says what is wrong with it


def _forget(session: Session, gone: Sequence[Source], known: Sequence[Source]) -> set[int]:
    """Delete what came from sources that are not there any more, or are others now; say which benchmarks that touches.

    What a superseded source says may count again, so those are read again.
    """
    touched = set()
    for source in {source.id: source for source in (*gone, *(each for each in known if each.superseded))}.values():
        entries = session.exec(select(Entry).where(Entry.source_id == source.id)).all()
        touched |= {entry.benchmark_id for entry in entries}
        remove(session, entries)
        session.delete(source)
    session.flush()
    return touched


def _tidy(session: Session) -> None:
    """Delete models and benchmarks of which no record is left."""
    for model in session.exec(select(Model).where(Model.id.not_in(select(Entry.model_id)))).all():  # type: ignore[union-attr]
        session.delete(model)
    for benchmark in session.exec(select(Benchmark).where(Benchmark.id.not_in(select(Entry.benchmark_id)))).all():  # type: ignore[union-attr]
        session.exec(delete(Item).where(Item.benchmark_id == benchmark.id))  # type: ignore[arg-type]
        session.delete(benchmark)
    session.flush()


def _read_run(session: Session, path: Path, source: Source) -> set[int]:
    result = read_result(path.parent)
    touched = set()
    for name, record in result.benchmarks.items():
        elsewhere = record.fingerprint.startswith(IMPORTED)
        samples = [] if record.fingerprint.startswith((IMPORTED, HIDDEN)) else read_samples(path.parent, name)
        benchmark = add_benchmark(session, name, record, samples)
        numbers = Numbers(
            started=result.run.started,
            record=record,
            samples=samples,
            run=result.run.model_dump(mode="json"),
            folder=str(path.parent),
            on_trust=record.fingerprint.startswith((IDS_ONLY, IMPORTED)),
            tie_rule=" ".join(record.notes) or "not known" if elsewhere else "",
        )
        add_numbers(session, add_model(session, _model(result)), benchmark, source, numbers)
        touched.add(benchmark.id or 0)
    return touched


def _model(result: Result) -> Model:
    record = result.model
    parts = (record.name, record.fingerprint, record.dtype or "", record.reading or "", record.prompt or "")
    # An imported result's fingerprint stands for the file; its name is all that several of them share.
    identity = f"{IMPORTED}{record.name}" if record.fingerprint.startswith(IMPORTED) else "\n".join(parts)
    return Model(
        slug=file_name(record.name),
        name=record.name,
        label=record.name,
        kind="reference" if record.name in REFERENCES else "human" if record.name == "human" else "model",
        identity=identity,
        fingerprint=record.fingerprint,
        note=", ".join(part for part in (record.dtype, record.reading, record.prompt) if part),
    )


def _read_imported(session: Session, path: Path, source: Source) -> set[int]:
    found = read_imported(path)
    touched = set()
    for each in found.models:
        model = add_model(session, _imported_model(each, found.source))
        for name in {**each.scores, **{name: 0 for tag in each.by.values() for one in tag.values() for name in one}}:
            record = _record(name, each, found)
            benchmark = add_benchmark(session, name, record, [])
            numbers = Numbers(
                started="", record=record, samples=(), on_trust=True, tie_rule=found.tie_rule, note=found.source
            )
            add_numbers(session, model, benchmark, source, numbers)
            touched.add(benchmark.id or 0)
    return touched


def _imported_model(each: ImportedModel, source: str) -> Model:
    return Model(
        slug=file_name(each.name),
        name=each.name,
        label=each.name,
        kind=each.kind,
        identity=f"{IMPORTED}{each.name}",
        fingerprint=IMPORTED,
        note=each.note,
        latency=each.latency,
        parameters=None if each.parameters is None else round(each.parameters),
        training_images=None if each.training_images is None else round(each.training_images),
        cost_source=source,
    )


def _record(name: str, each: ImportedModel, found: Imported) -> BenchmarkResult:
    items = found.items.get(name, 0)

    def values(of: dict[str, float]) -> dict[str, Value]:
        return {
            metric: Value(value=value, method="as reported", n=items, clusters=items, average="as reported")
            for metric, value in of.items()
        }

    by = {
        tag: {value: {"metrics": values(one[name])} for value, one in groups.items() if name in one}
        for tag, groups in each.by.items()
    }
    return BenchmarkResult.model_validate(
        {
            "title": name,
            "fingerprint": IMPORTED + name,
            "metrics": values(each.scores.get(name, {})),
            "by": {tag: groups for tag, groups in by.items() if groups},
            "origin": found.source,
        }
    )


def _read_timing(_session: Session, path: Path, _source: Source) -> set[int]:
    read_timings(path)  # for its error; what it says is told to models when all of them are there
    return set()


_READERS: dict[str, Callable[[Session, Path, Source], set[int]]] = {
    "run": _read_run,
    "imported": _read_imported,
    "timing": _read_timing,
}


def _cost(session: Session, paths: Sequence[Path], problem: Problem) -> None:
    """Tell models what they cost: of the same name and weights, wherever they were timed."""
    for path in paths:
        try:
            timings = read_timings(path)
        except TellapartError as error:
            problem(str(error))
            continue
        for timing in timings.models:
            same = (Model.name == timing.model.name, Model.fingerprint == timing.model.fingerprint)
            for model in session.exec(select(Model).where(*same)).all():
                model.latency = timing.latency.median
                model.parameters = timing.parameters
                model.cost_source = f"{path}: {timing.machine.processor}, {timing.device}, {timing.dtype}"
                session.add(model)


def _settle(session: Session, benchmark: Benchmark) -> None:
    """Choose the metrics of a first look: the papers' if any model has them, else every share of right answers."""
    of_all = (Score.benchmark_id == benchmark.id, Score.tag == "")
    names = session.exec(select(Score.metric).where(*of_all, Score.deviation == False).distinct()).all()  # noqa: E712
    order = list(dict.fromkeys(names))
    benchmark.headline = list(headline(set(order)) or sorted(order))
    session.add(benchmark)
