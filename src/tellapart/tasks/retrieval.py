"""Galleries: captions of images and images of captions, and the images that a label is true of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tellapart.data.item import Item
from tellapart.data.scores import as_float32, as_numbers, join_names
from tellapart.data.task_records import LabelSet, RetrievalSet
from tellapart.errors import ScoreError
from tellapart.metrics.average_precision import average_precision
from tellapart.metrics.per_item import PerItem
from tellapart.metrics.retrieval import (
    Ranks,
    Retrieval,
    chance_recall,
    embeddings_both_ways,
    scores_both_ways,
    unavoidable_misses,
)
from tellapart.models.protocols import DualEncoder, Model
from tellapart.tasks.declared import facts_of
from tellapart.tasks.predictions import read_matrix, read_table
from tellapart.tasks.running import encode, score_items, similarity_table
from tellapart.tasks.task import Session, Task, Unit, Units, scored_by, value_of

R = TypeVar("R")

DEPTHS = (1, 5, 10)
"""The k of recall at k."""


def _fill_template(records: RetrievalSet) -> Iterator[Mapping[str, Any]]:
    for row, image in enumerate(records.images):
        yield {"side": "image", "id": str(row), "image": image}
    for row, caption in enumerate(records.captions):
        yield {"side": "caption", "id": str(row), "caption": caption}


@dataclass(frozen=True, slots=True, eq=False)
class GalleryScores:
    """Embeddings of images and captions, `(image, dimension)` and `(caption, dimension)`, whose cosines are scores.

    Without captions, `images` are the scores, `(image, caption)`.
    """

    images: NDArray[Any]
    captions: NDArray[Any] | None = None

    def rank(self, pairs: Sequence[tuple[int, int]], captions: Sequence[int] | None = None) -> Retrieval:
        """Rank the gallery both ways."""
        if self.captions is None:
            return scores_both_ways(self.images if captions is None else self.images[:, captions], np.array(pairs))
        rows = self.captions if captions is None else self.captions[list(captions)]
        return embeddings_both_ways(self.images, rows, np.array(pairs))


def rank_file(path: Path, records: RetrievalSet, rank: Callable[[GalleryScores], R]) -> R:
    """Read scores or embeddings of the full gallery, and return the result of `rank`."""
    ids = {
        "image_ids": [str(row) for row in range(len(records.images))],
        "caption_ids": [str(row) for row in range(len(records.captions))],
    }
    arrays, (rows, columns) = read_matrix(path, ids, optional=("scores", "images", "captions"))
    try:
        if "scores" in arrays:
            scores = as_numbers(arrays["scores"], "`scores`", f"({len(rows)}, {len(columns)})")
            return rank(GalleryScores(scores[np.ix_(rows, columns)]))
        if "images" not in arrays or "captions" not in arrays:
            raise ScoreError("holds neither `scores` nor the embeddings `images` and `captions`")
        images = as_numbers(arrays["images"], "`images`", f"({len(rows)}, dimension)")
        captions = as_numbers(arrays["captions"], "`captions`", f"({len(columns)}, dimension)")
        return rank(GalleryScores(images[rows], captions[columns]))
    except ScoreError as error:
        raise ScoreError(f"{path}: {error}") from error


def score_gallery(model: DualEncoder, records: RetrievalSet, session: Session) -> GalleryScores:
    """Encode a gallery.

    A model that declares `ranks_by_cosine` is ranked by the exact cosine of its vectors, in seconds and without the
    matrix of scores; any other by its `similarity`, block by block.
    """
    images, captions = encode(model, records.name, records.images, records.captions, session)
    if getattr(model, "ranks_by_cosine", False) and images.shape[1] == captions.shape[1]:
        return GalleryScores(images, captions)
    return GalleryScores(similarity_table(model, images, captions))


def measure_retrieval(records: RetrievalSet, ranked: Retrieval) -> tuple[Units, ...]:
    """Measure ranks: a unit for each image query, and one for each caption query, both clustered by image."""
    images, captions = len(records.images), len(records.captions)
    true_of_image = np.bincount([image for image, _ in records.pairs], minlength=images)
    true_of_caption = np.bincount([caption for _, caption in records.pairs], minlength=captions)
    of_image: dict[int, list[str]] = {}
    for image, caption in records.pairs:
        of_image.setdefault(image, []).append(records.captions[caption])
    from_images = _yield_outputs(ranked.image_to_text, set(records.pairs))
    from_captions = _yield_outputs(ranked.text_to_image, {(caption, image) for image, caption in records.pairs})
    image_units = tuple(
        Unit(id=str(row), cluster=reference, images=(reference,), output=output, gold="; ".join(of_image[row]))
        for row, (reference, output) in enumerate(zip(records.images, from_images, strict=True))
    )
    of_caption = zip(records.captions, records.caption_clusters, from_captions, strict=True)
    caption_units = tuple(
        Unit(id=str(row), cluster=cluster, texts=(caption,), output=output, gold=cluster)
        for row, (caption, cluster, output) in enumerate(of_caption)
    )
    from_i2t = _list_recalls("i2t", ranked.image_to_text, true_of_image, captions)
    from_t2i = _list_recalls("t2i", ranked.text_to_image, true_of_caption, images)
    return (
        Units("image query", image_units, (*from_i2t, _mean_recall(records, ranked))),
        Units("caption query", caption_units, tuple(from_t2i)),
    )


def _yield_outputs(ranks: Ranks, true: Set[tuple[int, int]]) -> Iterator[dict[str, Any]]:
    """Yield each query's rank and the first of its gallery: id, score, and whether it is a true one."""
    for query, rank in enumerate(ranks.rank.tolist()):
        entries = () if ranks.first is None else ranks.first.of(query)
        first = [{"id": str(entry), "score": score, "true": (query, entry) in true} for entry, score in entries]
        yield {"rank": rank, "first": first}


def _list_recalls(side: str, ranks: Ranks, true: NDArray[np.int64], gallery: int) -> list[PerItem]:
    return [
        value_of(
            f"{side}_recall@{k}",
            ranks.recall(k),
            neutral=ranks.tie_neutral_recall(k),
            chance=float(chance_recall(true, gallery, k).mean()),
        )
        for k in DEPTHS
    ]


def _mean_recall(records: RetrievalSet, ranked: Retrieval) -> PerItem:
    """Return the mean of the six over images; each carries its captions' recalls, so both are resampled together."""
    owner = np.full(len(records.captions), -1)
    for image, caption in reversed(records.pairs):
        owner[caption] = image

    def table(i2t: Sequence[NDArray[np.float64]], t2i: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        images = len(records.images)
        per_image = [np.bincount(owner, weights=column, minlength=images) for column in t2i]
        return np.stack([*i2t, *per_image, np.bincount(owner, minlength=images).astype(np.float64)], axis=1)

    both = (ranked.image_to_text, ranked.text_to_image)
    strict = table(*([ranks.recall(k) for k in DEPTHS] for ranks in both))
    neutral = table(*([ranks.tie_neutral_recall(k) for k in DEPTHS] for ranks in both))
    return value_of("mean_recall", strict, neutral=neutral, reduce=mean_of_six)


def mean_of_six(means: NDArray[np.float64]) -> NDArray[np.float64]:
    """Take means of the six recalls' table, `(..., column)`, to their mean `(...)`."""
    depths = len(DEPTHS)
    captions = means[..., depths : 2 * depths] / means[..., -1:]
    return np.asarray((means[..., :depths].sum(axis=-1) + captions.sum(axis=-1)) / (2 * depths))


def _write_notes(records: RetrievalSet, _ranked: Retrieval) -> tuple[str, ...]:
    misses = unavoidable_misses(records.images, records.captions, records.pairs)
    sizes = {"image queries": len(records.images), "caption queries": len(records.captions)}
    why = "cannot be won at 1 by any model: the gallery holds the same content twice"
    together = zip(misses, sizes.items(), strict=True)
    return tuple(f"at least {missed:,} of {size:,} {noun} {why}" for missed, (noun, size) in together if missed)


RETRIEVAL = Task(
    **facts_of("retrieval"),
    template=_fill_template,
    read=lambda path, records: rank_file(path, records, lambda scores: scores.rank(records.pairs)),
    measure=measure_retrieval,
    notes=_write_notes,
    runners=((DualEncoder, lambda *run: score_gallery(*run).rank(run[1].pairs)),),
)


@dataclass(frozen=True, slots=True)
class RankedTwice:
    """A gallery that was ranked with an entry for each row, and with one for each distinct caption."""

    rows: Retrieval
    distinct: Retrieval

    @classmethod
    def of(cls, records: RetrievalSet, scores: GalleryScores) -> RankedTwice:
        """Rank both galleries; of equal captions the first row's scores are the entry's."""
        distinct, first = records.distinct_captions()
        return cls(scores.rank(records.pairs), scores.rank(distinct.pairs, first))


def measure_distinct(records: RetrievalSet, ranked: RankedTwice) -> tuple[Units, ...]:
    """Measure ranks in both galleries: the units of `measure_retrieval`, and one for each distinct caption."""
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


def _note_repeats(records: RetrievalSet, ranked: RankedTwice) -> tuple[str, ...]:
    repeats = len(records.captions) - len(set(records.captions))
    if not repeats:
        return ()
    notes = RETRIEVAL.notes(records, ranked.rows)
    return (
        f"{repeats:,} of {len(records.captions):,} captions repeat another: one entry in *_distinct_recall, as the "
        "benchmark's authors count; entries of their own, which tie, in *_recall",
        *(f"in *_recall {note}" for note in notes),
    )


_DISTINCT = facts_of("distinct-retrieval")
_RANKED_OTHERWISE: Task[RetrievalSet, Any] = RETRIEVAL
DISTINCT_RETRIEVAL: Task[RetrievalSet, RankedTwice] = replace(
    _RANKED_OTHERWISE,
    **(_DISTINCT | {"metrics": (*_DISTINCT["metrics"], *RETRIEVAL.metrics)}),
    read=lambda path, records: rank_file(path, records, lambda scores: RankedTwice.of(records, scores)),
    measure=measure_distinct,
    notes=_note_repeats,
    runners=((DualEncoder, lambda *run: RankedTwice.of(run[1], score_gallery(*run))),),
)


def _list_labels(records: LabelSet) -> Iterator[Mapping[str, Any]]:
    for label in records.rows:
        yield {"unit": "label", "id": label.id, "text": label.texts[0], "counted": [*map(str, label.facts["counted"])]}
    for place, image in enumerate(records.images):
        yield {"unit": "image", "id": str(place), "image": image}


def read_label_scores(path: Path, records: LabelSet) -> list[NDArray[np.float32]]:
    """Read scores of images with labels, and keep those that count."""
    ids = {
        "image_ids": [str(place) for place in range(len(records.images))],
        "label_ids": [label.id for label in records.rows],
    }
    table = as_float32(read_table(path, ids))
    kept = [table[list(label.facts["counted"]), column] for column, label in enumerate(records.rows)]
    if bad := [label.id for label, row in zip(records.rows, kept, strict=True) if not np.isfinite(row).all()]:
        raise ScoreError(f"{path}: scores must be finite; NaN or infinite for {len(bad)} labels: {join_names(bad)}")
    return kept


def _score_labels(model: Model, records: LabelSet, session: Session) -> list[NDArray[np.float32]]:
    """Score every label with the images that count for it."""
    items = [
        Item(id=f"{label.id}/{place}", images=(records.images[place],), texts=label.texts)
        for label in records.rows
        for place in label.facts["counted"]
    ]
    flat = score_items(model, records.name, items, session)[:, 0, 0]
    stops = np.cumsum([len(label.gold) for label in records.rows])
    return list(np.split(flat, stops[:-1]))


def measure_labels(records: LabelSet, scores: Sequence[NDArray[np.float32]]) -> tuple[Units, ...]:
    """Measure average precision of the images that count: strict, tie-neutral, and as COLA's authors count ties.

    Chance is the mean over labels of the value expected of an order at random.
    """
    scored = list(zip(records.rows, scores, strict=True))
    precisions = [average_precision(label_scores, label.gold) for label, label_scores in scored]
    strict, neutral, official = (np.array(column, dtype=np.float64) for column in zip(*precisions, strict=True))
    at_random = [average_precision(np.zeros(len(label.gold)), label.gold).neutral for label in records.rows]
    value = value_of("label_ap", strict, neutral=neutral, official=official, chance=float(np.mean(at_random)))
    units = (
        Unit(
            id=label.id,
            cluster=label.id,
            images=tuple(records.images[place] for place in label.facts["counted"]),
            texts=label.texts,
            output=[float(score) for score in label_scores],
            gold="true of " + ", ".join(str(k) for k, true in enumerate(label.gold) if true),
        )
        for label, label_scores in scored
    )
    return (Units("label", tuple(units), (value,)),)


LABELS = Task(
    **facts_of("labels"),
    template=_list_labels,
    read=read_label_scores,
    measure=measure_labels,
    runners=scored_by(_score_labels),
)
