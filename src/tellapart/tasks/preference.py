"""Preference: of two images of one text, does a model's score rank them as people do?

Scores whose difference is small count as equal, as people's ties do; up to which difference, is fitted to the pairs
that are measured. An edited picture is scored with its instruction alone: a model of images and texts sees no source.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tellapart.data.task_records import PreferenceSet
from tellapart.metrics.answers import group_accuracy
from tellapart.metrics.per_item import PerItem
from tellapart.metrics.ratings import preference_accuracy
from tellapart.models.scoring.score import Scored
from tellapart.tasks.declared import facts_of
from tellapart.tasks.task import Task, Units, join_units, unit_of, value_of
from tellapart.tasks.vectors import of_texts


def _differences(records: PreferenceSet, predictions: Scored) -> NDArray[np.float64]:
    scores = predictions.scores.select([row.id for row in records.preferences]).values[:, :, 0].astype(np.float64)
    return scores[:, 0] - scores[:, 1]


def measure_preferences(records: PreferenceSet, predictions: Scored) -> tuple[Units, ...]:
    """Measure pairs, pairs of which people prefer one, and groups of pairs of one text."""
    rows, people = records.preferences, records.people
    above = _differences(records, predictions)
    units = tuple(
        unit_of(
            row,
            cluster=row.cluster or row.group or row.text,
            output=float(difference),
            gold={1: "the first image", -1: "the second image", 0: "equal"}[row.choice],
        )
        for row, difference in zip(rows, above, strict=True)
    )
    measured = [Units("pair of images", units, (_measure_pairs(above, people),))]
    chosen = np.flatnonzero(people)
    ordered = above[chosen] * people[chosen]
    untied = value_of(
        "preference_accuracy_untied", (ordered > 0).astype(np.float64), neutral=(np.sign(ordered) + 1) / 2
    )
    measured.append(Units("pair with a choice", tuple(units[row] for row in chosen), (untied,)))
    if groups := records.groups():
        right = group_accuracy(preference_accuracy(above, people).values, groups)
        measured.append(
            Units("text", tuple(join_units(units, group) for group in groups), (value_of("preference_group", right),))
        )
    return tuple(measured)


def _measure_pairs(above: NDArray[np.float64], people: NDArray[np.float64]) -> PerItem:
    found = preference_accuracy(above, people)
    # Scores without information may tie all pairs, or none.
    value = value_of("preference_accuracy", found.values, chance=max(found.tied, (1 - found.tied) / 2))
    return replace(value, among=lambda mask: _measure_pairs(above[mask], people[mask]))


def _write_notes(records: PreferenceSet, predictions: Scored) -> tuple[str, ...]:
    epsilon = preference_accuracy(_differences(records, predictions), records.people).epsilon
    return (f"preference_accuracy: scores that differ by {epsilon:.4g} or less are tied, fitted to these pairs",)


PREFERENCE = Task(
    **facts_of("preference"),
    **of_texts(2),
    measure=measure_preferences,
    notes=_write_notes,
)
