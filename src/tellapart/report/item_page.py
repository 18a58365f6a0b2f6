"""Item analysis as tables on the terminal, and as a page without scripts: a point is a link to its item's card."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tellapart.diagnosis.item_analysis import ItemAnalysis, ItemOutcomes, ItemRow
from tellapart.errors import plain
from tellapart.report.image_sources import Album, album
from tellapart.report.numbers import count_text, percent, thousands
from tellapart.report.page import IMAGE_BUDGET, page_environment
from tellapart.report.terminal import table

if TYPE_CHECKING:
    from rich.table import Table


#: Rows of a table on the terminal and on the page, and systems that a card names, at most.
_MOST, _MOST_ROWS, _MOST_NAMES = 10, 25, 12


def analysis_tables(analysis: ItemAnalysis) -> list[Table]:
    """Return the tables of a first look: the set, items to look at, and its tags."""
    rows = (
        (row.id, percent(row.right, 1), f"{row.discrimination:+.2f}{_bounds(row.low, row.high)}",
         *(_write(value, ".3g") for value in (row.p, row.p_fdr, row.p_holm)))
        for row in first_to_check(analysis, _MOST)
    )  # fmt: skip
    heads: tuple[str, ...] = ("item", "right", "discrimination", "p", "p (FDR)", "p (Holm)")
    title = "items that better systems rather get wrong: labels to check"
    tables = [_set_table(analysis), table(*heads, numbers_from=1, title=title, rows=rows)]
    if analysis.tags:
        rows = (
            (f"{tag.tag} = {tag.value}", thousands(tag.n), percent(tag.right, 1),
             *(_write(value, ".2f") for value in (tag.discrimination, tag.alpha, tag.with_rest)),
             _write(tag.share, ".1%"))
            for tag in analysis.tags
        )  # fmt: skip
        heads = ("tag", "n", "right", "discrimination", "alpha", "with the rest", "share of variance")
        tables.append(table(*heads, numbers_from=1, title="each tag's items", rows=rows))
    if analysis.short_forms:
        rows = (
            (thousands(form.size), percent(form.error), percent(form.random_error), f"{100 * form.ordered:.1f}%",
             f"{100 * form.random_ordered:.1f}%", _write(form.alpha, ".2f"))
            for form in analysis.short_forms
        )  # fmt: skip
        heads = ("items", "error, points", "at random", "pairs in order", "at random", "alpha")
        title = "short forms, on systems that had no part in choosing them"
        tables.append(table(*heads, numbers_from=0, title=title, rows=rows))
    return tables


def first_to_check(analysis: ItemAnalysis, most: int) -> list[ItemRow]:
    """Return the items whose labels are to be checked first: those with the lowest p, then discrimination."""
    rated = [row for row in analysis.items if row.discrimination is not None]
    return sorted(rated, key=lambda row: (row.p or 0.0, row.discrimination or 0.0, row.id))[:most]


def analysis_lines(analysis: ItemAnalysis) -> list[str]:
    """Return sentences on the analysis: suspects, groups of items, and notes."""
    limited = "" if analysis.limited_from is None else f" measured, of {thousands(analysis.limited_from)}"
    name = f"{thousands(analysis.suspects)} of {thousands(len(analysis.items))} items{limited}"
    lines = [
        f"suspects: better systems get {name} wrong more often, at a false discovery rate of 5% (Holm: "
        f"{thousands(analysis.suspects_holm)})"
    ]
    if analysis.groups:
        first = "; ".join(", ".join(map(plain, group[:_MOST])) for group in analysis.groups[:3])
        groups = thousands(len(analysis.groups))
        lines.append(f"got together beyond their difficulty: {groups} groups of items, first {first}")
    short_form = next((row for row in analysis.short_forms if row.size == len(analysis.short)), None)
    if short_form is not None:
        lines.append(
            f"the short form of {thousands(short_form.size)} items: another system's score on all items is predicted "
            f"with an error of {percent(short_form.error)} points (as many items at random: "
            f"{percent(short_form.random_error)})"
        )
    if analysis.unmeasured:
        lines.append(f"{thousands(analysis.unmeasured)} items are left out: a system has no value of them")
    return [*lines, *analysis.notes]


def _set_table(analysis: ItemAnalysis) -> Table:
    families = len(set(analysis.families))
    of = f" in {families} families" if families < len(analysis.systems) else ""
    counted = count_text(len(analysis.items), analysis.limited_from)
    title = (
        f"{plain(analysis.benchmark)}, {analysis.metric}: {counted} items, "
        f"{thousands(len(analysis.systems))} systems{of}"
    )
    alpha = "–" if analysis.alpha is None else f"{analysis.alpha:.3f}{_bounds(analysis.low, analysis.high)}"
    error = "–" if analysis.measurement_error is None else percent(analysis.measurement_error)
    facts = [
        ("items that no system gets", thousands(analysis.nobody)),
        ("items that all systems get", thousands(analysis.everybody)),
        ("reliability (alpha, KR-20) with 95% interval", alpha),
        ("spread of the systems' scores, points", percent(analysis.spread)),
        ("the part of it that other items would not repeat, points", error),
        ("standard error of a system's score over items, points", percent(analysis.sampling_error)),
        ("pairs of systems", thousands(analysis.pairs)),
        ("pairs that a paired test separates at 5%", _share(analysis.differing, analysis.pairs)),
        ("the same after Holm", _share(analysis.differing_holm, analysis.pairs)),
    ]
    for difference, needed in analysis.needed.items():
        many = "more than 10,000,000" if needed is None else thousands(needed)
        facts.append((f"items that show a difference of {100 * float(difference):g} points four times in five", many))
    rows = table("", "", numbers_from=1, title=title, rows=facts, folds=True)
    rows.show_header = False
    return rows


def _share(number: int, of: int) -> str:
    return f"{thousands(number)} ({100 * number / of:.1f}%)"


def _bounds(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f" [{low:.2f}, {high:.2f}]"


def _write(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


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
    points = [
        (number_of[row.id], _across(row.right), _upwards(row.discrimination), row)
        for row in analysis.items
        if row.discrimination is not None
    ]
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
            points=points,
            cards=cards,
            most_names=_MOST_NAMES,
            first=[(number_of[row.id], row) for row in first_to_check(analysis, _MOST_ROWS)],
            across=[(_across(share / 100), f"{share}") for share in range(0, 101, 25)],
            upwards=[(_upwards(value), f"{value:g}") for value in (-1, -0.5, 0, 0.5, 1)],
        )
    )


def _across(share: float) -> float:
    return round(50 + 570 * share, 1)  # of the picture's frame, as the template draws it


def _upwards(discrimination: float) -> float:
    return round(200 - 190 * discrimination, 1)
