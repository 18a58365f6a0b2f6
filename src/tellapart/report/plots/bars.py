"""Bars with intervals and the line of chance, in panels; and a ranking with bands of equal models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tellapart.evaluation.compare import rank_outcomes
from tellapart.evaluation.systems import System
from tellapart.records.result import Value
from tellapart.report.measured import (
    first_metrics,
    outcomes_of,
    pick_benchmark,
    ranking_metrics,
    title_of,
    title_of_set,
    value_of,
)
from tellapart.report.numbers import items_text
from tellapart.report.plots.style import COLUMN, GREY, LETTER, PAGE, axes_of, fold, look, new_figure, write_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


#: Panels side by side at most, and the least inches of one, so that each is wide enough for a readable scale.
_MOST_PANELS, _PANEL = 4, 0.8

#: Of a name in a line, if the picture is a column wide; longer names have two lines, or a page.
_LETTERS = 20


def draw_bars(runs: Sequence[System], benchmarks: Sequence[str] = (), metrics: Sequence[str] = ()) -> Figure:
    """Draw a panel for each metric, or for each of several benchmarks: a bar with its interval for each model."""
    if len(benchmarks) < 2:
        benchmark, measured = pick_benchmark(runs, next(iter(benchmarks), None))
        names = tuple(metrics) or first_metrics([run.record(benchmark) for run in measured])
        panels = {name.replace("_", " "): [value_of(run, benchmark, name) for run in measured] for name in names}
        return draw_panels([run.label for run in measured], panels, title_of(measured, benchmark))
    measured_by = dict(pick_benchmark(runs, name) for name in benchmarks)
    of_sets: dict[str, list[Value | None]] = {}
    for benchmark, metric in ranking_metrics(measured_by, metrics).items():
        items = items_text(measured_by[benchmark][0].record(benchmark))
        title = f"{title_of_set(runs, benchmark)}: {metric.replace('_', ' ')}{f' ({items})' if items else ''}"
        of_sets[title] = [value_of(run, benchmark, metric) if run in measured_by[benchmark] else None for run in runs]
    return draw_panels([run.label for run in runs], of_sets)


def draw_panels(labels: Sequence[str], panels: Mapping[str, Sequence[Value | None]], title: str = "") -> Figure:
    """Draw panels that share axes, title -> a value for each model; the models are named on the left."""
    names = [fold(label, _LETTERS if len(panels) == 1 else 30) for label in labels]
    room = 0.3 + LETTER * max(len(line) for name in names for line in name.split("\n"))
    words = max((len(word) for heading in panels for word in heading.split()), default=0)
    width = COLUMN if room + len(panels) * max(_PANEL, LETTER * 9 / 8 * words) <= COLUMN else PAGE
    across = min(_MOST_PANELS, len(panels))
    down = -(-len(panels) // across)
    # Titles have 9 points, the letters that `LETTER` measures 8.
    titles = [fold(heading, max(8, int((width - room) / across / (LETTER * 9 / 8)))) for heading in panels]
    lines = 1 + max(heading.count("\n") for heading in titles)
    height = len(names) * (0.17 + 0.11 * max(name.count("\n") for name in names)) + 0.14 * lines + 0.25
    figure = new_figure(width, (0.6 if title else 0.35) + down * height)
    grid = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True).flat
    for axes, heading, values in zip(grid, titles, panels.values(), strict=False):
        _draw_panel(axes, values)
        axes.set_title(heading)
    for axes in list(grid)[len(panels) :]:
        axes.set_visible(False)
    grid[0].set_yticks(range(len(names)), names)
    grid[0].set_ylim(len(names) - 0.4, -0.6)
    legend = "percent; line: interval; dashed: chance; diamond: ties at random"
    figure.supxlabel(fold(legend, int(width / LETTER)), fontsize=8)
    write_title(figure, title)
    return figure


def _draw_panel(axes: Axes, values: Sequence[Value | None]) -> None:
    """Draw one bar for each row, with interval, ties and chance; the row of a missing value stays empty."""
    measured = {row: value for row, value in enumerate(values) if value is not None}
    shares = [100 * value.value for value in measured.values()]
    axes.barh([*measured], shares, 0.72, color="#56B4E9", edgecolor="black", linewidth=0.5)
    for row, value in measured.items():
        if value.low is not None and value.high is not None:
            axes.plot([100 * value.low, 100 * value.high], [row, row], color="black", linewidth=1.0)
        # The value as it would be with ties broken at random; the bar counts every tie as wrong.
        if value.ties and value.tie_neutral is not None:
            axes.plot(100 * value.tie_neutral, row, "d", color="white", markeredgecolor="black", markersize=4)
    # Values of another tool have no chance.
    if chances := [value.chance for value in measured.values() if value.chance is not None]:
        axes.axvline(100 * chances[0], color=GREY, linestyle="--", linewidth=1.2)
    # A corpus metric (CIDEr) may lie above one; shares are drawn on the full scale, so that pictures compare.
    axes.set_xlim(0, max(100.0, axes.get_xlim()[1]))
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")


def draw_tiers(
    runs: Sequence[System], benchmark: str | None = None, metric: str | None = None, *, seed: int = 0
) -> Figure:
    """Draw models from best to worst; a band of grey or white is a tier: no member differs from its best."""
    benchmark, measured = pick_benchmark(runs, benchmark)
    metric = metric or ranking_metrics({benchmark: measured})[benchmark]
    values = {run.label: value_of(run, benchmark, metric) for run in measured}
    outcomes = outcomes_of(measured, benchmark, metric)
    narrow = max(fold(name, _LETTERS).count("\n") for name in values) < 2
    labels = {name: fold(name, _LETTERS if narrow else 2 * _LETTERS) for name in values}
    height = max(0.28, 0.14 * max(name.count("\n") + 1 for name in labels.values()))
    figure, axes = axes_of(COLUMN if narrow else PAGE, 0.9 + height * len(measured))
    names: list[str] = []
    for band, tier in enumerate(rank_outcomes(outcomes.of, outcomes.clusters, seed=seed)):
        first, style = len(names), look(band)
        if band % 2 == 0:
            axes.axhspan(first - 0.5, first + len(tier.names) - 0.5, color="#ececec", zorder=0, linewidth=0)
        axes.text(1.01, first, f"rank {tier.rank}", transform=axes.get_yaxis_transform(), va="center")
        for row, name in enumerate(tier.names, start=first):
            value = values[name]
            if value.low is not None and value.high is not None:
                axes.plot([100 * value.low, 100 * value.high], [row, row], color="black", linewidth=1.2)
            axes.plot(100 * value.value, row, marker=style.marker, color=style.colour, markeredgecolor="black")
        names += tier.names
    chance = values[measured[0].label].chance
    if chance is not None:
        axes.axvline(100 * chance, color=GREY, linestyle="--", linewidth=1.2)
        axes.text(100 * chance, -0.55, " chance", color=GREY, va="bottom")
    axes.set_yticks(range(len(names)), [labels[name] for name in names], linespacing=0.9)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlabel(f"{metric.replace('_', ' ')}, percent")
    axes.grid(axis="x")
    write_title(figure, title_of(measured, benchmark))
    return figure
