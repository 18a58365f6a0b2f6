"""Line charts and score bars of HTML pages."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from markupsafe import Markup

from tellapart.report.templates import make_environment

#: Of the drawing, in SVG units, as the template has them.
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM, _ROW = 640, 280, 62, 18, 40, 44, 18


@dataclass(frozen=True, slots=True)
class LineChart:
    """Lines on one pair of axes: name -> points, by growing x, which is titled `x` and spans the points if no `span`.

    `mark` is the x of a vertical line and its name; `ranges` are intervals of the first line, each x with its ends.
    """

    title: str
    x: str
    lines: Mapping[str, Sequence[tuple[float, float]]]
    mark: tuple[float, str] | None = None
    span: tuple[float, float] | None = None
    ranges: Sequence[tuple[float, float, float]] = ()

    @property
    def uri(self) -> str:
        """The chart as an address: a separate picture, so that its style meets no other."""
        return "data:image/svg+xml;base64," + base64.b64encode(svg([self]).encode()).decode()

    @property
    def summary(self) -> str:
        """The picture in words, for a reader who does not see it: the first and last value of each line."""
        changes = (f"{name} from {line[0][1]:.4g} to {line[-1][1]:.4g}" for name, line in self.lines.items())
        return f"{self.title}, over {self.x}: {', '.join(changes)}"

    @property
    def height(self) -> int:
        """The drawing's height, which grows with the rows of the legend."""
        return _HEIGHT + self._legend()[-1][-1] - _TOP - 8

    def _legend(self) -> list[tuple[str, int | None, float, int]]:
        """Return names, the numbers of their lines and their places, in rows of as many as fit; the mark comes last."""
        keys: list[tuple[str, int | None, float, int]] = []
        x, y = float(_LEFT), _TOP + 8
        for number, name in enumerate([*self.lines, *([] if self.mark is None else [self.mark[1]])]):
            width = 44 + 6.7 * len(name)
            if x > _LEFT and x + width > _WIDTH - _RIGHT:
                x, y = float(_LEFT), y + _ROW
            keys.append((name, number if number < len(self.lines) else None, round(x, 2), y))
            x += width
        return keys

    def places(self) -> dict[str, Any]:
        """Return the places of all parts of the drawing, for its template."""
        points = [point for line in self.lines.values() for point in line]
        x_low, x_high = _widen_range(self.span or [x for x, _ in points], 0.0)
        y_low, y_high = _widen_range([y for _, y in points] + [end for _, *ends in self.ranges for end in ends], 0.06)
        legend, bottom = self._legend(), self.height - _BOTTOM
        top = legend[-1][-1] - 8 + _ROW

        def across(x: float) -> float:
            return round(_LEFT + (x - x_low) / (x_high - x_low) * (_WIDTH - _LEFT - _RIGHT), 2)

        def down(y: float) -> float:
            return round(bottom - (y - y_low) / (y_high - y_low) * (bottom - top), 2)

        return {
            "top": top,
            "bottom": bottom,
            "legend": legend,
            "rows": [(down(y), label) for y, label in _axis_ticks(y_low, y_high)],
            "columns": [(across(x), label) for x, label in _axis_ticks(x_low, x_high)],
            "mark": None if self.mark is None else across(self.mark[0]),
            "ranges": [(across(x), down(low), down(high)) for x, low, high in self.ranges],
            "lines": [[(across(x), down(y)) for x, y in line] for line in self.lines.values()],
        }


@cache
def _macros() -> Any:
    from jinja2 import PackageLoader

    return make_environment(PackageLoader("tellapart.report", "")).get_template("charts.svg.j2").module


def svg(charts: Sequence[LineChart]) -> str:
    """Return charts, one below the other, as an SVG file without scripts or references."""
    return str(_macros().file(charts))


def inline_svg(chart: LineChart) -> Markup:
    """Return a chart as an element of a page, whose style sheet has its colours: the class is `lines`."""
    return Markup(_macros().inline(chart))  # noqa: S704  (the template escapes its texts)


def _widen_range(values: Sequence[float], share: float) -> tuple[float, float]:
    """Return the range of values with a margin; an empty range becomes one around its value."""
    low, high = min(values), max(values)
    if high == low:
        return max(low - (low or 1.0) / 10, 0.0) if low >= 0 else 1.1 * low, high + (abs(high) or 1.0) / 10
    margin = share * (high - low)
    return max(low - margin, 0.0) if low >= 0 else low - margin, high + margin  # no negative axis without such values


def _axis_ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Return round numbers inside a range, four to nine of them, all with as many decimals."""
    power = 10.0 ** math.floor(math.log10(high - low))
    step = next(factor * power for factor in (2, 1, 0.5, 0.2, 0.1) if (high - low) / (factor * power) >= 4)
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [(k * step, f"{k * step + 0.0:.{decimals}f}") for k in range(first, last + 1)]


def score_bar(value: float, low: float | None = None, high: float | None = None, chance: float | None = None) -> Markup:
    """Draw a fraction, its interval and chance on a bar from 0 to 100; nothing of a value that has no place there."""
    if not -1e-6 <= value <= 1 + 1e-6:  # a mean in float32 may exceed its shares
        return Markup()
    places = (None if of is None else round(100 * min(1.0, max(0.0, of)), 2) for of in (value, low, high, chance))
    return Markup(_macros().bar(*places))  # noqa: S704  (numbers only)
