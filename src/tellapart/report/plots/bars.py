"""Bars with intervals and the line of chance, side by side or in rows; and a ranking with bands of equal models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from tellapart.evaluation.compare import rank_outcomes
from tellapart.evaluation.systems import System
from tellapart.records.result import Value
from tellapart.report.measured import (
    first_metrics,
    outcomes_of,
    pick_benchmark,
    ranking_metrics,
    title_of_set,
    value_of,
)
from tellapart.report.numbers import items_text
from tellapart.report.plots.style import COLUMN, GREY, PAGE, axes_of, fold, legend_below, look, new_figure, write_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


#: Panels side by side at most, so that each is wide enough for a readable scale.
_MOST_PANELS = 4

#: The share of a group's width that its bars fill; the rest separates the groups.
_GROUP_SHARE = 0.8

#: More models than this get a row each: side by side their bars are too narrow for names and hatches.
_MOST_ACROSS = 8


def draw_bars(runs: Sequence[System], benchmark: str | None = None, metrics: Sequence[str] = ()) -> Figure:
    """Draw a group of bars for each metric: a bar with its interval for each model; chance is a dashed line.

    More than eight models are drawn by `draw_rows` instead.
    """
    benchmark, measured = pick_benchmark(runs, benchmark)
    metrics = tuple(metrics) or first_metrics([run.record(benchmark) for run in measured])
    values = {run.label: [value_of(run, benchmark, metric) for metric in metrics] for run in measured}
    title = title_of(measured, benchmark)
    if len(measured) > _MOST_ACROSS:
        return draw_rows(values, metrics, title)
    return _draw_groups(values, metrics, title)


def draw_sets(runs: Sequence[System], benchmarks: Sequence[str], metrics: Sequence[str] = ()) -> Figure:
    """Draw one panel for each benchmark, in it one bar for each model; panels share axes, and names are on the left."""
    panels: dict[str, list[Value | None]] = {}
    measured_by = dict(pick_benchmark(runs, name) for name in benchmarks)
    for benchmark, metric in ranking_metrics(measured_by, metrics).items():
        measured = measured_by[benchmark]
        values = [value_of(run, benchmark, metric) if run in measured else None for run in runs]
        title = f"{title_of_set(runs, benchmark)}: {metric.replace('_', ' ')}"
        items = items_text(measured[0].record(benchmark))
        panels[f"{title} ({items})" if items else title] = values
    names = [fold(run.label, 30) for run in runs]
    across = min(_MOST_PANELS, len(panels))
    down = -(-len(panels) // across)
    # As many letters as fit: the names take 1.6 inches of the page, and a letter is 0.068 inches wide in 8 points, but
    # titles have 9.
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
    """Draw models (name -> a value for each metric) side by side, on a page or on a column if they fit one."""
    words = max(len(word) for metric in metrics for word in metric.split("_"))
    room = len(metrics) * max(0.09 * len(values) / _GROUP_SHARE, 0.07 * words)
    figure, axes = axes_of(COLUMN if room <= COLUMN - 0.6 else PAGE, 2.4)
    width = _GROUP_SHARE / len(values)
    bars = []
    for number, (label, numbers) in enumerate(values.items()):
        bars += _draw_bars(axes, number, numbers, label, width)
    # Each value as it would be with ties broken at random; the bar counts every tie as wrong.
    tied = [(x, 100 * value.tie_neutral) for x, value in bars if value.ties and value.tie_neutral is not None]
    if tied:
        across, upward = zip(*tied, strict=True)
        axes.plot(across, upward, "d", color="white", markeredgecolor="black", markersize=5, label="ties at random")
    _draw_chance(axes, [_find_chance(column) for column in zip(*values.values(), strict=True)], width)
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
    style = look(number)
    positions = [group - _GROUP_SHARE / 2 + (number + 0.5) * width for group in range(len(values))]
    heights = [100 * value.value for value in values]
    axes.bar(
        positions, heights, width, label=label, color=style.colour, hatch=style.hatch, edgecolor="black", linewidth=0.6
    )
    for x, height, value in zip(positions, heights, values, strict=True):
        if value.low is not None and value.high is not None:
            reach = [[max(0.0, height - 100 * value.low)], [max(0.0, 100 * value.high - height)]]
            # White under black: the bar's hatch must not hide its interval.
            axes.errorbar(x, height, yerr=reach, color="white", elinewidth=2.6, capsize=0)
            axes.errorbar(x, height, yerr=reach, color="black", elinewidth=1.0, capsize=2.0)
    return list(zip(positions, values, strict=True))


def _find_chance(values: Iterable[Value]) -> float | None:
    """Return chance, which values of another tool lack."""
    return next((value.chance for value in values if value.chance is not None), None)


def _draw_chance(axes: Axes, chances: Sequence[float | None], width: float) -> None:
    """Draw each metric's chance across its group of bars, and name the line once in the legend."""
    label: str | None = "chance"
    for group, chance in enumerate(chances):
        if chance is not None:
            start, end = group - _GROUP_SHARE / 2 - width / 4, group + _GROUP_SHARE / 2 + width / 4
            axes.plot([start, end], [100 * chance] * 2, color="white", linewidth=2.6)
            axes.plot([start, end], [100 * chance] * 2, color=GREY, linestyle="--", linewidth=1.4, label=label)
            label = None


def draw_rows(values: Mapping[str, Sequence[Value]], metrics: Sequence[str], title: str) -> Figure:
    """Draw a panel for each metric: a bar for each model, named on the left (hatches cannot mark so many)."""
    names = [fold(name, 40) for name in values]
    height = len(names) * (0.17 + 0.11 * max(name.count("\n") for name in names))
    width = COLUMN if len(metrics) == 1 and max(map(len, values)) <= 20 else PAGE
    figure = new_figure(width, 0.8 + height)
    panels = figure.subplots(1, len(metrics), squeeze=False, sharey=True)[0]
    for number, (axes, metric) in enumerate(zip(panels, metrics, strict=True)):
        _draw_panel(axes, [numbers[number] for numbers in values.values()])
        axes.set_title(metric.replace("_", " "))
    panels[0].set_yticks(range(len(names)), names)
    panels[0].set_ylim(len(names) - 0.4, -0.6)
    figure.supxlabel("percent; dashed: chance; diamond: ties at random", fontsize=8)
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
        if value.ties and value.tie_neutral is not None:
            axes.plot(100 * value.tie_neutral, row, "d", color="white", markeredgecolor="black", markersize=4)
    if (chance := _find_chance(measured.values())) is not None:
        axes.axvline(100 * chance, color=GREY, linestyle="--", linewidth=1.2)
    axes.set_xlim(0, max(100.0, axes.get_xlim()[1]))
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")


def title_of(runs: Sequence[System], benchmark: str) -> str:
    """Return a picture's title: the benchmark, its items, the kind of intervals."""
    record = runs[0].record(benchmark)
    levels = {value.level for value in record.metrics.values() if value.low is not None}
    parts = [title_of_set(runs, benchmark), items_text(record), *(f"{level:.0%} intervals" for level in sorted(levels))]
    return ", ".join(filter(None, parts))


#: Of a name in a line, if the picture is a column wide; longer names have two lines, or a page.
_LETTERS = 20


def draw_tiers(
    runs: Sequence[System], benchmark: str | None = None, metric: str | None = None, *, seed: int = 0
) -> Figure:
    """Draw models from best to worst; a band of grey or white is a tier.

    No member of a tier differs from its best, and all models of later tiers do.
    """
    benchmark, measured = pick_benchmark(runs, benchmark)
    metric = metric or ranking_metrics({benchmark: measured})[benchmark]
    values = {run.label: value_of(run, benchmark, metric) for run in measured}
    outcomes = outcomes_of(measured, benchmark, metric)
    narrow = max(fold(name, _LETTERS).count("\n") for name in values) < 2
    labels = {name: fold(name, _LETTERS if narrow else 2 * _LETTERS) for name in values}
    height = max(0.28, 0.14 * max(name.count("\n") + 1 for name in labels.values()))
    figure, axes = axes_of(COLUMN if narrow else PAGE, 0.9 + height * len(measured))
    row = 0
    names: list[str] = []
    for band, tier in enumerate(rank_outcomes(outcomes.of, outcomes.clusters, seed=seed)):
        if band % 2 == 0:
            axes.axhspan(row - 0.5, row + len(tier.names) - 0.5, color="#ececec", zorder=0, linewidth=0)
        for number, name in enumerate(tier.names):
            value = values[name]
            if value.low is not None and value.high is not None:
                axes.plot([100 * value.low, 100 * value.high], [row, row], color="black", linewidth=1.2)
            axes.plot(
                100 * value.value, row, marker=look(band).marker, color=look(band).colour, markeredgecolor="black"
            )
            if number == 0:
                axes.text(1.01, row, f"rank {tier.rank}", transform=axes.get_yaxis_transform(), va="center")
            names.append(name)
            row += 1
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
