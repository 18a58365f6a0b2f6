"""People's judgements: rankings of candidates, ratings of images of texts, and preferences between two images."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.data.answer_text import current_reading
from tellapart.data.item import Item
from tellapart.data.task_records import PreferenceSet, RankingSet, RatingSet, Record
from tellapart.errors import ScoreError, quote
from tellapart.metrics.answers import group_accuracy
from tellapart.metrics.per_item import PerItem
from tellapart.metrics.ratings import (
    agreement_with_people,
    kendall_tau_b,
    movement,
    pairwise_accuracy,
    pearson_r,
    preference_accuracy,
    roc_auc,
    spearman_rho,
)
from tellapart.models.protocols import Model
from tellapart.models.scoring.score import Scored
from tellapart.tasks.declared import facts_of
from tellapart.tasks.predictions import finite_numbers, read_by_id
from tellapart.tasks.running import of_texts, score_items
from tellapart.tasks.task import Session, Task, Unit, Units, join_units, scored_by, unit_of, value_of


@dataclass(frozen=True, slots=True)
class CandidateScores:
    """A model's scores of one query's candidates, for the caption and for its edit (empty if there is none)."""

    scores: tuple[float, ...]
    edited: tuple[float, ...]


def _fill_template(records: RankingSet) -> Iterator[Mapping[str, Any]]:
    for ranking in records.rows:
        query, edited = ranking.texts
        row = {"id": ranking.id, "scores": None, "query": query, "candidates": list(ranking.images)}
        yield {**row, "edited": None, "edited_query": edited} if edited else row


def read_candidate_scores(path: Path, records: RankingSet) -> list[CandidateScores]:
    """Read a score for each candidate of each query, in the order of the set."""
    current_reading().fields_read = "scores, edited" if any(ranking.texts[1] for ranking in records.rows) else "scores"

    def read(ranking: Record, row: Mapping[str, Any], place: str) -> CandidateScores:
        size = len(ranking.images)
        edited = _read_numbers(row, "edited", size, place) if ranking.texts[1] else ()
        return CandidateScores(_read_numbers(row, "scores", size, place), edited)

    return read_by_id(path, records.rows, read, "scores of candidates")


def _read_numbers(row: Mapping[str, Any], key: str, size: int, place: str) -> tuple[float, ...]:
    numbers = finite_numbers(row.get(key))
    if numbers is None or len(numbers) != size:
        fault = f"expected {size} finite numbers, one a candidate; got {quote(row.get(key))}"
        raise ScoreError(f"{place}: field {key!r}: {fault}")
    return tuple(numbers)


def _score_candidates(model: Model, records: RankingSet, session: Session) -> list[CandidateScores]:
    """Score every candidate with its query, and with the query's edit if there is one."""
    columns_of: dict[str, NDArray[np.float32]] = {}
    for edited in (True, False):  # pair sets hold items of one shape
        rankings = [ranking for ranking in records.rows if bool(ranking.texts[1]) == edited]
        items = [
            Item(id=f"{row}/{candidate}", images=(image,), texts=tuple(filter(None, ranking.texts)))
            for row, ranking in enumerate(rankings)
            for candidate, image in enumerate(ranking.images)
        ]
        if not items:
            continue
        columns = iter(score_items(model, records.name, items, session)[:, 0])
        columns_of |= {ranking.id: np.stack([next(columns) for _ in ranking.images]) for ranking in rankings}
    both = (tuple(map(tuple, columns_of[ranking.id].T.tolist())) for ranking in records.rows)
    return [CandidateScores(scores[0], scores[1] if len(scores) > 1 else ()) for scores in both]


def measure_rankings(records: RankingSet, scores: Sequence[CandidateScores]) -> tuple[Units, ...]:
    """Measure rankings: agreement with people for every query, movement for those with an edit."""
    scored = list(zip(records.rows, scores, strict=True))
    agreed = [agreement_with_people(of_query.scores, ranking.gold) for ranking, of_query in scored]
    kendall = value_of("kendall", np.array([agreement.kendall or 0.0 for agreement in agreed]))
    spearman = value_of("spearman", np.array([agreement.spearman or 0.0 for agreement in agreed]))
    units = tuple(_make_unit(ranking, list(of_query.scores)) for ranking, of_query in scored)
    queries = Units("query", units, (kendall, spearman))
    edits = [(ranking, of_query) for ranking, of_query in scored if ranking.texts[1]]
    if not edits:
        return (queries,)
    moves = [movement(of_query.scores, of_query.edited) for _, of_query in edits]
    agreements = np.array([1.0 if move.agreement.kendall is None else move.agreement.kendall for move in moves])
    moved = value_of("moved_by_edit", np.array([move.share_of_largest for move in moves]))
    edited = tuple(_make_unit(ranking, list(of_query.edited)) for ranking, of_query in edits)
    return queries, Units("edited query", edited, (moved, value_of("kendall_with_edit", agreements)))


def _make_unit(ranking: Record, scores: list[float]) -> Unit:
    gold = "people: " + ", ".join(f"{rank:g}" for rank in ranking.gold)
    return unit_of(ranking, cluster=ranking.id, texts=tuple(filter(None, ranking.texts)), output=scores, gold=gold)


def _ranking_notes(records: RankingSet, scores: Sequence[CandidateScores]) -> tuple[str, ...]:
    flat = sum(len(np.unique(np.array(score.scores, np.float32))) == 1 for score in scores)
    note = f"{flat:,} of {len(records.rows):,} queries: all candidates tie, which agrees with no order"
    return (note,) if flat else ()


RANKING = Task(
    **facts_of("ranking"),
    template=_fill_template,
    read=read_candidate_scores,
    measure=measure_rankings,
    notes=_ranking_notes,
    runners=scored_by(_score_candidates),
)


_FUNCTIONS = {"kendall_tau_b": kendall_tau_b, "spearman_rho": spearman_rho, "pearson_r": pearson_r}

#: The tag of the model that an image comes from.
_GENERATOR = "generator"


def _align_scores(records: RatingSet | PreferenceSet, predictions: Scored) -> NDArray[np.float32]:
    """Return the scores of each record's images with its text: float32 `(record, image)`."""
    return predictions.scores.select([row.id for row in records.rows]).values[:, :, 0]


def measure_ratings(records: RatingSet, predictions: Scored) -> tuple[Units, ...]:
    """Measure agreement with people's ratings; of labels, the area under the ROC curve.

    A part of the images, such as those of one generator, is measured among itself: its ties are calibrated again.
    """
    scores = _align_scores(records, predictions)[:, 0]
    units = tuple(
        unit_of(row, cluster=row.cluster or row.texts[0], output=float(score), gold=f"people: {rating:g}")
        for row, rating, score in zip(records.rows, records.people, scores, strict=True)
    )
    metrics = ("roc_auc",) if records.labels else ("pairwise_accuracy", *_FUNCTIONS)
    values = (_measure_among(metric, scores, records.people) for metric in metrics)
    return (Units("image", units, tuple(value for value in values if value is not None)),)


def _measure_among(metric: str, scores: NDArray[np.float32], people: NDArray[np.float64]) -> PerItem | None:
    """Measure one metric of some images; None if people rate them all the same."""
    if len(np.unique(people)) < 2:
        return None
    if metric == "pairwise_accuracy":
        pairs = pairwise_accuracy(scores, people)
        # Scores without information may tie all pairs, or none.
        value = value_of(metric, pairs.values, chance=max(pairs.tied, (1 - pairs.tied) / 2))
    elif metric == "roc_auc":
        curve = roc_auc(scores, people)
        neutral = curve.neutral
        value = value_of(metric, curve.strict, neutral=neutral, official=neutral, touched=curve.touched)
    else:
        value = value_of(metric, _FUNCTIONS[metric](scores, people))
    return replace(value, among=lambda mask: _measure_among(metric, scores[mask], people[mask]))


def _write_notes(records: RatingSet, predictions: Scored) -> tuple[str, ...]:
    """Write up to which difference scores count as equal, and how people and the model rank the generators."""
    scores, notes = _align_scores(records, predictions)[:, 0], []
    if not records.labels:
        epsilon = pairwise_accuracy(scores, records.people).epsilon
        notes.append(f"pairwise_accuracy: scores that differ by {epsilon:.4g} or less are tied, fitted to these images")
    generators = np.array([rating.tags.get(_GENERATOR, "") for rating in records.rows])
    if "" not in generators and 1 < len(np.unique(generators)) <= 20:
        for side, values in (("people", records.people), ("the model", scores)):
            by_mean = ((float(values[generators == name].mean()), str(name)) for name in np.unique(generators))
            means = sorted(by_mean, reverse=True)
            notes.append(f"generators by {side}: " + ", ".join(f"{generator} {mean:.4g}" for mean, generator in means))
    return tuple(notes)


RATINGS = Task(
    **facts_of("ratings"),
    **of_texts(1),
    templates={
        ".jsonl": lambda records: (
            {"label": f"{row.id}_c0_i0", "score": None, "image": row.images[0], "caption": row.texts[0]}
            for row in records.rows
        )
    },
    measure=measure_ratings,
    notes=_write_notes,
)


def _differences(records: PreferenceSet, predictions: Scored) -> NDArray[np.float64]:
    scores = _align_scores(records, predictions).astype(np.float64)
    return scores[:, 0] - scores[:, 1]


def measure_preferences(records: PreferenceSet, predictions: Scored) -> tuple[Units, ...]:
    """Measure pairs, pairs of which people prefer one, and groups of pairs of one text."""
    rows, people = records.rows, records.people
    above = _differences(records, predictions)
    units = tuple(
        unit_of(
            row,
            cluster=row.cluster or row.group or row.texts[0],
            output=float(difference),
            gold={1: "the first image", -1: "the second image", 0: "equal"}[row.gold],
        )
        for row, difference in zip(rows, above, strict=True)
    )
    measured = [Units("pair of images", units, (_measure_pairs(above, people),))]
    chosen = np.flatnonzero(people)
    ordered = above[chosen] * people[chosen]
    right, neutral = (ordered > 0).astype(np.float64), (np.sign(ordered) + 1) / 2
    untied = value_of("preference_accuracy_untied", right, neutral=neutral)
    measured.append(Units("pair with a choice", tuple(units[row] for row in chosen), (untied,)))
    if groups := records.groups():
        grouped = value_of("preference_group", group_accuracy(preference_accuracy(above, people).values, groups))
        measured.append(Units("text", join_units(units, groups), (grouped,)))
    return tuple(measured)


def _measure_pairs(above: NDArray[np.float64], people: NDArray[np.float64]) -> PerItem:
    found = preference_accuracy(above, people)
    # Scores without information may tie all pairs, or none.
    value = value_of("preference_accuracy", found.values, chance=max(found.tied, (1 - found.tied) / 2))
    return replace(value, among=lambda mask: _measure_pairs(above[mask], people[mask]))


def _note_tolerance(records: PreferenceSet, predictions: Scored) -> tuple[str, ...]:
    epsilon = preference_accuracy(_differences(records, predictions), records.people).epsilon
    return (f"preference_accuracy: scores that differ by {epsilon:.4g} or less are tied, fitted to these pairs",)


PREFERENCE = Task(**facts_of("preference"), **of_texts(2), measure=measure_preferences, notes=_note_tolerance)
