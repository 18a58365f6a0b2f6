"""Records of the tasks that are no minimal pairs: retrieval, statements, questions, boxes, captions.

Each set is what its metrics need and nothing else: ids, what is shown, what is true, and what must be resampled
together. Images are references, relative to the folder they are read from; none is opened here.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from tellapart.data.scores import named
from tellapart.errors import DataError

__all__ = [
    "Box",
    "BoxSet",
    "CaptionSet",
    "Question",
    "QuestionSet",
    "RetrievalSet",
    "Statement",
    "StatementSet",
    "aligned",
    "check_ids",
]

T = TypeVar("T")


def aligned(ids: Sequence[str], given: Mapping[str, T], noun: str = "predictions") -> list[T]:
    """Return what is given for each id, in the order of the ids; nothing may be missing or left over.

    Raises:
        DataError: some ids have nothing, or something is given for unknown ids; the first ten are named.

    >>> aligned(["q1", "q2"], {"q2": "no", "q1": "yes"})
    ['yes', 'no']
    """
    missing, extra = [id_ for id_ in ids if id_ not in given], sorted(given.keys() - set(ids))
    if missing or extra:
        parts = [f"none for {len(missing)} of {len(ids)}: {named(missing)}"] if missing else []
        parts += [f"{len(extra)} for unknown ids: {named(extra)}"] if extra else []
        raise DataError(f"{noun} must be given once for each id; {'; '.join(parts)}")
    return [given[id_] for id_ in ids]


def check_ids(name: str, ids: Sequence[str]) -> None:
    """Refuse a set without rows, or with an id that stands twice.

    Raises:
        DataError: one of the two.

    >>> check_ids("vqa", ["7", "7"])
    Traceback (most recent call last):
    tellapart.errors.DataError: vqa: id '7' stands twice
    """
    if not ids:
        raise DataError(f"{name} holds no rows")
    if len(set(ids)) < len(ids):
        raise DataError(f"{name}: id {_repeated(ids)!r} stands twice")


@dataclass(frozen=True)
class RetrievalSet:
    """Images and captions of one gallery, and which belong together.

    Equal images and equal captions may stand in several places; each place is a gallery entry of its own.

    Attributes:
        name: what results are filed under.
        images: a reference for each gallery image; also what must be resampled together.
        captions: each gallery caption.
        pairs: the true pairs, image and caption, from 0.

    Raises:
        DataError: no pair, a pair that is out of range or stands twice, or an image or caption without one.

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
            raise DataError(f"{self.name} lists the pair {_repeated(self.pairs)} of image and caption twice")
        for side, (noun, size) in enumerate((("image", len(self.images)), ("caption", len(self.captions)))):
            used = {pair[side] for pair in self.pairs}
            if outside := sorted(used - set(range(size))):
                raise DataError(f"{self.name} pairs {noun} {outside[0]}, and has {size}, counted from 0")
            if len(used) < size:
                alone = [str(k) for k in range(size) if k not in used]
                raise DataError(f"{self.name}: {len(alone)} {noun}s belong to nothing: {named(alone)}; leave them out")

    @classmethod
    def of(cls, name: str, images: Sequence[str], captions: Sequence[Sequence[str]]) -> RetrievalSet:
        """Make a gallery from images and the captions of each.

        Raises:
            DataError: not one list of captions an image, or an image without a caption.

        >>> RetrievalSet.of("one", ["a.png"], [["a cat"]]).pairs
        ((0, 0),)
        """
        if len(images) != len(captions):
            raise DataError(f"{name} has {len(images)} images and captions for {len(captions)}")
        flat = tuple(caption for own in captions for caption in own)
        owners = (image for image, own in enumerate(captions) for _ in own)
        return cls(name, tuple(images), flat, tuple((image, caption) for caption, image in enumerate(owners)))

    @cached_property
    def caption_clusters(self) -> tuple[str, ...]:
        """The image that each caption belongs to (the first, if several): what its query is resampled with.

        >>> RetrievalSet.of("two", ["a.png", "b.png"], [["a cat", "one cat"], ["a dog"]]).caption_clusters
        ('a.png', 'a.png', 'b.png')
        """
        first: dict[int, int] = {}
        for image, caption in sorted(self.pairs):
            first.setdefault(caption, image)
        return tuple(self.images[first[caption]] for caption in range(len(self.captions)))


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence about two images, and whether it is true of them (NLVR2).

    >>> Statement("0", "Both show a dog.", "a.png", "b.png", True).label
    True
    """

    id: str
    sentence: str
    left: str
    right: str
    label: bool


@dataclass(frozen=True)
class StatementSet:
    """Statements to be judged true or false.

    Raises:
        DataError: no statement, or an id that repeats.

    >>> one = Statement("0", "Both show a dog.", "a.png", "b.png", True)
    >>> StatementSet("nlvr2", (one,)).sentence_groups()
    ((0,),)
    """

    name: str
    statements: tuple[Statement, ...]

    def __post_init__(self) -> None:
        check_ids(self.name, [statement.id for statement in self.statements])

    def sentence_groups(self, *, both_labels: bool = False) -> tuple[tuple[int, ...], ...]:
        """Return the rows of each distinct sentence, in file order: the groups of NLVR2's consistency.

        Args:
            both_labels: only sentences that are true of one pair of images and false of another; a model that
                does not look cannot be right on all of such a group.

        >>> rows = [Statement(str(k), "Both show a dog.", f"{k}.png", "b.png", k == 0) for k in range(2)]
        >>> StatementSet("nlvr2", tuple(rows)).sentence_groups(both_labels=True)
        ((0, 1),)
        """
        groups = _grouped([statement.sentence for statement in self.statements])
        if not both_labels:
            return groups
        return tuple(group for group in groups if len({self.statements[row].label for row in group}) == 2)


@dataclass(frozen=True, slots=True)
class Question:
    """A question about an image, with one gold answer or the answers of several people.

    >>> Question("7", "What colour?", "a.png", ("brown",)).answers
    ('brown',)
    """

    id: str
    question: str
    image: str
    answers: tuple[str, ...]


@dataclass(frozen=True)
class QuestionSet:
    """Questions to be answered in words.

    Raises:
        DataError: no question, an id that repeats, or a question without an answer.

    >>> QuestionSet("vqa", (Question("7", "What colour?", "a.png", ("brown",)),)).gold
    ('brown',)
    """

    name: str
    questions: tuple[Question, ...]

    def __post_init__(self) -> None:
        check_ids(self.name, [question.id for question in self.questions])
        if bare := [question.id for question in self.questions if not question.answers]:
            raise DataError(f"{self.name}: {len(bare)} questions have no answer: {named(bare)}")

    @cached_property
    def gold(self) -> tuple[str, ...]:
        """The one gold answer of each question.

        Raises:
            DataError: a question has several answers; measure `soft_accuracy` on them.

        >>> QuestionSet("vqa", (Question("7", "What?", "a.png", ("a", "b")),)).gold
        Traceback (most recent call last):
        tellapart.errors.DataError: vqa: question 7 has 2 answers and not one gold answer; use soft_accuracy on them
        """
        for question in self.questions:
            if len(question.answers) != 1:
                raise DataError(
                    f"{self.name}: question {question.id} has {len(question.answers)} answers and not one gold answer; "
                    "use soft_accuracy on them"
                )
        return tuple(question.answers[0] for question in self.questions)

    def complementary_pairs(self) -> tuple[tuple[int, int], ...]:
        """Return the rows of each question that is asked of exactly two images and answered differently on each.

        Questions are the same where they are in lower case and without blanks at the ends. Such a pair is a minimal
        pair of images: right on both is the group score, and a model that does not look gets none.

        Source: VLUE section 3.2 (workers wrote questions whose answers differ between two images).

        >>> asked = [Question("0", "One cup?", "a.png", ("yes",)), Question("1", "one cup? ", "b.png", ("no",))]
        >>> QuestionSet("vqa", tuple(asked)).complementary_pairs()
        ((0, 1),)
        """
        asked = self.questions
        groups = _grouped([question.question.lower().strip() for question in asked])
        twice = [(group[0], group[1]) for group in groups if len(group) == 2]
        return tuple(
            (a, b) for a, b in twice if asked[a].image != asked[b].image and asked[a].answers != asked[b].answers
        )


@dataclass(frozen=True, slots=True)
class Box:
    """A phrase and the box it refers to: x, y, width, height in pixels; and candidate boxes where there are any.

    >>> Box("1", "man in black", "a.jpg", (10.0, 20.0, 30.0, 40.0), (640, 480)).size
    (640, 480)
    """

    id: str
    text: str
    image: str
    box: tuple[float, float, float, float]
    size: tuple[int, int]
    candidates: tuple[tuple[float, float, float, float], ...] = ()


@dataclass(frozen=True)
class BoxSet:
    """Phrases to be found in images.

    Raises:
        DataError: no phrase, an id that repeats, or a gold box without an area.

    >>> BoxSet("refcoco", (Box("1", "man", "a.jpg", (0.0, 0.0, 0.0, 9.0), (640, 480)),))
    Traceback (most recent call last):
    tellapart.errors.DataError: refcoco: box 1 has no area: (0.0, 0.0, 0.0, 9.0) is x, y, width, height
    """

    name: str
    boxes: tuple[Box, ...]

    def __post_init__(self) -> None:
        check_ids(self.name, [box.id for box in self.boxes])
        for box in self.boxes:
            if min(box.box[2:]) <= 0:
                raise DataError(f"{self.name}: box {box.id} has no area: {box.box} is x, y, width, height")


@dataclass(frozen=True)
class CaptionSet:
    """Images to be captioned, with the reference captions of each.

    Attributes:
        name: what results are filed under.
        ids: one an image; distinct.
        images: a reference for each.
        references: captions written by people, one or more an image.

    Raises:
        DataError: no image, an id that repeats, lists of different lengths, or an image without a reference.

    >>> CaptionSet("coco", ("0",), ("a.png",), (("a cat", "one cat"),)).references[0]
    ('a cat', 'one cat')
    """

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
        if bare := [id_ for id_, own in zip(self.ids, self.references, strict=True) if not own]:
            raise DataError(f"{self.name}: {len(bare)} images have no reference caption: {named(bare)}")


def _grouped(keys: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """The rows of each distinct key, in order of first appearance."""
    rows: dict[str, list[int]] = defaultdict(list)
    for row, key in enumerate(keys):
        rows[key].append(row)
    return tuple(map(tuple, rows.values()))


def _repeated(values: Sequence[T]) -> T:
    return next(value for value, count in Counter(values).items() if count > 1)
