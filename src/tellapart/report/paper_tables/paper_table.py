"""A table before it is written: columns in groups, rows in blocks, what is best and what is not told apart from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

__all__ = ["Cell", "Column", "PaperTable", "Row", "best_marked", "stacked"]

#: A table with more columns than this does not fit a page; its groups are set under each other.
_MOST_COLUMNS = 18


@dataclass(frozen=True, slots=True)
class Cell:
    """A number in the table's unit.

    Attributes:
        value: None where it was not measured.
        low, high: its interval; None where it has none, as a mean over subsets.
        best: no other of its column (or row) is higher, as printed.
        near: not the best, and in one tier with it: these items do not tell the two apart.

    >>> Cell(62.35).best
    False
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    best: bool = False
    near: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """A column, and the heading it shares with its neighbours; empty where it stands alone.

    >>> Column("Eq-SD", "text").name
    'text'
    """

    group: str
    name: str


@dataclass(frozen=True, slots=True)
class Row:
    """A row: a model, or one metric of a table with models across.

    Attributes:
        label: what it is.
        cells: one a column.
        block: what it shares with its neighbours; empty where it stands alone.
        plain: no competitor (chance): never best, set apart by a rule.

    >>> Row("m", (Cell(62.35),)).plain
    False
    """

    label: str
    cells: tuple[Cell, ...]
    block: str = ""
    plain: bool = False


@dataclass(frozen=True, slots=True)
class PaperTable:
    """A whole table.

    Attributes:
        title: the caption.
        heads: the headings of the columns on the left: of the blocks where there are any, and of the labels.
        best_of: whether the best is marked within a `column` or a `row`.
        notes: what the marks mean.

    >>> PaperTable("demo", ("model",), (Column("", "group"),), (Row("m", (Cell(50.0),)),)).best_of
    'column'
    """

    title: str
    heads: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    best_of: Literal["column", "row"] = "column"
    notes: tuple[str, ...] = ()

    @property
    def blocks(self) -> bool:
        """Whether rows have a block's heading of their own, left of their label.

        >>> PaperTable("demo", ("task", "metric"), (), ()).blocks
        True
        """
        return len(self.heads) > 1


def best_marked(table: PaperTable, lowest: Sequence[int] = ()) -> PaperTable:
    """Mark the best of every column, or of every row; equal ones as they are printed are all best.

    Args:
        table: unmarked.
        lowest: columns in which low is good (a time).

    >>> rows = (Row("a", (Cell(50.004),)), Row("b", (Cell(50.0),)), Row("chance", (Cell(90.0),), plain=True))
    >>> [row.cells[0].best for row in best_marked(PaperTable("", ("model",), (Column("", "x"),), rows)).rows]
    [True, True, False]
    """
    if table.best_of == "row":
        rows = tuple(row if row.plain else replace(row, cells=_best(row.cells, sign=1)) for row in table.rows)
        return replace(table, rows=rows)
    compared = [place for place, row in enumerate(table.rows) if not row.plain]
    cells = [list(row.cells) for row in table.rows]
    for number in range(len(table.columns)):
        for block in dict.fromkeys(table.rows[place].block for place in compared):
            own = [place for place in compared if table.rows[place].block == block]
            marked = _best([cells[place][number] for place in own], sign=-1 if number in lowest else 1)
            for place, cell in zip(own, marked, strict=True):
                cells[place][number] = cell
    return replace(
        table, rows=tuple(replace(row, cells=tuple(own)) for row, own in zip(table.rows, cells, strict=True))
    )


def _best(cells: Sequence[Cell], *, sign: int) -> tuple[Cell, ...]:
    """Mark the best of cells, of which one alone has nothing to be better than."""
    printed = [None if cell.value is None else sign * round(cell.value, 2) for cell in cells]
    known = [number for number in printed if number is not None]
    if len(known) < 2:
        return tuple(cells)
    return tuple(
        replace(cell, best=True, near=False) if number == max(known) else cell
        for cell, number in zip(cells, printed, strict=True)
    )


def stacked(table: PaperTable) -> PaperTable:
    """Set groups of the same columns under each other where a table would be wider than a page (VALSE's, a block a metric).

    >>> columns = tuple(Column(group, str(k)) for group in ("acc_r", "acc") for k in range(12))
    >>> tall = stacked(PaperTable("", ("model",), columns, (Row("m", tuple(Cell(float(k)) for k in range(24))),)))
    >>> len(tall.columns), [(row.block, row.cells[0].value) for row in tall.rows]
    (12, [('acc_r', 0.0), ('acc', 12.0)])
    """
    groups = list(dict.fromkeys(column.group for column in table.columns))
    names = {group: [column.name for column in table.columns if column.group == group] for group in groups}
    first = names[groups[0]] if groups else []
    if len(table.columns) <= _MOST_COLUMNS or len(groups) < 2 or any(own != first for own in names.values()):
        return table
    rows = [
        replace(row, block=group, cells=tuple(row.cells[place] for place in _places(table, group)))
        for group in groups
        for row in table.rows
    ]
    return replace(
        table, heads=("metric", *table.heads), columns=tuple(Column("", name) for name in first), rows=tuple(rows)
    )


def _places(table: PaperTable, group: str) -> list[int]:
    return [place for place, column in enumerate(table.columns) if column.group == group]
