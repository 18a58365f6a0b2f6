"""Square items: pairs with their scores, questions of yes or no in fours, and outcomes of comparisons alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isnan, nan
from pathlib import Path

from tellapart.data.answer_text import read_label
from tellapart.data.rows import read_csv
from tellapart.errors import RunError, quote
from tellapart.metrics.yes_no import OPTIONS
from tellapart.records.result import Sample

_SIZES = range(2, 7)

#: Names of the two comparisons of a side, and of both together: the images', the texts'.
_SIDES = (("ipos_2t", "ineg_2t", "text_score", "i2t"), ("tpos_2i", "tneg_2i", "image_score", "t2i"))

#: Columns of BiVLC's files -> comparisons.
_COLUMNS = {
    "text_score_i0": "ipos_2t",
    "text_score_i1": "ineg_2t",
    "image_score_c0": "tpos_2i",
    "image_score_c1": "tneg_2i",
}


def read_comparisons(sample: Sample) -> tuple[float, ...] | None:
    """Return whether image 0, image 1, text 0 and text 1 prefer their own; NaN if that is not known, None of neither.

    Of a side that is wrong, one comparison is.

    >>> read_comparisons(Sample(id="a", cluster="a", outcomes={"text_score": 1, "image_score": 0}))
    (1.0, 1.0, 0.0, nan)
    """
    outcomes, values = sample.outcomes, list[float]()
    for first, second, *both in _SIDES:
        side = next((outcomes[name] for name in both if name in outcomes), None)
        if first in outcomes and second in outcomes:
            values += outcomes[first], outcomes[second]
        elif side is not None:
            values += (1.0, 1.0) if side == 1 else (side, nan)
    right_or_wrong = all(value in {0, 1} or isnan(value) for value in values)
    return tuple(map(float, values)) if len(values) == 4 and right_or_wrong else None


def read_outcome_file(path: Path) -> list[Sample]:
    """Read outcomes of the four comparisons of 2x2 items from a CSV file: BiVLC's columns, or a metric's names.

    A column `cluster`, else `caption`, names what is resampled together; `id` the items; others are tags.

    Raises:
        RunError: no such columns, or a value that is neither true nor false.
        DataError: the file cannot be read.
    """
    rows, names = [*read_csv(path)], {*_COLUMNS, *(name for side in _SIDES for name in side)}
    samples: list[Sample] = []
    for line, row in rows:
        outcomes: dict[str, float] = {}
        for name in names & row.keys():
            if (label := read_label(row[name])) is None:
                raise RunError(
                    f"{path}:{line}: {name}={quote(row[name])}; write 1 if the comparison is right, 0 if not"
                )
            outcomes[_COLUMNS.get(name, name)] = float(label)
        id_ = row.get("id") or str(len(samples))
        cluster = row.get("cluster") or row.get("caption") or id_
        tags = {name: row[name] for name in row.keys() - names - {"id", "cluster", "caption", "group_score"}}
        samples.append(Sample(id=id_, cluster=cluster, tags=tags, outcomes=outcomes))
    if not samples or read_comparisons(samples[0]) is None:
        raise RunError(
            f"{path}: no outcomes of the four comparisons; write the header id,{','.join(_COLUMNS)} and 0 or "
            "1 below it (one picture with several captions has a caption's prior alone, and no reasons)"
        )
    return samples


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
