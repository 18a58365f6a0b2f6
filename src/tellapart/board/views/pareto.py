"""Performance against cost: the models that no other one beats on both.

Source: VLUE section 3.3 and Figure 2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from sqlmodel import Session, select

from tellapart.board.settings import BoardSettings
from tellapart.board.tables import Model
from tellapart.board.views.leaderboard import all_benchmarks
from tellapart.board.views.view import Link, ModelHead, Table, View
from tellapart.errors import UnknownNameError
from tellapart.stats.pareto import pareto_front

__all__ = ["COSTS", "ParetoPage", "Point", "Tick", "pareto_page"]

#: Address -> (its name, the unit on the axis, that unit in the unit of the column).
COSTS = {
    "latency": ("latency of one pair", "ms", 0.001),
    "parameters": ("parameters", "millions", 1e6),
    "training_images": ("training images", "millions", 1e6),
}

WIDTH, HEIGHT = 640.0, 360.0


class Point(View):
    """One model.

    Attributes:
        cost: in the unit of the axis.
        front: no other model is better on one count and no worse on the other.
        x, y: its place in the drawing.
        below: its label is below the point, since above it would cover another one's.
    """

    model: ModelHead
    performance: float
    cost: float
    front: bool
    x: float
    y: float
    below: bool = False


class Tick(View):
    """A mark on an axis; the title is its label."""

    at: float


class ParetoPage(View):
    """Performance against one cost.

    Attributes:
        over: `benchmark: metric` for each number in the mean that is the performance.
        points: cheapest first.
        line: the front, as SVG points.
        left_out: models without this cost, or not measured on all of `over`.
    """

    cost: str
    unit: str
    over: tuple[str, ...]
    points: tuple[Point, ...]
    line: str
    left_out: tuple[str, ...]
    choices: tuple[Link, ...]
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]
    width: float = WIDTH
    height: float = HEIGHT

    def table(self) -> Table:
        """Return the points, a row each."""
        head = ("model", "performance", f"{self.cost} ({self.unit})", "on the front")
        rows = tuple((p.model.label, p.performance, p.cost, "yes" if p.front else "no") for p in self.points)
        return Table(title=self.title, rows=(head, *rows))


def pareto_page(session: Session, settings: BoardSettings, cost: str) -> ParetoPage:
    """Draw performance, the mean over benchmarks, against a cost; reference models and people are not in it.

    Raises:
        UnknownNameError: there is no such cost.
    """
    if cost not in COSTS:
        raise UnknownNameError(f"no cost {cost[:200]!r}; there are {', '.join(COSTS)}")
    what, unit, scale = COSTS[cost]
    board = all_benchmarks(session, settings)
    over = [
        k
        for k, c in enumerate(board.columns)
        if c.link and (not settings.performance or c.title in settings.performance)
    ]
    costs = dict(session.exec(select(Model.slug, getattr(Model, cost))).all())
    measured, left_out = [], []
    for row in board.rows:
        cells = [row.cells[k] for k in over]
        if costs[row.model.slug] is None or not cells or None in cells:
            left_out.append(row.model.label)
            continue
        values = [cell.value for cell in cells if cell]
        measured.append((row.model, math.fsum(values) / len(values), round(costs[row.model.slug] / scale, 9)))
    measured.sort(key=lambda one: (one[2], -one[1], one[0].label))
    points, across, up = _draw(measured)
    front = [point for point in points if point.front]
    return ParetoPage(
        title=f"Performance against {what}",
        cost=what,
        unit=unit,
        over=tuple(f"{board.columns[k].title}: {board.columns[k].about.split(';')[0]}" for k in over),
        points=points,
        line=" ".join(f"{p.x},{p.y}" for p in front),
        left_out=tuple(left_out),
        choices=tuple(
            Link(text=text, page="pareto", args={"cost": key}, current=key == cost)
            for key, (text, _, _) in COSTS.items()
        ),
        across=across,
        up=up,
    )


def _draw(
    measured: Sequence[tuple[ModelHead, float, float]],
) -> tuple[tuple[Point, ...], tuple[Tick, ...], tuple[Tick, ...]]:
    """Place (model, performance, cost) on the drawing, and the ticks of both axes."""
    if not measured:
        return (), (), ()
    front = pareto_front([[value, -cost] for _, value, cost in measured]).tolist()
    lows, highs = _axis([value for _, value, _ in measured]), _axis([cost for _, _, cost in measured])

    def scale(value: float, axis: tuple[float, float], length: float) -> float:
        return round(length * (value - axis[0]) / (axis[1] - axis[0]), 2)

    points: list[Point] = []
    for (model, value, cost), on in zip(measured, front, strict=True):
        x, y = scale(cost, highs, WIDTH), round(HEIGHT - scale(value, lows, HEIGHT), 2)
        crowded = any(abs(p.x - x) < 90 and 0 <= y - p.y < 30 and not p.below for p in points)
        points.append(
            Point(title=model.label, model=model, performance=value, cost=cost, front=on, x=x, y=y, below=crowded)
        )
    across = tuple(Tick(title=f"{v:g}", at=scale(v, highs, WIDTH)) for v in _ticks(*highs))
    up = tuple(Tick(title=f"{100 * v:g}", at=round(HEIGHT - scale(v, lows, HEIGHT), 2)) for v in _ticks(*lows))
    return tuple(points), across, up


def _axis(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    room = 0.12 * (high - low) or 0.1 * abs(high) or 1.0
    return low - room, high + room


def _ticks(low: float, high: float) -> list[float]:
    step = 10 ** math.floor(math.log10((high - low) / 2))
    step = next(step * factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= 7)
    first = math.ceil(low / step)
    return [round(k * step, 12) for k in range(first, math.floor(high / step) + 1)]
