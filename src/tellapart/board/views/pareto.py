"""Performance against cost: the models that no other one beats on both.

Source: VLUE section 3.3 and Figure 2.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from sqlmodel import Session, select

from tellapart.board.settings import BoardSettings
from tellapart.board.tables import Model
from tellapart.board.views.overview import all_benchmarks
from tellapart.board.views.rows import Leaderboard
from tellapart.board.views.view import Link, ModelHead, Table, View
from tellapart.errors import UnknownNameError
from tellapart.stats.pareto import pareto_front

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


class OverChoice(View):
    """A benchmark over which performance can be taken; the title is its name.

    Attributes:
        models: of those with this cost, how many have a number there.
        chosen: it is in the mean.
    """

    slug: str
    models: int
    chosen: bool


class ParetoPage(View):
    """Performance against one cost.

    Attributes:
        cost, key: in words, and in addresses.
        over: `benchmark: metric` for each number in the mean that is the performance.
        benchmarks: all that two models or more have, and which of them are in the mean.
        alone: links to the same drawing over each of them alone.
        points: cheapest first.
        line: the front, as SVG points.
        left_out: models without this cost, or not measured on all of `over`.
    """

    cost: str
    key: str
    unit: str
    over: tuple[str, ...]
    benchmarks: tuple[OverChoice, ...]
    alone: tuple[Link, ...]
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


def pareto_page(session: Session, settings: BoardSettings, cost: str, over: str = "") -> ParetoPage:
    """Draw performance, the mean over benchmarks, against a cost; reference models and people are not in it."""
    if cost not in COSTS:
        raise UnknownNameError(f"no cost {cost[:200]!r}; there are {', '.join(COSTS)}")
    title, unit, scale = COSTS[cost]
    board = all_benchmarks(session, settings)
    slugs = {str(column.link.args["slug"]): k for k, column in enumerate(board.columns) if column.link}
    costs = {
        slug: cost_of_model
        for slug, cost_of_model in session.exec(select(Model.slug, getattr(Model, cost))).all()
        if cost_of_model is not None
    }
    have = [
        {k for k in slugs.values() if (cell := row.cells[k]) and not cell.limited}
        for row in board.rows
        if row.model.slug in costs
    ]
    columns = _read_choice(over, slugs) if over else _named_columns(settings, board) or choose_benchmarks(have)
    measured = _measure_models(
        board, columns, {slug: round(cost_of_model / scale, 9) for slug, cost_of_model in costs.items()}
    )
    drawn = {model.slug for model, _, _ in measured}
    points, across, up = _draw_points(measured)
    front = [point for point in points if point.front]
    counts = {k: sum(k in benchmark for benchmark in have) for k in slugs.values()}
    offered = {slug: k for slug, k in slugs.items() if counts[k] > 1 or k in columns}
    page, args = ("pareto_over", {"over": over}) if over else ("pareto", {})
    return ParetoPage(
        title=f"Performance against {title}",
        cost=title,
        key=cost,
        unit=unit,
        over=tuple(f"{board.columns[k].title}: {board.columns[k].about.split(';')[0]}" for k in columns),
        benchmarks=tuple(
            OverChoice(title=board.columns[k].title, slug=slug, models=counts[k], chosen=k in columns)
            for slug, k in offered.items()
        ),
        alone=tuple(
            Link(
                text=board.columns[k].title, page="pareto_over", args={"cost": cost, "over": slug}, current=over == slug
            )
            for slug, k in offered.items()
        ),
        points=points,
        line=" ".join(f"{p.x},{p.y}" for p in front),
        left_out=tuple(row.model.label for row in board.rows if row.model.slug not in drawn),
        choices=tuple(
            Link(text=text, page=page, args={"cost": key, **args}, current=key == cost)
            for key, (text, _, _) in COSTS.items()
        ),
        across=across,
        up=up,
    )


def _measure_models(
    board: Leaderboard, chosen: Sequence[int], costs: Mapping[str, float]
) -> list[tuple[ModelHead, float, float]]:
    """Return (model, performance, cost) of the models that have a cost and a number in every column, cheapest first."""
    measured = []
    for row in board.rows:
        values = [cell.value for k in chosen if (cell := row.cells[k]) and not cell.limited]
        if row.model.slug in costs and values and len(values) == len(chosen):
            measured.append((row.model, math.fsum(values) / len(values), costs[row.model.slug]))
    return sorted(measured, key=lambda one: (one[2], -one[1], one[0].label))


def choose_benchmarks(have: Sequence[Collection[int]]) -> list[int]:
    """Return the columns over which a mean covers most: models that have all of them, times columns, is largest.

    Columns are added one by one, each time the one that most of the models left have; of equal products the one of more
    models counts.

    >>> choose_benchmarks([{0, 1}, {0}, {0}, {2}]), choose_benchmarks([{0, 1}] * 3 + [{0}] * 2)
    ([0], [0, 1])
    """
    benchmarks: list[int] = []
    best: tuple[int, int, list[int]] = (0, 0, [])
    left, columns = list(have), sorted(set().union(*have))
    while columns and left:
        add = max(columns, key=lambda k: (sum(k in candidate for candidate in left), -k))
        columns.remove(add)
        benchmarks.append(add)
        left = [candidate for candidate in left if add in candidate]
        area = len(left) * len(benchmarks)
        if (area, len(left)) > best[:2]:
            best = (area, len(left), list(benchmarks))
    return sorted(best[2])


def _read_choice(over: str, slugs: Mapping[str, int]) -> list[int]:
    asked = list(dict.fromkeys(over.split("+")))
    if unknown := [slug for slug in asked if slug not in slugs]:
        raise UnknownNameError(f"no benchmark {unknown[0][:200]!r} with a number of a ranked model")
    return sorted(slugs[slug] for slug in asked)


def _named_columns(settings: BoardSettings, board: Leaderboard) -> list[int]:
    """Return the columns that the board file names."""
    return [k for k, column in enumerate(board.columns) if column.link and column.title in settings.performance]


def _draw_points(
    measured: Sequence[tuple[ModelHead, float, float]],
) -> tuple[tuple[Point, ...], tuple[Tick, ...], tuple[Tick, ...]]:
    """Place (model, performance, cost) on the drawing, and the ticks of both axes."""
    if not measured:
        return (), (), ()
    front = pareto_front([[value, -cost] for _, value, cost in measured]).tolist()
    lows, highs = _axis_limits([value for _, value, _ in measured]), _axis_limits([cost for _, _, cost in measured])

    def scale(value: float, axis: tuple[float, float], length: float) -> float:
        return round(length * (value - axis[0]) / (axis[1] - axis[0]), 2)

    points: list[Point] = []
    for (model, value, cost), on in zip(measured, front, strict=True):
        x, y = scale(cost, highs, WIDTH), round(HEIGHT - scale(value, lows, HEIGHT), 2)
        crowded = any(abs(p.x - x) < 90 and 0 <= y - p.y < 30 and not p.below for p in points)
        points.append(
            Point(title=model.label, model=model, performance=value, cost=cost, front=on, x=x, y=y, below=crowded)
        )
    across = tuple(Tick(title=f"{v:g}", at=scale(v, highs, WIDTH)) for v in _axis_ticks(*highs))
    up = tuple(Tick(title=f"{100 * v:g}", at=round(HEIGHT - scale(v, lows, HEIGHT), 2)) for v in _axis_ticks(*lows))
    return tuple(points), across, up


def _axis_limits(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    room = 0.12 * (high - low) or 0.1 * abs(high) or 1.0
    return low - room, high + room


def _axis_ticks(low: float, high: float) -> list[float]:
    step = 10 ** math.floor(math.log10((high - low) / 2))
    step = next(step * factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= 7)
    first = math.ceil(low / step)
    return [round(k * step, 12) for k in range(first, math.floor(high / step) + 1)]
