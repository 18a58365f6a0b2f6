"""Parts that all pages share: cells, heads of models and benchmarks, links, and a table for download."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy
from pydantic import BaseModel, ConfigDict
from sqlmodel import Session, select

from tellapart.board.tables import Benchmark, Entry, Model
from tellapart.errors import UnknownNameError
from tellapart.tasks.registry import main_metric


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)


class Table(_Frozen):
    """Rows for CSV and LaTeX; the first one is the head."""

    title: str
    rows: tuple[tuple[str | int | float | None, ...], ...]

    def with_reasons(self, reasons: Sequence[str | None]) -> Table:
        """Return the table with a last column `no interval`, the reason; unchanged if every row has an interval."""
        if not any(reasons):
            return self
        column = ["no interval", *(reason or None for reason in reasons)]
        return Table(title=self.title, rows=tuple((*row, why) for row, why in zip(self.rows, column, strict=True)))


class View(_Frozen):
    """A page's content; programs get it as JSON at the page's address."""

    title: str

    def table(self) -> Table | None:
        """Return the page as a table for CSV and LaTeX; None if it has none."""
        return None


class Link(_Frozen):
    """A link to another page.

    Attributes:
        page, args: as in `links.PATTERNS`.
        current: it leads to the page that has it.
    """

    text: str
    page: str
    args: dict[str, str | int]
    current: bool = False


class ModelHead(_Frozen):
    """A model's name and address."""

    slug: str
    label: str
    kind: str


class BenchmarkHead(_Frozen):
    """A benchmark's name and address.

    Attributes:
        n: the number of items; 0 if unknown.
        metric: the one that ranks it.
        has_items: its items are in the database, and have pages.
        part: `20 of 300 items` if it is a part of a benchmark, else empty.
    """

    slug: str
    name: str
    title: str
    task: str
    n: int
    metric: str
    has_items: bool = False
    part: str = ""

    @property
    def label(self) -> str:
        """Its name, and how much of it was measured if that is a part."""
        return f"{self.name} ({self.part})" if self.part else self.name


class Cell(_Frozen):
    """One number of a table with its interval, chance and ties; a fraction, or a deviation in the unit of the scores.

    Attributes:
        reason: why there is no interval, if that is known.
        official: the value as the benchmark's authors count ties; None where that is the same, or unknown.
        tier: shared by models that the items cannot separate; None if they were not tested.
        mark: `imported` if the number was published elsewhere, `on trust` if the scores were computed elsewhere.
        limited: `20 of 300 items` if the number is over a part of the benchmark; it has no place among the others.
        rounded: the number is one of hidden labels, rounded to a step.
    """

    value: float
    low: float | None = None
    high: float | None = None
    reason: str | None = None
    chance: float | None = None
    n: int
    ties: int = 0
    tie_neutral: float | None = None
    official: float | None = None
    tier: int | None = None
    mark: str = ""
    limited: str = ""
    rounded: bool = False

    def percent(self, decimals: int = 2, sign: str = "") -> str:
        """Write the value in percent; of a rounded one no digits that are not known.

        >>> cells = [Cell(value=0.95, n=30), Cell(value=0.95, n=30, rounded=True)]
        >>> [cell.percent() for cell in cells], cells[1].percent(sign="+")
        (['95.00', '95'], '+95')
        """
        return f"{100 * self.value:{sign}{'.4g' if self.rounded else f'.{decimals}f'}}"


def one_by_slug(session: Session, table: Any, slug: str, noun: str) -> Any:
    """Return the row of a table with this slug."""
    row = session.exec(select(table).where(table.slug == slug)).first()
    if row is None:
        raise UnknownNameError(f"this board has no {noun} {slug[:200]!r}")
    return row


def heads_of(session: Session) -> Mapping[int, tuple[ModelHead, str]]:
    """Return entry -> its model and its mark, for every entry."""
    entry, model = Entry.__table__.c, Model.__table__.c  # type: ignore[attr-defined]
    query = sqlalchemy.select(entry.id, mark_of(entry), model.slug, model.label, model.kind)
    rows = session.connection().execute(query.where(model.id == entry.model_id))
    return {number: (ModelHead(slug=slug, label=label, kind=kind), mark) for number, mark, slug, label, kind in rows}


def mark_of(entry: Any) -> sqlalchemy.Case[str]:
    """Return the mark of an entry's numbers, as an expression of its table's columns: empty, `on trust`, `imported`."""
    # A run folder of imported numbers has another tool's rule; scores made elsewhere were measured by this one.
    measured = sqlalchemy.and_(entry.folder != "", entry.tie_rule == "")
    return sqlalchemy.case((~entry.on_trust, ""), (measured, "on trust"), else_="imported")


def model_head(model: Model) -> ModelHead:
    """Return a model's name and address."""
    return ModelHead(slug=model.slug, label=model.label, kind=model.kind)


def benchmark_head(benchmark: Benchmark) -> BenchmarkHead:
    """Return a benchmark's name and address."""
    return BenchmarkHead(
        slug=benchmark.slug,
        name=benchmark.name,
        title=f"{benchmark.title} ({benchmark.part})" if benchmark.part else benchmark.title,
        task=benchmark.task,
        n=benchmark.n,
        metric=main_metric(benchmark.headline),
        has_items=bool(benchmark.items_digest),
        part=benchmark.part,
    )
