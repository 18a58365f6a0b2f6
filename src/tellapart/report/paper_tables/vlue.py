"""VLUE's tables over several benchmarks: in and out of domain (2), captions (3), performance and time (4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tellapart.errors import RunError, plain
from tellapart.evaluation.systems import System, leave_references
from tellapart.report.numbers import items_text
from tellapart.report.paper_tables.benchmarks import BESIDE, unlike_published
from tellapart.report.paper_tables.table import PaperTable, TableCell, TableColumn, TableRow, mark_best
from tellapart.report.plots.pareto import Costs

#: Task -> rows: the paper's name, our benchmark, our metric.
_TASKS: dict[str, tuple[tuple[str, str, str], ...]] = {
    **{
        task: tuple(
            (f"R@{k}{suffix}", benchmark, f"{side}_recall@{k}")
            for suffix, benchmark in (("", "coco-retrieval"), ("-OOD", "vlue-retrieval"))
            for k in (1, 5, 10)
        )
        for task, side in (("TR", "i2t"), ("IR", "t2i"))
    },
    "NLVR2": (
        ("Dev", "nlvr2-dev", "accuracy"),
        ("Test-P", "nlvr2", "accuracy"),
        ("Test-OOD", "vlue-nlvr2", "accuracy"),
    ),
    "VQA": (("Test", "vqa2", "soft_accuracy"), ("Test-OOD", "vlue-vqa", "exact_match")),
    "Visual Grounding": (
        ("Val", "refcoco+-val", "box_accuracy"),
        ("Test-A", "refcoco+-testa", "box_accuracy"),
        ("Test-B", "refcoco+-testb", "box_accuracy"),
        ("Test-OOD", "vlue-grounding", "box_accuracy"),
    ),
}

_CAPTIONS = {
    "BLEU4": ("coco-captions", "bleu_4"),
    "CIDEr": ("coco-captions", "cider"),
    "BLEU4-OOD": ("vlue-captions", "bleu_4"),
    "CIDEr-OOD": ("vlue-captions", "cider"),
}

#: Performance, as the paper calls it: the mean of the two.
_PERFORMANCE = (("vlue-nlvr2", "accuracy"), ("vlue-vqa", "exact_match"))

_EMPTY = TableCell(None)


def tasks_table(runs: Sequence[System]) -> PaperTable:
    """Lay out VLUE's Table 2: models across, tasks and metrics down; the best of a row is marked.

    Rows that no model measured are left out. VQA is measured by soft accuracy in domain and by exact match out of it,
    as in the paper.

    Source: Zhou et al. 2022, Table 2.
    """
    models = _collect_cells(runs)
    rows = [
        TableRow(label, tuple(cells.get((benchmark, metric), _EMPTY) for cells in models.values()), block=task)
        for task, lines in _TASKS.items()
        for label, benchmark, metric in lines
    ]
    benchmarks = [benchmark for lines in _TASKS.values() for _, benchmark, _ in lines]
    measured = _measured_rows(rows, benchmarks)
    references = _name_references(runs)
    columns = tuple(TableColumn("", model, reference=model in references) for model in models)
    notes = ("bold: the best of its row; OOD: out of domain", *_list_deviations(runs, benchmarks))
    return mark_best(PaperTable("VLUE, percent", ("task", "metric"), columns, measured, best_of="row", notes=notes))


def captions_table(runs: Sequence[System]) -> PaperTable:
    """Lay out VLUE's Table 3: models down, BLEU-4 and CIDEr in domain and out of it, times a hundred.

    Source: Zhou et al. 2022, Table 3.
    """
    references = _name_references(runs)
    rows = [
        TableRow(name, tuple(cells.get(source, _EMPTY) for source in _CAPTIONS.values()), reference=name in references)
        for name, cells in _collect_cells(runs).items()
    ]
    benchmarks = [benchmark for benchmark, _ in _CAPTIONS.values()]
    measured = _measured_rows(rows, benchmarks)
    columns = tuple(TableColumn("", name) for name in _CAPTIONS)
    notes = ("bold: the best of its column; OOD: out of domain", *_list_deviations(runs, benchmarks))
    return mark_best(PaperTable("VLUE captions, times 100", ("model",), columns, measured, notes=notes))


def cost_table(runs: Sequence[System], costs: Costs) -> PaperTable:
    """Lay out VLUE's Table 4: models down; the mean of NLVR2 and VQA out of domain, and a cost (low is good).

    Source: Zhou et al. 2022, Table 4 and Figure 2.
    """
    cost_of = {plain(name): cost for name, cost in costs.of.items()}
    references, rows = _name_references(runs), []
    for run in runs:
        records, model = run.result.benchmarks, plain(run.result.model.name)
        values = [records[name].metrics.get(metric) for name, metric in _PERFORMANCE if name in records]
        scores = [value.value for value in values if value is not None]
        if len(scores) < len(_PERFORMANCE):
            continue
        if model not in cost_of:
            raise RunError(f"no {costs.what} of {model}; the file has {', '.join(cost_of) or 'no model'}")
        cells = TableCell(100 * sum(scores) / len(scores)), TableCell(cost_of[model])
        rows.append(TableRow(run.label, cells, reference=run.label in references))
    benchmarks = [benchmark for benchmark, _ in _PERFORMANCE]
    measured = _measured_rows(rows, benchmarks)
    columns = (TableColumn("", "performance"), TableColumn("", costs.what))
    legend = "bold: the best of its column; performance: the mean of NLVR2 and VQA out of domain, percent"
    notes = (legend, *_list_deviations(runs, benchmarks))
    table = PaperTable("VLUE, performance and cost", ("model",), columns, measured, notes=notes)
    return mark_best(table, lowest=(1,))


def _collect_cells(runs: Sequence[System]) -> Mapping[str, Mapping[tuple[str, str], TableCell]]:
    """Return model -> (benchmark, metric) -> number."""
    return {
        run.label: {
            (benchmark, metric): TableCell.with_interval(100 * value.value, value)
            for benchmark, record in run.result.benchmarks.items()
            for metric, value in record.metrics.items()
        }
        for run in runs
    }


def _list_deviations(runs: Sequence[System], benchmarks: Sequence[str]) -> list[str]:
    """Name the numbers of the table of a part of their benchmark, or of other files than the published ones."""
    cut = [
        f"{benchmark} {items_text(record)} ({run.label})"
        for benchmark in dict.fromkeys(benchmarks)
        for run in runs
        if (record := run.result.benchmarks.get(benchmark)) and record.limited_from is not None
    ]
    limited = [f"limited: {', '.join(cut)}"] if cut else []
    return [*([BESIDE] if _name_references(runs) else []), *limited, *unlike_published(runs, benchmarks)]


def _name_references(runs: Sequence[System]) -> set[str]:
    """Return the labels of reference models beside measured ones, which are never best."""
    return {run.label for run in runs} - {run.label for run in leave_references(runs)}


def _measured_rows(rows: Sequence[TableRow], benchmarks: Sequence[str]) -> tuple[TableRow, ...]:
    """Leave out rows without a number; without any, refuse to make a table."""
    measured = tuple(row for row in rows if any(cell.value is not None for cell in row.cells))
    if not measured:
        names = list(dict.fromkeys(benchmarks))
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        raise RunError(f"no run measured any of {', '.join(names[:5])}{more}")
    return measured
