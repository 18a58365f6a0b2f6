"""Forced choice in words: which of two captions fits the image, asked in both orders, with the bias of the order."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from tellapart.data.answer_text import current_reading, plain_answer, strip_thought
from tellapart.data.fields import field_fault
from tellapart.data.pairset import PairSet
from tellapart.data.rows import AnnotationRow, Filled
from tellapart.data.scores import join_names
from tellapart.data.strict_json import read_json
from tellapart.data.task_records import ChoiceSet, Record
from tellapart.data.validation import validate
from tellapart.errors import DataError, ModelError, quote
from tellapart.metrics.order_bias import order_bias
from tellapart.models.generative.answers import BothOrders, Chooser, parse_pairing
from tellapart.models.generative.readings import Answerer
from tellapart.tasks.declared import facts_of, hiding_of
from tellapart.tasks.predictions import align_file, make_name_index, parse_text, read_predictions
from tellapart.tasks.running import ask, compute_batches, describe_unread, expect_filled
from tellapart.tasks.task import Hiding, Session, Task, Units, all_images, unit_of, value_of


def _pairing_template(records: PairSet) -> Iterator[Mapping[str, Any]]:
    for item in records.items:
        sides = dict(zip(("left", "right"), item.images, strict=True))
        for order, texts in enumerate((item.texts, item.texts[::-1]), start=1):
            captions = {f"caption {number}": text for number, text in enumerate(texts, start=1)}
            yield {"id": f"{item.id}/{order}", "prediction": None, **sides, **captions}


def _read_answers(path: Path, records: PairSet) -> BothOrders:
    ids = [f"{item.id}/{order}" for item in records.items for order in (1, 2)]
    golds = ("1;2", "2;1")  # in the item's order, and swapped
    read = read_predictions(path, ids, parse_text, "question", lambda number, answer: answer == golds[number % 2])
    answers = expect_filled(path, read)
    return BothOrders(tuple(answers[0::2]), tuple(answers[1::2]))


def _measure_answers(records: PairSet, answers: BothOrders) -> tuple[Units, ...]:
    values = answers.measure()
    units = tuple(
        unit_of(item, texts=item.texts, output=[first, second], gold="1;2, then 2;1")
        for item, first, second in zip(records.items, answers.in_order, answers.swapped, strict=True)
    )
    return (Units("item", units, tuple(value_of(metric.name, values[metric.name]) for metric in PAIRING.metrics)),)


def _ask_pairings(model: Chooser, records: PairSet, session: Session) -> BothOrders:
    if records.shape != (2, 2):
        raise DataError(f"{records.name}: items have the shape {records.shape}; which caption belongs where needs 2x2")

    def choose(part: slice, pictures: Sequence[Any]) -> Iterator[tuple[str, str]]:
        sides = [(left, right) for left, right in pictures]
        listed = [(first, second) for first, second in (item.texts for item in records.items[part])]
        orders = [model.choose(sides, captions) for captions in (listed, [texts[::-1] for texts in listed])]
        if wrong := [len(answers) for answers in orders if len(answers) != len(sides)]:
            raise ModelError(f"model {model.name!r} returned {wrong[0]} answers for {len(sides)} items")
        return zip(*(map(strip_thought, answers) for answers in orders), strict=True)

    both = compute_batches([item.images for item in records.items], session, choose, "items", records.pixels)
    return BothOrders(tuple(first for first, _ in both), tuple(second for _, second in both))


def _pairing_notes(records: PairSet, answers: BothOrders) -> tuple[str, ...]:
    words = [*answers.in_order, *answers.swapped]
    unread = [answer for answer in words if parse_pairing(answer) is None]
    notes = describe_unread(unread, 2 * len(records), "cannot be read, and count as wrong", "1;2 or 2;1")
    return notes + answers.bias.notes("pairing_bias", "the order of the list", "the other order than the list's")


PAIRING = Task(
    **facts_of("pairing"),
    content=lambda records: [(item.id, item.images, item.texts) for item in records.items],
    template=_pairing_template,
    read=_read_answers,
    measure=_measure_answers,
    notes=_pairing_notes,
    runners=((Chooser, _ask_pairings),),
    images=lambda records: (image for item in records.items for image in item.images),
)


class _GivenAnswer(AnnotationRow):
    """The model's answer in the file: its free text, and its choice of a caption."""

    free_form_answer: str
    multiple_choice_answer: str


class GivenChoice(AnnotationRow):
    """An image's two captions and the answer, which chooses the one that it repeats word for word."""

    answer: _GivenAnswer
    caption: Filled
    negative_caption: Filled
    filename: Filled
    correct: bool

    @property
    def choice(self) -> int:
        """1 if the true caption was chosen, -1 if the false one was, 0 if neither."""
        return {self.negative_caption: -1, self.caption: 1}.get(self.answer.multiple_choice_answer, 0)


def read_given_choices(path: Path) -> dict[str, GivenChoice]:
    """Read one file of answers, such as `gpt-4v-results/positive-first/gpt4v-swap_obj.json`: item -> answer.

    If the file has a key `accuracy` among the items, it is the published result; the items must reproduce its four
    digits.

    Source: SugarCrepe `gpt-4v-results`.
    """
    content = read_json(path, dict)
    stated = content.pop("accuracy", None)  # one of the fourteen files holds its result among the items
    if not content:
        raise DataError(f"{path}: holds no items")
    answers = {key: validate(GivenChoice, value, f"{path}: item {key!r}") for key, value in content.items()}
    for key, item in answers.items():
        if item.correct != (item.choice == 1):
            fault = f"{item.correct} contradicts the answer {quote(item.answer.multiple_choice_answer)}"
            raise field_fault(f"{path}: item {key!r}", "correct", fault)
    share = sum(item.correct for item in answers.values()) / len(answers)
    if stated is not None and not (isinstance(stated, float | int) and abs(stated - share) <= 0.5e-4):
        raise DataError(f"{path}: field 'accuracy': {quote(stated)}, but the items give {share:.4f}")
    return answers


def read_both_orders(true_first: Path, true_second: Path) -> dict[str, tuple[int, int]]:
    """Read the choices of the same items in both orders: item -> choice with its true caption first, and second."""
    first, second = read_given_choices(true_first), read_given_choices(true_second)
    if only_one := sorted(first.keys() ^ second.keys()):
        raise DataError(f"{true_first} and {true_second} differ: item {only_one[0]!r} is in one of them only")
    asked = {"filename", "caption", "negative_caption"}
    for key, item in first.items():
        if item.model_dump(include=asked) != second[key].model_dump(include=asked):
            raise DataError(f"{true_second}: item {key!r}: its image or captions are not those of {true_first}")
    return {key: (item.choice, second[key].choice) for key, item in first.items()}


_ORDERS = ("positive-first", "negative-first")
_NO_MINUS = r"(?<!\A-)(?<![\s:(-]-)(?<!\N{MINUS SIGN})"  # `-1` is a number, and no place; `Caption-1` is one
#: A place at the beginning; a letter that a word follows may be the article.
_LEAD = re.compile(rf"(?ai)\W{{0,9}}(?:(?:option|caption|answer)\W{{0,3}})?({_NO_MINUS}[12]\b|[ab]\b(?!\s*\w))")
_MENTION = re.compile(rf"(?ai)\(([12ab])\)|\b(?:option|caption|answer(?: is)?)\W{{0,3}}{_NO_MINUS}([12])\b")
_NOT = re.compile(r"\b(?:(?:can)?not|neither|nor|incorrect|wrong|false)\b|n['\u2019]t\b", re.IGNORECASE)
#: "the other is wrong", "the other caption does not": no word against the place that is mentioned.
_OTHER_WRONG = re.compile(
    r"(?i)\bthe other(?: (?:one|caption|option|answer))? "
    r"(?:is (?:incorrect|wrong|false)|(?:is|does)(?: not|n['\u2019]t)(?! (?:incorrect|wrong|false)))\b"
)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The choices of each item in both orders: 1 the true caption, -1 the false one, 0 neither.

    `left_out` are ids that a published file answers and the benchmark no longer holds; `words` the two answers as they
    were given, if they are known; `prompt` has name, version and text if a model was asked here.
    """

    true_first: tuple[int, ...]
    true_second: tuple[int, ...]
    left_out: tuple[str, ...] = ()
    words: tuple[tuple[str, str], ...] = ()
    prompt: str = ""

    @property
    def both(self) -> list[tuple[int, int]]:
        """The two choices of each item."""
        return list(zip(self.true_first, self.true_second, strict=True))


def parse_choice(answer: str, first: str, second: str) -> int:
    """Return 1 or 2 for the caption that was chosen, 0 if the answer chooses neither.

    The grammar, through marks of Markdown, JSON and LaTeX; the first rule that fits decides:

    1. A place, 1 or 2 (A or B), alone or after "option", "caption" or "answer".
    2. A caption word for word, ends and case aside.
    3. A place, and then the caption there word for word: "(1) A red cup". Another place's caption is neither.
    4. A sentence that mentions one place alone, as `(1)` or `caption 1`, and holds no `not`, `neither`, `nor`,
       `incorrect`, `wrong` or `false`, except of "the other".

    >>> [parse_choice(answer, "a red cup", "a blue cup") for answer in ("(2)", "A red cup", "both")]
    [2, 1, 0]
    >>> [parse_choice(answer, "a red cup", "a blue cup") for answer in ("2. A blue cup", "It is (1).", "Not (1)")]
    [2, 1, 0]
    """
    said, number = plain_answer(answer), make_name_index((first, second))
    lead = _LEAD.match(said)
    rest = said[lead.end() :].lstrip(").:-, \n") if lead else ""
    if lead and not re.search(r"\w", rest):
        return _place_of(lead[1])
    if (place := max(number(answer), number(said))) >= 0:
        return place + 1
    if lead and (place := number(rest)) >= 0:
        return place + 1 if place + 1 == _place_of(lead[1]) else 0
    places = {_place_of(mention[1] or mention[2]) for mention in _MENTION.finditer(said)}
    return places.pop() if len(places) == 1 and not _NOT.search(_OTHER_WRONG.sub("", said)) else 0


def _place_of(letter: str) -> int:
    return 2 if letter in "2bB" else 1


def _fill_template(records: ChoiceSet) -> Iterator[Mapping[str, Any]]:
    for choice in records.rows:
        for order, (first, second) in enumerate((choice.texts, choice.texts[::-1]), start=1):
            yield {"id": f"{choice.id}/{order}", "prediction": None, "image": choice.images[0], "1": first, "2": second}


def read_choices(path: Path, records: ChoiceSet) -> Chosen:
    """Read answers in both orders: a file of predictions, or a folder with `positive-first/` and `negative-first/`."""
    if path.is_dir():
        return _read_published(path, records)
    ids = [f"{choice.id}/{order}" for choice in records.rows for order in (1, 2)]
    # Of each item the first row has the true caption first, and the second one has it second.
    answers = read_predictions(path, ids, parse_text, "answer", lambda number, answer: answer == str(number % 2 + 1))
    return _read_words(records, answers)


def _read_words(records: ChoiceSet, answers: Sequence[str], prompt: str = "") -> Chosen:
    """Read two answers an item: with the true caption first, and with it second."""
    by_place = (0, 1, -1)  # neither, the first caption, the second
    words = tuple(zip(answers[0::2], answers[1::2], strict=True))
    rows = list(zip(records.rows, words, strict=True))
    return Chosen(
        tuple(by_place[parse_choice(answer, *row.texts)] for row, (answer, _) in rows),
        tuple(-by_place[parse_choice(answer, *row.texts[::-1])] for row, (_, answer) in rows),
        words=words,
        prompt=prompt,
    )


def _ask_model(model: Answerer, records: ChoiceSet, session: Session) -> Chosen:
    prompt = model.task_prompt("choice")
    orders = [order for row in records.rows for order in (row.texts, row.texts[::-1])]
    images = [row.images for row in records.rows for _ in range(2)]
    prompts = [prompt.fill(first=first, second=second) for first, second in orders]
    return _read_words(records, ask(model, images, prompts, session), f"{prompt.label}: {prompt.text}")


def _read_published(folder: Path, records: ChoiceSet) -> Chosen:
    """Read SugarCrepe's fourteen files of GPT-4V; their ids are the subset and the item's key."""
    current_reading().fields_read = "multiple_choice_answer"
    answers: dict[str, tuple[int, int]] = {}
    for path in sorted((folder / _ORDERS[0]).glob("*.json")):
        subset = path.stem.removeprefix("gpt4v-")
        both = read_both_orders(path, folder / _ORDERS[1] / path.name)
        answers |= {f"{subset}/{key}": choices for key, choices in both.items()}
    if not answers:
        raise DataError(
            f"{folder} holds no {_ORDERS[0]}/*.json; name SugarCrepe's gpt-4v-results, or a file of predictions"
        )
    ids = [choice.id for choice in records.rows]
    left_out = tuple(sorted(answers.keys() - {*ids}))
    choices = align_file(folder, ids, {id_: answers[id_] for id_ in answers.keys() & {*ids}})
    return Chosen(tuple(one for one, _ in choices), tuple(other for _, other in choices), left_out)


def measure_choices(records: ChoiceSet, chosen: Chosen) -> tuple[Units, ...]:
    """Measure choices in both orders; items on one image are one cluster."""
    bias = order_bias(np.array(chosen.true_first), np.array(chosen.true_second))
    mean = (bias.true_first + bias.true_second) / 2
    values = (bias.both, mean, bias.difference, bias.true_first, bias.true_second, bias.chose_first)
    words = chosen.words or [("", "")] * len(records.rows)
    rows = zip(records.rows, chosen.both, words, strict=True)
    units = tuple(
        unit_of(
            choice,
            output=[
                {1: "true", -1: "false"}.get(place, f"neither: {said}" if said else "neither")
                for place, said in zip(both, words, strict=True)
            ],
            gold=choice.texts[0],
        )
        for choice, both, words in rows
    )
    return (Units("item", units, tuple(map(value_of, CHOICE.metrics, values))),)


def _write_notes(_records: ChoiceSet, chosen: Chosen) -> tuple[str, ...]:
    notes = [f"asked in both orders by the prompt {chosen.prompt!r}"] if chosen.prompt else []
    choices = [*chain(*chosen.both)]
    words = [*chain(*chosen.words)] or [""] * len(choices)
    unread = [answer for answer, choice in zip(words, choices, strict=True) if choice == 0]
    why = "choose neither caption, and count as wrong"
    notes += describe_unread(unread, len(choices), why, "1, 2, or one of the captions")
    bias = order_bias(np.array(chosen.true_first), np.array(chosen.true_second))
    notes += bias.notes("order_bias", "the first caption", "the second")
    if chosen.left_out:
        notes.append(f"answers to items that the benchmark does not hold were left out: {join_names(chosen.left_out)}")
    return tuple(notes)


def _bare_choice(row: Record) -> Record:
    """Give the two captions an order that depends only on published values: the new id, and the captions themselves."""
    texts = sorted(row.texts, key=lambda text: hashlib.sha256(f"{row.id}\n{text}".encode()).digest())
    return replace(row, texts=tuple(texts), tags={})


def _restore_order(chosen: Chosen, bare: Sequence[Record], rows: Sequence[Record]) -> Chosen:
    """Swap back the orders and answers of records whose first published caption is the false one."""
    in_order = [published.texts == row.texts for published, row in zip(bare, rows, strict=True)]
    both = [pair if same else (-pair[1], -pair[0]) for same, pair in zip(in_order, chosen.both, strict=True)]
    return replace(chosen, true_first=tuple(pair[0] for pair in both), true_second=tuple(pair[1] for pair in both))


CHOICE = Task(
    **facts_of("choice"),
    template=_fill_template,
    read=read_choices,
    measure=measure_choices,
    notes=_write_notes,
    runners=((Answerer, _ask_model),),
    images=all_images,
    hiding=Hiding(
        records=ChoiceSet,
        bare=_bare_choice,
        clusters=lambda rows: [row.cluster or row.images[0] for row in rows],
        **hiding_of("choice"),
        nothing=lambda size: Chosen((0,) * size, (0,) * size),
        restore=_restore_order,
    ),
)
