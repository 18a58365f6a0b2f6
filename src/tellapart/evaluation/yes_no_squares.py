"""Square items of a run's samples: pairs with their scores, and questions of yes or no in fours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tellapart.metrics.yes_no import OPTIONS
from tellapart.records.result import Sample

__all__ = ["read_squares"]

_SIZES = range(2, 7)


def read_squares(samples: Sequence[Sample]) -> tuple[list[Sample], int]:
    """Return samples with square scores, and how many units are left out.

    Pairs have their scores. Of a group of two images with two questions, each answered yes and no once (NaturalBench,
    TimeBlind), the scores are the answers: yes is 1, no is 0. An answer that cannot be read is taken as the wrong one.

    >>> read_squares([Sample(id="a", cluster="a", scores=((0.9, 0.1),), outcomes={})])
    ([], 1)
    """
    if any(sample.scores for sample in samples):
        square = [sample for sample in samples if len(sample.scores) in _SIZES and _is_square(sample)]
        return square, len(samples) - len(square)
    answers = {sample.id: sample for sample in samples if sample.unit == "answer"}
    groups = [sample for sample in samples if sample.unit == "group"]
    fours = [four for group in groups if (four := _as_square(group, answers)) is not None]
    return fours, len(groups) - len(fours)


def _is_square(sample: Sample) -> bool:
    return all(len(row) == len(sample.scores) for row in sample.scores)


def _as_square(group: Sample, answers: Mapping[str, Sample]) -> Sample | None:
    """Return a group with the answers as scores, question k true of image k; None if it is no square of yes and no."""
    rows = [answers[name] for name in group.id.split("+") if name in answers]
    if len(rows) != 4 or len(group.images) != 2 or len(group.texts) != 2:
        return None
    gold: dict[tuple[str, str], bool] = {}
    said: dict[tuple[str, str], float] = {}
    for row in rows:
        if len(row.images) != 1 or row.gold not in OPTIONS:
            return None
        cell = row.images[0], row.texts[0]
        gold[cell] = row.gold == OPTIONS[row.gold][0]
        said[cell] = float(gold[cell] == bool(row.outcomes.get("a_acc")))
    true = [[image for image in group.images if gold.get((image, text))] for text in group.texts]
    if len(gold) != 4 or sorted(true) != sorted([image] for image in group.images):
        return None
    images = tuple(own for (own,) in true)
    scores = tuple(tuple(said[image, text] for text in group.texts) for image in images)
    return replace(group, images=images, scores=scores)
