"""VLUE's tables over several benchmarks: in and out of domain (2), captions (3), performance and time (4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tellapart.data.rows import read_toml
from tellapart.errors import RunError, plain
from tellapart.evaluation.systems import System, leave_references
from tellapart.report.numbers import items_text
from tellapart.report.paper_tables.benchmarks import BESIDE, unlike_published
from tellapart.report.paper_tables.table import PaperTable, TableCell, TableColumn, TableRow, mark_best
from tellapart.report.plots.pareto import Costs

_DATA = read_toml(Path(__file__).with_name("vlue.toml"))

_EMPTY = TableCell(None)


def tasks_table(runs: Sequence[System]) -> PaperTable:
    """Lay out VLUE's Table 2: models across, tasks and metrics down; rows that no model measured are left out.

    VQA is measured by soft accuracy in domain and by exact match out of it.

    Source: Zhou et al. 2022, Table 2.
    """
    models, references = _collect_cells(runs), _name_references(runs)
    rows = [
        TableRow(label, tuple(cells.get((benchmark, metric), _EMPTY) for cells in models.values()), block=task)
        for task, lines in _DATA["tasks"].items()
        for label, (benchmark, metric) in lines.items()
    ]
    columns = tuple(TableColumn("", model, reference=model in references) for model in models)
    table = PaperTable("VLUE, percent", ("task", "metric"), columns, tuple(rows), best_of="row")
    names = [name for lines in _DATA["tasks"].values() for name, _ in lines.values()]
    return _mark_and_note(table, runs, names, "bold: the best of its row; OOD: out of domain")


def captions_table(runs: Sequence[System]) -> PaperTable:
    """Lay out VLUE's Table 3: models down, BLEU-4 and CIDEr in domain and out of it, times a hundred.

    Source: Zhou et al. 2022, Table 3.
    """
    references, sources = _name_references(runs), [*map(tuple, _DATA["captions"].values())]
    rows = [
        TableRow(name, tuple(cells.get(source, _EMPTY) for source in sources), reference=name in references)
        for name, cells in _collect_cells(runs).items()
    ]
    columns = tuple(TableColumn("", name) for name in _DATA["captions"])
    table = PaperTable("VLUE captions, times 100", ("model",), columns, tuple(rows))
    legend = "bold: the best of its column; OOD: out of domain"
    return _mark_and_note(table, runs, [name for name, _ in sources], legend)


def cost_table(runs: Sequence[System], costs: Costs) -> PaperTable:
    """Lay out VLUE's Table 4: models down; the mean of NLVR2 and VQA out of domain, and a cost (low is good).

    Source: Zhou et al. 2022, Table 4 and Figure 2.
    """
    cost_of = {plain(name): cost for name, cost in costs.of.items()}
    references, sources, rows = _name_references(runs), [*map(tuple, _DATA["performance"].values())], []
    for run, cells in zip(runs, _collect_cells(runs).values(), strict=True):
        model, scores = plain(run.result.model.name), [cells[source].value for source in sources if source in cells]
        if len(scores) < len(sources):
            continue
        if model not in cost_of:
            raise RunError(f"no {costs.what} of {model}; the file has {', '.join(cost_of) or 'no model'}")
        mean = sum(score or 0.0 for score in scores) / len(scores)
        rows.append(
            TableRow(run.label, (TableCell(mean), TableCell(cost_of[model])), reference=run.label in references)
        )
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
