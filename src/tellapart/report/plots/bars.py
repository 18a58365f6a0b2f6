"""Bars with intervals and the line of chance, side by side or, for many models, in rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tellapart.evaluation.systems import System
from tellapart.records.result import Value
from tellapart.report.measured import first_metrics, name_on, pick_benchmark, title_of_set, value_of
from tellapart.report.numbers import items_text
from tellapart.report.plots.style import COLUMN, GREY, PAGE, axes_of, fold, legend_below, look, new_figure, write_title
from tellapart.tasks.registry import main_metric

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_bars", "draw_rows", "draw_sets", "title_of"]

#: Panels side by side, each wide enough for a scale.
_MOST_PANELS = 4

#: The share of a group's room that its bars take.
_FULL = 0.8

#: More models than this are set under each other: so many bars side by side have no room for a name or a hatch.
_MOST_ACROSS = 8


def draw_bars(runs: Sequence[System], benchmark: str | None = None, metrics: Sequence[str] = ()) -> Figure:
    """Draw a group of bars a metric, a bar a model, each with its interval; chance is a dashed line across the group.

    More than eight models are set under each other, by name, a panel a metric.

    Args:
        runs: the models, in the order of the bars.
        benchmark: which; the one there is if not given.
        metrics: which; those of a first look if not given.

    Raises:
        RunError: the runs did not measure the same items, or one has no such metric.
    """
    benchmark, own = pick_benchmark(runs, benchmark)
    metrics = tuple(metrics) or first_metrics([run.record(benchmark) for run in own])
    values = {name_on(run, benchmark): [value_of(run, benchmark, metric) for metric in metrics] for run in own}
    title = title_of(own, benchmark)
    if len(own) > _MOST_ACROSS:
        return draw_rows(values, metrics, title)
    return _draw_groups(values, metrics, title)


def draw_sets(runs: Sequence[System], benchmarks: Sequence[str], metric: str | None = None) -> Figure:
    """Draw a panel a benchmark with shared axes, a bar a model, the models' names on the left of each row of panels.

    Args:
        runs: the models, from top to bottom; one that did not measure a benchmark has an empty line there.
        benchmarks: the panels, in this order.
        metric: which; the one that ranks each benchmark if not given.

    Raises:
        RunError: no run measured a benchmark, the runs' items differ, or one has no such metric.
    """
    panels: dict[str, list[Value | None]] = {}
    for name in benchmarks:
        benchmark, own = pick_benchmark(runs, name)
        shown = metric or main_metric(first_metrics([run.record(benchmark) for run in own]))
        values = [value_of(run, benchmark, shown) if run in own else None for run in runs]
        title = f"{title_of_set(runs, benchmark)}: {shown.replace('_', ' ')}"
        items = items_text(own[0].record(benchmark))
        panels[f"{title} ({items})" if items else title] = values
    names = [fold(run.label, 30) for run in runs]
    across = min(_MOST_PANELS, len(panels))
    down = -(-len(panels) // across)
    titles = [fold(title, int((PAGE - 1.6) / across / (0.068 * 9 / 8))) for title in panels]
    lines = 1 + max(title.count("\n") for title in titles)
    height = len(names) * (0.17 + 0.11 * max(name.count("\n") for name in names)) + 0.14 * lines + 0.25
    figure = new_figure(PAGE, 0.35 + down * height)
    grid = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True).flat
    for axes, title, values in zip(grid, titles, panels.values(), strict=False):
        _draw_panel(axes, values)
        axes.set_title(title)
    for axes in list(grid)[len(panels) :]:
        axes.set_visible(False)
    grid[0].set_yticks(range(len(names)), names)
    grid[0].set_ylim(len(names) - 0.4, -0.6)
    figure.supxlabel("percent; line: interval; dashed: chance; diamond: ties at random", fontsize=8)
    return figure


def _draw_groups(values: Mapping[str, Sequence[Value]], metrics: Sequence[str], title: str) -> Figure:
    words = max(len(word) for metric in metrics for word in metric.split("_"))
    room = len(metrics) * max(0.09 * len(values) / _FULL, 0.07 * words)
    figure, axes = axes_of(COLUMN if room <= COLUMN - 0.6 else PAGE, 2.4)
    width = _FULL / len(values)
    bars = []
    for number, (label, own) in enumerate(values.items()):
        bars += _draw_bars(axes, number, own, label, width)
    _mark_broken_ties(axes, bars)
    _draw_chance(axes, next(iter(values.values())), width)
    axes.set_xticks(range(len(metrics)), [metric.replace("_", "\n") for metric in metrics])
    axes.tick_params(axis="x", length=0)
    axes.set_ylabel("percent")
    # A corpus metric (CIDEr) may lie above one; shares are drawn on the full scale, so that pictures compare.
    axes.set_ylim(0, max(100.0, axes.get_ylim()[1]))
    axes.grid(axis="y")
    write_title(figure, title)
    legend_below(figure, axes, 3)
    return figure


def _draw_bars(axes: Axes, number: int, values: Sequence[Value], label: str, width: float) -> list[tuple[float, Value]]:
    """Draw one model's bars, and return each with its position."""
    own = look(number)
    positions = [group - _FULL / 2 + (number + 0.5) * width for group in range(len(values))]
    heights = [100 * value.value for value in values]
    axes.bar(
        positions, heights, width, label=label, color=own.colour, hatch=own.hatch, edgecolor="black", linewidth=0.6
    )
    for x, height, value in zip(positions, heights, values, strict=True):
        if value.low is not None and value.high is not None:
            reach = [[max(0.0, height - 100 * value.low)], [max(0.0, 100 * value.high - height)]]
            # White under black: the bar's hatch must not hide its interval.
            axes.errorbar(x, height, yerr=reach, color="white", elinewidth=2.6, capsize=0)
            axes.errorbar(x, height, yerr=reach, color="black", elinewidth=1.0, capsize=2.0)
    return list(zip(positions, values, strict=True))


def _mark_broken_ties(axes: Axes, bars: Sequence[tuple[float, Value]]) -> None:
    """Mark a model's value with its ties broken at random: a tie is never right, and never hidden."""
    tied = [(x, 100 * value.tie_neutral) for x, value in bars if value.ties and value.tie_neutral is not None]
    if tied:
        across, upward = zip(*tied, strict=True)
        axes.plot(across, upward, "d", color="white", markeredgecolor="black", markersize=5, label="ties at random")


def _draw_chance(axes: Axes, values: Sequence[Value], width: float) -> None:
    label: str | None = "chance"
    for group, value in enumerate(values):
        if value.chance is not None:
            start, end = group - _FULL / 2 - width / 4, group + _FULL / 2 + width / 4
            axes.plot([start, end], [100 * value.chance] * 2, color="white", linewidth=2.6)
            axes.plot([start, end], [100 * value.chance] * 2, color=GREY, linestyle="--", linewidth=1.4, label=label)
            label = None


def draw_rows(values: Mapping[str, Sequence[Value]], metrics: Sequence[str], title: str) -> Figure:
    """Draw a panel a metric, a bar a model, the models' names on the left: hatches cannot distinguish so many."""
    names = [fold(name, 40) for name in values]
    height = len(names) * (0.17 + 0.11 * max(name.count("\n") for name in names))
    width = COLUMN if len(metrics) == 1 and max(map(len, values)) <= 20 else PAGE
    figure = new_figure(width, 0.8 + height)
    panels = figure.subplots(1, len(metrics), squeeze=False, sharey=True)[0]
    for number, (axes, metric) in enumerate(zip(panels, metrics, strict=True)):
        _draw_panel(axes, [own[number] for own in values.values()])
        axes.set_title(metric.replace("_", " "))
    panels[0].set_yticks(range(len(names)), names)
    panels[0].set_ylim(len(names) - 0.4, -0.6)
    figure.supxlabel("percent; dashed: chance; diamond: ties at random", fontsize=8)
    write_title(figure, title)
    return figure


def _draw_panel(axes: Axes, values: Sequence[Value | None]) -> None:
    known = {row: value for row, value in enumerate(values) if value is not None}
    shares = [100 * value.value for value in known.values()]
    axes.barh([*known], shares, 0.72, color="#56B4E9", edgecolor="black", linewidth=0.5)
    for row, value in known.items():
        if value.low is not None and value.high is not None:
            axes.plot([100 * value.low, 100 * value.high], [row, row], color="black", linewidth=1.0)
        if value.ties and value.tie_neutral is not None:
            axes.plot(100 * value.tie_neutral, row, "d", color="white", markeredgecolor="black", markersize=4)
    if (chance := next(iter(known.values())).chance) is not None:
        axes.axvline(100 * chance, color=GREY, linestyle="--", linewidth=1.2)
    axes.set_xlim(0, max(100.0, axes.get_xlim()[1]))
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")


def title_of(runs: Sequence[System], benchmark: str) -> str:
    """Return a picture's title: the benchmark, its items, the kind of intervals."""
    record = runs[0].record(benchmark)
    levels = {value.level for value in record.metrics.values() if value.low is not None}
    parts = [
        title_of_set(runs, benchmark),
        items_text(record),
        *(f"{level:.0%} intervals" for level in sorted(levels)),
    ]
    return ", ".join(filter(None, parts))
