"""The table of one benchmark as its paper lays it out, models down; else the metrics of a first look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tellapart.benchmarks.benchmark import ALL
from tellapart.benchmarks.benchmark import PaperTable as RowOf
from tellapart.benchmarks.find import declared_benchmark
from tellapart.records.result import BenchmarkResult, Value
from tellapart.records.systems import System
from tellapart.report.measured import first_metrics, name_on, outcomes_of, pick_benchmark, samples_of
from tellapart.report.numbers import is_imported, items_text, plain, thousands, ties_right
from tellapart.report.paper_tables.paper_row import groups_of, numbers_of, paper_row
from tellapart.report.paper_tables.paper_table import (
    PaperTable,
    TableCell,
    TableColumn,
    TableRow,
    mark_best,
    stack_groups,
)
from tellapart.stats.tiers import tiers

__all__ = ["benchmark_table"]

#: Where a cell's number comes from: a tag's value (or ALL), and the metric.
_Source = tuple[str, str]

#: What follows a metric's name where it is counted as the benchmark's authors do.
_AUTHORS_RULE = " (argmax)"

_RECALLS = {
    (f"{side} retrieval{captions}", f"R@{k}"): f"{name}{rule}_recall@{k}"
    for captions, rule in (("", ""), (" (distinct captions)", "_distinct"))
    for side, name in (("Text", "i2t"), ("Image", "t2i"))
    for k in (1, 5, 10)
}


@dataclass(frozen=True, slots=True)
class _Layout:
    """How a row is made of a record's numbers, and which cells are one of these numbers unchanged."""

    tag: str
    row_of: RowOf
    columns: tuple[TableColumn, ...]
    sources: tuple[_Source | None, ...]


def benchmark_table(
    runs: Sequence[System], benchmark: str | None = None, *, with_tiers: bool = True, seed: int = 0
) -> PaperTable:
    """Lay runs of one benchmark out as its paper does (EqBen Table 3, BiVLC, SugarCrepe, VALSE, retrieval), in percent.

    The best of each column is marked, and with it the models that these items do not tell apart from it (its tier).
    Chance is the last row.

    Args:
        runs: the models, in the order of the rows.
        benchmark: which; the one there is if not given.
        with_tiers: test the models against each other, where every one has outcomes of items.
        seed: of the sign flips, where items are not independent.

    Raises:
        RunError: no run measured it, or the runs' items differ.
    """
    benchmark, own = pick_benchmark(runs, benchmark)
    records = [_with_authors_rule(benchmark, run.record(benchmark)) for run in own]
    layout = _paper_layout(benchmark, records) or _plain_layout(records)
    rows = [TableRow(name_on(run, benchmark), _cells(layout, record)) for run, record in zip(own, records, strict=True)]
    notes = ["bold: the best of its column, if it is above chance"]
    if any(column.name.endswith(_AUTHORS_RULE) for column in layout.columns):
        notes.append("argmax: as the benchmark's authors count, a tie with the true entry is right")
    testable = with_tiers and len(own) > 1 and not any(map(is_imported, records))
    if testable:
        rows = _with_tiers(layout, own, benchmark, rows, seed)
        notes.append("dagger: not told apart from the best by these items (Holm over all pairs of models, 5%)")
    if any(map(is_imported, records)):
        notes.append("imported: measured by another tool, whose ties count otherwise; not tested against the others")
    ties = {
        run.label: max(value.ties for value in record.metrics.values())
        for run, record in zip(own, records, strict=True)
    }
    tied = [f"{label} {thousands(count)}" for label, count in ties.items() if count]
    notes += [f"items with ties, which are never right: {', '.join(tied)}"] if tied else []
    chance = TableRow("chance", _chance(layout, records[0]), plain=True)
    rows += [chance] if any(cell.value is not None for cell in chance.cells) else []
    title = ", ".join(filter(None, (plain(benchmark), max(map(items_text, records), key=len), "percent")))
    return mark_best(stack_groups(PaperTable(title, ("model",), layout.columns, tuple(rows), notes=tuple(notes))))


def _with_authors_rule(benchmark: str, record: BenchmarkResult) -> BenchmarkResult:
    """Add to a record what the benchmark's authors print, where they count a tie as right."""
    declared = declared_benchmark(benchmark)
    if declared is None or not declared.tie_is_right or is_imported(record):
        return record
    # Its interval would need the items, so it has none.
    added = {
        name + _AUTHORS_RULE: value.model_copy(update={"value": ties_right(value), "low": None, "high": None})
        for name, value in record.metrics.items()
        if name in first_metrics([record])
    }
    return record.model_copy(update={"metrics": record.metrics | added})


def _paper_layout(benchmark: str, records: Sequence[BenchmarkResult]) -> _Layout | None:
    """Return the paper's own layout, if it has one and some record fills it."""
    declared = declared_benchmark(benchmark)
    if declared is None or declared.paper is None:
        return None
    tag, row_of = declared.paper
    for record in records:
        groups = groups_of(record, tag)
        row = paper_row(row_of, numbers_of(groups))
        if row is not None:
            columns = tuple(TableColumn(*_headings(name)) for name in row)
            return _Layout(tag, row_of, columns, _sources(row_of, groups, tuple(row)))
    return None


def _headings(name: str) -> tuple[str, str]:
    """Split a column's name: what comes before its last word is what it shares with its neighbours."""
    group, _, last = name.rpartition(" ")
    return group, last


def _plain_layout(records: Sequence[BenchmarkResult]) -> _Layout:
    names = first_metrics(records)
    authors = (name + _AUTHORS_RULE for name in names)
    names += tuple(name for name in authors if all(name in record.metrics for record in records))
    recalls = {headings: metric for headings, metric in _RECALLS.items() if metric in names}
    headed = {TableColumn(*headings): metric for headings, metric in recalls.items()}
    headed |= {TableColumn("", name.replace("_", " ")): name for name in names if name not in recalls.values()}
    # The mean is of the recalls of a gallery with an entry a row.
    if "i2t_recall@1" in names and all("mean_recall" in record.metrics for record in records):
        headed[TableColumn("", "Mean")] = "mean_recall"

    def row_of(numbers: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
        return {f"{column.group} {column.name}": 100 * numbers[ALL][name] for column, name in headed.items()}

    return _Layout("", row_of, tuple(headed), tuple((ALL, name) for name in headed.values()))


def _sources(
    row_of: RowOf, groups: Mapping[str, Mapping[str, Value]], row: tuple[str, ...]
) -> tuple[_Source | None, ...]:
    """Find which cells are one number unchanged, and so have its interval.

    Every cell of a paper's table is a number or a mean of several: with one number set to one and all others to zero,
    a cell holds that number's weight.
    """
    sources: dict[str, _Source] = {}
    for value, metrics in groups.items():
        for metric in metrics:
            probe = {
                other: {name: float((other, name) == (value, metric)) for name in own} for other, own in groups.items()
            }
            weights = paper_row(row_of, probe) or {}
            sources |= {column: (value, metric) for column, weight in weights.items() if weight == 100.0}
    return tuple(sources.get(column) for column in row)


def _cells(layout: _Layout, record: BenchmarkResult) -> tuple[TableCell, ...]:
    groups = groups_of(record, layout.tag)
    row = paper_row(layout.row_of, numbers_of(groups))
    if row is None or len(row) != len(layout.columns):
        return (TableCell(None),) * len(layout.columns)
    cells = []
    for number, source in zip(row.values(), layout.sources, strict=True):
        value = None if source is None else groups[source[0]][source[1]]
        cells.append(TableCell(number) if value is None else TableCell.with_interval(number, value))
    return tuple(cells)


def _chance(layout: _Layout, record: BenchmarkResult) -> tuple[TableCell, ...]:
    groups = groups_of(record, layout.tag)
    known = {
        value: {name: one.chance for name, one in own.items() if one.chance is not None}
        for value, own in groups.items()
    }
    row = paper_row(layout.row_of, known)
    if row is None or len(row) != len(layout.columns):
        return (TableCell(None),) * len(layout.columns)
    return tuple(TableCell(number) for number in row.values())


def _with_tiers(
    layout: _Layout, runs: Sequence[System], benchmark: str, rows: list[TableRow], seed: int
) -> list[TableRow]:
    """Mark, in every column that is one number of items, the models in the first tier."""
    with_outcomes = {name for sample in samples_of(runs[0], benchmark) for name in sample.outcomes}
    metrics = {source[1] for source in layout.sources if source is not None} & with_outcomes
    read = {metric: outcomes_of(runs, benchmark, metric) for metric in sorted(metrics)}
    cells = [list(row.cells) for row in rows]
    for number, source in enumerate(layout.sources):
        if source is None or source[1] not in read:
            continue
        outcomes = read[source[1]]
        mask = np.array([source[0] in {ALL, tags.get(layout.tag)} for tags in outcomes.tags], dtype=np.bool_)
        if not mask.any():
            continue
        clusters = [cluster for cluster, chosen in zip(outcomes.clusters, mask, strict=True) if chosen]
        top = tiers({label: values[mask] for label, values in outcomes.of.items()}, clusters, seed=seed)[0].names
        for own, run in zip(cells, runs, strict=True):
            if run.label in top and len(top) > 1:
                own[number] = replace(own[number], near=True)
    return [replace(row, cells=tuple(own)) for row, own in zip(rows, cells, strict=True)]
