"""Averages that papers take of a benchmark's parts, by name: of What'sUp's six sets, of SugarCrepe's seven subsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from tellapart.benchmarks.find import find_benchmark
from tellapart.benchmarks.sugarcrepe import SUBSETS
from tellapart.errors import RunError
from tellapart.evaluation.systems import System
from tellapart.records.result import Metrics, Value
from tellapart.report.paper_tables.paper_table import PaperTable, TableCell, TableColumn, mark_best


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
