"""The tasks whose labels can be hidden: what of a record may be seen, and which numbers may be told.

A number may be told if it is a mean of what is right, from 0 to 1, over units that anybody can count: a statement, a
sentence, a question, a phrase. Not CIDEr or BLEU, which are made of all captions together; not `consistency_both_labels`
and `pair_accuracy`, whose units are chosen by their labels: how many there are would be told.

Everything that is published or decided (order, split, names) is made of bare records, which hold no label.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from tellapart.data.choices import Choice, ChoiceSet
from tellapart.data.task_records import Box, BoxSet, Question, QuestionSet, Statement, StatementSet
from tellapart.tasks.choice import Chosen
from tellapart.tasks.questions import linked_images

__all__ = ["HIDEABLE", "Hideable"]


def _as_read(sent: Any, _bare: Sequence[Any], _rows: Sequence[Any]) -> Any:
    return sent


@dataclass(frozen=True, slots=True, kw_only=True)
class Hideable:
    """How records of one task are hidden.

    Attributes:
        records: the set's type; a frozen dataclass.
        rows: its field that holds the records, of which each has an `id`.
        images: the fields of a record that are references of images.
        bare: takes a record to what may be seen of it: its gold fields are blank.
        clusters: takes bare records to what each must share a split with; no unit of the task's joins two of them.
        metrics: that may be told, the headline's first.
        send: what is to be predicted, in words.
        nothing: predictions of so many records that are all wrong: a benchmark is measured on them before it is opened.
        restore: takes predictions of bare records to those of the records.
        size: a record's image: width and height in pixels, where its labels are in pixels.

    >>> HIDEABLE["nlvr2"].metrics
    ('accuracy', 'consistency')
    """

    records: type[Any]
    rows: str
    images: tuple[str, ...]
    bare: Callable[[Any], Any]
    clusters: Callable[[Sequence[Any]], Sequence[str]]
    metrics: tuple[str, ...]
    send: str
    nothing: Callable[[int], Any]
    restore: Callable[[Any, Sequence[Any], Sequence[Any]], Any] = _as_read
    size: Callable[[Any], tuple[int, int]] | None = None


def _bare_statement(row: Statement) -> Statement:
    return replace(row, label=False)


def _bare_question(row: Question) -> Question:
    return replace(row, answers=("",))


def _bare_box(row: Box) -> Box:
    return replace(row, box=(0.0, 0.0, 1.0, 1.0), candidates=())


def _bare_choice(row: Choice) -> Choice:
    """Give the two captions an order that is made of what is published: the new id, and the captions themselves."""
    first, second = sorted(
        (row.true, row.false), key=lambda text: hashlib.sha256(f"{row.id}\n{text}".encode()).digest()
    )
    return replace(row, true=first, false=second, tags={})


def _restored_choices(chosen: Chosen, bare: Sequence[Choice], rows: Sequence[Choice]) -> Chosen:
    """Turn round what was said of a record whose first published caption is the false one: its orders, and its answers."""
    kept = [shown.true == row.true for shown, row in zip(bare, rows, strict=True)]
    both = list(zip(kept, chosen.true_first, chosen.true_second, strict=True))
    return replace(
        chosen,
        true_first=tuple(first if own else -second for own, first, second in both),
        true_second=tuple(second if own else -first for own, first, second in both),
    )


def _of_image(rows: Sequence[Any]) -> list[str]:
    return [row.image for row in rows]


def _of_sentence(rows: Sequence[Statement]) -> list[str]:
    return [row.sentence for row in rows]


def _of_linked_images(rows: Sequence[Question]) -> list[str]:
    """Link the images of a question that is asked of two, whether their answers differ (a pair of VLUE's) or not.

    Were only pairs kept together, the split would tell which they are.
    """
    asked: dict[str, list[Question]] = defaultdict(list)
    for row in rows:
        asked[row.question.lower().strip()].append(row)
    linked = linked_images([(own[0].image, own[1].image) for own in asked.values() if len(own) == 2])
    return [linked.get(row.image, row.image) for row in rows]


HIDEABLE: Mapping[str, Hideable] = MappingProxyType(
    {
        "nlvr2": Hideable(
            records=StatementSet,
            rows="statements",
            images=("left", "right"),
            bare=_bare_statement,
            clusters=_of_sentence,
            metrics=("accuracy", "consistency"),
            send="`prediction` is true or false: whether the sentence is true of the left and the right image.",
            nothing=lambda size: [None] * size,
        ),
        "vqa": Hideable(
            records=QuestionSet,
            rows="questions",
            images=("image",),
            bare=_bare_question,
            clusters=_of_linked_images,
            metrics=("exact_match", "exact_match_cleaned"),
            send="`prediction` is the answer, in a word or a few.",
            nothing=lambda size: [""] * size,
        ),
        "vqa2": Hideable(
            records=QuestionSet,
            rows="questions",
            images=("image",),
            bare=_bare_question,
            clusters=_of_image,
            metrics=("soft_accuracy", "soft_accuracy_xvlm"),
            send="`prediction` is the answer, in a word or a few.",
            nothing=lambda size: [""] * size,
        ),
        "grounding": Hideable(
            records=BoxSet,
            rows="boxes",
            images=("image",),
            bare=_bare_box,
            clusters=_of_image,
            metrics=("box_accuracy", "box_accuracy_plain", "mean_iou"),
            send="`prediction` is the box of what the phrase refers to: [x, y, width, height] in pixels, from the image's\n"
            "upper left corner.",
            nothing=lambda size: [(0.0, 0.0, 0.0, 0.0)] * size,
            size=lambda row: row.size,
        ),
        "choice": Hideable(
            records=ChoiceSet,
            rows="choices",
            images=("image",),
            bare=_bare_choice,
            clusters=_of_image,
            metrics=("both_orders", "true_first", "true_second"),
            send="`prediction` is 1 or 2: the caption that fits the image. Every item stands there twice (ID/1 and ID/2), with its\n"
            "captions in both orders; ask anew for each.",
            nothing=lambda size: Chosen((0,) * size, (0,) * size),
            restore=_restored_choices,
        ),
    }
)
"""Task -> how its records are hidden."""
