"""Add rows to the board's database: models, benchmarks with their items, and entries (one model on one benchmark)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import insert
from sqlmodel import Session, col, delete, select

from tellapart.benchmarks.find import declared_benchmark
from tellapart.board.tables import RAW, Benchmark, Entry, Item, Model, Score, Source, TaskOutput, Vector
from tellapart.board.vectors import outcome_vectors, pack, score_vector
from tellapart.errors import RunError
from tellapart.records.result import IDS_ONLY, BenchmarkResult, Sample, Value
from tellapart.records.run_folder import file_name

#: The prefix of a hidden benchmark's fingerprint. Its labels stay on the server, and its record has no samples.
HIDDEN = "hidden-"

#: What precedes, in the note of such a record, the items and the rounding of its numbers.
HIDDEN_NUMBERS = "numbers are of "


def is_hidden(benchmark: Benchmark) -> bool:
    """Return whether a benchmark's labels stay on the server, and its numbers are rounded."""
    return benchmark.fingerprint.startswith(HIDDEN)


def add_model(session: Session, model: Model) -> Model:
    """Add a model, with a unique label and slug, or return the stored model with the same identity.

    >>> from tellapart.board.store import Store
    >>> with Store("sqlite://") as store, store.session() as session:
    ...     models = [Model(slug="a", name="a", label="a", kind="model", identity=key) for key in ("1", "2", "1")]
    ...     [add_model(session, model).label for model in models]
    ['a', 'a (2)', 'a']
    """
    stored = session.exec(select(Model).where(Model.identity == model.identity)).first()
    if stored is not None:
        return stored
    same = len(session.exec(select(Model.id).where(Model.name == model.name)).all())
    if same:
        model.label = f"{model.name} ({same + 1})"
    slug = model.slug if not same else f"{model.slug}-{same + 1}"
    model.slug = _free_slug(slug, session.exec(select(Model.slug)).all())
    session.add(model)
    session.flush()
    return model


def add_benchmark(session: Session, name: str, record: BenchmarkResult, samples: Sequence[Sample]) -> Benchmark:
    """Add a benchmark with its items, or return the stored benchmark with the same items.

    Scores computed elsewhere have only the items' ids, and imported numbers only the benchmark's name: they go to the
    stored benchmark of that name with the same ids or, without ids, to the first of that name. If two sets share a
    name and differ in content, the name of the second ends in the start of its fingerprint: `folder:pairs#7f31c2aa`.
    """
    set_name = name.partition("#")[0] if record.own else name
    digest = _items_digest(samples)
    full_size = record.limited_from  # a limited run is listed apart from runs on all items
    suffixed = col(Benchmark.name).startswith(f"{set_name}#", autoescape=True)
    same_name = (col(Benchmark.name) == set_name) | suffixed
    same_size = col(Benchmark.limited_from).is_not_distinct_from(full_size)
    stored = session.exec(select(Benchmark).where(same_name, same_size).order_by(col(Benchmark.id))).all()
    for benchmark in stored:
        if _has_same_items(benchmark, record, digest):
            if samples and not benchmark.items_digest:
                _fill_benchmark(session, benchmark, record, samples, digest)
            return benchmark
    if stored and full_size is None:
        name = f"{set_name}#{record.fingerprint.rpartition('-')[2][:8]}"
    slug = file_name(name) if full_size is None else f"{file_name(name)}-{len(samples)}-of-{full_size}"
    domain, rival, title = _catalogue_entry(set_name)
    benchmark = Benchmark(
        slug=_free_slug(slug, session.exec(select(Benchmark.slug)).all()),
        name=name,
        fingerprint=record.fingerprint,
        title=title or record.title,
        task=record.task,
        n=0,
        limited_from=full_size,
        domain=domain,
        rival=rival,
    )
    _fill_benchmark(session, benchmark, record, samples, digest)
    return benchmark


def add_entry(session: Session, entry: Entry, record: BenchmarkResult, samples: Sequence[Sample]) -> None:
    """Add an entry with its scores and vectors, unless a later entry of the same model and benchmark is stored.

    An earlier one is replaced.
    """
    stored = session.exec(
        select(Entry).where(Entry.benchmark_id == entry.benchmark_id, Entry.model_id == entry.model_id)
    ).one_or_none()
    if stored is not None:
        winner, loser = (stored, entry) if stored.started > entry.started else (entry, stored)
        if winner.source_id != loser.source_id:
            source = session.get_one(Source, loser.source_id)
            source.superseded = True
            session.add(source)
        if winner is stored:
            return
        remove(session, [stored])
    samples = _in_order(session, entry, samples)
    entry.record = record.model_dump(mode="json", exclude={"by", "macro"})
    session.add(entry)
    session.flush()
    _insert_rows(session, Score, _score_rows(entry, record))
    _insert_rows(session, Vector, _vector_rows(entry, samples))
    if record.shape is None:
        outputs = (
            {"entry_id": entry.id, "position": k, "output": json.dumps(sample.output, ensure_ascii=False)}
            for k, sample in enumerate(samples)
        )
        _insert_rows(session, TaskOutput, outputs)


def remove(session: Session, entries: Sequence[Entry]) -> None:
    """Delete entries with their scores, vectors and outputs."""
    for entry in entries:
        for table in (TaskOutput, Vector, Score):
            session.exec(delete(table).where(table.entry_id == entry.id))  # type: ignore[arg-type]
        session.delete(entry)
    session.flush()


def _insert_rows(session: Session, table: Any, rows: Iterable[dict[str, Any]]) -> None:
    if rows := list(rows):
        session.execute(insert(table), rows)


def _has_same_items(benchmark: Benchmark, record: BenchmarkResult, digest: str) -> bool:
    if benchmark.fingerprint == record.fingerprint:
        return True
    if is_hidden(benchmark) or record.fingerprint.startswith(HIDDEN):
        return False  # a hidden benchmark's items are not compared
    if not digest or not benchmark.items_digest:
        return True  # one of the two has no ids: only the name can match
    ids_only = benchmark.fingerprint.startswith(IDS_ONLY) or record.fingerprint.startswith(IDS_ONLY)
    return ids_only and benchmark.items_digest == digest


def _items_digest(samples: Sequence[Sample]) -> str:
    if not samples:
        return ""
    keys = sorted((sample.unit, sample.id, sample.cluster) for sample in samples)
    return hashlib.sha256(json.dumps(keys).encode()).hexdigest()


def _fill_benchmark(
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
            "position": k,
            "name": sample.id,
            "images": list(sample.images),
            "texts": list(sample.texts),
            **{name: getattr(sample, name) for name in ("unit", "cluster", "gold", "tags")},
        }
        for k, sample in enumerate(samples)
    )
    _insert_rows(session, Item, rows)


def _catalogue_entry(name: str) -> tuple[str, str, str]:
    """Return domain, rival and title from the catalogue; empty for a benchmark that it does not list."""
    benchmark = declared_benchmark(name)
    return (benchmark.domain, benchmark.rival, benchmark.title) if benchmark else ("", "", "")


def _in_order(session: Session, entry: Entry, samples: Sequence[Sample]) -> Sequence[Sample]:
    if not samples:
        return samples
    rows = session.exec(
        select(Item.unit, Item.name).where(Item.benchmark_id == entry.benchmark_id).order_by(col(Item.position))
    ).all()
    by_key = {(sample.unit, sample.id): sample for sample in samples}
    if by_key.keys() != {(unit, name) for unit, name in rows}:
        name = session.get_one(Benchmark, entry.benchmark_id).name
        raise RunError(
            f"{entry.folder}: {len(by_key):,} samples of {name} are not its {len(rows):,} items, "
            "though the fingerprints agree; the run folder was cut off: measure it again"
        )
    return [by_key[unit, name] for unit, name in rows]


def _score_rows(entry: Entry, record: BenchmarkResult) -> Iterable[dict[str, Any]]:
    yield from (_score_row(entry, "", "", name, value) for name, value in record.metrics.items())
    for tag, groups in record.by.items():
        for value_of, group in groups.items():
            yield from (_score_row(entry, tag, value_of, name, value) for name, value in group.metrics.items())
    for tag, macro in record.macro.items():
        yield from (_score_row(entry, tag, "", name, value) for name, value in macro.metrics.items())


_SCORED = {"value", "low", "high", "reason", "chance", "n", "ties", "tie_neutral", "official"}


def _score_row(entry: Entry, tag: str, value_of: str, metric: str, value: Value) -> dict[str, Any]:
    return {
        "entry_id": entry.id,
        "benchmark_id": entry.benchmark_id,
        "tag": tag,
        "value_of": value_of,
        "metric": metric,
        "deviation": value.mean_absolute is not None,
        **value.model_dump(include=_SCORED),
    }


def _vector_rows(entry: Entry, samples: Sequence[Sample]) -> Iterable[dict[str, Any]]:
    for name, (values, tied) in outcome_vectors(samples).items():
        yield {"entry_id": entry.id, "metric": name, "data": pack(values), "tied": tied}
    if (scores := score_vector(samples)) is not None:
        yield {"entry_id": entry.id, "metric": RAW, "data": pack(scores), "tied": b""}


def _free_slug(slug: str, used: Sequence[str]) -> str:
    # Slugs are also file names: two that differ only in case would be one file on some systems.
    lower, name, count = {other.lower() for other in used}, slug or "model", 1
    while name.lower() in lower:
        count += 1
        name = f"{slug}-{count}"
    return name
