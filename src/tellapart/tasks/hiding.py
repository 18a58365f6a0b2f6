"""The declaration of how a board hides the labels of a task's records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tellapart.data.task_records import RecordSet


def image_of(rows: Sequence[Any]) -> list[str]:
    """Return the image of each record: the cluster of tasks whose records share nothing else."""
    return [row.image for row in rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hiding:
    """The rules by which records of one task are hidden.

    A metric may be published if it is a mean of right answers, from 0 to 1, over units that anybody can count: a
    statement, a sentence, a question, a phrase. Not CIDEr or BLEU, which are made of all captions together; not
    `consistency_both_labels` and `pair_accuracy`: their labels choose the units, so the number of units would be known.

    Everything that is published or decided (order, split, names) is made of bare records, which hold no label.

    Attributes:
        records: the set's type, a `RecordSet`.
        images: the fields of a record that are references of images: of one each, or a tuple of several.
        sources: the fields that name the source of a record, such as its cluster; they get secret names.
        bare: takes a record to its visible part: its gold fields are blank.
        clusters: takes bare records to the group with which each must share a split; no unit of the task joins two of
            them.
        metrics: that may be published, the headline's first.
        send: the prediction that is asked for, in words.
        nothing: predictions of so many records that are all wrong: a benchmark is measured on them before it is opened.
        restore: takes predictions of bare records to those of the records.
        size: a record's image: width and height in pixels, if its labels are in pixels.

    >>> from tellapart.tasks.registry import TASKS
    >>> TASKS["nlvr2"].hiding.metrics
    ('accuracy', 'consistency')
    """

    records: type[RecordSet]
    images: tuple[str, ...]
    sources: tuple[str, ...] = ()
    bare: Callable[[Any], Any]
    clusters: Callable[[Sequence[Any]], Sequence[str]] = image_of
    metrics: tuple[str, ...]
    send: str
    nothing: Callable[[int], Any]
    restore: Callable[[Any, Sequence[Any], Sequence[Any]], Any] = lambda predictions, _bare, _rows: predictions
    size: Callable[[Any], tuple[int, int]] | None = None

    @property
    def rows(self) -> str:
        """The set's field that holds the records."""
        return self.records.ROWS
