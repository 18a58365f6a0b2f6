"""Tables as CSV and as LaTeX."""

from __future__ import annotations

import csv
import io

from tellapart.board.views.view import Table

__all__ = ["as_csv", "as_latex"]

_TEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}

Cell = str | float | None


def as_csv(table: Table) -> str:
    """Return a table as CSV; numbers with all their digits, an empty field for None.

    Text that a spreadsheet would take for a formula gets an apostrophe before it.

    >>> as_csv(Table(title="a", rows=(("model", "score"), ("=1+1", 0.5), ("b", None))))
    "model,score\\r\\n'=1+1,0.5\\r\\nb,\\r\\n"
    """
    target = io.StringIO()
    csv.writer(target).writerows([_plain(cell) for cell in row] for row in table.rows)
    return target.getvalue()


def as_latex(table: Table) -> str:
    """Return a table in the manner of booktabs; fractions with four decimals.

    >>> print(as_latex(Table(title="50 %", rows=(("model", "score"), ("a_b", 0.5)))), end="")
    % 50 \\%
    \\begin{tabular}{lr}
    \\toprule
    model & score \\\\
    \\midrule
    a\\_b & 0.5000 \\\\
    \\bottomrule
    \\end{tabular}
    """
    head, *rows = [[_tex(cell) for cell in row] for row in table.rows]
    lines = [
        # A title ends with its line, or what follows it would be set.
        f"% {_tex(' '.join(table.title.split()))}",
        f"\\begin{{tabular}}{{l{'r' * (len(head) - 1)}}}",
        "\\toprule",
        " & ".join(head) + " \\\\",
        "\\midrule",
        *(" & ".join(row) + " \\\\" for row in rows),
        "\\bottomrule",
        "\\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def _plain(cell: Cell) -> str | float | None:
    if isinstance(cell, str) and cell[:1] in {"=", "+", "-", "@", "\t", "\r"}:
        return f"'{cell}"
    return cell


def _tex(cell: Cell) -> str:
    if cell is None:
        return "--"
    if isinstance(cell, float):
        return f"{cell:.4f}"
    return "".join(_TEX.get(letter, letter) for letter in " ".join(str(cell).split()))
