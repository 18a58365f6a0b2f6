"""Tables of results on the terminal, readable in 100 columns and when piped into a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tellapart.errors import RunError, plain
from tellapart.records.result import BenchmarkResult, Result, Value, is_imported
from tellapart.report.numbers import (
    deviation,
    is_deviation,
    is_even,
    items_text,
    percent,
    score,
    thousands,
    tie_text,
)
from tellapart.report.sections import shared_headline, worth_of
from tellapart.report.terminal import table
from tellapart.tasks.registry import headline

if TYPE_CHECKING:
    from rich.table import Table

#: Metrics beyond which a table is too wide for a terminal.
_MOST_COLUMNS = 4

#: Values of a tag beyond which a terminal is the wrong place to list them.
_MOST_ROWS = 12


def result_tables(results: Sequence[Result], benchmark: str) -> list[Table]:
    """Return the first look, in several tables of a few metrics each if one would be too wide."""
    names = shared_headline([find_records(results, benchmark)[0][1]])
    if len(names) <= _MOST_COLUMNS:
        return [result_table(results, benchmark)]
    parts = (names[start : start + 3] for start in range(0, len(names), 3))
    return [result_table(results, benchmark, names=part) for part in parts]


def result_table(results: Sequence[Result], benchmark: str, *, names: Sequence[str] | None = None) -> Table:
    """Return the first look: models as rows, the headline metrics as columns, chance as the last row.

    A model in which a tie touched a headline metric gets a second row: the tie-neutral values; and a third, the
    benchmark's number, if its authors count a tie otherwise.
    """
    records = find_records(results, benchmark)
    first = records[0][1]
    names = shared_headline([first]) if names is None else names
    rows = make_table(write_title(benchmark, records, names), ["model", *names])
    for model, record in records:
        values = [record.metrics.get(name) for name in names]
        add_row(rows, [model, *("" if value is None else score(value) for value in values)])
        if any(value is not None and value.ties for value in values):
            add_row(rows, ["  ties broken at random", *(tie_text(value) for value in values)], style="dim")
            official = [None if value is None else value.official for value in values]
            if any(number is not None for number in official):
                cells = ("" if number is None else percent(number) for number in official)
                add_row(rows, ["  ties as its authors count", *cells], style="dim")
    rows.add_section()
    add_row(rows, ["chance", *(chance_cell(first.metrics.get(name)) for name in names)], style="dim")
    if counts_differ(first, names):
        add_row(rows, ["n", *(thousands(first.metrics[name].n) for name in names)], style="dim")
    return rows


def equivariance_table(results: Sequence[Result], benchmark: str) -> Table | None:
    """Return mean, spread and mean size of the equivariance deviations; None if the shape has none.

    The numbers carry each model's scale: models compare only if their scores share one.
    """
    records = find_records(results, benchmark)
    names = [name for name, value in records[0][1].metrics.items() if is_deviation(value)]
    if not names:
        return None
    title = "equivariance deviations, each model in its own unit: 0 is best"
    rows = make_table(title, ["model", "metric", "mean", "sd", "mean |.|", "n"])
    for model, record in records:
        for row, name in enumerate(names):
            value = record.metrics[name]
            numbers = (deviation(number) for number in (value.value, value.sd, value.mean_absolute))
            add_row(rows, ["" if row else model, name, *numbers, thousands(value.n)])
    return rows


def breakdown_table(result: Result, benchmark: str) -> Table | None:
    """Return one model's headline metrics by each tag's values, each tag's macro mean labelled; None without tags.

    A tag with more than a dozen values is too long for a first look: its macro mean alone is shown. If each value has
    as many items, macro and micro are one number, and so one row.
    """
    model, record = find_records([result], benchmark)[0]
    if not record.by:
        return None
    names = headline(record.metrics)
    even = [tag for tag in record.by if is_even(record, tag)]
    title = f"{write_title(benchmark, [(model, record)], names)}: {plain(model)} by tag"
    rows = make_table(title, ["tag", "n", *names])
    for tag, groups in record.by.items():
        for value, group in groups.items() if len(groups) <= _MOST_ROWS else ():
            _add_group(rows, f"{tag} = {value}", group.metrics, names)
        if (macro := record.macro.get(tag)) and (tag not in even or len(groups) > _MOST_ROWS):
            _add_group(rows, f"macro: mean of {tag}'s {len(groups)} values", macro.metrics, names, style="dim")
        rows.add_section()
    # The record of another tool describes its average over all parts.
    average = next(iter(record.metrics.values())).average if is_imported(record) else "micro: all items"
    same = f" (= macro of {', '.join(even)})" if even else ""
    _add_group(rows, f"{average}{same}", record.metrics, names, style="dim")
    return rows


def find_records(results: Sequence[Result], benchmark: str) -> list[tuple[str, BenchmarkResult]]:
    """Return the models' names and records of a benchmark."""
    measured = [result for result in results if benchmark in result.benchmarks]
    if not measured:
        measured_names = sorted({name for result in results for name in result.benchmarks})
        listed = f"there is {', '.join(map(plain, measured_names))}" if measured_names else "there are none"
        raise RunError(f"no result has benchmark {benchmark!r}; {listed}")
    return [(result.model.name, result.benchmarks[benchmark]) for result in measured]


def counts_differ(record: BenchmarkResult, names: Sequence[str]) -> bool:
    """Return whether a metric is a mean of groups or the like, so that a column is not of all the record's items."""
    largest = max((value.n for value in record.metrics.values()), default=0)
    return any(record.metrics[name].n != largest for name in names if name in record.metrics)


def write_title(benchmark: str, records: Sequence[tuple[str, BenchmarkResult]], names: Sequence[str]) -> str:
    """Write a table's title: the benchmark, its number of items and clusters, and the level of the intervals."""
    record = records[0][1]
    value = next(iter(record.metrics.values()), None)
    level = "" if value is None else f", {value.level:.0%} intervals"
    if is_imported(record):
        return f"{plain(benchmark)}: percent, measured by another tool"
    effective = worth_of(records)
    size = items_text(record)
    if value is not None and 0 < value.clusters < value.n:
        size += f" in {thousands(value.clusters)} cluster{'' if value.clusters == 1 else 's'}"
    of = f"{size}, percent of n" if counts_differ(record, names) else f"percent of {size}"
    return f"{plain(benchmark)}: {of}{f', {effective}' if effective else ''}{level}"


def make_table(title: str, headings: Sequence[str]) -> Table:
    """Make an empty table of numbers under a title; the first column is folded if the table is too wide."""
    from rich.text import Text

    new = table(*headings, numbers_from=1)
    new.title, new.min_width = Text(title, style="bold"), min(len(title), 80)  # a narrow table would break its title
    new.columns[0].no_wrap = False
    for column in new.columns:
        column.overflow = "fold"
    return new


def add_row(rows: Table, cells: Sequence[str], style: str = "") -> None:
    """Add a row of cells as they are: a model's or tag's name is not read as markup."""
    from rich.text import Text

    rows.add_row(*(Text(plain(cell)) for cell in cells), style=style)


def _add_group(rows: Table, label: str, metrics: Mapping[str, Value], names: Sequence[str], *, style: str = "") -> None:
    count = max((value.n for value in metrics.values()), default=0)
    cells = ("" if name not in metrics else score(metrics[name]) for name in names)
    add_row(rows, [label, thousands(count) if count else "–", *cells], style=style)
    fewer = [f"of {thousands(v.n)}" if (v := metrics.get(name)) and v.n != count else "" for name in names]
    if any(fewer):
        add_row(rows, ["", "", *fewer], style="dim")


def chance_cell(value: Value | None) -> str:
    """Write a number's chance in percent; a dash if it is not defined."""
    return "–" if value is None or value.chance is None else percent(value.chance)
