"""Records of tasks beyond minimal pairs: galleries, statements, questions, boxes, rankings, moments...

Images are references, relative to the folder they are read from; none is opened here.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from tellapart.data.pairset import PairSet
from tellapart.data.scores import join_names
from tellapart.data.strict_json import first_repeated
from tellapart.errors import DataError, quote

T = TypeVar("T")


def align(ids: Sequence[str], values: Mapping[str, T], noun: str = "predictions") -> list[T]:
    """Return the value of each id, in the order of the ids; nothing may be missing or left over."""
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


def linked_images(pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return a name for the group of each image: images that a pair joins, also by way of others, are of one group.

    A group bears the name of its first image in alphabetical order.
    """
    parent: dict[str, str] = {}

    def root(image: str) -> str:
        while parent.setdefault(image, image) != image:
            parent[image] = parent[parent[image]]
            image = parent[image]
        return image

    for one, other in pairs:
        first, second = sorted((root(one), root(other)))
        parent[second] = first
    return {image: root(image) for image in parent}


def _group_rows(keys: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """Return the rows of each distinct key, in order of first appearance."""
    rows: dict[str, list[int]] = defaultdict(list)
    for row, key in enumerate(keys):
        rows[key].append(row)
    return tuple(map(tuple, rows.values()))


@dataclass(frozen=True)
class RecordSet:
    """A named set of records with distinct ids, in the field that `ROWS` names."""

    ROWS: ClassVar[str]
    #: Fields of a record that fingerprints leave out where they are empty, since not all records had them.
    OPTIONAL: ClassVar[tuple[str, ...]] = ()

    name: str

    def __post_init__(self) -> None:
        check_ids(self.name, [row.id for row in self.rows])

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def rows(self) -> tuple[Any, ...]:
        """The records."""
        rows: tuple[Any, ...] = getattr(self, self.ROWS)
        return rows

    def select(self, places: Sequence[int]) -> Self:
        """Return the set of some records, by position."""
        fields: dict[str, Any] = {self.ROWS: tuple(self.rows[place] for place in places)}
        return replace(self, **fields)

    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Return the rows of each `group` of two records or more."""
        groups = _group_rows([record.group or f"\0{row}" for row, record in enumerate(self.rows)])
        return tuple(rows for rows in groups if len(rows) > 1)

    def content(self) -> dict[str, Any]:
        """Return the set as JSON holds it, for fingerprints."""
        content = asdict(self)
        for row in content[self.ROWS]:
            for key in self.OPTIONAL:
                if not row[key]:
                    del row[key]
        return content

    def refuse(self, noun: str, fault: str, rows: Iterable[Any], field: str) -> None:
        """Refuse the set if there are such rows, with the value of the first one's field."""
        if found := list(rows):
            more = f"; and {len(found) - 1} more: {join_names([row.id for row in found[1:]])}" if found[1:] else ""
            got = quote(getattr(found[0], field))
            raise DataError(f"{self.name}: {noun} {found[0].id}: {fault}; got {got}{more}", field=field)


@dataclass(frozen=True)
class RetrievalSet:
    """Images and captions of one gallery, and the true pairs, image and caption, from 0.

    Equal images and equal captions may occur several times; each is a gallery entry, and equal images are resampled
    together.
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
        """
        groups = _group_rows(self.captions)
        entry = {row: k for k, rows in enumerate(groups) for row in rows}
        pairs = dict.fromkeys((image, entry[caption]) for image, caption in self.pairs)
        distinct = replace(self, captions=tuple(dict.fromkeys(self.captions)), pairs=tuple(pairs))
        return distinct, tuple(rows[0] for rows in groups)

    def __len__(self) -> int:
        return len(self.images)

    def select(self, places: Sequence[int]) -> RetrievalSet:
        """Keep some images and the captions that belong to them: a smaller gallery, and so an easier one."""
        place_of = {place: k for k, place in enumerate(places)}
        pairs = [(place_of[image], caption) for image, caption in self.pairs if image in place_of]
        captions = {caption: k for k, caption in enumerate(sorted({caption for _, caption in pairs}))}
        return RetrievalSet(
            self.name,
            tuple(self.images[place] for place in places),
            tuple(self.captions[caption] for caption in captions),
            tuple((image, captions[caption]) for image, caption in pairs),
        )

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

    Consistency is over the rows of one group: one sentence about one set of images; by the sentence if it is empty.
    """

    id: str
    sentence: str
    left: str
    right: str
    label: bool
    group: str = ""


@dataclass(frozen=True)
class StatementSet(RecordSet):
    """Statements to judge true or false."""

    ROWS = "statements"
    OPTIONAL = ("group",)

    statements: tuple[Statement, ...]

    def sentence_groups(self, *, both_labels: bool = False) -> tuple[tuple[int, ...], ...]:
        """Return the rows of each sentence of a set, in file order: the groups of NLVR2's consistency.

        Without sets they are the rows of each distinct sentence.
        """
        groups = _group_rows([statement.group or statement.sentence for statement in self.statements])
        labels = ({self.statements[row].label for row in group} for group in groups)
        return tuple(group for group, both in zip(groups, labels, strict=True) if not both_labels or len(both) == 2)


@dataclass(frozen=True, slots=True)
class Question:
    """A question about an image, with one gold answer or the answers of several people.

    `biased` is a wrong answer of a model that does not look; records of one group are right if all of them are.
    """

    id: str
    question: str
    image: str
    answers: tuple[str, ...]
    biased: str = ""
    group: str = ""
    cluster: str = ""
    tags: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class QuestionSet(RecordSet):
    """Questions to answer in words."""

    ROWS = "questions"
    OPTIONAL = ("biased", "group", "cluster", "tags")

    questions: tuple[Question, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        self.refuse("question", "has no answer", (row for row in self.questions if not row.answers), "answers")

    @cached_property
    def gold(self) -> tuple[str, ...]:
        """The one gold answer of each question."""
        for row in self.questions:
            if len(row.answers) != 1:
                fault = f"has {len(row.answers)} answers and not one gold answer; use soft_accuracy on them"
                self.refuse("question", fault, [row], "answers")
        return tuple(question.answers[0] for question in self.questions)

    def complementary_pairs(self) -> tuple[tuple[int, int], ...]:
        """Return the rows of each question that is asked of exactly two images and answered differently on each.

        Questions are compared in lower case and without blanks at the ends. Such a pair is a minimal pair of images:
        right on both is the group score, and a model that ignores the image gets none.

        Source: VLUE section 3.2 (workers wrote questions whose answers differ between two images).
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
class BoxSet(RecordSet):
    """Phrases to find in images."""

    ROWS = "boxes"

    boxes: tuple[Box, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        flat = (box for box in self.boxes if min(box.box[2:]) <= 0)
        self.refuse("box", "has no area; it is x, y, width, height", flat, "box")


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
            counts = f"{len(self.ids)} ids, {len(self.images)} images and references for {len(self.references)}"
            raise DataError(f"{self.name} has {counts}")
        if bare := [id_ for id_, texts in zip(self.ids, self.references, strict=True) if not texts]:
            raise DataError(f"{self.name}: {len(bare)} images have no reference caption: {join_names(bare)}")

    def __len__(self) -> int:
        return len(self.ids)

    def select(self, places: Sequence[int]) -> CaptionSet:
        """Return the set of some images, by position."""
        columns = (tuple(column[place] for place in places) for column in (self.ids, self.images, self.references))
        return CaptionSet(self.name, *columns)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Choice:
    """An image and two captions, of which one is true."""

    id: str
    image: str
    true: str
    false: str
    tags: Mapping[str, str] = field(default_factory=dict)
    cluster: str = ""


@dataclass(frozen=True)
class ChoiceSet(RecordSet):
    """Choices, each to be asked twice: the true caption first, and second."""

    ROWS = "choices"
    OPTIONAL = ("cluster",)

    choices: tuple[Choice, ...]

    @classmethod
    def of_pairs(cls, pairs: PairSet) -> ChoiceSet:
        """Return the choices of 1x2 pairs; the image stands for a cluster that is the item's id alone."""
        choices = []
        for item in pairs.items:
            (image,), (true, false) = item.images, item.truth_first().texts
            cluster = "" if item.cluster in (item.id, image) else item.cluster
            choices.append(Choice(item.id, image, true, false, item.tags, cluster))
        return cls(pairs.name, tuple(choices))


@dataclass(frozen=True, slots=True)
class Ranking:
    """A query, its candidates in people's order, and the query's minimal edit if there is one.

    `people` is the place of each candidate, 1 for the closest; means over people and ties are allowed.
    """

    id: str
    query: str
    edited: str
    candidates: tuple[str, ...]
    people: tuple[float, ...]


@dataclass(frozen=True)
class RankingSet(RecordSet):
    """Rankings by people."""

    ROWS = "rankings"

    rankings: tuple[Ranking, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        for ranking in self.rankings:
            if not len(ranking.candidates) == len(ranking.people) >= 2 or not all(map(math.isfinite, ranking.people)):
                fault = f"has {len(ranking.candidates)} candidates; give two or more, and a finite place for each"
                self.refuse("ranking", fault, [ranking], "people")


_GOLD = {
    **dict.fromkeys(("yes", "true", "1"), "yes"),
    **dict.fromkeys(("no", "false", "0"), "no"),
    **{word: word for word in ("first", "second")},
    **{word: letter for letter in "ab" for word in (letter, f"({letter})")},
}


def read_gold(value: str) -> str:
    """Return a file's gold answer as `yes`, `no`, `a`, `b`, `first` or `second`."""
    gold = _GOLD.get(value.strip().lower())
    if gold is None:
        raise ValueError(f"expected yes or no, true or false, 1 or 0, A or B, first or second; got {quote(value)}")
    return gold


@dataclass(frozen=True, slots=True)
class BinaryQuestion:
    """A question about an image or two, as it is asked, and which of two answers is right.

    Questions of one group with one `question_id` are one question in different words. Records of one group are a
    minimal pair or a quadruple, which is right if all of them are. An empty cluster is the group or the first image.
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
class BinaryQuestionSet(RecordSet):
    """Questions with two possible answers; `reader` is how its authors read an answer (`metrics.yes_no.READERS`)."""

    ROWS = "questions"
    OPTIONAL = ("question_id",)

    questions: tuple[BinaryQuestion, ...]
    reader: str = ""

    def content(self) -> dict[str, Any]:
        """Return the set as JSON holds it, without its reader: answers are read by it, and it is no question's."""
        return {key: value for key, value in super().content().items() if key != "reader"}

    def __post_init__(self) -> None:
        super().__post_init__()
        unknown = (row for row in self.questions if row.answer not in _GOLD.values())
        answers = ", ".join(dict.fromkeys(_GOLD.values()))
        self.refuse("question", f"its answer must be one of {answers}", unknown, "answer")

    def groups_by(self, what: str) -> tuple[tuple[int, ...], ...]:
        """Return the rows of each group, or of the same `images` or `question` (by its id, or words) of a group.

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


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment in a video at which something changes, with the state before and after it; times in seconds."""

    id: str
    video: str
    time: float
    subject: str
    before: str
    after: str
    label: str
    next_time: float

    @property
    def before_caption(self) -> str:
        """The caption of the frames before the moment: subject and state, as in EqBen's Fig. 16."""
        return f"{self.subject} {self.before}"

    @property
    def after_caption(self) -> str:
        """The caption of the frames after the moment."""
        return f"{self.subject} {self.after}"


@dataclass(frozen=True)
class MomentSet(RecordSet):
    """Moments to find in videos; each is a query, and the moments of a video are resampled together.

    Several people marked the same videos, so two moments may have the same time, and one change several times (`gold`).
    Lengths of videos and other times of a change come from `whole`, the set that these are some moments of.
    """

    ROWS = "moments"

    moments: tuple[Moment, ...]
    whole: MomentSet | None = None

    def select(self, places: Sequence[int]) -> MomentSet:
        """Return the set of some moments, by position."""
        return MomentSet(self.name, tuple(self.moments[place] for place in places), self)

    def content(self) -> dict[str, Any]:
        """Return the set as JSON holds it."""
        content = {"name": self.name, "moments": [asdict(moment) for moment in self.moments]}
        return content if self.whole is None else content | {"whole": self.whole.content()}

    @property
    def _all_moments(self) -> MomentSet:
        return self if self.whole is None else self.whole._all_moments

    @cached_property
    def videos(self) -> Mapping[str, tuple[Moment, ...]]:
        """The moments of each video, in order of time; those at the same time in order of id."""
        videos: dict[str, list[Moment]] = defaultdict(list)
        for moment in sorted(self.moments, key=lambda moment: (moment.time, moment.id)):
            videos[moment.video].append(moment)
        return {video: tuple(videos[video]) for video in sorted(videos)}

    @cached_property
    def gold(self) -> tuple[tuple[float, ...], ...]:
        """All times that are right for each query: those of the same change in the same video, rising."""
        times: dict[tuple[str, str, str, str], set[float]] = defaultdict(set)
        for m in self._all_moments.moments:
            times[m.video, m.subject, m.before, m.after].add(m.time)
        return tuple(tuple(sorted(times[m.video, m.subject, m.before, m.after])) for m in self.moments)

    def duration(self, video: str) -> float:
        """Return the length of a video in seconds, as far as its moments show: the latest `next_time`."""
        if video not in self._all_moments.videos:
            raise DataError(f"{self.name} has no moment in a video {video!r}")
        return max(moment.next_time for moment in self._all_moments.videos[video])


@dataclass(frozen=True, slots=True)
class ClassifiedImage:
    """An image and the index of its class, from 0; images with the same `cluster`, if any, are resampled together."""

    id: str
    image: str
    label: int
    cluster: str = ""


def check_templates(templates: tuple[str, ...], place: str) -> tuple[str, ...]:
    """Return the templates, each of which must hold `{}` once, the place of the class's name."""
    if not templates:
        raise DataError(f"{place}: no template; give one a line, such as: a photo of a {{}}.")
    for number, template in enumerate(templates, start=1):
        if template.count("{}") != 1:
            raise DataError(f"{place}: template {number} must hold {{}} once, for the class's name; got {template!r}")
    if len(set(templates)) < len(templates):
        raise DataError(f"{place}: a template is repeated, and would count twice")
    return templates


@dataclass(frozen=True)
class ClassificationSet(RecordSet):
    """Images of known classes, not one of each; templates hold `{}` for a class's name, and several are averaged."""

    ROWS = "pictures"

    classes: tuple[str, ...]
    templates: tuple[str, ...]
    pictures: tuple[ClassifiedImage, ...]

    def __post_init__(self) -> None:
        if len(self.classes) < 2:
            raise DataError(f"{self.name} has {len(self.classes)} classes; it needs two or more")
        if unnamed := [str(number) for number, name in enumerate(self.classes) if not name.strip()]:
            raise DataError(f"{self.name}: class {unnamed[0]} has no name")
        if (twice := first_repeated(self.classes)) is not None:
            raise DataError(f"{self.name}: two classes are called {twice!r}; give them two names in classes.txt")
        check_templates(self.templates, self.name)
        super().__post_init__()
        beyond = (picture for picture in self.pictures if not 0 <= picture.label < len(self.classes))
        self.refuse("picture", f"is of none of the {len(self.classes)} classes, counted from 0", beyond, "label")

    @property
    def prompts(self) -> tuple[tuple[str, ...], ...]:
        """The caption of every class in every template: `[template][class]`."""
        return tuple(tuple(template.replace("{}", name) for name in self.classes) for template in self.templates)


@dataclass(frozen=True, slots=True)
class RatedImage:
    """An image, the text that it is to show, and people's ratings of how well it does; higher is better.

    A rating is one a person; or a single label, 1 if it shows the text and 0 if not. Texts are resampled if the cluster
    is empty.
    """

    id: str
    image: str
    text: str
    ratings: tuple[float, ...]
    cluster: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def rating(self) -> float:
        """The mean of the ratings."""
        return math.fsum(self.ratings) / len(self.ratings)


@dataclass(frozen=True)
class RatingSet(RecordSet):
    """Images with their texts, and people's ratings of each."""

    ROWS = "rated"

    rated: tuple[RatedImage, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        bad = (row for row in self.rated if not row.ratings or not all(map(math.isfinite, row.ratings)))
        self.refuse("image", "has no rating, or one that is not finite", bad, "ratings")
        if len(np.unique(self.people)) < 2:
            rated = f"all {len(self.rated)} images are rated {self.people[0]:g}"
            raise DataError(f"{self.name}: {rated}; agreement with people needs two that are rated differently")

    @cached_property
    def people(self) -> NDArray[np.float64]:
        """The mean rating of each image, float64 `(image,)`."""
        return np.array([rating.rating for rating in self.rated])

    @property
    def labels(self) -> bool:
        """Whether the ratings are labels: 0 and 1, one an image."""
        return all(len(rating.ratings) == 1 for rating in self.rated) and bool(np.isin(self.people, (0, 1)).all())


def read_choice(ranking: str) -> int:
    """Return 1 if a ranking puts the first of two images before the second, -1 if behind it, 0 if they are equal.

    The images are named by two letters, the first by the earlier one. What follows a tie is not read.

    >>> [read_choice(ranking) for ranking in ("A>B", "C>A", "A<B", "A=B", "A=B=Good")]
    [1, -1, -1, 0, 0]
    """
    found = re.match(r"\s*([A-Z])\s*([<>=])\s*([A-Z])(?=\s*$|=)", ranking)
    if found is None or found[1] == found[3] or (found[2] != "=" and found.end() < len(ranking.rstrip())):
        raise ValueError(f"expected a ranking such as A>B, B>A or A=B; got {quote(ranking)}")
    ahead = 1 if found[1] < found[3] else -1
    return {">": ahead, "<": -ahead, "=": 0}[found[2]]


@dataclass(frozen=True, slots=True)
class Preference:
    """Two images of one text, and which people prefer: 1 the first, -1 the second, 0 if they find them equal.

    Records of one group rank the images of one text, and are right if all of them are.
    """

    id: str
    text: str
    images: tuple[str, ...]
    choice: int
    group: str = ""
    cluster: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PreferenceSet(RecordSet):
    """Choices of people between two images of one text."""

    ROWS = "preferences"

    preferences: tuple[Preference, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not any(preference.choice for preference in self.preferences):
            raise DataError(f"{self.name}: people prefer no image of {len(self.preferences)} pairs; give one choice")

    @cached_property
    def people(self) -> NDArray[np.float64]:
        """The choice of each record, 1, 0 or -1: float64 `(pair,)`."""
        return np.array([preference.choice for preference in self.preferences], np.float64)


@dataclass(frozen=True, slots=True)
class ImageLabel:
    """A label, the positions of the set's images that it is judged on, and for each of them whether it is true."""

    id: str
    text: str
    counted: tuple[int, ...]
    true: tuple[bool, ...]


@dataclass(frozen=True)
class LabelSet(RecordSet):
    """Images, numbered from 0, and their labels."""

    ROWS = "labels"

    images: tuple[str, ...]
    labels: tuple[ImageLabel, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        unmarked = (row for row in self.labels if len(row.counted) != len(row.true) or not any(row.true))
        self.refuse("label", "needs a mark for each image, one or more of them true", unmarked, "true")
        beyond = (row for row in self.labels if not all(0 <= place < len(self.images) for place in row.counted))
        self.refuse("label", f"names an image beyond the {len(self.images)}, counted from 0", beyond, "counted")

    def images_of(self, label: ImageLabel) -> tuple[str, ...]:
        """Return the references of the images that a label is judged on."""
        return tuple(self.images[place] for place in label.counted)
