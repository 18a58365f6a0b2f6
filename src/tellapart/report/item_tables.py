"""Item analysis on the terminal: the set, items to look at, tags, and groups of items."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tellapart.errors import plain
from tellapart.evaluation.item_analysis import ItemAnalysis, ItemRow
from tellapart.report.numbers import count_text, percent, thousands
from tellapart.report.terminal import table

if TYPE_CHECKING:
    from rich.table import Table

#: Rows of a table, at most.
_MOST = 10


def analysis_tables(analysis: ItemAnalysis) -> list[Table]:
    """Return the tables of a first look: the set, items to look at, and its tags."""
    lowest = first_to_check(analysis, _MOST)
    tables = [_set_table(analysis), _item_table("items that better systems rather get wrong: labels to check", lowest)]
    if analysis.tags:
        tables.append(_tag_table(analysis))
    if analysis.short_forms:
        tables.append(_short_table(analysis))
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
        lines.append(
            f"got together beyond their difficulty: {thousands(len(analysis.groups))} groups of items, first {first}"
        )
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
    rows = table("", "", numbers_from=1, title=title)
    rows.show_header, rows.min_width = False, min(len(title), 80)
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
        ("pairs that a paired test tells apart at 5%", _share(analysis.differing, analysis.pairs)),
        ("the same after Holm", _share(analysis.differing_holm, analysis.pairs)),
    ]
    for difference, needed in analysis.needed.items():
        many = "more than 10,000,000" if needed is None else thousands(needed)
        facts.append((f"items that show a difference of {100 * float(difference):g} points four times in five", many))
    for name, value in facts:
        rows.add_row(name, value)
    return rows


def _item_table(title: str, items: Sequence[ItemRow]) -> Table:
    rows = table("item", "right", "discrimination", "p", "p (FDR)", "p (Holm)", numbers_from=1, title=title)
    for row in items:
        bounds = _bounds(row.low, row.high)
        p_values = (row.p, row.p_fdr, row.p_holm)
        cells = (_write(value, lambda number: f"{number:.3g}") for value in p_values)
        rows.add_row(plain(row.id), percent(row.right, 1), f"{row.discrimination:+.2f}{bounds}", *cells)
    return rows


def _tag_table(analysis: ItemAnalysis) -> Table:
    headings = ("tag", "n", "right", "discrimination", "alpha", "with the rest", "share of variance")
    rows = table(*headings, numbers_from=1, title="each tag's items")
    for row in analysis.tags:
        values = (row.discrimination, row.alpha, row.with_rest)
        cells = (_write(value, lambda number: f"{number:.2f}") for value in values)
        share = _write(row.share, lambda number: f"{100 * number:.1f}%")
        rows.add_row(plain(f"{row.tag} = {row.value}"), thousands(row.n), percent(row.right, 1), *cells, share)
    return rows


def _short_table(analysis: ItemAnalysis) -> Table:
    headings = ("items", "error, points", "at random", "pairs in order", "at random", "alpha")
    title = "short forms, on systems that had no part in choosing them"
    rows = table(*headings, numbers_from=0, title=title)
    for row in analysis.short_forms:
        shares = (f"{100 * share:.1f}%" for share in (row.ordered, row.random_ordered))
        errors = percent(row.error), percent(row.random_error)
        rows.add_row(thousands(row.size), *errors, *shares, _write(row.alpha, lambda number: f"{number:.2f}"))
    return rows


def _share(number: int, of: int) -> str:
    return f"{thousands(number)} ({100 * number / of:.1f}%)"


def _bounds(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f" [{low:.2f}, {high:.2f}]"


def _write(value: float | None, form: Callable[[float], str]) -> str:
    return "–" if value is None else form(value)
