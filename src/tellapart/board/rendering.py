"""Views as HTML: templates that escape everything, and pages that hold no script and no style of their own."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from tellapart.board.links import Links
from tellapart.board.settings import BoardSettings
from tellapart.board.views.view import Cell, View
from tellapart.metrics.registry import METRICS
from tellapart.report.numbers import deviation, percent, thousands
from tellapart.tasks.registry import TASK_METRICS

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["asset", "render"]


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
    page = _environment().get_template(f"{template}.html.j2")
    return page.render(
        view=view, link=links.to, data=links.data, static=links.is_static, board=settings, hidden=hidden, **more
    )


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


@lru_cache(maxsize=1)
def _environment() -> Environment:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        loader=FunctionLoader(
            lambda name: files("tellapart.board").joinpath("pages", name).read_text(encoding="utf-8")
        ),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {
        "about_metric": _about_metric,
        "deviation": deviation,
        "glyph": _glyph,
        "percent": percent,
        "thousands": thousands,
    }
    return environment


def _about_metric(name: str) -> str:
    found = METRICS.get(name) or TASK_METRICS.get(name)
    return found.title if found else name


def _glyph(cell: Cell) -> Markup:
    """Draw a cell's interval, chance and value on a bar from 0 to 100; numbers alone, so nothing needs escaping.

    In Python, for a page has thousands of them: a macro took a third of the page's time.
    """
    parts = ['<line class="track" x1="0" x2="100" y1="6" y2="6"/>']
    if cell.low is not None and cell.high is not None:
        low, high = _cents(cell.low), _cents(cell.high)
        parts.append(f'<rect class="range" x="{low:g}" y="3.5" width="{high - low:.4g}" height="5"/>')
    for name, fraction, top, end in (("chance", cell.chance, "0", "12"), ("point", cell.value, "1.5", "10.5")):
        if fraction is not None:
            at = _cents(fraction)
            parts.append(f'<line class="{name}" x1="{at:g}" x2="{at:g}" y1="{top}" y2="{end}"/>')
    head = '<svg class="bar" viewBox="-3 0 106 12" preserveAspectRatio="none" aria-hidden="true" focusable="false">'
    return Markup(f"{head}{''.join(parts)}</svg>")  # noqa: S704  (numbers)


def _cents(fraction: float) -> float:
    return round(100 * min(1.0, max(0.0, fraction)), 2)
