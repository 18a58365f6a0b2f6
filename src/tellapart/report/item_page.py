"""Item analysis as tables on the terminal, and as a page without scripts: a point is a link to its item's card."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tellapart.diagnosis.item_analysis import ItemAnalysis, ItemOutcomes, ItemRow
from tellapart.errors import plain
from tellapart.report.image_sources import Album, album
from tellapart.report.page import IMAGE_BUDGET, page_environment
from tellapart.report.templates import write_lines
from tellapart.report.terminal import tables_of

if TYPE_CHECKING:
    from rich.table import Table


#: Rows of a table on the terminal and on the page, and systems that a card names, at most.
_MOST, _MOST_ROWS, _MOST_NAMES = 10, 25, 12


def analysis_tables(analysis: ItemAnalysis) -> list[Table]:
    """Return the tables of a first look: the set, items to look at, and its tags."""
    return tables_of("items", analysis=analysis, first=first_to_check(analysis, _MOST))


def first_to_check(analysis: ItemAnalysis, most: int) -> list[ItemRow]:
    """Return the items whose labels are to be checked first: those with the lowest p, then discrimination."""
    rated = [row for row in analysis.items if row.discrimination is not None]
    return sorted(rated, key=lambda row: (row.p or 0.0, row.discrimination or 0.0, row.id))[:most]


def analysis_lines(analysis: ItemAnalysis) -> list[str]:
    """Return sentences on the analysis: suspects, groups of items, and notes."""
    return [*map(plain, write_lines("suspects", analysis=analysis))]


def make_item_page(
    analysis: ItemAnalysis,
    outcomes: ItemOutcomes,
    read_image: Callable[[str], bytes] | None = None,
    *,
    budget: int = IMAGE_BUDGET,
) -> str:
    """Return the page of a benchmark's items as one HTML file."""
    rows = analysis.items
    order = sorted(range(len(rows)), key=lambda k: (rows[k].p is None, rows[k].p or 0.0, k))
    pictures = album([outcomes.items[k].images for k in order], read_image, budget) if read_image else Album()
    number_of = {row.id: number for number, row in enumerate(analysis.items)}
    cards = [
        {
            "row": row,
            "pictures": [pictures.uris[pictures.index[image]] for image in item.images if image in pictures.index],
            "texts": item.texts,
            "right": [name for name, value in zip(outcomes.systems, values, strict=True) if value == 1],
        }
        for row, item, values in zip(analysis.items, outcomes.items, outcomes.values, strict=True)
    ]
    return (
        page_environment()
        .get_template("items.html.j2")
        .render(
            analysis=analysis,
            lines=analysis_lines(analysis),
            cards=cards,
            most_names=_MOST_NAMES,
            first=[(number_of[row.id], row) for row in first_to_check(analysis, _MOST_ROWS)],
            points=[(number_of[row.id], row) for row in rows if row.discrimination is not None],
        )
    )
