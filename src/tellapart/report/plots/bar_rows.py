"""Bars of many models, under each other and by name: neither hatches nor a legend could tell so many apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tellapart.errors import require
from tellapart.records.result import Value
from tellapart.report.plots.style import COLUMN, GREY, PAGE, folded, titled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_rows"]

_FILL = "#56B4E9"


def draw_rows(values: Mapping[str, Sequence[Value]], metrics: Sequence[str], title: str) -> Figure:
    """Draw a panel a metric, a bar a model with its interval, the models' names on the left; chance is a dashed line.

    Args:
        values: model -> a number for each metric.
        metrics: their names.
        title: over the whole picture.

    >>> value = Value(value=0.5, low=0.4, high=0.6, method="", n=1, clusters=1, average="")
    >>> drawn = draw_rows({"a": [value], "b": [value]}, ["text_score"], "demo")
    >>> [label.get_text() for label in drawn.axes[0].get_yticklabels()]
    ['a', 'b']
    """
    require("matplotlib", extra="plot")
    from matplotlib.figure import Figure

    names = [folded(name, 40) for name in values]
    height = len(names) * (0.17 + 0.11 * max(name.count("\n") for name in names))
    width = COLUMN if len(metrics) == 1 and max(map(len, values)) <= 20 else PAGE
    figure = Figure(figsize=(width, 0.8 + height))
    panels = figure.subplots(1, len(metrics), squeeze=False, sharey=True)[0]
    for place, (axes, metric) in enumerate(zip(panels, metrics, strict=True)):
        _panel(axes, [own[place] for own in values.values()])
        axes.set_title(metric.replace("_", " "))
    panels[0].set_yticks(range(len(names)), names)
    panels[0].set_ylim(len(names) - 0.4, -0.6)
    figure.supxlabel("percent; dashed: chance; diamond: ties at random", fontsize=8)
    titled(figure, title)
    return figure


def _panel(axes: Axes, values: Sequence[Value]) -> None:
    shares = [100 * value.value for value in values]
    axes.barh(range(len(values)), shares, 0.72, color=_FILL, edgecolor="black", linewidth=0.5)
    for place, value in enumerate(values):
        if value.low is not None and value.high is not None:
            axes.plot([100 * value.low, 100 * value.high], [place, place], color="black", linewidth=1.0)
        if value.ties and value.tie_neutral is not None:
            axes.plot(100 * value.tie_neutral, place, "d", color="white", markeredgecolor="black", markersize=4)
    if values[0].chance is not None:
        axes.axvline(100 * values[0].chance, color=GREY, linestyle="--", linewidth=1.2)
    axes.set_xlim(0, max(100.0, axes.get_xlim()[1]))
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")
