"""Zero-shot classification: which of a set's classes, put into words, is a picture of?

A tie with the true class is never right; its tie-neutral value is what ties broken at random would get, which is chance
for a model that says the same of every class.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.data.classification import ClassificationSet
from tellapart.metrics.classification import class_recall_table, mean_over_classes
from tellapart.metrics.metric import Metric
from tellapart.metrics.per_item import PerItem
from tellapart.models.protocols import DualEncoder, Generator, KeyReader, PairScorer, TextScorer
from tellapart.tasks.class_scores import Classified, classify_pairs, classify_vectors, read_classes
from tellapart.tasks.task import Task, Unit, Units, by_field

__all__ = ["CLASSIFICATION", "measure_classes"]

_SOURCE = "CLIP (Radford et al. 2021), section 3.1"
_TOP1 = Metric(name="top1_accuracy", title="the true class alone scores highest", source=_SOURCE)
_TOP5 = Metric(
    name="top5_accuracy", title="the true class is among the five that score highest, of six or more", source=_SOURCE
)
_RECALL = Metric(
    name="mean_class_recall",
    title="top-1 accuracy of each class, averaged over classes; of classes of one size it is the top-1 accuracy",
    source="CLIP, appendix A.1 (mean per class)",
)


def measure_classes(records: ClassificationSet, classified: Classified) -> tuple[Units, ...]:
    """Measure places: top-1, top-5 where there are more than five classes, and the mean over classes of unequal size.

    Pictures are tagged with their class, so the results by `class` are its recalls.

    >>> from tellapart.data.classification import ClassifiedImage
    >>> from tellapart.metrics.classification import rank_labels
    >>> pictures = tuple(ClassifiedImage(str(k), f"{k}.png", 0) for k in range(2))
    >>> pets = ClassificationSet("pets", ("cat", "dog"), ("{}",), pictures)
    >>> measured = measure_classes(pets, Classified(rank_labels([[0.9, 0.1], [0.5, 0.5]], [0, 0])))
    >>> [(one.name, one.strict.tolist(), one.neutral.tolist()) for one in measured[0].values]
    [('top1_accuracy', [1.0, 0.0], [1.0, 0.5])]
    """
    ranks, size = classified.placed.ranks, len(records.classes)
    depths = {_TOP1.name: 1} | ({_TOP5.name: 5} if size > 5 and classified.scored else {})
    per_picture = tuple(
        PerItem(
            name=name,
            strict=ranks.recall(k),
            neutral=ranks.tie_neutral_recall(k) if classified.scored else None,
            chance=k / size,
            binary=True,
        )
        for name, k in depths.items()
    )
    tagged = tuple(_units(records, classified))
    measured = [Units("image", tagged, per_picture)]
    labels = np.array([picture.label for picture in records.pictures])
    if len(set(np.bincount(labels)[np.unique(labels)].tolist())) > 1:
        untagged = tuple(replace(unit, tags={}) for unit in tagged)
        measured.append(Units("image of its class", untagged, (_mean_recall(labels, classified, size),)))
    return tuple(measured)


def _mean_recall(labels: NDArray[np.int64], classified: Classified, size: int) -> PerItem:
    ranks = classified.placed.ranks
    neutral = class_recall_table(ranks.tie_neutral_recall(1), labels, size) if classified.scored else None
    return PerItem(
        name=_RECALL.name,
        strict=class_recall_table(ranks.recall(1), labels, size),
        neutral=neutral,
        chance=1 / size,
        binary=True,
        reduce=mean_over_classes,
    )


def _units(records: ClassificationSet, classified: Classified) -> Iterator[Unit]:
    for picture, first in zip(records.pictures, classified.placed.first.tolist(), strict=True):
        own = records.classes[picture.label]
        yield Unit(
            id=picture.id,
            cluster=picture.cluster or picture.image,
            tags={"class": own},
            images=(picture.image,),
            output=records.classes[first] if first >= 0 else "(none alone)",
            gold=own,
        )


def _template(records: ClassificationSet) -> Iterator[Mapping[str, Any]]:
    for name in records.classes:
        yield {"unit": "class", "id": name}  # a reader of predictions passes over rows of another unit
    for picture in records.pictures:
        yield {"unit": "image", "id": picture.id, "prediction": None, "image": picture.image}


def _notes(records: ClassificationSet, classified: Classified) -> tuple[str, ...]:
    counts = np.bincount([picture.label for picture in records.pictures], minlength=len(records.classes))
    notes = [f"prompts averaged for each class: {'; '.join(records.templates)}"] if classified.scored else []
    if counts.max() * len(counts) > counts.sum():
        share = counts.max() / counts.sum()
        notes.append(
            f"always naming {records.classes[int(counts.argmax())]!r} would be right for {share:.1%} of the images"
        )
    if classified.unread:
        notes.append(
            f"{classified.unread:,} of {len(records.pictures):,} predictions name no class, and count as wrong"
        )
    return tuple(notes)


CLASSIFICATION = Task(
    name="classification",
    title="which class, put into words, is the image of?",
    output="scores",
    noun="image",
    metrics=(_TOP1, _TOP5, _RECALL),
    headlines=(("top1_accuracy",),),
    **by_field("pictures"),
    template=_template,
    suffixes=(".npz", ".jsonl", ".csv", ".json"),
    read=read_classes,
    measure=measure_classes,
    notes=_notes,
    runners=(
        (DualEncoder, classify_vectors),
        *((kind, classify_pairs) for kind in (PairScorer, Generator, TextScorer, KeyReader)),
    ),
    models="a model that scores images with texts",
    todo="name a class, as the rows of unit `class` do, in `prediction` of the others; or score every image with "
    "every class, and write .npz arrays "
    "image_ids, classes and scores",
)
