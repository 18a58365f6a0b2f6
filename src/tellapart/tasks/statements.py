"""NLVR2: is a sentence true of two images? Accuracy, and consistency over the rows of one sentence of a set."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tellapart.data.task_records import StatementSet
from tellapart.errors import ScoreError
from tellapart.metrics.answers import group_accuracy, label_accuracy
from tellapart.models.generative.answers_grammar import parse_verdict
from tellapart.models.generative.readings import Answerer
from tellapart.models.protocols import Pixels, TwoImageClassifier
from tellapart.tasks.declared import facts_of, hiding_of
from tellapart.tasks.predictions import label, read_for
from tellapart.tasks.running import ask, compute_batches, describe_unread
from tellapart.tasks.task import Hiding, Session, Task, Unit, Units, to_fill, unit_of, value_of

#: NLVR2's ids among those that no statement has.
_IDENTIFIERS = re.compile(r"unknown ids: \w+-\d+-\d+-\d+")


def _read_labels(path: Path, records: StatementSet) -> list[bool]:
    rows = records.rows
    try:
        return read_for(path, rows, label, "statement", lambda row, value: value == row.gold)
    except ScoreError as error:
        if _IDENTIFIERS.search(str(error)) is None or "-" in rows[0].id:
            raise
        raise ScoreError(
            f"{error}; identifiers are those of the authors' own test1.json and dev.json: get them from "
            "https://github.com/lil-lab/nlvr/tree/master/nlvr2/data and name their folder with data="
        ) from error


def measure_statements(records: StatementSet, predictions: Sequence[bool | str | None]) -> tuple[Units, ...]:
    """Measure labels: accuracy of statements; consistency of sentences, and of those that both labels occur with."""
    rows = records.rows
    # An answer that is neither counts as the wrong label.
    labels = [
        predicted if isinstance(predicted, bool) else not row.gold
        for row, predicted in zip(rows, predictions, strict=True)
    ]
    right = label_accuracy(labels, records.gold)
    statements = Units(
        "statement",
        tuple(
            unit_of(row, cluster=row.texts[0], output=predicted, gold=str(row.gold).lower())
            for row, predicted in zip(rows, predictions, strict=True)
        ),
        (value_of("accuracy", right),),
    )
    measured = [statements]
    for noun, metric, groups in (
        ("sentence", "consistency", records.sentence_groups()),
        ("sentence of both labels", "consistency_both_labels", records.sentence_groups(both_labels=True)),
    ):
        if groups:
            first = [rows[group[0]] for group in groups]
            units = tuple(Unit(id=row.group or row.texts[0], cluster=row.texts[0], texts=row.texts) for row in first)
            guessed = float(np.mean([0.5 ** len(group) for group in groups]))
            measured.append(Units(noun, units, (value_of(metric, group_accuracy(right, groups), chance=guessed),)))
    return tuple(measured)


def _ask_statements(model: Answerer, records: StatementSet, session: Session) -> list[bool | str]:
    """Ask whether every statement is true of its two images; the answer itself if it is neither true nor false."""
    prompt = model.task_prompt("nlvr2")
    prompts = [prompt.fill(sentence=row.texts[0]) for row in records.rows]
    answers = ask(model, [row.images for row in records.rows], prompts, session)
    verdicts = map(parse_verdict, answers)
    return [answer if verdict is None else verdict for answer, verdict in zip(answers, verdicts, strict=True)]


def _judge_statements(model: TwoImageClassifier, records: StatementSet, session: Session) -> list[bool]:
    """Judge every statement by a classifier of two images: true if P(true) is above one half."""
    sentences = [row.texts[0] for row in records.rows]

    def judge(part: slice, pictures: list[list[Pixels]]) -> list[bool]:
        left, right = ([pair[side] for pair in pictures] for side in (0, 1))
        return [bool(probability > 0.5) for probability in model.judge(left, right, sentences[part])]

    return compute_batches([row.images for row in records.rows], session, judge, "judgements")


NLVR2: Task[StatementSet, Any] = Task(
    **facts_of("nlvr2"),
    template=to_fill(lambda row: {"sentence": row.texts[0], **dict(zip(("left", "right"), row.images, strict=True))}),
    read=_read_labels,
    measure=measure_statements,
    notes=lambda _records, predictions: describe_unread(
        [answer or "" for answer in predictions if not isinstance(answer, bool)],
        len(predictions),
        "are neither true nor false, and count as wrong",
        "true or false",
    ),
    runners=((TwoImageClassifier, _judge_statements), (Answerer, _ask_statements)),
    hiding=Hiding(
        records=StatementSet,
        bare=lambda row: replace(row, gold=False, group=""),
        clusters=lambda rows: [row.texts[0] for row in rows],
        **hiding_of("nlvr2"),
        nothing=lambda size: [None] * size,
    ),
)
