"""Score bars of HTML pages."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from markupsafe import Markup

_WIDTH, _HEIGHT = 640.0, 280.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 62.0, 18.0, 40.0, 44.0
_LETTER, _SWATCH, _ROW = 6.7, 30.0, 18

#: The report's colours, by number and mode, so that a curve looks the same everywhere.
_STYLE = """
svg { background: #ffffff; font: 12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
text { fill: #5a6370; } .title { fill: #16191d; font-weight: 600; font-size: 13px; } .key { fill: #16191d; }
.grid { stroke: #dde1e7; } .best { stroke: #b04a00; stroke-dasharray: 4 3; }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; }
.s0 { --s: #0072b2 } .s1 { --s: #d55e00 } .s2 { --s: #009e73 } .s3 { --s: #b0578d }
.s4 { --s: #a07800 } .s5 { --s: #2b8cbe } .s6 { --s: #44494f } .s7 { --s: #7a5195 }
.line, .swatch, .range { stroke: var(--s) } .range { stroke-width: 1.5; opacity: 0.6; } .point { fill: var(--s) }
@media (prefers-color-scheme: dark) {
  svg { background: #181b20 } text { fill: #a3acb8 } .title, .key { fill: #e8eaed } .grid { stroke: #2f353d }
  .best { stroke: #ff9d57 }
  .s0 { --s: #56b4e9 } .s1 { --s: #f28c4a } .s2 { --s: #2fc798 } .s3 { --s: #e09ac4 } .s4 { --s: #e6c34a }
  .s5 { --s: #9fd0f0 } .s6 { --s: #c4c9d0 } .s7 { --s: #b79adf }
}
"""
#: Beyond eight lines colours come again, dashed.
_COLOURS = 8


@dataclass(frozen=True, slots=True)
class LineChart:
    """Lines on one pair of axes.

    Attributes:
        x: the title of the horizontal axis.
        lines: name -> points, by growing x.
        mark: x of a vertical line, and its name in the legend.
        span: of x; that of the points if None.
        ranges: intervals of the first line's points, each x with its ends.
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


def svg(charts: Sequence[LineChart]) -> str:
    """Return charts, one below the other, as an SVG file without scripts or references."""
    parts, top = [], 0.0
    for chart in charts:
        height = _chart_height(chart)
        parts.append(f'<g transform="translate(0 {top:g})">\n{_draw_chart(chart, height)}\n</g>')
        top += height
    size = f'viewBox="0 0 {_WIDTH:g} {top:g}" width="{_WIDTH:g}" height="{top:g}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
    title = escape("; ".join(chart.title for chart in charts))
    return "\n".join([head, f"<title>{title}</title>", f"<style>{_STYLE}</style>", *parts, "</svg>", ""])


def inline_svg(chart: LineChart) -> Markup:
    """Return a chart as an element of a page, whose style sheet has its colours: the class is `lines`."""
    height = _chart_height(chart)
    head = f'<svg class="lines" viewBox="0 0 {_WIDTH:g} {height:g}" role="img" aria-label="{escape(chart.summary)}">'
    return Markup(f"{head}{_draw_chart(chart, height)}</svg>")  # noqa: S704  (its texts are escaped)


def _chart_height(chart: LineChart) -> float:
    return _HEIGHT + _ROW * (len(_legend_rows(chart)) - 1)


def _draw_chart(chart: LineChart, height: float) -> str:
    points = [point for line in chart.lines.values() for point in line]
    x_low, x_high = _widen_range(chart.span or [x for x, _ in points], 0.0)
    y_low, y_high = _widen_range([y for _, y in points] + [end for _, *ends in chart.ranges for end in ends], 0.06)
    top, bottom = _TOP + _ROW * len(_legend_rows(chart)), height - _BOTTOM

    def across(x: float) -> float:
        return round(_LEFT + (x - x_low) / (x_high - x_low) * (_WIDTH - _LEFT - _RIGHT), 2)

    def down(y: float) -> float:
        return round(bottom - (y - y_low) / (y_high - y_low) * (bottom - top), 2)

    parts = [f'<text class="title" x="{_LEFT:g}" y="24">{escape(chart.title)}</text>', *_draw_legend(chart)]
    for y, label in _axis_ticks(y_low, y_high):
        parts.append(
            f'<path class="grid" d="M{_LEFT:g} {down(y)}H{_WIDTH - _RIGHT:g}"/>'
            f'<text x="{_LEFT - 8:g}" y="{down(y) + 4:g}" text-anchor="end">{label}</text>'
        )
    for x, label in _axis_ticks(x_low, x_high):
        parts.append(f'<text x="{across(x)}" y="{bottom + 18:g}" text-anchor="middle">{label}</text>')
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    parts.append(f'<text x="{middle:g}" y="{bottom + 36:g}" text-anchor="middle">{escape(chart.x)}</text>')
    if chart.mark is not None:
        parts.append(f'<path class="best" d="M{across(chart.mark[0])} {top:g}V{bottom:g}"/>')
    for x, low, high in chart.ranges:
        parts.append(f'<path class="range s0" d="M{across(x)} {down(low)}V{down(high)}"/>')
    for number, line in enumerate(chart.lines.values()):
        places = [(across(x), down(y)) for x, y in line]
        joined = " ".join(f"{x},{y}" for x, y in places)
        parts.append(f'<polyline class="line s{number % _COLOURS}"{_dash_style(number)} points="{joined}"/>')
        if len(line) <= 20:  # each was measured, and is to be seen
            parts += [f'<circle class="point s{number % _COLOURS}" cx="{x}" cy="{y}" r="3.5"/>' for x, y in places]
    return "\n".join(parts)


def _draw_legend(chart: LineChart) -> list[str]:
    parts, number = [], 0
    for row, names in enumerate(_legend_rows(chart)):
        x, y = _LEFT, _TOP + 8 + _ROW * row
        for name in names:
            line = number < len(chart.lines)
            style = f'class="swatch s{number % _COLOURS}"{_dash_style(number)}' if line else 'class="best"'
            parts.append(f'<path {style} stroke-width="3" d="M{x:g} {y - 4:g}h18"/>')
            parts.append(f'<text class="key" x="{x + 24:g}" y="{y:g}">{escape(name)}</text>')
            x, number = x + _key_width(name), number + 1
    return parts


def _legend_rows(chart: LineChart) -> list[list[str]]:
    """Return the names in the rows of the legend, as many in each as fit; the mark comes last."""
    rows: list[list[str]] = [[]]
    for name in [*chart.lines, *([] if chart.mark is None else [chart.mark[1]])]:
        if rows[-1] and sum(map(_key_width, [*rows[-1], name])) > _WIDTH - _LEFT - _RIGHT:
            rows.append([])
        rows[-1].append(name)
    return rows


def _key_width(name: str) -> float:
    return _SWATCH + 14 + _LETTER * len(name)


def _dash_style(number: int) -> str:
    return "" if number < _COLOURS else ' stroke-dasharray="5 3"'


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


# Score bars


def score_bar(value: float, low: float | None = None, high: float | None = None, chance: float | None = None) -> Markup:
    """Draw a fraction, its interval and chance on a bar from 0 to 100."""
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
