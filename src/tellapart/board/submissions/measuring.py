"""What a file said, unshuffled, and measured by the code behind `tellapart score`: where it meets the truth.

The file itself never comes here: `reading.py` read it in another process, and what it says came over in a plain form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tellapart.board.submissions.hidden_records import HiddenRecords
from tellapart.board.submissions.rounding import round_to
from tellapart.board.submissions.shuffled import Hidden
from tellapart.data.pairset import PairSet
from tellapart.data.scores import Scores
from tellapart.errors import MetricError
from tellapart.evaluation.measure import measure
from tellapart.models.generative.choice import BothOrders
from tellapart.tasks.pairing import PAIRING
from tellapart.tasks.registry import TASKS

__all__ = ["Split", "measure_sent"]


@dataclass(frozen=True, slots=True)
class Split:
    """What one split came to, rounded.

    Attributes:
        items: in the split.
        clusters: of its items.
        ties: items of the whole file in which two scores of a row or column are equal: known to who sent it, and, counted
            over both splits, silent on which item is in which.
        values: metric -> number.
        units: metric -> how many units that are not the items it is a mean over (sentences, say), and clusters of those.

    >>> Split(2, 2, 0, {"group_score": 0.5}).values
    {'group_score': 0.5}
    """

    items: int
    clusters: int
    ties: int
    values: Mapping[str, float]
    units: Mapping[str, Sequence[int]] = field(default_factory=dict)


def measure_sent(
    sent: Any, hidden: Hidden | HiddenRecords, metrics: tuple[str, ...], step: float
) -> tuple[Split, Split]:
    """Measure the public and the private split; only rounded means leave this function, never an item's outcome.

    Args:
        sent: as `read_sent` returns it: in the order that is published, whatever its ids.
        hidden: the truth.
        metrics: whose numbers are wanted.
        step: to which they are rounded.

    Raises:
        MetricError: a metric is not defined for what was sent.

    >>> from tellapart.data.item import Item
    >>> items = tuple(Item(id=i, images=("0.png",), texts=("x", "y")) for i in "ab")
    >>> hidden = Hidden(items, ((0, 1), (0, 1)), ((0,), (0,)), (True, False), {})
    >>> sent = Scores(("a", "b"), [[[0.9, 0.1]], [[0.1, 0.9]]], "similarity")
    >>> [split.values["choice_score"] for split in measure_sent(sent, hidden, ("choice_score",), 0.01)]
    [1.0, 0.0]
    """
    if isinstance(hidden, HiddenRecords):
        return _measured_records(hidden.restore(sent), hidden, metrics, step)
    sent, public = _restored(sent, hidden), np.array(hidden.public)
    ties = _tied(sent) if isinstance(sent, Scores) else 0
    parts = [np.flatnonzero(mask).tolist() for mask in (public, ~public)]
    clusters = [len({hidden.items[k].cluster for k in rows}) for rows in parts]
    values = [_numbers(sent, _pairs(hidden, rows), rows) for rows in parts]
    _expect(metrics, values[0])
    first, second = (
        Split(len(rows), own, ties, {name: round_to(found[name], step) for name in metrics})
        for rows, own, found in zip(parts, clusters, values, strict=True)
    )
    return first, second


def _measured_records(sent: Any, hidden: HiddenRecords, metrics: tuple[str, ...], step: float) -> tuple[Split, Split]:
    """Measure all records together, and tell units apart by their clusters, each of which is whole in one split."""
    measured = TASKS[hidden.task].measure(hidden.records, sent)
    records = measured[0].units  # one a record, in their order
    side = {unit.cluster: public for unit, public in zip(records, hidden.public, strict=True)}
    splits = []
    for public in (True, False):
        rows = [[k for k, unit in enumerate(units.units) if side[unit.cluster] is public] for units in measured]
        sizes = [
            (len(own), len({units.units[k].cluster for k in own})) for units, own in zip(measured, rows, strict=True)
        ]
        found = {
            one.name: (one.over(one.strict[own]), size)
            for units, own, size in zip(measured, rows, sizes, strict=True)
            for one in units.values
            if own
        }
        _expect(metrics, found)
        values = {name: round_to(found[name][0], step) for name in metrics}
        joined = {name: found[name][1] for name in metrics if found[name][1] != sizes[0]}
        splits.append(Split(*sizes[0], 0, values, joined))
    return splits[0], splits[1]


def _expect(metrics: tuple[str, ...], found: Mapping[str, Any]) -> None:
    if missing := [name for name in metrics if name not in found]:
        raise MetricError(f"{missing[0]} is not defined for what was sent; the benchmark tells {', '.join(metrics)}")


def _numbers(sent: Any, pairs: PairSet, rows: list[int]) -> dict[str, float]:
    """Measure some items by every metric that is defined."""
    if isinstance(sent, BothOrders):
        own = BothOrders(pairs.outline.ids, *(tuple(said[k] for k in rows) for said in (sent.in_order, sent.swapped)))
        return {one.name: one.over(one.strict) for units in PAIRING.measure(pairs, own) for one in units.values}
    return {name: value.value for name, value in measure(sent, pairs.outline).metrics.items()}


def _tied(scores: Scores) -> int:
    """Count the items in which two scores of one row or column are equal: no label is needed to know."""
    values = scores.values
    tied = np.zeros(len(values), dtype=bool)
    for axis in (1, 2):
        tied |= (np.diff(np.sort(values, axis=axis), axis=axis) == 0).any(axis=(1, 2))
    return int(tied.sum())


def _pairs(hidden: Hidden, rows: Any) -> PairSet:
    return PairSet("hidden", tuple(hidden.items[k] for k in rows), Path())


def _restored(sent: Scores | BothOrders, hidden: Hidden) -> Scores | BothOrders:
    """Return what was said of the items as they are: of two answers, which was given to the texts in their own order."""
    ids = tuple(item.id for item in hidden.items)
    if isinstance(sent, Scores):
        return Scores(ids, hidden.restore(sent.values.astype(np.float64)), sent.kind)
    kept = [places == (0, 1) for places in hidden.texts]
    both = list(zip(kept, sent.in_order, sent.swapped, strict=True))
    return BothOrders(
        ids,
        tuple(first if own else second for own, first, second in both),
        tuple(second if own else first for own, first, second in both),
    )
