"""Rows of a leaderboard: numbers of the database as cells, models in their places."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy
from pydantic import BaseModel, ConfigDict, TypeAdapter
from sqlmodel import Session, col, select

from tellapart.board.store import Benchmark, Entry, Model, Score
from tellapart.errors import UnknownNameError
from tellapart.records.result import HIDDEN_NUMBERS
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
    """A link to another page."""

    text: str
    page: str  # page, args: as in `links.PATTERNS`
    args: dict[str, str | int]
    current: bool = False  # it leads to the page that has it


def choice_links(
    page: str, args: Mapping[str, str | int], key: str, texts: Mapping[str, str], current: str = ""
) -> tuple[Link, ...]:
    """Return links to a page that differ in one argument of the address: its value -> the link's text."""
    return tuple(
        Link(text=text, page=page, args={**args, key: value}, current=value == current) for value, text in texts.items()
    )


class ModelHead(_Frozen):
    """A model's name and address."""

    slug: str
    label: str
    kind: str


class BenchmarkHead(_Frozen):
    """A benchmark's name and address."""

    slug: str
    name: str
    title: str
    task: str
    n: int  # the number of items; 0 if unknown
    metric: str  # the one that ranks it
    has_items: bool = False  # its items are in the database, and have pages
    part: str = ""  # `20 of 300 items` if it is a part of a benchmark, else empty

    @property
    def label(self) -> str:
        """Its name, and how much of it was measured if that is a part."""
        return f"{self.name} ({self.part})" if self.part else self.name


class Cell(_Frozen):
    """One number of a table, with its interval, chance and ties: a fraction, or a deviation in the unit of scores."""

    value: float
    low: float | None = None
    high: float | None = None
    reason: str | None = None  # why there is no interval, if that is known
    chance: float | None = None
    n: int
    ties: int = 0
    tie_neutral: float | None = None
    # the value as the benchmark's authors count ties; None where that is the same, or unknown
    official: float | None = None
    tier: int | None = None  # shared by models that the items cannot separate; None if they were not tested
    mark: str = ""  # `imported` if the number was published elsewhere, `on trust` if the scores were computed elsewhere
    # `20 of 300 items` if the number is over a part of the benchmark; it has no place among the others
    limited: str = ""
    rounded: bool = False  # the number is one of hidden labels, rounded to a step

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


# Records of a part of a benchmark's items (`--limit`): shown in its place, without competing with the complete one.
#
# Numbers of hidden labels cover one split and are rounded; a page shows both facts next to them.


@dataclass(frozen=True, slots=True)
class Part:
    """Some of a benchmark's items."""

    shown_on: int  # the benchmark on whose page it is: the complete one, or the largest part if no model has all
    n: int  # its items
    text: str  # as on a page: `20 of 300 items`


def find_parts(session: Session) -> Mapping[int, Part]:
    """Return every benchmark that is a part of one, by its id."""
    parts = session.exec(select(Benchmark).where(col(Benchmark.limited_from).is_not(None))).all()
    names = {part.name for part in parts}
    of_name = (col(Benchmark.limited_from).is_(None), col(Benchmark.name).in_(names))
    wholes = session.exec(select(Benchmark).where(*of_name).order_by(col(Benchmark.id))).all() if names else []
    limited = {}
    for part in parts:
        same = [entry for entry in wholes if entry.name == part.name]
        rivals = [entry for entry in same if entry.n == part.limited_from] or same
        largest = max((each for each in parts if each.name == part.name), key=lambda each: (each.n, -(each.id or 0)))
        limited[part.id or 0] = Part((rivals[0] if rivals else largest).id or 0, part.n, part.part)
    return limited


def describe_hidden(session: Session, benchmarks: Sequence[Benchmark]) -> Mapping[int, str]:
    """Return `150 of 300 items, rounded to 1 point` for each of these benchmarks whose labels are hidden, by its id."""
    hidden = [benchmark.id for benchmark in benchmarks if benchmark.is_hidden]
    if not hidden:
        return {}
    entries = session.exec(select(Entry.benchmark_id, Entry.record).where(col(Entry.benchmark_id).in_(hidden))).all()
    notes = {number: note for number, record in entries for note in record.get("notes", ())}
    return {number: note.partition(HIDDEN_NUMBERS)[2] for number, note in notes.items() if HIDDEN_NUMBERS in note}


#: Models on one page of the overview's table.
PAGE = 50

_CELL = ("value", "low", "high", "reason", "chance", "n", "ties", "tie_neutral", "official", "tier", "mark")
_CELLS = TypeAdapter(list[Cell])


class Column(View):
    """One column."""

    unit: str = "percent"  # `percent`, or `points` for a difference of percentages
    about: str = ""
    note: str = ""  # what holds for all of its numbers: `150 of 300 items, rounded to 1 point`; empty if nothing does
    group: str = ""  # the family of benchmarks to which it belongs with its neighbours; empty if it stands alone
    link: Link | None = None  # of its head, if it has one


class LeaderboardRow(View):
    """One model; a cell for each column, None if it was not measured."""

    model: ModelHead
    cells: tuple[Cell | None, ...]
    rank: int | None = None


class Block(View):
    """A table of a leaderboard: some of its columns, and the models that have numbers in them."""

    first: int  # first, last: its columns, from one to before the other
    last: int
    first_row: int = 0  # first_row, last_row: its rows, likewise
    last_row: int = 0
    sorted_by: int = 0  # the column by which its rows are sorted, counted from the leaderboard's first

    def has(self, row: LeaderboardRow) -> bool:
        """Return whether a row has a number in its columns."""
        return any(cell is not None for cell in row.cells[self.first : self.last])


class Unread(View):
    """A file that could not be read; `title` is its name below the board's folder, `reason` why."""

    reason: str


class Leaderboard(View):
    """A leaderboard."""

    benchmark: BenchmarkHead | None = None
    about: str = ""
    columns: tuple[Column, ...]
    blocks: tuple[Block, ...]  # its tables; one, unless no model was measured on the benchmarks of two
    rows: tuple[LeaderboardRow, ...]  # those of each block, the best model first
    references: tuple[LeaderboardRow, ...]  # people, then reference models; they have no rank
    chance: tuple[float | None, ...]  # of each column
    maps: tuple[Link, ...] = ()  # links to its heat maps, one for each tag
    folded: tuple[Link, ...] = ()  # benchmarks that have no column, since no ranked model was measured on them
    unread: tuple[Unread, ...] = ()  # files of the board's folders that could not be read; on the first page
    # choices, metrics: links to other columns for the same benchmark, and to other metrics
    choices: tuple[Link, ...] = ()
    metrics: tuple[Link, ...] = ()
    tested: bool = False  # at least one column's models were tested against each other
    # page, pages: which part of the rows is shown as HTML, and of how many parts; the first page has several if there
    # are many models
    page: int = 1
    pages: int = 1

    def shown(self, block: Block) -> tuple[LeaderboardRow, ...]:
        """Return the rows of a block that are on this page."""
        first, last = (0, len(self.rows)) if self.pages == 1 else (PAGE * (self.page - 1), PAGE * self.page)
        return self.rows[max(block.first_row, first) : min(block.last_row, last)]

    def table(self) -> Table:
        """Return models by columns, as fractions; a tier with each, and the numbers on a part of the items."""
        all_rows = (*self.rows, *self.references)
        titles = [column.title for column in self.columns]  # each block may have a mean
        names = [
            title if titles.count(title) == 1 else f"{title} {titles[:k].count(title) + 1}"
            for k, title in enumerate(titles)
        ]

        def join(row: LeaderboardRow, field: str, heads: Sequence[str]) -> str:
            texts = ((head, getattr(cell, field)) for head, cell in zip(heads, row.cells, strict=True) if cell)
            return "; ".join(f"{head}: {text}" for head, text in texts if text)

        parts = [join(row, "limited", titles) for row in all_rows]
        head = [part for name in names for part in (name, f"{name} low", f"{name} high", f"{name} tier")]
        rows: list[tuple[str | float | None, ...]] = [("model", "kind", *(["limited"] if any(parts) else []), *head)]
        for row, part in zip(all_rows, parts, strict=True):
            cells = [(c.value, c.low, c.high, c.tier) if c else (None,) * 4 for c in row.cells]
            limited = [part] if any(parts) else []
            rows.append((row.model.label, row.model.kind, *limited, *(number for cell in cells for number in cell)))
        reasons = [join(row, "reason", names) for row in all_rows]
        return Table(title=self.title, rows=tuple(rows)).with_reasons(reasons)


def place_rows(rows: Sequence[LeaderboardRow], by: int) -> tuple[LeaderboardRow, ...]:
    """Return models in their order by a column, with their ranks.

    A model without a number there, or with one of a part of the items, comes after those that have it: the one with
    most numbers first. It has no rank. Equal numbers share a rank.
    """
    contestants = sorted((row for row in rows if row.model.kind == "model"), key=lambda row: _sort_key(row, by))
    cells = [row.cells[by] if row.cells else None for row in contestants]
    values = [cell.value for cell in cells if cell and not cell.limited]
    ranks = [(cell.tier or 1 + values.index(cell.value)) if cell and not cell.limited else None for cell in cells]
    return tuple(row.model_copy(update={"rank": rank}) for row, rank in zip(contestants, ranks, strict=True))


def _sort_key(row: LeaderboardRow, by: int) -> tuple[bool, int, int, float, str]:
    full = [k for k, cell in enumerate(row.cells) if cell is not None and not cell.limited]
    some = by if by in full else next(iter(full), next((k for k, c in enumerate(row.cells) if c), 0))
    cell = row.cells[some] if row.cells else None
    order = (0, 0) if by in full else (-len(full), some)
    return (by not in full, *order, -cell.value if cell else 0.0, row.model.label)


def arrange_rows(
    rows: Sequence[LeaderboardRow], columns: Sequence[Column], blocks: Sequence[Block], *, title: str, about: str
) -> Leaderboard:
    """Make a leaderboard: each block's models in their places, then people and reference models."""
    all_rows: list[LeaderboardRow] = []
    placed = []
    for block in blocks:
        block_rows = place_rows([row for row in rows if block.has(row) or len(blocks) == 1], block.sorted_by)
        placed.append(
            block.model_copy(update={"first_row": len(all_rows), "last_row": len(all_rows) + len(block_rows)})
        )
        all_rows += block_rows
    others = [row for row in rows if row.model.kind != "model"]
    others.sort(key=lambda row: (row.model.kind, _sort_key(row, blocks[0].sorted_by if blocks else 0)))
    return Leaderboard(
        title=title,
        about=about,
        columns=tuple(columns),
        blocks=tuple(placed),
        rows=tuple(all_rows),
        references=tuple(others),
        chance=tuple(
            next((cell.chance for row in rows if (cell := row.cells[k]) and cell.chance is not None), None)
            for k in range(len(columns))
        ),
        tested=any(cell is not None and cell.tier is not None for row in rows for cell in row.cells),
    )


class ModelScore(NamedTuple):
    """One number of a model on a benchmark, by a metric; over all items, or over those of a tag's value."""

    model: int
    benchmark: int
    value_of: str
    metric: str
    cell: Cell


def read_scores(
    session: Session, benchmarks: Sequence[Benchmark], tag: str, metrics: Sequence[str]
) -> list[ModelScore]:
    """Return the numbers of some benchmarks over one tag, as cells; those of a part of the items before the complete
    ones.

    Of a model's numbers with one benchmark, value and metric the last is the one that counts.
    The query names all three columns of the index `score_of`, since an entry has hundreds of numbers, and reads plain
    rows instead of objects, since a page shows thousands.
    """
    parts, wanted = find_parts(session), [benchmark.id or 0 for benchmark in benchmarks]
    score, entry = Score.__table__.c, Entry.__table__.c  # type: ignore[attr-defined]
    numbers = [score[name] for name in _CELL[:-1]]
    query = (
        sqlalchemy.select(entry.model_id, score.benchmark_id, score.value_of, score.metric, *numbers, mark_of(entry))
        .where(entry.id == score.entry_id, score.tag == tag, score.metric.in_(metrics))
        .where(score.benchmark_id.in_([*wanted, *(id_ for id_, part in parts.items() if part.shown_on in wanted)]))
    )
    rows = session.connection().execute(query).all()
    rounded = {benchmark.id for benchmark in benchmarks if benchmark.is_hidden}
    numbers_of = (dict(zip(_CELL, row[4:], strict=True), rounded=row[1] in rounded) for row in rows)
    cells = _CELLS.validate_python(list(numbers_of))
    scores = [ModelScore(row[0], row[1], row[2], row[3], cell) for row, cell in zip(rows, cells, strict=True)]
    if not parts:
        return scores
    scores.sort(key=lambda score: parts[score.benchmark].n if score.benchmark in parts else math.inf)
    for k, score in enumerate(scores):
        if part := parts.get(score.benchmark):
            benchmark_id = part.shown_on if part.shown_on in wanted else score.benchmark
            limited = score.cell.model_copy(update={"limited": part.text})
            scores[k] = score._replace(benchmark=benchmark_id, cell=limited)
    return scores


def tabulate(scores: Iterable[ModelScore], column: str) -> dict[int, dict[Any, Cell]]:
    """Return model -> a field of its scores -> the last cell with that field."""
    table: dict[int, dict[Any, Cell]] = {}
    for score in scores:
        table.setdefault(score.model, {})[getattr(score, column)] = score.cell
    return table


def read_heads(session: Session) -> dict[int, ModelHead]:
    """Return every model's name and address, by its id."""
    model = Model.__table__.c  # type: ignore[attr-defined]
    rows = session.connection().execute(sqlalchemy.select(model.id, model.slug, model.label, model.kind))
    return {number: ModelHead(slug=slug, label=label, kind=kind) for number, slug, label, kind in rows}


def make_row(head: ModelHead, cells: Sequence[Cell | None]) -> LeaderboardRow:
    """Return a model's row, before it has a place."""
    return LeaderboardRow(title=head.label, model=head, cells=tuple(cells))
