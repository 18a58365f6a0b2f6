"""EqBen's protocol for models that answer in words, on any set of 2x2 pairs: which caption belongs to which image?

Predictions are read as every task's are: two rows an item, `ID/1` with the captions in the item's order and `ID/2` with
them swapped; a prediction is the answer in the model's words, such as `1;2`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tellapart.data.pairset import PairSet
from tellapart.metrics.metric import Metric
from tellapart.models.generative.answers_grammar import parse_pairing
from tellapart.models.generative.choice import BothOrders, Chooser, ask_both_orders
from tellapart.tasks.answering import describe_unread, read_answers
from tellapart.tasks.task import Task, Unit, Units, value_of

_SOURCE = "EqBen section 5.5 and Table 7"
_RIGHT_OR_WRONG = {"group_score_both_orders", "group_score_in_order", "group_score_swapped"}
_METRICS = tuple(
    Metric(
        name=name,
        title=title,
        source=_SOURCE,
        chance_level=chance,
        bounds=(-1.0 if name == "pairing_bias" else 0.0, 1.0),
        binary=name in _RIGHT_OR_WRONG,
    )
    for name, title, chance in (
        ("group_score_both_orders", "all of the pairing is right, in both orders of the captions", 0.25),
        ("group_score_in_order", "right with the captions in the item's order", 0.5),
        ("group_score_swapped", "right with the captions swapped", 0.5),
        ("pairing_bias", "right in order less right swapped", 0.0),
        ("followed_list", "the answer repeats the order of the list; one that cannot be read counts half", 0.5),
        ("unparseable", "the answer cannot be read", None),
    )
)
_LEANS = ("the order of the list", "the other order than the list's")


def _fill_template(records: PairSet) -> Iterator[Mapping[str, Any]]:
    for item in records.items:
        sides = dict(zip(("left", "right"), item.images, strict=True))
        for order, texts in enumerate((item.texts, item.texts[::-1]), start=1):
            captions = {f"caption {number}": text for number, text in enumerate(texts, start=1)}
            yield {"id": f"{item.id}/{order}", "prediction": None, **sides, **captions}


def _read_answers(path: Path, records: PairSet) -> BothOrders:
    ids = [f"{item.id}/{order}" for item in records.items for order in (1, 2)]
    golds = ("1;2", "2;1")  # in the item's order, and swapped
    answers = read_answers(path, ids, "question", lambda number, answer: answer == golds[number % 2])
    return BothOrders(tuple(item.id for item in records.items), tuple(answers[0::2]), tuple(answers[1::2]))


def _measure_answers(records: PairSet, answers: BothOrders) -> tuple[Units, ...]:
    values = answers.measure()
    values["pairing_bias"] = values.pop("order_bias")
    units = tuple(
        Unit(
            id=item.id,
            cluster=item.cluster,
            tags=dict(item.tags),
            images=item.images,
            texts=item.texts,
            output=[first, second],
            gold="1;2, then 2;1",
        )
        for item, first, second in zip(records.items, answers.in_order, answers.swapped, strict=True)
    )
    return (Units("item", units, tuple(value_of(metric, values[metric.name]) for metric in _METRICS)),)


def _write_notes(records: PairSet, answers: BothOrders) -> tuple[str, ...]:
    words = [*answers.in_order, *answers.swapped]
    unread = [answer for answer in words if parse_pairing(answer) is None]
    notes = describe_unread(unread, 2 * len(records), "cannot be read, and count as wrong", "1;2 or 2;1")
    return notes + answers.bias.notes("pairing_bias", *_LEANS)


PAIRING = Task(
    name="pairing",
    title="which caption belongs to which image, in words, asked in both orders",
    output="text",
    noun="question",
    metrics=_METRICS,
    content=lambda records: [(item.id, item.images, item.texts) for item in records.items],
    template=_fill_template,
    read=_read_answers,
    measure=_measure_answers,
    notes=_write_notes,
    runners=(
        (
            Chooser,
            lambda model, records, session: ask_both_orders(
                model, records, batch_size=session.batch, progress=session.progress
            ),
        ),
    ),
    models="a chat model, read by choice (reading=choice)",
    todo="answer in `prediction`, such as 1;2",
    images=lambda records: (image for item in records.items for image in item.images),
)
