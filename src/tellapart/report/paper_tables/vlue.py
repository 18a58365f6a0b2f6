"""VLUE's tables over several benchmarks: in domain and out of it (Table 2), captions (Table 3), performance and time (Table 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tellapart.errors import RunError
from tellapart.records.result import Value
from tellapart.report.measured import Measured
from tellapart.report.numbers import plain
from tellapart.report.paper_tables.paper_table import Cell, Column, PaperTable, Row, best_marked
from tellapart.report.plots.costs import Costs

__all__ = ["captions_table", "cost_table", "tasks_table"]

#: Task -> rows: what the paper calls it, our benchmark, our metric.
_TASKS: dict[str, tuple[tuple[str, str, str], ...]] = {
    **{
        task: tuple(
            (f"R@{k}{suffix}", benchmark, f"{side}_recall@{k}")
            for suffix, benchmark in (("", "coco-retrieval"), ("-OOD", "vlue-retrieval"))
            for k in (1, 5, 10)
        )
        for task, side in (("TR", "i2t"), ("IR", "t2i"))
    },
    "NLVR2": (("Test-P", "nlvr2", "accuracy"), ("Test-OOD", "vlue-nlvr2", "accuracy")),
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

#: What the paper calls performance: the mean of the two.
_PERFORMANCE = (("vlue-nlvr2", "accuracy"), ("vlue-vqa", "exact_match"))

_Numbers = Mapping[str, Mapping[tuple[str, str], Value]]


def tasks_table(runs: Sequence[Measured]) -> PaperTable:
    """Lay out VLUE's Table 2: models across, tasks and metrics down, out of domain below in domain; the best of a row is marked.

    Rows that no model measured are left out. VQA is measured by its own rule in domain (soft accuracy) and out of it (exact
    match), as in the paper.

    Raises:
        RunError: no run measured one of its benchmarks, or two runs of a model measured the same one.

    Source: Zhou et al. 2022, Table 2.

    >>> tasks_table([])
    Traceback (most recent call last):
    tellapart.errors.RunError: no run measured any of coco-retrieval, vlue-retrieval, nlvr2, vlue-nlvr2, vqa2 and 5 more
    """
    models = _numbers(runs)
    rows = [
        Row(label, tuple(_cell(own.get((benchmark, metric))) for own in models.values()), block=task)
        for task, lines in _TASKS.items()
        for label, benchmark, metric in lines
    ]
    kept = tuple(row for row in rows if any(cell.value is not None for cell in row.cells))
    if not kept:
        _refuse([benchmark for lines in _TASKS.values() for _, benchmark, _ in lines])
    columns = tuple(Column("", model) for model in models)
    notes = ("bold: the best of its row; OOD: out of domain",)
    return best_marked(PaperTable("VLUE, percent", ("task", "metric"), columns, kept, best_of="row", notes=notes))


def captions_table(runs: Sequence[Measured]) -> PaperTable:
    """Lay out VLUE's Table 3: models down, BLEU-4 and CIDEr in domain and out of it, times a hundred.

    Raises:
        RunError: no run measured captions, or two runs of a model measured the same benchmark.

    Source: Zhou et al. 2022, Table 3.

    >>> captions_table([])
    Traceback (most recent call last):
    tellapart.errors.RunError: no run measured any of coco-captions, vlue-captions
    """
    rows = [
        Row(model, tuple(_cell(own.get(source)) for source in _CAPTIONS.values()))
        for model, own in _numbers(runs).items()
    ]
    kept = tuple(row for row in rows if any(cell.value is not None for cell in row.cells))
    if not kept:
        _refuse([benchmark for benchmark, _ in _CAPTIONS.values()])
    columns = tuple(Column("", name) for name in _CAPTIONS)
    notes = ("bold: the best of its column; OOD: out of domain",)
    return best_marked(PaperTable("VLUE captions, times 100", ("model",), columns, kept, notes=notes))


def cost_table(runs: Sequence[Measured], costs: Costs) -> PaperTable:
    """Lay out VLUE's Table 4: models down; the mean of NLVR2 and VQA out of domain, and what a model costs (low is good).

    Raises:
        RunError: no run measured both benchmarks, two runs of a model the same one, or a model has no cost.

    Source: Zhou et al. 2022, Table 4 and Figure 2.

    >>> cost_table([], Costs("milliseconds", {}))
    Traceback (most recent call last):
    tellapart.errors.RunError: no run measured any of vlue-nlvr2, vlue-vqa
    """
    known = {plain(name): cost for name, cost in costs.of.items()}
    rows = []
    for model, own in _numbers(runs).items():
        found = [own[source].value for source in _PERFORMANCE if source in own]
        if len(found) < len(_PERFORMANCE):
            continue
        if model not in known:
            raise RunError(f"no {costs.what} of {model}; the file has {', '.join(known) or 'no model'}")
        rows.append(Row(model, (Cell(100 * sum(found) / len(found)), Cell(known[model]))))
    if not rows:
        _refuse([benchmark for benchmark, _ in _PERFORMANCE])
    columns = (Column("", "performance"), Column("", costs.what))
    notes = ("bold: the best of its column; performance: the mean of NLVR2 and VQA out of domain, percent",)
    table = PaperTable("VLUE, performance and cost", ("model",), columns, tuple(rows), notes=notes)
    return best_marked(table, lowest=(1,))


def _numbers(runs: Sequence[Measured]) -> _Numbers:
    """Put runs of one model together: model -> (benchmark, metric) -> number."""
    found: dict[str, dict[tuple[str, str], Value]] = {}
    for run in runs:
        own = found.setdefault(plain(run.result.model.name), {})
        for benchmark, record in run.result.benchmarks.items():
            if any(known == benchmark for known, _ in own):
                raise RunError(f"{run.result.model.name} measured {benchmark} in two of these runs; name one of them")
            own |= {(benchmark, metric): value for metric, value in record.metrics.items()}
    return found


def _cell(value: Value | None) -> Cell:
    if value is None:
        return Cell(None)
    if value.low is None or value.high is None:
        return Cell(100 * value.value)
    return Cell(100 * value.value, 100 * value.low, 100 * value.high)


def _refuse(benchmarks: Sequence[str]) -> None:
    named = list(dict.fromkeys(benchmarks))
    more = f" and {len(named) - 5} more" if len(named) > 5 else ""
    raise RunError(f"no run measured any of {', '.join(named[:5])}{more}")
