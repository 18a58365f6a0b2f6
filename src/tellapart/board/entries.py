"""One model's numbers on one benchmark, written as rows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import insert
from sqlmodel import Session, delete, select

from tellapart.benchmarks.benchmark import find_benchmark
from tellapart.benchmarks.task_benchmark import TaskBenchmark
from tellapart.board.tables import RAW, Answer, Benchmark, Entry, Item, Model, Score, Source, Vector
from tellapart.board.vectors import outcome_vectors, packed, score_vector
from tellapart.errors import RunError, TellapartError
from tellapart.records.result import IDS_ONLY, BenchmarkResult, Sample, Value
from tellapart.records.run_folder import file_name

__all__ = ["HIDDEN", "Numbers", "add_benchmark", "add_model", "add_numbers", "remove"]


#: How a fingerprint begins that stands for labels which stay on the server: its record has no samples.
HIDDEN = "hidden-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """What one model got on one benchmark.

    Attributes:
        started: when; of two records of a model on a benchmark the later one is kept.
        record, samples: as the run folder has them; no samples for imported numbers.
        run, folder, on_trust, tie_rule, note: as in `Entry`.

    >>> record = BenchmarkResult(title="", fingerprint="f", metrics={}, origin="")
    >>> Numbers(started="", record=record, samples=()).folder
    ''
    """

    started: str
    record: BenchmarkResult
    samples: Sequence[Sample]
    run: Mapping[str, Any] = field(default_factory=dict)
    folder: str = ""
    on_trust: bool = False
    tie_rule: str = ""
    note: str = ""


def add_model(session: Session, model: Model) -> Model:
    """Add a model, or return the one that it is; its label and address are made distinct.

    >>> from tellapart.board.store import Store
    >>> with Store("sqlite://") as store, store.session() as session:
    ...     made = [Model(slug="a", name="a", label="a", kind="model", identity=each) for each in ("1", "2", "1")]
    ...     [add_model(session, each).label for each in made]
    ['a', 'a (2)', 'a']
    """
    there = session.exec(select(Model).where(Model.identity == model.identity)).first()
    if there is not None:
        return there
    same = len(session.exec(select(Model.id).where(Model.name == model.name)).all())
    if same:
        model.label = f"{model.name} ({same + 1})"
    model.slug = _free(model.slug if not same else f"{model.slug}-{same + 1}", session.exec(select(Model.slug)).all())
    session.add(model)
    session.flush()
    return model


def add_benchmark(session: Session, name: str, record: BenchmarkResult, samples: Sequence[Sample]) -> Benchmark:
    """Add a benchmark with its items, or return the one whose items these are.

    Scores made elsewhere speak of ids alone, and imported numbers of a name alone: those join what fits them.

    >>> from tellapart.board.store import Store
    >>> record = BenchmarkResult(title="Mine", fingerprint="f", metrics={}, origin="")
    >>> with Store("sqlite://") as store, store.session() as session:
    ...     add_benchmark(session, "mine", record, [Sample(id="a", cluster="a", outcomes={})]).n
    1
    """
    digest = _items_digest(samples)
    named = session.exec(select(Benchmark).where(Benchmark.name == name).order_by(Benchmark.id)).all()  # type: ignore[arg-type]
    for there in named:
        if _same(there, record, digest):
            if samples and not there.items_digest:
                _fill(session, there, record, samples, digest)
            return there
    taken = session.exec(select(Benchmark.slug)).all()
    slug = _free(file_name(name) if not named else f"{file_name(name)}-{len(named) + 1}", taken)
    domain, rival, title = _declared(name)
    made = Benchmark(
        slug=slug, name=name, fingerprint=record.fingerprint, title=title or record.title, task=record.task, n=0
    )
    made.domain, made.rival = domain, rival
    session.add(made)
    session.flush()
    _fill(session, made, record, samples, digest)
    return made


def add_numbers(session: Session, model: Model, benchmark: Benchmark, source: Source, numbers: Numbers) -> Entry | None:
    """Write what a model got on a benchmark; None if a later record of the same is there already.

    Raises:
        RunError: the samples are not those of the benchmark's items.

    >>> Entry.__tablename__
    'entry'
    """
    there = session.exec(
        select(Entry).where(Entry.benchmark_id == benchmark.id, Entry.model_id == model.id)
    ).one_or_none()
    if there is not None:
        later = there.started > numbers.started
        loser = source if later else session.get_one(Source, there.source_id)
        loser.superseded = loser.superseded or loser.id != (there.source_id if later else source.id)
        session.add(loser)
        if later:
            return None
        remove(session, [there])
    samples = _in_order(session, benchmark, numbers)
    entry = Entry(
        model_id=model.id or 0,
        benchmark_id=benchmark.id or 0,
        source_id=source.id or 0,
        started=numbers.started,
        folder=numbers.folder,
        record=numbers.record.model_dump(mode="json", exclude={"by", "macro"}),
        run=dict(numbers.run),
        on_trust=numbers.on_trust,
        tie_rule=numbers.tie_rule,
        note=numbers.note,
    )
    session.add(entry)
    session.flush()
    _add_rows(session, Score, list(_scores(entry, numbers.record)))
    _add_rows(session, Vector, list(_vectors(entry, samples)))
    if numbers.record.shape is None:
        answers = (
            {"entry_id": entry.id, "position": place, "output": json.dumps(sample.output, ensure_ascii=False)}
            for place, sample in enumerate(samples)
        )
        _add_rows(session, Answer, list(answers))
    return entry


def remove(session: Session, entries: Sequence[Entry]) -> None:
    """Delete entries with their numbers.

    >>> from tellapart.board.store import Store
    >>> with Store("sqlite://") as store, store.session() as session:
    ...     remove(session, [])
    """
    for entry in entries:
        for table in (Answer, Vector, Score):
            session.exec(delete(table).where(table.entry_id == entry.id))  # type: ignore[arg-type]
        session.delete(entry)
    session.flush()


def _add_rows(session: Session, table: Any, rows: list[dict[str, Any]]) -> None:
    if rows:
        session.execute(insert(table), rows)


def _same(there: Benchmark, record: BenchmarkResult, digest: str) -> bool:
    if there.fingerprint == record.fingerprint:
        return True
    if HIDDEN in (there.fingerprint[: len(HIDDEN)], record.fingerprint[: len(HIDDEN)]):
        return False  # whose items these are is nobody's to know
    if not digest or not there.items_digest:
        return True  # one of the two is a name alone
    ids_only = there.fingerprint.startswith(IDS_ONLY) or record.fingerprint.startswith(IDS_ONLY)
    return ids_only and there.items_digest == digest


def _items_digest(samples: Sequence[Sample]) -> str:
    if not samples:
        return ""
    keys = sorted((sample.unit, sample.id, sample.cluster) for sample in samples)
    return hashlib.sha256(json.dumps(keys).encode()).hexdigest()


def _fill(
    session: Session, benchmark: Benchmark, record: BenchmarkResult, samples: Sequence[Sample], digest: str
) -> None:
    benchmark.fingerprint, benchmark.items_digest, benchmark.task = record.fingerprint, digest, record.task
    benchmark.images_each, benchmark.texts_each = record.shape or (None, None)
    benchmark.n = len(samples) or max((value.n for value in record.metrics.values()), default=0)
    if samples:
        benchmark.title = record.title
    session.add(benchmark)
    session.flush()
    rows = (
        {
            "benchmark_id": benchmark.id,
            "position": place,
            "name": sample.id,
            "unit": sample.unit,
            "cluster": sample.cluster,
            "gold": sample.gold,
            "tags": sample.tags,
            "images": list(sample.images),
            "texts": list(sample.texts),
        }
        for place, sample in enumerate(samples)
    )
    _add_rows(session, Item, list(rows))


def _declared(name: str) -> tuple[str, str, str]:
    """Domain, rival and title, as the catalogue has them; empty for a benchmark that it does not know."""
    try:
        found = find_benchmark(name)
    except TellapartError:
        return "", "", ""
    return (found.domain, found.rival, found.title) if isinstance(found, TaskBenchmark) else ("", "", found.title)


def _in_order(session: Session, benchmark: Benchmark, numbers: Numbers) -> list[Sample]:
    if not numbers.samples:
        return []
    rows = session.exec(
        select(Item.unit, Item.name).where(Item.benchmark_id == benchmark.id).order_by(Item.position)  # type: ignore[arg-type]
    ).all()
    by_key = {(sample.unit, sample.id): sample for sample in numbers.samples}
    if by_key.keys() != {(unit, name) for unit, name in rows}:
        raise RunError(
            f"{numbers.folder}: {len(by_key):,} samples of {benchmark.name} are not its {len(rows):,} items, though the "
            "fingerprints agree; the run folder was cut off: measure it again"
        )
    return [by_key[unit, name] for unit, name in rows]


def _scores(entry: Entry, record: BenchmarkResult) -> Iterable[dict[str, Any]]:
    yield from (_score(entry, "", "", name, value) for name, value in record.metrics.items())
    for tag, groups in record.by.items():
        for of, group in groups.items():
            yield from (_score(entry, tag, of, name, value) for name, value in group.metrics.items())
    for tag, macro in record.macro.items():
        yield from (_score(entry, tag, "", name, value) for name, value in macro.metrics.items())


def _score(entry: Entry, tag: str, value_of: str, metric: str, value: Value) -> dict[str, Any]:
    return {
        "entry_id": entry.id,
        "benchmark_id": entry.benchmark_id,
        "tag": tag,
        "value_of": value_of,
        "metric": metric,
        "deviation": value.mean_absolute is not None,
        **value.model_dump(include={"value", "low", "high", "chance", "n", "ties", "tie_neutral"}),
    }


def _vectors(entry: Entry, samples: Sequence[Sample]) -> Iterable[dict[str, Any]]:
    for name, (values, tied) in outcome_vectors(samples).items():
        yield {"entry_id": entry.id, "metric": name, "data": packed(values), "tied": tied}
    if (scores := score_vector(samples)) is not None:
        yield {"entry_id": entry.id, "metric": RAW, "data": packed(scores), "tied": b""}


def _free(wanted: str, taken: Sequence[str]) -> str:
    # Addresses and file names: two that differ by case alone would be one file on some systems.
    used, name, count = {each.lower() for each in taken}, wanted or "model", 1
    while name.lower() in used:
        count += 1
        name = f"{wanted}-{count}"
    return name
