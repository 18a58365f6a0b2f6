"""Ratings: do a model's scores of images and texts agree with people's ratings of how well each image shows its text?

Of sets whose images were generated from texts: GenAI-Bench, TIFA; and of sets with a label instead, 1 if the image
shows the text and 0 if not: SeeTRUE. The tag `generator` names the model that an image comes from.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.data.task_records import RatingSet
from tellapart.metrics.metric import Metric
from tellapart.metrics.per_item import PerItem
from tellapart.metrics.ratings import kendall_tau_b, pairwise_accuracy, pearson_r, roc_auc, spearman_rho
from tellapart.models.protocols import Model
from tellapart.models.scoring.score import Scored
from tellapart.tasks.task import OF_SCORES, Session, Task, Unit, Units, scored_by, value_of
from tellapart.tasks.vectors import read_scored, score_pairs

_PAIRWISE = Metric(
    name="pairwise_accuracy",
    title="pairs of images that scores order, or tie, as people do, ties calibrated",
    source="Deutsch et al. 2023, Ties Matter; GenAI-Bench (Li et al. 2024)",
    binary=False,
    together=True,
)
_CORRELATIONS = tuple(
    Metric(name=name, title=title, source=source, chance_level=0.0, bounds=(-1.0, 1.0), binary=False, together=True)
    for name, title, source in (
        ("kendall_tau_b", "Kendall's tau-b of scores and ratings", "Kendall (1945); GenAI-Bench (Li et al. 2024)"),
        ("spearman_rho", "Spearman's correlation of scores' and ratings' ranks", "TIFA (Hu et al. 2023)"),
        ("pearson_r", "Pearson's correlation of scores and ratings", "GenAI-Bench (Li et al. 2024)"),
    )
)
_AUC = Metric(
    name="roc_auc",
    title="an image that shows its text has a higher score than one that does not",
    source="SeeTRUE (Yarom et al. 2023), section 5",
    chance_level=1 / 2,
    binary=False,
    together=True,
)
_FUNCTIONS = {"kendall_tau_b": kendall_tau_b, "spearman_rho": spearman_rho, "pearson_r": pearson_r}

#: The tag of the model that an image comes from.
_GENERATOR = "generator"


def _score_images(model: Model, records: RatingSet, session: Session) -> Scored:
    """Score every image with its text."""
    items = tuple(Item(id=rating.id, images=(rating.image,), texts=(rating.text,)) for rating in records.rated)
    pairs = PairSet(records.name, items, Path(), read=session.pictures)
    return score_pairs(model, pairs, session)


def _align_scores(records: RatingSet, predictions: Scored) -> NDArray[np.float32]:
    return predictions.scores.select([rating.id for rating in records.rated]).values[:, 0, 0]


def measure_ratings(records: RatingSet, predictions: Scored) -> tuple[Units, ...]:
    """Measure agreement with people's ratings; of labels, the area under the ROC curve.

    A part of the images, such as those of one generator, is measured among itself: its ties are calibrated again.
    """
    scores = _align_scores(records, predictions)
    units = tuple(
        Unit(
            id=rating.id,
            cluster=rating.cluster or rating.text,
            tags=rating.tags,
            images=(rating.image,),
            texts=(rating.text,),
            output=float(score),
            gold=f"people: {rating.rating:g}",
        )
        for rating, score in zip(records.rated, scores, strict=True)
    )
    metrics = (_AUC,) if records.labels else (_PAIRWISE, *_CORRELATIONS)
    values = (_measure_among(metric, scores, records.people) for metric in metrics)
    return (Units("image", units, tuple(value for value in values if value is not None)),)


def _measure_among(metric: Metric, scores: NDArray[np.float32], people: NDArray[np.float64]) -> PerItem | None:
    """Measure one metric of some images; None if people rate them all the same."""
    if len(np.unique(people)) < 2:
        return None
    if metric is _PAIRWISE:
        pairs = pairwise_accuracy(scores, people)
        # Scores without information may tie all pairs, or none.
        value = value_of(metric, pairs.values, chance=max(pairs.tied, (1 - pairs.tied) / 2))
    elif metric is _AUC:
        curve = roc_auc(scores, people)
        neutral = curve.neutral
        value = value_of(metric, curve.strict, neutral=neutral, official=neutral, touched=curve.touched)
    else:
        value = value_of(metric, _FUNCTIONS[metric.name](scores, people))
    return replace(value, among=lambda mask: _measure_among(metric, scores[mask], people[mask]))


def _write_notes(records: RatingSet, predictions: Scored) -> tuple[str, ...]:
    """Write up to which difference scores count as equal, and how people and the model rank the generators."""
    scores, notes = _align_scores(records, predictions), []
    if not records.labels:
        epsilon = pairwise_accuracy(scores, records.people).epsilon
        notes.append(f"pairwise_accuracy: scores that differ by {epsilon:.4g} or less are tied, fitted to these images")
    generators = np.array([rating.tags.get(_GENERATOR, "") for rating in records.rated])
    if "" not in generators and 1 < len(np.unique(generators)) <= 20:
        for side, values in (("people", records.people), ("the model", scores)):
            by_mean = ((float(values[generators == name].mean()), str(name)) for name in np.unique(generators))
            means = sorted(by_mean, reverse=True)
            notes.append(f"generators by {side}: " + ", ".join(f"{generator} {mean:.4g}" for mean, generator in means))
    return tuple(notes)


RATINGS = Task(
    name="ratings",
    title="how well an image shows its text, as people rate it",
    **OF_SCORES,
    noun="image",
    metrics=(_PAIRWISE, *_CORRELATIONS, _AUC),
    template=lambda records: (
        {"id": row.id, "image": 0, "text": 0, "score": None, "image_path": row.image, "caption": row.text}
        for row in records.rated
    ),
    templates={
        ".jsonl": lambda records: (
            {"label": f"{row.id}_c0_i0", "score": None, "image": row.image, "caption": row.text}
            for row in records.rated
        )
    },
    read=lambda path, records, kind=None: read_scored(path, [rating.id for rating in records.rated], (1, 1), kind),
    measure=measure_ratings,
    notes=_write_notes,
    runners=scored_by(_score_images),
    todo="fill in `score`: how well the image shows the text",
    images=lambda records: (rating.image for rating in records.rated),
)
