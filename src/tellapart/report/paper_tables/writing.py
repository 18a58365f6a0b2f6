"""A table as LaTeX (booktabs), Markdown, CSV or JSON."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import groupby

from tellapart.data.rows import spreadsheet_cell
from tellapart.errors import plain
from tellapart.report.paper_tables.latex_text import fit_width, latex_packages, latex_text
from tellapart.report.paper_tables.paper_table import PaperTable, TableCell, TableColumn, TableRow

#: A table in LaTeX with more columns of numbers takes the full width of a page with two columns of text.
_MOST_COLUMNS = 7

#: With more than these, intervals are set below their numbers.
_MOST_BESIDE = 4

#: Characters that Markdown would read as markup, and HTML within it.
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>|#~])")


def write_latex(table: PaperTable, *, intervals: bool = False) -> str:
    r"""Return a `table` environment for a document that uses the packages `booktabs` and `graphicx`.

    A table that would be wider than the text is made smaller.
    """
    wide = len(table.columns) > _MOST_COLUMNS
    kind = "table*" if wide else "table"
    tabular = [
        rf"\begin{{tabular}}{{{'l' * len(table.heads)}{'r' * len(table.columns)}}}",
        r"\toprule",
        *_latex_headings(table, stacked=wide),
        r"\midrule",
        *_latex_rows(table, intervals=intervals, below=len(table.columns) > _MOST_BESIDE),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    notes = _list_notes(table, intervals=intervals)
    latex = "\n".join(
        [
            rf"\begin{{{kind}}}[t]",
            r"\centering",
            rf"\caption{{{latex_text(table.title)}}}",
            *([r"\setlength{\tabcolsep}{3pt}"] if wide else []),
            *fit_width(tabular),
            *(["", r"\smallskip", rf"{{\footnotesize {_latex_notes(notes)}}}"] if notes else []),
            rf"\end{{{kind}}}",
            "",
        ]
    )
    return "\n".join([*latex_packages(latex), latex])


def _latex_headings(table: PaperTable, *, stacked: bool) -> list[str]:
    def name_of(column: TableColumn) -> str:
        words = re.split(r"(?<=[-_/])| ", column.name) if stacked else [column.name]
        lines = r"\\".join(map(latex_text, words))
        return rf"\shortstack[r]{{{lines}}}" if len(words) > 1 else lines

    groups = [(name, len(list(columns))) for name, columns in groupby(column.group for column in table.columns)]
    names = " & ".join([*map(latex_text, table.heads), *map(name_of, table.columns)]) + r" \\"
    if not any(name for name, _ in groups):
        return [names]
    cells, rules, first = [], [], len(table.heads) + 1
    for name, width in groups:
        cells.append(rf"\multicolumn{{{width}}}{{c}}{{{latex_text(name)}}}" if name else " & ".join([""] * width))
        if name:
            rules.append(rf"\cmidrule(lr){{{first}-{first + width - 1}}}")
        first += width
    return [" & ".join([*[""] * len(table.heads), *cells]) + r" \\", " ".join(rules), names]


def _latex_rows(table: PaperTable, *, intervals: bool, below: bool) -> list[str]:
    """Write the rows; intervals next to their numbers, or in a line below them."""
    lines: list[str] = []
    for before, row in zip([None, *table.rows], table.rows, strict=False):
        if before is not None and (row.plain != before.plain or row.block != before.block):
            lines.append(r"\midrule")
        labels = _row_labels(table, row)
        if before is not None and row.block == before.block and table.blocks:
            labels[0] = ""
        bounds = [_latex_bounds(cell) if intervals else "" for cell in row.cells]
        suffixes = [f" {bound}" if bound and not below else "" for bound in bounds]
        cells = [
            f"{_latex_number(cell, followed=bool(suffix))}{suffix}"
            for cell, suffix in zip(row.cells, suffixes, strict=True)
        ]
        lines.append(" & ".join([*map(latex_text, labels), *cells]) + r" \\")
        if below and any(bounds):
            lines.append(" & ".join([*[""] * len(labels), *bounds]) + r" \\")
    return lines


def _latex_number(cell: TableCell, *, followed: bool) -> str:
    if cell.value is None:
        return "--"
    if cell.best:
        return rf"\textbf{{{cell.value:.2f}}}"
    # \rlap: a mark without width at a cell's end leaves digits under digits.
    mark = "" if not cell.near else r"$^\dagger$" if followed else r"\rlap{$^\dagger$}"
    return f"{cell.value:.2f}{mark}"


def _latex_bounds(cell: TableCell) -> str:
    if cell.low is None:
        return r"{\scriptsize [-]}" if cell.reason else ""
    return rf"{{\scriptsize [{cell.low:.1f}, {cell.high:.1f}]}}"


def _latex_notes(notes: Sequence[str]) -> str:
    return ". ".join(re.sub(r"^dagger:", r"$^\\dagger$:", latex_text(note)) for note in notes) + "."


def _list_notes(table: PaperTable, *, intervals: bool) -> list[str]:
    """Return the notes; if intervals are written, also their level, and the reasons why numbers have none."""
    if not intervals:
        return list(table.notes)
    cells = [cell for row in table.rows for cell in row.cells]
    level = ["brackets: 95% intervals"] if any(cell.low is not None for cell in cells) else []
    return [
        *table.notes,
        *level,
        *(f"[-]: {reason}" for reason in dict.fromkeys(cell.reason for cell in cells) if reason),
    ]


def write_markdown(table: PaperTable, *, intervals: bool = False) -> str:
    """Return a table as GitHub's Markdown has them; a shared heading comes before each of its columns' names.

    >>> from tellapart.report.paper_tables.paper_table import TableColumn
    >>> row = TableRow("a", (TableCell(50.0, best=True),))
    >>> table = PaperTable("demo", ("model",), (TableColumn("", "group"),), (row,))
    >>> print(write_markdown(table))
    **demo**
    <BLANKLINE>
    | model | group |
    |:---|---:|
    | a | **50.00** |
    <BLANKLINE>
    """

    def cell_of(cell: TableCell) -> str:
        if cell.value is None:
            return "–"
        number = f"**{cell.value:.2f}**" if cell.best else f"{cell.value:.2f}{'†' if cell.near else ''}"
        if not intervals or (cell.low is None and not cell.reason):
            return number
        return f"{number} [-]" if cell.low is None else f"{number} [{cell.low:.1f}, {cell.high:.1f}]"

    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cells)} |"

    heads = [*table.heads, *_flat_names(table)]
    listed = _list_notes(table, intervals=intervals)
    notes = [f"{_escape_markdown(note).replace('dagger:', '†:')}." for note in listed]
    return "\n".join(
        [
            f"**{_escape_markdown(table.title)}**",
            "",
            line([_escape_markdown(head) for head in heads]),
            f"|{'|'.join([':---'] * len(table.heads) + ['---:'] * len(table.columns))}|",
            *(line([*map(_escape_markdown, _row_labels(table, row)), *map(cell_of, row.cells)]) for row in table.rows),
            "",
            *([" ".join(notes), ""] if notes else []),
        ]
    )


def write_csv(table: PaperTable, *, intervals: bool = False) -> str:
    r"""Return numbers in full for a spreadsheet or a program: no marks, an empty cell if nothing was measured.

    With `intervals`, each column is followed by its `low` and its `high`, and by the reason (`no interval`) if any
    number of the table has none. A name that a spreadsheet would run as a formula gets an apostrophe before it.

    >>> from tellapart.report.paper_tables.paper_table import TableColumn
    >>> row = TableRow("a", (TableCell(50.0, 40.0, 60.0),))
    >>> table = PaperTable("demo", ("model",), (TableColumn("Eq-SD", "text"),), (row,))
    >>> write_csv(table, intervals=True)
    'model,Eq-SD text,Eq-SD text low,Eq-SD text high\na,50.0,40.0,60.0\n'
    """
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\n")
    parts: list[tuple[str, Callable[[TableCell], float | str | None]]] = [("", lambda cell: cell.value)]
    if intervals:
        parts += [(" low", lambda cell: cell.low), (" high", lambda cell: cell.high)]
        if any(cell.reason for row in table.rows for cell in row.cells):
            parts.append((" no interval", lambda cell: cell.reason))
    rows: list[list[str | float | None]] = [
        [*table.heads, *(f"{name}{suffix}" for name in _flat_names(table) for suffix, _ in parts)],
        *([*_row_labels(table, row), *(read(cell) for cell in row.cells for _, read in parts)] for row in table.rows),
    ]
    writer.writerows(map(spreadsheet_cell, row) for row in rows)
    return target.getvalue()


def write_json(table: PaperTable) -> str:
    """Return everything that a table holds: numbers in full with their intervals, and marks."""
    return f"{json.dumps(asdict(table), indent=1, allow_nan=False)}\n"


def _flat_names(table: PaperTable) -> list[str]:
    return [f"{column.group} {column.name}".strip() for column in table.columns]


def _row_labels(table: PaperTable, row: TableRow) -> list[str]:
    return [row.block, row.label] if table.blocks else [row.label]


def _escape_markdown(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", plain(text))
