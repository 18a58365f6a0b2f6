"""VLUE's tables over several benchmarks: in and out of domain (2), captions (3), performance and time (4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

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
    references = _name_references(runs)
    columns = tuple(TableColumn("", model, reference=model in references) for model in models)
    table = PaperTable("VLUE, percent", ("task", "metric"), columns, tuple(rows), best_of="row")
    benchmarks = [benchmark for lines in _TASKS.values() for _, benchmark, _ in lines]
    return mark_best(_with_notes(table, runs, benchmarks, "bold: the best of its row; OOD: out of domain"))


def captions_table(runs: Sequence[System]) -> PaperTable:
    """Lay out VLUE's Table 3: models down, BLEU-4 and CIDEr in domain and out of it, times a hundred.

    Source: Zhou et al. 2022, Table 3.
    """
    references = _name_references(runs)
    rows = [
        TableRow(name, tuple(cells.get(source, _EMPTY) for source in _CAPTIONS.values()), reference=name in references)
        for name, cells in _collect_cells(runs).items()
    ]
    columns = tuple(TableColumn("", name) for name in _CAPTIONS)
    table = PaperTable("VLUE captions, times 100", ("model",), columns, tuple(rows))
    benchmarks = [benchmark for benchmark, _ in _CAPTIONS.values()]
    return mark_best(_with_notes(table, runs, benchmarks, "bold: the best of its column; OOD: out of domain"))


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
    columns = (TableColumn("", "performance"), TableColumn("", costs.what))
    table = PaperTable("VLUE, performance and cost", ("model",), columns, tuple(rows))
    legend = "bold: the best of its column; performance: the mean of NLVR2 and VQA out of domain, percent"
    return mark_best(_with_notes(table, runs, [benchmark for benchmark, _ in _PERFORMANCE], legend), lowest=(1,))


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


def _with_notes(table: PaperTable, runs: Sequence[System], benchmarks: Sequence[str], legend: str) -> PaperTable:
    """Leave out rows without a number; note parts of a benchmark, and other files than the published ones."""
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
    return replace(table, rows=measured, notes=(*notes, *unlike_published(runs, benchmarks)))


def _name_references(runs: Sequence[System]) -> set[str]:
    """Return the labels of reference models beside measured ones, which are never best."""
    return {run.label for run in runs} - {run.label for run in leave_references(runs)}
