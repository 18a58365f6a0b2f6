"""Records of tasks beyond minimal pairs: retrieval, statements, questions, boxes, captions.

Images are references, relative to the folder they are read from; none is opened here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from tellapart.data.scores import join_names
from tellapart.data.strict_json import first_repeated
from tellapart.errors import DataError

T = TypeVar("T")


def align(ids: Sequence[str], values: Mapping[str, T], noun: str = "predictions") -> list[T]:
    """Return the value of each id, in the order of the ids; nothing may be missing or left over.

    >>> align(["q1", "q2"], {"q2": "no", "q1": "yes"})
    ['yes', 'no']
    """
    missing, extra = [id_ for id_ in ids if id_ not in values], sorted(values.keys() - set(ids))
    if missing or extra:
        parts = [f"none for {len(missing)} of {len(ids)}: {join_names(missing)}"] if missing else []
        parts += [f"{len(extra)} for unknown ids: {join_names(extra)}"] if extra else []
        raise DataError(f"{noun} must be given once for each id; {'; '.join(parts)}")
    return [values[id_] for id_ in ids]


def check_ids(name: str, ids: Sequence[str]) -> None:
    """Check that a set has rows, and that no id is repeated."""
    if not ids:
        raise DataError(f"{name} holds no rows")
    if len(set(ids)) < len(ids):
        raise DataError(f"{name}: id {first_repeated(ids)!r} is repeated")


@dataclass(frozen=True)
class RetrievalSet:
    """Images and captions of one gallery, and which belong together.

    Equal images and equal captions may occur several times; each is a gallery entry.

    Attributes:
        name: the name of the set in results.
        images: a reference for each gallery image; equal ones are resampled together.
        captions: each gallery caption.
        pairs: the true pairs, image and caption, from 0.

    >>> gallery = RetrievalSet.of("two", ["a.png", "b.png"], [["a cat", "one cat"], ["a dog"]])
    >>> gallery.captions, gallery.pairs
    (('a cat', 'one cat', 'a dog'), ((0, 0), (0, 1), (1, 2)))
    """

    name: str
    images: tuple[str, ...]
    captions: tuple[str, ...]
    pairs: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        if not self.pairs:
            raise DataError(f"{self.name} pairs no image with a caption")
        if len(set(self.pairs)) < len(self.pairs):
            raise DataError(f"{self.name} lists the pair {first_repeated(self.pairs)} of image and caption twice")
        for side, (noun, size) in enumerate((("image", len(self.images)), ("caption", len(self.captions)))):
            used = {pair[side] for pair in self.pairs}
            if outside := sorted(used - set(range(size))):
                raise DataError(f"{self.name} pairs {noun} {outside[0]}, and has {size}, counted from 0")
            if len(used) < size:
                alone = [str(k) for k in range(size) if k not in used]
                raise DataError(f"{self.name}: {len(alone)} {noun}s are unpaired: {join_names(alone)}; leave them out")

    @classmethod
    def of(cls, name: str, images: Sequence[str], captions: Sequence[Sequence[str]]) -> RetrievalSet:
        """Make a gallery from images and the captions of each."""
        if len(images) != len(captions):
            raise DataError(f"{name} has {len(images)} images and captions for {len(captions)}")
        flat = tuple(caption for texts in captions for caption in texts)
        owners = (image for image, texts in enumerate(captions) for _ in texts)
        return cls(name, tuple(images), flat, tuple((image, caption) for caption, image in enumerate(owners)))

    def distinct_captions(self) -> tuple[RetrievalSet, tuple[int, ...]]:
        """Return the gallery in which equal captions are one entry, true of the images of all of them.

        The second value is the row of each distinct caption: the first that it stands in.

        >>> gallery = RetrievalSet.of("two", ["a.png", "b.png"], [["a cat"], ["a cat"]])
        >>> gallery.distinct_captions()[0].pairs, gallery.distinct_captions()[1]
        (((0, 0), (1, 0)), (0,))
        """
        groups = _group_rows(self.captions)
        entry = {row: k for k, rows in enumerate(groups) for row in rows}
        pairs = dict.fromkeys((image, entry[caption]) for image, caption in self.pairs)
        first = tuple(rows[0] for rows in groups)
        return RetrievalSet(self.name, self.images, tuple(self.captions[row] for row in first), tuple(pairs)), first

    @cached_property
    def caption_clusters(self) -> tuple[str, ...]:
        """The image that each caption belongs to (the first, if several), with which its query is resampled."""
        first: dict[int, int] = {}
        for image, caption in sorted(self.pairs):
            first.setdefault(caption, image)
        return tuple(self.images[first[caption]] for caption in range(len(self.captions)))


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence about two images, and whether it is true of them (NLVR2).

    Attributes:
        group: of the rows that consistency is over: one sentence about one set of images. All rows of the sentence are
            one group if it is empty.
    """

    id: str
    sentence: str
    left: str
    right: str
    label: bool
    group: str = ""


@dataclass(frozen=True)
class StatementSet:
    """Statements to judge true or false."""

    name: str
    statements: tuple[Statement, ...]

    def __post_init__(self) -> None:
        check_ids(self.name, [statement.id for statement in self.statements])

    def sentence_groups(self, *, both_labels: bool = False) -> tuple[tuple[int, ...], ...]:
        """Return the rows of each sentence of a set, in file order: the groups of NLVR2's consistency.

        Without sets they are the rows of each distinct sentence.
        """
        groups = _group_rows([statement.group or statement.sentence for statement in self.statements])
        if not both_labels:
            return groups
        return tuple(group for group in groups if len({self.statements[row].label for row in group}) == 2)


@dataclass(frozen=True, slots=True)
class Question:
    """A question about an image, with one gold answer or the answers of several people."""

    id: str
    question: str
    image: str
    answers: tuple[str, ...]


@dataclass(frozen=True)
class QuestionSet:
    """Questions to answer in words."""

    name: str
    questions: tuple[Question, ...]

    def __post_init__(self) -> None:
        check_ids(self.name, [question.id for question in self.questions])
        if bare := [question.id for question in self.questions if not question.answers]:
            raise DataError(f"{self.name}: {len(bare)} questions have no answer: {join_names(bare)}")

    @cached_property
    def gold(self) -> tuple[str, ...]:
        """The one gold answer of each question."""
        for question in self.questions:
            if len(question.answers) != 1:
                raise DataError(
                    f"{self.name}: question {question.id} has {len(question.answers)} answers and not one gold answer; "
                    "use soft_accuracy on them"
                )
        return tuple(question.answers[0] for question in self.questions)

    def complementary_pairs(self) -> tuple[tuple[int, int], ...]:
        """Return the rows of each question that is asked of exactly two images and answered differently on each.

        Questions are compared in lower case and without blanks at the ends. Such a pair is a minimal pair of images:
        right on both is the group score, and a model that ignores the image gets none.

        Source: VLUE section 3.2 (workers wrote questions whose answers differ between two images).

        >>> rows = Question("0", "One cup?", "a.png", ("yes",)), Question("1", "one cup? ", "b.png", ("no",))
        >>> QuestionSet("vqa", rows).complementary_pairs()
        ((0, 1),)
        """
        rows = self.questions
        groups = _group_rows([question.question.lower().strip() for question in rows])
        twice = [(group[0], group[1]) for group in groups if len(group) == 2]
        return tuple((a, b) for a, b in twice if rows[a].image != rows[b].image and rows[a].answers != rows[b].answers)


@dataclass(frozen=True, slots=True)
class Box:
    """A phrase and the box it refers to: x, y, width, height in pixels; and candidate boxes, if any."""

    id: str
    text: str
    image: str
    box: tuple[float, float, float, float]
    size: tuple[int, int]
    candidates: tuple[tuple[float, float, float, float], ...] = ()


@dataclass(frozen=True)
class BoxSet:
    """Phrases to find in images."""

    name: str
    boxes: tuple[Box, ...]

    def __post_init__(self) -> None:
        check_ids(self.name, [box.id for box in self.boxes])
        for box in self.boxes:
            if min(box.box[2:]) <= 0:
                raise DataError(f"{self.name}: box {box.id} has no area: {box.box} is x, y, width, height")


@dataclass(frozen=True)
class CaptionSet:
    """Images to caption, with their ids, and the captions that people wrote, one or more an image."""

    name: str
    ids: tuple[str, ...]
    images: tuple[str, ...]
    references: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        check_ids(self.name, self.ids)
        if not len(self.ids) == len(self.images) == len(self.references):
            raise DataError(
                f"{self.name} has {len(self.ids)} ids, {len(self.images)} images and references for "
                f"{len(self.references)}"
            )
        if bare := [id_ for id_, texts in zip(self.ids, self.references, strict=True) if not texts]:
            raise DataError(f"{self.name}: {len(bare)} images have no reference caption: {join_names(bare)}")


def _group_rows(keys: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """Return the rows of each distinct key, in order of first appearance."""
    rows: dict[str, list[int]] = defaultdict(list)
    for row, key in enumerate(keys):
        rows[key].append(row)
    return tuple(map(tuple, rows.values()))
