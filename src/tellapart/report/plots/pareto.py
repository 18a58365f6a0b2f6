"""Performance against cost, the Pareto front, and names of points that cover nothing."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tellapart.data.rows import read_csv
from tellapart.data.strict_json import plain_suffix
from tellapart.errors import DataError, RunError, plain
from tellapart.evaluation.systems import System, omit_references
from tellapart.records.timing_record import Timing, read_timings
from tellapart.report.measured import pick_benchmark, ranking_metrics, title_of_set, value_of
from tellapart.report.numbers import items_text
from tellapart.report.plots.style import COLUMN, GREY, PAGE, fold, legend_below, look, make_panels, write_title
from tellapart.stats.pareto import pareto_front
from tellapart.tasks.registry import is_higher_better

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.text import Annotation
    from matplotlib.transforms import Bbox


#: Name -> its text on an axis, and its place in a record.
COSTS: dict[str, tuple[str, Callable[[Timing], float | None]]] = {
    "latency": ("latency of one pair, milliseconds", lambda timing: 1000 * timing.latency.median),
    "parameters": ("parameters, millions", lambda timing: timing.parameters and 1e-6 * timing.parameters),
    "flops": ("FLOPs of one pair, billions", lambda timing: timing.flops and 1e-9 * timing.flops),
    "memory": ("peak memory, MiB", lambda timing: timing.peak_memory and timing.peak_memory / 2**20),
}


class Costs(NamedTuple):
    """One cost of several models; `title` is its text on an axis, with its unit."""

    title: str
    by_model: dict[str, float]


def read_costs(path: Path, which: str = "latency") -> Costs:
    """Read one cost of every model."""
    if plain_suffix(path) == ".csv":
        title, rows = _csv_rows(path, "model")
        return Costs(title, {name: cost for (name,), cost in rows.items()})
    if which not in COSTS:
        *others, last = COSTS
        raise RunError(f"no cost {which!r}; use {', '.join(others)} or {last}, or another CSV file")
    title, read = COSTS[which]
    timings = read_timings(path).models
    costs = {timing.model.name: read(timing) for timing in timings}
    if len(costs) < len(timings):
        raise RunError(f"{path} measured a model twice; it has {', '.join(timing.model.name for timing in timings)}")
    if missing := [name for name, cost in costs.items() if cost is None]:
        raise RunError(f"{path} does not say the {which} of {', '.join(missing)}")
    return Costs(title, {name: cost for name, cost in costs.items() if cost is not None})


def read_batch_costs(paths: Sequence[Path]) -> tuple[str, dict[str, list[tuple[float, float]]]]:
    """Read a cost at several sizes of a batch: its text on an axis, and series -> (batch size, cost), by batch size."""
    titles: dict[str, None] = {}
    costs: dict[str, dict[float, float]] = {}
    for path in paths:
        title, rows = _batch_rows(path)
        titles[title] = None
        for series, size, cost in rows:
            if size in costs.setdefault(series, {}):
                raise RunError(f"{path}: {series} at a batch of {size:g} was measured in two of these files; name one")
            costs[series][size] = cost
    if not costs:
        raise RunError("no file was named; name records of `tellapart time --out`, or CSV files")
    if len(titles) > 1:
        raise RunError(f"these files measure different things: {'; '.join(titles)}; draw one at a time")
    return next(iter(titles)), {series: sorted(points.items()) for series, points in costs.items()}


def _batch_rows(path: Path) -> tuple[str, list[tuple[str, float, float]]]:
    if plain_suffix(path) == ".csv":
        title, rows = _csv_rows(path, "series", "batch_size")
        return title, [(series, _read_number(path, size), cost) for (series, size), cost in rows.items()]
    rates = {(timing.model.name, timing.throughput.batch_size): timing.throughput.pairs
             for timing in read_timings(path).models}  # fmt: skip
    if unknown := [name for (name, _), rate in rates.items() if rate is None]:
        raise RunError(f"{path} has no throughput of pairs of {unknown[0]}")
    return "milliseconds a pair", [(name, float(size), 1000 / rate) for (name, size), rate in rates.items() if rate]


def _csv_rows(path: Path, *keys: str) -> tuple[str, dict[tuple[str, ...], float]]:
    """Read a CSV file whose first columns are `keys`, and whose next one is a number: its heading, and the rows."""
    title, rows = "", dict[tuple[str, ...], float]()
    expected = f"expected the columns {', '.join(keys)} and a cost"
    for line, row in read_csv(path):
        names, cells = [*row], [*row.values()]
        if tuple(names[: len(keys)]) != keys or len(names) <= len(keys):
            raise DataError(f"{path}:1: {expected}; got {', '.join(names)}")
        key, title = tuple(cells[: len(keys)]), names[len(keys)]
        if key in rows:
            raise DataError(f"{path}:{line}: {', '.join(key)} is listed twice")
        rows[key] = _read_number(f"{path}:{line}", cells[len(keys)])
    if not rows:
        raise DataError(f"{path}: this CSV file has no row; {expected}")
    return title, rows


def _read_number(place: Path | str, cell: str) -> float:
    with suppress(ValueError):
        if 0 < (number := float(cell)) < math.inf:
            return number
    raise DataError(f"{place}: expected a number above zero; got {cell!r}")


def draw_batches(paths: Sequence[Path]) -> Figure:
    """Draw a line a series, both axes logarithmic: a cost that grows with the batch's square is a line of slope two."""
    title, costs = read_batch_costs(paths)
    figure, (axes,) = make_panels(COLUMN, 2.6)
    for number, (series, points) in enumerate(costs.items()):
        style = look(number)
        axes.plot(*zip(*points, strict=True), label=plain(series), markeredgewidth=0.5, **style.line | style.mark)
    sizes = sorted({size for points in costs.values() for size, _ in points})
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    write_title(figure, "cost against batch size")
    axes.set_xticks(sizes, [f"{size:g}" for size in sizes])
    axes.minorticks_off()
    plain_logarithm(axes.yaxis)
    axes.set(xlabel="samples in a batch", ylabel=title)
    axes.grid()
    legend_below(figure, axes, 3)
    return figure


def plain_logarithm(axis: Axis) -> None:
    """Write 0.5, 1, 2, 5 on a logarithmic axis: a narrow range may hold no power of ten."""
    from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FormatStrFormatter("%g"))
    axis.set_minor_formatter(NullFormatter())


#: Places of a name, in points from its marker, the most legible first.
_PLACES = ((6, 3), (-6, 3), (7, 0), (-7, 0), (6, -3), (-6, -3), (0, 7), (0, -7), (6, 11), (-6, 11), (6, -11), (-6, -11))

#: Letters in a line of the key below a picture, and the width of a letter in inches.
_KEY_LETTERS, _LETTER_INCHES = 48, 0.06


def name_points(
    figure: Figure, axes: Axes, points: Sequence[tuple[str, float, float]], line: Sequence[tuple[float, float]] = ()
) -> None:
    """Write each name next to its point so that it meets no point, name, part of a line or frame.

    If one has no such place, all points get numbers, and the names are below the picture.
    """
    if _place_names(figure, axes, points, line):
        return
    for text in list(axes.texts):
        text.remove()
    numbered = [(str(number), across, upward) for number, (_, across, upward) in enumerate(points, start=1)]
    _write_key(figure, [f"{number} {name}" for number, (name, *_) in enumerate(points, start=1)])
    _place_names(figure, axes, numbered, line)


def _place_names(
    figure: Figure, axes: Axes, points: Sequence[tuple[str, float, float]], line: Sequence[tuple[float, float]]
) -> bool:
    """Write each name where it meets the fewest, nearest to its point if possible; return whether none meets any."""
    from matplotlib.path import Path as Outline
    from matplotlib.transforms import Bbox

    figure.draw_without_rendering()  # the layout must be known before anything can meet
    centres = axes.transData.transform([(across, upward) for _, across, upward in points])
    markers = [Bbox.from_bounds(x - 5, y - 5, 10, 10) for x, y in centres]
    parts = [Outline(axes.transData.transform(ends)) for ends in pairwise(line)]
    frame, taken = axes.get_window_extent(), dict[int, Bbox]()
    names = [axes.annotate(name, (x, y), textcoords="offset points", xytext=(0, 0), size=7) for name, x, y in points]

    def count_overlaps(number: int, box: Bbox) -> int:
        """Count what a name meets at a place; leaving the frame is worse than anything else."""
        others = [other for position, other in taken.items() if position != number]
        outside = not (frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 and box.y1 <= frame.y1)
        crossed = sum(bool(part.intersects_bbox(box, filled=False)) for part in parts)
        return int(box.count_overlaps([*markers, *others])) + crossed + len(points) * outside

    def is_strange(number: int, box: Bbox) -> bool:
        """Return whether another point is about as near to a name as the point that it names."""
        gaps = np.hypot(*np.maximum(np.maximum(box.min - centres, centres - box.max), 0).T)
        return bool((np.delete(gaps, number) <= gaps[number] + 3).any())

    for number in 2 * [*range(len(names))]:  # a name that comes first leaves others no choice; later it sees them
        boxes = {offset: _set_offset(names[number], offset) for offset in _PLACES}
        ranks = {place: (count_overlaps(number, box), is_strange(number, box)) for place, box in boxes.items()}
        taken[number] = _set_offset(names[number], min(_PLACES, key=ranks.__getitem__))
    return not any(count_overlaps(number, box) for number, box in taken.items())


def _set_offset(name: Annotation, offset: tuple[int, int]) -> Bbox:
    """Set a name off by so many points, on that side of its point; return the place that it takes."""
    across, upward = offset
    name.xyann = offset
    name.set_horizontalalignment("left" if across > 0 else "right" if across < 0 else "center")
    name.set_verticalalignment("bottom" if upward > 0 else "top" if upward < 0 else "center")
    return name.get_window_extent()


def _write_key(figure: Figure, names: Sequence[str]) -> None:
    """Write names below a picture, in as many columns as are wide enough, and make room for them."""
    from matplotlib.lines import Line2D

    lines = [fold(name, _KEY_LETTERS) for name in names]
    widest = max(len(part) for line in lines for part in line.splitlines())
    columns = max(1, int(figure.get_figwidth() / (_LETTER_INCHES * (widest + 3))))
    rows = -(-sum(1 + line.count("\n") for line in lines) // columns)
    figure.set_figheight(figure.get_figheight() + 0.13 * rows)
    nothing = [Line2D([], [], linestyle="none") for _ in lines]
    figure.legend(
        nothing, lines, loc="outside lower center", ncols=columns, fontsize=7, handlelength=0, handletextpad=0,
        labelspacing=0.25,
    )  # fmt: skip


#: The largest over the smallest cost from which an axis is logarithmic.
_LOGARITHMIC = 20.0
#: How many models, with how many letters in a name, have room in a column.
_COLUMN_MODELS, _COLUMN_LETTERS = 8, 20


@dataclass(frozen=True, slots=True)
class CostPoint:
    """One model: its cost, its performance in percent, and whether no other one is as good and as cheap."""

    model: str
    cost: float
    score: float
    low: float | None
    high: float | None
    front: bool


def list_points(
    runs: Sequence[System], costs: Costs, benchmarks: Sequence[str], metrics: Sequence[str] = ()
) -> tuple[list[CostPoint], dict[str, str]]:
    """Put scores and costs of models that measured all benchmarks together; return each benchmark's metric, too.

    A model is one point, its score the plain mean (VLUE section 5.3).
    """
    complete = omit_references([run for run in runs if all(name in run.result.benchmarks for name in benchmarks)])
    if not complete:
        raise RunError(f"no model measured {' and '.join(benchmarks)}; name runs that did")
    ranked = ranking_metrics(dict.fromkeys(benchmarks, complete), metrics)
    for name, metric in ranked.items():
        if not is_higher_better(metric):
            raise RunError(f"{name}: {metric} is not best high, so no model is best by it; name another metric=")
    names = [plain(run.result.model.name) for run in complete]
    cost_of = {plain(name): cost for name, cost in costs.by_model.items()}
    if missing := [name for name in names if name not in cost_of]:
        listed = ", ".join(cost_of) or "no model"
        raise RunError(f"no {costs.title} of {', '.join(missing)}; the file has {listed}: add them, by the same names")
    values = [[value_of(run, name, metric) for name, metric in ranked.items()] for run in complete]
    scores = [100 * float(np.mean([number.value for number in numbers])) for numbers in values]
    front = pareto_front([(score, -cost_of[name]) for score, name in zip(scores, names, strict=True)])
    models = []
    for run, name, score, numbers, on in zip(complete, names, scores, values, front, strict=True):
        bounds = (numbers[0].low, numbers[0].high) if len(numbers) == 1 else (None, None)  # a mean of several has none
        low, high = (None if None in bounds or end is None else 100 * end for end in bounds)
        models.append(CostPoint(run.label, cost_of[name], score, low, high, bool(on)))
    return models, ranked


def draw_costs(
    runs: Sequence[System], benchmarks: Sequence[str], metrics: Sequence[str], costs: Path, cost: str
) -> Figure:
    """Draw models' mean performance on benchmarks against one of the costs of a file."""
    model_costs, titles = read_costs(costs, cost), []
    names = [pick_benchmark(runs, name)[0] for name in benchmarks or (None,)]
    models, ranked = list_points(runs, model_costs, names, metrics)
    for name, metric in ranked.items():
        record = pick_benchmark(runs, name)[1][0].record(name)
        limited = "" if record.limited_from is None else f" ({items_text(record)})"
        titles.append(f"{title_of_set(runs, name)} {metric.replace('_', ' ')}{limited}")
    upward = f"{'mean of ' if len(titles) > 1 else ''}{' and '.join(titles)}, percent"
    return draw_pareto(models, model_costs.title, upward)


def draw_pareto(models: Sequence[CostPoint], across: str, upward: str) -> Figure:
    """Draw models as points, those on the front joined by steps and filled, the others hollow."""
    narrow = len(models) <= _COLUMN_MODELS and max(len(point.model) for point in models) <= _COLUMN_LETTERS
    figure, (axes,) = make_panels(COLUMN if narrow else PAGE, 2.6 if narrow else 3.6)
    edge: dict[str, Any] = {"markeredgewidth": 0.8, "markersize": 6, "linestyle": "none"}
    for number, point in enumerate(models):
        style = look(number)
        if point.low is not None and point.high is not None:
            reach = [[point.score - point.low], [point.high - point.score]]
            axes.errorbar(point.cost, point.score, yerr=reach, color=GREY, elinewidth=0.9, capsize=2.0)
        face = style.colour if point.front else "white"
        axes.plot(point.cost, point.score, markerfacecolor=face, **style.mark, **edge)
    costs = [point.cost for point in models]
    if max(costs) > _LOGARITHMIC * min(costs):
        axes.set_xscale("log")
        plain_logarithm(axes.xaxis)
    axes.margins(x=0.16, y=0.14)
    front = _draw_front(axes, [point for point in models if point.front])
    axes.set(xlabel=across, ylabel=textwrap.fill(upward, 36 if narrow else 56))
    if all(0 <= point.score <= 100 for point in models):
        # Room around the points, but no share outside 0 to 100 percent.
        bottom, top = axes.get_ylim()
        axes.set_yticks([tick for tick in axes.get_yticks() if max(0, bottom) <= tick <= min(100, top)])
    write_title(figure, "filled: no other is as good and as cheap")
    axes.grid()
    name_points(figure, axes, [(point.model, point.cost, point.score) for point in models], front)
    return figure


def _draw_front(axes: Axes, on_front: Sequence[CostPoint]) -> list[tuple[float, float]]:
    """Draw the border of the region that the front's models dominate, out to the frame; return its corners."""
    ordered = sorted(on_front, key=lambda point: point.cost)
    (leftmost, rightmost), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    across = [ordered[0].cost, *(point.cost for point in ordered), rightmost]
    upward = [bottom, *(point.score for point in ordered), ordered[-1].score]
    (line,) = axes.step(across, upward, where="post", color=GREY, linewidth=1.0, linestyle="--", zorder=1)
    axes.set(xlim=(leftmost, rightmost), ylim=(bottom, top))  # the line has widened them
    return [(x, y) for x, y in np.asarray(line.get_path().vertices).tolist()]
