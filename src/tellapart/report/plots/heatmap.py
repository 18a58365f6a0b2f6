"""Heat maps: one metric by the values of a tag and by model; and how alike benchmarks rank models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tellapart.data.arguments import PathGiven
from tellapart.errors import RunError, plain
from tellapart.evaluation.systems import System, leave_references
from tellapart.records.imported import read_imported
from tellapart.records.result import BenchmarkResult, Value
from tellapart.records.zipped import run_folders
from tellapart.report.benchmark_agreement import Agreeing, Measured, find_agreement
from tellapart.report.heatmap import heat_map, is_above_chance
from tellapart.report.measured import gather, pick_benchmark
from tellapart.report.numbers import is_deviation, percent, thousands
from tellapart.report.plots.bars import title_of
from tellapart.report.plots.style import COLUMN, PAGE, axes_of, fold, write_title
from tellapart.tasks.registry import headline, main_metric

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


#: With more benchmarks than this, cells have no room for their numbers.
_MOST_NUMBERED = 24


def agreement(
    runs: PathGiven | Sequence[PathGiven], *, benchmarks: Sequence[str] = (), labels: Mapping[str, str] | None = None
) -> Agreeing:
    """Return how alike benchmarks rank the models that all of them were measured on.

    Args:
        runs: run folders, or TOML files of imported numbers.
        benchmarks: which; all if none.
        labels: a model's name -> what to call it.

    Raises:
        TellapartError: a folder is not a run, or there are not two benchmarks with five models in common.
    """
    with run_folders(runs, "runs") as folders:
        table = _read_numbers(folders, labels or {})
    measured = {name for row in table.values() for name in row}
    if unknown := [name for name in benchmarks if name not in measured]:
        listed = ", ".join(sorted(measured)) or "nothing"
        raise RunError(f"agree: no run measured {unknown[0]!r}; these have {listed}")
    wanted = set(benchmarks) or measured
    return find_agreement(
        {model: {name: number for name, number in row.items() if name in wanted} for model, row in table.items()}
    )


def _read_numbers(paths: Sequence[Path], labels: Mapping[str, str]) -> dict[str, dict[str, Measured]]:
    """Read the number of each model that ranks it on each benchmark, of runs and of imported numbers (`.toml`)."""
    table: dict[str, dict[str, Measured]] = {}
    for path in (path for path in paths if path.suffix == ".toml"):
        imported = read_imported(path)
        for model in imported.models:
            if model.kind == "model":
                row = table.setdefault(model.name, {})
                row |= {
                    name: Measured(scores[main], imported.items.get(name, 0), main)
                    for name, scores in model.scores.items()
                    if (main := main_metric(headline(scores) or sorted(scores)))
                }
    if folders := [path for path in paths if path.suffix != ".toml"]:
        for system in leave_references(gather(folders, labels)):
            row = table.setdefault(system.label, {})
            row |= {
                name: number for name, record in system.result.benchmarks.items() if (number := _ranking_number(record))
            }
    return table


def _ranking_number(record: BenchmarkResult) -> Measured | None:
    """Return the number that ranks a record's benchmark; None for a part of the items, or if no share does."""
    shares = {name: value for name, value in record.metrics.items() if not is_deviation(value)}
    main = main_metric(headline(shares) or sorted(shares))
    if not main or record.limited_from is not None:
        return None
    return Measured(shares[main].value, shares[main].n, main)


def draw_agreement(agreement: Agreeing) -> Figure:
    """Draw rank correlations of benchmarks, neighbours alike: purple agrees, orange disagrees."""
    names = [benchmark.name for benchmark in agreement.benchmarks]
    size = len(names)
    labels = [fold(name, 28) for name in names]
    figure, axes = axes_of(PAGE, min(9.0, 1.9 + 0.19 * size))
    matrix = np.array(agreement.correlations)
    image = axes.imshow(matrix, cmap="PuOr", vmin=-1.4, vmax=1.4, aspect="auto")
    axes.set_yticks(range(size), labels)
    axes.set_xticks(range(size), labels, rotation=90)
    axes.xaxis.tick_top()
    axes.tick_params(length=0, labelsize=7 if size <= 40 else 5)
    for spine in axes.spines.values():
        spine.set_visible(False)
    if size <= _MOST_NUMBERED:
        for (down, across), value in np.ndenumerate(matrix):
            axes.text(across, down, f"{100 * value:.0f}", ha="center", va="center", size=6)
    else:
        figure.colorbar(image, ax=axes, boundaries=np.linspace(-1, 1, 101), ticks=[-1, -0.5, 0, 0.5, 1])
    first = ", ".join(f"{100 * share:.0f}" for share in agreement.shares[:3])
    unit = "times 100" if size <= _MOST_NUMBERED else "shade"
    axes.set_xlabel(
        f"Spearman's correlation over {agreement.models} models ({unit}); principal components of ranks: {first} % of "
        f"the variance, {agreement.dimensions} above shuffled tables",
        fontsize=7,
        wrap=True,
    )
    write_title(figure, f"Do {size} benchmarks rank {agreement.models} models alike?")
    return figure


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
    above = "in brackets: not above " if with_numbers else ""
    chance = "" if heat.chance is None else f"; {above}chance ({percent(heat.chance)})"
    caption = f"{heat.metric.replace('_', ' ')}, percent{chance}"
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
