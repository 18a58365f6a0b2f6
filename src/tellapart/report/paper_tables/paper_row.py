"""Rows of the papers' tables: what a benchmark declares, applied to the numbers of a record."""

from __future__ import annotations

from collections.abc import Mapping

from tellapart.benchmarks.benchmark import ALL
from tellapart.benchmarks.benchmark import PaperTable as RowOf
from tellapart.errors import MetricError
from tellapart.records.result import BenchmarkResult, Value

__all__ = ["groups_of", "numbers_of", "paper_row"]


def groups_of(record: BenchmarkResult, tag: str) -> dict[str, dict[str, Value]]:
    """Return a record's metrics over all items and over each value of a tag."""
    return {ALL: record.metrics} | {value: group.metrics for value, group in record.by.get(tag, {}).items()}


def numbers_of(groups: Mapping[str, Mapping[str, Value]]) -> dict[str, dict[str, float]]:
    """Return the numbers alone."""
    return {value: {name: one.value for name, one in metrics.items()} for value, metrics in groups.items()}


def paper_row(row_of: RowOf, numbers: Mapping[str, Mapping[str, float]]) -> dict[str, float] | None:
    """Return a model's row, column -> percent; None where a subset or a metric is missing: then it means nothing."""
    try:
        return row_of(numbers)
    except (MetricError, KeyError):
        return None
