"""The equivariance curves of the runs as a drawing, after EqSim's Fig. 6."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.metrics.registry import METRICS
from tellapart.report.deviations import Trace, plot

__all__ = ["TITLES", "curves", "drawing"]

#: Deviation -> its title.
TITLES = {"v1": "v1: s12 - s21", "v2_text": "v2: (s11 - s12) - (s22 - s21)"}

_COLOURS = ("#888888", "#1b6ca8", "#2a9d4a", "#d1495b", "#8e5ea2", "#e08a00")


def curves(scores: Mapping[str, Sequence[NDArray[np.float32]]]) -> list[dict[str, Any]]:
    """Return the geometry of one plot a deviation: the densities over the items of all seeds together.

    Args:
        scores: label -> scores `(item, 2, 2)` of each seed, cosines.

    >>> rng = np.random.default_rng(0)
    >>> [plot["metric"] for plot in curves({"FT": [rng.random((50, 2, 2)).astype(np.float32)]})]
    ['v1', 'v2_text']
    """
    values = {
        label: {name: np.concatenate([METRICS[name].per_item(one) for one in runs]) for name in TITLES}
        for label, runs in scores.items()
    }
    traces = [Trace(label, style, "similarity", own) for style, (label, own) in enumerate(values.items())]
    plots = []
    for metric in TITLES:
        geometry = plot(metric, traces)
        plots.append(
            {
                "metric": metric,
                "width": geometry.width,
                "height": geometry.height,
                "lines": [[line.label, line.points] for line in geometry.lines],
                "ticks": [list(tick) for tick in geometry.ticks],
                "beyond": geometry.beyond,
            }
        )
    return plots


def drawing(plots: Sequence[Mapping[str, Any]]) -> str:
    """Return the plots side by side, and their legend, as SVG.

    >>> size = {"width": 80, "height": 40, "beyond": 0}
    >>> drawing([{"metric": "v1", **size, "lines": [["FT", "0,0 80,40"]], "ticks": [[40, "0"]]}]).count("<polyline")
    1
    """
    gap, top = 30, 28
    legend = [label for label, _ in plots[0]["lines"]]
    width = sum(one["width"] + gap for one in plots) + gap
    height = top + max(one["height"] for one in plots) + 34 + 17 * len(legend)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{width:g}" height="{height:g}" fill="white"/>',
    ]
    left = float(gap)
    for one in plots:
        lines += _one(one, left, top)
        left += one["width"] + gap
    for number, label in enumerate(legend):
        y = height - 17 * (len(legend) - number) + 6
        lines.append(
            f'<line x1="{gap}" y1="{y:g}" x2="{gap + 24}" y2="{y:g}" stroke="{_COLOURS[number]}" stroke-width="2"/>'
        )
        lines.append(f'<text x="{gap + 32}" y="{y + 4:g}">{escape(label)}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def _one(plot: Mapping[str, Any], left: float, top: float) -> list[str]:
    floor = plot["height"]
    lines = [
        f'<g transform="translate({left:g} {top:g})">',
        f'<text x="0" y="-10">{escape(TITLES[plot["metric"]])}</text>',
        f'<line x1="0" y1="{floor:g}" x2="{plot["width"]:g}" y2="{floor:g}" stroke="#444"/>',
    ]
    for x, label in plot["ticks"]:
        lines.append(f'<text x="{x:g}" y="{floor + 16:g}" text-anchor="middle">{escape(label)}</text>')
    for number, (_, points) in enumerate(plot["lines"]):
        lines.append(f'<polyline points="{points}" fill="none" stroke="{_COLOURS[number]}" stroke-width="1.5"/>')
    return [*lines, "</g>"]
