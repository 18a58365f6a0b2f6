"""Psychometric curves: P(right) over a numeric tag, with each model's threshold and its interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tellapart.errors import plain
from tellapart.evaluation.curve import Curve, Curves
from tellapart.report.curve_tables import curves_title
from tellapart.report.plots.style import COLUMN, GREY, PAGE, legend_below, look, new_figure, write_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Panels side by side on a page.
_MOST_ACROSS = 3


def draw_thresholds(curves: Curves) -> Figure:
    """Draw a panel for all items, and one for each value of the second tag; a curve a model, its threshold below."""
    subsets = list(dict.fromkeys(row.subset for row in curves.curves))
    across = min(_MOST_ACROSS, len(subsets))
    down = -(-len(subsets) // across)
    models = len({row.model for row in curves.curves})
    figure = new_figure(COLUMN if across == 1 else PAGE, 0.9 + (1.9 + 0.08 * models) * down)
    panels = figure.subplots(down, across, squeeze=False, sharey=True).ravel()
    for axes, subset in zip(panels, subsets, strict=False):
        _draw_panel(axes, curves, [row for row in curves.curves if row.subset == subset])
        if curves.by is not None:
            axes.set_title("all items" if subset is None else plain(subset))
    for axes in panels[len(subsets) :]:
        axes.set_visible(False)
    for axes in panels[max(0, len(subsets) - across) : len(subsets)]:
        axes.set_xlabel(plain(curves.over))
        axes.tick_params(labelbottom=True)
    for axes in panels[::across]:
        axes.set_ylabel(f"{curves.metric.replace('_', ' ')}, percent")
    legend_below(figure, panels[0], 3)
    write_title(figure, f"{curves_title(curves)}; 95% intervals")
    return figure


def _draw_panel(axes: Axes, curves: Curves, rows: Sequence[Curve]) -> None:
    reached = [x for row in rows for x, _ in row.line] or [curves.smallest, curves.largest]
    smallest, largest = min(reached), max(reached)
    margin = 0.03 * (largest - smallest)
    axes.axhline(100 * curves.chance, color=GREY, linestyle="--", linewidth=1.0, label="chance")
    for number, row in enumerate(rows):
        style = look(number)
        values = [level.value for level in row.levels]
        # Models at one value stand side by side.
        values = [value + (number - (len(rows) - 1) / 2) * margin / len(rows) for value in values]
        axes.plot(
            values, [100 * level.right for level in row.levels], linestyle="", color=style.colour, marker=style.marker,
            markersize=3.5, markeredgecolor="black", markeredgewidth=0.4,
        )  # fmt: skip
        for value, level in zip(values, row.levels, strict=True):
            if level.low is not None and level.high is not None:
                axes.plot(
                    [value] * 2, [100 * level.low, 100 * level.high], color=style.colour, linewidth=0.7, alpha=0.6
                )
        axes.plot([], [], color=style.colour, linestyle=style.dash, marker=style.marker, label=plain(row.model))
        if not row.line:
            continue
        axes.plot([x for x, _ in row.line], [100 * p for _, p in row.line], color=style.colour, linestyle=style.dash)
        height = -6 - 6 * number
        if row.reason is None:
            ends = [smallest - margin if row.low is None else row.low,
                    largest + margin if row.high is None else row.high]  # fmt: skip
            axes.plot(ends, [height] * 2, color=style.colour, linewidth=1.4)
        if row.threshold is not None:
            axes.plot(row.threshold, height, marker=style.marker, color=style.colour, markeredgecolor="black")
    axes.set_xlim(smallest - 2 * margin, largest + 2 * margin)
    axes.set_ylim(-6 - 6 * len(rows), 103)
    axes.set_yticks([0, 25, 50, 75, 100])
    axes.grid()
