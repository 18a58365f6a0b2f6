"""The one model of tables: headings, columns and rows, drawn on a terminal and in a notebook, and laid out for papers.

`paper_tables.table` writes it as LaTeX, Markdown, CSV and JSON; a text's template makes it of lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Literal, Self

from tellapart.errors import plain

if TYPE_CHECKING:
    from rich.table import Table as RichTable

    from tellapart.records.result import Result, Value


@dataclass(slots=True)
class Cell:
    """A number in the table's unit, with its interval or the reason why it has none; or a text.

    `best`: no other of its column (or row) is higher, as printed. `near`: items do not distinguish it from the best.
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None
    best: bool = False
    near: bool = False
    reason: str = ""
    imported: bool = False
    text: str | None = None

    @classmethod
    def with_interval(cls, percent: float, value: Value) -> Self:
        """Give a number, in percent, the interval of a fraction, or the reason why there is none."""
        if value.low is None or value.high is None:
            return cls(percent, reason=value.reason or "", imported=value.method == "imported")
        return cls(percent, 100 * value.low, 100 * value.high)

    def __str__(self) -> str:
        """Return what is printed: two decimals, and a mark of a number near the best; a dash if there is none."""
        if self.text is not None:
            return self.text
        return "–" if self.value is None else f"{self.value:.2f}{'†' * (self.near and not self.best)}"


@dataclass(frozen=True, slots=True)
class Column:
    """A column, and the heading that it shares with its neighbours; empty if it shares none.

    A terminal aligns it to the right unless it is of `words`, and breaks its lines if it `wraps`. In the
    column of a `reference` model, and in one that is `unranked`, of a metric that is not best high, no number is best.
    """

    group: str
    name: str
    reference: bool = False
    words: bool = False
    wraps: bool = False
    unranked: bool = False

    @property
    def full_name(self) -> str:
        """The heading with the shared one before it."""
        return f"{self.group} {self.name}".strip()


#: The columns that tell which model a row is of, in tables of runs on the same items, on terminals and pages and in
#: papers: heading -> their text, of the model's label and the record of its run.
MODEL_COLUMNS: dict[str, Callable[[str, Result], str]] = {"model": lambda label, _: label}


def name_model(label: str, result: Result | None) -> tuple[str, ...]:
    """Return the texts of a row's `MODEL_COLUMNS`; of a row of no model (chance), its label alone."""
    if result is None:
        return (label, *[""] * (len(MODEL_COLUMNS) - 1))
    return tuple(read(label, result) for read in MODEL_COLUMNS.values())


@dataclass(frozen=True, slots=True)
class Row:
    """A model, or one metric of a table with models across: labels, and a number or a text for each column.

    A `plain` row (chance) and a `reference` model are never best. Neighbours of one `block` have it as first label. On
    a terminal a row has a `style`, and a rule before it if it is `ruled`.
    """

    labels: tuple[str, ...]
    cells: tuple[Cell, ...]
    plain: bool = False
    reference: bool = False
    block: str = ""
    style: str = ""
    ruled: bool = False

    @property
    def label(self) -> str:
        """The first label that is not of neighbours, too."""
        return self.labels[bool(self.block)]


@dataclass(frozen=True, slots=True)
class Table:
    """A full table: `heads` are of the columns of labels on the left, notes the meaning of the marks.

    On a terminal that is too narrow, names of the first column are broken before numbers are cut. A table that `folds`
    breaks them in any case, and its title stays whole.
    """

    title: str
    heads: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    best_of: Literal["column", "row"] = "column"
    notes: tuple[str, ...] = ()
    folds: bool = False
    headless: bool = False

    @property
    def headings(self) -> list[str]:
        """The headings of all columns, those of labels first."""
        return [*self.heads, *(column.full_name for column in self.columns)]

    def lines(self) -> list[list[str]]:
        """Return the texts of each row, as many as there are columns."""
        texts = ([*row.labels, *map(str, row.cells)] for row in self.rows)
        return [[*map(plain, line), *[""] * (len(self.headings) - len(line))] for line in texts]

    def rich(self) -> RichTable:
        """Return it as rich's table, of texts as they are: no name is read as markup."""
        from rich import box, table
        from rich.text import Text

        drawn = table.Table(title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        drawn.show_header = not self.headless
        if self.title:
            drawn.title = Text(title := plain(self.title), style="bold" if self.folds else "")
            drawn.min_width = min(len(title), 80) if self.folds else None  # a narrow table would break its title
        if self.notes:
            drawn.caption, drawn.caption_justify = Text("\n".join(map(plain, self.notes)), style="not italic"), "left"
        labels = (Column("", head, words=True, wraps=number > 0) for number, head in enumerate(self.heads))
        cuts = bool(self.columns) and not any(column.wraps for column in self.columns)  # long names would cut numbers
        for number, column in enumerate((*labels, *self.columns)):
            drawn.add_column(Text(plain(column.full_name)), justify="left" if column.words else "right")
            drawn.columns[-1].no_wrap = not (column.wraps or (number == 0 and (self.folds or cuts)))
            drawn.columns[-1].overflow = "fold" if self.folds or (number == 0 and cuts) else "ellipsis"
        for row, texts in zip(self.rows, self.lines(), strict=True):
            if row.ruled:
                drawn.add_section()
            best = [len(row.labels) + number for number, cell in enumerate(row.cells) if cell.best]
            cells = (Text(text, "bold" if number in best else "") for number, text in enumerate(texts))
            drawn.add_row(*cells, style=row.style)
        return drawn

    def __rich_console__(self, console: Any, options: Any) -> Iterator[RichTable]:
        yield self.rich()

    def html(self) -> str:
        """Return it as an HTML table, with all texts escaped."""
        sides = ["left"] * len(self.heads) + ["left" if column.words else "right" for column in self.columns]

        def line(texts: Sequence[str], tag: str) -> str:
            cells = (
                f'<{tag} style="text-align: {side}">{escape(text)}</{tag}>'
                for text, side in zip(texts, sides, strict=True)
            )
            return f"<tr>{''.join(cells)}</tr>"

        title = f"<caption>{escape(plain(self.title))}</caption>" if self.title else ""
        body = "".join(line(texts, "td") for texts in self.lines())
        heads = line([*map(plain, self.headings)], "th")
        return f"<table>{title}<thead>{heads}</thead><tbody>{body}</tbody></table>"


def text_row(texts: Sequence[str], labels: int, style: str = "", *, ruled: bool = False) -> Row:
    """Make a row of texts, the first of which are labels."""
    return Row(tuple(texts[:labels]), tuple(Cell(text=text) for text in texts[labels:]), style=style, ruled=ruled)


def text_table(
    *headings: str | Column,
    numbers_from: int | None = None,
    rows: Iterable[Sequence[str] | Row] = (),
    title: str = "",
    **options: Any,
) -> Table:
    """Make a table of texts: headings from `numbers_from` on are of columns, and those before of labels."""
    split = len(headings) if numbers_from is None else numbers_from
    columns = [of if isinstance(of, Column) else Column("", of) for of in headings]
    made = (row if isinstance(row, Row) else text_row(row, split) for row in rows)
    return Table(title, tuple(of.name for of in columns[:split]), tuple(columns[split:]), tuple(made), **options)
