"""A benchmark's items, those that most models fail first; and the page of one item with every model's scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import func
from sqlmodel import Session, col, select

from tellapart.board.settings import BoardSettings
from tellapart.board.store import RAW, Benchmark, Entry, Item, TaskOutput, Vector, unpack
from tellapart.board.views.model import output_text
from tellapart.board.views.rows import BenchmarkHead, ModelHead, Table, View, benchmark_head, heads_of, one_by_slug
from tellapart.errors import TellapartError, UnknownNameError
from tellapart.records.result import Located, RunRecord
from tellapart.report.image_sources import ImageSources, small_picture
from tellapart.report.items import true_pairs, true_texts
from tellapart.stats.item_analysis import LEAST_FAMILIES, discriminations, reliability
from tellapart.tasks.registry import main_metric


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
    pages = max(1, -(-count // PAGE))
    if not 1 <= page <= pages:
        raise UnknownNameError(f"{benchmark.name} has pages 1 to {pages} of items; there is no page {page}")
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
