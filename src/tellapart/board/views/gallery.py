"""What a model finds first for each caption and each image of a retrieval gallery.

Source: COCO-Counterfactuals Figure 9.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import func
from sqlmodel import Session, select

from tellapart.board.settings import BoardSettings
from tellapart.board.tables import Answer, Benchmark, Entry, Item, Model
from tellapart.board.views.view import (
    BenchmarkHead,
    Link,
    ModelHead,
    Table,
    View,
    benchmark_head,
    one_by_slug,
)
from tellapart.errors import UnknownNameError

__all__ = ["PAGE", "SIDES", "Found", "GalleryPage", "Query", "gallery_page", "has_gallery"]

#: Queries on one page.
PAGE = 20

#: Direction -> how it is called, the unit of its queries, the unit of what they find.
SIDES = {
    "t2i": ("captions to images", "caption query", "image query"),
    "i2t": ("images to captions", "image query", "caption query"),
}


class Found(View):
    """One entry of the gallery that a query finds.

    Attributes:
        position: its item's, under which its picture is.
        score: the model's.
        true: it belongs to the query.

    >>> Found(title="3", position=3, images=("a.png",), texts=(), score=0.5, true=True).true
    True
    """

    position: int
    images: tuple[str, ...]
    texts: tuple[str, ...]
    score: float
    true: bool


class Query(View):
    """One query with what it finds first.

    Attributes:
        rank: of the best true entry, under the strict rule.

    >>> Query(title="0", position=0, images=(), texts=("a cat",), rank=1, first=()).rank
    1
    """

    position: int
    images: tuple[str, ...]
    texts: tuple[str, ...]
    rank: int
    first: tuple[Found, ...]


class GalleryPage(View):
    """One page of a gallery's queries.

    Attributes:
        side: `t2i` or `i2t`.
        what: the direction in words.
        sides: both, to choose from.
        asked: how many queries there are on all pages.

    >>> GalleryPage.model_fields["queries"].is_required()
    True
    """

    benchmark: BenchmarkHead
    model: ModelHead
    side: str
    what: str = ""
    sides: tuple[Link, ...]
    asked: int = 0
    page: int
    pages: int
    queries: tuple[Query, ...]

    def table(self) -> Table:
        """Return what is found, a row each.

        >>> head = BenchmarkHead(slug="a", name="a", title="A", task="retrieval", n=0, metric="")
        >>> model = ModelHead(slug="m", label="m", kind="model")
        >>> page = GalleryPage(title="A", benchmark=head, model=model, side="t2i", sides=(), page=1, pages=1, queries=())
        >>> page.table().rows
        (('query', 'asked', 'rank', 'place', 'found', 'score', 'true'),)
        """
        rows = tuple(
            (
                query.title,
                _words(query),
                str(query.rank),
                str(place),
                _words(one),
                one.score,
                "yes" if one.true else "no",
            )
            for query in self.queries
            for place, one in enumerate(query.first, start=1)
        )
        return Table(title=self.title, rows=(("query", "asked", "rank", "place", "found", "score", "true"), *rows))


def has_gallery(session: Session, entry: Entry, benchmark: Benchmark) -> bool:
    """Whether a record keeps what was found first; those of earlier versions keep ranks alone.

    >>> from tellapart.board.store import Store
    >>> with Store("sqlite://") as store, store.session() as session:
    ...     has_gallery(session, Entry(id=1), Benchmark(task="retrieval"))
    False
    """
    answer = session.get(Answer, (entry.id, 0)) if benchmark.task == "retrieval" else None
    return answer is not None and bool(_first(answer.output))


def gallery_page(
    session: Session, _settings: BoardSettings, slug: str, model: str, side: str = "t2i", page: int = 1
) -> GalleryPage:
    """Show what a model finds first for each query of a retrieval gallery.

    Raises:
        UnknownNameError: there is no such benchmark, model, direction or page, or the record keeps ranks alone.

    >>> from tellapart.board.store import Store
    >>> with Store("sqlite://") as store, store.session() as session:
    ...     gallery_page(session, BoardSettings(), "demo", "clip")
    Traceback (most recent call last):
    tellapart.errors.UnknownNameError: this board has no benchmark 'demo'
    """
    benchmark = one_by_slug(session, Benchmark, slug, "benchmark")
    of = one_by_slug(session, Model, model, "model")
    if side not in SIDES:
        raise UnknownNameError(f"no direction {side[:200]!r}; there are {' and '.join(SIDES)}")
    entry = session.exec(select(Entry).where(Entry.benchmark_id == benchmark.id, Entry.model_id == of.id)).first()
    if entry is None or not has_gallery(session, entry, benchmark):
        raise UnknownNameError(
            f"the record of {of.label} on {benchmark.name} does not hold what was found first; "
            "measure it again if it is a retrieval benchmark"
        )
    what, unit, _ = SIDES[side]
    of_side = (Item.benchmark_id == benchmark.id, Item.unit == unit)
    asked = session.exec(select(func.count()).select_from(Item).where(*of_side)).one()
    pages = max(1, -(-asked // PAGE))
    if not 1 <= page <= pages:
        raise UnknownNameError(f"{benchmark.name} has pages 1 to {pages} of {what}; there is no page {page}")
    args: dict[str, str | int] = {"slug": slug, "model": model, "page": 1}
    return GalleryPage(
        title=f"{of.label} on {benchmark.title}: {what}",
        benchmark=benchmark_head(benchmark),
        model=ModelHead(slug=of.slug, label=of.label, kind=of.kind),
        side=side,
        what=what,
        asked=asked,
        sides=tuple(
            Link(text=text, page="gallery_page", args=args | {"side": key}, current=key == side)
            for key, (text, _, _) in SIDES.items()
        ),
        page=page,
        pages=pages,
        queries=_queries(session, entry, side, page),
    )


def _queries(session: Session, entry: Entry, side: str, page: int) -> tuple[Query, ...]:
    _, unit, found_unit = SIDES[side]
    rows = session.exec(
        select(Item, Answer.output)
        .join(Answer, Answer.position == Item.position)  # type: ignore[arg-type]
        .where(Item.benchmark_id == entry.benchmark_id, Item.unit == unit, Answer.entry_id == entry.id)
        .order_by(Item.position)  # type: ignore[arg-type]
        .offset(PAGE * (page - 1))
        .limit(PAGE)
    ).all()
    first = [_first(output) for _, output in rows]
    entries = _entries(session, entry.benchmark_id, found_unit, {one["id"] for each in first for one in each})
    return tuple(
        Query(
            title=f"{unit.removesuffix(' query')} {item.name}",
            position=item.position,
            images=tuple(item.images),
            texts=tuple(item.texts),
            rank=json.loads(output)["rank"],
            first=tuple(_found(entries[one["id"]], one) for one in each),
        )
        for (item, output), each in zip(rows, first, strict=True)
    )


def _entries(session: Session, benchmark: int, unit: str, names: Iterable[str]) -> dict[str, Item]:
    rows = session.exec(
        select(Item).where(Item.benchmark_id == benchmark, Item.unit == unit, Item.name.in_(names))  # type: ignore[attr-defined]
    ).all()
    return {item.name: item for item in rows}


def _found(item: Item, one: Mapping[str, Any]) -> Found:
    return Found(
        title=item.name,
        position=item.position,
        images=tuple(item.images),
        texts=tuple(item.texts),
        score=one["score"],
        true=one["true"],
    )


def _first(output: str) -> list[dict[str, Any]]:
    said = json.loads(output)
    return said.get("first", []) if isinstance(said, dict) else []


def _words(one: Query | Found) -> str:
    return " | ".join((*one.images, *one.texts))
