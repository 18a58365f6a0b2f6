"""Measuring of a submission: its contents meet the truth, and the metrics of `tellapart score` are averaged.

The file itself never comes here: another process reads it (`forms.py`) and passes its contents on as a form.

Whoever sends files can time the answers. So only the means that are published are computed, and a file takes the same
steps whichever labels it meets: intervals come from the rounded numbers, after that (`service.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tellapart.board.submissions.hidden import round_to
from tellapart.board.submissions.hidden_items import HiddenPairs, HiddenRecords
from tellapart.data.scores import Scores
from tellapart.errors import MetricError
from tellapart.metrics.registry import METRICS
from tellapart.models.generative.choice import BothOrders
from tellapart.tasks.registry import TASKS


@dataclass(frozen=True, slots=True)
class Split:
    """The rounded numbers of one split."""

    items: int  # in the split
    clusters: int  # of its items
    # items of the file with two equal scores in a row or column: the sender knows them, and the count over both splits
    # does not reveal which item is in which
    ties: int
    values: Mapping[str, float]  # metric -> number
    # metric -> number of its units and of their clusters, if these are not the items (sentences, for example)
    units: Mapping[str, Sequence[int]] = field(default_factory=dict)
    # metric -> how many clusters of one size would be as precise, if those of its units differ in size
    worth: Mapping[str, float] = field(default_factory=dict)


def measure_sent(
    sent: Any, hidden: HiddenPairs | HiddenRecords, metrics: tuple[str, ...], step: float
) -> tuple[Split, Split]:
    """Measure the public and the private split; only rounded means leave this function, never an item's outcome."""
    if isinstance(hidden, HiddenRecords):
        return _measure_records(hidden.restore(sent), hidden, metrics, step)
    public = np.array(hidden.public)
    ties = _count_ties(sent) if isinstance(sent, Scores) else 0
    restored = _restore_order(sent, hidden)
    # float64 (item,), 0 or 1: NumPy's means of them are exact.
    if isinstance(restored, BothOrders):
        right = restored.measure()
    else:
        checked = {name: METRICS[name].check(restored.values, restored.kind) for name in metrics}
        right = {name: METRICS[name].per_item(values) for name, values in checked.items()}
    clusters = np.array([item.cluster for item in hidden.items])
    first, second = (
        _split_of(clusters[mask].tolist(), ties, {name: round_to(right[name][mask].mean(), step) for name in metrics})
        for mask in (public, ~public)
    )
    return first, second


def _split_of(clusters: Sequence[str], ties: int, values: Mapping[str, float]) -> Split:
    effective, distinct = worth_of(clusters), len({*clusters})
    return Split(
        len(clusters), distinct, ties, values, worth=dict.fromkeys(values, effective) if effective < distinct else {}
    )


def _measure_records(sent: object, hidden: HiddenRecords, metrics: tuple[str, ...], step: float) -> tuple[Split, Split]:
    """Measure all records together, and split the units by their clusters; no cluster is in both splits."""
    measured = TASKS[hidden.task].measure(hidden.records, sent)
    records = measured[0].units  # one a record, in their order
    side = {unit.cluster: public for unit, public in zip(records, hidden.public, strict=True)}
    splits = []
    for public in (True, False):
        rows = [[k for k, unit in enumerate(units.units) if side[unit.cluster] is public] for units in measured]
        sizes = [
            (len(row), len({units.units[k].cluster for k in row})) for units, row in zip(measured, rows, strict=True)
        ]
        means = {
            value.name: (value.over(value.strict[row]), size, worth_of([units.units[k].cluster for k in row]))
            for units, row, size in zip(measured, rows, sizes, strict=True)
            for value in units.values
            if row and value.name in metrics
        }
        if missing := [name for name in metrics if name not in means]:
            published = ", ".join(metrics)
            raise MetricError(f"{missing[0]} is not defined for this file; the benchmark publishes {published}")
        values = {name: round_to(means[name][0], step) for name in metrics}
        joined = {name: means[name][1] for name in metrics if means[name][1] != sizes[0]}
        uneven = {name: effective for name, (_, size, effective) in means.items() if effective < size[1]}
        splits.append(Split(*sizes[0], 0, values, joined, uneven))
    return splits[0], splits[1]


def worth_of(clusters: Sequence[str]) -> float:
    """Return how many clusters of one size would give a mean as precise, if items of a cluster were all alike.

    Source: Kish (1965), Survey Sampling, section 11.7.

    >>> worth_of(["a", "b", "c"]), worth_of(["a", "a", "a", "b"])
    (3.0, 1.6)
    """
    sizes = np.unique(np.array(clusters), return_counts=True)[1].astype(np.float64)
    return float(sizes.sum() ** 2 / (sizes**2).sum()) if len(sizes) else 0.0


def _count_ties(scores: Scores) -> int:
    """Count the items with two equal scores in a row or column."""
    values = scores.values
    tied = np.zeros(len(values), dtype=bool)
    for axis in (1, 2):
        tied |= (np.diff(np.sort(values, axis=axis), axis=axis) == 0).any(axis=(1, 2))
    return int(tied.sum())


def _restore_order(sent: Scores | BothOrders, hidden: HiddenPairs) -> Scores | BothOrders:
    """Return scores or answers for the original order of texts: of two answers, which was given to that order."""
    ids = tuple(item.id for item in hidden.items)
    if isinstance(sent, Scores):
        return Scores(ids, hidden.restore(sent.values.astype(np.float64)), sent.kind)
    unchanged = [order == (0, 1) for order in hidden.texts]
    both = list(zip(unchanged, sent.in_order, sent.swapped, strict=True))
    return BothOrders(
        ids,
        tuple(first if own else second for own, first, second in both),
        tuple(second if own else first for own, first, second in both),
    )
