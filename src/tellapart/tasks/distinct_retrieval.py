"""Retrieval with equal captions as one entry: the measure of COCO-Counterfactuals' authors on their test split.

Their evaluation keys embeddings by the caption: a caption that stands in several rows is one entry of the gallery and
one query, and any image of these rows is right. Of the split's 10,446 captions 10,403 are distinct. Recall with an
entry a row, in which repeats tie and so lose, is listed, too, under the names that it has in every other gallery.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tellapart.data.task_records import RetrievalSet
from tellapart.metrics.metric import Metric
from tellapart.metrics.per_item import PerItem
from tellapart.metrics.retrieval import Retrieval
from tellapart.models.protocols import DualEncoder
from tellapart.tasks.registry import HEADLINES
from tellapart.tasks.retrieval import DEPTHS, RETRIEVAL, GalleryScores, measure_retrieval, rank_file, score_gallery
from tellapart.tasks.task import Session, Task, Units

_SIDES = (
    ("i2t", "a caption of the image {place} of the distinct captions"),
    ("t2i", "an image of the distinct caption, of any row that has it, {place} of the gallery"),
)
_METRICS = tuple(
    Metric(
        name=f"{side}_distinct_recall@{k}",
        title=title.format(place=f"is among the first {k}" if k > 1 else "comes first"),
        source="COCO-Counterfactuals `CLIP_evaluation.py`; its Table 5",
    )
    for side, title in _SIDES
    for k in DEPTHS
)


@dataclass(frozen=True, slots=True)
class RankedTwice:
    """A gallery that was ranked with an entry for each row, and with one for each distinct caption.

    >>> import numpy as np
    >>> scores = GalleryScores(np.array([[2.0, 2.0], [1.0, 1.0]]))
    >>> ranked = RankedTwice.of(RetrievalSet.of("two", ["a.png", "b.png"], [["a cat"], ["a cat"]]), scores)
    >>> ranked.rows.image_to_text.rank, ranked.distinct.image_to_text.rank
    (array([2, 2]), array([1, 1]))
    """

    rows: Retrieval
    distinct: Retrieval

    @classmethod
    def of(cls, records: RetrievalSet, scores: GalleryScores) -> RankedTwice:
        """Rank both galleries; of equal captions the first row's scores are the entry's."""
        distinct, first = records.distinct_captions()
        return cls(scores.rank(records.pairs), scores.rank(distinct.pairs, first))


def measure_distinct(records: RetrievalSet, ranked: RankedTwice) -> tuple[Units, ...]:
    """Measure ranks in both galleries: the units of `measure_retrieval`, and one for each distinct caption.

    >>> import numpy as np
    >>> two = RetrievalSet.of("two", ["a.png", "b.png"], [["a cat"], ["a cat"]])
    >>> ranked = RankedTwice.of(two, GalleryScores(np.array([[2.0, 2.0], [1.0, 1.0]])))
    >>> {units.noun: units.values[0].strict.tolist() for units in measure_distinct(two, ranked)}
    {'image query': [1.0, 1.0], 'caption query': [1.0, 0.0], 'distinct caption query': [1.0]}
    """
    images, captions = measure_retrieval(records, ranked.rows)
    distinct, first = records.distinct_captions()
    from_images, from_captions = measure_retrieval(distinct, ranked.distinct)
    # An entry is known by the first row of its caption, as in the file of scores.
    units = tuple(replace(unit, id=str(row)) for unit, row in zip(from_captions.units, first, strict=True))
    return (
        Units(images.noun, images.units, (*_distinct_recalls(from_images), *images.values)),
        captions,
        Units("distinct caption query", units, _distinct_recalls(from_captions)),
    )


def _distinct_recalls(units: Units) -> tuple[PerItem, ...]:
    """Return the recalls of a gallery of distinct captions under separate names; the mean of both sides has none."""
    return tuple(
        replace(value, name=value.name.replace("_recall@", "_distinct_recall@"))
        for value in units.values
        if "@" in value.name
    )


def _read_file(path: Path, records: RetrievalSet) -> RankedTwice:
    return rank_file(path, records, lambda scores: RankedTwice.of(records, scores))


def _rank_twice(model: DualEncoder, records: RetrievalSet, session: Session) -> RankedTwice:
    return RankedTwice.of(records, score_gallery(model, records, session))


def _write_notes(records: RetrievalSet, ranked: RankedTwice) -> tuple[str, ...]:
    repeats = len(records.captions) - len(set(records.captions))
    if not repeats:
        return ()
    notes = RETRIEVAL.notes(records, ranked.rows)
    return (
        f"{repeats:,} of {len(records.captions):,} captions repeat another: one entry in *_distinct_recall, as the "
        "benchmark's authors count; entries of their own, which tie, in *_recall",
        *(f"in *_recall {note}" for note in notes),
    )


_RANKED_OTHERWISE: Task[RetrievalSet, Any] = RETRIEVAL
DISTINCT_RETRIEVAL: Task[RetrievalSet, RankedTwice] = replace(
    _RANKED_OTHERWISE,
    name="distinct-retrieval",
    title="find the captions of an image, and the images of a caption; equal captions are one entry",
    metrics=(*_METRICS, *RETRIEVAL.metrics),
    headlines=HEADLINES["distinct-retrieval"],
    read=_read_file,
    measure=measure_distinct,
    notes=_write_notes,
    runners=((DualEncoder, _rank_twice),),
)
