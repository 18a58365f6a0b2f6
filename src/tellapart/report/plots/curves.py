"""Equivariance curves: how the deviations of a model's scores are distributed about zero."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tellapart.errors import RunError
from tellapart.evaluation.systems import System
from tellapart.report.deviations import Plot, Trace, deviations, plot, share_a_scale
from tellapart.report.measured import pick_benchmark, samples_of, title_of_set
from tellapart.report.numbers import is_deviation, items_text, thousands
from tellapart.report.plots.style import COLUMN, GREY, PAGE, legend_below, look, new_figure, write_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Panels side by side on a page.
_MOST_ACROSS = 4


def draw_curves(runs: Sequence[System], benchmark: str | None = None, metrics: Sequence[str] = ()) -> Figure:
    """Draw a panel for every deviation, a curve a model; models whose scores have another scale get a separate row.

    The geometry is that of the report's page.

    Source: Wang et al. 2023 (EqBen), Figures 6 and 13.
    """
    benchmark, measured = pick_benchmark(runs, benchmark)
    traces = [_make_trace(number, run, benchmark, metrics) for number, run in enumerate(measured)]
    groups = share_a_scale(traces)
    names = [name for name in traces[0].values if all(name in trace.values for trace in traces)]
    columns = min(_MOST_ACROSS, len(names))
    lines = -(-len(names) // columns)
    figure = new_figure(COLUMN if columns == 1 else PAGE, 0.9 + 1.6 * lines * len(groups))
    panels = figure.subplots(lines * len(groups), columns, squeeze=False)
    for row, group in enumerate(groups):
        for number, name in enumerate(names):
            axes = panels[row * lines + number // columns][number % columns]
            _draw_panel(axes, plot(name, group), group)
        for number in range(len(names), lines * columns):
            panels[row * lines + number // columns][number % columns].set_visible(False)
    first = panels[0][0]
    for trace in traces:  # one legend for all the panels, also for models drawn in other rows
        first.plot([], [], color=look(trace.style).colour, linestyle=look(trace.style).dash, label=trace.label)
    legend_below(figure, first, 3)
    write_title(
        figure,
        f"{title_of_set(measured, benchmark)}, {items_text(measured[0].record(benchmark))}: equivariance deviations",
    )
    return figure


def _make_trace(number: int, run: System, benchmark: str, metrics: Sequence[str]) -> Trace:
    record = run.record(benchmark)
    values = deviations(record, samples_of(run, benchmark))
    values = {name: value for name, value in values.items() if not metrics or name in metrics}
    if record.kind is None or not values or any(name not in values for name in metrics):
        have = ", ".join(name for name, value in record.metrics.items() if is_deviation(value))
        raise RunError(
            f"{run.folders[benchmark]}: {benchmark} has no deviation {' or '.join(metrics) or 'at all'}; "
            f"{f'it has {have}' if have else 'only scores of 2x2 items have them'}"
        )
    return Trace(run.label, number, record.kind, values)


def _draw_panel(axes: Axes, panel: Plot, group: Sequence[Trace]) -> None:
    """Draw a plot, whose geometry counts y downwards."""
    axes.axvline(panel.zero, color=GREY, linewidth=0.8)
    for line in panel.lines:
        style = look(line.style)
        if line.spike is not None:
            axes.plot([line.spike] * 2, [0, 0.95], color=style.colour, linestyle=style.dash)
            continue
        if line.dots:
            heights = [1 - y / panel.height for _, y in line.dots]
            axes.plot([x for x, _ in line.dots], heights, color=style.colour, marker=style.marker, linestyle="")
            continue
        points = [tuple(map(float, point.split(","))) for point in line.points.split()]
        across = [x for x, _ in points]
        axes.plot(across, [1 - y / panel.height for _, y in points], color=style.colour, linestyle=style.dash)
    axes.set_xlim(0, panel.width)
    axes.set_ylim(0, 1)
    # Every second one, counted from zero, if all would run into each other.
    step, zero = (2 if len(panel.ticks) > 5 else 1), len(panel.ticks) // 2
    ticks = [tick for number, tick in enumerate(panel.ticks) if (number - zero) % step == 0]
    axes.set_xticks([x for x, _ in ticks], [label for _, label in ticks])
    axes.set_yticks([])
    units = {"similarity": "similarities", "logit": "logits", "probability": "probabilities"}
    axes.set_xlabel(f"difference of {units[group[0].kind]}")
    axes.set_ylabel("items" if any(line.dots for line in panel.lines) else "density")
    beyond = f" ({thousands(panel.beyond)} beyond)" if panel.beyond else ""
    axes.set_title(f"{panel.metric.replace('_', ' ')}{beyond}")
