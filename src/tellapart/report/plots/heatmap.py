"""A heat map: one metric by the values of a tag and by model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tellapart.errors import plain
from tellapart.evaluation.systems import System
from tellapart.records.result import Value
from tellapart.report.heatmap import HeatMap, heat_map, is_above_chance
from tellapart.report.measured import pick_benchmark
from tellapart.report.numbers import percent, thousands
from tellapart.report.plots.bars import title_of
from tellapart.report.plots.style import COLUMN, PAGE, axes_of, fold, write_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: With more columns than this, cells have no room for their numbers.
_MOST_NUMBERS = 12

#: Inches: a letter of 8 points and its line, a cell with a number and one without.
_LETTER, _LINE, _CELL, _SMALL = 0.068, 0.14, 0.42, 0.14


def draw_heatmap(
    runs: Sequence[System], benchmark: str | None = None, metric: str | None = None, tag: str | None = None
) -> Figure:
    """Draw a metric as shades from 0 to 100 percent, its number in every cell: a tag's values by models.

    Of values and models, those that are more stand down. A number in brackets is not above chance: its interval reaches
    down to it. With more than twelve columns there are shades alone.
    """
    benchmark, measured = pick_benchmark(runs, benchmark)
    heat = heat_map({run.label: run.record(benchmark) for run in measured}, benchmark, metric, tag)
    counts = [f" ({thousands(row.n)})" if row.n else "" for row in heat.rows]
    down = [f"{plain(row.name)}{count}" for row, count in zip(heat.rows, counts, strict=True)]
    across = list(heat.models)
    cells = [list(row.values) for row in heat.rows]
    turned = len(across) > len(down)
    if turned:
        down, across, cells = across, down, [list(column) for column in zip(*cells, strict=True)]
    labels = [fold(name, 24) for name in down]
    heads = _fit_heads(across, _LETTER * _longest_line(labels) + 0.3)
    row = max(0.2, _LINE * (1 + max(name.count("\n") for name in labels)) + 0.03)
    figure, axes = axes_of(heads.width, row * len(down) + heads.height + 0.9)
    with_numbers = len(across) <= _MOST_NUMBERS
    _draw_cells(axes, cells, with_numbers=with_numbers)
    (axes.axvline if turned else axes.axhline)(len(heat.rows) - 1.5, color="white", lw=3)  # before `all items`
    axes.set_yticks(range(len(down)), labels)
    axes.set_xticks(range(len(across)), heads.names, rotation=heads.rotation)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    caption = _write_caption(heat, with_numbers=with_numbers)
    axes.set_xlabel(fold(caption, int((heads.width - _LETTER * _longest_line(labels) - 0.2) / _LETTER)), fontsize=7)
    write_title(figure, f"{title_of(measured, benchmark)}, by {plain(heat.tag)}")
    return figure


@dataclass(frozen=True, slots=True)
class _Heads:
    """Names across as they are set: turned if they are too long, and the inches that this takes."""

    names: list[str]
    rotation: int
    height: float
    width: float


def _fit_heads(across: Sequence[str], left: float) -> _Heads:
    """Lay out the columns' names, turned if they are too long; the rows' names take `left` inches."""
    for width in (COLUMN, PAGE):
        cell = (width - left) / len(across)
        names = [fold(name, max(1, int(cell / _LETTER) - 1)) for name in across]
        lines = 1 + max(name.count("\n") for name in names)
        if cell > 8 * _LETTER and lines <= 3:
            return _Heads(names, 0, _LINE * lines, width)
    # Turned, a line of letters takes a cell's width.
    with_numbers = len(across) <= _MOST_NUMBERS
    names = [fold(name, 24 if with_numbers else 60) for name in across]
    line = _LINE * (1 + max(name.count("\n") for name in names)) + 0.02
    needed = left + len(across) * max(_CELL if with_numbers else _SMALL, line)
    return _Heads(names, 90, _LETTER * _longest_line(names), COLUMN if needed <= COLUMN else PAGE)


def _longest_line(names: Sequence[str]) -> int:
    return max(len(line) for name in names for line in name.split("\n"))


def _draw_cells(axes: Axes, cells: Sequence[Sequence[Value | None]], *, with_numbers: bool) -> None:
    shares = np.array([[np.nan if value is None else value.value for value in row] for row in cells])
    # Beyond the darkest share there is room: black numbers stay legible, and grey print keeps the order.
    image = axes.imshow(shares, cmap="Blues", vmin=0.0, vmax=1.6, aspect="auto")
    for spine in axes.spines.values():
        spine.set_visible(False)
    if not with_numbers:
        axes.figure.colorbar(
            image,
            ax=axes,
            format=lambda share, _: f"{100 * share:g}",
            boundaries=np.linspace(0, 1, 101),
            ticks=[0, 0.5, 1],
        )
        return
    for (down, across), _ in np.ndenumerate(shares):
        value = cells[down][across]
        if value is None:
            text = "–"
        else:
            text = percent(value.value, 1) if is_above_chance(value) else f"({percent(value.value, 1)})"
        axes.text(across, down, text, ha="center", va="center", size=7)


def _write_caption(heat: HeatMap, *, with_numbers: bool) -> str:
    name = f"{heat.metric.replace('_', ' ')}, percent"
    if heat.chance is None:
        return name
    chance = f"chance ({percent(heat.chance)})"
    return f"{name}; {'in brackets: not above ' if with_numbers else ''}{chance}"
