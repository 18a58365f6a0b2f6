"""Curves of P(right) over numeric tags: thresholds in tables, pictures for papers, and the curves of the report."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tellapart.diagnosis.curve import Curve, Curves, list_numeric_tags, measure_curves
from tellapart.diagnosis.item_analysis import ItemOutcomes
from tellapart.diagnosis.psychometric import INTERVAL_ITEMS, LEAST_LEVELS
from tellapart.errors import plain
from tellapart.report.charts import LineChart
from tellapart.report.numbers import count_text
from tellapart.report.plots.style import COLUMN, GREY, PAGE, legend_below, look, make_panels, write_title
from tellapart.report.sections import ModelEntry
from tellapart.report.templates import write_lines
from tellapart.report.terminal import tables_of
from tellapart.stats.clusters import is_binary
from tellapart.stats.paired import write_p

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.table import Table


#: Numeric tags of a benchmark that are shown, and panels side by side on a page, at most.
_MOST_TAGS, _MOST_ACROSS = 2, 3


def curves_title(curves: Curves) -> str:
    """Write what is shown: the benchmark, its metric and items, the tag."""
    size = count_text(curves.n, curves.limited_from)
    return f"{plain(curves.benchmark)}, {curves.metric} of {size} items over {plain(curves.over)}"


def write_threshold(curve: Curve, smallest: float, largest: float) -> str:
    """Write a threshold with its interval, whose open ends reach beyond the values; or why there is none."""
    if curve.slope is None:
        return f"({curve.reason})"
    if curve.line:  # a part of the items may reach less far than all
        smallest, largest = curve.line[0][0], curve.line[-1][0]
    place = "" if curve.outside is None else curve.outside.partition(" ")[0]
    limit = smallest if place == "below" else largest
    value = f"{place} {limit:.4g}" if curve.threshold is None else f"{curve.threshold:.4g}"
    if curve.reason is not None:
        return f"{value} ({curve.reason})"
    low = f"< {smallest:.4g}" if curve.low is None else f"{curve.low:.4g}"
    high = f"> {largest:.4g}" if curve.high is None else f"{curve.high:.4g}"
    return f"{value} [{low}, {high}]"


def curve_tables(curves: Curves) -> list[Table]:
    """Return the tables: a row for each curve, and for each pair of models."""
    threshold = partial(write_threshold, smallest=curves.smallest, largest=curves.largest)
    return tables_of("curves", curves=curves, title=curves_title(curves), threshold=threshold, write_p=write_p)


def curve_lines(curves: Curves) -> list[str]:
    """Return sentences on the curves: what a threshold is, and notes."""
    return [*map(plain, write_lines("thresholds", curves=curves))]


class TagCurves(NamedTuple):
    """Models' curves over one tag; models and thresholds with their intervals, as written."""

    curves: Curves
    chart: LineChart
    thresholds: tuple[tuple[str, str], ...]


def tag_curves(benchmark: str, metric: str, entries: Sequence[ModelEntry]) -> tuple[TagCurves, ...]:
    """Fit curves over a benchmark's numeric tags; tags without a threshold, and identifiers, are left out."""
    chance = entries[0].record.metrics[metric].chance if metric in entries[0].record.metrics else None
    rows = [row for row, sample in enumerate(entries[0].samples)
            if all(metric in entry.samples[row].outcomes for entry in entries)]  # fmt: skip
    values = np.array([[entry.samples[row].outcomes[metric] for entry in entries] for row in rows], np.float64)
    if chance is None or len(rows) < INTERVAL_ITEMS or not is_binary(values):
        return ()
    items = tuple(entries[0].samples[row] for row in rows)
    outcomes = ItemOutcomes(benchmark, metric, tuple(entry.label for entry in entries), items, values)
    shown = []
    for tag in list_numeric_tags(items):
        texts = [item.tags[tag] for item in items if item.tags.get(tag)]
        identifier = len(set(texts)) == len(texts) and all(float(text).is_integer() for text in texts)
        if identifier or len(texts) < INTERVAL_ITEMS or len(set(map(float, texts))) < LEAST_LEVELS:
            continue
        curves = measure_curves(outcomes, tag, chance=chance)
        if any(None not in (row.threshold, row.low, row.high) for row in curves.curves):
            lines = {row.model: [(x, 100 * p) for x, p in row.line] for row in curves.curves}
            chart = LineChart(f"{curves.metric}, %, over {curves.over}: fitted curves", curves.over, lines)
            thresholds = ((row.model, write_threshold(row, curves.smallest, curves.largest)) for row in curves.curves)
            shown.append(TagCurves(curves, chart, tuple(thresholds)))
        if len(shown) == _MOST_TAGS:
            break
    return tuple(shown)


def draw_thresholds(curves: Curves) -> Figure:
    """Draw a panel for all items, and one for each value of the second tag; a curve a model, its threshold below."""
    subsets = list(dict.fromkeys(row.subset for row in curves.curves))
    across = min(_MOST_ACROSS, len(subsets))
    models = len({row.model for row in curves.curves})
    width, height = COLUMN if across == 1 else PAGE, 0.9 + (1.9 + 0.08 * models) * -(-len(subsets) // across)
    figure, panels = make_panels(width, height, len(subsets), across, sharey=True)
    for axes, subset in zip(panels, subsets, strict=True):
        _draw_panel(axes, curves, [row for row in curves.curves if row.subset == subset])
        if curves.by is not None:
            axes.set_title("all items" if subset is None else plain(subset))
    for axes in panels[-across:]:
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
                bounds = [100 * level.low, 100 * level.high]
                axes.plot([value] * 2, bounds, color=style.colour, linewidth=0.7, alpha=0.6)
        axes.plot([], [], color=style.colour, linestyle=style.dash, marker=style.marker, label=plain(row.model))
        if not row.line:
            continue
        axes.plot([x for x, _ in row.line], [100 * p for _, p in row.line], color=style.colour, linestyle=style.dash)
        height = -6 - 6 * number
        if row.reason is None:
            low, high = (smallest - margin, largest + margin)
            ends = [low if row.low is None else row.low, high if row.high is None else row.high]
            axes.plot(ends, [height] * 2, color=style.colour, linewidth=1.4)
        if row.threshold is not None:
            axes.plot(row.threshold, height, marker=style.marker, color=style.colour, markeredgecolor="black")
    axes.axhline(100 * curves.chance, color=GREY, linestyle="--", linewidth=1.0, label="chance", zorder=1.9)
    axes.set_xlim(smallest - 2 * margin, largest + 2 * margin)
    axes.set_ylim(-6 - 6 * len(rows), 103)
    axes.set_yticks([0, 25, 50, 75, 100])
    axes.grid()
