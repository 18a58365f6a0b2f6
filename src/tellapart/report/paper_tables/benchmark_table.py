"""The table of one benchmark as its paper lays it out, models down; else the metrics of a first look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tellapart.benchmarks.benchmark import ALL
from tellapart.benchmarks.benchmark import PaperTable as RowOf
from tellapart.benchmarks.find import declared_benchmark, find_benchmark
from tellapart.catalog import BENCHMARKS
from tellapart.evaluation.compare import rank_outcomes
from tellapart.evaluation.systems import System, leave_references
from tellapart.records.result import BenchmarkResult, Value, is_imported
from tellapart.report.measured import first_metrics, outcomes_of, pick_benchmark, samples_of, title_of_set
from tellapart.report.numbers import describe_ties, items_text, thousands
from tellapart.report.paper_tables.paper_table import (
    PaperTable,
    TableCell,
    TableColumn,
    TableRow,
    groups_of,
    mark_best,
    numbers_of,
    paper_row,
    stack_groups,
)
from tellapart.tasks.registry import main_metric

#: Source of a cell's number: a tag's value (or ALL), and the metric.
_Source = tuple[str, str]

#: Suffix of a metric's name that is counted as the benchmark's authors do.
AUTHORS_RULE = " (authors)"

_RECALLS = {
    (f"{side} retrieval{captions}", f"R@{k}"): f"{name}{rule}_recall@{k}"
    for captions, rule in (("", ""), (" (distinct captions)", "_distinct"))
    for side, name in (("Text", "i2t"), ("Image", "t2i"))
    for k in (1, 5, 10)
}


@dataclass(frozen=True, slots=True)
class RowLayout:
    """How a row is made of a record's numbers, column -> percent; `sources` are those that a cell is unchanged."""

    tag: str
    row_of: RowOf
    columns: tuple[TableColumn, ...]
    sources: tuple[_Source | None, ...]

    def cells(self, record: BenchmarkResult) -> tuple[TableCell, ...]:
        """Return a model's row; a cell that is one number of the record has its interval."""
        groups = groups_of(record, self.tag)
        numbers = self._fill_row(numbers_of(groups))
        return tuple(
            TableCell(number, imported=is_imported(record))
            if number is None or source is None
            else TableCell.with_interval(number, groups[source[0]][source[1]])
            for number, source in zip(numbers, self.sources, strict=True)
        )

    def chance(self, record: BenchmarkResult) -> tuple[TableCell, ...]:
        """Return the row of a model without information; empty cells if chance is not defined."""
        chances = {
            value: {name: number.chance for name, number in metrics.items() if number.chance is not None}
            for value, metrics in groups_of(record, self.tag).items()
        }
        return tuple(map(TableCell, self._fill_row(chances)))

    def only(self, number: int) -> RowLayout:
        """Return a layout of one of its columns."""

        def row_of(numbers: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
            return dict([list(self.row_of(numbers).items())[number]])

        return RowLayout(self.tag, row_of, (self.columns[number],), (self.sources[number],))

    def _fill_row(self, numbers: Mapping[str, Mapping[str, float]]) -> list[float | None]:
        row = paper_row(self.row_of, numbers)
        return [None] * len(self.columns) if row is None or len(row) != len(self.columns) else list(row.values())


def with_authors_rule(benchmark: str, record: BenchmarkResult) -> BenchmarkResult:
    """Add the numbers that the benchmark's authors print to a record, if they do not count every tie as wrong."""
    declared = declared_benchmark(benchmark)
    if declared is None or declared.tie_rule == "wrong" or is_imported(record):
        return record
    names = [name for name in record.metrics if name in first_metrics([record])]
    # Its interval would need the items, so it has none.
    added = {
        name + AUTHORS_RULE: value.model_copy(
            update={
                "value": value.value if value.official is None else value.official,
                **dict.fromkeys(("low", "high", "reason")),
            }
        )
        for name, value in record.metrics.items()
        if name in names
    }
    return record.model_copy(update={"metrics": record.metrics | added})


def paper_layout(benchmark: str, records: Sequence[BenchmarkResult]) -> RowLayout | None:
    """Return the layout of the benchmark's paper, if it has one and some record fills it."""
    declared = declared_benchmark(benchmark)
    if declared is None or declared.paper is None:
        return None
    tag, row_of = declared.paper
    for record in records:
        groups = groups_of(record, tag)
        row = paper_row(row_of, numbers_of(groups))
        if row is not None:
            # A column shares the words before its last one with its neighbours.
            columns = tuple(TableColumn(*name.rpartition(" ")[::2]) for name in row)
            return RowLayout(tag, row_of, columns, _find_sources(row_of, groups, tuple(row)))
    return None


def plain_layout(records: Sequence[BenchmarkResult]) -> RowLayout:
    """Return the layout of the metrics of a first look that all the records have; of retrieval with their mean."""
    names = first_metrics(records)
    authors = (name + AUTHORS_RULE for name in names)
    names += tuple(name for name in authors if all(name in record.metrics for record in records))
    recalls = {headings: metric for headings, metric in _RECALLS.items() if metric in names}
    headed = {TableColumn(*headings): metric for headings, metric in recalls.items()}
    headed |= {TableColumn("", name.replace("_", " ")): name for name in names if name not in recalls.values()}
    # The mean is of the recalls of a gallery with an entry a row.
    if "i2t_recall@1" in names and all("mean_recall" in record.metrics for record in records):
        headed[TableColumn("", "Mean")] = "mean_recall"

    def row_of(numbers: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
        return {f"{column.group} {column.name}": 100 * numbers[ALL][name] for column, name in headed.items()}

    return RowLayout("", row_of, tuple(headed), tuple((ALL, name) for name in headed.values()))


def _find_sources(
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
                other: {name: float((other, name) == (value, metric)) for name in names}
                for other, names in groups.items()
            }
            weights = paper_row(row_of, probe) or {}
            sources |= {column: (value, metric) for column, weight in weights.items() if weight == 100.0}
    return tuple(sources.get(column) for column in row)


def metrics_in_columns(
    layout: RowLayout, runs: Sequence[System], benchmark: str
) -> dict[str, list[tuple[str, Value | None]]]:
    """Return the numbers over all items, by model, of the metrics in a layout's columns; of means, the main one."""
    metrics = [source[1].removesuffix(AUTHORS_RULE) for source in layout.sources if source is not None]
    records = {run.label: run.record(benchmark) for run in runs}
    names = dict.fromkeys(metrics) or [main_metric(first_metrics([*records.values()]))]
    return {name: [(label, record.metrics.get(name)) for label, record in records.items()] for name in names}


def mark_tiers(
    layout: RowLayout, runs: Sequence[System], benchmark: str, rows: Sequence[tuple[TableCell, ...]], seed: int
) -> list[tuple[TableCell, ...]]:
    """Mark, in every column that is one number of items, the models in the first tier, without reference models."""
    ranked = leave_references(runs)
    with_outcomes = {name for sample in samples_of(ranked[0], benchmark) for name in sample.outcomes}
    metrics = {source[1] for source in layout.sources if source is not None} & with_outcomes
    read = {metric: outcomes_of(ranked, benchmark, metric) for metric in sorted(metrics)}
    cells = [list(row) for row in rows]
    for number, source in enumerate(layout.sources):
        if source is None or source[1] not in read:
            continue
        outcomes = read[source[1]]
        mask = np.array([source[0] in {ALL, tags.get(layout.tag)} for tags in outcomes.tags], dtype=np.bool_)
        if not mask.any():
            continue
        clusters = [cluster for cluster, selected in zip(outcomes.clusters, mask, strict=True) if selected]
        of_mask = {label: values[mask] for label, values in outcomes.of.items()}
        top = rank_outcomes(of_mask, clusters, seed=seed)[0].names
        for row_cells, run in zip(cells, runs, strict=True):
            if run.label in top and len(top) > 1:
                row_cells[number] = replace(row_cells[number], near=True)
    return [tuple(cell) for cell in cells]


#: Meaning of the marks in a table with models down.
BOLD = "bold: the best of its column, if it is above chance"
DAGGER = "dagger: not significantly different from the best on these items (Holm over all pairs of models, 5%)"
IMPORTED_BESIDE = "imported: measured by another tool, whose ties count otherwise; not tested against the others"
BESIDE = "reference models, which bound the numbers, are not marked"
AUTHORS_TIES = "authors: ties as the benchmark's own code counts them"


def benchmark_table(
    runs: Sequence[System], benchmark: str | None = None, *, with_tiers: bool = True, seed: int = 0
) -> PaperTable:
    """Lay runs of one benchmark out as its paper does (EqBen Table 3, BiVLC, SugarCrepe, VALSE, retrieval), in percent.

    The best of each column is marked, if it is above chance, and with it the models that these items do not distinguish
    from it (its tier); reference models beside others never are. Chance is the last row.
    """
    benchmark, measured = pick_benchmark(runs, benchmark)
    records = [with_authors_rule(benchmark, run.record(benchmark)) for run in measured]
    layout = paper_layout(benchmark, records) or plain_layout(records)
    cells = [layout.cells(record) for record in records]
    ranked = leave_references(measured)
    testable = with_tiers and can_be_tested(ranked, benchmark)
    if testable:
        cells = mark_tiers(layout, measured, benchmark, cells, seed)
    rows = [TableRow(run.label, row, reference=run not in ranked) for run, row in zip(measured, cells, strict=True)]
    notes = [BOLD, *([DAGGER] if testable else []), *([IMPORTED_BESIDE] if any(map(is_imported, records)) else [])]
    notes += [BESIDE] if len(ranked) < len(measured) else []
    notes += [AUTHORS_TIES] if any(column.name.endswith(AUTHORS_RULE) for column in layout.columns) else []
    notes += [ties] if (ties := describe_ties(metrics_in_columns(layout, measured, benchmark))) else []
    notes += unlike_published(measured, [benchmark])
    chance = TableRow("chance", layout.chance(min(records, key=is_imported)), plain=True)
    rows += [chance] if any(cell.value is not None for cell in chance.cells) else []
    title = ", ".join(
        filter(None, (title_of_set(measured, benchmark), max(map(items_text, records), key=len), "percent"))
    )
    return mark_best(stack_groups(PaperTable(title, ("model",), layout.columns, tuple(rows), notes=tuple(notes))))


def unlike_published(runs: Sequence[System], benchmarks: Sequence[str]) -> list[str]:
    """Name the models that were measured on other files than the published ones, or chose the items themselves."""
    counts = {
        benchmark: [
            (run.label, record.published_items)
            for run in runs
            if (record := run.result.benchmarks.get(benchmark)) and record.published_items is not None
        ]
        for benchmark in benchmarks
    }
    listed = (find_benchmark(benchmark) for benchmark in benchmarks if benchmark in BENCHMARKS)
    mined = {
        declared.name: [
            run.label
            for run in runs
            if declared.name in run.result.benchmarks and declared.was_mined_by(run.result.model.name)
        ]
        for declared in listed
        if declared.mined_by
    }
    marked = [
        f"chose the items of {benchmark} where it failed, and its authors leave it out: {', '.join(labels)} "
        "(does not compare)"
        for benchmark, labels in mined.items()
        if labels
    ]
    return marked + [
        f"not the published files of {benchmark}, which hold {thousands(labelled[0][1])} records: "
        f"{', '.join(label for label, _ in labelled)} (does not compare)"
        for benchmark, labelled in counts.items()
        if labelled
    ]


def can_be_tested(runs: Sequence[System], benchmark: str) -> bool:
    """Return whether there are several models, and each has outcomes of items."""
    return len(runs) > 1 and not any(is_imported(run.record(benchmark)) for run in runs)
