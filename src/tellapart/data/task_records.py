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
    """Return image -> name of its group: images are of one group if a pair, or a chain of pairs, joins them.

    A group bears the name of its first image in alphabetical order.
    """
    parent: dict[str, str] = {}  # a forest, as of union-find: the root of a tree names its group

    def root(image: str) -> str:
        while parent.setdefault(image, image) != image:
            parent[image] = parent[parent[image]]  # halves the path
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


def _turn_into_tuples(value: Any) -> Any:
    """Return a value with all lists in it, which JSON has in place of tuples, as tuples."""
    if isinstance(value, Mapping):
        return {key: _turn_into_tuples(entry) for key, entry in value.items()}
    return tuple(map(_turn_into_tuples, value)) if isinstance(value, list | tuple) else value


@dataclass(frozen=True, slots=True)
class Record:
    """What a task asks, and what is right.

    Attributes:
        id: distinct in its set.
        images: references of the images shown, in their order.
        texts: the question, the sentence or the captions.
        gold: what is right, in the form that the class of the set describes.
        group: records of one group are right if all of them are.
        cluster: the unit of resampling; the task chooses it if it is empty.
        tags: results are broken down by them.
        facts: fields that the records of one task alone have, such as the size of a box's image.

    >>> Record("a", ("cup.png",), ("One cup?",), ("yes",)).gold
    ('yes',)
    """

    id: str
    images: tuple[str, ...]
    texts: tuple[str, ...]
    gold: Annotated[Any, BeforeValidator(_turn_into_tuples)] = ""
    group: str = ""
    cluster: str = ""
    tags: Mapping[str, str] = field(default_factory=dict, hash=False)
    facts: Annotated[Mapping[str, Any], BeforeValidator(_turn_into_tuples)] = field(default_factory=dict, hash=False)

    def look_up(self, path: str) -> Any:
        """Return the value at a path, such as `gold`, `texts.0` or `facts.size`; an absent tag or fact is empty."""
        name, _, key = path.partition(".")
        value = getattr(self, name)
        if not key:
            return value
        return value.get(key, "") if name in ("tags", "facts") else value[int(key)]


@dataclass(frozen=True)
class RecordSet:
    """A named set of records with distinct ids."""

    #: The key of the records in the set's content, and the fields of a record there: `key=path`, or `key` if the path
    #: is equal. A field that ends in `?` is left out if it is empty: fingerprints stay those of records without it.
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
        """Check the rows, or complete them; each kind of set has its rules."""

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def gold(self) -> Sequence[Any]:
        """The gold of each record."""
        return [row.gold for row in self.rows]

    def select(self, places: Sequence[int]) -> Self:
        """Return the set of some records, by position."""
        return replace(self, rows=tuple(self.rows[place] for place in places))

    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Return the positions of the records of each `group` that has two or more."""
        return tuple(rows for rows in _group_rows(row.group or None for row in self.rows) if len(rows) > 1)

    def content(self) -> dict[str, Any]:
        """Return the set as JSON holds it, for fingerprints."""
        others = {entry.name: getattr(self, entry.name) for entry in fields(self) if entry.name != "rows"}
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
        """Raise `DataError` if there are any `rows`: they have a fault, and the first one's field is quoted."""
        if refused := list(rows):
            first, *others = refused
            more = f"; and {len(others)} more: {join_names([row.id for row in others])}" if others else ""
            got = quote(self.row_content(first)[field])
            raise DataError(f"{self.name}: {noun} {first.id}: {fault}; got {got}{more}", field=field)


@dataclass(frozen=True)
class RetrievalSet:
    """Images and captions of one gallery, and the true pairs: positions, from 0, of an image and a caption.

    Equal images and equal captions may occur several times; each is a gallery entry. Equal images are resampled
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

        The second value holds the first position of each distinct caption in this gallery.
        """
        groups = _group_rows(self.captions)
        entry_of = {row: entry for entry, rows in enumerate(groups) for row in rows}
        pairs = dict.fromkeys((image, entry_of[caption]) for image, caption in self.pairs)
        distinct = replace(self, captions=tuple(dict.fromkeys(self.captions)), pairs=tuple(pairs))
        return distinct, tuple(rows[0] for rows in groups)

    def __len__(self) -> int:
        return len(self.images)

    def select(self, places: Sequence[int]) -> RetrievalSet:
        """Return the gallery of some images, by position, and their captions: a smaller one, and so an easier one."""
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
        """The image of each caption, the first of several: a caption as a query is resampled with it."""
        first: dict[int, int] = {}
        for image, caption in sorted(self.pairs):
            first.setdefault(caption, image)
        return tuple(self.images[first[caption]] for caption in range(len(self.captions)))


class StatementSet(RecordSet):
    """Sentences about two images, and whether each is true of them (NLVR2).

    NLVR2's consistency is over the records of one `group`, or of one sentence if `group` is empty.
    """

    KEY = "statements"
    FIELDS = "id sentence=texts.0 left=images.0 right=images.1 label=gold group?"

    def sentence_groups(self, *, both_labels: bool = False) -> tuple[tuple[int, ...], ...]:
        """Return the positions of the records of each group of NLVR2's consistency, in file order.

        With `both_labels`, groups are left out whose sentence is true, or false, in all of their records.
        """
        groups = _group_rows(row.group or row.texts[0] for row in self.rows)
        labels = ({self.rows[row].gold for row in group} for group in groups)
        return tuple(group for group, held in zip(groups, labels, strict=True) if not both_labels or len(held) == 2)


class QuestionSet(RecordSet):
    """Questions to answer in words: gold is a tuple of one answer, or of several people's.

    The fact `biased` is the wrong answer of a model that does not look, `abstain` the answer of one that abstains.
    """

    KEY = "questions"
    FIELDS = """id question=texts.0 image=images.0 answers=gold biased=facts.biased? abstain=facts.abstain? group?
        cluster? tags?"""

    def _settle_rows(self) -> None:
        self.refuse("question", "has no answer", (row for row in self.rows if not row.gold), "answers")

    @cached_property
    def gold(self) -> tuple[str, ...]:
        """The only gold answer of each question; a question with several is refused."""
        for row in self.rows:
            if len(row.gold) != 1:
                fault = f"has {len(row.gold)} answers and not one gold answer; use soft_accuracy on them"
                self.refuse("question", fault, [row], "answers")
        return tuple(row.gold[0] for row in self.rows)

    def complementary_pairs(self) -> tuple[tuple[int, int], ...]:
        """Return the two positions of each question that is asked of exactly two images with different answers.

        Questions are compared in lower case and without blanks at the ends. The two are a minimal pair of images: the
        group score counts pairs that are right on both, and a model that ignores the image gets none.

        Source: VLUE section 3.2 (workers wrote questions whose answers differ between two images).
        """
        rows = self.rows
        groups = _group_rows(row.texts[0].lower().strip() for row in rows)
        couples = [(group[0], group[1]) for group in groups if len(group) == 2]
        return tuple((a, b) for a, b in couples if rows[a].images != rows[b].images and rows[a].gold != rows[b].gold)


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
    """Images with two captions, the true one first; a model is asked twice, with the captions in either order."""

    KEY = "choices"
    FIELDS = "id image=images.0 true=texts.0 false=texts.1 tags cluster?"

    @classmethod
    def of_pairs(cls, pairs: PairSet) -> ChoiceSet:
        """Return the choices of 1x2 pairs; a cluster that is the item's id or image is left to the task."""
        rows = []
        for item in pairs.items:
            cluster = "" if item.cluster in (item.id, item.images[0]) else item.cluster
            texts = item.truth_first().texts
            rows.append(Record(item.id, item.images, texts, cluster=cluster, tags=item.tags))
        return cls(pairs.name, tuple(rows))


class RankingSet(RecordSet):
    """Rankings by people: texts are a query and its minimal edit (empty if there is none), images the candidates.

    Gold is the rank of each candidate, 1 for the closest; it may be a mean over people, and may tie.
    """

    KEY = "rankings"
    FIELDS = "id query=texts.0 edited=texts.1 candidates=images people=gold"

    def _settle_rows(self) -> None:
        for row in self.rows:
            if not len(row.images) == len(row.gold) >= 2 or not all(map(math.isfinite, row.gold)):
                fault = f"has {len(row.images)} candidates; give two or more, and a finite place for each"
                self.refuse("ranking", fault, [row], "people")


_GOLD_ANSWERS = {  # spelling -> answer
    **dict.fromkeys(("yes", "true", "1"), "yes"),
    **dict.fromkeys(("no", "false", "0"), "no"),
    **{word: word for word in ("first", "second")},
    **{word: letter for letter in "ab" for word in (letter, f"({letter})")},
}


def read_gold(value: str) -> str:
    """Return a file's gold answer as `yes`, `no`, `a`, `b`, `first` or `second`."""
    gold = _GOLD_ANSWERS.get(value.strip().lower())
    if gold is None:
        raise ValueError(f"expected yes or no, true or false, 1 or 0, A or B, first or second; got {quote(value)}")
    return gold


@dataclass(frozen=True)
class BinaryQuestionSet(RecordSet):
    """Questions about an image or two, as they are asked, and which of two answers is right.

    Questions of one group with one fact `question_id` are one question in different words. Records of one group are a
    minimal pair or a quadruple, which is right if all of them are. The cluster is by default the group, or else the
    first image. `reader` names the authors' way to read an answer (`metrics.yes_no.READERS`).
    """

    KEY = "questions"
    FIELDS = "id images question=texts.0 answer=gold group cluster question_id=facts.question_id? tags"

    reader: str = ""

    def _settle_rows(self) -> None:
        rows = (row if row.cluster else replace(row, cluster=row.group or row.images[0]) for row in self.rows)
        object.__setattr__(self, "rows", tuple(rows))
        unknown = (row for row in self.rows if row.gold not in _GOLD_ANSWERS.values())
        answers = ", ".join(dict.fromkeys(_GOLD_ANSWERS.values()))
        self.refuse("question", f"its answer must be one of {answers}", unknown, "answer")

    def content(self) -> dict[str, Any]:
        """Return the set as JSON holds it, without its reader, which no question depends on."""
        return {key: value for key, value in super().content().items() if key != "reader"}

    def groups_by(self, field: str) -> tuple[tuple[int, ...], ...]:
        """Return the positions of records of the same `group`, or, within a group, of the same `images` or `question`.

        A question is its `question_id`, or else its words. Questions of one image and of two are judged apart: if all
        of a kind would form groups of one record, these are left out, since no two records can be compared. Else groups
        of one record count, too, as HallusionBench counts them.
        """

        def key(row: Record) -> tuple[object, ...]:
            if field == "group":
                return (row.group,)
            shared = row.images if field == "images" else row.facts.get("question_id") or row.texts[0]
            return row.group, shared, len(row.images)

        groups = _group_rows(key(row) if row.group else None for row in self.rows)
        kinds = [key(self.rows[group[0]])[2:] for group in groups]  # the number of images; empty for `group`
        compared = {kind for group, kind in zip(groups, kinds, strict=True) if len(group) > 1}
        return tuple(group for group, kind in zip(groups, kinds, strict=True) if kind in compared)


def make_moment(
    id_: str, video: str, time: float, states: tuple[str, str, str], label: str, next_time: float
) -> Record:
    """Return the record of a moment in a video at which a state changes; times in seconds.

    `states` are the subject and its states before and after. The record's texts caption the frames before and after the
    moment by subject and state, as in EqBen's Fig. 16.
    """
    subject, before, after = states
    facts = {"subject": subject, "before": before, "after": after, "next_time": next_time}
    captions = (f"{subject} {before}", f"{subject} {after}")
    return Record(id_, (), captions, time, cluster=video, tags={"label": label}, facts=facts)


@dataclass(frozen=True)
class MomentSet(RecordSet):
    """Moments to find in videos (`make_moment`); each is a query, and those of a video are resampled together.

    Several people marked the same videos, so two moments may have the same time, and one change several times (`gold`).
    A set of some moments has in `whole` the set of all, for the lengths of videos and all times of a change.
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
        """All right times of each query, rising: those of every moment with the same change in the same video."""
        times: dict[tuple[object, ...], set[float]] = defaultdict(set)
        for moment in self._all_moments.rows:
            times[_change_key(moment)].add(moment.gold)
        return tuple(tuple(sorted(times[_change_key(moment)])) for moment in self.rows)

    def duration(self, video: str) -> float:
        """Return the length of a video in seconds, as far as its moments show: the latest `next_time`."""
        if video not in self._all_moments.videos:
            raise DataError(f"{self.name} has no moment in a video {video!r}")
        return float(max(moment.facts["next_time"] for moment in self._all_moments.videos[video]))


def _change_key(moment: Record) -> tuple[object, ...]:
    return (moment.cluster, *(moment.facts[name] for name in ("subject", "before", "after")))


def check_templates(templates: tuple[str, ...], place: str) -> tuple[str, ...]:
    """Return the templates; each must hold `{}`, the place of the class's name, once, and none may repeat."""
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
    """Images and their classes: gold is a class's position; several templates of its name (`{}`) are averaged."""

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
        """The captions, by template and then by class."""
        return tuple(tuple(template.replace("{}", name) for name in self.classes) for template in self.templates)


class RatingSet(RecordSet):
    """Images with the text that each is to show, and people's ratings of how well it does; higher is better.

    Gold holds the rating of each person, or a single label, 1 if the image shows the text and 0 if not. An empty
    cluster is the text.
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
        """Whether each image has one rating, 0 or 1."""
        return all(len(row.gold) == 1 for row in self.rows) and bool(np.isin(self.people, (0, 1)).all())


def read_choice(ranking: str) -> int:
    """Return 1 if a ranking puts the first of two images before the second, -1 if behind it, 0 if they are equal.

    Two letters name the images, the earlier one the first. Text after a tie is not read.

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
    """Labels, each judged on some of the `images`: gold is whether the label is true, for each of these images.

    The fact `counted` holds their positions in `images`, from 0.
    """

    KEY = "labels"
    FIELDS = "id text=texts.0 counted=facts.counted true=gold"

    images: tuple[str, ...]

    def _settle_rows(self) -> None:
        unmarked = (row for row in self.rows if len(row.facts["counted"]) != len(row.gold) or not any(row.gold))
        self.refuse("label", "needs a mark for each image, one or more of them true", unmarked, "true")
        beyond = (row for row in self.rows if not all(0 <= place < len(self.images) for place in row.facts["counted"]))
        self.refuse("label", f"names an image beyond the {len(self.images)}, counted from 0", beyond, "counted")
