"""SugarCrepe's published answers of GPT-4V: one caption of two to choose, asked in both caption orders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from tellapart.data.annotations import AnnotationRow, check_row, read_mapping
from tellapart.errors import DataError

__all__ = ["Answers", "read_answers", "read_both_orders"]

Filled = Annotated[str, Field(min_length=1, pattern=r"\S")]  # a blank says nothing
_STATED = "accuracy"  # one of the fourteen files holds its own result among the items


class _Given(AnnotationRow):
    free_form_answer: str
    multiple_choice_answer: str


class _Item(AnnotationRow):
    answer: _Given
    caption: Filled
    negative_caption: Filled
    filename: Filled
    correct: bool


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers to the items of one subset, asked in one order.

    Attributes:
        ids: the items' keys, in file order; they need not be contiguous.
        images: each item's file name; also what is resampled together.
        captions: each item's true and false caption.
        choices: 1 where the true caption was chosen, -1 where the false one was, 0 where neither.
    """

    ids: tuple[str, ...]
    images: tuple[str, ...]
    captions: tuple[tuple[str, str], ...]
    choices: tuple[int, ...]

    def in_order(self, rows: Sequence[int]) -> Answers:
        """Return the answers at these positions, in this order."""
        columns = (self.ids, self.images, self.captions, self.choices)
        return Answers(*(tuple(column[row] for row in rows) for column in columns))  # type: ignore[arg-type]


def read_answers(path: Path) -> Answers:
    """Read one file of answers, such as `gpt-4v-results/positive-first/gpt4v-swap_obj.json`.

    An answer's choice is the caption that it repeats word for word. A key `accuracy` among the items is the file's own
    result; the items must give it, to its four digits.

    Raises:
        DataError: the file, an item or a field is not what it should be, `correct` contradicts the answer, or the
            stated accuracy the items; file, key and field are named.

    Source: SugarCrepe `gpt-4v-results`.
    """
    content = read_mapping(path)
    stated = content.pop(_STATED, None)
    items = {key: check_row(_Item, value, f"{path}: item {key!r}") for key, value in content.items()}
    if not items:
        raise DataError(f"{path}: holds no items")
    choices = tuple(_choice(item, f"{path}: item {key!r}") for key, item in items.items())
    share = choices.count(1) / len(choices)
    if stated is not None and not (isinstance(stated, float | int) and abs(stated - share) <= 0.5e-4):
        raise DataError(f"{path}: field {_STATED!r}: {stated!r:.60}, but the items give {share:.4f}")
    captions = tuple((item.caption, item.negative_caption) for item in items.values())
    return Answers(tuple(items), tuple(item.filename for item in items.values()), captions, choices)


def read_both_orders(true_first: Path, true_second: Path) -> tuple[Answers, Answers]:
    """Read the answers to the same items in both orders, in the same sequence; for `order_bias`.

    Args:
        true_first: the file of the subset in `positive-first/`.
        true_second: its counterpart in `negative-first/`.

    Raises:
        DataError: as `read_answers`; also where the two files do not ask the same.
    """
    first, second = read_answers(true_first), read_answers(true_second)
    if only_one := sorted(set(first.ids) ^ set(second.ids)):
        raise DataError(f"{true_first} and {true_second} differ: item {only_one[0]!r} is in one of them only")
    row_of = {key: row for row, key in enumerate(second.ids)}
    second = second.in_order([row_of[key] for key in first.ids])
    questions = zip(first.images, first.captions, second.images, second.captions, strict=True)
    for key, (image, captions, other_image, other_captions) in zip(first.ids, questions, strict=True):
        if (image, captions) != (other_image, other_captions):
            raise DataError(f"{true_second}: item {key!r}: its image or captions are not those of {true_first}")
    return first, second


def _choice(item: _Item, where: str) -> int:
    chosen = item.answer.multiple_choice_answer
    if item.correct != (chosen == item.caption):
        raise DataError(f"{where}: field 'correct': {item.correct} contradicts the answer {chosen!r:.60}")
    return 1 if item.correct else -1 if chosen == item.negative_caption else 0
