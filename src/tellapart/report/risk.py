"""Curves of risk over coverage: a table of areas, their differences, and the picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tellapart.diagnosis.risk import LEAST_ERRORS, Risks
from tellapart.errors import plain
from tellapart.report.numbers import count_text, percent, thousands
from tellapart.report.plots.style import COLUMN, legend_below, look, new_figure, write_title
from tellapart.report.terminal import add_row, table
from tellapart.stats.interval import FEW_CLUSTERS

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table


def risks_title(risks: Risks) -> str:
    """Write what is shown: the benchmark, its metric and items."""
    size = count_text(risks.n, risks.limited_from)
    return f"{plain(risks.benchmark)}, errors of {risks.metric} on {size} items"


def risk_tables(risks: Risks) -> list[Table]:
    """Return the tables: a row for each model, and for each pair of models."""
    heads = ("model", "items", "risk, %", "area, 95%", "least area")
    rows = table(*heads, numbers_from=1, title=risks_title(risks))
    for row in risks.rows:
        bounds = "" if row.low is None or row.high is None else f" [{percent(row.low, 1)}, {percent(row.high, 1)}]"
        cells = [percent(row.risk, 1), percent(row.area, 1) + bounds, percent(row.least, 1)]
        add_row(rows, [row.model, thousands(row.n), *cells])
    if not risks.differences:
        return [rows]
    pairs = table("a", "b", "b - a, 95%", numbers_from=2, title="differences of areas")
    for pair in risks.differences:
        bounds = ""
        if pair.low is not None and pair.high is not None:
            bounds = f" [{100 * pair.low:+.1f}, {100 * pair.high:+.1f}]"
        add_row(pairs, [pair.a, pair.b, f"{100 * pair.difference:+.1f}{bounds}"])
    return [rows, pairs]


def risk_lines(risks: Risks) -> list[str]:
    """Return sentences on the table: its words, and why an interval is missing."""
    lines = [
        "area: the mean share of errors over all coverages, items with the largest margins first; a margin that says "
        "nothing has the risk of all items",
        "margin: the best score above the next, the smallest of the metric's comparisons",
    ]
    if any(row.low is None for row in risks.rows):
        lines.append(f"an interval takes {FEW_CLUSTERS} clusters, and errors in {LEAST_ERRORS} of them")
    return lines


def draw_risks(risks: Risks) -> Figure:
    """Draw risk over coverage, a line a model."""
    figure = new_figure(COLUMN, 2.8 + 0.08 * len(risks.rows))
    axes = figure.subplots()
    for number, row in enumerate(risks.rows):
        style = look(number)
        coverage, risk = zip(*row.curve, strict=True)
        axes.plot(
            [100 * share for share in coverage], [100 * share for share in risk], color=style.colour,
            linestyle=style.dash, label=plain(row.model),
        )  # fmt: skip
    axes.set_xlim(0, 100)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("coverage: items answered, percent")
    axes.set_ylabel("risk: errors among them, percent")
    axes.grid()
    legend_below(figure, axes, 3)
    write_title(figure, risks_title(risks))
    return figure
