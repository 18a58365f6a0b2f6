"""Compute a task's metrics from its units: the metrics of each noun (questions, images, ...) over its units."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tellapart.data.progress import Progress
from tellapart.metrics.equivariance import histogram
from tellapart.metrics.tabulate import Tabulated, tabulate
from tellapart.records.result import Curve, Metrics, Value
from tellapart.tasks.task import Units


def tabulate_units(measured: Sequence[Units], *, seed: int = 0, progress: Progress | None = None) -> Tabulated:
    """Average the metrics of all units of a task, each noun over its units.

    >>> from tellapart.metrics.per_item import PerItem
    >>> from tellapart.tasks.task import Unit
    >>> right = PerItem(name="accuracy", strict=np.array([1.0, 0.0]), chance=0.5, binary=True)
    >>> statements = Units("statement", (Unit(id="0", cluster="0"), Unit(id="1", cluster="1")), (right,))
    >>> tabulate_units([statements]).metrics["accuracy"].value
    0.5
    """
    tables = [
        tabulate(
            units.values,
            [unit.cluster for unit in units.units],
            [unit.tags for unit in units.units],
            seed=seed,
            progress=progress,
        )
        for units in measured
    ]
    by: dict[str, dict[str, dict[str, Value]]] = {}
    macro: dict[str, dict[str, Value]] = {}
    for table in tables:
        for tag, groups in table.by.items():
            for value, group in groups.items():
                by.setdefault(tag, {}).setdefault(value, {}).update(group.metrics)
        for tag, group in table.macro.items():
            macro.setdefault(tag, {}).update(group.metrics)
    return Tabulated(
        metrics={name: value for table in tables for name, value in table.metrics.items()},
        by={tag: {value: Metrics(metrics=metrics) for value, metrics in groups.items()} for tag, groups in by.items()},
        macro={tag: Metrics(metrics=metrics) for tag, metrics in macro.items()},
        curves={one.name: _count_curve(one.strict) for units in measured for one in units.values if one.deviation},
    )


def _count_curve(values: NDArray[np.float64]) -> Curve:
    counts = histogram(values)
    return Curve(edges=tuple(counts.edges.tolist()), counts=tuple(counts.counts.tolist()))
