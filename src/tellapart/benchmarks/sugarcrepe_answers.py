"""GPT-4V's published answers on SugarCrepe: it chose one of two captions, and was asked in both orders of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import Field

from tellapart.data.annotations import AnnotationRow, check_row, read_mapping
from tellapart.errors import DataError, quote

Filled = Annotated[str, Field(min_length=1, pattern=r"\S")]  # a blank is not a text
_STATED = "accuracy"  # one of the fourteen files holds its result among the items


class _GivenAnswer(AnnotationRow):
    """The model's answer in the file: its free text, and its choice of a caption."""

    free_form_answer: str
    multiple_choice_answer: str


class _Item(AnnotationRow):
    answer: _GivenAnswer
    caption: Filled
    negative_caption: Filled
    filename: Filled
    correct: bool


class CaptionChoice(NamedTuple):
    """An answer about one image: 1 if its true caption was chosen, -1 if the false one was, 0 if neither."""

    image: str
    captions: tuple[str, str]
    choice: int


def read_answers(path: Path) -> dict[str, CaptionChoice]:
    """Read one file of answers, such as `gpt-4v-results/positive-first/gpt4v-swap_obj.json`: item -> answer.

    An answer chooses the caption that it repeats word for word. If the file has a key `accuracy` among the items, it is
    the published result; the items must reproduce its four digits.

    Source: SugarCrepe `gpt-4v-results`.
    """
    content = read_mapping(path)
    stated = content.pop(_STATED, None)
    if not content:
        raise DataError(f"{path}: holds no items")
    answers = {key: _make_answer(value, f"{path}: item {key!r}") for key, value in content.items()}
    share = sum(answer.choice == 1 for answer in answers.values()) / len(answers)
    if stated is not None and not (isinstance(stated, float | int) and abs(stated - share) <= 0.5e-4):
        raise DataError(f"{path}: field {_STATED!r}: {quote(stated)}, but the items give {share:.4f}")
    return answers


def read_both_orders(true_first: Path, true_second: Path) -> dict[str, tuple[int, int]]:
    """Read the choices of the same items in both orders: item -> choice with its true caption first, and second."""
    first, second = read_answers(true_first), read_answers(true_second)
    if only_one := sorted(first.keys() ^ second.keys()):
        raise DataError(f"{true_first} and {true_second} differ: item {only_one[0]!r} is in one of them only")
    for key, answer in first.items():
        if answer[:2] != second[key][:2]:
            raise DataError(f"{true_second}: item {key!r}: its image or captions are not those of {true_first}")
    return {key: (answer.choice, second[key].choice) for key, answer in first.items()}


def _make_answer(value: object, place: str) -> CaptionChoice:
    """Check an item of a file, and return its answer; `where` begins the messages of errors."""
    item = check_row(_Item, value, place)
    chosen = item.answer.multiple_choice_answer
    if item.correct != (chosen == item.caption):
        raise DataError(f"{place}: field 'correct': {item.correct} contradicts the answer {quote(chosen)}")
    choice = 1 if item.correct else -1 if chosen == item.negative_caption else 0
    return CaptionChoice(item.filename, (item.caption, item.negative_caption), choice)
