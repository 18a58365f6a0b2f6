"""TaskExamples of a task on the page: for every noun the worst units, with what was shown, answered and right."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from tellapart.records.result import Sample
from tellapart.report.sections import ModelEntry, Section

__all__ = ["ModelAnswer", "TaskExample", "TaskExamples", "examples"]

#: Units of one noun that the page shows; the run's samples hold all of them.
MOST_EXAMPLES = 40

#: Characters of an output that the page shows.
_LONGEST = 160


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """One model's output for a unit, and its value.

    Attributes:
        output: shortened; empty where there is none.
        value: of the first metric, 0 to 1 or another number.
    """

    output: str
    value: float


@dataclass(frozen=True, slots=True)
class TaskExample:
    """One unit of a task."""

    id: str
    images: tuple[str, ...]
    texts: tuple[str, ...]
    gold: str
    answers: tuple[ModelAnswer, ...]


@dataclass(frozen=True, slots=True)
class TaskExamples:
    """The worst units of one noun.

    Attributes:
        noun: "question", "caption query".
        metric: by which they are the worst.
        total: how many units of this noun there are.
        rows: the worst over all models first, as many as the page has room for.
    """

    noun: str
    metric: str
    total: int
    rows: tuple[TaskExample, ...]


def examples(section: Section) -> tuple[TaskExamples, ...]:
    """Choose examples of a task: for every noun, the units with the lowest values of their first metric.

    Empty for pairs, which have an item browser.
    """
    if section.record.shape is not None:
        return ()
    rows_of: dict[str, list[int]] = {}
    for row, sample in enumerate(section.samples):
        rows_of.setdefault(sample.unit, []).append(row)
    tables = []
    for noun, rows in rows_of.items():
        metric = next(iter(section.samples[rows[0]].outcomes), None)
        if metric is None:
            continue
        order = sorted(rows, key=lambda row: (_total(section.entries, row, metric), row))
        worst = tuple(_example(section.entries, row, metric) for row in order[:MOST_EXAMPLES])
        tables.append(TaskExamples(noun, metric, len(rows), worst))
    return tuple(tables)


def _total(entries: Sequence[ModelEntry], row: int, metric: str) -> float:
    return sum(entry.samples[row].outcomes.get(metric, 0.0) for entry in entries)


def _example(entries: Sequence[ModelEntry], row: int, metric: str) -> TaskExample:
    sample = entries[0].samples[row]
    answers = tuple(_answer(entry.samples[row], metric) for entry in entries)
    return TaskExample(sample.id, sample.images, sample.texts, sample.gold, answers)


def _answer(sample: Sample, metric: str) -> ModelAnswer:
    output = sample.output
    if isinstance(output, dict) and output.keys() == {"rank", "first"}:
        output = output["rank"]  # of a gallery, whose first images or captions the board shows
    text = "" if output is None else output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
    short = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    return ModelAnswer(short, sample.outcomes.get(metric, 0.0))
