"""A benchmark's items, those that most models fail first; and the page of one item with every model's scores."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import SkipValidation

from tellapart.board.tables import Benchmark, Entry, Tables
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
    make_cell,
    model_head,
)
from tellapart.errors import RunError, TellapartError, UnknownNameError
from tellapart.records.result import IMPORTED
from tellapart.report.charts import LineChart
from tellapart.report.followed import FollowedPoint, draw_points, find_training, read_checkpoints, sort_points
from tellapart.report.image_sources import ImageSources, small_picture
from tellapart.report.plots.curves import Plot, Trace, plot
from tellapart.report.sections import margins, true_pairs, true_texts
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


def has_gallery(entry: Entry) -> bool:
    """Return whether a record lists the entries ranked first; some hold ranks only."""
    return entry.record.task in _WITH_GALLERY and bool(entry.outputs and _first_entries(entry.outputs[0]))


def gallery_page(tables: Tables, slug: str, model: str, side: str = "t2i", page: int = 1) -> GalleryPage:
    """Show the entries that a model ranks first for each query of a retrieval gallery."""
    benchmark = tables.benchmark(slug)
    of = tables.model(model)
    if side not in SIDES:
        raise UnknownNameError(f"no direction {side[:200]!r}; there are {' and '.join(SIDES)}")
    entry = tables.entries.get((slug, model))
    if entry is None or not has_gallery(entry):
        raise UnknownNameError(
            f"the record of {of.label} on {benchmark.name} does not list the entries ranked first; "
            "measure it again if it is a retrieval benchmark"
        )
    noun, unit, _ = SIDES[side]
    asked = [k for k, item in enumerate(benchmark.items.rows) if item.unit == unit]
    pages = count_pages(len(asked), QUERIES, page, benchmark.name, noun)
    args: dict[str, str | int] = {"slug": slug, "model": model, "page": 1}
    return GalleryPage(
        title=f"{of.label} on {benchmark.title}: {noun}",
        benchmark=benchmark_head(benchmark),
        model=model_head(of),
        side=side,
        what=noun,
        asked=len(asked),
        sides=choice_links("gallery_page", args, "side", {key: text for key, (text, _, _) in SIDES.items()}, side),
        page=page,
        pages=pages,
        queries=_gallery_queries(entry, side, asked[QUERIES * (page - 1) : QUERIES * page]),
    )


def _gallery_queries(entry: Entry, side: str, positions: Sequence[int]) -> tuple[GalleryQuery, ...]:
    _, unit, entry_unit = SIDES[side]
    items = entry.items.rows
    places = {item.name: k for k, item in enumerate(items) if item.unit == entry_unit}

    def show(position: int) -> dict[str, Any]:
        return {"position": position, "images": items[position].images, "texts": items[position].texts}

    return tuple(
        GalleryQuery(
            title=f"{unit.removesuffix(' query')} {items[k].name}",
            rank=entry.outputs[k]["rank"],
            first=tuple(
                GalleryEntry(
                    title=ranked["id"], score=ranked["score"], true=ranked["true"], **show(places[ranked["id"]])
                )
                for ranked in _first_entries(entry.outputs[k])
            ),
            **show(k),
        )
        for k in positions
    )


def _first_entries(output: Any) -> list[dict[str, Any]]:
    return output.get("first", []) if isinstance(output, dict) else []


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


def training_of(tables: Tables, entry: Entry) -> Training | None:
    """Return the training whose checkpoint an entry is; None if it is of no such run, or that is damaged."""
    root = find_training(entry.folder) if entry.folder else None
    if root is None:
        return None
    try:
        checkpoints = read_checkpoints(root)
    except RunError:  # the board's first page has the record that cannot be read
        return None
    points = sort_points(checkpoints).get(entry.name, [])
    if not points:
        return None
    models = {other.folder: other.model for other in tables.entries_of(benchmark=entry.benchmark)}
    slugs = {checkpoint.name: models.get(root / checkpoint.folder) for checkpoint in checkpoints}
    chart = draw_points(tables.benchmarks[entry.benchmark].name, points)
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


def model_page(tables: Tables, slug: str) -> ModelPage:
    """Show a model."""
    model = tables.model(slug)
    benchmarks = tables.benchmarks
    entries = sorted(tables.entries_of(model=slug), key=lambda entry: benchmarks[entry.benchmark].name)
    measured = {entry.benchmark for entry in entries} if any(entry.folder for entry in entries) else ()
    rivals = {e.model for e in tables.entries.values() if e.benchmark in measured and e.folder} - {slug}
    others = sorted((tables.models[rival] for rival in rivals), key=lambda other: other.label)
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
        on=tuple(_benchmark_section(tables, entry) for entry in entries),
        rivals=choice_links("compare", {"a": model.slug}, "b", {other.slug: other.label for other in others}),
    )


def _benchmark_section(tables: Tables, entry: Entry) -> OnBenchmark:
    benchmark, metrics = tables.benchmarks[entry.benchmark], entry.record.metrics
    deviations = {
        name: {key: getattr(value, key) for key in ("value", "sd", "mean_absolute")}
        for name, value in metrics.items()
        if value.mean_absolute is not None
    }
    worst_by, worst = _worst_items(entry, benchmark)
    return OnBenchmark(
        title=benchmark_head(benchmark).title,
        benchmark=benchmark_head(benchmark),
        metrics={
            name: make_cell(tables, entry, name, value) for name, value in metrics.items() if name not in deviations
        },
        deviations=deviations,
        curves=_deviation_curves(entry, list(deviations)),
        worst=worst,
        worst_by=worst_by,
        tie_rule=entry.tie_rule,
        note=entry.note,
        on_trust=entry.on_trust,
        notes=entry.record.notes,
        run=_run_facts(entry),
        gallery=has_gallery(entry),
        training=training_of(tables, entry),
    )


def _run_facts(entry: Entry) -> dict[str, str]:
    if (run := entry.run) is None:
        return {}
    texts = {
        "started": run.started[:16].replace("T", " "),
        "command": run.command,
        "seed": str(run.seed),
        "device": run.device or "",
        "versions": ", ".join(f"{name} {version}" for name, version in run.versions.items()),
    }
    return {name: text for name, text in texts.items() if text}


def _deviation_curves(entry: Entry, names: Sequence[str]) -> tuple[Plot, ...]:
    values = {name: entry.values[name].astype(np.float64) for name in names if name in entry.values}
    complete = {name: column for name, column in values.items() if len(column) and np.isfinite(column).all()}
    trace = Trace("", 0, "", complete)
    return tuple(plot(name, [trace], 300.0, 120.0) for name in complete)


def _worst_items(entry: Entry, benchmark: Benchmark) -> tuple[str, tuple[WorstItem, ...]]:
    if entry.scores is not None and benchmark.shape is not None:
        by = "margin: the lowest true pair less the highest false one"
        values: Any = margins(entry.scores, true_texts(benchmark.headline, benchmark.shape[1]))
    elif (metric := main_metric(benchmark.headline)) in entry.values:
        by, values = metric, entry.values[metric]
    else:
        return "", ()
    order = [int(k) for k in np.argsort(values, kind="stable")[:WORST] if not np.isnan(values[k])]
    items = benchmark.items.rows
    return by, tuple(
        WorstItem(title=items[k].name, position=k, texts=items[k].texts, by=float(values[k])) for k in order
    )


def output_text(output: Any) -> str:
    """Return a task's output for people: text as it is, a retrieval's rank without its gallery, anything else as JSON.

    >>> output_text("a cat"), output_text([1, 2]), output_text({"rank": 3, "first": []})
    ('a cat', '[1, 2]', 'rank 3')
    """
    if isinstance(output, dict) and output.keys() == {"rank", "first"}:
        return f"rank {output['rank']}"
    return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)


def picture(tables: Tables, slug: str, position: int, number: int) -> tuple[str, bytes]:
    """Return the media type and the bytes of an item's picture: small, as PNG, JPEG or WebP.

    The reference comes from the records, never from the address.
    """
    benchmark = tables.benchmark(slug)
    item = benchmark.items.rows[position] if 0 <= position < len(benchmark.items.rows) else None
    if item is None or not 0 <= number < len(item.images):
        raise UnknownNameError(f"{benchmark.name} has no picture {number} of item {position}")
    # Where its runs recorded that the images are.
    for entry in tables.entries_of(benchmark=slug):
        if entry.folder is None or entry.run is None:
            continue
        own = entry.record.own
        sources = ImageSources(
            folder=entry.folder,
            benchmark=benchmark.name if own else benchmark.name.partition("#")[0],
            own=own,
            data=entry.run.data,
            images=entry.run.images,
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


def failures(tables: Tables, benchmark: Benchmark) -> tuple[NDArray[np.int64], int]:
    """Return the number of models that fail each item, int64 (item,), and the number of models, without references."""
    outcomes = _collect_outcomes(tables, benchmark)
    # NaN, an item without this metric, is not a failure.
    return np.asarray((outcomes < 1).sum(axis=1)), outcomes.shape[1]


def _collect_outcomes(tables: Tables, benchmark: Benchmark) -> NDArray[np.float32]:
    """Return the outcomes of all models but references, float32 (item, model), by the metric that ranks them."""
    entries, main = tables.entries_of(benchmark=benchmark.slug), main_metric(benchmark.headline)
    rows = [e.values[main] for e in entries if main in e.values and tables.models[e.model].kind == "model"]
    return np.array(rows, np.float32).reshape(len(rows), len(benchmark.items.rows)).T


def _analyse(outcomes: NDArray[np.float32]) -> tuple[NDArray[np.float64], float | None]:
    """Return each item's discrimination over models, NaN if it is unknown, and the reliability of all."""
    found = np.full(len(outcomes), np.nan)
    measured = ~np.isnan(outcomes).any(axis=1)
    if outcomes.shape[1] < LEAST_FAMILIES or measured.sum() < 2:
        return found, None
    found[measured] = discriminations(outcomes[measured])
    return found, reliability(outcomes[measured]).alpha


def items_page(tables: Tables, slug: str, page: int) -> ItemsPage:
    """List a benchmark's items, those that most models fail first."""
    benchmark = tables.benchmark(slug)
    items = benchmark.items.rows
    pages = count_pages(len(items), PAGE, page, benchmark.name, "items")
    outcomes = _collect_outcomes(tables, benchmark)
    failed, models = (outcomes < 1).sum(axis=1), outcomes.shape[1]
    discrimination, alpha = _analyse(outcomes)
    order = np.argsort(-failed, kind="stable")[PAGE * (page - 1) : PAGE * page].tolist()
    first = next((k for k in order if items[k].images), None)
    thumbnails = 0
    with suppress(UnknownNameError):  # the pictures of a list are on this machine if that of its first item is
        if first is not None:
            picture(tables, slug, first, 0)
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
                texts=items[k].texts,
                tags=dict(items[k].tags),
                failed=int(failed[k]) if models else None,
                discrimination=None if np.isnan(discrimination[k]) else round(float(discrimination[k]), 3),
            )
            for k in order
        ),
    )


def item_page(tables: Tables, slug: str, position: int) -> ItemPage:
    """Show one item."""
    benchmark = tables.benchmark(slug)
    if not 0 <= position < len(benchmark.items.rows):
        raise UnknownNameError(f"{benchmark.name} has no item {position}; it has {benchmark.n:,}, counted from 0")
    item, models = benchmark.items.rows[position], _models_on_item(tables, benchmark, position)
    main = main_metric(benchmark.headline)
    judged = [model for model in models if main in model.verdicts]
    return ItemPage(
        title=item.name,
        benchmark=benchmark_head(benchmark),
        position=position,
        unit=item.unit,
        cluster=item.cluster,
        gold=item.gold,
        tags=dict(item.tags),
        images=item.images,
        texts=item.texts,
        failed=tuple(one.model for one in judged if one.verdicts[main] != "won"),
        won=tuple(one.model for one in judged if one.verdicts[main] == "won"),
        made=models,
        before=position - 1 if position else None,
        after=position + 1 if position + 1 < benchmark.n else None,
    )


def _models_on_item(tables: Tables, benchmark: Benchmark, k: int) -> tuple[ModelOnItem, ...]:
    models, main = [], main_metric(benchmark.headline)
    for entry in tables.entries_of(benchmark=benchmark.slug):
        head = model_head(tables.models[entry.model])
        verdicts = {
            name: _verdict(float(entry.values[name][k]), is_tied=name in entry.tied and bool(entry.tied[name][k]))
            for name in benchmark.headline
            if name in entry.values and not np.isnan(entry.values[name][k])
        }
        matrix = () if entry.scores is None else _score_matrix(entry.scores[k], benchmark.headline)
        if verdicts or matrix or entry.outputs:
            said = output_text(entry.outputs[k]) if entry.outputs else ""
            models.append(ModelOnItem(title=head.label, model=head, matrix=matrix, verdicts=verdicts, said=said))
    return tuple(sorted(models, key=lambda on: (on.model.kind, on.verdicts.get(main) == "won", on.title)))


def _verdict(number: float, *, is_tied: bool) -> str | float:
    return "won" if number == 1 else "even" if is_tied else number or "lost"


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
