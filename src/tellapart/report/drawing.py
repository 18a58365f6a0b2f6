"""The geometry of the page's drawings: interval bars and equivariance curves. The template turns it into SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tellapart.metrics.equivariance import histogram
from tellapart.records.result import Value

__all__ = ["Bar", "Line", "Plot", "Trace", "bar", "plot", "share_a_scale"]

#: A model joins those on an axis whose deviations are at least a third of its own (the largest) and a tenth (the
#: smallest): wider apart, the narrower would be a spike.
_TO_NEXT, _TO_FIRST = 3.0, 10.0


@dataclass(frozen=True, slots=True)
class Bar:
    """A value, its interval and chance, each as a percentage of the bar's length.

    >>> Bar(50.0, 40.0, 60.0, None).width
    20.0
    """

    value: float
    low: float | None
    high: float | None
    chance: float | None

    @property
    def width(self) -> float:
        """The interval's length.

        >>> Bar(50.0, None, None, None).width
        0.0
        """
        return 0.0 if self.low is None or self.high is None else self.high - self.low


def bar(value: Value) -> Bar:
    """Place a fraction on a bar from 0 to 100.

    >>> bar(Value(value=0.5, low=0.4, high=0.625, chance=0.25, method="", n=1, clusters=1, average=""))
    Bar(value=50.0, low=40.0, high=62.5, chance=25.0)
    """
    return Bar(_place(value.value), _maybe(value.low), _maybe(value.high), _maybe(value.chance))


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """A model's deviations before they are drawn.

    Attributes:
        style: the model's number, which decides colour and dash.
        kind: of the scores: similarities and probabilities share no axis.
        values: metric -> float64 `(item,)`, in the unit of the scores.

    >>> Trace("a", 0, "logit", {"v1": np.array([-1.0, 2.0])}).size
    1.5
    """

    label: str
    style: int
    kind: str
    values: Mapping[str, NDArray[np.float64]]

    @property
    def size(self) -> float:
        """The median absolute deviation from zero (the mean where that is zero), of the metric in which it is largest.

        >>> Trace("a", 0, "logit", {"v1": np.zeros(3)}).size
        0.0
        """
        return max(map(_typical, self.values.values()))


@dataclass(frozen=True, slots=True)
class Line:
    """One model's curve: SVG points, or a spike where all its items have the same value.

    Attributes:
        style: the model's number, which decides colour and dash.
        points: of a polyline, `x,y x,y ...`.
        spike: x of a vertical line; None for a curve.

    >>> Line("a", 0, "0,0 1,1").spike is None
    True
    """

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

    >>> Plot("v1", 100.0, 50.0, (), ((50.0, "0"),), 50.0, 0).width
    100.0
    """

    metric: str
    width: float
    height: float
    lines: tuple[Line, ...]
    ticks: tuple[tuple[float, str], ...]
    zero: float
    beyond: int


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
        last = groups[-1] if groups else None
        if last and last[0].kind == trace.kind and _close(trace.size, last[0].size, last[-1].size):
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
    reach = max(_central(trace.values[metric]) for trace in traces) or 1.0
    bins = _bins(min(len(trace.values[metric]) for trace in traces))
    histograms = {
        trace.style: histogram(trace.values[metric], bins=bins, limit=reach)
        for trace in traces
        if np.ptp(trace.values[metric]) > 0
    }
    peak = max((float(found.density.max()) for found in histograms.values()), default=0.0) or 1.0

    def across(x: float) -> float:
        return round(width * (0.5 + x / reach / 2.1), 2)

    def line(trace: Trace) -> Line:
        found = histograms.get(trace.style)
        if found is None:
            return Line(trace.label, trace.style, "", across(float(trace.values[metric][0])))
        centres = (found.edges[:-1] + found.edges[1:]) / 2
        points = zip(centres.tolist(), (found.density / peak).tolist(), strict=True)
        drawn = (f"{across(x)},{round(height * (1 - 0.95 * y), 2)}" for x, y in points)
        return Line(trace.label, trace.style, " ".join(drawn))

    step = _nice(reach / 2)
    ticks = [k * step for k in range(-4, 5) if abs(k * step) <= reach * 1.02]
    return Plot(
        metric,
        width,
        height,
        tuple(map(line, traces)),
        tuple((across(x), f"{x:.3g}") for x in ticks),
        across(0.0),
        sum(found.below + found.above for found in histograms.values()),
    )


def _close(size: float, first: float, largest: float) -> bool:
    return size <= _TO_NEXT * largest and size <= _TO_FIRST * first


def _typical(values: NDArray[np.float64]) -> float:
    size = np.abs(values)
    return float(np.median(size) or size.mean())


def _central(values: NDArray[np.float64]) -> float:
    """Return how far an axis must reach: a few extreme items must not make the rest a spike."""
    return min(float(np.quantile(np.abs(values), 0.99, method="higher")), 8 * _typical(values))


def _bins(n: int) -> int:
    """Return an odd number of bins that n items fill: more items show finer structure."""
    return 2 * min(20, max(4, round(0.6 * math.sqrt(n)))) + 1


def _nice(size: float) -> float:
    """Return the largest of 1, 2 and 5 times a power of ten that is not above `size`."""
    power = 10.0 ** math.floor(math.log10(size))
    return max(factor * power for factor in (1, 2, 5) if factor * power <= size * 1.0000001)


def _place(fraction: float) -> float:
    return round(100 * min(1.0, max(0.0, fraction)), 3)


def _maybe(fraction: float | None) -> float | None:
    return None if fraction is None else _place(fraction)
