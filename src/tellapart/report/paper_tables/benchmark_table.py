"""The table of one benchmark as its paper lays it out, models down; else the metrics of a first look."""

from __future__ import annotations

from collections.abc import Sequence

from tellapart.benchmarks.find import find_benchmark
from tellapart.catalog import BENCHMARKS
from tellapart.evaluation.systems import System, leave_references
from tellapart.records.result import is_imported
from tellapart.report.measured import pick_benchmark, title_of_set
from tellapart.report.numbers import describe_ties, items_text, thousands
from tellapart.report.paper_tables.paper_table import PaperTable, TableRow, mark_best, stack_groups
from tellapart.report.paper_tables.row_layout import (
    AUTHORS_RULE,
    mark_tiers,
    metrics_in_columns,
    paper_layout,
    plain_layout,
    with_authors_rule,
)

#: Meaning of the marks in a table with models down.
BOLD = "bold: the best of its column, if it is above chance"
DAGGER = "dagger: not told apart from the best by these items (Holm over all pairs of models, 5%)"
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
