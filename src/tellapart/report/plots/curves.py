"""Equivariance curves: how the deviations of a model's scores are distributed about zero."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tellapart.errors import RunError
from tellapart.evaluation.systems import System
from tellapart.metrics.equivariance import histogram
from tellapart.records.result import BenchmarkResult, Sample
from tellapart.report.items import shared_outcomes
from tellapart.report.measured import pick_benchmark, samples_of, title_of_set
from tellapart.report.numbers import is_deviation, items_text, thousands
from tellapart.report.plots.style import COLUMN, GREY, PAGE, legend_below, look, make_panels, write_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tellapart.report.benchmark_runs import BenchmarkRuns


#: A model joins those on an axis whose deviations are at least a third of its deviations (the largest) and a tenth (the
#: smallest): wider apart, the narrower would be a spike.
_TO_NEXT, _TO_FIRST = 3.0, 10.0

#: Items below which a curve would show its bins, not the measured values: each is then a dot of that radius, and a
#: model's dots are at most so high, in SVG units.
FEW, RADIUS, BAND = 30, 3.5, 64.0


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """A model's deviations before they are drawn: metric -> float64 `(item,)`, in the unit of that kind of scores."""

    label: str
    style: int
    kind: str
    values: Mapping[str, NDArray[np.float64]]

    @property
    def size(self) -> float:
        """The largest of the metrics' median absolute deviations from zero; a mean if a median is zero."""
        return max(map(_typical_size, self.values.values()))


@dataclass(frozen=True, slots=True)
class Line:
    """One model's items: points of a curve (`x,y x,y ...`), a spike if all have one value, or dots if they are few."""

    label: str
    style: int
    points: str = ""
    spike: float | None = None
    dots: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Plot:
    """Curves on one axis, in SVG units (x to the right, y downwards); `beyond` counts values outside the axis."""

    metric: str
    width: float
    height: float
    lines: tuple[Line, ...]
    ticks: tuple[tuple[float, str], ...]
    zero: float
    beyond: int


def deviations(record: BenchmarkResult, samples: Sequence[Sample]) -> dict[str, NDArray[np.float64]]:
    """Return the equivariance deviations that every item has: metric -> float64 `(item,)`."""
    of_all = shared_outcomes(samples)
    return {
        name: np.array([sample.outcomes[name] for sample in samples])
        for name, value in record.metrics.items()
        if is_deviation(value) and name in of_all
    }


def share_a_scale(traces: Sequence[Trace]) -> list[list[Trace]]:
    """Group models of one kind of scores whose typical deviations, if any, form a chain without gaps."""
    groups: list[list[Trace]] = []
    for trace in sorted(traces, key=lambda trace: (trace.kind, trace.size == 0, trace.size)):
        last = groups[-1] if groups else [trace]
        limit = min(_TO_NEXT * last[-1].size, _TO_FIRST * last[0].size)
        if groups and last[0].kind == trace.kind and trace.size <= limit:
            last.append(trace)
        else:
            groups.append([trace])
    return [sorted(group, key=lambda trace: trace.style) for group in groups]


def plot(metric: str, traces: Sequence[Trace], width: float = 340.0, height: float = 170.0) -> Plot:
    """Draw one deviation of the items for models on one scale (EqSim, Figures 6 and 13): densities, or a dot an item.

    All curves have the same bins, symmetric about zero. The axis holds 99 % of every model's items, or eight times its
    typical deviation if that is less; items beyond are counted.
    """
    values = [trace.values[metric] for trace in traces]
    # A few extreme items must not make the rest a spike.
    reach = max(min(np.quantile(np.abs(v), 0.99, method="higher"), 8 * _typical_size(v)) for v in values)
    reach = float(reach) or 1.0
    few = min(map(len, values)) < FEW
    if few:
        height = min(height, BAND * len(traces))

    def across(x: float) -> float:
        return round(width * (0.5 + x / reach / 2.1), 2)  # the axis goes from `-reach` to `reach`

    def draw_curves() -> Iterator[Line]:
        # An odd number of bins that the items fill: more items show finer structure.
        bins = 2 * min(20, max(4, round(0.6 * math.sqrt(min(map(len, values)))))) + 1
        histograms = [histogram(value, bins=bins, limit=reach) if np.ptp(value) > 0 else None for value in values]
        peak = max((float(drawn.density.max()) for drawn in histograms if drawn is not None), default=0.0) or 1.0
        for trace, numbers, density in zip(traces, values, histograms, strict=True):
            if density is None:
                yield Line(trace.label, trace.style, spike=across(float(numbers[0])))
                continue
            centres = (density.edges[:-1] + density.edges[1:]) / 2
            points = zip(centres.tolist(), (density.density / peak).tolist(), strict=True)
            coordinates = (f"{across(x)},{round(height * (1 - 0.95 * y), 2)}" for x, y in points)
            yield Line(trace.label, trace.style, " ".join(coordinates))

    def draw_dots() -> Iterator[Line]:
        room = height / len(traces)
        for number, (trace, numbers) in enumerate(zip(traces, values, strict=True)):
            floor = (number + 1) * room - RADIUS
            places = [across(float(x)) for x in np.sort(numbers[np.abs(numbers) <= reach])]
            levels = _stack_dots(places)
            rise = min(2 * RADIUS, max(0.0, room - 2 * RADIUS) / max([1, *levels]))
            dots = ((x, round(floor - rise * level, 2)) for x, level in zip(places, levels, strict=True))
            yield Line(trace.label, trace.style, dots=tuple(dots))

    power = 10.0 ** math.floor(math.log10(reach / 2))
    step = next(factor * power for factor in (5, 2, 1) if factor * power <= reach / 2 * 1.0000001)
    ticks = tuple((across(k * step), f"{k * step:.3g}") for k in range(-4, 5) if abs(k * step) <= reach * 1.02)
    # One value for all is a spike, wherever it lies.
    beyond = sum(int((np.abs(value) > reach).sum()) for value in values if np.ptp(value) > 0)
    return Plot(metric, width, height, tuple(draw_dots() if few else draw_curves()), ticks, across(0.0), beyond)


def _stack_dots(places: Sequence[float]) -> list[int]:
    """Return for each place, from left to right, the lowest level on which its dot covers no other."""
    levels: list[int] = []
    last: list[float] = []  # the rightmost place of each level
    for x in places:
        level = next((k for k, other in enumerate(last) if x - other >= 2 * RADIUS), len(last))
        last[level : level + 1] = [x]
        levels.append(level)
    return levels


def _typical_size(values: NDArray[np.float64]) -> float:
    size = np.abs(values)
    return float(np.median(size) or size.mean())


def section_curves(section: BenchmarkRuns) -> list[list[Plot]]:
    """Draw a report's curves: a row of plots, one a metric, for every group of models on one scale."""
    traces = [
        Trace(entry.label, entry.model, entry.record.kind, values)
        for entry in section.entries
        if entry.record.kind is not None and (values := deviations(entry.record, entry.samples))
    ]
    return [
        [plot(metric, group) for metric in group[0].values if all(metric in trace.values for trace in group)]
        for group in share_a_scale(traces)
    ]


def draw_curves(runs: Sequence[System], benchmark: str | None = None, metrics: Sequence[str] = ()) -> Figure:
    """Draw a panel for every deviation, a curve a model, and a row a scale, as EqBen's Figures 6 and 13 do."""
    benchmark, measured = pick_benchmark(runs, benchmark)
    traces = [_make_trace(number, run, benchmark, metrics) for number, run in enumerate(measured)]
    groups = share_a_scale(traces)
    names = [name for name in traces[0].values if all(name in trace.values for trace in traces)]  # three at most
    size = COLUMN if len(names) == 1 else PAGE, 0.9 + 1.6 * len(groups)
    figure, panels = make_panels(*size, len(groups) * len(names), len(names))
    for axes, (group, name) in zip(panels, product(groups, names), strict=True):
        _draw_panel(axes, plot(name, group), group[0].kind)
    for trace in traces:  # one legend for all the panels, also for models drawn in other rows
        panels[0].plot([], [], label=trace.label, **look(trace.style).line)
    legend_below(figure, panels[0], 3)
    title = f"{title_of_set(measured, benchmark)}, {items_text(measured[0].record(benchmark))}"
    write_title(figure, f"{title}: equivariance deviations")
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


def _draw_panel(axes: Axes, panel: Plot, kind: str) -> None:
    """Draw a plot, whose geometry counts y downwards."""
    axes.axvline(panel.zero, color=GREY, linewidth=0.8)
    for line in panel.lines:
        style = look(line.style)
        if line.spike is not None:
            axes.plot([line.spike] * 2, [0, 0.95], **style.line)
            continue
        points = line.dots or [tuple(map(float, point.split(","))) for point in line.points.split()]
        marks = {"color": style.colour, "marker": style.marker, "linestyle": ""} if line.dots else style.line
        axes.plot([x for x, _ in points], [1 - y / panel.height for _, y in points], **marks)
    axes.set(xlim=(0, panel.width), ylim=(0, 1))
    # Every second one, counted from zero, if all would run into each other.
    step, zero = (2 if len(panel.ticks) > 5 else 1), len(panel.ticks) // 2
    ticks = [tick for number, tick in enumerate(panel.ticks) if (number - zero) % step == 0]
    axes.set_xticks([x for x, _ in ticks], [label for _, label in ticks])
    axes.set_yticks([])
    units = {"similarity": "similarities", "logit": "logits", "probability": "probabilities"}
    dots = any(line.dots for line in panel.lines)
    axes.set(xlabel=f"difference of {units[kind]}", ylabel="items" if dots else "density")
    beyond = f" ({thousands(panel.beyond)} beyond)" if panel.beyond else ""
    axes.set_title(f"{panel.metric.replace('_', ' ')}{beyond}")
