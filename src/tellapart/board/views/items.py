"""A benchmark's items, those that most models fail first; and one item: what it shows, and what every model made of it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import func
from sqlmodel import Session, select

from tellapart.board.settings import BoardSettings
from tellapart.board.tables import RAW, Answer, Benchmark, Entry, Item, Vector
from tellapart.board.vectors import unpacked
from tellapart.board.views.model import said
from tellapart.board.views.view import (
    BenchmarkHead,
    ModelHead,
    Table,
    View,
    benchmark_head,
    heads_of,
    main_metric,
    one_by_slug,
)
from tellapart.errors import UnknownNameError
from tellapart.report.items import true_pairs

__all__ = ["PAGE", "ItemPage", "ItemRow", "ItemsPage", "Made", "Square", "failures", "item_page", "items_page"]

#: Items on one page of the list.
PAGE = 50


class ItemRow(View):
    """One item of the list.

    Attributes:
        failed: models that do not get it wholly right.

    >>> ItemRow(title="a", position=0, texts=(), tags={}, failed=1).failed
    1
    """

    position: int
    texts: tuple[str, ...]
    tags: dict[str, str]
    failed: int | None


class ItemsPage(View):
    """One page of a benchmark's items.

    >>> head = BenchmarkHead(slug="a", name="a", title="A", task="pairs", n=0, metric="")
    >>> ItemsPage(title="A", benchmark=head, items=(), page=1, pages=1, models=0).pages
    1
    """

    benchmark: BenchmarkHead
    items: tuple[ItemRow, ...]
    page: int
    pages: int
    models: int

    def table(self) -> Table:
        """Return the page's items, a row each.

        >>> head = BenchmarkHead(slug="a", name="a", title="A", task="pairs", n=0, metric="")
        >>> ItemsPage(title="A", benchmark=head, items=(), page=1, pages=1, models=0).table().rows
        (('item', 'failed by', 'texts'),)
        """
        rows = tuple((row.title, row.failed, " | ".join(row.texts)) for row in self.items)
        return Table(title=self.title, rows=(("item", "failed by", "texts"), *rows))


class Square(View):
    """One cell of an item's matrix: the score of an image with a text.

    Attributes:
        text: the score with as many decimals as tell it from the matrix's other ones.
        shade: 0 (lowest of the item) to 10.
        state: `won`, `lost` or `even` for a true pair, else empty.

    >>> Square(title="image 0, text 0", score=0.5, text="0.500", shade=10, state="won").state
    'won'
    """

    score: float
    text: str
    shade: int
    state: str


class Made(View):
    """What one model made of an item.

    Attributes:
        matrix: (image, text); empty for tasks.
        verdicts: metric -> `won`, `lost`, `even` (a tie, so not right), or the value where it is neither.

    >>> Made(title="a", model=ModelHead(slug="a", label="a", kind="model"), matrix=(), verdicts={}).said
    ''
    """

    model: ModelHead
    matrix: tuple[tuple[Square, ...], ...]
    verdicts: dict[str, str | float]
    said: str = ""


class ItemPage(View):
    """One item.

    Attributes:
        images: how many pictures it has; each is at its place's address.
        failed, won: the models that fail it and those that do not, by the metric that ranks the benchmark.
        made: contestants before reference models, and those that fail it before the others.
        before, after: positions of its neighbours.

    >>> ItemPage.model_fields["before"].default is None
    True
    """

    benchmark: BenchmarkHead
    position: int
    unit: str
    cluster: str
    gold: str
    tags: dict[str, str]
    images: tuple[str, ...]
    texts: tuple[str, ...]
    failed: tuple[ModelHead, ...]
    won: tuple[ModelHead, ...]
    made: tuple[Made, ...]
    before: int | None = None
    after: int | None = None


def failures(session: Session, benchmark: Benchmark) -> tuple[NDArray[np.int64], int]:
    """Return how many models fail each item, int64 (item,), and how many models there are; reference models left out.

    >>> from tellapart.board.store import Store
    >>> with Store("sqlite://") as store, store.session() as session:
    ...     failures(session, Benchmark(id=1, slug="a", name="a", fingerprint="", title="", task="pairs", n=2))
    (array([0, 0]), 0)
    """
    heads = heads_of(session)
    own = [entry for entry, (head, _) in heads.items() if head.kind == "model"]
    rows = session.exec(
        select(Vector.data).where(
            Vector.metric == main_metric(benchmark.headline),
            Vector.entry_id.in_(own),  # type: ignore[attr-defined]
            Vector.entry_id.in_(_entries(benchmark)),  # type: ignore[attr-defined]
        )
    ).all()
    failed = np.zeros(benchmark.n, dtype=np.int64)
    for data in rows:
        failed += unpacked(data) < 1  # NaN, an item without this metric, is no failure
    return failed, len(rows)


def items_page(session: Session, _settings: BoardSettings, slug: str, page: int) -> ItemsPage:
    """List a benchmark's items, those that most models fail first.

    Raises:
        UnknownNameError: there is no such benchmark, or no such page.

    >>> from tellapart.board.store import Store
    >>> with Store("sqlite://") as store, store.session() as session:
    ...     items_page(session, BoardSettings(), "demo", 1)
    Traceback (most recent call last):
    tellapart.errors.UnknownNameError: this board has no benchmark 'demo'
    """
    benchmark = one_by_slug(session, Benchmark, slug, "benchmark")
    known = benchmark.n if benchmark.items_digest else 0
    pages = max(1, -(-known // PAGE))
    if not 1 <= page <= pages:
        raise UnknownNameError(f"{benchmark.name} has pages 1 to {pages} of items; there is no page {page}")
    failed, models = failures(session, benchmark) if known else (np.zeros(0, dtype=np.int64), 0)
    order = np.argsort(-failed, kind="stable")[PAGE * (page - 1) : PAGE * page].tolist()
    found = session.exec(
        select(Item).where(Item.benchmark_id == benchmark.id, Item.position.in_(order))  # type: ignore[attr-defined]
    ).all()
    by_place = {item.position: item for item in found}
    return ItemsPage(
        title=f"{benchmark.title}: items",
        benchmark=benchmark_head(benchmark),
        page=page,
        pages=pages,
        models=models,
        items=tuple(
            ItemRow(
                title=by_place[k].name,
                position=k,
                texts=tuple(by_place[k].texts),
                tags=by_place[k].tags,
                failed=int(failed[k]) if models else None,
            )
            for k in order
        ),
    )


def item_page(session: Session, _settings: BoardSettings, slug: str, position: int) -> ItemPage:
    """Show one item; of the models' vectors only the bytes of this item are read.

    Raises:
        UnknownNameError: there is no such benchmark or item.

    >>> from tellapart.board.store import Store
    >>> with Store("sqlite://") as store, store.session() as session:
    ...     item_page(session, BoardSettings(), "demo", 0)
    Traceback (most recent call last):
    tellapart.errors.UnknownNameError: this board has no benchmark 'demo'
    """
    benchmark = one_by_slug(session, Benchmark, slug, "benchmark")
    item = session.get(Item, (benchmark.id, position)) if 0 <= position < benchmark.n else None
    if item is None:
        raise UnknownNameError(f"{benchmark.name} has no item {position}; it has {benchmark.n:,}, counted from 0")
    made = _made(session, benchmark, item)
    main = main_metric(benchmark.headline)
    judged = [one for one in made if main in one.verdicts]
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
        made=made,
        before=position - 1 if position else None,
        after=position + 1 if position + 1 < benchmark.n else None,
    )


def _entries(benchmark: Benchmark) -> object:
    return select(Entry.id).where(Entry.benchmark_id == benchmark.id)


def _made(session: Session, benchmark: Benchmark, item: Item) -> tuple[Made, ...]:
    images, texts = benchmark.images_each or 0, benchmark.texts_each or 0
    width = images * texts
    place = item.position
    # substr counts bytes from 1, in SQLite and in PostgreSQL.
    one = func.substr(Vector.data, 4 * place + 1, 4)
    rows = session.execute(
        select(Vector.entry_id, Vector.metric, one, func.substr(Vector.tied, place + 1, 1)).where(
            Vector.entry_id.in_(_entries(benchmark)),  # type: ignore[attr-defined]
            Vector.metric != RAW,
        )
    ).all()
    raw, answers = _raw(session, benchmark, place), _answers(session, benchmark, place)
    verdicts: dict[int, dict[str, str | float]] = {}
    shown = set(benchmark.headline)
    for entry, metric, data, tied in rows:
        value = float(unpacked(bytes(data))[0])
        if metric in shown and not np.isnan(value):
            verdicts.setdefault(entry, {})[metric] = _verdict(value, tied=bytes(tied or b"") == b"\1")
    heads, main = heads_of(session), main_metric(benchmark.headline)
    entries = sorted(
        verdicts.keys() | raw.keys() | answers.keys(),
        key=lambda e: (heads[e][0].kind, verdicts.get(e, {}).get(main) == "won", heads[e][0].label),
    )
    return tuple(
        Made(
            title=heads[entry][0].label,
            model=heads[entry][0],
            matrix=_matrix(unpacked(raw[entry]).reshape(images, texts)) if raw.get(entry) and width else (),
            verdicts={
                name: verdicts.get(entry, {})[name] for name in benchmark.headline if name in verdicts.get(entry, {})
            },
            said=said(answers[entry]) if entry in answers else "",
        )
        for entry in entries
    )


def _raw(session: Session, benchmark: Benchmark, place: int) -> dict[int, bytes]:
    width = 4 * (benchmark.images_each or 0) * (benchmark.texts_each or 0)
    rows = session.execute(
        select(Vector.entry_id, func.substr(Vector.data, width * place + 1, width)).where(
            Vector.entry_id.in_(_entries(benchmark)),  # type: ignore[attr-defined]
            Vector.metric == RAW,
        )
    ).all()
    return {entry: bytes(data) for entry, data in rows}


def _answers(session: Session, benchmark: Benchmark, place: int) -> dict[int, str]:
    rows = session.execute(
        select(Answer.entry_id, Answer.output).where(
            Answer.position == place,
            Answer.entry_id.in_(_entries(benchmark)),  # type: ignore[attr-defined]
        )
    ).all()
    return {int(entry): output for entry, output in rows}


def _verdict(value: float, *, tied: bool) -> str | float:
    if value == 1:
        return "won"
    if tied:
        return "even"
    return "lost" if value == 0 else value


def _matrix(scores: NDArray[np.float32]) -> tuple[tuple[Square, ...], ...]:
    images, texts = scores.shape
    low, reach = float(scores.min()), float(np.ptp(scores))
    true = set(true_pairs((images, texts)))
    digits = _decimals(scores)

    def square(image: int, text: int) -> Square:
        score = float(scores[image, text])
        shade = round(10 * (score - low) / reach) if reach and np.isfinite(reach) else 3
        state = _standing(scores, image, text) if (image, text) in true else ""
        shortest = float(str(scores[image, text]))
        where = f"image {image}, text {text}"
        return Square(title=where, score=shortest, text=f"{score:.{digits}f}", shade=shade, state=state)

    return tuple(tuple(square(image, text) for text in range(texts)) for image in range(images))


def _decimals(scores: NDArray[np.float32]) -> int:
    """The fewest decimals that keep different scores different; no more than float32 can hold of such numbers."""
    largest = float(np.abs(scores).max())
    first, most = (1, 4) if largest >= 100 else (2, 6) if largest >= 10 else (3, 9)
    distinct = len(np.unique(scores))
    return next((k for k in range(first, most) if len(np.unique(np.round(scores.astype(float), k))) == distinct), most)


def _standing(scores: NDArray[np.float32], image: int, text: int) -> str:
    """Whether a true pair beats every other cell of its row and column."""
    rivals = np.concatenate([np.delete(scores[image], text), np.delete(scores[:, text], image)])
    if len(rivals) == 0 or (scores[image, text] > rivals).all():
        return "won"
    return "lost" if (scores[image, text] < rivals).any() else "even"
