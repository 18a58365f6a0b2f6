"""A model's page: its metrics on every benchmark, its cost, its equivariance, and its worst items."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import SkipValidation
from sqlalchemy import func
from sqlmodel import Session, col, select

from tellapart.board.settings import BoardSettings
from tellapart.board.store import RAW, Benchmark, Entry, Item, Model, Score, TaskOutput, read_vector
from tellapart.board.views.rows import (
    BenchmarkHead,
    Cell,
    Link,
    ModelHead,
    Table,
    View,
    benchmark_head,
    choice_links,
    model_head,
    one_by_slug,
)
from tellapart.errors import RunError, UnknownNameError
from tellapart.records.result import IMPORTED
from tellapart.report.charts import LineChart
from tellapart.report.followed import FollowedPoint, draw_points, find_training, read_checkpoints, sort_points
from tellapart.report.items import margins, true_texts
from tellapart.report.plots.curves import Plot, Trace, plot
from tellapart.tasks.registry import main_metric

# Retrieval galleries: the entries that a model ranks first for each caption and each image.
#
# Source: COCO-Counterfactuals Figure 9.

#: Queries on one page.
PAGE = 20

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
    pages = max(1, -(-count // PAGE))
    if not 1 <= page <= pages:
        raise UnknownNameError(f"{benchmark.name} has pages 1 to {pages} of {noun}; there is no page {page}")
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
        .offset(PAGE * (page - 1))
        .limit(PAGE)
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
