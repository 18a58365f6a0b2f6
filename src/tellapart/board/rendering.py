"""Views as HTML: templates that escape everything, and pages that hold no script and no style of their own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tellapart.board.cells import score, scores
from tellapart.board.legend import Signs, signs
from tellapart.board.links import Links
from tellapart.board.settings import BoardSettings
from tellapart.board.views.leaderboard import Leaderboard
from tellapart.board.views.model import ModelPage
from tellapart.board.views.ranks import RankLine
from tellapart.board.views.view import View
from tellapart.metrics.registry import METRICS
from tellapart.report.numbers import deviation, percent, thousands
from tellapart.tasks.registry import TASK_METRICS

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["asset", "environment", "render"]


def render(
    template: str, view: View, links: Links, settings: BoardSettings, *, hidden: bool = False, **more: Any
) -> str:
    """Return a page.

    Args:
        template: its file in `pages/`, without the ending.
        view: what it shows.
        links: the addresses of other pages.
        settings: the board's title.
        hidden: the board has hidden benchmarks, to which its pages link.
        more: what else the template reads.

    >>> from tellapart.board.links import ServerLinks
    >>> page = render("message", View(title="<b>"), ServerLinks(), BoardSettings(), text="nothing here")
    >>> "<h1>&lt;b&gt;</h1>" in page
    True
    """
    page = environment().get_template(f"{template}.html.j2")
    where = {"link": links.to, "data": links.data, "static": links.is_static, "here": template}
    return page.render(view=view, board=settings, hidden=hidden, **where, **more)


def asset(name: str) -> bytes:
    """Return a file of `static/`; only those that are there. The style sheet begins with that of a run's report.

    Raises:
        FileNotFoundError: there is no such file.

    >>> asset("htmx.LICENSE.txt")[:11]
    b'Zero-Clause'
    """
    for path in files("tellapart.board").joinpath("static").iterdir():
        if path.name == name:
            house = files("tellapart.report").joinpath("page.css").read_bytes() if name == "board.css" else b""
            return house + path.read_bytes()
    raise FileNotFoundError(name)


@lru_cache
def environment(folder: Path | None = None) -> Environment:
    """Return the templates of `pages/`, and before them those of another folder. They escape everything.

    >>> environment().from_string("{{ name }}").render(name="<b>")
    '&lt;b&gt;'
    """
    from jinja2 import ChoiceLoader, Environment, FileSystemLoader, FunctionLoader, StrictUndefined

    own = FunctionLoader(lambda name: files("tellapart.board").joinpath("pages", name).read_text(encoding="utf-8"))
    made = Environment(
        loader=own if folder is None else ChoiceLoader([FileSystemLoader(folder), own]),
        autoescape=True,  # everywhere, not by the file's name
        undefined=StrictUndefined,  # a name that a template misspells is an error
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals |= {
        "about_metric": _about_metric,
        "around": _around,
        "decimals": _decimals,
        "deviation": deviation,
        "labelled": _labelled,
        "percent": percent,
        "score": score,
        "scores": scores,
        "shortened": _shortened,
        "signs_of": _signs_of,
        "thousands": thousands,
    }
    return made


def _signs_of(view: Leaderboard | ModelPage) -> Signs:
    if isinstance(view, ModelPage):
        return signs(tuple(on.metrics.values()) for on in view.on)
    rows = (*view.rows, *view.references)
    columns = [[row.cells[k] for row in rows] for k in range(len(view.columns))]
    return signs(columns, (row.model.kind for row in rows))


def _around(page: int, pages: int) -> list[int | None]:
    """Pages to link to: the first, the last and those around this one; None where some are left out."""
    near = sorted({1, pages, *range(max(1, page - 2), min(pages, page + 2) + 1)})
    found: list[int | None] = []
    for one, before in zip(near, [0, *near], strict=False):
        found += [None, one] if one > before + 1 else [one]
    return found


def _decimals(numbers: Sequence[float]) -> int:
    """As many as leave four digits to the largest number; one column has the same everywhere."""
    largest = max((abs(number) for number in numbers if math.isfinite(number)), default=0.0)
    return max(0, 3 - math.floor(math.log10(largest))) if largest else 0


def _shortened(name: str, most: int) -> str:
    """A name without its middle: models of one family differ at the end."""
    tail = (most - 1) * 3 // 5
    return name if len(name) <= most else f"{name[: most - 1 - tail]}…{name[-tail:]}"


def _labelled(lines: Sequence[RankLine]) -> dict[str, list[tuple[tuple[float, float], list[str]]]]:
    """The names that stand where lines start and end: point -> those that share it."""
    starts: dict[tuple[float, float], list[str]] = {}
    ends: dict[tuple[float, float], list[str]] = {}
    for line in lines:
        for point in line.starts:
            starts.setdefault(point, []).append(line.title)
        if len(line.ends) > 1:
            ends.setdefault(line.ends[-1], []).append(line.title)
    return {"starts": list(starts.items()), "ends": list(ends.items())}


def _about_metric(name: str) -> str:
    found = METRICS.get(name) or TASK_METRICS.get(name)
    return found.title if found else name
