"""What the page shows of a task: for every noun its worst units, with what was shown, what was put out, what was right."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from tellapart.records.result import Sample
from tellapart.report.sections import Entry, Section

__all__ = ["Answer", "Example", "Examples", "examples"]

#: Units of one noun that the page shows: all of them stand in the run's samples.
MOST_EXAMPLES = 40

#: Characters of an output that the page shows.
_LONGEST = 160


@dataclass(frozen=True, slots=True)
class Answer:
    """What one model put out for a unit, and what that is worth.

    Attributes:
        said: the output, shortened; empty where there is none.
        worth: the first metric's value, 0 to 1 or another number.

    >>> Answer("two", 1.0).said
    'two'
    """

    said: str
    worth: float


@dataclass(frozen=True, slots=True)
class Example:
    """One unit of a task.

    >>> Example("0", ("a.png",), ("How many?",), "two", ()).gold
    'two'
    """

    id: str
    images: tuple[str, ...]
    texts: tuple[str, ...]
    gold: str
    answers: tuple[Answer, ...]


@dataclass(frozen=True, slots=True)
class Examples:
    """The worst units of one noun.

    Attributes:
        noun: "question", "caption query".
        metric: by which they are the worst.
        total: how many units of this noun there are.
        rows: the worst first, whatever the model; as many as the page has room for.

    >>> Examples("question", "exact_match", 0, ()).rows
    ()
    """

    noun: str
    metric: str
    total: int
    rows: tuple[Example, ...]


def examples(section: Section) -> tuple[Examples, ...]:
    """Choose what the page shows of a task: for every noun, the units that models get worst by their first metric.

    Empty for pairs, which have an item browser of their own.

    >>> from tellapart.records.result import BenchmarkResult
    >>> record = BenchmarkResult(title="", fingerprint="", metrics={}, origin="", shape=(2, 2), kind="logit")
    >>> from tellapart.report.sections import ReportRun
    >>> examples(Section("demo", "a", (Entry(0, "m", record, (), None),)))
    ()
    """
    if section.record.shape is not None:
        return ()
    rows_of: dict[str, list[int]] = {}
    for row, sample in enumerate(section.samples):
        rows_of.setdefault(sample.unit, []).append(row)
    found = []
    for noun, rows in rows_of.items():
        metric = next(iter(section.samples[rows[0]].outcomes), None)
        if metric is None:
            continue
        order = sorted(rows, key=lambda row: (_worth(section.entries, row, metric), row))
        shown = tuple(_example(section.entries, row, metric) for row in order[:MOST_EXAMPLES])
        found.append(Examples(noun, metric, len(rows), shown))
    return tuple(found)


def _worth(entries: Sequence[Entry], row: int, metric: str) -> float:
    return sum(entry.samples[row].outcomes.get(metric, 0.0) for entry in entries)


def _example(entries: Sequence[Entry], row: int, metric: str) -> Example:
    sample = entries[0].samples[row]
    answers = tuple(_answer(entry.samples[row], metric) for entry in entries)
    return Example(sample.id, sample.images, sample.texts, sample.gold, answers)


def _answer(sample: Sample, metric: str) -> Answer:
    said = sample.output
    if isinstance(said, dict) and said.keys() == {"rank", "first"}:
        said = said["rank"]  # of a gallery; what stands first in it is on the board
    text = "" if said is None else said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)
    short = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    return Answer(short, sample.outcomes.get(metric, 0.0))
