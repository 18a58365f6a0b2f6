"""Tables of results on the terminal, readable in 100 columns and when piped into a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from tellapart.errors import RunError, plain
from tellapart.evaluation.compare import count_nouns
from tellapart.evaluation.systems import label_runs
from tellapart.records.result import BenchmarkResult, Result, Value, is_imported
from tellapart.report.conclusions import MOST_SINGLE
from tellapart.report.numbers import (
    count_text,
    describe_ties,
    deviation,
    is_deviation,
    is_even,
    items_text,
    percent,
    score,
    thousands,
    tie_text,
)
from tellapart.report.plots.heatmap import first_breakdown, heat_map
from tellapart.report.sections import shared_headline, worth_of
from tellapart.report.terminal import add_row, console, table
from tellapart.tasks.registry import headline, main_metric

if TYPE_CHECKING:
    from rich.table import Table


#: Metrics that fit a terminal's table; values of a tag that may be rows of it, and columns.
_MOST_COLUMNS, _MOST_ROWS, _MOST_VALUES = 4, 12, 8

#: Characters of a model's name that a table keeps on one line; a longer name is folded.
_NAME = 24

Groups = Sequence[tuple[str, Sequence[Result]]]


def result_tables(results: Sequence[Result], benchmark: str) -> list[Table]:
    """Return the first look, in several tables of a few metrics each if one would be too wide."""
    names = shared_headline([find_records(results, benchmark)[0][1]])
    if len(names) <= _MOST_COLUMNS:
        return [result_table(results, benchmark)]
    parts = (names[start : start + 3] for start in range(0, len(names), 3))
    return [result_table(results, benchmark, names=part) for part in parts]


def result_table(results: Sequence[Result], benchmark: str, *, names: Sequence[str] | None = None) -> Table:
    """Return the first look: models as rows, the headline metrics as columns, chance as the last row."""
    records = find_records(results, benchmark)
    first = records[0][1].metrics
    names = shared_headline([records[0][1]]) if names is None else names
    rows = _number_table(write_title(benchmark, records, names), "model", *names)
    for model, record in records:
        values = [record.metrics.get(name) for name in names]
        add_row(rows, [model, *("" if value is None else score(value) for value in values)])
        if any(value is not None and value.ties for value in values):
            add_row(rows, ["  ties broken at random", *map(tie_text, values)], "dim")
            official = ["" if v is None or v.official is None else percent(v.official) for v in values]
            if any(official):
                add_row(rows, ["  ties as its authors count", *official], "dim")
    rows.add_section()
    add_row(rows, ["chance", *(chance_cell(first.get(name)) for name in names)], "dim")
    if counts_differ(records[0][1], names):
        add_row(rows, ["n", *(thousands(first[name].n) for name in names)], "dim")
    return rows


def equivariance_table(results: Sequence[Result], benchmark: str) -> Table | None:
    """Return mean, spread and mean size of the equivariance deviations; None if the shape has none."""
    records = find_records(results, benchmark)
    names = [name for name, value in records[0][1].metrics.items() if is_deviation(value)]
    title = "equivariance deviations, each model in its own unit: 0 is best"
    rows = _number_table(title, "model", "metric", "mean", "sd", "mean |.|", "n")
    for model, record in records:
        for row, name in enumerate(names):
            value = record.metrics[name]
            numbers = map(deviation, (value.value, value.sd, value.mean_absolute))
            add_row(rows, ["" if row else model, name, *numbers, thousands(value.n)])
    return rows if names else None


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
    rows = _number_table(title, "tag", "n", *names)

    def add_group(label: str, metrics: Mapping[str, Value], style: str = "") -> None:
        values, count = [metrics.get(name) for name in names], max((value.n for value in metrics.values()), default=0)
        cells = ("" if value is None else score(value) for value in values)
        add_row(rows, [label, thousands(count) if count else "–", *cells], style)
        fewer = ["" if value is None or value.n == count else f"of {thousands(value.n)}" for value in values]
        if any(fewer):
            add_row(rows, ["", "", *fewer], "dim")

    for tag, groups in record.by.items():
        for value, group in groups.items() if len(groups) <= _MOST_ROWS else ():
            add_group(f"{tag} = {value}", group.metrics)
        if (macro := record.macro.get(tag)) and (tag not in even or len(groups) > _MOST_ROWS):
            add_group(f"macro: mean of {tag}'s {len(groups)} values", macro.metrics, "dim")
        rows.add_section()
    # The record of another tool describes its average over all parts.
    average = next(iter(record.metrics.values())).average if is_imported(record) else "micro: all items"
    same = f" (= macro of {', '.join(even)})" if even else ""
    add_group(f"{average}{same}", record.metrics, "dim")
    return rows


def find_records(results: Sequence[Result], benchmark: str) -> list[tuple[str, BenchmarkResult]]:
    """Return the models' names and records of a benchmark."""
    measured = [result for result in results if benchmark in result.benchmarks]
    if not measured:
        names = sorted({name for result in results for name in result.benchmarks})
        listed = f"there is {', '.join(map(plain, names))}" if names else "there are none"
        raise RunError(f"no result has benchmark {benchmark!r}; {listed}")
    return [(result.model.name, result.benchmarks[benchmark]) for result in measured]


def counts_differ(record: BenchmarkResult, names: Sequence[str]) -> bool:
    """Return whether a metric is a mean of groups or the like, so that a column is not of all the record's items."""
    largest = max((value.n for value in record.metrics.values()), default=0)
    return any(record.metrics[name].n != largest for name in names if name in record.metrics)


def write_title(benchmark: str, records: Sequence[tuple[str, BenchmarkResult]], names: Sequence[str]) -> str:
    """Write a table's title: the benchmark, its number of items and clusters, and the level of the intervals."""
    record = records[0][1]
    if is_imported(record):
        return f"{plain(benchmark)}: percent, measured by another tool"
    size, level, effective = items_text(record), "", worth_of(records)
    if value := next(iter(record.metrics.values()), None):
        level = f", {value.level:.0%} intervals"
        if 0 < value.clusters < value.n:
            size += f" in {count_nouns(value.clusters, 'cluster')}"
    of = f"{size}, percent of n" if counts_differ(record, names) else f"percent of {size}"
    return f"{plain(benchmark)}: {of}{f', {effective}' if effective else ''}{level}"


def _number_table(title: str, *headings: str) -> Table:
    return table(*headings, numbers_from=1, title=title, folds=True)


def chance_cell(value: Value | None, decimals: int = 2) -> str:
    """Write a number's chance in percent; a dash if it is not defined."""
    return "–" if value is None or value.chance is None else percent(value.chance, decimals)


def first_tables(groups: Groups) -> list[Table]:
    """Return one table for each benchmark; of more than three benchmarks one table, a line for each model."""
    if len(groups) > MOST_SINGLE:
        return [overview_table(groups)]
    return [first_table(results, benchmark) for benchmark, results in groups]


def first_table(results: Sequence[Result], benchmark: str, *, width: int | None = None) -> Table:
    """Return models by the main metric with its interval, and by the values of a tag in columns."""
    records = find_records(results, benchmark)
    names = shared_headline([record for _, record in records])
    main, tag = main_metric(names), first_breakdown(dict(records), benchmark, most=_MOST_VALUES)
    if main and tag and records[0][1].by.get(tag):
        rows = _make_columns(records, benchmark, main, tag)
        folded = max(0, max(len(model) for model, _ in records) - _NAME)
        if _measure_width(rows) - folded <= (console().width if width is None else width):
            return rows
    few = names if len(names) <= _MOST_COLUMNS else [*dict.fromkeys((main, *names))][: _MOST_COLUMNS - 1]
    return result_table(results, benchmark, names=few)


def _make_columns(records: Sequence[tuple[str, BenchmarkResult]], benchmark: str, main: str, tag: str) -> Table:
    from rich.text import Text

    columns = [*dict.fromkeys(value for _, record in records for value in record.by.get(tag, {}))]
    values_of = []
    for _, record in records:
        groups = map(record.by.get(tag, {}).get, columns)
        of_groups = (None if group is None else group.metrics.get(main) for group in groups)
        values_of.append([record.metrics.get(main), *of_groups])
    first, (of_all, *of_first) = records[0][1], values_of[0]
    # The record of another tool describes its average over all parts.
    by = of_all.average if is_imported(first) and of_all is not None else f"by {tag}"
    rows = _number_table(f"{write_title(benchmark, records, [main])}; {plain(by)}", "model", main, *columns)
    for (model, _), (value, *shares_of) in zip(records, values_of, strict=True):
        shares = ("–" if group is None else percent(group.value, 1) for group in shares_of)
        add_row(rows, [model, "–" if value is None else score(value), *shares])
    rows.add_section()
    add_row(rows, ["chance", chance_cell(of_all), *(chance_cell(value, 1) for value in of_first)], "dim")
    cells = ("–" if count is None or not count.n else thousands(count.n) for count in (of_all, *of_first))
    add_row(rows, ["n" if counts_differ(first, [main]) else "items", *cells], "dim")
    if ties := describe_ties({main: [(plain(model), record.metrics.get(main)) for model, record in records]}):
        rows.caption, rows.caption_justify = Text(ties, style="not italic"), "left"
    return rows


def overview_table(groups: Groups) -> Table:
    """Return many benchmarks in one table: a line for each model, with the metric that ranks the benchmark."""
    measured = any(not is_imported(result.benchmarks[name]) for name, results in groups for result in results)
    how = "with intervals" if measured else "measured by another tool"
    heads = ("benchmark", "items", "metric", "model", "value", "tied", "chance")
    rows = _number_table(f"percent, {how}, by the metric that ranks each benchmark", *heads)
    rows.columns[2].justify = rows.columns[3].justify = "left"
    rows.columns[3].no_wrap = False
    for benchmark, results in groups:
        records = find_records(results, benchmark)
        main = main_metric(shared_headline([record for _, record in records]))
        first = records[0][1].metrics.get(main)
        size = "" if first is None or not first.n else count_text(first.n, records[0][1].limited_from)
        start = [benchmark, size, main]
        for model, record in records:
            value = record.metrics.get(main)
            tied = "" if value is None or not value.ties else thousands(value.ties)
            label = f"{model} (imported)" if measured and is_imported(record) else model
            add_row(rows, [*start, label, "–" if value is None else score(value), tied, chance_cell(value)])
            start = ["", "", ""]
    if not any(rows.columns[5].cells):
        del rows.columns[5]
    return rows


def tag_table(results: Sequence[Result], benchmark: str, tag: str) -> Table:
    """Return the main metric by a tag: its values down, models across, with intervals if they fit the console."""
    records = find_records(results, benchmark)
    labels = label_runs([model for model, _ in records])
    heat = heat_map(dict(zip(labels, (record for _, record in records), strict=True)), benchmark, tag=tag)
    title = f"{write_title(benchmark, records, [heat.metric])}; {heat.metric} by {plain(tag)}"

    def fill(write: Callable[[Value], str]) -> Table:
        rows = _number_table(title, tag, "n", *heat.models)
        for row in heat.rows:
            if row is heat.rows[-1]:
                rows.add_section()
            count = thousands(row.n) if row.n else "–"
            add_row(rows, [row.name, count, *("–" if v is None else write(v) for v in row.values)])
        return rows

    full = fill(score)
    return full if _measure_width(full) <= console().width else fill(lambda value: percent(value.value))


def _measure_width(rows: Table) -> int:
    return console(width=10_000).measure(rows).maximum
