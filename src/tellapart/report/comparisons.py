"""Comparisons on the terminal: two models side by side, or many, each with each or with a baseline."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

from tellapart.errors import plain
from tellapart.evaluation.compare import (
    ALPHA,
    Comparison,
    MetricComparison,
    MetricTiers,
    ModelsComparison,
    Verdict,
    count_items,
    count_needed,
)
from tellapart.report.numbers import count_text, percent, points, thousands
from tellapart.report.terminal import add_row, print_lines, print_tables, table
from tellapart.tasks.registry import main_metric

#: Names of the columns of every comparison, after those that name a row's subject.
_COLUMNS = ("a", "b", "b - a", "only a", "only b", "p", "p (Holm)", "detectable")

#: Letters of a first heading beyond which a table is too wide for a terminal.
_LONGEST_HEAD = 24


def print_comparison(comparison: Comparison, left_out: Sequence[str] = ()) -> None:
    """Print two models side by side."""
    print_lines(f"a = {plain(comparison.a)}, b = {plain(comparison.b)}: percent, 95% intervals")
    for benchmark in _list_benchmarks([comparison]):
        rows = [row for row in comparison.rows if row.benchmark == benchmark]
        if comparison.by is None:
            even = len({row.n for row in rows}) == 1
            title = f"{plain(benchmark)}{f' ({count_items(rows[0])})' if even else ''}"
            fits = len(title) <= _LONGEST_HEAD  # else it would take the numbers' room
            labelled = [([row.metric, *([] if even else [thousands(row.n)])], row) for row in rows]
            heads = [title if fits else "metric", *([] if even else ["n"])]
            _print_rows(heads, labelled, title=None if fits else title)
            continue
        for metric in dict.fromkeys(row.metric for row in rows):
            labelled = [
                (["all items", count_text(row.n, row.limited_from)], row)
                if row.subset is None
                else ([row.subset, thousands(row.n)], row)
                for row in rows
                if row.metric == metric
            ]
            _print_rows([comparison.by, "items"], labelled, title=f"{plain(benchmark)}: {metric}")
    needed = _list_needed(comparison.rows) if comparison.by is None else []
    print_lines("", *_write_notes([comparison], left_out, needed))
    _print_verdicts(comparison.verdicts)


def print_models(comparison: ModelsComparison, left_out: Sequence[str] = ()) -> None:
    """Print many models side by side: their tiers, and a row a pair."""
    pairs, baseline = comparison.pairs, comparison.baseline
    number_of = {label: str(number) for number, label in enumerate(comparison.models, start=1)}
    against = "" if baseline is None else f", each (b) with {plain(baseline)} (a)"
    print_lines(f"{len(comparison.models)} models{against}: percent, 95% intervals")
    for benchmark in _list_benchmarks(pairs):
        if rankings := [ranking for ranking in comparison.tiers if ranking.benchmark == benchmark]:
            _print_tiers(benchmark, rankings, number_of)
        rows = [(pair, row) for pair in pairs for row in pair.rows if row.benchmark == benchmark]
        for metric, subset in dict.fromkeys((row.metric, row.subset) for _, row in rows):
            labelled = [(pair, row) for pair, row in rows if (row.metric, row.subset) == (metric, subset)]
            part = "" if subset is None else f", {plain(f'{pairs[0].by} = {subset}')}"
            title = f"{plain(benchmark)}: {metric}{part} ({count_items(labelled[0][1])})"
            if baseline is None:
                named = [([f"{number_of[pair.b]} - {number_of[pair.a]}"], row) for pair, row in labelled]
            else:
                named = [([pair.b], row) for pair, row in labelled]
            _print_rows(["pair" if baseline is None else "model"], named, title=title)
    tiers = ["tier: no model differs from its best, and all of later tiers do; Holm over the pairs of a metric, 5%"]
    print_lines("", *_write_notes(pairs, left_out), *(tiers if comparison.tiers else []))
    _print_verdicts(comparison.verdicts)


def _print_verdicts(verdicts: Sequence[Verdict]) -> None:
    if not verdicts:
        return
    several = len({verdict.benchmark for verdict in verdicts}) > 1
    sentences = [plain(f"{f'{verdict.benchmark}: ' if several else ''}{verdict.sentence}") for verdict in verdicts]
    print_lines("", *(line for sentence in sentences for line in wrap(sentence, 120, break_on_hyphens=False)))


def _list_benchmarks(pairs: Sequence[Comparison]) -> list[str]:
    return list(dict.fromkeys(row.benchmark for pair in pairs for row in pair.rows))


def _print_tiers(benchmark: str, rankings: Sequence[MetricTiers], number_of: dict[str, str]) -> None:
    """Print models from best to worst by the main metric, with their value and tier by each."""
    cells = {
        ranking.metric: {
            name: (percent(mean), str(tier.rank))
            for tier in ranking.tiers
            for name, mean in zip(tier.names, tier.means, strict=True)
        }
        for ranking in rankings
    }
    rows = (
        (number_of[name], name, *(cell for of_metric in cells.values() for cell in of_metric[name]))
        for name in cells[main_metric(list(cells))]
    )
    heads = ("", "model", *(heading for metric in cells for heading in (metric, "tier")))
    sizes = {count_items(ranking): ranking.metric for ranking in rankings}
    parts = [size if len(sizes) == 1 else f"{size} ({metric})" for size, metric in sizes.items()]
    print_lines("", f"{plain(benchmark)}: tiers of {', '.join(parts)}")
    print_tables(table(*heads, numbers_from=2, rows=rows), gap=False)


def _print_rows(
    heads: Sequence[str], rows: Sequence[tuple[Sequence[str], MetricComparison]], *, title: str | None = None
) -> None:
    """Print rows: the subject of each, the number of its items if that differs; then its numbers."""
    lines = table(*heads, *_COLUMNS, numbers_from=1)
    for label, row in rows:
        numbers = (
            percent(row.a),
            percent(row.b),
            points(row.difference, row.low, row.high, row.reason),
            thousands(row.only_a),
            thousands(row.only_b),
            row.p_text,
            row.p_holm_text,
            "-" if row.detectable is None else percent(row.detectable, 1),
        )
        add_row(lines, [*label, *numbers])
    print_lines("", *([] if title is None else [title]))
    print_tables(lines, gap=False)


def _list_needed(rows: Sequence[MetricComparison]) -> list[str]:
    """Return a line with the items that would show each difference that is not significant, if there is one."""
    several = len({row.benchmark for row in rows}) > 1
    needed = [
        f"{f'{row.benchmark} ' if several else ''}{row.metric} {count_needed(row, ALPHA / len(rows))}"
        for row in rows
        if row.p_holm > ALPHA and row.only_a != row.only_b and row.detectable is not None
    ]
    return wrap(f"items needed to show these as often by p (Holm): {', '.join(needed)}", 120) if needed else []


def _write_notes(pairs: Sequence[Comparison], left_out: Sequence[str], needed: Sequence[str] = ()) -> list[str]:
    notes = []
    rows = [row for pair in pairs for row in pair.rows]
    if rows:
        tests = " or ".join(dict.fromkeys(row.test for row in rows))
        notes += [
            f"only a, only b: items that one of the two alone got right; p: {tests}, two-sided; Holm over "
            f"{thousands(len(rows))} tests",
            "detectable: the smallest difference, in points, that this many items would show four times in five by p, "
            "not p (Holm)",
            *map(plain, needed),
        ]
    unknown = [row.only_a + row.only_b for row in rows if row.detectable is None]
    reasons = (
        "the two agree on every item",
        "so few items would show none, or the metric has no right and wrong items",
    )
    if unknown:
        stated = [reason for reason, fits in zip(reasons, (0 in unknown, any(unknown)), strict=True) if fits]
        notes.append(f"detectable -: {'; or '.join(stated)}")
    flips = max((row.flips for row in rows if row.at_floor and row.flips), default=0)
    if flips:
        notes.append(f"<=: none of {thousands(flips)} sign flips was as extreme")
    notes += [
        f"computed in different precisions: {plain(pair.a)} in {pair.dtypes[0]}, {plain(pair.b)} in {pair.dtypes[1]}"
        for pair in pairs
        if pair.dtypes
    ]
    trusted, untagged, unshared = (
        [name for pair in pairs for name in getattr(pair, field)] for field in ("on_trust", "untagged", "unshared")
    )
    for note, names in (
        ("scores made elsewhere, so that only the ids are known to be the same", trusted),
        (f"not compared, without the tag {plain(pairs[0].by or '')}", untagged),
        ("not compared, measured in one run only", unshared),
        ("not compared, reference models beside a run (name their folders to compare them)", left_out),
    ):
        if names:
            notes.append(f"{note}: {', '.join(map(plain, dict.fromkeys(names)))}")
    return notes
