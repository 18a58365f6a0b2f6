"""Tables for papers, spreadsheets and programs: the best marked; as LaTeX, Markdown, CSV or JSON."""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import groupby, product
from pathlib import Path
from typing import Any, NamedTuple

from tellapart.benchmarks.benchmark import ALL, PaperTable
from tellapart.benchmarks.find import declared_benchmark
from tellapart.data.rows import read_toml, spreadsheet_cell
from tellapart.errors import plain
from tellapart.metrics.per_item import mean
from tellapart.records.result import BenchmarkResult, Value, is_imported
from tellapart.report.tables import Cell, Column, Table
from tellapart.report.templates import render_text, show_marks, write_lines

#: Papers' names for the average of their table.
AVERAGE = "Avg"


class Source(NamedTuple):
    """A number of a benchmark's record, of all its items or of a tag's value, and its weight in a mean of several."""

    metric: str
    benchmark: str = ""
    tag: str = ""
    value: str = ALL
    weight: int = 1

    def read(self, record: BenchmarkResult) -> Value | None:
        """Return the number; None if the record lacks it."""
        if self.value == ALL:
            return record.metrics.get(self.metric)
        group = record.by.get(self.tag, {}).get(self.value)
        return None if group is None else group.metrics.get(self.metric)


class Layout(NamedTuple):
    """The columns of a table: each the mean of some numbers of a record, or of no source the average of its group."""

    columns: Mapping[Column, Sequence[Source]]

    @property
    def unchanged(self) -> dict[Column, Source]:
        """The columns that are one number of a record."""
        return {column: sources[0] for column, sources in self.columns.items() if len(sources) == 1}

    def fill(
        self, record: BenchmarkResult, number_of: Callable[[Value], float | None] = lambda value: value.value
    ) -> dict[Column, Cell]:
        """Return a model's row, in percent; nothing if a number is missing: then it means nothing.

        A cell that is one number of the record has its interval.
        """
        row: dict[Column, Cell] = {}
        for column, sources in self.columns.items():
            values = [value for source in sources if (value := source.read(record)) is not None]
            numbers = [number for value in values if (number := number_of(value)) is not None]
            if len(numbers) < len(sources):
                return {}
            if len(values) == 1:
                row[column] = Cell.with_interval(100 * numbers[0], values[0])
                continue
            of_group = [cell.value or 0.0 for other, cell in row.items() if column.group in {"", other.group}]
            average = 100 * float(mean(numbers)) if sources else float(mean(of_group))
            row[column] = Cell(average, imported=is_imported(record))
        return row


def paper_layout(benchmark: str, records: Iterable[BenchmarkResult]) -> Layout | None:
    """Return the layout of the benchmark's paper, if it has one and some record fills it."""
    declared = declared_benchmark(benchmark)
    if declared is None or (paper := declared.paper) is None:
        return None
    for record in records:
        layout = Layout(_paper_columns(paper, record.metrics))
        if layout.fill(record):
            return layout
    return None


def _paper_columns(paper: PaperTable, measured: Container[str]) -> dict[Column, Sequence[Source]]:
    """Return the columns of a paper's table; one shares the words before its last one with its neighbours."""
    scores = [score for score, metric in paper.scores.items() if metric in measured or not paper.scores_first]
    blocks = (scores, paper.parts) if paper.scores_first else (paper.parts, scores)
    columns: dict[Column, Sequence[Source]] = {}
    for headings in product(*blocks):
        score, part = headings if paper.scores_first else headings[::-1]
        group, _, name = " ".join(filter(None, headings)).rpartition(" ")
        metric, values = paper.scores[score], paper.parts[part]
        columns[Column(group, name)] = [Source(metric, tag=paper.tag, value=value) for value in values]
    return columns | ({Column("", AVERAGE): ()} if paper.average else {})


#: A table with more columns than this does not fit a page; its groups are set under each other.
_WIDEST = 18


def mark_best(table: Table, lowest: Sequence[int] = ()) -> Table:
    """Mark the best cells of every column, or of every row; equal ones as they are printed are all best.

    With a row of chance, the best must be above it: its interval, or its number; an imported one needs such a row.
    """

    def mark(rivals: Sequence[Cell], sign: int = 1, chance: float | None = None) -> None:
        """Mark the best of some cells, if it is above chance; one alone has nothing to be better than."""
        printed = [(cell, sign * round(cell.value, 2)) for cell in rivals if cell.value is not None]
        most = max((number for _, number in printed), default=0.0)
        for cell, number in printed:
            bound = cell.value if cell.low is None else cell.low
            above = not cell.imported if chance is None else bound is not None and bound > chance
            if len(printed) > 1 and number == most and above:
                cell.best, cell.near = True, False

    if table.best_of == "row":
        for row in table.rows:
            pairs = zip(row.cells, table.columns, strict=True)
            mark([cell for cell, column in pairs if not column.reference and not column.unranked and not row.plain])
    else:
        for block in dict.fromkeys(row.block for row in table.rows):
            rows = [row for row in table.rows if row.block == block]
            for n in (n for n, column in enumerate(table.columns) if not column.reference and not column.unranked):
                chance = next((row.cells[n].value for row in rows if row.plain), None)
                rivals = [row.cells[n] for row in rows if not row.plain and not row.reference]
                mark(rivals, -1 if n in lowest else 1, chance)
    return _drop_empty_marks(table)


def _drop_empty_marks(table: Table) -> Table:
    """Leave out daggers of columns in which every model of three or more would have one; a note names these columns."""
    models, level = [row for row in table.rows if not row.plain and not row.reference], []
    for number, column in enumerate(table.columns):
        filled = [row.cells[number] for row in models if row.cells[number].value is not None]
        if len(filled) > 2 and any(cell.near for cell in filled) and all(cell.near or cell.best for cell in filled):
            level.append(column.full_name)
            for row in table.rows:
                row.cells[number].near = False
    if not level:
        return table
    note = f"no model is distinguished from the best by the items of {', '.join(level)} (Holm over all pairs, 5%)"
    marked = any(cell.near for row in table.rows for cell in row.cells)
    notes = [text for text in table.notes if marked or not text.startswith("dagger:")]
    return replace(table, notes=(*notes[:1], note, *notes[1:]))


def stack_groups(table: Table) -> Table:
    """Set groups of the same columns under each other if a table would be wider than a page (VALSE's)."""
    columns_of: dict[str, list[int]] = {}
    for number, column in enumerate(table.columns):
        columns_of.setdefault(column.group, []).append(number)
    names = [[table.columns[number].name for number in numbers] for numbers in columns_of.values()]
    if len(table.columns) <= _WIDEST or len(names) < 2 or any(other != names[0] for other in names):
        return table
    rows = tuple(
        replace(row, labels=(group, *row.labels), block=group, cells=tuple(row.cells[number] for number in numbers))
        for group, numbers in columns_of.items()
        for row in table.rows
    )
    heads, columns = ("metric", *table.heads), tuple(Column("", name) for name in names[0])
    return replace(table, heads=heads, columns=columns, rows=rows)


_LETTERS = read_toml(Path(__file__).with_name("latex.toml"))

#: Letters that LaTeX reads as commands, and Greek ones, which mathematics has in every engine.
_COMMANDS, _GREEK = _LETTERS["commands"], dict(zip(_LETTERS["greek"], _LETTERS["names"].split(), strict=True))

#: Ligatures if they follow each other: two hyphens are a dash, a question mark and an accent another mark.
_JOINED = frozenset("-`',?!")

#: Letters that pdflatex has in the encoding T1 only.
_T1 = frozenset("«»ÐÞðþĄąĐđĘęĮįŊŋŲų")

#: Letters that pdflatex sets in any document.
_KNOWN = frozenset(map(chr, range(0xA1, 0x17F))) - _T1 - frozenset("\xadĦħĸĿŀŉŦŧ") | frozenset("ȘșȚț–—‘’“”†‡•…€™←↑→↓")


def latex_text(text: str) -> str:
    r"""Return text that pdflatex, xelatex and lualatex print unchanged.

    Letters that pdflatex lacks (Chinese, Cyrillic, emoji) are printed by the other two, and as code points by
    pdflatex; unprintable characters are their code points everywhere. Line ends and runs of spaces become one space.

    >>> latex_text("a_b & 50%"), latex_text("\\"), latex_text("[new] β-CLIP -- é")
    ('a\\_b \\& 50\\%', '\\textbackslash{}', '{[}new] \\ensuremath{\\beta}-CLIP -{}- é')
    >>> print(latex_text("模型\u200b"))
    \ifdefined\Umathcode 模型\else{[}U+6A21 U+578B]\fi{}{[}U+200B]
    """

    def kind(letter: str) -> str:
        set_by_all = letter.isascii() or letter in _KNOWN or letter in _T1 or letter in _GREEK
        return "hidden" if not letter.isprintable() else "known" if set_by_all else "foreign"

    written = []
    for name, letters in groupby(unicodedata.normalize("NFC", " ".join(text.split())), key=kind):
        run = "".join(letters)
        points = f"{{[}}{' '.join(f'U+{ord(letter):04X}' for letter in run)}]"
        # Both of the other engines have the command that is asked for, and pdflatex has not.
        foreign = rf"\ifdefined\Umathcode {run}\else{points}\fi{{}}"
        written.append({"hidden": points, "foreign": foreign}.get(name) or _write_known(run))
    return "".join(written)


def fit_width(tabular: Sequence[str]) -> list[str]:
    r"""Return the lines of a tabular that is made smaller if it would be wider than the text."""
    *lines, last = tabular
    return [r"\noindent\resizebox{\ifdim\width>\linewidth \linewidth\else\width\fi}{!}{%", *lines, f"{last}}}"]


def latex_packages(latex: str) -> list[str]:
    r"""Return the lines, as comments, that a document's preamble must hold for a table."""
    lines = [r"% \usepackage{booktabs}", r"% \usepackage{graphicx}"]
    if _T1 & frozenset(latex):
        lines.append(r"% \usepackage[T1]{fontenc}")
    if r"\ifdefined\Umathcode" in latex:
        lines.append(
            "% pdflatex prints code points, [U+...]; xelatex or lualatex and a font that has them print the letters"
        )
    return lines


def _write_known(run: str) -> str:
    written = []
    for letter, following in zip(run, f"{run[1:]} ", strict=True):
        separator = "{}" if letter in _JOINED and following in _JOINED else ""
        greek = rf"\ensuremath{{{_GREEK[letter]}}}" if letter in _GREEK else letter
        written.append(_COMMANDS.get(letter, greek) + separator)
    return "".join(written)


#: With more columns of numbers LaTeX's table takes the width of a page of two columns; intervals are set below numbers.
_MOST_COLUMNS, _MOST_BESIDE = 7, 4

#: Characters that Markdown would read as markup, and HTML and its names of letters within it.
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>|#~]|&(?=#?\w+;))")


def write_latex(table: Table, *, intervals: bool = False) -> str:
    r"""Return a `table` environment for a document that uses the packages `booktabs` and `graphicx`."""
    wide = len(table.columns) > _MOST_COLUMNS

    def write_name(name: str) -> str:
        words = re.split(r"(?<=[-_/])| ", name) if wide else [name]
        lines = r"\\".join(map(latex_text, words))
        return rf"\shortstack[r]{{{lines}}}" if len(words) > 1 else lines

    groups, first = [], len(table.heads) + 1
    for name, columns in groupby(column.group for column in table.columns):
        groups.append((latex_text(name), len(list(columns)), first))
        first += groups[-1][1]
    names = [*map(latex_text, table.heads), *(write_name(column.name) for column in table.columns)]
    shown = {"intervals": intervals, "below": len(table.columns) > _MOST_BESIDE, "escape": latex_text}
    tabular = fit_width(write_lines("tabular", table=table, names=names, groups=groups, **shown))
    notes = [*map(latex_text, _list_notes(table, intervals=intervals))]
    lines = render_text("latex", table=table, tabular=tabular, wide=wide, notes=notes, escape=latex_text)
    text = "\n".join(map(show_marks, lines))
    return "\n".join([*latex_packages(text), text])


def _list_notes(table: Table, *, intervals: bool) -> list[str]:
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


def write_markdown(table: Table, *, intervals: bool = False) -> str:
    """Return a table as GitHub's Markdown has them; a shared heading comes before each of its columns' names."""
    listed = map(_escape_markdown, _list_notes(table, intervals=intervals))
    notes = [f"{note.replace('dagger:', '†:')}." for note in listed]
    lines = render_text("markdown", table=table, notes=notes, intervals=intervals, escape=_escape_markdown)
    return "\n".join(map(show_marks, lines))


def write_csv(table: Table, *, intervals: bool = False) -> str:
    r"""Return numbers in full for a spreadsheet or a program: no marks, an empty cell if nothing was measured.

    With `intervals` each column is followed by its `low`, its `high` and, if some number has none, the reason.
    """
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\n")
    parts: list[tuple[str, Callable[[Cell], float | str | None]]] = [
        ("", lambda cell: cell.value if cell.text is None else cell.text)
    ]
    if intervals:
        parts += [(" low", lambda cell: cell.low), (" high", lambda cell: cell.high)]
        if any(cell.reason for row in table.rows for cell in row.cells):
            parts.append((" no interval", lambda cell: cell.reason))
    rows: list[list[str | float | None]] = [
        [*table.heads, *(f"{column.full_name}{suffix}" for column in table.columns for suffix, _ in parts)],
        *([*row.labels, *(read(cell) for cell in row.cells for _, read in parts)] for row in table.rows),
    ]
    writer.writerows(map(spreadsheet_cell, row) for row in rows)
    return target.getvalue()


def write_json(table: Table) -> str:
    """Return everything that a table holds: numbers in full with their intervals, and marks."""

    def list_facts(cell: Cell) -> dict[str, Any]:
        return {name: fact for name, fact in asdict(cell).items() if name != "text" or fact is not None}

    rows = [
        {"label": row.label, "cells": [*map(list_facts, row.cells)], "block": row.block, "plain": row.plain,
         "reference": row.reference, **({"labels": row.labels} if len(row.labels) > 1 + bool(row.block) else {})}
        for row in table.rows
    ]  # fmt: skip
    columns = [{"group": of.group, "name": of.name, "reference": of.reference} for of in table.columns]
    content = {"title": table.title, "heads": table.heads, "columns": columns, "rows": rows}
    return f"{json.dumps(content | {'best_of': table.best_of, 'notes': table.notes}, indent=1, allow_nan=False)}\n"


def _escape_markdown(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", plain(text))
