"""NLVR2: is a sentence true of two images? Accuracy, and consistency over the rows of one sentence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tellapart.data.tasks import StatementSet
from tellapart.metrics.answers import group_accuracy, label_accuracy
from tellapart.tabulate import PerItem
from tellapart.tasks.predictions import label, read_predictions
from tellapart.tasks.task import Task, TaskMetric, Unit, Units

__all__ = ["NLVR2"]

_ACCURACY = TaskMetric(
    name="accuracy", title="the statement is judged as its label says", source="NLVR2; VLUE section 3.1", chance=0.5
)
_CONSISTENCY = TaskMetric(
    name="consistency", title="every row of one sentence is judged rightly", source="NLVR2 section 4"
)
_BALANCED = TaskMetric(
    name="consistency_both_labels",
    title="every row of a sentence that is true of some images and false of others",
    source="here; a model that does not look gets 0",
)


def _template(records: StatementSet) -> Iterator[Mapping[str, Any]]:
    for row in records.statements:
        yield {"id": row.id, "prediction": None, "sentence": row.sentence, "left": row.left, "right": row.right}


def _read(path: Path, records: StatementSet) -> list[bool]:
    return read_predictions(path, [row.id for row in records.statements], label, "statement")


def measure_statements(records: StatementSet, predictions: Sequence[bool]) -> tuple[Units, ...]:
    """Measure labels: accuracy of statements; consistency of sentences, and of those that both labels occur with.

    >>> from tellapart.data.tasks import Statement
    >>> rows = tuple(Statement(str(k), "Both show a dog.", f"{k}a.png", f"{k}b.png", k == 0) for k in range(2))
    >>> [(units.noun, one.name, one.strict.tolist()) for units in measure_statements(StatementSet("n", rows), [True, True])
    ...     for one in units.found]
    [('statement', 'accuracy', [1.0, 0.0]), ('sentence', 'consistency', [0.0]), ('sentence of both labels', 'consistency_both_labels', [0.0])]
    """
    rows = records.statements
    right = label_accuracy(list(predictions), [row.label for row in rows])
    statements = Units(
        "statement",
        tuple(
            Unit(
                id=row.id,
                cluster=row.sentence,
                images=(row.left, row.right),
                texts=(row.sentence,),
                output=bool(said),
                gold=str(row.label).lower(),
            )
            for row, said in zip(rows, predictions, strict=True)
        ),
        (PerItem(name=_ACCURACY.name, strict=right, chance=_ACCURACY.chance, binary=True),),
    )
    found = [statements]
    for noun, metric, groups in (
        ("sentence", _CONSISTENCY, records.sentence_groups()),
        ("sentence of both labels", _BALANCED, records.sentence_groups(both_labels=True)),
    ):
        if groups:
            sentences = [rows[group[0]].sentence for group in groups]
            units = tuple(Unit(id=sentence, cluster=sentence, texts=(sentence,)) for sentence in sentences)
            guessed = float(np.mean([0.5 ** len(group) for group in groups]))
            right_on_all = group_accuracy(right, groups)
            found.append(
                Units(noun, units, (PerItem(name=metric.name, strict=right_on_all, chance=guessed, binary=True),))
            )
    return tuple(found)


NLVR2 = Task(
    name="nlvr2",
    title="a sentence about two images: true or false",
    output="label",
    noun="statement",
    metrics=(_ACCURACY, _CONSISTENCY, _BALANCED),
    size=lambda records: len(records.statements),
    select=lambda records, rows: replace(records, statements=tuple(records.statements[row] for row in rows)),
    template=_template,
    read=_read,
    measure=measure_statements,
    models="a model that answers in words",
)
