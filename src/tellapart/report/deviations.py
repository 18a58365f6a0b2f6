"""Curves of equivariance deviations: their geometry, which the report, the board and the pictures draw."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tellapart.metrics.equivariance import histogram
from tellapart.records.result import BenchmarkResult, Sample
from tellapart.report.items import shared_outcomes
from tellapart.report.numbers import is_deviation

#: A model joins those on an axis whose deviations are at least a third of its deviations (the largest) and a tenth (the
#: smallest): wider apart, the narrower would be a spike.
_TO_NEXT, _TO_FIRST = 3.0, 10.0

#: Items below which a curve would show its bins, not the measured values: each item is then a dot.
FEW = 30

#: Of a dot, and the most height that a model's dots have, in SVG units.
RADIUS, BAND = 3.5, 64.0


#: Takes a deviation to its x in SVG units.
_Across = Callable[[float], float]


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
    """Group models of one kind of scores whose typical deviations form a chain without gaps.

    A model without any deviation fits every scale.
    """
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
    """Draw one deviation of the items for models on one scale: densities over all items, or dots if they are few.

    All curves have the same bins, symmetric about zero, so that they compare. The axis holds 99 % of every
    model's items, or eight times its typical deviation if that is less; items beyond are counted. Below 30 items
    every item is a dot, each model's on a separate floor, the first model's at the top.

    Source: EqSim, Fig. 6 and 13.
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

    power = 10.0 ** math.floor(math.log10(reach / 2))
    step = next(factor * power for factor in (5, 2, 1) if factor * power <= reach / 2 * 1.0000001)
    ticks = [k * step for k in range(-4, 5) if abs(k * step) <= reach * 1.02]
    return Plot(
        metric,
        width,
        height,
        tuple((_draw_dots if few else _draw_curves)(traces, values, reach, height, across)),
        tuple((across(x), f"{x:.3g}") for x in ticks),
        across(0.0),
        # One value for all is a spike, wherever it lies.
        sum(int((np.abs(value) > reach).sum()) for value in values if np.ptp(value) > 0),
    )


def _draw_curves(
    traces: Sequence[Trace], values: Sequence[NDArray[np.float64]], reach: float, height: float, across: _Across
) -> Iterator[Line]:
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


def _draw_dots(
    traces: Sequence[Trace], values: Sequence[NDArray[np.float64]], reach: float, height: float, across: _Across
) -> Iterator[Line]:
    room = height / len(traces)
    for number, (trace, numbers) in enumerate(zip(traces, values, strict=True)):
        floor = (number + 1) * room - RADIUS
        places = [across(float(x)) for x in np.sort(numbers[np.abs(numbers) <= reach])]
        levels = _stack_dots(places)
        rise = min(2 * RADIUS, max(0.0, room - 2 * RADIUS) / max([1, *levels]))
        dots = ((x, round(floor - rise * level, 2)) for x, level in zip(places, levels, strict=True))
        yield Line(trace.label, trace.style, dots=tuple(dots))


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
