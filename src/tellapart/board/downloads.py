"""Tables as CSV and as LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from tellapart.board.views.view import Table
from tellapart.data.rows import spreadsheet_cell
from tellapart.report.paper_tables.writing import fit_width, latex_packages, latex_text

#: Texts with more letters are wrapped.
_LONG = 40

Cell = str | float | None


def as_csv(table: Table) -> str:
    """Return a table as CSV; numbers with all their digits, an empty field for None.

    Text that a spreadsheet would take for a formula gets an apostrophe before it.

    >>> as_csv(Table(title="a", rows=(("model", "score"), ("=1+1", 0.5), ("b", None))))
    "model,score\\r\\n'=1+1,0.5\\r\\nb,\\r\\n"
    """
    target = io.StringIO()
    csv.writer(target).writerows(map(spreadsheet_cell, row) for row in table.rows)
    return target.getvalue()


def as_latex(table: Table) -> str:
    """Return a table in the style of booktabs; fractions with four decimals, with a small interval after each number.

    >>> rows = (("model", "score", "score low", "score high"), ("a_b", 0.5, 0.4, 0.6))
    >>> print(as_latex(Table(title="50 %", rows=rows)), end="")
    % \\usepackage{booktabs}
    % \\usepackage{graphicx}
    % 50 \\%
    \\noindent\\resizebox{\\ifdim\\width>\\linewidth \\linewidth\\else\\width\\fi}{!}{%
    \\begin{tabular}{lr}
    \\toprule
    model & score \\\\
    \\midrule
    a\\_b & 0.5000 {\\scriptsize [0.4000, 0.6000]} \\\\
    \\bottomrule
    \\end{tabular}}
    """
    head, *rows = table.rows
    columns = [k for k, name in enumerate(head) if not _is_bound(head, k)]
    tabular = [
        f"\\begin{{tabular}}{{{''.join(_column_alignment([row[k] for row in rows]) for k in columns)}}}",
        "\\toprule",
        " & ".join(_latex_cell(head[k]) for k in columns) + " \\\\",
        "\\midrule",
        *(" & ".join(_with_interval(head, row, k) for k in columns) + " \\\\" for row in rows),
        "\\bottomrule",
        "\\end{tabular}",
    ]
    text = "\n".join([f"% {latex_text(table.title)}", *fit_width(tabular), ""])
    return "\n".join([*latex_packages(text), text])


def _is_bound(head: Sequence[Cell], k: int) -> bool:
    """Return whether a column is the low or the high end of an interval."""
    return any(_has_interval(head, k - back) for back in (1, 2) if k >= back)


def _has_interval(head: Sequence[Cell], k: int) -> bool:
    name, following = head[k], list(head[k + 1 : k + 3])
    return following in (["low", "high"], [f"{name} low", f"{name} high"])


def _column_alignment(column: Sequence[Cell]) -> str:
    texts = [cell for cell in column if isinstance(cell, str)]
    if any(len(text) > _LONG for text in texts):
        return "p{0.4\\linewidth}"
    return "l" if texts else "r"


def _with_interval(head: Sequence[Cell], row: Sequence[Cell], k: int) -> str:
    if not _has_interval(head, k) or row[k + 1] is None:
        return _latex_cell(row[k])
    return f"{_latex_cell(row[k])} {{\\scriptsize [{_latex_cell(row[k + 1])}, {_latex_cell(row[k + 2])}]}}"


def _latex_cell(cell: Cell) -> str:
    if cell is None:
        return "--"
    if isinstance(cell, str):
        return latex_text(cell)
    if isinstance(cell, int):
        return str(cell)
    if 0 < abs(cell) < 0.00005:  # a p-value
        digits, _, power = f"{cell:.1e}".partition("e")
        return rf"${digits} \cdot 10^{{{int(power)}}}$"
    return f"{cell:.4f}" if abs(cell) < 1000 else f"{cell:.0f}"
