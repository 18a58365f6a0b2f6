"""Records of tasks beyond minimal pairs: galleries, statements, questions, boxes, rankings, moments...

Images are references, relative to the folder they are read from; none is opened here.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator

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

    for pair in pairs:
        first, second = sorted(map(root, pair))
        parent[second] = first
    return {image: root(image) for image in parent}


def _group_rows(keys: Iterable[Hashable]) -> tuple[tuple[int, ...], ...]:
    """Return the rows of each distinct key, in order of first appearance, without those whose key is None."""
    rows: dict[Hashable, list[int]] = defaultdict(list)
    for row, key in enumerate(keys):
        if key is not None:
            rows[key].append(row)
    return tuple(map(tuple, rows.values()))


def _as_tuples(value: Any) -> Any:
    """Return the lists that JSON has in place of tuples as tuples, at any level."""
    if isinstance(value, Mapping):
        return {key: _as_tuples(entry) for key, entry in value.items()}
    return tuple(map(_as_tuples, value)) if isinstance(value, list | tuple) else value


@dataclass(frozen=True, slots=True)
class Record:
    """What a task asks, and what is right.

    Attributes:
        id: distinct in its set.
        images: references of the images shown, in their order.
        texts: the question, the sentence or the captions.
        gold: as the set of the records says.
        group: records of one group are right if all of them are.
        cluster: the unit of resampling; as the task says if it is empty.
        tags: by which results are broken down.
        facts: fields that the records of one task alone have, such as the size of a box's image.

    >>> Record("a", ("cup.png",), ("One cup?",), ("yes",)).gold
    ('yes',)
    """

    id: str
    images: tuple[str, ...]
    texts: tuple[str, ...]
    gold: Annotated[Any, BeforeValidator(_as_tuples)] = ""
    group: str = ""
    cluster: str = ""
    tags: Mapping[str, str] = field(default_factory=dict, hash=False)
    facts: Annotated[Mapping[str, Any], BeforeValidator(_as_tuples)] = field(default_factory=dict, hash=False)

    def look_up(self, path: str) -> Any:
        """Return what a path names: `texts.0`, `facts.size`; a fact that the record lacks is empty."""
        name, _, key = path.partition(".")
        value = getattr(self, name)
        return value.get(key, "") if name in ("tags", "facts") and key else value[int(key)] if key else value


@dataclass(frozen=True)
class RecordSet:
    """A named set of records with distinct ids."""

    #: The key of the records in the set's content, and the fields of one there, as `key=path`. Of a field with `?` the
    #: content has what is not empty, since not all records had it.
    KEY: ClassVar[str]
    FIELDS: ClassVar[str]

    name: str
    rows: tuple[Record, ...]

    def __post_init__(self) -> None:
        if not self.rows:
            raise DataError(f"{self.name} holds no rows")
        if (twice := first_repeated(row.id for row in self.rows)) is not None:
            raise DataError(f"{self.name}: id {twice!r} is repeated")
        self._settle_rows()

    def _settle_rows(self) -> None:
        """Check the rows, or complete them."""

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def gold(self) -> Sequence[Any]:
        """What is right, of each record."""
        return [row.gold for row in self.rows]

    def select(self, places: Sequence[int]) -> Self:
        """Return the set of some records, by position."""
        return replace(self, rows=tuple(self.rows[place] for place in places))

    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Return the rows of each `group` of two records or more."""
        return tuple(rows for rows in _group_rows(row.group or None for row in self.rows) if len(rows) > 1)

    def content(self) -> dict[str, Any]:
        """Return the set as JSON holds it, for fingerprints."""
        others = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "rows"}
        return others | {self.KEY: [self.row_content(row) for row in self.rows]}

    def row_content(self, row: Record) -> dict[str, Any]:
        """Return a record as JSON holds it."""
        content = {}
        for declared in self.FIELDS.split():
            key, _, path = declared.partition("=")
            value = row.look_up((path or key).rstrip("?"))
            if value or not declared.endswith("?"):
                content[key.rstrip("?")] = value
        return content

    def refuse(self, noun: str, fault: str, rows: Iterable[Record], field: str) -> None:
        """Refuse the set if there are such rows, with the value of the first one's field."""
        if refused := list(rows):
            first, *others = refused
            more = f"; and {len(others)} more: {join_names([row.id for row in others])}" if others else ""
            got = quote(self.row_content(first)[field])
            raise DataError(f"{self.name}: {noun} {first.id}: {fault}; got {got}{more}", field=field)


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


class StatementSet(RecordSet):
    """Sentences about two images, and whether each is true of them (NLVR2).

    Consistency is over the rows of one group: one sentence about one set of images; by the sentence if it is empty.
    """

    KEY = "statements"
    FIELDS = "id sentence=texts.0 left=images.0 right=images.1 label=gold group?"

    def sentence_groups(self, *, both_labels: bool = False) -> tuple[tuple[int, ...], ...]:
        """Return the rows of each sentence of a set, in file order: the groups of NLVR2's consistency.

        Without sets they are the rows of each distinct sentence.
        """
        groups = _group_rows(row.group or row.texts[0] for row in self.rows)
        labels = ({self.rows[row].gold for row in group} for group in groups)
        return tuple(group for group, both in zip(groups, labels, strict=True) if not both_labels or len(both) == 2)


class QuestionSet(RecordSet):
    """Questions to answer in words: gold is a tuple of one answer, or of several people's.

    The fact `biased` is a wrong answer of a model that does not look, `abstain` that of one that abstains.
    """

    KEY = "questions"
    FIELDS = """id question=texts.0 image=images.0 answers=gold biased=facts.biased? abstain=facts.abstain? group?
        cluster? tags?"""

    def _settle_rows(self) -> None:
        self.refuse("question", "has no answer", (row for row in self.rows if not row.gold), "answers")

    @cached_property
    def gold(self) -> tuple[str, ...]:
        """The one gold answer of each question."""
        for row in self.rows:
            if len(row.gold) != 1:
                fault = f"has {len(row.gold)} answers and not one gold answer; use soft_accuracy on them"
                self.refuse("question", fault, [row], "answers")
        return tuple(row.gold[0] for row in self.rows)

    def complementary_pairs(self) -> tuple[tuple[int, int], ...]:
        """Return the rows of each question that is asked of exactly two images and answered differently on each.

        Questions are compared in lower case and without blanks at the ends. Such a pair is a minimal pair of images:
        right on both is the group score, and a model that ignores the image gets none.

        Source: VLUE section 3.2 (workers wrote questions whose answers differ between two images).
        """
        rows = self.rows
        groups = _group_rows(row.texts[0].lower().strip() for row in rows)
        twice = [(group[0], group[1]) for group in groups if len(group) == 2]
        return tuple((a, b) for a, b in twice if rows[a].images != rows[b].images and rows[a].gold != rows[b].gold)


class BoxSet(RecordSet):
    """Phrases and the boxes they refer to: x, y, width, height in pixels.

    Facts are `size`, the image's width and height, and `candidates`, boxes to choose from, or none.
    """

    KEY = "boxes"
    FIELDS = "id text=texts.0 image=images.0 box=gold size=facts.size candidates=facts.candidates"

    def _settle_rows(self) -> None:
        flat = (row for row in self.rows if min(row.gold[2:]) <= 0)
        self.refuse("box", "has no area; it is x, y, width, height", flat, "box")


class CaptionSet(RecordSet):
    """Images to caption, and the captions that people wrote, one or more an image."""

    def _settle_rows(self) -> None:
        if bare := [row.id for row in self.rows if not row.gold]:
            raise DataError(f"{self.name}: {len(bare)} images have no reference caption: {join_names(bare)}")

    def content(self) -> dict[str, Any]:
        """Return the set as JSON holds it."""
        ids, images = zip(*((row.id, row.images[0]) for row in self.rows), strict=True)
        return {"name": self.name, "ids": ids, "images": images, "references": self.gold}


class ChoiceSet(RecordSet):
    """Images with two captions, the true one first; asked twice, the true caption first, and second."""

    KEY = "choices"
    FIELDS = "id image=images.0 true=texts.0 false=texts.1 tags cluster?"

    @classmethod
    def of_pairs(cls, pairs: PairSet) -> ChoiceSet:
        """Return the choices of 1x2 pairs; the image stands for a cluster that is the item's id alone."""
        rows = []
        for item in pairs.items:
            cluster = "" if item.cluster in (item.id, item.images[0]) else item.cluster
            texts = item.truth_first().texts
            rows.append(Record(item.id, item.images, texts, cluster=cluster, tags=item.tags))
        return cls(pairs.name, tuple(rows))


class RankingSet(RecordSet):
    """Rankings by people: the texts are a query and its minimal edit (empty if there is none), the images candidates.

    Gold is the place of each candidate, 1 for the closest; means over people and ties are allowed.
    """

    KEY = "rankings"
    FIELDS = "id query=texts.0 edited=texts.1 candidates=images people=gold"

    def _settle_rows(self) -> None:
        for row in self.rows:
            if not len(row.images) == len(row.gold) >= 2 or not all(map(math.isfinite, row.gold)):
                fault = f"has {len(row.images)} candidates; give two or more, and a finite place for each"
                self.refuse("ranking", fault, [row], "people")


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


@dataclass(frozen=True)
class BinaryQuestionSet(RecordSet):
    """Questions about an image or two, as they are asked, and which of two answers is right.

    Questions of one group with one fact `question_id` are one question in different words. Records of one group are a
    minimal pair or a quadruple, which is right if all of them are. An empty cluster is the group or the first image.
    `reader` is how the authors read an answer (`metrics.yes_no.READERS`).
    """

    KEY = "questions"
    FIELDS = "id images question=texts.0 answer=gold group cluster question_id=facts.question_id? tags"

    reader: str = ""

    def _settle_rows(self) -> None:
        rows = (row if row.cluster else replace(row, cluster=row.group or row.images[0]) for row in self.rows)
        object.__setattr__(self, "rows", tuple(rows))
        unknown = (row for row in self.rows if row.gold not in _GOLD.values())
        answers = ", ".join(dict.fromkeys(_GOLD.values()))
        self.refuse("question", f"its answer must be one of {answers}", unknown, "answer")

    def content(self) -> dict[str, Any]:
        """Return the set as JSON holds it, without its reader: answers are read by it, and it is no question's."""
        return {key: value for key, value in super().content().items() if key != "reader"}

    def groups_by(self, what: str) -> tuple[tuple[int, ...], ...]:
        """Return the rows of each group, or of the same `images` or `question` (by its id, or words) of a group.

        Questions of one image and questions of two are looked at apart. If each of them stands alone, such groups do
        not exist: a pair that asks one question of each image has no two questions of one image. Where some have
        several rows, those of one row count, too, as HallusionBench counts them.
        """

        def key(row: Record) -> tuple[object, ...]:
            if what == "group":
                return (row.group,)
            asked = row.images if what == "images" else row.facts.get("question_id") or row.texts[0]
            return row.group, asked, len(row.images)

        groups = _group_rows(key(row) if row.group else None for row in self.rows)
        image_counts = [key(self.rows[group[0]])[2:] for group in groups]
        several = {count for group, count in zip(groups, image_counts, strict=True) if len(group) > 1}
        return tuple(group for group, count in zip(groups, image_counts, strict=True) if count in several)


def make_moment(
    id_: str, video: str, time: float, states: tuple[str, str, str], label: str, next_time: float
) -> Record:
    """Return the record of a moment in a video at which a state changes; times in seconds.

    `states` are the subject and its state before and after. Texts are the captions of the frames before and after the
    moment: subject and state, as in EqBen's Fig. 16.
    """
    subject, before, after = states
    facts = {"subject": subject, "before": before, "after": after, "next_time": next_time}
    captions = (f"{subject} {before}", f"{subject} {after}")
    return Record(id_, (), captions, time, cluster=video, tags={"label": label}, facts=facts)


@dataclass(frozen=True)
class MomentSet(RecordSet):
    """Moments to find in videos (`make_moment`); each is a query, and those of a video are resampled together.

    Several people marked the same videos, so two moments may have the same time, and one change several times (`gold`).
    Lengths of videos and other times of a change come from `whole`, the set that these are some moments of.
    """

    KEY = "moments"
    FIELDS = """id video=cluster time=gold subject=facts.subject before=facts.before after=facts.after label=tags.label
        next_time=facts.next_time"""

    whole: MomentSet | None = None

    def select(self, places: Sequence[int]) -> MomentSet:
        """Return the set of some moments, by position."""
        return MomentSet(self.name, tuple(self.rows[place] for place in places), self)

    def content(self) -> dict[str, Any]:
        """Return the set as JSON holds it."""
        content = super().content() | ({"whole": self.whole.content()} if self.whole else {})
        return {key: value for key, value in content.items() if value is not None}

    @property
    def _all_moments(self) -> MomentSet:
        return self if self.whole is None else self.whole._all_moments

    @cached_property
    def videos(self) -> Mapping[str, tuple[Record, ...]]:
        """The moments of each video, in order of time; those at the same time in order of id."""
        videos: dict[str, list[Record]] = defaultdict(list)
        for moment in sorted(self.rows, key=lambda moment: (moment.gold, moment.id)):
            videos[moment.cluster].append(moment)
        return {video: tuple(videos[video]) for video in sorted(videos)}

    @cached_property
    def gold(self) -> tuple[tuple[float, ...], ...]:
        """All times that are right for each query: those of the same change in the same video, rising."""
        times: dict[tuple[object, ...], set[float]] = defaultdict(set)
        for moment in self._all_moments.rows:
            times[_change(moment)].add(moment.gold)
        return tuple(tuple(sorted(times[_change(moment)])) for moment in self.rows)

    def duration(self, video: str) -> float:
        """Return the length of a video in seconds, as far as its moments show: the latest `next_time`."""
        if video not in self._all_moments.videos:
            raise DataError(f"{self.name} has no moment in a video {video!r}")
        return float(max(moment.facts["next_time"] for moment in self._all_moments.videos[video]))


def _change(moment: Record) -> tuple[object, ...]:
    return (moment.cluster, *(moment.facts[name] for name in ("subject", "before", "after")))


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
    """Images and their classes: gold is a class's place; templates hold `{}` for its name, and several are averaged."""

    KEY = "pictures"
    FIELDS = "id image=images.0 label=gold cluster"

    classes: tuple[str, ...]
    templates: tuple[str, ...]

    def _settle_rows(self) -> None:
        if len(self.classes) < 2:
            raise DataError(f"{self.name} has {len(self.classes)} classes; it needs two or more")
        if unnamed := [str(number) for number, name in enumerate(self.classes) if not name.strip()]:
            raise DataError(f"{self.name}: class {unnamed[0]} has no name")
        if (twice := first_repeated(self.classes)) is not None:
            raise DataError(f"{self.name}: two classes are called {twice!r}; give them two names in classes.txt")
        check_templates(self.templates, self.name)
        beyond = (row for row in self.rows if not 0 <= row.gold < len(self.classes))
        self.refuse("picture", f"is of none of the {len(self.classes)} classes, counted from 0", beyond, "label")

    @property
    def prompts(self) -> tuple[tuple[str, ...], ...]:
        """The caption of every class in every template: `[template][class]`."""
        return tuple(tuple(template.replace("{}", name) for name in self.classes) for template in self.templates)


class RatingSet(RecordSet):
    """Images with the text that each is to show, and people's ratings of how well it does; higher is better.

    Gold is a rating a person; or a single label, 1 if it shows the text and 0 if not. Texts are resampled if the
    cluster is empty.
    """

    KEY = "rated"
    FIELDS = "id image=images.0 text=texts.0 ratings=gold cluster tags"

    def _settle_rows(self) -> None:
        bad = (row for row in self.rows if not row.gold or not all(map(math.isfinite, row.gold)))
        self.refuse("image", "has no rating, or one that is not finite", bad, "ratings")
        if len(np.unique(self.people)) < 2:
            rated = f"all {len(self.rows)} images are rated {self.people[0]:g}"
            raise DataError(f"{self.name}: {rated}; agreement with people needs two that are rated differently")

    @cached_property
    def people(self) -> NDArray[np.float64]:
        """The mean rating of each image, float64 `(image,)`."""
        return np.array([math.fsum(row.gold) / len(row.gold) for row in self.rows])

    @property
    def labels(self) -> bool:
        """Whether the ratings are labels: 0 and 1, one an image."""
        return all(len(row.gold) == 1 for row in self.rows) and bool(np.isin(self.people, (0, 1)).all())


def read_choice(ranking: str) -> int:
    """Return 1 if a ranking puts the first of two images before the second, -1 if behind it, 0 if they are equal.

    The images are named by two letters, the first by the earlier one. What follows a tie is not read.

    >>> [read_choice(ranking) for ranking in ("A>B", "C>A", "A<B", "A=B", "A=B=Good")]
    [1, -1, -1, 0, 0]
    """
    match = re.match(r"\s*([A-Z])\s*([<>=])\s*([A-Z])(?=\s*$|=)", ranking)
    if match is None or match[1] == match[3] or (match[2] != "=" and match.end() < len(ranking.rstrip())):
        raise ValueError(f"expected a ranking such as A>B, B>A or A=B; got {quote(ranking)}")
    ahead = 1 if match[1] < match[3] else -1
    return {">": ahead, "<": -ahead, "=": 0}[match[2]]


class PreferenceSet(RecordSet):
    """Choices of people between two images of one text: gold is 1 for the first, -1 for the second, 0 if equal.

    Records of one group rank the images of one text, and are right if all of them are.
    """

    KEY = "preferences"
    FIELDS = "id text=texts.0 images choice=gold group cluster tags"

    def _settle_rows(self) -> None:
        if not any(row.gold for row in self.rows):
            raise DataError(f"{self.name}: people prefer no image of {len(self.rows)} pairs; give one choice")

    @cached_property
    def people(self) -> NDArray[np.float64]:
        """The choice of each record, 1, 0 or -1: float64 `(pair,)`."""
        return np.array([row.gold for row in self.rows], np.float64)


@dataclass(frozen=True)
class LabelSet(RecordSet):
    """Labels of images that are numbered from 0: gold is whether a label is true of each image that it is judged on.

    The fact `counted` holds the numbers of these images.
    """

    KEY = "labels"
    FIELDS = "id text=texts.0 counted=facts.counted true=gold"

    images: tuple[str, ...]

    def _settle_rows(self) -> None:
        unmarked = (row for row in self.rows if len(row.facts["counted"]) != len(row.gold) or not any(row.gold))
        self.refuse("label", "needs a mark for each image, one or more of them true", unmarked, "true")
        beyond = (row for row in self.rows if not all(0 <= place < len(self.images) for place in row.facts["counted"]))
        self.refuse("label", f"names an image beyond the {len(self.images)}, counted from 0", beyond, "counted")
