"""A table as LaTeX (booktabs, escaped for every engine), Markdown, CSV or JSON."""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import groupby

from tellapart.data.rows import spreadsheet_cell
from tellapart.errors import plain
from tellapart.report.paper_tables.paper_table import PaperTable, TableCell, TableColumn, TableRow

_COMMANDS = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\char34{}",  # \textquotedbl is not in LaTeX's first encoding
    # After a line's end, a bracket or a star would be read as part of the line.
    "[": "{[}",
    "*": "{*}",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
}

#: Ligatures if they follow each other: two hyphens are a dash, a question mark and an accent another mark.
_JOINED = frozenset("-`',?!")

#: Letters that pdflatex has in the encoding T1 only.
_T1 = frozenset("«»ÐÞðþĄąĐđĘęĮįŊŋŲų")

#: Letters that pdflatex sets in any document.
_KNOWN = frozenset(map(chr, range(0xA1, 0x17F))) - _T1 - frozenset("\xadĦħĸĿŀŉŦŧ") | frozenset("ȘșȚț–—‘’“”†‡•…€™←↑→↓")

#: Mathematics has them in every engine; capitals that look like Latin letters have no command.
_GREEK_COMMANDS = r"""
    \alpha \beta \gamma \delta \epsilon \zeta \eta \theta \iota \kappa \lambda \mu \nu \xi o \pi \rho \varsigma
    \sigma \tau \upsilon \phi \chi \psi \omega \mathrm{A} \mathrm{B} \Gamma \Delta \mathrm{E} \mathrm{Z} \mathrm{H}
    \Theta \mathrm{I} \mathrm{K} \Lambda \mathrm{M} \mathrm{N} \Xi \mathrm{O} \Pi \mathrm{P} \Sigma \mathrm{T}
    \Upsilon \Phi \mathrm{X} \Psi \Omega
"""
_GREEK = dict(zip("αβγδεζηθικλμνξοπρςστυφχψωΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩ", _GREEK_COMMANDS.split(), strict=True))


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

    letters = unicodedata.normalize("NFC", " ".join(text.split()))
    return "".join(_WRITERS[name]("".join(run)) for name, run in groupby(letters, key=kind))


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


def _write_hidden(run: str) -> str:
    return f"{{[}}{' '.join(f'U+{ord(letter):04X}' for letter in run)}]"


# Both of the other engines have the command that is asked for, and pdflatex has not.
_WRITERS = {
    "known": _write_known,
    "foreign": lambda run: rf"\ifdefined\Umathcode {run}\else{_write_hidden(run)}\fi{{}}",
    "hidden": _write_hidden,
}


#: A table in LaTeX with more columns of numbers takes the full width of a page with two columns of text.
_MOST_COLUMNS = 7

#: With more than these, intervals are set below their numbers.
_MOST_BESIDE = 4

#: Characters that Markdown would read as markup, and HTML within it.
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>|#~])")


def write_latex(table: PaperTable, *, intervals: bool = False) -> str:
    r"""Return a `table` environment for a document that uses the packages `booktabs` and `graphicx`."""
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
    listed = map(latex_text, _list_notes(table, intervals=intervals))
    notes = [re.sub(r"^dagger:", r"$^\\dagger$:", note) for note in listed]
    latex = "\n".join(
        [
            rf"\begin{{{kind}}}[t]",
            r"\centering",
            rf"\caption{{{latex_text(table.title)}}}",
            *([r"\setlength{\tabcolsep}{3pt}"] if wide else []),
            *fit_width(tabular),
            *(["", r"\smallskip", rf"{{\footnotesize {'. '.join(notes)}.}}"] if notes else []),
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
    """Return a table as GitHub's Markdown has them; a shared heading comes before each of its columns' names."""

    def cell_of(cell: TableCell) -> str:
        if cell.value is None:
            return "–"
        number = f"**{cell.value:.2f}**" if cell.best else f"{cell.value:.2f}{'†' if cell.near else ''}"
        if not intervals or (cell.low is None and not cell.reason):
            return number
        return f"{number} [-]" if cell.low is None else f"{number} [{cell.low:.1f}, {cell.high:.1f}]"

    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cells)} |"

    heads = [*table.heads, *(column.full_name for column in table.columns)]
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
    """
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\n")
    parts: list[tuple[str, Callable[[TableCell], float | str | None]]] = [("", lambda cell: cell.value)]
    if intervals:
        parts += [(" low", lambda cell: cell.low), (" high", lambda cell: cell.high)]
        if any(cell.reason for row in table.rows for cell in row.cells):
            parts.append((" no interval", lambda cell: cell.reason))
    rows: list[list[str | float | None]] = [
        [*table.heads, *(f"{column.full_name}{suffix}" for column in table.columns for suffix, _ in parts)],
        *([*_row_labels(table, row), *(read(cell) for cell in row.cells for _, read in parts)] for row in table.rows),
    ]
    writer.writerows(map(spreadsheet_cell, row) for row in rows)
    return target.getvalue()


def write_json(table: PaperTable) -> str:
    """Return everything that a table holds: numbers in full with their intervals, and marks."""
    return f"{json.dumps(asdict(table), indent=1, allow_nan=False)}\n"


def _row_labels(table: PaperTable, row: TableRow) -> list[str]:
    return [row.block, row.label] if table.blocks else [row.label]


def _escape_markdown(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", plain(text))
