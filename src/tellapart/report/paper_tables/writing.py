"""A table as LaTeX (booktabs), Markdown or CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Sequence
from itertools import groupby

from tellapart.report.numbers import plain
from tellapart.report.paper_tables.layout import Cell, PaperTable, Row

__all__ = ["escaped", "write_csv", "write_latex", "write_markdown"]

_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
}

#: What Markdown would read as markup, and HTML within it.
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>|#~])")


def escaped(text: str) -> str:
    r"""Return text that LaTeX prints as it stands.

    >>> escaped("a_b & 50%"), escaped("\\")
    ('a\\_b \\& 50\\%', '\\textbackslash{}')
    """
    return "".join(_LATEX.get(letter, letter) for letter in plain(text))


def write_latex(table: PaperTable, *, intervals: bool = False) -> str:
    r"""Return a `table` environment for a document that uses the package `booktabs`.

    Args:
        table: what to write.
        intervals: write an interval beside its number, small.

    >>> from tellapart.report.paper_tables.layout import Column
    >>> made = PaperTable("demo", ("model",), (Column("", "group"),), (Row("a_b", (Cell(50.0, best=True),)),))
    >>> print(write_latex(made))  # doctest: +ELLIPSIS
    % \usepackage{booktabs}
    \begin{table}[t]
    ...
    a\_b & \textbf{50.00} \\
    ...
    """
    lines = [
        r"% \usepackage{booktabs}",
        r"\begin{table}[t]",
        r"\centering",
        rf"\caption{{{escaped(table.title)}}}",
        rf"\begin{{tabular}}{{{'l' * len(table.heads)}{'r' * len(table.columns)}}}",
        r"\toprule",
        *_latex_headings(table),
        r"\midrule",
    ]
    for place, row in enumerate(table.rows):
        before = table.rows[place - 1] if place else None
        if before is not None and (row.plain != before.plain or row.block != before.block):
            lines.append(r"\midrule")
        block = [] if not table.blocks else [escaped(row.block) if before is None or row.block != before.block else ""]
        cells = [_latex_cell(cell, intervals) for cell in row.cells]
        lines.append(" & ".join([*block, escaped(row.label), *cells]) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}"]
    if table.notes:
        lines += ["", r"\smallskip", rf"{{\footnotesize {_latex_notes(table.notes)}}}"]
    return "\n".join([*lines, r"\end{table}", ""])


def _latex_headings(table: PaperTable) -> list[str]:
    groups = [(name, len(list(own))) for name, own in groupby(column.group for column in table.columns)]
    names = " & ".join([*map(escaped, table.heads), *(escaped(column.name) for column in table.columns)]) + r" \\"
    if not any(name for name, _ in groups):
        return [names]
    cells, rules, place = [], [], len(table.heads) + 1
    for name, width in groups:
        cells.append(rf"\multicolumn{{{width}}}{{c}}{{{escaped(name)}}}" if name else " & ".join([""] * width))
        if name:
            rules.append(rf"\cmidrule(lr){{{place}-{place + width - 1}}}")
        place += width
    return [" & ".join([*[""] * len(table.heads), *cells]) + r" \\", " ".join(rules), names]


def _latex_cell(cell: Cell, intervals: bool) -> str:
    if cell.value is None:
        return "--"
    shown = rf"\textbf{{{cell.value:.2f}}}" if cell.best else f"{cell.value:.2f}"
    mark = r"$^\dagger$" if cell.near and not cell.best else ""
    bounds = rf" {{\scriptsize [{cell.low:.1f}, {cell.high:.1f}]}}" if intervals and cell.low is not None else ""
    return f"{shown}{mark}{bounds}"


def _latex_notes(notes: Sequence[str]) -> str:
    return ". ".join(escaped(note).replace("dagger:", r"$^\dagger$:") for note in notes) + "."


def write_markdown(table: PaperTable, *, intervals: bool = False) -> str:
    """Return a table as GitHub's Markdown has them; a shared heading stands before each of its columns' names.

    >>> from tellapart.report.paper_tables.layout import Column
    >>> made = PaperTable("demo", ("model",), (Column("", "group"),), (Row("a", (Cell(50.0, best=True),)),))
    >>> print(write_markdown(made))
    **demo**
    <BLANKLINE>
    | model | group |
    |:---|---:|
    | a | **50.00** |
    <BLANKLINE>
    """

    def cell_of(cell: Cell) -> str:
        if cell.value is None:
            return "–"
        shown = f"**{cell.value:.2f}**" if cell.best else f"{cell.value:.2f}"
        mark = "†" if cell.near and not cell.best else ""
        return f"{shown}{mark}" + (f" [{cell.low:.1f}, {cell.high:.1f}]" if intervals and cell.low is not None else "")

    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cells)} |"

    heads = [*table.heads, *_flat_names(table)]
    notes = [f"{_marked_down(note).replace('dagger:', '†:')}." for note in table.notes]
    return "\n".join(
        [
            f"**{_marked_down(table.title)}**",
            "",
            line([_marked_down(head) for head in heads]),
            f"|{'|'.join([':---'] * len(table.heads) + ['---:'] * len(table.columns))}|",
            *(line(list(map(_marked_down, _left(table, row))) + list(map(cell_of, row.cells))) for row in table.rows),
            "",
            *([" ".join(notes), ""] if notes else []),
        ]
    )


def write_csv(table: PaperTable, *, intervals: bool = False) -> str:
    r"""Return numbers in full for a spreadsheet or a program: no marks, an empty cell where nothing was measured.

    With `intervals`, each column is followed by its `low` and its `high`.

    >>> from tellapart.report.paper_tables.layout import Column
    >>> made = PaperTable("demo", ("model",), (Column("Eq-SD", "text"),), (Row("a", (Cell(50.0, 40.0, 60.0),)),))
    >>> write_csv(made, intervals=True)
    'model,Eq-SD text,Eq-SD text low,Eq-SD text high\na,50.0,40.0,60.0\n'
    """
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\n")
    parts: list[tuple[str, Callable[[Cell], float | None]]] = [("", lambda cell: cell.value)]
    if intervals:
        parts += [(" low", lambda cell: cell.low), (" high", lambda cell: cell.high)]
    writer.writerow([*table.heads, *(f"{name}{suffix}" for name in _flat_names(table) for suffix, _ in parts)])
    for row in table.rows:
        cells = [read(cell) for cell in row.cells for _, read in parts]
        writer.writerow([*_left(table, row), *("" if number is None else repr(number) for number in cells)])
    return target.getvalue()


def _flat_names(table: PaperTable) -> list[str]:
    return [f"{column.group} {column.name}".strip() for column in table.columns]


def _left(table: PaperTable, row: Row) -> list[str]:
    return [row.block, row.label] if table.blocks else [row.label]


def _marked_down(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", plain(text))
