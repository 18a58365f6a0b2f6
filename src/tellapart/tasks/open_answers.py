"""Questions answered in words that are asked as they are written: how many legs, which letter; with a known bias.

An answer may stand in braces (`{4}`, `\\boxed{4}`) or in a sentence, as `read_stated` reads it. Questions of one group
are right if all of them are. If a group asks one question of several images whose answers differ, `same_answer` counts
how often a model answers all of them alike. `bias_rate` counts the answer that a model gives which does not look.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tellapart.data.task_records import QuestionSet
from tellapart.metrics.answers import group_accuracy, is_stated, read_stated
from tellapart.models.generative.readings import Answerer
from tellapart.tasks.answering import ask, count_empty, read_answers
from tellapart.tasks.declared import facts_of
from tellapart.tasks.task import Task, Units, image_of, join_units, to_fill, units_of, value_of

#: A question may ask for the thought before the answer.
_LONGEST = 1024


def measure_open(records: QuestionSet, answers: Sequence[str]) -> tuple[Units, ...]:
    """Measure answers in words: each, those with a known bias, and groups."""
    rows = records.questions
    read = [read_stated(answer) for answer in answers]
    right = np.array([*map(is_stated, answers, records.gold)], np.float64)
    units = units_of(rows, answers, records.gold)
    measured = [Units("question", units, (value_of("answer_match", right),))]
    if biased := [row for row, question in enumerate(rows) if question.biased]:
        fell = np.array([is_stated(answers[row], rows[row].biased) for row in biased], np.float64)
        measured.append(
            Units("question with a bias", tuple(units[row] for row in biased), (value_of("bias_rate", fell),))
        )
    if groups := records.groups():
        values = (value_of("group_match", group_accuracy(right, groups)),)
        measured.append(Units("group", tuple(join_units(units, group) for group in groups), values))
    if turned := [group for group in groups if _is_turned(records, group)]:
        same = [float(bool(read[group[0]]) and len({read[row] for row in group}) == 1) for group in turned]
        measured.append(
            Units(
                "turned question",
                tuple(join_units(units, group) for group in turned),
                (value_of("same_answer", np.array(same)),),
            )
        )
    return tuple(measured)


def _is_turned(records: QuestionSet, group: Sequence[int]) -> bool:
    rows = [records.questions[row] for row in group]
    different = {len({row.image for row in rows}), len({read_stated(row.answers[0]) for row in rows})}
    return len({row.question for row in rows}) == 1 and different == {len(rows)}


def _read_file(path: Path, records: QuestionSet) -> list[str]:
    golds = records.gold
    ids = [row.id for row in records.questions]
    return read_answers(path, ids, "question", lambda number, answer: answer.strip() == golds[number])


OPEN = Task(
    **facts_of("open"),
    template=to_fill(lambda row: {"question": row.question, "image": row.image}),
    read=_read_file,
    measure=measure_open,
    notes=lambda _records, answers: count_empty(answers, "answers"),
    runners=(
        (
            Answerer,
            lambda model, records, session: ask(
                model,
                [(image,) for image in image_of(records.questions)],
                [row.question for row in records.questions],
                session,
                longest=_LONGEST,
            ),
        ),
    ),
    images=lambda records: image_of(records.questions),
)
