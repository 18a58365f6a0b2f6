"""One table over many benchmarks, models down; and the averages that papers take of a benchmark's parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from tellapart.benchmarks.find import find_benchmark
from tellapart.benchmarks.sugarcrepe import SUBSETS
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


@dataclass(frozen=True, slots=True)
class Part:
    """A number that an average is taken of.

    Attributes:
        size: how many questions it is over, for parts that are pooled.
        subset: of SugarCrepe; empty for the full benchmark.
    """

    benchmark: str
    metric: str
    size: int
    subset: str = ""


#: Groups of parts: an average is the plain mean over groups; within a group every question weighs the same.
Groups = tuple[tuple[Part, ...], ...]


@cache
def parts_of(name: str) -> Groups:
    """Return the parts of a named average."""
    a, b = (_full_part(f"whatsup-{side}", "individual_score") for side in "ab")
    coco, genome = ((_full_part(f"whatsup-{of}-one"), _full_part(f"whatsup-{of}-two")) for of in ("coco", "vg"))
    six, seven = (a, b, *coco, *genome), _list_subsets("")
    groups: dict[str, Groups] = {
        "whatsup-six": _separate_parts(six),
        "whatsup-three": ((a, b), coco, genome),
        "whatsup-all": (six,),
        "whatsup-pairs": _separate_parts(
            (_full_part("whatsup-a", "pair_score"), _full_part("whatsup-b", "pair_score"))
        ),
        "whatsup-sets": _separate_parts((_full_part("whatsup-a", "set_score"), _full_part("whatsup-b", "set_score"))),
        "sugarcrepe-micro": (seven,),
        "sugarcrepe-macro": _separate_parts(seven),
        "sugarcrepe-three": (_list_subsets("replace"), _list_subsets("swap"), _list_subsets("add")),
    }
    return groups[name]


def _full_part(name: str, metric: str = "choice_score") -> Part:
    questions = 4 if metric == "individual_score" else 1  # a set of four photographs asks four questions
    return Part(name, metric, questions * find_benchmark(name).items)


def _list_subsets(kind: str) -> tuple[Part, ...]:
    subsets = [subset for subset in SUBSETS if subset.startswith(kind)]
    return tuple(Part("sugarcrepe", "choice_score", SUBSETS[subset][0], subset) for subset in subsets)


def _separate_parts(parts: tuple[Part, ...]) -> Groups:
    return tuple((part,) for part in parts)


def with_named_averages(table: PaperTable, runs: Sequence[System], named: Mapping[str, str]) -> PaperTable:
    """Add a column for each named average, for models that have all of its parts."""
    of = {run.label: run for run in runs}
    for name, title in named.items():
        groups = parts_of(name)
        means = {label: _mean_parts(groups, run) for label, run in of.items()}
        if all(value is None for value, _ in means.values()):
            needed = ", ".join(dict.fromkeys(part.benchmark for group in groups for part in group))
            raise RunError(f"average_as={name} is over all parts of {needed}; no run has them all")
        # Chance is the same of every model that has one.
        chance = next((chance for _, chance in means.values() if chance is not None), None)
        foreign = {label for label, run in of.items() if _is_imported(groups, run)}
        cells = [
            TableCell(means[row.label][0] if row.label in means else chance, imported=row.label in foreign)
            for row in table.rows
        ]
        rows = (replace(row, cells=(*row.cells, cell)) for row, cell in zip(table.rows, cells, strict=True))
        columns, notes = (*table.columns, TableColumn("", name)), (*table.notes, f"{name}: {title}")
        table = replace(table, columns=columns, rows=tuple(rows), notes=notes)
    return mark_best(table)


def _mean_parts(parts: Groups, run: System) -> tuple[float | None, float | None]:
    """Return a model's average and that of chance, in percent; None if a part is missing."""
    groups = [[(_find_value(part, run), part.size) for part in group] for group in parts]
    if any(value is None for group in groups for value, _ in group):
        return None, None
    measured = [[(value, size) for value, size in group if value is not None] for group in groups]
    chances = [[(value.chance, size) for value, size in group if value.chance is not None] for group in measured]
    mean = _over_groups([[(value.value, size) for value, size in group] for group in measured])
    return mean, _over_groups(chances) if list(map(len, chances)) == list(map(len, measured)) else None


def _is_imported(parts: Groups, run: System) -> bool:
    values = (_find_value(part, run) for group in parts for part in group)
    return any(value is not None and value.method == "imported" for value in values)


def _over_groups(groups: Sequence[Sequence[tuple[float, int]]]) -> float:
    pooled = [sum(value * size for value, size in group) / sum(size for _, size in group) for group in groups]
    return 100 * sum(pooled) / len(pooled)


def _find_value(part: Part, run: System) -> Value | None:
    record = run.result.benchmarks.get(part.benchmark)
    if record is None:
        return None
    metrics_there = record.by.get("subset", {}).get(part.subset, Metrics(metrics={})) if part.subset else record
    return metrics_there.metrics.get(part.metric)


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
    """Lay out several benchmarks side by side, in percent.

    A benchmark's column is the average of its paper's table if that has one (EqBen, VALSE), of retrieval the mean
    of the six recalls, else the metric that ranks it (the group score of 2x2 items, the accuracy of a choice). Best,
    tiers and chance are as in the table of one benchmark.
    """
    columns = [_make_column(runs, benchmark, with_tiers=with_tiers, seed=seed) for benchmark in benchmarks]
    models = [run.label for run in runs if any(run.label in column.of for column in columns)]
    ranked = {run.label for run in leave_references(runs)}
    cells = {model: tuple(column.of.get(model, TableCell(None)) for column in columns) for model in models}
    rows = [TableRow(model, row_cells, reference=model not in ranked) for model, row_cells in cells.items()]
    chance = TableRow("chance", tuple(column.chance for column in columns), plain=True)
    headings = [column.heading for column in columns]
    if average:
        headings.append(TableColumn("", _AVERAGE))
        rows = [replace(row, cells=(*row.cells, _mean_cell(row.cells))) for row in rows]
        chance = TableRow(chance.label, (*chance.cells, _mean_cell(chance.cells)), plain=True)
    if sort is not None:
        rows = _sort_rows(rows, [*benchmarks, *([_AVERAGE] if average else [])], sort)
    rows += [chance] if any(cell.value is not None for cell in chance.cells) else []
    title = f"{', '.join(column.benchmark for column in columns)}, percent"
    notes_of_references = [BESIDE] if any(row.reference for row in rows) else []
    notes = (*_write_notes(columns, average=average), *notes_of_references, *unlike_published(runs, benchmarks))
    return mark_best(PaperTable(title, ("model",), tuple(headings), tuple(rows), notes=notes))


def _sort_rows(rows: Sequence[TableRow], columns: Sequence[str], sort: str) -> list[TableRow]:
    if sort not in columns:
        raise RunError(f"sort={sort}: this table has the columns {', '.join(columns)}; sort by one of them")
    number = columns.index(sort)
    return sorted(rows, key=lambda row: -(row.cells[number].value or 0))


@dataclass(frozen=True, slots=True)
class _Column:
    """One benchmark.

    Attributes:
        of: model -> its number.
        metrics: the metric in its column -> the models, each with its number.
    """

    benchmark: str
    heading: TableColumn
    of: dict[str, TableCell]
    chance: TableCell
    items: str
    metrics: dict[str, list[tuple[str, Value | None]]]
    is_tested: bool
    is_imported: bool


def _make_column(runs: Sequence[System], benchmark: str, *, with_tiers: bool, seed: int) -> _Column:
    _, measured = pick_benchmark(runs, benchmark)
    names = [run.label for run in measured]
    records = [run.record(benchmark) for run in measured]
    layout = _headline_layout(benchmark, records)
    cells = [layout.cells(record) for record in records]
    is_tested = with_tiers and can_be_tested(leave_references(measured), benchmark)
    if is_tested:
        cells = mark_tiers(layout, measured, benchmark, cells, seed)
    (column,) = layout.columns
    return _Column(
        benchmark=title_of_set(measured, benchmark),
        heading=TableColumn(title_of_set(measured, benchmark), f"{column.group} {column.name}".strip()),
        of={name: cell for name, (cell,) in zip(names, cells, strict=True)},
        chance=layout.chance(min(records, key=is_imported))[0],
        items=max(map(items_text, records), key=len),
        metrics=metrics_in_columns(layout, measured, benchmark),
        is_tested=is_tested,
        is_imported=any(map(is_imported, records)),
    )


def _headline_layout(benchmark: str, records: Sequence[BenchmarkResult]) -> RowLayout:
    """Choose the one number of a benchmark that stands for it."""
    paper = paper_layout(benchmark, records)
    averages = (
        [] if paper is None else [number for number, column in enumerate(paper.columns) if column.name == _AVERAGE]
    )
    if paper is not None and averages:
        return paper.only(averages[0])
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
    notes = [BOLD]
    if any(column.is_tested for column in columns):
        notes.append(DAGGER)
    if any(column.is_imported for column in columns):
        notes.append(IMPORTED_BESIDE)
    if any(column.heading.name.endswith(_AVERAGE) for column in columns):
        notes.append(f"{_AVERAGE} below a benchmark: as its paper averages")
    if average:
        notes.append(f"{_AVERAGE}: the plain mean of the columns")
    counted = ", ".join(f"{one.benchmark}: {one.items}" for one in columns if one.items)
    notes += [counted] if counted else []
    ties = describe_ties({f"{one.benchmark} {name}": of for one in columns for name, of in one.metrics.items()})
    return [*notes, ties] if ties else notes
