"""A benchmark's items, those that most models fail first; and the page of one item with every model's scores."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import SkipValidation
from sqlalchemy import func
from sqlmodel import Session, col, select

from tellapart.board.settings import BoardSettings
from tellapart.board.store import RAW, Benchmark, Entry, Item, Model, Score, TaskOutput, Vector, read_vector, unpack
from tellapart.board.views.leaderboard import (
    BenchmarkHead,
    Cell,
    Link,
    ModelHead,
    Table,
    View,
    benchmark_head,
    choice_links,
    count_pages,
    heads_of,
    model_head,
    one_by_slug,
)
from tellapart.errors import RunError, TellapartError, UnknownNameError
from tellapart.records.result import IMPORTED, Located, RunRecord
from tellapart.report.charts import LineChart
from tellapart.report.followed import FollowedPoint, draw_points, find_training, read_checkpoints, sort_points
from tellapart.report.image_sources import ImageSources, small_picture
from tellapart.report.items import margins, true_pairs, true_texts
from tellapart.report.plots.curves import Plot, Trace, plot
from tellapart.stats.item_analysis import LEAST_FAMILIES, discriminations, reliability
from tellapart.tasks.registry import main_metric

# Retrieval galleries: the entries that a model ranks first for each caption and each image.
#
# Source: COCO-Counterfactuals Figure 9.

#: Queries on one page.
QUERIES = 20

#: Tasks whose records list, for each query, the entries ranked first.
_WITH_GALLERY = ("retrieval", "distinct-retrieval")

#: Direction -> its name, the unit of its queries, the unit of the gallery's entries.
SIDES = {
    "t2i": ("captions to images", "caption query", "image query"),
    "i2t": ("images to captions", "image query", "caption query"),
}


class _Shown(View):
    """An item as a gallery shows it; its position is for the address of its picture."""

    position: int
    images: tuple[str, ...]
    texts: tuple[str, ...]

    @property
    def words(self) -> str:
        """The names of its images, and its texts."""
        return " | ".join((*self.images, *self.texts))


class GalleryEntry(_Shown):
    """One of the gallery's entries that are ranked first for a query."""

    score: float
    true: bool  # it belongs to the query


class GalleryQuery(_Shown):
    """One query with the entries ranked first."""

    rank: int  # of the best true entry, under the strict rule
    first: tuple[GalleryEntry, ...]


class GalleryPage(View):
    """One page of a gallery's queries."""

    benchmark: BenchmarkHead
    model: ModelHead
    side: str  # side, what: the direction, `t2i` or `i2t`, and in words
    what: str = ""
    sides: tuple[Link, ...]  # links to both
    asked: int = 0  # the number of queries on all pages
    page: int
    pages: int
    queries: tuple[GalleryQuery, ...]

    def table(self) -> Table:
        """Return the ranked entries, a row each."""
        rows = (
            (query.title, query.words, str(query.rank), str(k), entry.words, entry.score, "yes" if entry.true else "no")
            for query in self.queries
            for k, entry in enumerate(query.first, start=1)
        )
        return Table(title=self.title, rows=(("query", "asked", "rank", "place", "found", "score", "true"), *rows))


def has_gallery(session: Session, entry: Entry, benchmark: Benchmark) -> bool:
    """Return whether a record lists the entries ranked first; some hold ranks only."""
    row = session.get(TaskOutput, (entry.id, 0)) if benchmark.task in _WITH_GALLERY else None
    return row is not None and bool(_first_entries(row.output))


def gallery_page(
    session: Session, _settings: BoardSettings, slug: str, model: str, side: str = "t2i", page: int = 1
) -> GalleryPage:
    """Show the entries that a model ranks first for each query of a retrieval gallery."""
    benchmark = one_by_slug(session, Benchmark, slug, "benchmark")
    of = one_by_slug(session, Model, model, "model")
    if side not in SIDES:
        raise UnknownNameError(f"no direction {side[:200]!r}; there are {' and '.join(SIDES)}")
    entry = session.exec(select(Entry).where(Entry.benchmark_id == benchmark.id, Entry.model_id == of.id)).first()
    if entry is None or not has_gallery(session, entry, benchmark):
        raise UnknownNameError(
            f"the record of {of.label} on {benchmark.name} does not list the entries ranked first; "
            "measure it again if it is a retrieval benchmark"
        )
    noun, unit, _ = SIDES[side]
    of_side = (Item.benchmark_id == benchmark.id, Item.unit == unit)
    count = session.exec(select(func.count()).select_from(Item).where(*of_side)).one()
    pages = count_pages(count, QUERIES, page, benchmark.name, noun)
    args: dict[str, str | int] = {"slug": slug, "model": model, "page": 1}
    return GalleryPage(
        title=f"{of.label} on {benchmark.title}: {noun}",
        benchmark=benchmark_head(benchmark),
        model=model_head(of),
        side=side,
        what=noun,
        asked=count,
        sides=choice_links("gallery_page", args, "side", {key: text for key, (text, _, _) in SIDES.items()}, side),
        page=page,
        pages=pages,
        queries=_gallery_queries(session, entry, side, page),
    )


def _gallery_queries(session: Session, entry: Entry, side: str, page: int) -> tuple[GalleryQuery, ...]:
    _, unit, entry_unit = SIDES[side]
    rows = session.exec(
        select(Item, TaskOutput.output)
        .join(TaskOutput, col(TaskOutput.position) == Item.position)
        .where(Item.benchmark_id == entry.benchmark_id, Item.unit == unit, TaskOutput.entry_id == entry.id)
        .order_by(col(Item.position))
        .offset(QUERIES * (page - 1))
        .limit(QUERIES)
    ).all()
    first = [_first_entries(output) for _, output in rows]
    names = {entry["id"] for ranked in first for entry in ranked}
    of_names = (Item.benchmark_id == entry.benchmark_id, Item.unit == entry_unit, col(Item.name).in_(names))
    items = {item.name: item for item in session.exec(select(Item).where(*of_names)).all()}
    shown = {"position", "images", "texts"}
    return tuple(
        GalleryQuery(
            title=f"{unit.removesuffix(' query')} {item.name}",
            rank=json.loads(output)["rank"],
            first=tuple(
                GalleryEntry(
                    title=ranked["id"],
                    score=ranked["score"],
                    true=ranked["true"],
                    **items[ranked["id"]].model_dump(include=shown),
                )
                for ranked in entries
            ),
            **item.model_dump(include=shown),
        )
        for (item, output), entries in zip(rows, first, strict=True)
    )


def _first_entries(output: str) -> list[dict[str, Any]]:
    content = json.loads(output)
    return content.get("first", []) if isinstance(content, dict) else []


class TrainingStep(View):
    """One checkpoint."""

    link: Link | None  # its page; None while the board has not read its record
    value: Cell  # the metric that ranks models
    best: str  # the checkpoint with the highest value so far
    forgotten: Cell | None  # that value less this one, with its interval; None of the best


class Training(View):
    """The checkpoints of one training on one benchmark."""

    metric: str  # the one that ranks models
    chart: SkipValidation[LineChart]  # its values with intervals, and the best so far
    steps: tuple[TrainingStep, ...]


def training_of(session: Session, entry: Entry, benchmark: Benchmark) -> Training | None:
    """Return the training whose checkpoint an entry is; None if it is of no such run, or that is damaged."""
    root = find_training(Path(entry.folder)) if entry.folder else None
    if root is None:
        return None
    try:
        checkpoints = read_checkpoints(root)
    except RunError:  # the board's first page has the record that cannot be read
        return None
    points = sort_points(checkpoints).get(entry.name, [])
    folders = {str(root / checkpoint.folder): checkpoint.name for checkpoint in checkpoints}
    of_benchmark = (Entry.benchmark_id == benchmark.id, col(Entry.folder).in_(folders))
    rows = session.exec(select(Entry, Model).join(Model, col(Model.id) == Entry.model_id).where(*of_benchmark)).all()
    slugs = {folders[entry.folder]: model.slug for entry, model in rows}
    if not points:
        return None
    chart = draw_points(benchmark.name, points)
    steps = tuple(_make_step(point, slugs.get(point.checkpoint)) for point in points)
    return Training(title=chart.title, metric=points[0].metric, chart=chart, steps=steps)


def _make_step(point: FollowedPoint, slug: str | None) -> TrainingStep:
    def cell(number: Any) -> Cell:
        return Cell(value=number.value, low=number.low, high=number.high, reason=number.reason or None, n=point.value.n)

    return TrainingStep(
        title=point.checkpoint,
        link=None if slug is None else Link(text=point.checkpoint, page="model", args={"slug": slug}),
        value=cell(point.value),
        best=point.best,
        forgotten=None if point.forgotten is None else cell(point.forgotten),
    )


#: The number of worst items on a model's page.
WORST = 12


class WorstItem(View):
    """One of a model's worst items."""

    position: int
    texts: tuple[str, ...]
    by: float  # its margin (pairs) or its value (tasks)


class OnBenchmark(View):
    """A model on one benchmark."""

    benchmark: BenchmarkHead
    metrics: dict[str, Cell]  # shares of right answers
    deviations: dict[str, dict[str, float | None]]  # metrics in the unit of the scores, with mean absolute value
    curves: SkipValidation[tuple[Plot, ...]]  # their distributions
    worst: tuple[WorstItem, ...]  # worst, worst_by: its worst items, and the measure of that
    worst_by: str
    tie_rule: str
    note: str
    on_trust: bool
    notes: tuple[str, ...]
    run: dict[str, str]  # start, command, seed, device and versions, as text
    gallery: bool = False  # there is a page of its retrieval gallery
    training: Training | None = None  # the checkpoints beside this one, if it is one that a run followed


class ModelPage(View):
    """A model's page."""

    model: ModelHead
    about: dict[str, str]
    cost: dict[str, str]  # its costs with their units; empty if unknown
    on: tuple[OnBenchmark, ...]
    rivals: tuple[Link, ...]  # links to comparisons with other models

    def table(self) -> Table:
        """Return every metric of every benchmark, a row each."""
        rows: list[tuple[str | float | None, ...]] = [
            ("benchmark", "metric", "value", "low", "high", "chance", "n", "ties", "tier")
        ]
        for on in self.on:
            for name, c in on.metrics.items():
                rows.append((on.benchmark.label, name, c.value, c.low, c.high, c.chance, c.n, c.ties, c.tier))
        reasons = [c.reason for on in self.on for c in on.metrics.values()]
        return Table(title=self.title, rows=tuple(rows)).with_reasons(reasons)


def model_page(session: Session, _settings: BoardSettings, slug: str) -> ModelPage:
    """Show a model."""
    model = one_by_slug(session, Model, slug, "model")
    rows = session.exec(
        select(Entry, Benchmark)
        .join(Benchmark, col(Benchmark.id) == Entry.benchmark_id)
        .where(Entry.model_id == model.id)
        .order_by(col(Benchmark.name), col(Benchmark.id))
    ).all()
    others = session.exec(select(Model).where(Model.id != model.id).order_by(Model.label)).all()
    measured = (col(Entry.benchmark_id).in_([benchmark.id for _, benchmark in rows]), Entry.folder != "")
    rivals = set(session.exec(select(Entry.model_id).where(*measured)).all()) if any(e.folder for e, _ in rows) else ()
    fingerprint = "" if model.fingerprint.startswith(IMPORTED) else model.fingerprint
    about = {"kind": model.kind, "read as": model.note, "fingerprint": fingerprint, "costs from": model.cost_source}
    costs = {
        "latency of one pair": None if model.latency is None else f"{1000 * model.latency:.1f} ms",
        "parameters": None if model.parameters is None else f"{model.parameters:,}",
        "training images": None if model.training_images is None else f"{model.training_images:,}",
    }
    return ModelPage(
        title=model.label,
        model=model_head(model),
        about={name: text for name, text in about.items() if text},
        cost={name: text for name, text in costs.items() if text},
        on=tuple(_benchmark_section(session, entry, benchmark) for entry, benchmark in rows),
        rivals=choice_links("compare", {"a": model.slug}, "b", {o.slug: o.label for o in others if o.id in rivals}),
    )


def _benchmark_section(session: Session, entry: Entry, benchmark: Benchmark) -> OnBenchmark:
    scores = session.exec(
        select(Score).where(Score.entry_id == entry.id, Score.tag == "").order_by(col(Score.id))
    ).all()
    recorded = entry.record.get("metrics", {})
    deviations = {
        s.metric: {key: recorded.get(s.metric, {}).get(key) for key in ("value", "sd", "mean_absolute")}
        for s in scores
        if s.deviation
    }
    worst_by, worst = _worst_items(session, entry, benchmark)
    return OnBenchmark(
        title=benchmark_head(benchmark).title,
        benchmark=benchmark_head(benchmark),
        metrics={
            s.metric: Cell(
                **s.model_dump(include=set(Cell.model_fields)), limited=benchmark.part, rounded=benchmark.is_hidden
            )
            for s in scores
            if not s.deviation
        },
        deviations=deviations,
        curves=_deviation_curves(session, entry, list(deviations)),
        worst=worst,
        worst_by=worst_by,
        tie_rule=entry.tie_rule,
        note=entry.note,
        on_trust=entry.on_trust,
        notes=tuple(entry.record.get("notes", ())),
        run=_run_facts(entry),
        gallery=has_gallery(session, entry, benchmark),
        training=training_of(session, entry, benchmark),
    )


def _run_facts(entry: Entry) -> dict[str, str]:
    run = entry.run
    versions = ", ".join(f"{name} {version}" for name, version in run.get("versions", {}).items())
    texts = {
        "started": str(run.get("started", ""))[:16].replace("T", " "),
        "command": str(run.get("command", "")),
        "seed": str(run.get("seed", "")),
        "device": str(run.get("device") or ""),
        "versions": versions,
    }
    return {name: text for name, text in texts.items() if text}


def _deviation_curves(session: Session, entry: Entry, names: Sequence[str]) -> tuple[Plot, ...]:
    values = {name: read_vector(session, entry, name) for name in names}
    complete = {
        name: column.astype(np.float64)
        for name, column in values.items()
        if column is not None and len(column) and np.isfinite(column).all()
    }
    trace = Trace("", 0, "", complete)
    return tuple(plot(name, [trace], 300.0, 120.0) for name in complete)


def _worst_items(session: Session, entry: Entry, benchmark: Benchmark) -> tuple[str, tuple[WorstItem, ...]]:
    raw = read_vector(session, entry, RAW)
    if raw is not None and benchmark.images_each and benchmark.texts_each:
        by = "margin: the lowest true pair less the highest false one"
        true = true_texts(benchmark.headline, benchmark.texts_each)
        values: Any = margins(raw.reshape(-1, benchmark.images_each, benchmark.texts_each), true)
    else:
        metric = main_metric(benchmark.headline)
        outcomes = read_vector(session, entry, metric)
        if outcomes is None:
            return "", ()
        by, values = metric, outcomes
    order = [int(k) for k in np.argsort(values, kind="stable")[:WORST] if not np.isnan(values[k])]
    of_order = (Item.benchmark_id == benchmark.id, col(Item.position).in_(order))
    items = {item.position: item for item in session.exec(select(Item).where(*of_order)).all()}
    return by, tuple(
        WorstItem(title=items[k].name, position=k, texts=tuple(items[k].texts), by=float(values[k])) for k in order
    )


def output_text(output: str) -> str:
    """Return a task's output for people: text as it is, a retrieval's rank without its gallery, anything else as JSON.

    >>> output_text('"a cat"'), output_text("[1, 2]"), output_text('{"rank": 3, "first": []}')
    ('a cat', '[1, 2]', 'rank 3')
    """
    content = json.loads(output)
    if isinstance(content, dict) and content.keys() == {"rank", "first"}:
        return f"rank {content['rank']}"
    return content if isinstance(content, str) else output


def picture(session: Session, slug: str, position: int, number: int) -> tuple[str, bytes]:
    """Return the media type and the bytes of an item's picture: small, as PNG, JPEG or WebP.

    The reference comes from the records, never from the address.
    """
    benchmark = session.exec(select(Benchmark).where(Benchmark.slug == slug)).first()
    if benchmark is None:
        raise UnknownNameError(f"this board has no benchmark {slug[:200]!r}")
    item = session.get(Item, (benchmark.id, position)) if 0 <= position < benchmark.n else None
    if item is None or not 0 <= number < len(item.images):
        raise UnknownNameError(f"{benchmark.name} has no picture {number} of item {position}")
    # Where its runs recorded that the images are.
    of_benchmark = select(Entry.folder, Entry.run, Entry.record).where(Entry.benchmark_id == benchmark.id)
    for folder, run, record in session.exec(of_benchmark.order_by(col(Entry.id))):
        if not folder or not run:
            continue
        located, recorded = record.get("own"), RunRecord.model_validate(run)
        sources = ImageSources(
            folder=Path(folder),
            benchmark=benchmark.name if located else benchmark.name.partition("#")[0],
            own=Located.model_validate(located) if located else None,
            data=recorded.data,
            images=recorded.images,
        )
        with suppress(TellapartError, OSError):
            if (read := _sources_reader(sources)) is not None:
                kind, small = small_picture(read(item.images[number]), item.images[number])
                return f"image/{kind}", small
    raise UnknownNameError(f"{benchmark.name}: the picture {item.images[number]!r} is not on this machine")


@lru_cache(maxsize=64)
def _sources_reader(sources: ImageSources) -> Callable[[str], bytes] | None:
    return sources.reader()


#: Items on one page of the list.
PAGE = 50

#: Pictures of one item in the list.
THUMBNAILS = 2


class ItemRow(View):
    """One item of the list."""

    position: int
    images: int = 0  # how many of its pictures a list shows; 0 if they are not on this machine
    texts: tuple[str, ...]
    tags: dict[str, str]
    failed: int | None  # the number of models that do not get it right; None if only reference models were measured
    # correlation, over models, with the share of other items that a model gets: below 0 better models rather fail it.
    # None of fewer than five models, or if all of them answer it alike
    discrimination: float | None = None


class ItemsPage(View):
    """One page of a benchmark's items."""

    benchmark: BenchmarkHead
    items: tuple[ItemRow, ...]
    page: int
    pages: int
    models: int
    # Cronbach's alpha of all items over the models; None of fewer than five models, or if all score the same
    reliability: float | None = None

    def table(self) -> Table:
        """Return the page's items, a row each."""
        rows = tuple((row.title, row.failed, row.discrimination, " | ".join(row.texts)) for row in self.items)
        return Table(title=self.title, rows=(("item", "failed by", "discrimination", "texts"), *rows))


class MatrixCell(View):
    """One cell of an item's matrix: the score of an image with a text."""

    score: float
    text: str  # the score with enough decimals to distinguish it from the matrix's other scores
    shade: int  # 0 (lowest of the item) to 10
    state: str  # `won`, `lost` or `even` for a true pair, else empty


class ModelOnItem(View):
    """One model's scores or answer for an item."""

    model: ModelHead
    matrix: tuple[tuple[MatrixCell, ...], ...]  # (image, text); empty for tasks
    # metric -> `won`, `lost`, `even` (a tie, so not right), or the value if it is none of these
    verdicts: dict[str, str | float]
    said: str = ""  # a task's output, as text


class ItemPage(View):
    """One item."""

    benchmark: BenchmarkHead
    position: int
    unit: str
    cluster: str
    gold: str
    tags: dict[str, str]
    images: tuple[str, ...]  # references of its pictures
    texts: tuple[str, ...]
    # failed, won: the models that fail it and those that do not, by the metric that ranks the benchmark
    failed: tuple[ModelHead, ...]
    won: tuple[ModelHead, ...]
    made: tuple[ModelOnItem, ...]  # contestants before reference models, and those that fail it before the others
    before: int | None = None  # before, after: positions of its neighbours
    after: int | None = None


def failures(session: Session, benchmark: Benchmark) -> tuple[NDArray[np.int64], int]:
    """Return the number of models that fail each item, int64 (item,), and the number of models, without references."""
    outcomes = _read_outcomes(session, benchmark)
    # NaN, an item without this metric, is not a failure.
    return np.asarray((outcomes < 1).sum(axis=1)), outcomes.shape[1]


def _read_outcomes(session: Session, benchmark: Benchmark) -> NDArray[np.float32]:
    """Return the outcomes of all models but references, float32 (item, model), by the metric that ranks them."""
    entries = [entry for entry, (head, _) in heads_of(session).items() if head.kind == "model"]
    rows = session.exec(
        select(Vector.data).where(
            Vector.metric == main_metric(benchmark.headline),
            col(Vector.entry_id).in_(entries),
            col(Vector.entry_id).in_(select(Entry.id).where(Entry.benchmark_id == benchmark.id)),
        )
    ).all()
    return np.array([unpack(data) for data in rows], np.float32).reshape(len(rows), benchmark.n).T


def _analyse(outcomes: NDArray[np.float32]) -> tuple[NDArray[np.float64], float | None]:
    """Return each item's discrimination over models, NaN if it is unknown, and the reliability of all."""
    found = np.full(len(outcomes), np.nan)
    measured = ~np.isnan(outcomes).any(axis=1)
    if outcomes.shape[1] < LEAST_FAMILIES or measured.sum() < 2:
        return found, None
    found[measured] = discriminations(outcomes[measured])
    return found, reliability(outcomes[measured]).alpha


def items_page(session: Session, _settings: BoardSettings, slug: str, page: int) -> ItemsPage:
    """List a benchmark's items, those that most models fail first."""
    benchmark = one_by_slug(session, Benchmark, slug, "benchmark")
    count = benchmark.n if benchmark.items_digest else 0
    pages = count_pages(count, PAGE, page, benchmark.name, "items")
    outcomes = _read_outcomes(session, benchmark) if count else np.zeros((0, 0), np.float32)
    failed, models = (outcomes < 1).sum(axis=1), outcomes.shape[1]
    discrimination, alpha = _analyse(outcomes)
    order = np.argsort(-failed, kind="stable")[PAGE * (page - 1) : PAGE * page].tolist()
    of_page = (Item.benchmark_id == benchmark.id, col(Item.position).in_(order))
    items = {item.position: item for item in session.exec(select(Item).where(*of_page)).all()}
    first = next((k for k in order if items[k].images), None)
    thumbnails = 0
    with suppress(UnknownNameError):  # the pictures of a list are on this machine if that of its first item is
        if first is not None:
            picture(session, slug, first, 0)
            thumbnails = THUMBNAILS
    return ItemsPage(
        title=f"{benchmark_head(benchmark).title}: items",
        benchmark=benchmark_head(benchmark),
        page=page,
        pages=pages,
        models=models,
        reliability=alpha,
        items=tuple(
            ItemRow(
                title=items[k].name,
                position=k,
                images=min(thumbnails, len(items[k].images)),
                texts=tuple(items[k].texts),
                tags=items[k].tags,
                failed=int(failed[k]) if models else None,
                discrimination=None if np.isnan(discrimination[k]) else round(float(discrimination[k]), 3),
            )
            for k in order
        ),
    )


def item_page(session: Session, _settings: BoardSettings, slug: str, position: int) -> ItemPage:
    """Show one item; of the models' vectors only the bytes of this item are read."""
    benchmark = one_by_slug(session, Benchmark, slug, "benchmark")
    item = session.get(Item, (benchmark.id, position)) if 0 <= position < benchmark.n else None
    if item is None:
        raise UnknownNameError(f"{benchmark.name} has no item {position}; it has {benchmark.n:,}, counted from 0")
    models = _models_on_item(session, benchmark, item)
    main = main_metric(benchmark.headline)
    judged = [model for model in models if main in model.verdicts]
    return ItemPage(
        title=item.name,
        benchmark=benchmark_head(benchmark),
        position=position,
        unit=item.unit,
        cluster=item.cluster,
        gold=item.gold,
        tags=item.tags,
        images=tuple(item.images),
        texts=tuple(item.texts),
        failed=tuple(one.model for one in judged if one.verdicts[main] != "won"),
        won=tuple(one.model for one in judged if one.verdicts[main] == "won"),
        made=models,
        before=position - 1 if position else None,
        after=position + 1 if position + 1 < benchmark.n else None,
    )


def _models_on_item(session: Session, benchmark: Benchmark, item: Item) -> tuple[ModelOnItem, ...]:
    k, shape = item.position, (benchmark.images_each or 0, benchmark.texts_each or 0)
    width = 4 * shape[0] * shape[1]
    # substr counts bytes from 1, in SQLite and in PostgreSQL.
    value, tie = func.substr(Vector.data, 4 * k + 1, 4), func.substr(Vector.tied, k + 1, 1)
    entry_ids = select(Entry.id).where(Entry.benchmark_id == benchmark.id)
    of_benchmark = col(Vector.entry_id).in_(entry_ids)
    outcomes = session.execute(
        select(Vector.entry_id, Vector.metric, value, tie).where(
            of_benchmark, col(Vector.metric).in_(benchmark.headline)
        )
    ).all()
    matrix = func.substr(Vector.data, width * k + 1, width)
    query = select(Vector.entry_id, matrix).where(of_benchmark, Vector.metric == RAW)
    raw = {entry: bytes(data) for entry, data in session.execute(query).all()}
    of_item = (TaskOutput.position == k, col(TaskOutput.entry_id).in_(entry_ids))
    outputs = dict(session.exec(select(TaskOutput.entry_id, TaskOutput.output).where(*of_item)).all())
    verdicts: dict[int, dict[str, str | float]] = {}
    for entry, metric, data, tied in outcomes:
        number, is_tied = float(unpack(bytes(data))[0]), bytes(tied or b"") == b"\1"
        if not np.isnan(number):
            verdict = "won" if number == 1 else "even" if is_tied else number or "lost"
            verdicts.setdefault(entry, {})[metric] = verdict
    heads, main = heads_of(session), main_metric(benchmark.headline)
    entries = sorted(
        verdicts.keys() | raw.keys() | outputs.keys(),
        key=lambda e: (heads[e][0].kind, verdicts.get(e, {}).get(main) == "won", heads[e][0].label),
    )
    return tuple(
        ModelOnItem(
            title=heads[entry][0].label,
            model=heads[entry][0],
            matrix=_score_matrix(unpack(raw[entry]).reshape(shape), benchmark.headline)
            if raw.get(entry) and width
            else (),
            verdicts={name: verdicts[entry][name] for name in benchmark.headline if name in verdicts.get(entry, {})},
            said=output_text(outputs[entry]) if entry in outputs else "",
        )
        for entry in entries
    )


def _score_matrix(scores: NDArray[np.float32], headline: Sequence[str]) -> tuple[tuple[MatrixCell, ...], ...]:
    images, texts = scores.shape
    low, reach = float(scores.min()), float(np.ptp(scores))
    true = set(true_pairs((images, texts), true_texts(headline, texts)))
    # The fewest decimals that keep different scores different, within the precision of float32.
    largest, distinct = float(np.abs(scores).max()), len(np.unique(scores))
    fewest, most = (1, 4) if largest >= 100 else (2, 6) if largest >= 10 else (3, 9)
    exact = scores.astype(float)
    digits = next((k for k in range(fewest, most) if len(np.unique(np.round(exact, k))) == distinct), most)

    def cell(image: int, text: int) -> MatrixCell:
        score = float(scores[image, text])
        shade = round(10 * (score - low) / reach) if reach and np.isfinite(reach) else 3
        state = _pair_state(scores, image, text) if (image, text) in true else ""
        shortest = float(str(scores[image, text]))
        place = f"image {image}, text {text}"
        return MatrixCell(title=place, score=shortest, text=f"{score:.{digits}f}", shade=shade, state=state)

    return tuple(tuple(cell(image, text) for text in range(texts)) for image in range(images))


def _pair_state(scores: NDArray[np.float32], image: int, text: int) -> str:
    """Compare a true pair with every other cell of its row and column."""
    rivals = np.concatenate([np.delete(scores[image], text), np.delete(scores[:, text], image)])
    if len(rivals) == 0 or (scores[image, text] > rivals).all():
        return "won"
    return "lost" if (scores[image, text] < rivals).any() else "even"
