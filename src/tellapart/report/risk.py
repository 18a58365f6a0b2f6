"""Curves of risk over coverage: a table of areas, their differences, and the picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tellapart.diagnosis.risk import Risks
from tellapart.errors import plain
from tellapart.report.numbers import count_text
from tellapart.report.plots.style import COLUMN, legend_below, look, new_figure, write_title
from tellapart.report.terminal import tables_of
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
    return tables_of("risks", risks=risks, title=risks_title(risks))


def risk_lines(risks: Risks) -> list[str]:
    """Return sentences on the table: its words, and why an interval is missing."""
    lines = [
        "area: the mean share of errors over all coverages, items with the largest margins first; `random` has that of "
        "a margin that says nothing",
        "margin: the best score above the next, the smallest of the metric's comparisons",
    ]
    if any(row.low is None for row in risks.rows):
        lines.append(f"an interval takes {FEW_CLUSTERS} clusters")
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
