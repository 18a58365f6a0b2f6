"""The page of items: a picture of difficulty by discrimination, and each item with its images and captions.

It needs no JavaScript: a point is a link to its item's card, which is shown when it is the link's target.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tellapart.evaluation.item_analysis import ItemAnalysis, ItemOutcomes, ItemRow
from tellapart.report.item_tables import analysis_lines, first_to_check
from tellapart.report.page import IMAGE_BUDGET, page_environment
from tellapart.report.pictures import Album, album

#: Systems that a card names, and rows of the table.
_MOST_NAMES = 12
_MOST_ROWS = 25

# The picture's frame: left, right, top and bottom.
_FRAME = (50.0, 620.0, 10.0, 390.0)


@dataclass(frozen=True, slots=True)
class _Mark:
    """A line of the grid."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class _Point:
    """An item with a discrimination."""

    number: int
    x: float
    y: float
    row: ItemRow


@dataclass(frozen=True, slots=True)
class _Card:
    """An item as it is shown: its data URIs and captions, and systems that get it."""

    row: ItemRow
    pictures: tuple[str, ...]
    texts: tuple[str, ...]
    right: tuple[str, ...]
    more: int


def make_item_page(
    analysis: ItemAnalysis,
    outcomes: ItemOutcomes,
    read_image: Callable[[str], bytes] | None = None,
    *,
    budget: int = IMAGE_BUDGET,
) -> str:
    """Return the page of a benchmark's items as one HTML file."""
    order = sorted(
        range(len(analysis.items)), key=lambda k: (analysis.items[k].p is None, analysis.items[k].p or 0.0, k)
    )
    pictures = Album((), {}, 0, ())
    if read_image is not None:
        pictures = album([outcomes.items[k].images for k in order], read_image, budget)
    points = [
        _Point(number, _across(row.right), _upwards(row.discrimination), row)
        for number, row in enumerate(analysis.items)
        if row.discrimination is not None
    ]
    number_of = {row.id: number for number, row in enumerate(analysis.items)}
    return (
        page_environment()
        .get_template("items.html.j2")
        .render(
            analysis=analysis,
            lines=analysis_lines(analysis),
            points=points,
            unknown=len(analysis.items) - len(points),
            cards=[_make_card(analysis, outcomes, number, pictures) for number in range(len(analysis.items))],
            first=[(number_of[row.id], row) for row in first_to_check(analysis, _MOST_ROWS)],
            across=[_Mark(_across(share / 100), f"{share}") for share in range(0, 101, 25)],
            upwards=[_Mark(_upwards(value), f"{value:g}") for value in (-1, -0.5, 0, 0.5, 1)],
        )
    )


def _make_card(analysis: ItemAnalysis, outcomes: ItemOutcomes, number: int, pictures: Album) -> _Card:
    item = outcomes.items[number]
    right: Sequence[str] = [
        name for name, value in zip(outcomes.systems, outcomes.values[number], strict=True) if value == 1
    ]
    uris = [pictures.uris[pictures.index[image]] for image in item.images if image in pictures.index]
    listed = tuple(right[:_MOST_NAMES])
    return _Card(analysis.items[number], tuple(uris), item.texts, listed, len(right) - len(listed))


def _across(share: float) -> float:
    left, right, _, _ = _FRAME
    return round(left + (right - left) * share, 1)


def _upwards(discrimination: float) -> float:
    _, _, top, bottom = _FRAME
    return round((top + bottom) / 2 - (bottom - top) / 2 * discrimination, 1)
