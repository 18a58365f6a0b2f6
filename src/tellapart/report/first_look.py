"""The first look at a run on the terminal: one table a benchmark, or one of many benchmarks; and the table of a tag."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tellapart.errors import plain
from tellapart.evaluation.systems import label_runs
from tellapart.records.result import BenchmarkResult, Result, Value, is_imported
from tellapart.report.conclusions import MOST_SINGLE
from tellapart.report.heatmap import first_breakdown, heat_map
from tellapart.report.numbers import count_text, describe_ties, percent, score, thousands
from tellapart.report.sections import shared_headline
from tellapart.report.tables import (
    add_row,
    chance_cell,
    counts_differ,
    find_records,
    make_table,
    result_table,
    write_title,
)
from tellapart.report.terminal import console
from tellapart.tasks.registry import main_metric

if TYPE_CHECKING:
    from rich.table import Table

#: Values of a tag that may be columns.
_MOST_VALUES = 8

#: Characters of a model's name that a table keeps on one line; a longer name is folded.
_NAME = 24

#: Metrics of a benchmark without such a tag.
_MOST_METRICS = 4

Groups = Sequence[tuple[str, Sequence[Result]]]


def first_tables(groups: Groups) -> list[Table]:
    """Return one table for each benchmark; of more than three benchmarks one table, a line for each model."""
    if len(groups) > MOST_SINGLE:
        return [overview_table(groups)]
    return [first_table(results, benchmark) for benchmark, results in groups]


def first_table(results: Sequence[Result], benchmark: str, *, width: int | None = None) -> Table:
    """Return models by the main metric with its interval, and by the values of a tag in columns.

    The headline metrics are the columns if no tag has few values, or if the table is too wide.
    """
    records = find_records(results, benchmark)
    names = shared_headline([record for _, record in records])
    main, tag = main_metric(names), first_breakdown(dict(records), benchmark, most=_MOST_VALUES)
    if main and tag and records[0][1].by.get(tag):
        rows = _make_columns(records, benchmark, main, tag)
        folded = max(0, max(len(model) for model, _ in records) - _NAME)
        if _measure_width(rows) - folded <= (console().width if width is None else width):
            return rows
    few = names if len(names) <= _MOST_METRICS else [*dict.fromkeys((main, *names))][: _MOST_METRICS - 1]
    return result_table(results, benchmark, names=few)


def _make_columns(records: Sequence[tuple[str, BenchmarkResult]], benchmark: str, main: str, tag: str) -> Table:
    from rich.text import Text

    first = records[0][1]
    columns = [*dict.fromkeys(value for _, record in records for value in record.by.get(tag, {}))]
    # The record of another tool describes its average over all parts.
    by = first.metrics[main].average if is_imported(first) and main in first.metrics else f"by {tag}"
    rows = make_table(f"{write_title(benchmark, records, [main])}; {plain(by)}", ["model", main, *map(plain, columns)])
    for model, record in records:
        value = record.metrics.get(main)
        groups = [_find_group(record, tag, column, main) for column in columns]
        shares = ("–" if group is None else percent(group.value, 1) for group in groups)
        add_row(rows, [model, "–" if value is None else score(value), *shares])
    rows.add_section()
    of_first = [_find_group(first, tag, column, main) for column in columns]
    add_row(rows, ["chance", chance_cell(first.metrics.get(main)), *_write_chances(of_first)], style="dim")
    counts = (first.metrics.get(main), *of_first)
    cells = ("–" if count is None or not count.n else thousands(count.n) for count in counts)
    add_row(rows, ["n" if counts_differ(first, [main]) else "items", *cells], style="dim")
    if ties := describe_ties({main: [(plain(model), record.metrics.get(main)) for model, record in records]}):
        rows.caption = Text(ties, style="not italic")
        rows.caption_justify = "left"
    return rows


def _find_group(record: BenchmarkResult, tag: str, value: str, metric: str) -> Value | None:
    group = record.by.get(tag, {}).get(value)
    return None if group is None else group.metrics.get(metric)


def _write_chances(values: Sequence[Value | None]) -> list[str]:
    return ["–" if value is None or value.chance is None else percent(value.chance, 1) for value in values]


def overview_table(groups: Groups) -> Table:
    """Return many benchmarks in one table: a line for each model, with the metric that ranks the benchmark."""
    measured = any(not is_imported(result.benchmarks[name]) for name, results in groups for result in results)
    rows = make_table(
        f"percent, {'with intervals' if measured else 'measured by another tool'}, by the metric that ranks each "
        "benchmark",
        ["benchmark", "items", "metric", "model", "value", "tied", "chance"],
    )
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
            tied = thousands(value.ties) if value is not None and value.ties else ""
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
        rows = make_table(title, [plain(tag), "n", *map(plain, heat.models)])
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
