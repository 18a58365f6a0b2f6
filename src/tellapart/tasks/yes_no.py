"""Yes or no, A or B: questions alone, and in groups of two images and two questions that must all be right.

Two images and two questions make four answers. Each is right or wrong (`a_acc`), each question must be right on both
images (`q_acc`), each image with both questions (`i_acc`), and the group in all four (`g_acc`): a model that does not
look, or does not read, gets none of the last three. A pair that asks one question of each image has `g_acc` alone.

If all is yes or no and nothing is grouped, POPE's metrics are reported, too: accuracy, precision, recall, F1 of yes,
and the share of yes, by its rule that an answer without no or not is yes. `pope_accuracy_official` and its like are by
its script, which reads the rule letter by letter.

If a benchmark's authors read answers otherwise (`BinaryQuestionSet.reader`), `a_acc_official` and `g_acc_official`
are by their reader.

Else answers are read as NaturalBench reads them, through marks of Markdown and JSON, and a label (true, 0) is yes or
no. The strict reading takes an answer that is the option and nothing else. An answer that names neither option is
wrong, and counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import starmap
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tellapart.data.task_records import BinaryQuestion, BinaryQuestionSet, linked_images
from tellapart.metrics.answers import group_accuracy
from tellapart.metrics.per_item import PerItem
from tellapart.metrics.yes_no import (
    OPTIONS,
    READERS,
    YES_SHARES,
    read_answer,
    read_as_pope,
    read_no,
    read_strictly,
    yes_table,
)
from tellapart.models.generative.readings import Answerer
from tellapart.tasks.answering import ask, describe_unread, read_answers
from tellapart.tasks.declared import facts_of
from tellapart.tasks.predictions import text
from tellapart.tasks.task import Hiding, Task, Unit, Units, join_units, to_fill, units_of, value_of

_GROUPED = (("question of a group", "question", "q_acc"), ("image of a group", "images", "i_acc"))


def _read_file(path: Path, records: BinaryQuestionSet) -> list[str]:
    rows = records.questions

    def is_gold(number: int, answer: str) -> bool:
        return read_strictly(answer, OPTIONS[rows[number].answer]) == rows[number].answer

    def read_said(value: object) -> str:  # a label of JSON (true, 1.0) is its letters
        return str(value) if isinstance(value, bool | float) else text(value)

    return read_answers(path, [row.id for row in rows], "question", is_gold, read_said)


def measure_yes_no(records: BinaryQuestionSet, answers: Sequence[str]) -> tuple[Units, ...]:
    """Measure answers, questions, images and groups; a group without several images or questions has no such units."""
    rows = records.questions
    read = [read_answer(answer, OPTIONS[row.answer]) for answer, row in zip(answers, rows, strict=True)]
    strictly = [read_strictly(answer, OPTIONS[row.answer]) for answer, row in zip(answers, rows, strict=True)]
    gold = [row.answer for row in rows]
    right, right_strictly = _is_equal(read, gold), _is_equal(strictly, gold)
    unreadable = np.array([one is None for one in read], np.float64)
    units = units_of(rows, answers, gold)
    values = [("a_acc", right), ("a_acc_strict", right_strictly), ("unreadable", unreadable)]
    grouped = [("g_acc", right), ("g_acc_strict", right_strictly)]
    if records.reader:
        officially = _is_equal([READERS[records.reader](answer) for answer in answers], gold)
        values.append(("a_acc_official", officially))
        grouped.append(("g_acc_official", officially))
    measured = [Units("answer", units, tuple(starmap(value_of, values)))]
    if _has_pope(records):
        measured.append(Units("answer", units, (*_as_pope(answers, gold), *_as_pope(answers, gold, "_official"))))
    for noun, field, metric in _GROUPED:
        if groups := records.groups_by(field):
            measured.append(_make_groups(units, noun, groups, [(metric, right)]))
    if groups := records.groups_by("group"):
        measured.append(_make_groups(units, "group", groups, grouped))
    return tuple(measured)


def _has_pope(records: BinaryQuestionSet) -> bool:
    return all(row.answer in ("yes", "no") and not row.group for row in records.questions)


def _as_pope(answers: Sequence[str], gold: Sequence[str], official: str = "") -> tuple[PerItem, ...]:
    read = [(read_as_pope if official else read_no)(answer) for answer in answers]
    table = yes_table(read, gold)
    shares = {name: value_of(f"pope_{name}{official}", table, reduce=share) for name, share in YES_SHARES.items()}
    right = value_of(f"pope_accuracy{official}", _is_equal(read, gold))
    yes = value_of(f"pope_yes_rate{official}", table[:, 1])
    return shares["f1"], right, shares["precision"], shares["recall"], yes


def _make_groups(
    units: Sequence[Unit],
    noun: str,
    groups: Sequence[Sequence[int]],
    right: Sequence[tuple[str, NDArray[np.float64]]],
) -> Units:
    chance = float(np.mean([0.5 ** len(group) for group in groups]))
    values = tuple(value_of(metric, group_accuracy(flags, groups), chance=chance) for metric, flags in right)
    return Units(noun, tuple(join_units(units, group) for group in groups), values)


def _is_equal(read: Sequence[str | None], gold: Sequence[str]) -> NDArray[np.float64]:
    return np.array([answer == right for answer, right in zip(read, gold, strict=True)], np.float64)


def _write_notes(records: BinaryQuestionSet, answers: Sequence[str]) -> tuple[str, ...]:
    rows = zip(answers, records.questions, strict=True)
    unread = [answer for answer, row in rows if read_answer(answer, OPTIONS[row.answer]) is None]
    yes = sum(read_no(answer) == "yes" for answer in unread)
    by_pope = f" in `a_acc`; in `pope_*` {yes:,} of them count as yes, by POPE's rule" if _has_pope(records) else ""
    expected = ", ".join(dict.fromkeys(option for row in records.questions for option in OPTIONS[row.answer]))
    return describe_unread(unread, len(answers), f"name neither option, and count as wrong{by_pope}", expected)


def _join_clusters(rows: Sequence[BinaryQuestion]) -> list[str]:
    """Join the clusters of questions that a group asks together."""
    joined = linked_images([(row.cluster, f"group {row.group}") for row in rows if row.group])
    return [joined.get(row.cluster, row.cluster) for row in rows]


YES_NO = Task(
    **facts_of("yes-no"),
    template=to_fill(
        lambda row: {**dict(zip(("image", "second_image"), row.images, strict=False)), "question": row.question}
    ),
    read=_read_file,
    measure=measure_yes_no,
    notes=_write_notes,
    # Every question is asked as it is written: its words already ask for yes or no.
    runners=(
        (
            Answerer,
            lambda model, records, session: ask(
                model, [row.images for row in records.questions], [row.question for row in records.questions], session
            ),
        ),
    ),
    hiding=Hiding(
        records=BinaryQuestionSet,
        images=("images",),
        sources=("group", "cluster"),
        # The answer is the first of the two, whichever is right.
        bare=lambda row: replace(row, answer=OPTIONS[row.answer][0], tags={}),
        clusters=_join_clusters,
        metrics=("a_acc", "a_acc_strict", "q_acc", "i_acc", "g_acc", "g_acc_strict"),
        send="`prediction` is the answer: one of the two that the question leaves open.",
        nothing=lambda size: [""] * size,
    ),
    images=lambda records: (image for row in records.questions for image in row.images),
)
