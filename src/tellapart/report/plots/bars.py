"""Bars with their intervals, and the line of chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tellapart.records.result import BenchmarkResult, Value
from tellapart.report.measured import Measured, first_metrics, pick_benchmark, value_of
from tellapart.report.numbers import plain, thousands
from tellapart.report.plots.bar_rows import draw_rows
from tellapart.report.plots.style import COLUMN, GREY, PAGE, axes_of, legend_below, look, titled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_bars", "title_of"]

#: The share of a group's room that its bars take.
_FULL = 0.8

#: More models than this are set under each other: so many bars side by side have no room for a name or a hatch.
_MOST_ACROSS = 8


def draw_bars(runs: Sequence[Measured], benchmark: str | None = None, metrics: Sequence[str] = ()) -> Figure:
    """Draw a group of bars a metric, a bar a model, each with its interval; chance is a dashed line across the group.

    More than eight models are set under each other, by name, a panel a metric.

    Args:
        runs: the models, in the order of the bars.
        benchmark: which; the one there is if not given.
        metrics: which; those of a first look if not given.

    Raises:
        RunError: the runs did not measure the same items, or one has no such metric.

    >>> draw_bars([])
    Traceback (most recent call last):
    tellapart.errors.RunError: no run measured 'anything'; they hold nothing
    """
    benchmark, own = pick_benchmark(runs, benchmark)
    metrics = tuple(metrics) or first_metrics([run.record(benchmark) for run in own])
    values = {run.name_on(benchmark): [value_of(run, benchmark, metric) for metric in metrics] for run in own}
    title = title_of(benchmark, own[0].record(benchmark))
    if len(own) > _MOST_ACROSS:
        return draw_rows(values, metrics, title)
    return _groups(values, metrics, title)


def _groups(values: Mapping[str, Sequence[Value]], metrics: Sequence[str], title: str) -> Figure:
    words = max(len(word) for metric in metrics for word in metric.split("_"))
    room = len(metrics) * max(0.09 * len(values) / _FULL, 0.07 * words)
    figure, axes = axes_of(COLUMN if room <= COLUMN - 0.6 else PAGE, 2.4)
    width = _FULL / len(values)
    placed = []
    for number, (label, own) in enumerate(values.items()):
        placed += _bars(axes, number, own, label, width)
    _broken_ties(axes, placed)
    _chance(axes, next(iter(values.values())), width)
    axes.set_xticks(range(len(metrics)), [metric.replace("_", "\n") for metric in metrics])
    axes.tick_params(axis="x", length=0)
    axes.set_ylabel("percent")
    # A corpus metric (CIDEr) may lie above one; shares are drawn on the whole scale, so that pictures compare.
    axes.set_ylim(0, max(100.0, axes.get_ylim()[1]))
    axes.grid(axis="y")
    titled(figure, title)
    legend_below(figure, axes, 3)
    return figure


def _bars(axes: Axes, number: int, values: Sequence[Value], label: str, width: float) -> list[tuple[float, Value]]:
    """Draw one model's bars, and return where each stands."""
    own = look(number)
    places = [group - _FULL / 2 + (number + 0.5) * width for group in range(len(values))]
    heights = [100 * value.value for value in values]
    axes.bar(places, heights, width, label=label, color=own.colour, hatch=own.hatch, edgecolor="black", linewidth=0.6)
    for x, height, value in zip(places, heights, values, strict=True):
        if value.low is not None and value.high is not None:
            reach = [[max(0.0, height - 100 * value.low)], [max(0.0, 100 * value.high - height)]]
            # White under black: the bar's own hatch must not hide its interval.
            axes.errorbar(x, height, yerr=reach, color="white", elinewidth=2.6, capsize=0)
            axes.errorbar(x, height, yerr=reach, color="black", elinewidth=1.0, capsize=2.0)
    return list(zip(places, values, strict=True))


def _broken_ties(axes: Axes, groups: Sequence[tuple[float, Value]]) -> None:
    """Mark what a model would get with its ties broken at random: a tie is never right, and never hidden."""
    tied = [(place, 100 * value.tie_neutral) for place, value in groups if value.ties and value.tie_neutral is not None]
    if tied:
        across, upward = zip(*tied, strict=True)
        axes.plot(across, upward, "d", color="white", markeredgecolor="black", markersize=5, label="ties at random")


def _chance(axes: Axes, values: Sequence[Value], width: float) -> None:
    label: str | None = "chance"
    for group, value in enumerate(values):
        if value.chance is not None:
            left, right = group - _FULL / 2 - width / 4, group + _FULL / 2 + width / 4
            axes.plot([left, right], [100 * value.chance] * 2, color="white", linewidth=2.6)
            axes.plot([left, right], [100 * value.chance] * 2, color=GREY, linestyle="--", linewidth=1.4, label=label)
            label = None


def title_of(benchmark: str, record: BenchmarkResult) -> str:
    """Return a picture's title: the benchmark, its items, what the intervals are.

    >>> title_of("demo", BenchmarkResult(title="", fingerprint="", metrics={}, origin=""))
    'demo'
    """
    items = max((value.n for value in record.metrics.values()), default=0)
    levels = {value.level for value in record.metrics.values() if value.low is not None}
    parts = [
        plain(benchmark),
        *([f"{thousands(items)} items"] if items else []),
        *(f"{level:.0%} intervals" for level in sorted(levels)),
    ]
    return ", ".join(parts)
