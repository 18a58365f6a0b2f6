"""The signs of a table of scores: which of them stand in it, so that a page explains those and no others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tellapart.board.views.view import Cell

__all__ = ["Signs", "signs"]


@dataclass(frozen=True, slots=True)
class Signs:
    """What stands in a table.

    Attributes:
        marks: `interval`, `chance`, `tier`, `ties`, `gap` (a cell without a number), `imported`, `on trust`, and the
            kinds of models that are no contestants: `reference`, `human`.
        rooms: of each column, what some of its cells have beside their value, in the order in which it is written.

    >>> Signs(frozenset(), ()).rooms
    ()
    """

    marks: frozenset[str]
    rooms: tuple[tuple[str, ...], ...]


def signs(columns: Iterable[Sequence[Cell | None]], kinds: Iterable[str] = ()) -> Signs:
    """Look through a table.

    Args:
        columns: its cells, one sequence a column.
        kinds: of the models in it.

    >>> found = signs([[Cell(value=0.5, low=0.4, high=0.6, n=9), None]], ["model", "reference"])
    >>> sorted(found.marks), found.rooms
    (['gap', 'interval', 'reference'], (('interval',),))
    """
    marks = set(kinds) - {"model"}
    rooms = []
    for cells in columns:
        beside = _beside(cells)
        rooms.append(tuple(name for name in ("tier", "interval") if name in beside))
        marks |= beside
    return Signs(frozenset(marks), tuple(rooms))


def _beside(cells: Sequence[Cell | None]) -> set[str]:
    there = [cell for cell in cells if cell is not None]
    has = {
        "gap": len(there) < len(cells),
        "interval": any(cell.low is not None and cell.high is not None for cell in there),
        "chance": any(cell.chance is not None for cell in there),
        "tier": any(cell.tier is not None for cell in there),
        "ties": any(cell.ties > 0 for cell in there),
    }
    return {name for name, is_there in has.items() if is_there} | {cell.mark for cell in there if cell.mark}
