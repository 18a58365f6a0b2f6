"""A heat map of one metric: the values of a tag down, models across; its numbers, and a table for HTML pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tellapart.benchmarks.find import declared_benchmark
from tellapart.errors import RunError, nearest
from tellapart.records.result import BenchmarkResult, Value
from tellapart.report.numbers import is_deviation
from tellapart.report.sections import shared_headline
from tellapart.tasks.registry import main_metric


@dataclass(frozen=True, slots=True)
class HeatRow:
    """The items of one value of the tag, or all of them (`n`, 0 if unknown): a number a model, None if it has none."""

    name: str
    n: int
    values: tuple[Value | None, ...]

    @property
    def is_imported(self) -> bool:
        """Whether another tool measured one of the numbers, over a number of items that is unknown."""
        return any(value is not None and value.method == "imported" for value in self.values)


@dataclass(frozen=True, slots=True)
class HeatMap:
    """One metric of several models by the values of a tag."""

    benchmark: str
    metric: str
    tag: str
    models: tuple[str, ...]
    rows: tuple[HeatRow, ...]

    @property
    def chance(self) -> float | None:
        """The value of a model without information, over all items."""
        return next(
            (value.chance for value in self.rows[-1].values if value is not None and value.chance is not None), None
        )


def heat_map(
    records: Mapping[str, BenchmarkResult], benchmark: str, metric: str | None = None, tag: str | None = None
) -> HeatMap:
    """Arrange models' records of one benchmark by the values of a tag."""
    first = next(iter(records.values()))
    metric = metric or main_metric(shared_headline(list(records.values())))
    if not any(metric in record.metrics for record in records.values()):
        raise RunError(f"{benchmark} has no {metric!r}; it has {', '.join(first.metrics) or 'no metric'}")
    if any(metric in record.metrics and is_deviation(record.metrics[metric]) for record in records.values()):
        raise RunError(f"{metric} is a deviation in the unit of the scores; a heat map shows shares of items")
    tag = _check_tag(records, benchmark, tag)
    names = dict.fromkeys(value for record in records.values() for value in record.by.get(tag, {}))
    groups = [{value: group.metrics for value, group in record.by.get(tag, {}).items()} for record in records.values()]
    by = (_make_row(value, [by_value.get(value, {}).get(metric) for by_value in groups]) for value in names)
    total = _make_row("all items", [record.metrics.get(metric) for record in records.values()])
    return HeatMap(benchmark, metric, tag, tuple(records), (*(row for row in by if row.n or row.is_imported), total))


def _make_row(name: str, values: list[Value | None]) -> HeatRow:
    return HeatRow(name, max((value.n for value in values if value is not None), default=0), tuple(values))


def breakdown_tag(records: Mapping[str, BenchmarkResult], benchmark: str) -> str | None:
    """Return the tag that breaks a benchmark down: its paper's, or the only one; None if neither is clear."""
    tags = dict.fromkeys(tag for record in records.values() for tag in record.by)
    declared = declared_benchmark(benchmark)
    if declared is not None and declared.paper is not None and declared.paper[0] in tags:
        return declared.paper[0]
    return next(iter(tags)) if len(tags) == 1 else None


def first_breakdown(records: Mapping[str, BenchmarkResult], benchmark: str, *, most: int | None = None) -> str | None:
    """Return the tag of a first look: the one that `breakdown_tag` names, else the first; None without one."""
    sizes: dict[str, int] = {}
    for record in records.values():
        for tag, groups in record.by.items():
            sizes[tag] = max(len(groups), sizes.get(tag, 0))
    fitting = [tag for tag, size in sizes.items() if size > 1 and (most is None or size <= most)]
    preferred = breakdown_tag(records, benchmark)
    return preferred if preferred in fitting else next(iter(fitting), None)


def _check_tag(records: Mapping[str, BenchmarkResult], benchmark: str, tag: str | None) -> str:
    tags = list(dict.fromkeys(tag for record in records.values() for tag in record.by))
    if not tags:
        raise RunError(f"the items of {benchmark} have no tags to break it down by")
    name = breakdown_tag(records, benchmark) if tag is None else tag
    if name is None:
        raise RunError(f"{benchmark} can be broken down by {', '.join(tags)}; choose one with tag=")
    if name not in tags:
        hint = nearest(name, tags) or ";"
        raise RunError(f"{benchmark} is not broken down by {name!r}{hint} its tags are {', '.join(tags)}")
    return name


def is_above_chance(value: Value) -> bool:
    """Return whether all of a number's interval lies above chance; also if no chance or no interval is defined."""
    return value.chance is None or value.low is None or value.low > value.chance
