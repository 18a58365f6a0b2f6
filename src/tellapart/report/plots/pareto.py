"""Performance against cost, and the front that no model lies beyond."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tellapart.errors import RunError
from tellapart.report.measured import Measured, first_metrics, value_of
from tellapart.report.numbers import plain
from tellapart.report.plots.costs import Costs
from tellapart.report.plots.style import GREY, axes_of, look, plain_logarithm
from tellapart.result import Value
from tellapart.stats.pareto import pareto_front

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Annotation

__all__ = ["Point", "draw_pareto", "points"]

#: Costs that differ by more than this are drawn on a logarithmic axis.
_WIDE = 20.0

#: Where a name may stand, in points from its marker, the most legible first.
_PLACES = ((7, 4), (-7, 4), (7, -4), (-7, -4), (0, 8), (0, -8))


@dataclass(frozen=True, slots=True)
class Point:
    """One model: what it costs, how well it does in percent, and whether no other one is as good and as cheap.

    Attributes:
        low, high: of the interval in percent; None for a mean over several benchmarks.

    >>> Point("m", 63.5, 62.35, None, None, True).front
    True
    """

    model: str
    cost: float
    score: float
    low: float | None
    high: float | None
    front: bool


def points(runs: Sequence[Measured], costs: Costs, benchmarks: Sequence[str], metric: str | None = None) -> list[Point]:
    """Put scores and costs together; runs of one model are one point, its score the plain mean over benchmarks.

    Args:
        runs: the models; each must have every benchmark, and a cost.
        costs: by the models' names.
        benchmarks: one or several.
        metric: of each; the last of its first look if not given.

    Raises:
        RunError: no model has all the benchmarks, or one has no cost.

    Source: VLUE section 5.3 and Figure 2: the mean of NLVR2 and VQA against the time of one pair.

    >>> points([], Costs("x", {}), ["demo"])
    Traceback (most recent call last):
    tellapart.errors.RunError: no model measured demo; name runs that did
    """
    found: dict[str, dict[str, Value]] = {}
    for run in runs:
        for name in benchmarks:
            if name in run.result.benchmarks:
                own = found.setdefault(plain(run.result.model.name), {})
                if name in own:
                    raise RunError(f"{run.result.model.name} measured {name} in two of these runs; name one of them")
                own[name] = value_of(run, name, metric or first_metrics([run.record(name)])[-1])
    whole = {model: values for model, values in found.items() if len(values) == len(benchmarks)}
    if not whole:
        raise RunError(f"no model measured {' and '.join(benchmarks)}; name runs that did")
    known = {plain(name): cost for name, cost in costs.of.items()}
    if missing := [model for model in whole if model not in known]:
        raise RunError(
            f"no {costs.what} of {', '.join(missing)}; the file has {', '.join(known) or 'no model'}: add them, by the same names"
        )
    scores = {model: 100 * float(np.mean([one.value for one in values.values()])) for model, values in whole.items()}
    front = pareto_front([(scores[model], -known[model]) for model in whole])
    return [
        Point(model, known[model], scores[model], *_interval(values), bool(on))
        for (model, values), on in zip(whole.items(), front, strict=True)
    ]


def _interval(values: dict[str, Value]) -> tuple[float | None, float | None]:
    one = next(iter(values.values()))
    if len(values) > 1 or one.low is None or one.high is None:
        return None, None
    return 100 * one.low, 100 * one.high


def draw_pareto(found: Sequence[Point], across: str, upward: str) -> Figure:
    """Draw models as points, those on the front joined by steps and filled, the others hollow.

    Args:
        found: at least one.
        across, upward: what the axes say, with units.

    >>> drawn = draw_pareto([Point("m", 63.5, 62.35, None, None, True)], "milliseconds", "percent")
    >>> drawn.axes[0].get_xlabel()
    'milliseconds'
    """
    figure, axes = axes_of(4.6, 3.3)
    for number, point in enumerate(found):
        style = look(number)
        if point.low is not None and point.high is not None:
            reach = [[point.score - point.low], [point.high - point.score]]
            axes.errorbar(point.cost, point.score, yerr=reach, color=GREY, elinewidth=0.9, capsize=2.0)
        axes.plot(
            point.cost,
            point.score,
            marker=style.marker,
            markersize=7,
            color=style.colour,
            markerfacecolor=style.colour if point.front else "white",
            markeredgecolor="black",
            markeredgewidth=0.8,
            linestyle="none",
        )
    costs = [point.cost for point in found]
    if max(costs) > _WIDE * min(costs):
        axes.set_xscale("log")
        plain_logarithm(axes.xaxis)
    axes.margins(x=0.16, y=0.14)
    _front(axes, [point for point in found if point.front])
    axes.set_xlabel(across)
    axes.set_ylabel(upward)
    axes.set_title("filled: no other is as good and as cheap")
    axes.grid()
    _names(figure, axes, found)
    return figure


def _front(axes: Axes, found: Sequence[Point]) -> None:
    """Draw the border of what the front's models dominate, out to the frame."""
    ordered = sorted(found, key=lambda point: point.cost)
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    across = [ordered[0].cost, *(point.cost for point in ordered), right]
    upward = [bottom, *(point.score for point in ordered), ordered[-1].score]
    axes.step(across, upward, where="post", color=GREY, linewidth=1.0, linestyle="--", zorder=1)
    axes.set_xlim(left, right)
    axes.set_ylim(bottom, top)


def _names(figure: Figure, axes: Axes, found: Sequence[Point]) -> None:
    """Write each name beside its point, at the first place where it meets no point and no other name."""
    from matplotlib.transforms import Bbox

    figure.draw_without_rendering()  # the layout must be known before anything can meet
    frame = axes.get_window_extent()
    centres = [axes.transData.transform((point.cost, point.score)) for point in found]
    taken = [Bbox.from_bounds(x - 5, y - 5, 10, 10) for x, y in centres]
    for point in found:
        name = axes.annotate(point.model, (point.cost, point.score), textcoords="offset points", xytext=(0, 0))
        boxes = {}
        for place in _PLACES:
            _put(name, place)
            box = name.get_window_extent()
            inside = frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 and box.y1 <= frame.y1
            boxes[place] = (not inside, box.count_overlaps(taken), box)
        best = min(boxes, key=lambda place: boxes[place][:2])
        _put(name, best)
        taken.append(boxes[best][2])


def _put(name: Annotation, place: tuple[int, int]) -> None:
    """Set a name off by so many points, on that side of its point."""
    across, upward = place
    name.xyann = place
    name.set_horizontalalignment("left" if across > 0 else "right" if across < 0 else "center")
    name.set_verticalalignment("bottom" if upward > 0 else "top" if upward < 0 else "center")
