"""The legend of a table of scores: the signs that occur in it, so that a page explains those and no others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tellapart.board.views.view import Cell

__all__ = ["Legend", "make_legend"]


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

    Args:
        columns: its cells, one sequence a column.
        kinds: of the models in it.

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
