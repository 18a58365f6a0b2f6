"""Charts of HTML pages: score bars, and curves of equivariance deviations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from tellapart.metrics.equivariance import histogram
from tellapart.records.result import BenchmarkResult, Sample
from tellapart.report.numbers import is_deviation

__all__ = ["Line", "Plot", "Trace", "deviations", "plot", "score_bar", "share_a_scale"]

# Score bars


def score_bar(value: float, low: float | None = None, high: float | None = None, chance: float | None = None) -> Markup:
    """Draw a fraction, its interval and chance on a bar from 0 to 100.

    >>> score_bar(0.5, 0.4, 0.625).count("<line"), 'x="40" y="3.5" width="22.5"' in score_bar(0.5, 0.4, 0.625)
    (2, True)
    """
    parts = [
        '<svg class="bar" viewBox="-3 0 106 12" preserveAspectRatio="none" aria-hidden="true" focusable="false">'
        '<line class="track" x1="0" x2="100" y1="6" y2="6"/>'
    ]
    if low is not None and high is not None:
        start, end = _percent_inside(low), _percent_inside(high)
        parts.append(f'<rect class="range" x="{start:g}" y="3.5" width="{end - start:.4g}" height="5"/>')
    if chance is not None:
        x = f"{_percent_inside(chance):g}"
        parts.append(f'<line class="chance" x1="{x}" x2="{x}" y1="0" y2="12"/>')
    x = f"{_percent_inside(value):g}"
    parts.append(f'<line class="point" x1="{x}" x2="{x}" y1="1.5" y2="10.5"/></svg>')
    return Markup("".join(parts))  # noqa: S704  (numbers only)


def _percent_inside(fraction: float) -> float:
    return round(100 * min(1.0, max(0.0, fraction)), 2)


# Curves of equivariance deviations, whose SVG the templates write

#: A model joins those on an axis whose deviations are at least a third of its own (the largest) and a tenth (the
#: smallest): wider apart, the narrower would be a spike.
_TO_NEXT, _TO_FIRST = 3.0, 10.0


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """A model's deviations before they are drawn.

    Attributes:
        style: the model's number, which decides colour and dash.
        kind: of the scores; similarities and probabilities share no axis.
        values: metric -> float64 `(item,)`, in the unit of the scores.
    """

    label: str
    style: int
    kind: str
    values: Mapping[str, NDArray[np.float64]]

    @property
    def size(self) -> float:
        """The largest of the metrics' median absolute deviations from zero; a mean where a median is zero."""
        return max(map(_typical, self.values.values()))


@dataclass(frozen=True, slots=True)
class Line:
    """One model's curve: points of a polyline, `x,y x,y ...`, or x of a spike where all items have the same value."""

    label: str
    style: int
    points: str
    spike: float | None = None


@dataclass(frozen=True, slots=True)
class Plot:
    """Curves on one axis, in SVG units (x to the right, y downwards).

    Attributes:
        ticks: x and label of each tick.
        zero: x of the value 0, where an equivariant model's items lie.
        beyond: values that lie outside the axis.
    """

    metric: str
    width: float
    height: float
    lines: tuple[Line, ...]
    ticks: tuple[tuple[float, str], ...]
    zero: float
    beyond: int


def deviations(record: BenchmarkResult, samples: Sequence[Sample]) -> dict[str, NDArray[np.float64]]:
    """Return the equivariance deviations that every item has: metric -> float64 `(item,)`."""
    return {
        name: np.array([sample.outcomes[name] for sample in samples])
        for name, value in record.metrics.items()
        if is_deviation(value) and all(name in sample.outcomes for sample in samples)
    }


def share_a_scale(traces: Sequence[Trace]) -> list[list[Trace]]:
    """Group models of one kind of scores whose typical deviations form a chain without gaps.

    A model without any deviation fits every scale.

    >>> narrow, wide = {"v1": np.array([-1.0, 1.0])}, {"v1": np.array([-50.0, 50.0])}
    >>> groups = share_a_scale([Trace("a", 0, "logit", wide), Trace("b", 1, "logit", narrow)])
    >>> [[trace.label for trace in group] for group in groups]
    [['b'], ['a']]
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
    """Draw the distribution of one deviation for models on one scale, as densities over all items.

    All curves have the same bins, symmetric about zero, so that they compare. The axis holds 99 % of every
    model's items, or eight times its typical deviation if that is less; what lies beyond is counted.

    Source: EqSim, Fig. 6 and 13.

    >>> drawn = plot("v1", [Trace("a", 0, "logit", {"v1": np.linspace(-1, 1, 50)})])
    >>> drawn.beyond, drawn.zero
    (0, 170.0)
    """
    reach = max(_reach(trace.values[metric]) for trace in traces) or 1.0
    # An odd number of bins that the items fill: more items show finer structure.
    bins = 2 * min(20, max(4, round(0.6 * math.sqrt(min(len(trace.values[metric]) for trace in traces))))) + 1
    histograms = {
        trace.style: histogram(trace.values[metric], bins=bins, limit=reach)
        for trace in traces
        if np.ptp(trace.values[metric]) > 0
    }
    peak = max((float(one.density.max()) for one in histograms.values()), default=0.0) or 1.0

    def across(x: float) -> float:
        return round(width * (0.5 + x / reach / 2.1), 2)

    def line(trace: Trace) -> Line:
        density = histograms.get(trace.style)
        if density is None:
            return Line(trace.label, trace.style, "", across(float(trace.values[metric][0])))
        centres = (density.edges[:-1] + density.edges[1:]) / 2
        points = zip(centres.tolist(), (density.density / peak).tolist(), strict=True)
        coordinates = (f"{across(x)},{round(height * (1 - 0.95 * y), 2)}" for x, y in points)
        return Line(trace.label, trace.style, " ".join(coordinates))

    power = 10.0 ** math.floor(math.log10(reach / 2))
    step = next(factor * power for factor in (5, 2, 1) if factor * power <= reach / 2 * 1.0000001)
    ticks = [k * step for k in range(-4, 5) if abs(k * step) <= reach * 1.02]
    return Plot(
        metric,
        width,
        height,
        tuple(map(line, traces)),
        tuple((across(x), f"{x:.3g}") for x in ticks),
        across(0.0),
        sum(one.below + one.above for one in histograms.values()),
    )


def _typical(values: NDArray[np.float64]) -> float:
    size = np.abs(values)
    return float(np.median(size) or size.mean())


def _reach(values: NDArray[np.float64]) -> float:
    """Return how far an axis must reach: a few extreme items must not make the rest a spike."""
    return min(float(np.quantile(np.abs(values), 0.99, method="higher")), 8 * _typical(values))
