"""Performance against cost, and the Pareto front."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tellapart.errors import RunError
from tellapart.records.result import Value
from tellapart.records.systems import System
from tellapart.report.measured import first_metrics, value_of
from tellapart.report.numbers import plain
from tellapart.report.plots.costs import Costs
from tellapart.report.plots.point_names import name_points
from tellapart.report.plots.style import COLUMN, GREY, PAGE, axes_of, look, plain_logarithm, write_title
from tellapart.stats.pareto import pareto_front

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["CostPoint", "draw_pareto", "points"]

#: Costs that differ by more than this are drawn on a logarithmic axis.
_WIDE = 20.0

#: So many models with names of so many letters have room in a column.
_FEW, _SHORT = 8, 20


@dataclass(frozen=True, slots=True)
class CostPoint:
    """One model: what it costs, how well it does in percent, and whether no other one is as good and as cheap.

    Attributes:
        low, high: of the interval in percent; None for a mean over several benchmarks.
    """

    model: str
    cost: float
    score: float
    low: float | None
    high: float | None
    front: bool


def points(
    runs: Sequence[System], costs: Costs, benchmarks: Sequence[str], metric: str | None = None
) -> list[CostPoint]:
    """Put scores and costs together; runs of one model are one point, its score the plain mean over benchmarks.

    Args:
        runs: the models; each must have every benchmark, and a cost.
        costs: by the models' names.
        benchmarks: one or several.
        metric: of each; the last of its first look if not given.

    Raises:
        RunError: no model has all the benchmarks, or one has no cost.

    Source: VLUE section 5.3 and Figure 2: the mean of NLVR2 and VQA against the time of one pair.
    """
    complete = [run for run in runs if all(name in run.result.benchmarks for name in benchmarks)]
    if not complete:
        raise RunError(f"no model measured {' and '.join(benchmarks)}; name runs that did")
    names = [plain(run.result.model.name) for run in complete]
    known = {plain(name): cost for name, cost in costs.of.items()}
    if missing := [name for name in names if name not in known]:
        there = ", ".join(known) or "no model"
        raise RunError(f"no {costs.what} of {', '.join(missing)}; the file has {there}: add them, by the same names")
    values = [
        [value_of(run, name, metric or first_metrics([run.record(name)])[-1]) for name in benchmarks]
        for run in complete
    ]
    scores = [100 * float(np.mean([one.value for one in own])) for own in values]
    front = pareto_front([(score, -known[name]) for score, name in zip(scores, names, strict=True)])
    return [
        CostPoint(run.label, known[name], score, *_interval(own), bool(on))
        for run, name, score, own, on in zip(complete, names, scores, values, front, strict=True)
    ]


def _interval(values: Sequence[Value]) -> tuple[float | None, float | None]:
    if len(values) > 1 or values[0].low is None or values[0].high is None:
        return None, None
    return 100 * values[0].low, 100 * values[0].high


def draw_pareto(models: Sequence[CostPoint], across: str, upward: str) -> Figure:
    """Draw models as points, those on the front joined by steps and filled, the others hollow.

    Each point has its model's name beside it; where names would overlap, a number, and the names are below the picture.

    Args:
        models: at least one.
        across, upward: what the axes say, with units.
    """
    narrow = len(models) <= _FEW and max(len(point.model) for point in models) <= _SHORT
    figure, axes = axes_of(COLUMN if narrow else PAGE, 2.6 if narrow else 3.6)
    for number, point in enumerate(models):
        _mark(axes, number, point)
    costs = [point.cost for point in models]
    if max(costs) > _WIDE * min(costs):
        axes.set_xscale("log")
        plain_logarithm(axes.xaxis)
    axes.margins(x=0.16, y=0.14)
    front = _front(axes, [point for point in models if point.front])
    axes.set_xlabel(across)
    axes.set_ylabel("\n".join(textwrap.wrap(upward, 36 if narrow else 56)))
    if all(0 <= point.score <= 100 for point in models):
        # Room beside the points, but no share beyond what shares can be.
        bottom, top = axes.get_ylim()
        axes.set_yticks([tick for tick in axes.get_yticks() if max(0, bottom) <= tick <= min(100, top)])
    write_title(figure, "filled: no other is as good and as cheap")
    axes.grid()
    name_points(figure, axes, [(point.model, point.cost, point.score) for point in models], front)
    return figure


def _mark(axes: Axes, number: int, point: CostPoint) -> None:
    style = look(number)
    if point.low is not None and point.high is not None:
        reach = [[point.score - point.low], [point.high - point.score]]
        axes.errorbar(point.cost, point.score, yerr=reach, color=GREY, elinewidth=0.9, capsize=2.0)
    axes.plot(
        point.cost,
        point.score,
        marker=style.marker,
        markersize=6,
        color=style.colour,
        markerfacecolor=style.colour if point.front else "white",
        markeredgecolor="black",
        markeredgewidth=0.8,
        linestyle="none",
    )


def _front(axes: Axes, on_front: Sequence[CostPoint]) -> list[tuple[float, float]]:
    """Draw the border of what the front's models dominate, out to the frame; return its corners."""
    ordered = sorted(on_front, key=lambda point: point.cost)
    (leftmost, rightmost), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    across = [ordered[0].cost, *(point.cost for point in ordered), rightmost]
    upward = [bottom, *(point.score for point in ordered), ordered[-1].score]
    (line,) = axes.step(across, upward, where="post", color=GREY, linewidth=1.0, linestyle="--", zorder=1)
    axes.set_xlim(leftmost, rightmost)
    axes.set_ylim(bottom, top)
    return [(x, y) for x, y in np.asarray(line.get_path().vertices).tolist()]
