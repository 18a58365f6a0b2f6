"""One cell of a table of scores as HTML: value, tier, interval, and both drawn on a bar.

In Python, for a page has thousands of them: a macro took a third of the page's time. All but the mark are numbers, so
nothing else needs escaping.
"""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup, escape

from tellapart.board.views.view import Cell
from tellapart.report.numbers import percent, thousands

__all__ = ["score", "scores"]

_BAR = (
    '<svg class="bar" viewBox="-3 0 106 12" preserveAspectRatio="none" aria-hidden="true" focusable="false">'
    '<line class="track" x1="0" x2="100" y1="6" y2="6"/>'
)
_GAP = Markup('<td class="score none">–</td>')


def score(cell: Cell | None, unit: str = "percent", room: Sequence[str] = ()) -> Markup:
    """Write a cell of a table; a dash for None.

    Args:
        cell: what stands in it.
        unit: `percent`, or `points` for a difference, which is not drawn.
        room: what other cells of the column have beside their value; it keeps its room, so that values stand under
            each other.

    >>> score(Cell(value=0.5, n=9, mark="imported"), "points")
    Markup('<td class="score"><span class="value">+50.00</span><span class="mark-trust">imported</span></td>')
    """
    if cell is None:
        return _GAP
    value, low, high, drawn = cell.value, cell.low, cell.high, unit != "points"
    parts = [f'<td class="score"><span class="value">{100 * value:{".2f" if drawn else "+.2f"}}</span>']
    if cell.tier is not None:
        parts.append(f' <span class="tier">T{cell.tier}</span>')
    elif "tier" in room:
        parts.append(' <span class="tier none"></span>')
    if low is not None and high is not None:
        parts.append(f' <span class="interval">[{100 * low:.1f}, {100 * high:.1f}]</span>')
    elif "interval" in room:
        parts.append(' <span class="interval"></span>')
    if drawn:
        parts.append(_bar(value, low, high, cell.chance))
    if cell.ties:
        neutral = "" if cell.tie_neutral is None else f"{percent(cell.tie_neutral)} tie-neutral, "
        parts.append(f'<span class="tie">{neutral}{thousands(cell.ties)} tied</span>')
    if cell.mark:
        parts.append(f'<span class="mark-trust">{escape(cell.mark)}</span>')
    return Markup(f"{''.join(parts)}</td>")  # noqa: S704  (numbers, and a mark that was escaped)


def scores(cells: Sequence[Cell | None], units: Sequence[str], rooms: Sequence[Sequence[str]]) -> Markup:
    """Write a row's cells; each column has its unit and its room.

    >>> scores([None, Cell(value=0.5, n=9)], ["percent", "points"], [(), ()])
    Markup('<td class="score none">–</td><td class="score"><span class="value">+50.00</span></td>')
    """
    return Markup("").join(map(score, cells, units, rooms))


def _bar(value: float, low: float | None, high: float | None, chance: float | None) -> str:
    """Draw a cell's interval, chance and value on a bar from 0 to 100."""
    bar = _BAR
    if low is not None and high is not None:
        start, end = _cents(low), _cents(high)
        bar += f'<rect class="range" x="{start:g}" y="3.5" width="{end - start:.4g}" height="5"/>'
    if chance is not None:
        at = f"{_cents(chance):g}"
        bar += f'<line class="chance" x1="{at}" x2="{at}" y1="0" y2="12"/>'
    at = f"{_cents(value):g}"
    return f'{bar}<line class="point" x1="{at}" x2="{at}" y1="1.5" y2="10.5"/></svg>'


def _cents(fraction: float) -> float:
    return round(100 * fraction, 2) if 0.0 <= fraction <= 1.0 else 0.0 if fraction < 0 else 100.0
