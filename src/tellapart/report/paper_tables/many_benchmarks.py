"""One table over many benchmarks, models down; and the averages that papers take of a benchmark's parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

from tellapart.benchmarks.find import find_benchmark
from tellapart.benchmarks.minimal_pairs import SUBSETS
from tellapart.errors import RunError
from tellapart.evaluation.systems import System, leave_references
from tellapart.records.result import BenchmarkResult, Metrics, Value, is_imported
from tellapart.report.measured import first_metrics, pick_benchmark, title_of_set
from tellapart.report.numbers import describe_ties, items_text
from tellapart.report.paper_tables.benchmark_table import (
    BESIDE,
    BOLD,
    DAGGER,
    IMPORTED_BESIDE,
    RowLayout,
    can_be_tested,
    mark_tiers,
    metrics_in_columns,
    paper_layout,
    plain_layout,
    unlike_published,
)
from tellapart.report.paper_tables.paper_table import PaperTable, TableCell, TableColumn, TableRow, mark_best
from tellapart.tasks.registry import main_metric


class Part(NamedTuple):
    """A number that an average is taken of, over so many questions; of all of a set if no subset is named."""

    benchmark: str
    metric: str
    size: int
    subset: str = ""


#: Groups of parts: an average is the plain mean over groups; within a group every question weighs the same.
Groups = Sequence[Sequence[Part]]


@cache
def parts_of(name: str) -> Groups:
    """Return the parts of a named average."""

    def full(part: str, metric: str) -> Part:
        questions = 4 if metric == "individual_score" else 1  # a set of four photographs asks four questions
        return Part(f"whatsup-{part}", metric, questions * find_benchmark(f"whatsup-{part}").items)

    def subsets(kind: str) -> list[Part]:
        names = (subset for subset in SUBSETS if subset.startswith(kind))
        return [Part("sugarcrepe", "choice_score", SUBSETS[subset][0], subset) for subset in names]

    six = [full(side, "individual_score") for side in "ab"]
    six += [full(f"{of}-{count}", "choice_score") for of in ("coco", "vg") for count in ("one", "two")]
    groups: dict[str, Groups] = {
        "whatsup-six": [[part] for part in six],
        "whatsup-three": [six[:2], six[2:4], six[4:]],
        "whatsup-all": [six],
        "whatsup-pairs": [[full(side, "pair_score")] for side in "ab"],
        "whatsup-sets": [[full(side, "set_score")] for side in "ab"],
        "sugarcrepe-micro": [subsets("")],
        "sugarcrepe-macro": [[part] for part in subsets("")],
        "sugarcrepe-three": [subsets(kind) for kind in ("replace", "swap", "add")],
    }
    return groups[name]


def with_named_averages(table: PaperTable, runs: Sequence[System], named: Mapping[str, str]) -> PaperTable:
    """Add a column for each named average, for models that have all of its parts."""
    for name, title in named.items():
        groups = parts_of(name)
        means = {run.label: _mean_parts(groups, run) for run in runs}
        if all(mean.value is None for mean, _ in means.values()):
            needed = ", ".join(dict.fromkeys(part.benchmark for group in groups for part in group))
            raise RunError(f"average_as={name} is over all parts of {needed}; no run has them all")
        # Chance is the same of every model that has one.
        chance = next((chance for _, chance in means.values() if chance is not None), None)
        rows = tuple(
            replace(row, cells=(*row.cells, means[row.label][0] if row.label in means else TableCell(chance)))
            for row in table.rows
        )
        columns, notes = (*table.columns, TableColumn("", name)), (*table.notes, f"{name}: {title}")
        table = replace(table, columns=columns, rows=rows, notes=notes)
    return mark_best(table)


def _mean_parts(groups: Groups, run: System) -> tuple[TableCell, float | None]:
    """Return a model's average, empty if a part is missing, and that of chance, in percent."""
    values = [[(_find_value(part, run), part.size) for part in group] for group in groups]
    imported = any(value is not None and value.method == "imported" for group in values for value, _ in group)

    def mean(read: Callable[[Value], float | None]) -> float | None:
        means = []
        for group in values:
            numbers = [(None if value is None else read(value), size) for value, size in group]
            total = [number * size for number, size in numbers if number is not None]
            if len(total) < len(numbers):
                return None
            means.append(sum(total) / sum(size for _, size in numbers))
        return 100 * sum(means) / len(means)

    average = mean(lambda value: value.value)
    return TableCell(average, imported=imported), None if average is None else mean(lambda value: value.chance)


def _find_value(part: Part, run: System) -> Value | None:
    record = run.result.benchmarks.get(part.benchmark)
    if record is None:
        return None
    metrics = record.by.get("subset", {}).get(part.subset, Metrics(metrics={})) if part.subset else record
    return metrics.metrics.get(part.metric)


#: Papers' names for the average of their table.
_AVERAGE = "Avg"


def many_benchmarks_table(
    runs: Sequence[System],
    benchmarks: Sequence[str],
    *,
    average: bool = False,
    sort: str | None = None,
    with_tiers: bool = True,
    seed: int = 0,
) -> PaperTable:
    """Lay out several benchmarks side by side, in percent."""
    columns = [_make_column(runs, benchmark, with_tiers=with_tiers, seed=seed) for benchmark in benchmarks]
    ranked = {run.label for run in leave_references(runs)}
    rows = [
        TableRow(name, tuple(column.of.get(name, TableCell(None)) for column in columns), reference=name not in ranked)
        for name in (run.label for run in runs)
        if any(name in column.of for column in columns)
    ]
    chance = TableRow("chance", tuple(column.chance for column in columns), plain=True)
    headings = [column.heading for column in columns]
    if average:
        headings.append(TableColumn("", _AVERAGE))
        *rows, chance = (replace(row, cells=(*row.cells, _mean_cell(row.cells))) for row in (*rows, chance))
    if sort is not None:
        names = [*benchmarks, *([_AVERAGE] if average else [])]
        if sort not in names:
            raise RunError(f"sort={sort}: this table has the columns {', '.join(names)}; sort by one of them")
        rows.sort(key=lambda row: -(row.cells[names.index(sort)].value or 0))
    rows += [chance] if any(cell.value is not None for cell in chance.cells) else []
    title = f"{', '.join(column.heading.group for column in columns)}, percent"
    notes_of_references = [BESIDE] if any(row.reference for row in rows) else []
    notes = (*_write_notes(columns, average=average), *notes_of_references, *unlike_published(runs, benchmarks))
    return mark_best(PaperTable(title, ("model",), tuple(headings), tuple(rows), notes=notes))


@dataclass(frozen=True, slots=True)
class _Column:
    """One benchmark: the cells by model, and the metrics of its column with each model's number."""

    heading: TableColumn
    of: dict[str, TableCell]
    chance: TableCell
    items: str
    metrics: dict[str, list[tuple[str, Value | None]]]
    is_tested: bool
    is_imported: bool


def _make_column(runs: Sequence[System], benchmark: str, *, with_tiers: bool, seed: int) -> _Column:
    _, measured = pick_benchmark(runs, benchmark)
    records = [run.record(benchmark) for run in measured]
    layout = _headline_layout(benchmark, records)
    cells = [layout.cells(record) for record in records]
    is_tested = with_tiers and can_be_tested(leave_references(measured), benchmark)
    if is_tested:
        cells = mark_tiers(layout, measured, benchmark, cells, seed)
    (column,) = layout.columns
    return _Column(
        heading=TableColumn(title_of_set(measured, benchmark), column.full_name),
        of={run.label: cell for run, (cell,) in zip(measured, cells, strict=True)},
        chance=layout.chance(min(records, key=is_imported))[0],
        items=max(map(items_text, records), key=len),
        metrics=metrics_in_columns(layout, measured, benchmark),
        is_tested=is_tested,
        is_imported=any(map(is_imported, records)),
    )


def _headline_layout(benchmark: str, records: Sequence[BenchmarkResult]) -> RowLayout:
    """Choose the one number of a benchmark that stands for it."""
    if paper := paper_layout(benchmark, records):
        for number, column in enumerate(paper.columns):
            if column.name == _AVERAGE:
                return paper.only(number)
    layout = plain_layout(records)
    metrics = [source[1] for source in layout.sources if source is not None]
    main = "mean_recall" if "mean_recall" in metrics else main_metric(first_metrics(records))
    return layout.only(metrics.index(main))


def _mean_cell(cells: Sequence[TableCell]) -> TableCell:
    numbers = [cell.value for cell in cells if cell.value is not None]
    if len(numbers) < len(cells):
        return TableCell(None)
    return TableCell(sum(numbers) / len(numbers), imported=any(cell.imported for cell in cells))


def _write_notes(columns: Sequence[_Column], *, average: bool) -> list[str]:
    counted = ", ".join(f"{column.heading.group}: {column.items}" for column in columns if column.items)
    metrics = {
        f"{column.heading.group} {name}": of_models for column in columns for name, of_models in column.metrics.items()
    }
    averaged = any(column.heading.name.endswith(_AVERAGE) for column in columns)
    notes = {
        BOLD: True,
        DAGGER: any(column.is_tested for column in columns),
        IMPORTED_BESIDE: any(column.is_imported for column in columns),
        f"{_AVERAGE} below a benchmark: as its paper averages": averaged,
        f"{_AVERAGE}: the plain mean of the columns": average,
        counted: counted,
        describe_ties(metrics): True,
    }
    return [note for note, holds in notes.items() if holds and note]
