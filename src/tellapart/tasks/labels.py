"""Labels: does a label score higher with the images it is true of than with those that only resemble them?

COLA's single objects: for each label ("square white plate") the images that show the object, with these attributes or
with others, are ranked by their scores. The number is the mean of the labels' average precision.

Scores made elsewhere come as `.npz` with `image_ids` and `label_ids` (strings, as `tellapart export` lists them) and
`scores`, `(image, label)`. Scores of images that do not count for a label are not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.data.item import Item
from tellapart.data.scores import join_names
from tellapart.data.task_records import LabelSet
from tellapart.errors import ScoreError
from tellapart.metrics.average_precision import average_precision
from tellapart.models.protocols import Model
from tellapart.tasks.declared import facts_of
from tellapart.tasks.predictions import read_table
from tellapart.tasks.task import Session, Task, Unit, Units, scored_by, value_of
from tellapart.tasks.vectors import score_items

LabelScores = Sequence[NDArray[np.float32]]
"""Scores of the images that count, one array a label."""


def _fill_template(records: LabelSet) -> Iterator[Mapping[str, Any]]:
    for label in records.labels:
        yield {"unit": "label", "id": label.id, "text": label.text, "counted": [str(place) for place in label.counted]}
    for place, image in enumerate(records.images):
        yield {"unit": "image", "id": str(place), "image": image}


def read_label_scores(path: Path, records: LabelSet) -> list[NDArray[np.float32]]:
    """Read scores of images with labels, and keep those that count."""
    ids = {
        "image_ids": [str(place) for place in range(len(records.images))],
        "label_ids": [label.id for label in records.labels],
    }
    with np.errstate(over="ignore"):
        table = read_table(path, ids).astype(np.float32)
    kept = [table[list(label.counted), column] for column, label in enumerate(records.labels)]
    if bad := [label.id for label, row in zip(records.labels, kept, strict=True) if not np.isfinite(row).all()]:
        raise ScoreError(f"{path}: scores must be finite; NaN or infinite for {len(bad)} labels: {join_names(bad)}")
    return kept


def _score_labels(model: Model, records: LabelSet, session: Session) -> list[NDArray[np.float32]]:
    """Score every label with the images that count for it."""
    items = [
        Item(id=f"{label.id}/{place}", images=(records.images[place],), texts=(label.text,))
        for label in records.labels
        for place in label.counted
    ]
    flat = score_items(model, records.name, items, session)[:, 0, 0]
    stops = np.cumsum([len(label.counted) for label in records.labels])
    return list(np.split(flat, stops[:-1]))


def measure_labels(records: LabelSet, scores: LabelScores) -> tuple[Units, ...]:
    """Measure average precision: strict, tie-neutral, and as COLA's authors count ties.

    Chance is the mean over labels of the value expected of an order at random.
    """
    precisions = [
        average_precision(label_scores, label.true) for label, label_scores in zip(records.labels, scores, strict=True)
    ]
    strict, neutral, official = (np.array(column, dtype=np.float64) for column in zip(*precisions, strict=True))
    at_random = [average_precision(np.zeros(len(label.true)), label.true).neutral for label in records.labels]
    value = value_of("label_ap", strict, neutral=neutral, official=official, chance=float(np.mean(at_random)))
    units = (
        Unit(
            id=label.id,
            cluster=label.id,
            images=records.images_of(label),
            texts=(label.text,),
            output=[float(score) for score in label_scores],
            gold="true of " + ", ".join(str(k) for k, true in enumerate(label.true) if true),
        )
        for label, label_scores in zip(records.labels, scores, strict=True)
    )
    return (Units("label", tuple(units), (value,)),)


LABELS = Task(
    **facts_of("labels"),
    template=_fill_template,
    read=read_label_scores,
    measure=measure_labels,
    runners=scored_by(_score_labels),
)
