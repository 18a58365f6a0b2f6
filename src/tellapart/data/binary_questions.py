"""Questions with two possible answers, yes or no, or A or B, and the groups in which they are asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tellapart.data.task_records import check_ids
from tellapart.errors import DataError, quote

_GOLD = {
    **dict.fromkeys(("yes", "true", "1"), "yes"),
    **dict.fromkeys(("no", "false", "0"), "no"),
    **{word: word for word in ("first", "second")},
    **{word: letter for letter in "ab" for word in (letter, f"({letter})")},
}


def read_gold(value: str) -> str:
    """Return a file's gold answer as `yes`, `no`, `a`, `b`, `first` or `second`.

    >>> [read_gold(value) for value in ("Yes", "0", "(b)", "A")]
    ['yes', 'no', 'b', 'a']
    """
    gold = _GOLD.get(value.strip().lower())
    if gold is None:
        raise ValueError(f"expected yes or no, true or false, 1 or 0, A or B, first or second; got {quote(value)}")
    return gold


@dataclass(frozen=True, slots=True)
class BinaryQuestion:
    """A question about an image or two, and which of two answers is right.

    Attributes:
        question: as it is asked, with the words that ask for the form of the answer.
        answer: `yes` or `no`, `a` or `b`, `first` or `second`.
        question_id: questions of one group with one id are one question in different words; by the words, if empty.
        group: records of one group are a minimal pair or a quadruple, which is right if all of them are.
        cluster: the unit of resampling; if it is empty, the group, or the first image.

    >>> BinaryQuestion("0", ("a.png",), "Is the cup red? Please answer Yes or No.", "yes").cluster
    'a.png'
    """

    id: str
    images: tuple[str, ...]
    question: str
    answer: str
    group: str = ""
    cluster: str = ""
    question_id: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.cluster:
            object.__setattr__(self, "cluster", self.group or self.images[0])


@dataclass(frozen=True)
class BinaryQuestionSet:
    """Questions with two possible answers.

    Attributes:
        reader: how its authors read an answer, if they do it otherwise (`tellapart.metrics.yes_no.READERS`).
    """

    name: str
    questions: tuple[BinaryQuestion, ...]
    reader: str = ""

    def __post_init__(self) -> None:
        check_ids(self.name, [question.id for question in self.questions])
        for one in self.questions:
            if one.answer not in _GOLD.values():
                raise DataError(f"{self.name}: question {one.id}: no such answer: {one.answer!r}")

    def groups_by(self, what: str) -> tuple[tuple[int, ...], ...]:
        """Return the rows of each group, or of the same `images` or the same `question` of a group.

        A question is known by its id, if it has one, else by its words.
        Questions of one image and questions of two are looked at apart. If each of them stands alone, such groups do
            not exist: a pair that asks one question of each image has no two questions of one image. Where some have
        several rows, those of one row count, too, as HallusionBench counts them.
        """
        rows: dict[tuple[str, object, int], list[int]] = {}
        for row, question in enumerate(self.questions):
            if question.group:
                per_group = what == "group"
                asked = (question.question_id or question.question) if what == "question" else question.images
                key = (question.group, "", 0) if per_group else (question.group, asked, len(question.images))
                rows.setdefault(key, []).append(row)
        several = {images for (_, _, images), members in rows.items() if len(members) > 1}
        return tuple(tuple(members) for (_, _, images), members in rows.items() if images in several)
