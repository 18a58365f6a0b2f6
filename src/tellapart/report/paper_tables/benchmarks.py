"""Tables of benchmarks, models down: one as its paper lays it out, several side by side with averages, and VLUE's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tellapart.benchmarks.benchmark import ALL
from tellapart.benchmarks.benchmark import PaperTable as RowOf
from tellapart.benchmarks.find import declared_benchmark, find_benchmark
from tellapart.benchmarks.minimal_pairs import SUBSETS
from tellapart.catalog import BENCHMARKS
from tellapart.data.rows import read_toml
from tellapart.errors import RunError, plain
from tellapart.evaluation.compare import rank_outcomes
from tellapart.evaluation.systems import System, leave_references
from tellapart.records.result import BenchmarkResult, Metrics, Value, is_imported
from tellapart.report.measured import first_metrics, outcomes_of, pick_benchmark, title_of_set
from tellapart.report.numbers import describe_ties, items_text, thousands
from tellapart.report.paper_tables.table import (
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
from tellapart.report.plots.pareto import Costs
from tellapart.tasks.registry import main_metric

_DATA = read_toml(Path(__file__).with_name("layouts.toml"))

#: Source of a cell's number: a tag's value (or ALL), and the metric.
_Source = tuple[str, str]

#: Suffix of a metric's name that is counted as the benchmark's authors do.
_AUTHORS_RULE = " (authors)"

_RECALLS = {
    (f"{side} retrieval{captions}", f"R@{k}"): f"{name}{rule}_recall@{k}"
    for captions, rule in (("", ""), (" (distinct captions)", "_distinct"))
    for side, name in (("Text", "i2t"), ("Image", "t2i"))
    for k in (1, 5, 10)
}


@dataclass(frozen=True, slots=True)
class _RowLayout:
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

    def only(self, number: int) -> _RowLayout:
        """Return a layout of one of its columns."""

        def row_of(numbers: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
            return dict([list(self.row_of(numbers).items())[number]])

        return _RowLayout(self.tag, row_of, (self.columns[number],), (self.sources[number],))

    def _fill_row(self, numbers: Mapping[str, Mapping[str, float]]) -> list[float | None]:
        row = paper_row(self.row_of, numbers)
        return [None] * len(self.columns) if row is None or len(row) != len(self.columns) else list(row.values())


def _with_authors_rule(benchmark: str, record: BenchmarkResult) -> BenchmarkResult:
    """Add the numbers that the benchmark's authors print to a record, if they do not count every tie as wrong."""
    declared = declared_benchmark(benchmark)
    if declared is None or declared.tie_rule == "wrong" or is_imported(record):
        return record
    added, bare = {}, dict.fromkeys(("low", "high", "reason"))  # an interval would need the items
    for name in first_metrics([record]):
        value = record.metrics[name]
        number = value.value if value.official is None else value.official
        added[name + _AUTHORS_RULE] = value.model_copy(update={"value": number, **bare})
    return record.model_copy(update={"metrics": record.metrics | added})


def _paper_layout(benchmark: str, records: Sequence[BenchmarkResult]) -> _RowLayout | None:
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
            return _RowLayout(tag, row_of, columns, _find_sources(row_of, groups, tuple(row)))
    return None


def _plain_layout(records: Sequence[BenchmarkResult]) -> _RowLayout:
    """Return the layout of the metrics of a first look that all the records have; of retrieval with their mean."""
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

    return _RowLayout("", row_of, tuple(headed), tuple((ALL, name) for name in headed.values()))


def _find_sources(
    row_of: RowOf, groups: Mapping[str, Mapping[str, Value]], row: tuple[str, ...]
) -> tuple[_Source | None, ...]:
    """Find the cells that are one number unchanged: with all others zero, a cell holds that number's weight."""
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


class _Laid(NamedTuple):
    """The runs of one benchmark, their records, and a row of cells for each; whether their tiers were tested."""

    benchmark: str
    runs: Sequence[System]
    records: Sequence[BenchmarkResult]
    layout: _RowLayout
    cells: Sequence[tuple[TableCell, ...]]
    is_tested: bool

    @property
    def items(self) -> str:
        return max(map(items_text, self.records), key=len)

    @property
    def chance(self) -> tuple[TableCell, ...]:
        return self.layout.chance(min(self.records, key=is_imported))

    @property
    def metrics(self) -> dict[str, list[tuple[str, Value | None]]]:
        """The numbers over all items, by model, of the metrics in the columns; of means, the main one."""
        metrics = [source[1].removesuffix(_AUTHORS_RULE) for source in self.layout.sources if source is not None]
        names = dict.fromkeys(metrics) or [main_metric(first_metrics(self.records))]
        labelled = [(run.label, record.metrics) for run, record in zip(self.runs, self.records, strict=True)]
        return {name: [(label, numbers.get(name)) for label, numbers in labelled] for name in names}


def _lay_out_runs(
    runs: Sequence[System],
    benchmark: str | None,
    layout_of: Callable[[str, Sequence[BenchmarkResult]], _RowLayout],
    with_tiers: bool,
    seed: int,
) -> _Laid:
    benchmark, measured = pick_benchmark(runs, benchmark)
    records = [_with_authors_rule(benchmark, run.record(benchmark)) for run in measured]
    layout = layout_of(benchmark, records)
    cells = [layout.cells(record) for record in records]
    ranked = leave_references(measured)
    # Several models, each with outcomes of items.
    is_tested = with_tiers and len(ranked) > 1 and not any(is_imported(run.record(benchmark)) for run in ranked)
    if is_tested:
        for number, top in _first_tiers(layout, ranked, benchmark, seed):
            for run, row in zip(measured, cells, strict=True):
                row[number].near = run.label in top
    return _Laid(benchmark, measured, records, layout, cells, is_tested)


def _first_tiers(
    layout: _RowLayout, ranked: Sequence[System], benchmark: str, seed: int
) -> Iterator[tuple[int, Sequence[str]]]:
    """Find the models of the first tier in every column that is one number of items, if they are several."""
    read = outcomes_of(ranked, benchmark, {source[1] for source in layout.sources if source is not None})
    for number, source in enumerate(layout.sources):
        if source is None or source[1] not in read:
            continue
        outcomes = read[source[1]]
        mask = np.array([source[0] in {ALL, tags.get(layout.tag)} for tags in outcomes.tags], dtype=np.bool_)
        if not mask.any():
            continue
        clusters = [cluster for cluster, selected in zip(outcomes.clusters, mask, strict=True) if selected]
        of_mask = {label: values[mask] for label, values in outcomes.of.items()}
        if len(top := rank_outcomes(of_mask, clusters, seed=seed)[0].names) > 1:
            yield number, top


#: Meaning of a mark on reference models in a table.
BESIDE = "reference models, which bound the numbers, are not marked"


def _write_notes(parts: Sequence[_Laid], further: Mapping[str, bool], ties: str) -> list[str]:
    """Write the meaning of the marks in a table with models down, then further notes if they hold."""
    tested = any(part.is_tested for part in parts)
    imported = any(is_imported(record) for part in parts for record in part.records)
    dagger = "dagger: not significantly different from the best on these items (Holm over all pairs of models, 5%)"
    elsewhere = "imported: measured by another tool, whose ties count otherwise; not tested against the others"
    bold = "bold: the best of its column, if it is above chance"
    notes = {bold: True, dagger: tested, elsewhere: imported, **further, ties: True}
    return [note for note, holds in notes.items() if holds and note]


def benchmark_table(
    runs: Sequence[System], benchmark: str | None = None, *, with_tiers: bool = True, seed: int = 0
) -> PaperTable:
    """Lay runs of one benchmark out as its paper does (EqBen Table 3, BiVLC, SugarCrepe, VALSE, retrieval), in percent.

    The best of each column above chance is marked, and its tier; reference models beside others never are.
    """
    laid = _lay_out_runs(
        runs, benchmark, lambda name, records: _paper_layout(name, records) or _plain_layout(records), with_tiers, seed
    )
    ranked, columns = leave_references(laid.runs), laid.layout.columns
    named = zip(laid.runs, laid.cells, strict=True)
    rows = [TableRow(run.label, row, reference=run not in ranked) for run, row in named]
    by_authors = any(column.name.endswith(_AUTHORS_RULE) for column in columns)
    further = {
        BESIDE: len(ranked) < len(laid.runs),
        "authors: ties as the benchmark's own code counts them": by_authors,
    }
    notes = _write_notes([laid], further, describe_ties(laid.metrics))
    notes += unlike_published(laid.runs, [laid.benchmark])
    chance = TableRow("chance", laid.chance, plain=True)
    rows += [chance] if any(cell.value is not None for cell in chance.cells) else []
    title = ", ".join(filter(None, (title_of_set(laid.runs, laid.benchmark), laid.items, "percent")))
    return mark_best(stack_groups(PaperTable(title, ("model",), columns, tuple(rows), notes=tuple(notes))))


def unlike_published(runs: Sequence[System], benchmarks: Sequence[str]) -> list[str]:
    """Name the models that chose the items themselves, or were measured on other files than the published ones."""
    notes, counts = [], []
    for benchmark in dict.fromkeys(benchmarks):
        measured = [(run, run.result.benchmarks[benchmark]) for run in runs if benchmark in run.result.benchmarks]
        declared = find_benchmark(benchmark) if benchmark in BENCHMARKS else None
        if mined := [run.label for run, _ in measured if declared and declared.was_mined_by(run.result.model.name)]:
            left_out = f"chose the items of {benchmark} where it failed, and its authors leave it out"
            notes.append(f"{left_out}: {', '.join(mined)} (does not compare)")
        if published := {run.label: of.published_items for run, of in measured if of.published_items is not None}:
            number = thousands(next(iter(published.values())))
            other = f"not the published files of {benchmark}, which hold {number} records"
            counts.append(f"{other}: {', '.join(published)} (does not compare)")
    return notes + counts


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
    """Lay out several benchmarks side by side, in percent, each by the one number that stands for it."""
    parts = [_lay_out_runs(runs, benchmark, _headline_layout, with_tiers, seed) for benchmark in benchmarks]
    heads = [TableColumn(title_of_set(part.runs, part.benchmark), part.layout.columns[0].full_name) for part in parts]
    cells_of = [{run.label: cell for run, (cell,) in zip(part.runs, part.cells, strict=True)} for part in parts]

    def make_row(label: str, cells: tuple[TableCell, ...], **kind: Any) -> TableRow:
        numbers = [cell.value for cell in cells if cell.value is not None]
        mean = sum(numbers) / len(numbers) if numbers and len(numbers) == len(cells) else None
        imported = mean is not None and any(cell.imported for cell in cells)
        return TableRow(label, (*cells, *([TableCell(mean, imported=imported)] if average else [])), **kind)

    ranked = {run.label for run in leave_references(runs)}
    rows = [
        make_row(name, tuple(cells.get(name, TableCell(None)) for cells in cells_of), reference=name not in ranked)
        for name in (run.label for run in runs)
        if any(name in cells for cells in cells_of)
    ]
    chance = make_row("chance", tuple(part.chance[0] for part in parts), plain=True)
    further = {
        f"{_AVERAGE} below a benchmark: as its paper averages": any(head.name.endswith(_AVERAGE) for head in heads),
        f"{_AVERAGE}: the plain mean of the columns": average,
        ", ".join(f"{head.group}: {part.items}" for head, part in zip(heads, parts, strict=True) if part.items): True,
    }
    metrics = {
        f"{head.group} {name}": of_models
        for head, part in zip(heads, parts, strict=True)
        for name, of_models in part.metrics.items()
    }
    notes = _write_notes(parts, further, describe_ties(metrics))
    notes += [BESIDE] if any(row.reference for row in rows) else []
    if sort is not None:
        names = [*benchmarks, *([_AVERAGE] if average else [])]
        if sort not in names:
            raise RunError(f"sort={sort}: this table has the columns {', '.join(names)}; sort by one of them")
        rows.sort(key=lambda row: -(row.cells[names.index(sort)].value or 0))
    rows += [chance] if any(cell.value is not None for cell in chance.cells) else []
    title = f"{', '.join(head.group for head in heads)}, percent"
    columns = (*heads, *([TableColumn("", _AVERAGE)] if average else []))
    notes += unlike_published(runs, benchmarks)
    return mark_best(PaperTable(title, ("model",), columns, tuple(rows), notes=tuple(notes)))


def _headline_layout(benchmark: str, records: Sequence[BenchmarkResult]) -> _RowLayout:
    """Lay out the average of the paper's table if it has one, of retrieval the mean recall, else what ranks models."""
    if paper := _paper_layout(benchmark, records):
        for number, column in enumerate(paper.columns):
            if column.name == _AVERAGE:
                return paper.only(number)
    layout = _plain_layout(records)
    metrics = [source[1] for source in layout.sources if source is not None]
    main = "mean_recall" if "mean_recall" in metrics else main_metric(first_metrics(records))
    return layout.only(metrics.index(main))


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

    def make_part(benchmark: str, metric: str, subset: str) -> Part:
        questions = 4 if metric == "individual_score" else 1  # a set of four photographs asks four questions
        size = SUBSETS[subset][0] if subset else questions * find_benchmark(benchmark).items
        return Part(benchmark, metric, size, subset)

    # A part is "benchmark metric", and of a subset "benchmark metric subset".
    return [[make_part(*f"{part} ".split(" ")[:3]) for part in group] for group in _DATA["averages"][name]["groups"]]


def with_named_averages(table: PaperTable, runs: Sequence[System], named: Mapping[str, str]) -> PaperTable:
    """Add a column for each named average, for models that have all of its parts."""
    for name, title in named.items():
        groups = parts_of(name)
        means = {run.label: _mean_parts(groups, run, lambda value: value.value) for run in runs}
        if all(mean.value is None for mean in means.values()):
            needed = ", ".join(dict.fromkeys(part.benchmark for group in groups for part in group))
            raise RunError(f"average_as={name} is over all parts of {needed}; no run has them all")
        # Chance is the same of every model that has one.
        chances = [_mean_parts(groups, run, lambda v: v.chance) for run in runs if means[run.label].value is not None]
        chance = next((cell.value for cell in chances if cell.value is not None), None)
        rows = tuple(replace(row, cells=(*row.cells, means.get(row.label, TableCell(chance)))) for row in table.rows)
        columns, notes = (*table.columns, TableColumn("", name)), (*table.notes, f"{name}: {title}")
        table = replace(table, columns=columns, rows=rows, notes=notes)
    return mark_best(table)


def _mean_parts(groups: Groups, run: System, read: Callable[[Value], float | None]) -> TableCell:
    """Return a model's average in percent, empty if a part is missing."""
    means, imported, complete = [], False, True
    for group in groups:
        total = 0.0
        for part in group:
            record = run.result.benchmarks.get(part.benchmark)
            metrics = {} if record is None else record.metrics
            if part.subset and record is not None:
                metrics = record.by.get("subset", {}).get(part.subset, Metrics(metrics={})).metrics
            value = metrics.get(part.metric)
            number = None if value is None else read(value)
            imported |= value is not None and value.method == "imported"
            complete &= number is not None
            total += part.size * (number or 0.0)
        means.append(total / sum(part.size for part in group))
    return TableCell(100 * sum(means) / len(means) if complete else None, imported=imported)


def tasks_table(runs: Sequence[System]) -> PaperTable:
    """Lay out VLUE's Table 2: models across, tasks and metrics down; rows that no model measured are left out.

    VQA is measured by soft accuracy in domain and by exact match out of it. Source: Zhou et al. 2022, Table 2.
    """
    models, references = _collect_cells(runs), _name_references(runs)
    rows = [
        TableRow(label, tuple(cells.get((benchmark, metric), TableCell(None)) for cells in models.values()), block=task)
        for task, lines in _DATA["tasks"].items()
        for label, (benchmark, metric) in lines.items()
    ]
    columns = tuple(TableColumn("", model, reference=model in references) for model in models)
    table = PaperTable("VLUE, percent", ("task", "metric"), columns, tuple(rows), best_of="row")
    names = [name for lines in _DATA["tasks"].values() for name, _ in lines.values()]
    return _mark_and_note(table, runs, names, "bold: the best of its row; OOD: out of domain")


def captions_table(runs: Sequence[System]) -> PaperTable:
    """Lay out VLUE's Table 3 (Zhou et al. 2022): models down, BLEU-4 and CIDEr in and out of domain, times 100."""
    references, sources = _name_references(runs), [*map(tuple, _DATA["captions"].values())]
    rows = [
        TableRow(name, tuple(cells.get(source, TableCell(None)) for source in sources), reference=name in references)
        for name, cells in _collect_cells(runs).items()
    ]
    columns = tuple(TableColumn("", name) for name in _DATA["captions"])
    table = PaperTable("VLUE captions, times 100", ("model",), columns, tuple(rows))
    legend = "bold: the best of its column; OOD: out of domain"
    return _mark_and_note(table, runs, [name for name, _ in sources], legend)


def cost_table(runs: Sequence[System], costs: Costs) -> PaperTable:
    """Lay out VLUE's Table 4 (Zhou et al. 2022): models down; the mean of NLVR2 and VQA out of domain, and a cost."""
    cost_of = {plain(name): cost for name, cost in costs.of.items()}
    references, sources, rows = _name_references(runs), [*map(tuple, _DATA["performance"].values())], []
    for run, cells in zip(runs, _collect_cells(runs).values(), strict=True):
        model, scores = plain(run.result.model.name), [cells[source].value for source in sources if source in cells]
        if len(scores) < len(sources):
            continue
        if model not in cost_of:
            raise RunError(f"no {costs.what} of {model}; the file has {', '.join(cost_of) or 'no model'}")
        shown = (TableCell(sum(score or 0.0 for score in scores) / len(scores)), TableCell(cost_of[model]))
        rows.append(TableRow(run.label, shown, reference=run.label in references))
    columns = (TableColumn("", "performance"), TableColumn("", costs.what))
    table = PaperTable("VLUE, performance and cost", ("model",), columns, tuple(rows))
    legend = "bold: the best of its column; performance: the mean of NLVR2 and VQA out of domain, percent"
    return _mark_and_note(table, runs, [name for name, _ in sources], legend, lowest=(1,))


def _collect_cells(runs: Sequence[System]) -> Mapping[str, Mapping[tuple[str, ...], TableCell]]:
    """Return model -> (benchmark, metric) -> number."""
    return {
        run.label: {
            (benchmark, metric): TableCell.with_interval(100 * value.value, value)
            for benchmark, record in run.result.benchmarks.items()
            for metric, value in record.metrics.items()
        }
        for run in runs
    }


def _mark_and_note(
    table: PaperTable, runs: Sequence[System], benchmarks: Sequence[str], legend: str, lowest: Sequence[int] = ()
) -> PaperTable:
    """Leave out rows without a number, mark the best; note parts of a benchmark, and other than published files."""
    names = list(dict.fromkeys(benchmarks))
    measured = tuple(row for row in table.rows if any(cell.value is not None for cell in row.cells))
    if not measured:
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        raise RunError(f"no run measured any of {', '.join(names[:5])}{more}")
    cut = [
        f"{name} {items_text(record)} ({run.label})"
        for name in names
        for run in runs
        if (record := run.result.benchmarks.get(name)) and record.limited_from is not None
    ]
    notes = [legend, *([BESIDE] if _name_references(runs) else []), *([f"limited: {', '.join(cut)}"] if cut else [])]
    return mark_best(replace(table, rows=measured, notes=(*notes, *unlike_published(runs, names))), lowest)


def _name_references(runs: Sequence[System]) -> set[str]:
    """Return the labels of reference models beside measured ones, which are never best."""
    return {run.label for run in runs} - {run.label for run in leave_references(runs)}
