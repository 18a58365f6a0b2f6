"""A table before it is written: columns in groups, rows in blocks, the best numbers marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self

from tellapart.benchmarks.benchmark import ALL
from tellapart.benchmarks.benchmark import PaperTable as RowOf
from tellapart.errors import MetricError
from tellapart.records.result import BenchmarkResult, Value


def groups_of(record: BenchmarkResult, tag: str) -> dict[str, dict[str, Value]]:
    """Return a record's metrics over all items and over each value of a tag."""
    return {ALL: record.metrics} | {value: group.metrics for value, group in record.by.get(tag, {}).items()}


def numbers_of(groups: Mapping[str, Mapping[str, Value]]) -> dict[str, dict[str, float]]:
    """Return the numbers alone."""
    return {value: {name: number.value for name, number in metrics.items()} for value, metrics in groups.items()}


def paper_row(row_of: RowOf, numbers: Mapping[str, Mapping[str, float]]) -> dict[str, float] | None:
    """Return a model's row, column -> percent; None if a subset or a metric is missing: then it means nothing."""
    try:
        return row_of(numbers)
    except (MetricError, KeyError):
        return None


#: A table with more columns than this does not fit a page; its groups are set under each other.
_MOST_COLUMNS = 18


@dataclass(frozen=True, slots=True)
class TableCell:
    """A number in the table's unit.

    Attributes:
        low, high: its interval; None if it has none, as a mean over subsets.
        best: no other of its column (or row) is higher, as printed.
        near: not the best, and in one tier with it: these items do not distinguish the two.
        reason: why there is no interval; empty if there is one, or if none was looked for.
        imported: another tool measured it.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    best: bool = False
    near: bool = False
    reason: str = ""
    imported: bool = False

    @classmethod
    def with_interval(cls, percent: float, value: Value) -> Self:
        """Give a number, in percent, the interval of a fraction, or the reason why there is none."""
        if value.low is None or value.high is None:
            return cls(percent, reason=value.reason or "", imported=value.method == "imported")
        return cls(percent, 100 * value.low, 100 * value.high)


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column, and the heading that it shares with its neighbours; empty if it shares none."""

    group: str
    name: str
    reference: bool = False

    @property
    def full_name(self) -> str:
        """The heading with the shared one before it."""
        return f"{self.group} {self.name}".strip()


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row: a model, or one metric of a table with models across.

    Attributes:
        block: the heading that it shares with its neighbours; empty if it shares none.
        plain: no competitor (chance): never best, set apart by a rule.
        reference: a reference model beside measured ones, which bounds their numbers: never best.
    """

    label: str
    cells: tuple[TableCell, ...]
    block: str = ""
    plain: bool = False
    reference: bool = False


@dataclass(frozen=True, slots=True)
class PaperTable:
    """A full table.

    Attributes:
        heads: the headings of the columns on the left: of the blocks if there are any, and of the labels.
        best_of: whether the best is marked within a `column` or a `row`.
        notes: the meaning of the marks.
    """

    title: str
    heads: tuple[str, ...]
    columns: tuple[TableColumn, ...]
    rows: tuple[TableRow, ...]
    best_of: Literal["column", "row"] = "column"
    notes: tuple[str, ...] = ()

    @property
    def blocks(self) -> bool:
        """Whether rows have a block's heading left of their label."""
        return len(self.heads) > 1


def mark_best(table: PaperTable, lowest: Sequence[int] = ()) -> PaperTable:
    """Mark the best of every column, or of every row; equal ones as they are printed are all best.

    If a column has a row of chance, the best is marked only if it is above chance: its interval is, or, without
    one, the number. An imported number is not marked without chance.
    """
    if table.best_of == "row":
        compared = [number for number, column in enumerate(table.columns) if not column.reference]
        return replace(table, rows=tuple(row if row.plain else _mark_in_row(row, compared) for row in table.rows))
    compared = [number for number, row in enumerate(table.rows) if not row.plain and not row.reference]
    cells = [list(row.cells) for row in table.rows]
    for column in range(len(table.columns)):
        for block in dict.fromkeys(table.rows[number].block for number in compared):
            rivals = [number for number in compared if table.rows[number].block == block]
            chance = next((row.cells[column].value for row in table.rows if row.plain and row.block == block), None)
            sign = -1 if column in lowest else 1
            marked = _mark_best([cells[number][column] for number in rivals], sign=sign, chance=chance)
            for number, cell in zip(rivals, marked, strict=True):
                cells[number][column] = cell
    rows = tuple(replace(row, cells=tuple(row_cells)) for row, row_cells in zip(table.rows, cells, strict=True))
    return _drop_empty_marks(replace(table, rows=rows))


def _mark_in_row(row: TableRow, compared: Sequence[int]) -> TableRow:
    marked = dict(zip(compared, _mark_best([row.cells[number] for number in compared], sign=1), strict=True))
    return replace(row, cells=tuple(marked.get(number, cell) for number, cell in enumerate(row.cells)))


def _drop_empty_marks(table: PaperTable) -> PaperTable:
    """Leave out daggers of columns in which every model of three or more would have one; a note names these columns."""
    models = [row for row in table.rows if not row.plain and not row.reference]
    level = [
        number
        for number in range(len(table.columns))
        if len(filled := [row.cells[number] for row in models if row.cells[number].value is not None]) > 2
        and any(cell.near for cell in filled)
        and all(cell.near or cell.best for cell in filled)
    ]
    if not level:
        return table
    rows = tuple(
        replace(row, cells=tuple(replace(cell, near=cell.near and n not in level) for n, cell in enumerate(row.cells)))
        for row in table.rows
    )
    names = ", ".join(table.columns[n].full_name for n in level)
    note = f"no model is distinguished from the best by the items of {names} (Holm over all pairs, 5%)"
    marked = any(cell.near for row in rows for cell in row.cells)
    notes = [text for text in table.notes if marked or not text.startswith("dagger:")]
    return replace(table, rows=rows, notes=(*notes[:1], note, *notes[1:]))


def _mark_best(cells: Sequence[TableCell], *, sign: int, chance: float | None = None) -> tuple[TableCell, ...]:
    """Mark the best of cells, if it is above chance; one alone has nothing to be better than."""
    printed = [None if cell.value is None else sign * round(cell.value, 2) for cell in cells]
    numbers = [number for number in printed if number is not None]
    if len(numbers) < 2:
        return tuple(cells)
    return tuple(
        replace(cell, best=True, near=False) if number == max(numbers) and _is_above(cell, chance) else cell
        for cell, number in zip(cells, printed, strict=True)
    )


def _is_above(cell: TableCell, chance: float | None) -> bool:
    lowest = cell.value if cell.low is None else cell.low
    if chance is None:
        return not cell.imported
    return lowest is not None and lowest > chance


def stack_groups(table: PaperTable) -> PaperTable:
    """Set groups of the same columns under each other if a table would be wider than a page (VALSE's)."""
    columns_of: dict[str, list[int]] = {}
    for number, column in enumerate(table.columns):
        columns_of.setdefault(column.group, []).append(number)
    names = [[table.columns[number].name for number in numbers] for numbers in columns_of.values()]
    if len(table.columns) <= _MOST_COLUMNS or len(names) < 2 or any(other != names[0] for other in names):
        return table
    rows = tuple(
        replace(row, block=group, cells=tuple(row.cells[number] for number in numbers))
        for group, numbers in columns_of.items()
        for row in table.rows
    )
    return replace(
        table, heads=("metric", *table.heads), columns=tuple(TableColumn("", name) for name in names[0]), rows=rows
    )
