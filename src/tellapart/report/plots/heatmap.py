"""A heat map of one metric: the values of a tag down, models across; its numbers, and its picture for papers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tellapart.benchmarks.find import declared_benchmark
from tellapart.errors import RunError, nearest, plain
from tellapart.evaluation.systems import System
from tellapart.records.result import BenchmarkResult, Value
from tellapart.report.measured import pick_benchmark, title_of
from tellapart.report.numbers import is_deviation, percent, thousands
from tellapart.report.plots.style import COLUMN, LETTER, PAGE, axes_of, fold, write_title
from tellapart.report.sections import shared_headline
from tellapart.tasks.registry import main_metric

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class HeatRow:
    """The items of one value of the tag, or all of them (`n`, 0 if unknown): a number a model, None if it has none."""

    name: str
    n: int
    values: tuple[Value | None, ...]

    @property
    def is_imported(self) -> bool:
        """Whether another tool measured one of the numbers, over a number of items that is unknown."""
        return any(value is not None and value.method == "imported" for value in self.values)


@dataclass(frozen=True, slots=True)
class HeatMap:
    """One metric of several models by the values of a tag."""

    benchmark: str
    metric: str
    tag: str
    models: tuple[str, ...]
    rows: tuple[HeatRow, ...]

    @property
    def chance(self) -> float | None:
        """The value of a model without information, over all items."""
        chances = (value.chance for value in self.rows[-1].values if value is not None)
        return next((chance for chance in chances if chance is not None), None)


def heat_map(
    records: Mapping[str, BenchmarkResult], benchmark: str, metric: str | None = None, tag: str | None = None
) -> HeatMap:
    """Arrange models' records of one benchmark by the values of a tag."""
    metric = metric or main_metric(shared_headline(list(records.values())))
    total = [record.metrics.get(metric) for record in records.values()]
    if not any(total):
        first = next(iter(records.values()))
        raise RunError(f"{benchmark} has no {metric!r}; it has {', '.join(first.metrics) or 'no metric'}")
    if any(value is not None and is_deviation(value) for value in total):
        raise RunError(f"{metric} is a deviation in the unit of the scores; a heat map shows shares of items")
    tag = _check_tag(records, benchmark, tag)
    groups = [record.by.get(tag, {}) for record in records.values()]
    columns: dict[str, list[Value | None]] = {
        name: [of[name].metrics.get(metric) if name in of else None for of in groups]
        for name in dict.fromkeys(name for of in groups for name in of)
    }
    rows = [
        HeatRow(name, max((value.n for value in values if value is not None), default=0), tuple(values))
        for name, values in (*columns.items(), ("all items", total))
    ]
    shown = (row for row in rows[:-1] if row.n or row.is_imported)
    return HeatMap(benchmark, metric, tag, tuple(records), (*shown, rows[-1]))


def breakdown_tag(records: Mapping[str, BenchmarkResult], benchmark: str) -> str | None:
    """Return the tag that breaks a benchmark down: its paper's, or the only one; None if neither is clear."""
    tags = dict.fromkeys(tag for record in records.values() for tag in record.by)
    declared = declared_benchmark(benchmark)
    if declared is not None and declared.paper is not None and declared.paper[0] in tags:
        return declared.paper[0]
    return next(iter(tags)) if len(tags) == 1 else None


def first_breakdown(records: Mapping[str, BenchmarkResult], benchmark: str, *, most: int | None = None) -> str | None:
    """Return the tag of a first look: the one that `breakdown_tag` names, else the first; None without one."""
    sizes: dict[str, int] = {}
    for record in records.values():
        for tag, groups in record.by.items():
            sizes[tag] = max(len(groups), sizes.get(tag, 0))
    fitting = [tag for tag, size in sizes.items() if size > 1 and (most is None or size <= most)]
    preferred = breakdown_tag(records, benchmark)
    return preferred if preferred in fitting else next(iter(fitting), None)


def _check_tag(records: Mapping[str, BenchmarkResult], benchmark: str, tag: str | None) -> str:
    tags = list(dict.fromkeys(tag for record in records.values() for tag in record.by))
    if not tags:
        raise RunError(f"the items of {benchmark} have no tags to break it down by")
    name = breakdown_tag(records, benchmark) if tag is None else tag
    if name is None:
        raise RunError(f"{benchmark} can be broken down by {', '.join(tags)}; choose one with tag=")
    if name not in tags:
        hint = nearest(name, tags) or ";"
        raise RunError(f"{benchmark} is not broken down by {name!r}{hint} its tags are {', '.join(tags)}")
    return name


def is_above_chance(value: Value) -> bool:
    """Return whether all of a number's interval lies above chance; also if no chance or no interval is defined."""
    return value.chance is None or value.low is None or value.low > value.chance


#: With more columns than this, cells have no room for their numbers.
_MOST_NUMBERS = 12

#: Inches: a line of letters, a cell with a number and one without.
_LINE, _CELL, _SMALL = 0.14, 0.42, 0.14


def draw_heatmap(
    runs: Sequence[System], benchmark: str | None = None, metric: str | None = None, tag: str | None = None
) -> Figure:
    """Draw a metric as shades from 0 to 100 percent, its number in every cell: a tag's values by models.

    Those that are more stand down. A number in brackets is not above chance; above twelve columns shades are alone.
    """
    benchmark, measured = pick_benchmark(runs, benchmark)
    heat = heat_map({run.label: run.record(benchmark) for run in measured}, benchmark, metric, tag)
    down = [f"{plain(row.name)}{f' ({thousands(row.n)})' if row.n else ''}" for row in heat.rows]
    across = list(heat.models)
    cells = [list(row.values) for row in heat.rows]
    if turned := len(across) > len(down):
        down, across, cells = across, down, [list(column) for column in zip(*cells, strict=True)]
    labels = [fold(name, 24) for name in down]
    left = LETTER * _longest_line(labels)
    heads, rotation, height, width = _fit_heads(across, left + 0.3)
    row = max(0.2, _LINE * (1 + max(name.count("\n") for name in labels)) + 0.03)
    figure, axes = axes_of(width, row * len(down) + height + 0.9)
    shares = np.array([[np.nan if value is None else value.value for value in values] for values in cells])
    # Beyond the darkest share there is room: black numbers stay legible, and grey print keeps the order.
    image = axes.imshow(shares, cmap="Blues", vmin=0.0, vmax=1.6, aspect="auto")
    for spine in axes.spines.values():
        spine.set_visible(False)
    with_numbers = len(across) <= _MOST_NUMBERS
    if with_numbers:
        for line, column in np.ndindex(shares.shape):
            axes.text(column, line, _write_cell(cells[line][column]), ha="center", va="center", size=7)
    else:
        bounds, ticks = np.linspace(0, 1, 101), [0, 0.5, 1]
        figure.colorbar(image, ax=axes, format=lambda share, _: f"{100 * share:g}", boundaries=bounds, ticks=ticks)
    (axes.axvline if turned else axes.axhline)(len(heat.rows) - 1.5, color="white", lw=3)  # before `all items`
    axes.set_yticks(range(len(down)), labels)
    axes.set_xticks(range(len(across)), heads, rotation=rotation)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    above = "in brackets: not above " if with_numbers else ""
    chance = "" if heat.chance is None else f"; {above}chance ({percent(heat.chance)})"
    caption = f"{heat.metric.replace('_', ' ')}, percent{chance}"
    axes.set_xlabel(fold(caption, int((width - left - 0.2) / LETTER)), fontsize=7)
    write_title(figure, f"{title_of(measured, benchmark)}, by {plain(heat.tag)}")
    return figure


def _fit_heads(across: Sequence[str], left: float) -> tuple[list[str], int, float, float]:
    """Lay out the columns' names beside `left` inches: names, degrees, their height, and the picture's width."""
    for width in (COLUMN, PAGE):
        cell = (width - left) / len(across)
        names = [fold(name, max(1, int(cell / LETTER) - 1)) for name in across]
        lines = 1 + max(name.count("\n") for name in names)
        if cell > 8 * LETTER and lines <= 3:
            return names, 0, _LINE * lines, width
    # Turned, a line of letters takes a cell's width.
    with_numbers = len(across) <= _MOST_NUMBERS
    names = [fold(name, 24 if with_numbers else 60) for name in across]
    line = _LINE * (1 + max(name.count("\n") for name in names)) + 0.02
    needed = left + len(across) * max(_CELL if with_numbers else _SMALL, line)
    return names, 90, LETTER * _longest_line(names), COLUMN if needed <= COLUMN else PAGE


def _longest_line(names: Sequence[str]) -> int:
    return max(len(line) for name in names for line in name.split("\n"))


def _write_cell(value: Value | None) -> str:
    if value is None:
        return "–"
    return percent(value.value, 1) if is_above_chance(value) else f"({percent(value.value, 1)})"
