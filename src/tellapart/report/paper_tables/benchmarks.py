"""Tables of benchmarks, models down: one as its paper lays it out, several side by side with averages, and VLUE's."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tellapart.benchmarks.benchmark import ALL
from tellapart.benchmarks.find import declared_benchmark, find_benchmark
from tellapart.benchmarks.minimal_pairs import SUBSETS
from tellapart.catalog import BENCHMARKS
from tellapart.data.rows import read_toml
from tellapart.errors import RunError, plain
from tellapart.evaluation.compare import rank_outcomes
from tellapart.evaluation.systems import System, omit_references
from tellapart.records.result import BenchmarkResult, Value, is_imported
from tellapart.report.measured import first_metrics, outcomes_of, pick_benchmark, title_of_set
from tellapart.report.numbers import describe_ties, items_text
from tellapart.report.paper_tables.table import AVERAGE, Layout, Source, mark_best, paper_layout, stack_groups
from tellapart.report.plots.pareto import Costs
from tellapart.report.tables import MODEL_COLUMNS, Cell, Column, Row, Table, name_model
from tellapart.report.templates import write_lines
from tellapart.tasks.registry import is_higher_better, main_metric

_DATA = read_toml(Path(__file__).with_name("layouts.toml"))


class _Measure(NamedTuple):
    """A column of a table with models down: each model's cell by its label, and the value of chance."""

    column: Column
    cells: Mapping[str, Cell]
    chance: float | None = None


def _make_rows(runs: Sequence[System], measures: Sequence[_Measure], labels: Container[str] | None = None) -> list[Row]:
    """Make a row for each model that has a cell, or is of `labels`; and the row of chance, if some is known."""
    ranked = omit_references(runs)
    cells_of = [(run, [of.cells.get(run.label) for of in measures]) for run in runs]
    rows = [
        Row(name_model(run.label, run.result), tuple(cell or Cell() for cell in cells), reference=run not in ranked)
        for run, cells in cells_of
        if (any(cells) if labels is None else run.label in labels)
    ]
    chance = Row(name_model("chance", None), tuple(Cell(of.chance) for of in measures), plain=True)
    return [*rows, chance] if any(of.chance is not None for of in measures) else rows


def _models_table(title: str, measures: Sequence[_Measure], rows: Sequence[Row], notes: Sequence[str] = ()) -> Table:
    return Table(title, tuple(MODEL_COLUMNS), tuple(of.column for of in measures), tuple(rows), notes=tuple(notes))


#: Suffix of a metric's name that is counted as the benchmark's authors do.
_AUTHORS_RULE = " (authors)"

_RECALLS = {
    (f"{side} retrieval{captions}", f"R@{k}"): f"{name}{rule}_recall@{k}"
    for captions, rule in (("", ""), (" (distinct captions)", "_distinct"))
    for side, name in (("Text", "i2t"), ("Image", "t2i"))
    for k in (1, 5, 10)
}


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


def _plain_layout(records: Sequence[BenchmarkResult]) -> Layout:
    """Return the layout of the metrics of a first look that all the records have; of retrieval with their mean."""
    names = first_metrics(records)
    authors = (name + _AUTHORS_RULE for name in names)
    names += tuple(name for name in authors if all(name in record.metrics for record in records))
    recalls = {headings: metric for headings, metric in _RECALLS.items() if metric in names}
    headed = {Column(*headings): metric for headings, metric in recalls.items()}
    others = (name for name in names if name not in recalls.values())
    headed |= {Column("", name.replace("_", " "), unranked=not is_higher_better(name)): name for name in others}
    # The mean is of the recalls of a gallery with an entry a row.
    if "i2t_recall@1" in names and all("mean_recall" in record.metrics for record in records):
        headed[Column("", "Mean")] = "mean_recall"
    return Layout({column: [Source(name)] for column, name in headed.items()})


class _Part(NamedTuple):
    """One benchmark of a table: its runs and records, its columns, the metrics in them, whether tiers were tested."""

    benchmark: str
    runs: Sequence[System]
    records: Sequence[BenchmarkResult]
    measures: list[_Measure]
    metrics: dict[str, list[tuple[str, Value | None]]]
    is_tested: bool

    @property
    def items(self) -> str:
        return max(map(items_text, self.records), key=len)


def _lay_out_set(runs: Sequence[System], benchmark: str | None, *, single: bool, with_tiers: bool, seed: int) -> _Part:
    """Lay a benchmark out as its paper does, else by the metrics of a first look; or by a `single` number.

    That is the average of the paper's table if it has one, of retrieval the mean recall, else what ranks models.
    """
    benchmark, measured = pick_benchmark(runs, benchmark)
    records = [_with_authors_rule(benchmark, run.record(benchmark)) for run in measured]
    paper = paper_layout(benchmark, records)
    average = next((column for column in (paper.columns if paper else ()) if column.name == AVERAGE), None)
    layout = paper if paper is not None and (average or not single) else _plain_layout(records)
    shown = list(layout.columns)
    if single:
        column_of = {source.metric: column for column, source in layout.unchanged.items()}
        shown = [average or column_of.get("mean_recall") or column_of[main_metric(first_metrics(records))]]
    sources = {column: source for column, source in layout.unchanged.items() if column in shown}
    rows = {
        run.label: layout.fill(record) or {column: Cell(imported=is_imported(record)) for column in layout.columns}
        for run, record in zip(measured, records, strict=True)
    }
    ranked = omit_references(measured)
    # Several models, each with outcomes of items.
    is_tested = with_tiers and len(ranked) > 1 and not any(_lacks_items(run.record(benchmark)) for run in ranked)
    for column, top in _first_tiers(sources, ranked, benchmark, seed) if is_tested else ():
        for label, cells in rows.items():
            cells[column].near = label in top
    chances = layout.fill(min(records, key=is_imported), lambda value: value.chance)
    chance_of = {column: cell.value for column, cell in chances.items()}
    measures = [_Measure(of, {label: row[of] for label, row in rows.items()}, chance_of.get(of)) for of in shown]
    # Over all items, of the metrics in the columns; of means, the main one.
    names = dict.fromkeys(source.metric.removesuffix(_AUTHORS_RULE) for source in sources.values())
    names = names or {main_metric(first_metrics(records)): None}
    numbers = {name: [(label, of.metrics.get(name)) for label, of in zip(rows, records, strict=True)] for name in names}
    return _Part(benchmark, measured, records, measures, numbers, is_tested)


def _lacks_items(record: BenchmarkResult) -> bool:
    """Return whether another tool measured this and left no outcomes of items."""
    return is_imported(record) and record.samples is None


def _first_tiers(
    sources: Mapping[Column, Source], ranked: Sequence[System], benchmark: str, seed: int
) -> Iterator[tuple[Column, Sequence[str]]]:
    """Find the models of the first tier in every column that is one number of items, if they are several."""
    shared = outcomes_of(ranked, benchmark, [*dict.fromkeys(source.metric for source in sources.values())])
    labels = [run.label for run in ranked]
    for column, source in sources.items():
        if source.metric not in shared.outcomes or source.tag in shared.retagged or not is_higher_better(source.metric):
            continue
        part = np.array([source.value in {ALL, tags.get(source.tag)} for tags in shared.tags], dtype=np.bool_)
        outcomes = dict(zip(labels, shared.outcomes[source.metric][part].T, strict=True))
        ranking = rank_outcomes(outcomes, shared.clusters[part], seed=seed)
        if ranking and len(ranking[0].names) > 1:
            yield column, ranking[0].names


def _write_notes(
    runs: Sequence[System], benchmarks: Sequence[str], parts: Sequence[_Part] = (), **facts: Any
) -> tuple[str, ...]:
    """Write the meaning of a table's marks, and which models chose the items or were measured on other files."""
    sets = [
        (name, measured, find_benchmark(name) if name in BENCHMARKS else None)
        for name in dict.fromkeys(benchmarks)
        for measured in [[(run, run.record(name)) for run in runs if name in run.result.benchmarks]]
    ]
    records = [record for part in parts for record in part.records]
    facts |= {"imported": any(map(is_imported, records)), "untested": any(map(_lacks_items, records))}
    return write_lines("marks", sets=sets, tested=any(part.is_tested for part in parts), average=AVERAGE, **facts)


def benchmark_table(
    runs: Sequence[System], benchmark: str | None = None, *, with_tiers: bool = True, seed: int = 0
) -> Table:
    """Lay runs of one benchmark out as its paper does (EqBen Table 3, BiVLC, SugarCrepe, VALSE, retrieval), in percent.

    The best of each column above chance is marked, and its tier; reference models beside others never are.
    """
    part = _lay_out_set(runs, benchmark, single=False, with_tiers=with_tiers, seed=seed)
    beside = len(omit_references(part.runs)) < len(part.runs)
    authors = any(of.column.name.endswith(_AUTHORS_RULE) for of in part.measures)
    facts = {"beside": beside, "authors": authors, "ties": describe_ties(part.metrics)}
    notes = _write_notes(part.runs, [part.benchmark], [part], **facts)
    title = ", ".join(filter(None, (title_of_set(part.runs, part.benchmark), part.items, "percent")))
    return mark_best(stack_groups(_models_table(title, part.measures, _make_rows(part.runs, part.measures), notes)))


def many_benchmarks_table(
    runs: Sequence[System],
    benchmarks: Sequence[str],
    *,
    average_as: Mapping[str, str],
    average: bool = False,
    sort: str | None = None,
    with_tiers: bool = True,
    seed: int = 0,
) -> Table:
    """Lay out several benchmarks side by side, in percent, each by one number; and averages.

    `average_as` are named averages of a benchmark's parts, and their definitions.
    """
    parts = [_lay_out_set(runs, name, single=True, with_tiers=with_tiers, seed=seed) for name in benchmarks]
    heads = [title_of_set(part.runs, part.benchmark) for part in parts]
    measures = [
        of._replace(column=replace(of.column, group=head, name=of.column.full_name))
        for head, part in zip(heads, parts, strict=True)
        for of in part.measures
    ]
    papers = any(of.column.name.endswith(AVERAGE) for of in measures)
    items = [f"{head}: {part.items}" for head, part in zip(heads, parts, strict=True) if part.items]
    metrics = {
        f"{head} {name}": of_models
        for head, part in zip(heads, parts, strict=True)
        for name, of_models in part.metrics.items()
    }
    names = [*benchmarks, *[AVERAGE] * average]
    if sort is not None and sort not in names:
        raise RunError(f"sort={sort}: this table has the columns {', '.join(names)}; sort by one of them")
    labels = {label for of in measures for label in of.cells}
    measures += [_average(measures)] * average
    measures += [_named_average(name, runs) for name in average_as]
    rows = _make_rows(runs, measures, labels)
    if sort is not None:
        rows.sort(key=lambda row: (row.plain, (value := row.cells[names.index(sort)].value) is None, -(value or 0)))
    facts = {"papers": papers, "averaged": average, "items": items, "average_as": average_as}
    facts |= {"beside": any(row.reference for row in rows), "ties": describe_ties(metrics)}
    notes = _write_notes(runs, benchmarks, parts, **facts)
    return mark_best(_models_table(f"{', '.join(heads)}, percent", measures, rows, notes))


def _average(measures: Sequence[_Measure]) -> _Measure:
    """Average columns: of models that have them all."""

    def mean(cells: Sequence[Cell]) -> Cell:
        numbers = [cell.value for cell in cells if cell.value is not None]
        if not numbers or len(numbers) < len(cells):
            return Cell()
        return Cell(sum(numbers) / len(numbers), imported=any(cell.imported for cell in cells))

    labels = dict.fromkeys(label for of in measures for label in of.cells)
    cells = {label: mean([of.cells.get(label, Cell()) for of in measures]) for label in labels}
    return _Measure(Column("", AVERAGE), cells, mean([Cell(of.chance) for of in measures]).value)


@cache
def parts_of(name: str) -> list[list[Source]]:
    """Return the parts of a named average: the plain mean over groups, in each of which every question weighs the same.

    A part weighs as many as its questions are.
    """

    def make_part(benchmark: str, metric: str, subset: str) -> Source:
        questions = 4 if metric == "individual_score" else 1  # a set of four photographs asks four questions
        size = SUBSETS[subset][0] if subset else questions * find_benchmark(benchmark).items
        return Source(metric, benchmark, "subset", subset or ALL, size)

    # A part is "benchmark metric", and of a subset "benchmark metric subset".
    return [[make_part(*f"{part} ".split(" ")[:3]) for part in group] for group in _DATA["averages"][name]["groups"]]


def _named_average(name: str, runs: Sequence[System]) -> _Measure:
    """Average parts of benchmarks, for models that have all of them."""
    groups = parts_of(name)
    means = {run.label: _mean_parts(groups, run, lambda value: value.value) for run in runs}
    if all(mean.value is None for mean in means.values()):
        needed = ", ".join(dict.fromkeys(part.benchmark for group in groups for part in group))
        raise RunError(f"average_as={name} is over all parts of {needed}; no run has them all")
    # Chance is the same of every model that has one.
    chances = [_mean_parts(groups, run, lambda v: v.chance) for run in runs if means[run.label].value is not None]
    return _Measure(Column("", name), means, next((cell.value for cell in chances if cell.value is not None), None))


def _mean_parts(groups: Sequence[Sequence[Source]], run: System, read: Callable[[Value], float | None]) -> Cell:
    """Return a model's average in percent, empty if a part is missing."""
    means, imported, complete = [], False, True
    for group in groups:
        total = 0.0
        for source in group:
            record = run.result.benchmarks.get(source.benchmark)
            value = None if record is None else source.read(record)
            number = None if value is None else read(value)
            imported |= value is not None and value.method == "imported"
            complete &= number is not None
            total += source.weight * (number or 0.0)
        means.append(total / sum(source.weight for source in group))
    return Cell(100 * sum(means) / len(means) if complete else None, imported=imported)


def _measure(runs: Sequence[System], column: Column, benchmark: str, metric: str) -> _Measure:
    """Return one number of every model that has it."""
    values = ((run.label, run.result.benchmarks[benchmark].metrics.get(metric))
              for run in runs if benchmark in run.result.benchmarks)  # fmt: skip
    cells = {label: Cell.with_interval(100 * value.value, value) for label, value in values if value is not None}
    return _Measure(column, cells)


def vlue_table(layout: str, runs: Sequence[System], costs: Costs | None = None) -> Table:
    """Lay out VLUE's Table 2, which has models across, Table 3 or Table 4, the mean of numbers beside `costs`.

    VQA is measured by soft accuracy in domain and by exact match out of it. Rows that no model measured are left out.
    Source: Zhou et al. 2022.
    """
    laid_out = _DATA["tables"][layout]
    sources = [(group, name, source) for group, of in laid_out["columns"].items() for name, source in of.items()]
    measures = [_measure(runs, Column(group, name), *source) for group, name, source in sources]
    if costs is not None:
        measures = _measure_costs(measures, runs, costs)
    ranked = omit_references(runs)
    table = _models_table(laid_out["title"], measures, _make_rows(runs, measures))
    if layout == "vlue":
        rows = (
            Row((column.group, column.name), tuple(cells.get(run.label, Cell()) for run in runs), block=column.group)
            for column, cells, _ in measures
            if cells
        )
        columns = tuple(Column("", run.label, reference=run not in ranked) for run in runs)
        table = Table(table.title, ("task", "metric"), columns, tuple(rows), best_of="row")
    names = list(dict.fromkeys(benchmark for *_, (benchmark, _) in sources))
    if not table.rows:
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        raise RunError(f"no run measured any of {', '.join(names[:5])}{more}")
    cut = [
        f"{name} {items_text(record)} ({run.label})"
        for name in names
        for run in runs
        if (record := run.result.benchmarks.get(name)) and record.limited_from is not None
    ]
    beside = len(ranked) < len(runs)
    table = replace(table, notes=_write_notes(runs, names, legend=laid_out["legend"], beside=beside, limited=cut))
    return mark_best(table, lowest=() if costs is None else (1,))


def _measure_costs(parts: Sequence[_Measure], runs: Sequence[System], costs: Costs) -> list[_Measure]:
    """Return the mean of some numbers and the cost, of models that have all of the numbers."""
    cost_of = {plain(name): cost for name, cost in costs.by_model.items()}
    names = {run.label: plain(run.result.model.name) for run in runs if all(run.label in of.cells for of in parts)}
    if lacking := [name for name in names.values() if name not in cost_of]:
        raise RunError(f"no {costs.title} of {lacking[0]}; the file has {', '.join(cost_of) or 'no model'}")
    means = _average(parts).cells
    performance = _Measure(Column("", "performance"), {label: Cell(means[label].value) for label in names})
    return [performance, _Measure(Column("", costs.title), {label: Cell(cost_of[of]) for label, of in names.items()})]
