"""Zero-shot classification: the class, put into words, that a picture is of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tellapart.data.item import Item
from tellapart.data.scores import join_names
from tellapart.data.task_records import ClassificationSet
from tellapart.errors import ScoreError
from tellapart.metrics.classification import LabelRanks, class_recall_table, rank_labels
from tellapart.metrics.retrieval import Ranks, cosines
from tellapart.models.protocols import DualEncoder, KeyReader, Model, Vectors
from tellapart.models.vectors import normalise
from tellapart.stats.combined import MeanOfGroups
from tellapart.tasks.declared import facts_of
from tellapart.tasks.predictions import make_name_index, parse_text, read_predictions, read_table
from tellapart.tasks.running import describe_unread, encode, score_items, similarity_table
from tellapart.tasks.task import Session, Task, Units, scored_by, unit_of, value_of


@dataclass(frozen=True, slots=True, eq=False)
class Classified:
    """The places of the true classes in the rankings; if classes are named and not `scored`, only the first is known.

    `unread` are predictions that name no class, and count as wrong.
    """

    placed: LabelRanks
    scored: bool = True
    unread: tuple[str, ...] = ()


def _classify_vectors(model: DualEncoder, records: ClassificationSet, session: Session) -> Classified:
    """Encode every distinct picture and prompt once, and compare each picture with each class."""
    if not getattr(model, "ranks_by_cosine", False):
        return _classify_pairs(model, records, session)
    prompts = [prompt for row in records.prompts for prompt in row]
    images, vectors = encode(model, records.name, [row.images[0] for row in records.rows], prompts, session)
    size = len(records.classes)
    classes = class_vectors([vectors[start : start + size] for start in range(0, len(prompts), size)])
    # Of an image of several vectors (BLIP-2) the model chooses the one that counts.
    alike = images.shape[1] == classes.shape[1]
    table = cosines(images, classes) if alike else similarity_table(model, images, classes)
    return Classified(rank_labels(table, records.gold))


def class_vectors(prompts: Sequence[Vectors]) -> Vectors:
    """Return one unit vector a class: the mean of its prompts' unit vectors, made a unit vector again.

    Source: CLIP (Radford et al. 2021), section 3.1.4, and its notebook `Prompt_Engineering_for_ImageNet`.
    """
    # Of one template the mean is the vector itself, to the bit.
    units = [normalise(vectors) for vectors in prompts]
    return units[0] if len(units) == 1 else normalise(np.mean(units, axis=0, dtype=np.float64))


def _classify_pairs(model: Model, records: ClassificationSet, session: Session) -> Classified:
    """Score every picture with every prompt; a class's score is the mean over its prompts."""
    labels = np.array(records.gold)
    rows = np.arange(len(labels))
    total = np.zeros((len(labels), len(records.classes)))
    for prompts in records.prompts:
        items = []
        for row in records.rows:  # its true class swaps places with class 0, the choice of models with the key
            texts = list(prompts)
            texts[0], texts[row.gold] = texts[row.gold], texts[0]
            items.append(Item(id=row.id, images=row.images, texts=tuple(texts)))
        values = score_items(model, records.name, items, session)[:, 0].copy()
        values[rows, labels], values[:, 0] = values[:, 0].copy(), values[rows, labels].copy()
        total += values
    return Classified(rank_labels(total / len(records.templates), labels))


def read_classes(path: Path, records: ClassificationSet) -> Classified:
    """Read scores of every class (`.npz`), or the name of one class for each picture (`.jsonl`, `.csv`, `.json`)."""
    labels, ids = records.gold, [row.id for row in records.rows]
    if path.suffix != ".npz":
        number_of = make_name_index(records.classes)
        answers = read_predictions(path, ids, parse_text, "image", lambda row, answer: number_of(answer) == labels[row])
        named = [*map(number_of, answers)]
        unread = tuple(answer for answer, number in zip(answers, named, strict=True) if number < 0)
        return replace(named_classes(named, labels), unread=unread)
    scores = read_table(path, {"image_ids": ids, "classes": records.classes})
    try:
        return Classified(rank_labels(scores, labels))
    except ScoreError as error:
        raise ScoreError(f"{path}: {error}") from error


def named_classes(named: Sequence[int], labels: Sequence[int]) -> Classified:
    """Return the places of the true classes if one class, or none (-1), is named for each picture."""
    first = np.array(named, dtype=np.int64)
    wrong = (first != np.array(labels)).astype(np.int64)
    ranks = Ranks(wrong, np.zeros_like(wrong), np.ones_like(wrong))
    return Classified(LabelRanks(ranks, first), scored=False)


def measure_classes(records: ClassificationSet, classified: Classified) -> tuple[Units, ...]:
    """Measure places: top-1, top-5 if there are more than five classes, and the mean over classes of unequal size.

    Pictures are tagged with their class, so the results by `class` are its recalls.
    """
    ranks, size = classified.placed.ranks, len(records.classes)
    depths = [("top1_accuracy", 1), *([("top5_accuracy", 5)] if size > 5 and classified.scored else [])]
    per_picture = tuple(
        value_of(
            metric, ranks.recall(k), neutral=ranks.tie_neutral_recall(k) if classified.scored else None, chance=k / size
        )
        for metric, k in depths
    )
    names = [records.classes[k] if k >= 0 else "(none alone)" for k in classified.placed.first.tolist()]
    judged = ((row, records.classes[row.gold], name) for row, name in zip(records.rows, names, strict=True))
    tagged = tuple(unit_of(row, tags={"class": label}, output=name, gold=label) for row, label, name in judged)
    measured = [Units("image", tagged, per_picture)]
    labels = np.array(records.gold)
    if len(set(np.bincount(labels)[np.unique(labels)].tolist())) > 1:
        untagged = tuple(replace(unit, tags={}) for unit in tagged)
        present = tuple(records.classes[label] for label in np.unique(labels).tolist())
        neutral = class_recall_table(ranks.tie_neutral_recall(1), labels, size) if classified.scored else None
        recalls, reduce = class_recall_table(ranks.recall(1), labels, size), MeanOfGroups(len(present), None, present)
        mean = value_of("mean_class_recall", recalls, neutral=neutral, chance=1 / size, reduce=reduce)
        measured.append(Units("image of its class", untagged, (mean,)))
    return tuple(measured)


def _fill_template(records: ClassificationSet) -> Iterator[Mapping[str, Any]]:
    for name in records.classes:
        yield {"unit": "class", "id": name}  # a reader of predictions passes over rows of another unit
    for row in records.rows:
        yield {"unit": "image", "id": row.id, "prediction": None, "image": row.images[0]}


def _write_notes(records: ClassificationSet, classified: Classified) -> tuple[str, ...]:
    counts = np.bincount(records.gold, minlength=len(records.classes))
    notes = [f"prompts averaged for each class: {'; '.join(records.templates)}"] if classified.scored else []
    if counts.max() * len(counts) > counts.sum():
        share = counts.max() / counts.sum()
        notes.append(
            f"always naming {records.classes[int(counts.argmax())]!r} would be right for {share:.1%} of the images"
        )
    expected = f"a class, {join_names(records.classes, limit=3)}"
    notes += describe_unread(classified.unread, len(records), "name no class, and count as wrong", expected)
    return tuple(notes)


CLASSIFICATION = Task(
    **facts_of("classification"),
    template=_fill_template,
    read=read_classes,
    measure=measure_classes,
    notes=_write_notes,
    runners=((DualEncoder, _classify_vectors), *scored_by(_classify_pairs), (KeyReader, _classify_pairs)),
)
