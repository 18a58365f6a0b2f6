"""Rows of a leaderboard: numbers of the database as cells, models in their places."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import sqlalchemy
from pydantic import TypeAdapter
from sqlmodel import Session

from tellapart.board.entries import is_hidden
from tellapart.board.tables import Benchmark, Entry, Model, Score
from tellapart.board.views.limited import Part, find_parts
from tellapart.board.views.view import BenchmarkHead, Cell, Link, ModelHead, Table, View, mark_of

#: Models on one page of the overview's table.
PAGE = 50

_CELL = ("value", "low", "high", "reason", "chance", "n", "ties", "tie_neutral", "official", "tier", "mark")
_CELLS = TypeAdapter(list[Cell])


class Column(View):
    """One column.

    Attributes:
        unit: `percent`, or `points` for a difference of percentages.
        note: what holds for all of its numbers: `150 of 300 items, rounded to 1 point`; empty if nothing does.
        group: the family of benchmarks to which it belongs with its neighbours; empty if it stands alone.
        link: of its head, if it has one.
    """

    unit: str = "percent"
    about: str = ""
    note: str = ""
    group: str = ""
    link: Link | None = None


class LeaderboardRow(View):
    """One model; a cell for each column, None if it was not measured."""

    model: ModelHead
    cells: tuple[Cell | None, ...]
    rank: int | None = None


class Block(View):
    """A table of a leaderboard: some of its columns, and the models that have numbers in them.

    Attributes:
        first, last: its columns, from one to before the other.
        first_row, last_row: its rows, likewise.
        sorted_by: the column by which its rows are sorted, counted from the leaderboard's first.
    """

    first: int
    last: int
    first_row: int = 0
    last_row: int = 0
    sorted_by: int = 0

    def has(self, row: LeaderboardRow) -> bool:
        """Return whether a row has a number in its columns."""
        return any(cell is not None for cell in row.cells[self.first : self.last])


class Unread(View):
    """A file that could not be read; `title` is its name below the board's folder, `reason` why."""

    reason: str


class Leaderboard(View):
    """A leaderboard.

    Attributes:
        blocks: its tables; one, unless no model was measured on the benchmarks of two.
        rows: those of each block, the best model first.
        references: people, then reference models; they have no rank.
        chance: of each column.
        maps: links to its heat maps, one for each tag.
        folded: benchmarks that have no column, since no ranked model was measured on them.
        unread: files of the board's folders that could not be read; on the first page.
        choices, metrics: links to other columns for the same benchmark, and to other metrics.
        tested: at least one column's models were tested against each other.
        page, pages: which part of the rows is shown as HTML, and of how many parts; the first page has several if
            there are many models.
    """

    benchmark: BenchmarkHead | None = None
    about: str = ""
    columns: tuple[Column, ...]
    blocks: tuple[Block, ...]
    rows: tuple[LeaderboardRow, ...]
    references: tuple[LeaderboardRow, ...]
    chance: tuple[float | None, ...]
    maps: tuple[Link, ...] = ()
    folded: tuple[Link, ...] = ()
    unread: tuple[Unread, ...] = ()
    choices: tuple[Link, ...] = ()
    metrics: tuple[Link, ...] = ()
    tested: bool = False
    page: int = 1
    pages: int = 1

    def shown(self, block: Block) -> tuple[LeaderboardRow, ...]:
        """Return the rows of a block that are on this page."""
        first, last = (0, len(self.rows)) if self.pages == 1 else (PAGE * (self.page - 1), PAGE * self.page)
        return self.rows[max(block.first_row, first) : min(block.last_row, last)]

    def table(self) -> Table:
        """Return models by columns, as fractions; a tier with each, and the numbers on a part of the items."""
        all_rows = (*self.rows, *self.references)
        has_parts = any(cell is not None and cell.limited for row in all_rows for cell in row.cells)
        titles = [column.title for column in self.columns]  # each block may have a mean
        names = [
            title if titles.count(title) == 1 else f"{title} {titles[:k].count(title) + 1}"
            for k, title in enumerate(titles)
        ]
        head: list[str] = ["model", "kind", *(["limited"] if has_parts else [])]
        for name in names:
            head += [name, f"{name} low", f"{name} high", f"{name} tier"]
        rows: list[tuple[str | float | None, ...]] = [tuple(head)]
        for row in all_rows:
            cells = [(c.value, c.low, c.high, c.tier) if c else (None,) * 4 for c in row.cells]
            limited = (
                f"{one.title}: {c.limited}" for one, c in zip(self.columns, row.cells, strict=True) if c and c.limited
            )
            said = ["; ".join(limited)] if has_parts else []
            rows.append((row.model.label, row.model.kind, *said, *(part for cell in cells for part in cell)))
        reasons = [
            "; ".join(f"{name}: {c.reason}" for name, c in zip(names, row.cells, strict=True) if c and c.reason)
            for row in all_rows
        ]
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
        chance=tuple(_column_chance(rows, column) for column in range(len(columns))),
        tested=any(cell is not None and cell.tier is not None for row in rows for cell in row.cells),
    )


def _column_chance(rows: Sequence[LeaderboardRow], column: int) -> float | None:
    return next((cell.chance for row in rows if (cell := row.cells[column]) and cell.chance is not None), None)


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
    rounded = {benchmark.id for benchmark in benchmarks if is_hidden(benchmark)}
    numbers_of = (dict(zip(_CELL, row[4:], strict=True), rounded=row[1] in rounded) for row in rows)
    cells = _CELLS.validate_python(list(numbers_of))
    scores = [ModelScore(row[0], row[1], row[2], row[3], cell) for row, cell in zip(rows, cells, strict=True)]
    if not parts:
        return scores
    scores.sort(key=lambda one: (one.benchmark not in parts, parts[one.benchmark].n if one.benchmark in parts else 0))
    return [_mark_part(one, parts[one.benchmark], wanted) if one.benchmark in parts else one for one in scores]


def _mark_part(score: ModelScore, part: Part, wanted: Collection[int]) -> ModelScore:
    benchmark_id = part.shown_on if part.shown_on in wanted else score.benchmark
    return score._replace(benchmark=benchmark_id, cell=score.cell.model_copy(update={"limited": part.text}))


def read_heads(session: Session) -> dict[int, ModelHead]:
    """Return every model's name and address, by its id."""
    model = Model.__table__.c  # type: ignore[attr-defined]
    rows = session.connection().execute(sqlalchemy.select(model.id, model.slug, model.label, model.kind))
    return {number: ModelHead(slug=slug, label=label, kind=kind) for number, slug, label, kind in rows}


def make_row(head: ModelHead, cells: Sequence[Cell | None]) -> LeaderboardRow:
    """Return a model's row, before it has a place."""
    return LeaderboardRow(title=head.label, model=head, cells=tuple(cells))
