"""Retrieval galleries: the entries that a model ranks first for each caption and each image.

Source: COCO-Counterfactuals Figure 9.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import func
from sqlmodel import Session, col, select

from tellapart.board.settings import BoardSettings
from tellapart.board.tables import Benchmark, Entry, Item, Model, TaskOutput
from tellapart.board.views.view import (
    BenchmarkHead,
    Link,
    ModelHead,
    Table,
    View,
    benchmark_head,
    model_head,
    one_by_slug,
)
from tellapart.errors import UnknownNameError

#: Queries on one page.
PAGE = 20

#: Tasks whose records list, for each query, the entries ranked first.
_WITH_GALLERY = ("retrieval", "distinct-retrieval")

#: Direction -> its name, the unit of its queries, the unit of the gallery's entries.
SIDES = {
    "t2i": ("captions to images", "caption query", "image query"),
    "i2t": ("images to captions", "image query", "caption query"),
}


class GalleryEntry(View):
    """One of the gallery's entries that are ranked first for a query.

    Attributes:
        position: of its item, for the address of its picture.
        true: it belongs to the query.
    """

    position: int
    images: tuple[str, ...]
    texts: tuple[str, ...]
    score: float
    true: bool


class GalleryQuery(View):
    """One query with the entries ranked first.

    Attributes:
        rank: of the best true entry, under the strict rule.
    """

    position: int
    images: tuple[str, ...]
    texts: tuple[str, ...]
    rank: int
    first: tuple[GalleryEntry, ...]


class GalleryPage(View):
    """One page of a gallery's queries.

    Attributes:
        side, what: the direction, `t2i` or `i2t`, and in words.
        sides: links to both.
        asked: the number of queries on all pages.
    """

    benchmark: BenchmarkHead
    model: ModelHead
    side: str
    what: str = ""
    sides: tuple[Link, ...]
    asked: int = 0
    page: int
    pages: int
    queries: tuple[GalleryQuery, ...]

    def table(self) -> Table:
        """Return the ranked entries, a row each."""
        rows = tuple(
            (
                query.title,
                _entry_words(query),
                str(query.rank),
                str(k),
                _entry_words(entry),
                entry.score,
                "yes" if entry.true else "no",
            )
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
        sides=tuple(
            Link(text=text, page="gallery_page", args=args | {"side": key}, current=key == side)
            for key, (text, _, _) in SIDES.items()
        ),
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
    names = {one["id"] for ranked in first for one in ranked}
    of_names = (Item.benchmark_id == entry.benchmark_id, Item.unit == entry_unit, col(Item.name).in_(names))
    items = {item.name: item for item in session.exec(select(Item).where(*of_names)).all()}
    return tuple(
        GalleryQuery(
            title=f"{unit.removesuffix(' query')} {item.name}",
            position=item.position,
            images=tuple(item.images),
            texts=tuple(item.texts),
            rank=json.loads(output)["rank"],
            first=tuple(_gallery_entry(items[one["id"]], one) for one in ranked),
        )
        for (item, output), ranked in zip(rows, first, strict=True)
    )


def _gallery_entry(item: Item, ranked: Mapping[str, Any]) -> GalleryEntry:
    return GalleryEntry(
        title=item.name,
        position=item.position,
        images=tuple(item.images),
        texts=tuple(item.texts),
        score=ranked["score"],
        true=ranked["true"],
    )


def _first_entries(output: str) -> list[dict[str, Any]]:
    content = json.loads(output)
    return content.get("first", []) if isinstance(content, dict) else []


def _entry_words(one: GalleryQuery | GalleryEntry) -> str:
    return " | ".join((*one.images, *one.texts))
