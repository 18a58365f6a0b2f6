"""Run folders, imported numbers and timings as rows, and tiers of models; rows follow the files that changed."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import insert
from sqlalchemy.exc import SQLAlchemyError
from sqlmodel import Session, col, delete, select

from tellapart.benchmarks.find import declared_benchmark
from tellapart.board.settings import BoardSettings
from tellapart.board.store import (
    RAW,
    Benchmark,
    Entry,
    Item,
    Model,
    Score,
    Source,
    Store,
    TaskOutput,
    Vector,
    outcome_vectors,
    pack,
    score_vector,
    unpack,
)
from tellapart.catalog import REFERENCES
from tellapart.errors import RunError, TellapartError, first_line, plain
from tellapart.evaluation.compare import rank_outcomes
from tellapart.evaluation.verified import read_result
from tellapart.models.transductive import MARK
from tellapart.records.imported import Imported, ImportedModel, read_imported
from tellapart.records.result import HIDDEN, IDS_ONLY, IMPORTED, BenchmarkResult, Result, Sample, Value
from tellapart.records.run_folder import RESULTS, file_name
from tellapart.records.samples import read_samples
from tellapart.records.timing_record import read_timings
from tellapart.tasks.registry import headline


def add_model(session: Session, model: Model) -> Model:
    """Add a model, with a unique label and slug, or return the stored model with the same identity."""
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
    keys = sorted((sample.unit, sample.id, sample.cluster) for sample in samples)
    digest = hashlib.sha256(json.dumps(keys).encode()).hexdigest() if keys else ""
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
    listed = declared_benchmark(set_name)
    benchmark = Benchmark(
        slug=_free_slug(slug, session.exec(select(Benchmark.slug)).all()),
        name=name,
        fingerprint=record.fingerprint,
        title=(listed and listed.title) or record.title,
        task=record.task,
        n=0,
        limited_from=full_size,
        domain=listed.domain if listed else "",
        rival=listed.rival if listed else "",
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
    vectors = {name: (pack(values), tied) for name, (values, tied) in outcome_vectors(samples).items()}
    if (raw := score_vector(samples)) is not None:
        vectors[RAW] = (pack(raw), b"")
    rows = (
        {"entry_id": entry.id, "metric": name, "data": data, "tied": tied} for name, (data, tied) in vectors.items()
    )
    _insert_rows(session, Vector, rows)
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
    if benchmark.is_hidden or record.fingerprint.startswith(HIDDEN):
        return False  # a hidden benchmark's items are not compared
    if not digest or not benchmark.items_digest:
        return True  # one of the two has no ids: only the name can match
    ids_only = benchmark.fingerprint.startswith(IDS_ONLY) or record.fingerprint.startswith(IDS_ONLY)
    return ids_only and benchmark.items_digest == digest


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


_SCORED = {"value", "low", "high", "reason", "chance", "n", "ties", "tie_neutral", "official"}


def _score_rows(entry: Entry, record: BenchmarkResult) -> Iterable[dict[str, Any]]:
    groups = [("", "", record.metrics)]
    groups += [(tag, value_of, group.metrics) for tag, by in record.by.items() for value_of, group in by.items()]
    groups += [(tag, "", macro.metrics) for tag, macro in record.macro.items()]
    for tag, value_of, metrics in groups:
        for metric, value in metrics.items():
            row = {"tag": tag, "value_of": value_of, "metric": metric, "deviation": value.mean_absolute is not None}
            yield {"entry_id": entry.id, "benchmark_id": entry.benchmark_id, **row, **value.model_dump(include=_SCORED)}


def _free_slug(slug: str, used: Sequence[str]) -> str:
    # Slugs are also file names: two that differ only in case would be one file on some systems.
    lower, name, count = {other.lower() for other in used}, slug or "model", 1
    while name.lower() in lower:
        count += 1
        name = f"{slug}-{count}"
    return name


#: The number of models, the best ones, that are tested if sign flips are needed; the others have no tier. Flips over
#: every pair cost the cube of that number: 1.6 s a metric for 40 models (8,000 items, 4,000 clusters, one core), 27 s
#: for 100.
MOST_TESTED = 40


def rank(session: Session, benchmark: Benchmark) -> None:
    """Write the tier of every model of a benchmark, for each headline metric.

    Reference models, people, and models without per-item outcomes have no tier.
    """
    clusters = session.exec(
        select(Item.cluster).where(Item.benchmark_id == benchmark.id).order_by(col(Item.position))
    ).all()
    for metric in benchmark.headline:
        scores = session.exec(
            select(Score, Model)
            .join(Entry, col(Entry.id) == Score.entry_id)
            .join(Model, col(Model.id) == Entry.model_id)
            .where(Score.benchmark_id == benchmark.id, Score.tag == "", Score.metric == metric)
        ).all()
        outcomes = {}
        for score, model in sorted(scores, key=lambda row: (-row[0].value, row[1].label)):
            if model.kind == "model" and (vector := session.get(Vector, (score.entry_id, metric))) is not None:
                outcomes[str(score.entry_id)] = unpack(vector.data)
        # Best first, so that the best are those that are tested if sign flips of all pairs would take too long.
        ranked = rank_outcomes(outcomes, clusters, most=MOST_TESTED) if outcomes else []
        ranks = {name: tier.rank for tier in ranked for name in tier.names}
        for score, _ in scores:
            score.tier = ranks.get(str(score.entry_id))
            session.add(score)
    session.flush()


#: The file of models' costs, anywhere below a folder of runs.
TIMING = "timing.json"

#: Folders from the root on, in an error's text; and letters that are kept of it.
_FOLDERS, _MOST_LETTERS = re.compile(r"""(?<![^\s"'(=:,])/(?:[^/\s"':;,]+/)+"""), 300

#: Called with one line for each file that is left out.
ReportProblem = Callable[[str], None]


def read_in(store: Store, settings: BoardSettings, report: ReportProblem) -> int:
    """Bring the database up to date with the settings' files, and return how many of them were read.

    A file that cannot be read is reported, left out, shown with its reason (`Source.problem`) and tried again. Several
    boards may share a database: records outside this one's folders are another's, and stay.
    """
    with store.session() as session:
        files = list(_board_files(settings))
        sources = session.exec(select(Source)).all()
        imported, folders = ({path.resolve() for path in paths} for paths in (settings.imported, settings.runs))
        board_sources = [
            source
            for source in sources
            if (path := Path(source.path)) in imported or (source.kind != "imported" and folders & {*path.parents})
        ]
        for source in [source for source in board_sources if source.problem]:  # the missing part may be there by now
            board_sources.remove(source)
            session.delete(source)
        now = {str(path): (kind, _file_digest(path)) for path, kind in files}
        gone = [source for source in board_sources if now.get(source.path) != (source.kind, source.digest)]
        touched = _forget_sources(session, gone, sources, board_sources) if gone else set()
        session.flush()
        still = set(session.exec(select(Source.path)).all())
        fresh = [(path, *now[str(path)]) for path, _ in files if str(path) not in still]
        for path, kind, digest in fresh:
            source = Source(path=str(path), digest=digest, kind=kind)
            session.add(source)
            session.flush()
            try:
                with session.begin_nested():
                    if kind == "timing":
                        read_timings(path)  # for its error; `_add_costs` reads it again when all models are there
                    else:
                        touched |= (_read_run if kind == "run" else _read_imported)(session, path, source)
            except SQLAlchemyError:
                raise  # the database, not the file: the caller tries again
            except Exception as error:  # one file that no reader was made for must not hide all others
                text = str(error) if isinstance(error, TellapartError) else f"{path}: {first_line(error)}"
                source.problem = _for_readers(text, path)
                session.add(source)
                report(text)
        _delete_unused(session)
        if fresh:
            _add_costs(session, [path for path, kind in files if kind == "timing"], report)
        for number in sorted(touched):
            if (benchmark := session.get(Benchmark, number)) is not None:
                of_all = (Score.benchmark_id == benchmark.id, Score.tag == "", Score.deviation == False)  # noqa: E712
                names = set(session.exec(select(Score.metric).where(*of_all).distinct()).all())
                # The papers' metrics if any model has them, else every share of right answers.
                benchmark.headline = list(headline(names) or sorted(names))
                session.add(benchmark)
                if benchmark.limited_from is None:
                    rank(session, benchmark)
        if fresh or gone:
            store.mark_changed(session)
    return len(fresh)


def signature(settings: BoardSettings) -> tuple[tuple[str, int, int], ...]:
    """Return path, time of change and size of every file of the settings; a change in any of them shows here."""
    states = []
    for path, _ in _board_files(settings):
        with suppress(OSError):  # gone since it was listed
            stat = path.stat()
            states.append((str(path), stat.st_mtime_ns, stat.st_size))
    return tuple(states)


def _board_files(settings: BoardSettings) -> Iterator[tuple[Path, str]]:
    """Yield every file once, by its absolute path: the same file is one source from wherever a board is started."""
    files = {
        path: "run" if path.name == RESULTS else "timing"
        for folder in settings.runs
        for path in sorted(path for name in (RESULTS, TIMING) for path in folder.resolve().rglob(name))
        if path.is_file()  # to open a pipe of this name would wait for its writer
    }
    yield from files.items()
    yield from dict.fromkeys((path.resolve(), "imported") for path in settings.imported)


def _for_readers(problem: str, path: Path) -> str:
    """Return why a file could not be read, on one line and without its path on this machine."""
    line = " ".join(problem.split()).replace(f"{path.parent}{os.sep}", "")
    return plain(_FOLDERS.sub("…/", line)[:_MOST_LETTERS]) or "it cannot be read"


def _file_digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""  # its reader reports the error


def _forget_sources(
    session: Session, gone: Sequence[Source], known: Sequence[Source], own: Sequence[Source]
) -> set[int]:
    """Delete the rows of sources that are gone or changed, and return the benchmarks that they touch.

    A superseded source may count again, so it is deleted and read again, too; another board's, by that board.
    """
    touched = set()
    for source in known:
        if source.superseded:
            source.digest = ""
            session.add(source)
    for source in {source.id: source for source in (*gone, *(each for each in own if each.superseded))}.values():
        entries = session.exec(select(Entry).where(Entry.source_id == source.id)).all()
        touched |= {entry.benchmark_id for entry in entries}
        remove(session, entries)
        session.delete(source)
    session.flush()
    return touched


def _delete_unused(session: Session) -> None:
    """Delete models and benchmarks without a record."""
    for model in session.exec(select(Model).where(col(Model.id).not_in(select(Entry.model_id)))).all():
        session.delete(model)
    for benchmark in session.exec(select(Benchmark).where(col(Benchmark.id).not_in(select(Entry.benchmark_id)))).all():
        session.exec(delete(Item).where(col(Item.benchmark_id) == benchmark.id))
        session.delete(benchmark)
    session.flush()


def _read_run(session: Session, path: Path, source: Source) -> set[int]:
    result = read_result(path.parent)
    if result.model.name.endswith(MARK):
        raise RunError(
            f"{path}: {result.model.name} was trained on the items that it is measured on, so it has no place among "
            "other models; take the run out of the board's folders"
        )
    model = add_model(session, _model_row(result))
    touched = set()
    for name, record in result.benchmarks.items():
        imported = record.fingerprint.startswith(IMPORTED)
        samples = [] if record.fingerprint.startswith((IMPORTED, HIDDEN)) else read_samples(path.parent, name, record)
        benchmark = add_benchmark(session, name, record, samples)
        entry = Entry(
            model_id=model.id or 0,
            benchmark_id=benchmark.id or 0,
            source_id=source.id or 0,
            started=result.run.started,
            name=name,
            run=result.run.model_dump(mode="json"),
            folder=str(path.parent),
            on_trust=record.fingerprint.startswith((IDS_ONLY, IMPORTED)),
            tie_rule=next(iter(record.notes), "not known") if imported else "",
        )
        add_entry(session, entry, record, samples)
        touched.add(entry.benchmark_id)
    return touched


def _model_row(result: Result) -> Model:
    record = result.model
    # An imported result's fingerprint is the file's; several files of one model share the name alone.
    identity = f"{IMPORTED}{record.name}" if record.fingerprint.startswith(IMPORTED) else "\n".join(record.system)
    return Model(
        slug=file_name(record.name),
        name=record.name,
        label=record.name,
        kind="reference" if record.name in REFERENCES else "human" if record.name == "human" else "model",
        identity=identity,
        fingerprint=record.fingerprint,
        note=", ".join(part for part in (record.dtype, _count_flips(result), record.reading, record.prompt) if part),
    )


def _count_flips(result: Result) -> str:
    """Write how many outcomes a lower precision flips; empty if that was not checked."""
    checks = (benchmark.precision for benchmark in result.benchmarks.values() if benchmark.precision is not None)
    checked = [check for check in checks if check.dtype == result.model.dtype]  # else `auto` refused it
    flips = [flips for precision in checked for flips in precision.flips.values()]
    if not flips:
        return ""
    return f"{sum(flip.flipped for flip in flips):,} of {sum(flip.n for flip in flips):,} outcomes flip against float32"


def _read_imported(session: Session, path: Path, source: Source) -> set[int]:
    imported = read_imported(path)
    touched: set[int] = set()
    benchmarks: dict[str, Benchmark] = {}  # a name is one benchmark in all of the file
    for each in imported.models:
        model = add_model(session, _imported_model(each, imported.source))
        tagged = (name for groups in each.by.values() for scores in groups.values() for name in scores)
        for name in dict.fromkeys((*each.scores, *tagged)):
            record = _imported_record(name, each, imported)
            benchmark = benchmarks.get(name) or add_benchmark(session, name, record, [])
            benchmarks[name] = benchmark
            entry = Entry(
                model_id=model.id or 0,
                benchmark_id=benchmark.id or 0,
                source_id=source.id or 0,
                started="",
                on_trust=True,
                tie_rule=imported.tie_rule,
                note=imported.source,
            )
            add_entry(session, entry, record, [])
            touched.add(entry.benchmark_id)
    return touched


def _imported_model(each: ImportedModel, source: str) -> Model:
    return Model(
        slug=file_name(each.name),
        label=each.name,
        identity=f"{IMPORTED}{each.name}",
        fingerprint=IMPORTED,
        parameters=None if each.parameters is None else round(each.parameters),
        training_images=None if each.training_images is None else round(each.training_images),
        cost_source=source,
        **each.model_dump(include={"name", "kind", "note", "latency"}),
    )


def _imported_record(name: str, each: ImportedModel, imported: Imported) -> BenchmarkResult:
    items = imported.items.get(name, 0)

    def values(scores: dict[str, float]) -> dict[str, Value]:
        return {
            metric: Value(value=value, method="as reported", n=items, clusters=items, average="as reported")
            for metric, value in scores.items()
        }

    by = {
        tag: {value: {"metrics": values(scores[name])} for value, scores in groups.items() if name in scores}
        for tag, groups in each.by.items()
    }
    return BenchmarkResult.model_validate(
        {
            "title": name,
            "fingerprint": IMPORTED + name,
            "metrics": values(each.scores.get(name, {})),
            "by": {tag: groups for tag, groups in by.items() if groups},
            "origin": imported.source,
        }
    )


def _add_costs(session: Session, paths: Sequence[Path], report: ReportProblem) -> None:
    """Write each timing to the models of the same name and weights."""
    for path in paths:
        try:
            timings = read_timings(path)
        except TellapartError as error:
            report(str(error))
            continue
        for timing in timings.models:
            same = (Model.name == timing.model.name, Model.fingerprint == timing.model.fingerprint)
            for model in session.exec(select(Model).where(*same)).all():
                model.latency = timing.latency.median
                model.parameters = timing.parameters
                model.cost_source = f"{path}: {timing.machine.processor}, {timing.device}, {timing.dtype}"
                session.add(model)
