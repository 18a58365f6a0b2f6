"""Views as HTML, by templates that escape everything; pages hold no inline script and no inline style."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from markupsafe import Markup, escape

from tellapart.board.links import Links
from tellapart.board.settings import BoardSettings
from tellapart.board.views.many import ComparedBenchmark, PairTest, RankedModel
from tellapart.board.views.model import ModelPage
from tellapart.board.views.ranks import RankLine
from tellapart.board.views.rows import Block, Column, Leaderboard, LeaderboardRow
from tellapart.board.views.view import Cell, View
from tellapart.report.charts import score_bar
from tellapart.report.line_chart import inline_svg
from tellapart.report.numbers import deviation, percent, thousands
from tellapart.report.templates import make_environment
from tellapart.tasks.registry import METRICS

if TYPE_CHECKING:
    from jinja2 import Environment


@dataclass(frozen=True, slots=True)
class Legend:
    """The signs of a table.

    Attributes:
        marks: `interval`, `chance`, `tier`, `ties`, `gap` (a cell without a number), `limited` (one of a part of the
            items), `imported`, `on trust`, and the kinds of models without a rank: `reference`, `human`.
        rooms: for each column, the parts after the value (`tier`, `interval`) that some of its cells have.
        common: the mark of every number that is not computed from others; empty if they differ, or have none.
    """

    marks: frozenset[str]
    rooms: tuple[tuple[str, ...], ...]
    common: str = ""


def make_legend(columns: Iterable[Sequence[Cell | None]], kinds: Iterable[str] = ()) -> Legend:
    """Collect the signs of a table.

    >>> legend = make_legend([[Cell(value=0.5, low=0.4, high=0.6, n=9), None]], ["model", "reference"])
    >>> sorted(legend.marks), legend.rooms
    (['gap', 'interval', 'reference'], (('interval',),))
    """
    marks = set(kinds) - {"model"}
    rooms: list[tuple[str, ...]] = []
    said: set[str] = set()
    for cells in columns:
        own = _marks_of(cells)
        rooms.append(tuple(name for name in ("tier", "interval") if name in own))
        marks |= own
        said |= {cell.mark for cell in cells if cell is not None and (cell.mark or cell.n)}
    return Legend(frozenset(marks), tuple(rooms), said.pop() if len(said) == 1 else "")


def _marks_of(cells: Sequence[Cell | None]) -> set[str]:
    measured = [cell for cell in cells if cell is not None]
    occurs = {
        "gap": len(measured) < len(cells),
        "interval": any(cell.low is not None and cell.high is not None for cell in measured),
        "chance": any(cell.chance is not None for cell in measured),
        "tier": any(cell.tier is not None for cell in measured),
        "limited": any(cell.limited for cell in measured),
        "ties": any(cell.ties > 0 for cell in measured),
    }
    return {name for name, does in occurs.items() if does} | {cell.mark for cell in measured if cell.mark}


#: The numbers of a table with more columns than this are not drawn.
_MOST_DRAWN = 12

_GAP, _GAP_BY = Markup('<td class="score none">–</td>'), Markup('<td class="score none by">–</td>')


def render(
    template: str, view: View, links: Links, settings: BoardSettings, *, hidden: bool = False, **more: object
) -> str:
    """Return a page."""
    page = environment().get_template(f"{template}.html.j2")
    place = {"link": links.to, "data": links.data, "static": links.is_static, "here": template}
    return page.render(view=view, board=settings, hidden=hidden, **place, **more)


class Look(NamedTuple):
    """The parts that the cells of a table leave out.

    Attributes:
        bars: each number is drawn, too.
        common: a mark that is shown once for all cells.
    """

    bars: bool = True
    common: str = ""


_WHOLE = Look()


def score(
    cell: Cell | None, unit: str = "percent", room: Sequence[str] = (), *, by: bool = False, look: Look = _WHOLE
) -> Markup:
    """Write a cell of a table; a dash for None.

    >>> score(Cell(value=0.5, n=9, mark="imported"), "points")
    Markup('<td class="score"><span class="value">+50.00</span><span class="mark-trust">imported</span></td>')
    """
    if cell is None:
        return _GAP_BY if by else _GAP
    value, low, high, is_share = cell.value, cell.low, cell.high, unit != "points"
    text = cell.percent(sign="" if is_share else "+")
    looks = f"score{' by' if by else ''}{' limited' if cell.limited else ''}"
    parts = [f'<td class="{looks}"><span class="value">{text}</span>']
    if cell.tier is not None:
        parts.append(f' <span class="tier">T{cell.tier}</span>')
    elif "tier" in room:
        parts.append(' <span class="tier none"></span>')
    if low is not None and high is not None:
        parts.append(f' <span class="interval">[{100 * low:.1f}, {100 * high:.1f}]</span>')
    elif "interval" in room:
        parts.append(' <span class="interval"></span>')
    if is_share and look.bars:
        parts.append(score_bar(value, low, high, cell.chance))
    if cell.reason:
        parts.append(f'<span class="tie">{escape(cell.reason)}</span>')
    if cell.ties:
        neutral = "" if cell.tie_neutral is None else f"{percent(cell.tie_neutral)} tie-neutral, "
        official = "" if cell.official is None else f"{percent(cell.official)} as its authors count, "
        parts.append(f'<span class="tie">{neutral}{official}{thousands(cell.ties)} tied</span>')
    marks = filter(None, (cell.mark if cell.mark != look.common else "", cell.limited))
    parts += (f'<span class="mark-trust">{escape(mark)}</span>' for mark in marks)
    return Markup(f"{''.join(parts)}</td>")  # noqa: S704  (numbers, and a mark that was escaped)


def scores(
    cells: Sequence[Cell | None],
    units: Sequence[str],
    rooms: Sequence[Sequence[str]],
    by: int | None = None,
    look: Look = _WHOLE,
) -> Markup:
    """Write a row's cells; each column has its unit and its room, and by one of them the table is sorted.

    >>> scores([None, Cell(value=0.5, n=9)], ["percent", "points"], [(), ()])
    Markup('<td class="score none">–</td><td class="score"><span class="value">+50.00</span></td>')
    """
    columns = enumerate(zip(cells, units, rooms, strict=True))
    return Markup("").join(score(*column, by=k == by, look=look) for k, column in columns)


def asset(name: str) -> bytes:
    """Return a file of `static/`. The style sheet begins with that of a run's report."""
    for path in files("tellapart.board").joinpath("static").iterdir():
        if path.name == name:
            base = files("tellapart.report").joinpath("page.css").read_bytes() if name == "board.css" else b""
            return base + path.read_bytes()
    raise FileNotFoundError(name)


@lru_cache
def environment(folder: Path | None = None) -> Environment:
    """Return the templates of another folder and of `pages/`, in this order. They escape everything.

    >>> environment().from_string("{{ name }}").render(name="<b>")
    '&lt;b&gt;'
    """
    from jinja2 import ChoiceLoader, FileSystemLoader, FunctionLoader

    loader = FunctionLoader(lambda name: files("tellapart.board").joinpath("pages", name).read_text(encoding="utf-8"))
    templates = make_environment(loader if folder is None else ChoiceLoader([FileSystemLoader(folder), loader]))
    templates.globals |= {
        "about_metric": _about_metric,
        "around": _nearby_pages,
        "decimals": _column_decimals,
        "groups_of": _groups_of,
        "deviation": deviation,
        "labels_of": _labels_of,
        "lines": inline_svg,
        "legend_of": _legend_of,
        "look_of": _look_of,
        "percent": percent,
        "references_of": _references_of,
        "score": score,
        "scores": scores,
        "shorten": _shorten_name,
        "test_of": _test_of,
        "thousands": thousands,
    }
    return templates


def _legend_of(view: Leaderboard | ModelPage) -> Legend:
    if isinstance(view, ModelPage):
        return make_legend(tuple(on.metrics.values()) for on in view.on)
    rows = (*view.rows, *view.references)
    columns = [[row.cells[k] for row in rows] for k in range(len(view.columns))]
    return make_legend(columns, (row.model.kind for row in rows))


def _look_of(legend: Legend, columns: Sequence[Column]) -> Look:
    """Return how the cells of a table look: those of many columns are numbers alone, or a browser has much to draw."""
    return Look(bars=len(columns) <= _MOST_DRAWN, common=legend.common)


def _references_of(view: Leaderboard, block: Block) -> list[LeaderboardRow]:
    """Return the people and the reference models that have a number in a block."""
    return [row for row in view.references if block.has(row)]


def _test_of(on: ComparedBenchmark, better: RankedModel, other: RankedModel) -> PairTest | None:
    """Return the test of one model less another; None for the other way round, which the table leaves out."""
    return next((test for test in on.tests if (test.b, test.a) == (better.title, other.title)), None)


class _Group(NamedTuple):
    name: str
    size: int


def _groups_of(columns: Sequence[Column]) -> list[_Group]:
    """Return the runs of neighbouring columns of one family; columns of no family are one run, too."""
    return [_Group(name, len(list(run))) for name, run in groupby(columns, lambda column: column.group)]


def _nearby_pages(page: int, pages: int) -> list[int | None]:
    """Return the pages to link to: the first, the last and those around this one; None if some are left out."""
    near = sorted({1, pages, *range(max(1, page - 2), min(pages, page + 2) + 1)})
    links: list[int | None] = []
    for number, before in zip(near, [0, *near], strict=False):
        links += [None, number] if number > before + 1 else [number]
    return links


def _column_decimals(numbers: Sequence[float]) -> int:
    """Return the decimals of a column: as many as leave four digits to its largest number."""
    largest = max((abs(number) for number in numbers if math.isfinite(number)), default=0.0)
    return max(0, 3 - math.floor(math.log10(largest))) if largest else 0


def _shorten_name(name: str, most: int) -> str:
    """Leave out a name's middle: models of one family differ at the end."""
    tail = (most - 1) * 3 // 5
    return name if len(name) <= most else f"{name[: most - 1 - tail]}…{name[-tail:]}"


def _labels_of(lines: Sequence[RankLine]) -> dict[str, list[tuple[tuple[float, float], list[str]]]]:
    """Return the points at which lines start and end, each with the names of the lines that share it."""
    starts: dict[tuple[float, float], list[str]] = {}
    labels: dict[tuple[float, float], list[str]] = {}
    for line in lines:
        for point in line.starts:
            starts.setdefault(point, []).append(line.title)
        if len(line.ends) > 1:
            labels.setdefault(line.ends[-1], []).append(line.title)
    return {"starts": list(starts.items()), "ends": list(labels.items())}


def _about_metric(name: str) -> str:
    metric = METRICS.get(name)
    return metric.title if metric else name
