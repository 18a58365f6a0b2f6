"""Surveys: units with their questions, the annotators who get them, and the surveys of the papers by name.

Every annotator has separate tasks, since the order of the units and the side of each option are drawn again for each
of them. `Study` records the draws, and the right answers: it is the key that answers are decoded with, and no
annotator should see it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from pydantic import Field as Checked

from tellapart.data.annotations import AnnotationRow
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet, describe
from tellapart.data.video import as_picture
from tellapart.errors import DataError, UnknownNameError, nearest, quote
from tellapart.metrics.answers import clean_punctuation, clean_words

Control = Literal["choice", "text", "box"]


def letters(count: int) -> tuple[str, ...]:
    """Return the names under which options are shown."""
    return tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ"[:count])


@dataclass(frozen=True, slots=True)
class Ask:
    """A question that is asked of every unit.

    Attributes:
        control: a choice, a text, or a box drawn on the first image.
        choices: answers that are not options of the unit: `both`, `neither`, `yes`.
        options: a choice: the unit's options can be chosen. A text: one is written for each option.
        required: an annotator who does not skip the unit must answer it.
    """

    name: str
    control: Control
    label: str
    choices: tuple[str, ...] = ()
    options: bool = False
    required: bool = True

    def names(self, options: int) -> tuple[str, ...]:
        """Return the names of its fields for a unit with so many options."""
        if self.control == "text" and self.options:
            return tuple(f"{self.name}_{letter.lower()}" for letter in letters(options))
        return (self.name,)


class SurveyUnit(AnnotationRow):
    """Everything that an annotator sees at once, the options to choose from, and the right answer.

    Attributes:
        images, texts: shown in this order; images as references.
        options: references of images, or texts, whose order is drawn; an answer names one by its index here: `0`, `1`.
        truth: the right answer; empty if there is none.
        altered: the word in which the item's two captions differ, in each, if it is one word.
        box: x, y, width, height in pixels, drawn on the first image.
        earlier: answers of an earlier study, for the records made of this one.
    """

    id: str
    item: str
    cluster: str
    tags: dict[str, str] = Checked(default_factory=dict)
    images: list[str] = Checked(default_factory=list)
    texts: list[str] = Checked(default_factory=list)
    options: list[str] = Checked(default_factory=list)
    option_kind: Literal["images", "texts"] = "texts"
    truth: str = ""
    altered: list[str] = Checked(default_factory=list)
    box: list[float] = Checked(default_factory=list)
    earlier: dict[str, Any] = Checked(default_factory=dict)

    @property
    def layout(self) -> tuple[int, int, int, str]:
        """How many images, texts and options are shown, and the kind of the options."""
        return len(self.images), len(self.texts), len(self.options), self.option_kind


class AnnotatorTask(AnnotationRow):
    """A unit that an annotator gets; for each letter, the index of its option in the unit."""

    id: str
    annotator: str
    unit: str
    order: list[int]


class SurveyAnswer(AnnotationRow):
    """An annotator's answer to a unit.

    Attributes:
        values: by field; an option by its index in the unit, a box as x, y, width, height in pixels.
        skipped: the annotator passed the unit over, without values.
        problems: rules of the survey that the answer breaks. It is kept, and not used.
    """

    task: str
    annotator: str
    unit: str
    values: dict[str, Any] = Checked(default_factory=dict)
    skipped: bool = False
    problems: list[str] = Checked(default_factory=list)


class Study(AnnotationRow):
    """The key of a survey: its units with their truths, every annotator's tasks, and the seed of all draws."""

    survey: str
    pairs: str
    shape: list[int]
    seed: int
    annotators: list[str]
    units: list[SurveyUnit]
    tasks: list[AnnotatorTask]

    @cached_property
    def token(self) -> str:
        """A mark of this study's tasks, so that another study's answers are not taken for them.

        It begins with a letter: a spreadsheet takes `160788599e18` for a number.
        """
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        return "s" + hashlib.sha256(text.encode()).hexdigest()[:12]

    @cached_property
    def unit_of(self) -> dict[str, SurveyUnit]:
        """Each unit by its id."""
        return {unit.id: unit for unit in self.units}


@dataclass(frozen=True, slots=True)
class Earlier:
    """A study that another one starts from, with its answers."""

    study: Study
    answers: tuple[SurveyAnswer, ...]


@dataclass(frozen=True, kw_only=True)
class Survey:
    """A kind of survey.

    Attributes:
        units: makes the units of a pair set (and of an earlier study, if `after` names its survey).
        other_people: those who answered the earlier study may not be asked.
        judged: each unit has a right answer.
        problems: the rules that an answer's values break, given a set of allowed answers, which may be empty.
        views: how labels are merged before people are compared: name -> function of the label.
        records: makes records of a benchmark of the answers.
    """

    name: str
    title: str
    instructions: tuple[str, ...]
    source: str
    asks: tuple[Ask, ...]
    units: Callable[[PairSet, Earlier | None], list[SurveyUnit]]
    after: str = ""
    other_people: bool = False
    judged: bool = False
    problems: Callable[[Mapping[str, Any], frozenset[str]], list[str]] = lambda _values, _allowed: []
    views: Mapping[str, Callable[[str], str]] = field(default_factory=lambda: {"as given": str})
    records: Callable[[Study, Sequence[SurveyAnswer]], list[dict[str, Any]]] | None = None

    @property
    def choice(self) -> Ask | None:
        """The choice that people can agree on, if one is asked."""
        return next((ask for ask in self.asks if ask.control == "choice"), None)


@dataclass(frozen=True, slots=True)
class Deal:
    """How units are dealt to annotators: how many see each unit (None: all), the seed, how many items are drawn."""

    annotators: tuple[str, ...]
    each: int | None = None
    seed: int = 0
    sample: int | None = None

    def __post_init__(self) -> None:
        odd = [name for name in self.annotators if not name or not set(name) <= _NAME or name.startswith(".")]
        if odd or not self.annotators:
            raise DataError(
                f"annotators {', '.join(map(repr, odd)) or '(none)'}: name each in letters, digits, @ . _ -"
            )
        if len({name.lower() for name in self.annotators}) < len(self.annotators):
            raise DataError(f"annotators {', '.join(self.annotators)}: a name is listed twice")
        if self.each is not None and (self.each < 1 or len(self.annotators) % self.each):
            raise DataError(
                f"{len(self.annotators)} annotators cannot be dealt into groups of {self.each}, each of which sees a "
                "unit; choose a divisor"
            )
        if self.sample is not None and self.sample < 1:
            raise DataError(f"a sample of {self.sample} items asks nothing; draw 1 or more")


_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@._-")


def deal(survey: Survey, pairs: PairSet, how: Deal, earlier: Earlier | None = None) -> Study:
    """Make a survey of a pair set: its units, and each annotator's tasks.

    Units are shuffled once and dealt to groups of `each` annotators in turn; each annotator gets an order of units,
    and an order of options in each. All of it depends on the seed, the names and the ids alone.
    """
    if survey.after and (earlier is None or earlier.study.survey != survey.after):
        raise DataError(f"survey {survey.name} starts from a {survey.after} study; name its folder with after=")
    if earlier and survey.other_people and (same := set(how.annotators) & set(earlier.study.annotators)):
        raise DataError(
            f"survey {survey.name} is for people who did not answer the {survey.after} study: "
            f"{', '.join(sorted(same))} did; name others with annotators="
        )
    pairs = pairs.one_truth()
    units = _draw_sample(survey.units(pairs, earlier), how)
    if not units:
        raise DataError(f"survey {survey.name}: {pairs.name} leaves nothing to ask")
    if len({unit.layout for unit in units}) > 1:
        raise DataError(
            f"survey {survey.name}: units of {pairs.name} show different numbers of images, texts or options"
        )
    per_unit = how.each or len(how.annotators)
    groups = [how.annotators[at : at + per_unit] for at in range(0, len(how.annotators), per_unit)]
    shuffled = _named_generator(how.seed, "units").permutation(len(units))
    tasks: list[AnnotatorTask] = []
    for number, group in enumerate(groups):
        group_units = [units[index] for index in shuffled[number :: len(groups)]]
        for annotator in group:
            for position, index in enumerate(
                _named_generator(how.seed, annotator).permutation(len(group_units)), start=1
            ):
                id_, unit = f"{annotator}-{position:05d}", group_units[index]
                order = _named_generator(how.seed, annotator, unit.id).permutation(len(unit.options)).tolist()
                tasks.append(AnnotatorTask(id=id_, annotator=annotator, unit=unit.id, order=order))
    return Study(
        survey=survey.name,
        pairs=pairs.name,
        shape=list(pairs.shape),
        seed=how.seed,
        annotators=list(how.annotators),
        units=units,
        tasks=tasks,
    )


def _draw_sample(units: list[SurveyUnit], how: Deal) -> list[SurveyUnit]:
    """Return all units of as many items as the sample has, in their order."""
    items = list(dict.fromkeys(unit.item for unit in units))
    if how.sample is None or how.sample >= len(items):
        return units
    sample = {items[index] for index in _named_generator(how.seed, "sample").permutation(len(items))[: how.sample]}
    return [unit for unit in units if unit.item in sample]


def _named_generator(seed: int, *names: str) -> np.random.Generator:
    """Return a separate generator for each name, so that no draw depends on how many came before."""
    digest = hashlib.sha256("\0".join([str(seed), *names]).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "big"))


_WORD = re.compile(r"\w+")


def altered_words(first: str, second: str) -> tuple[str, str] | None:
    """Return the word in which two captions differ, in each of them; None if they differ in more, or in number.

    Words are in lower case and without marks, so that a tokeniser's `do n't` is not a change.

    Source: COCO-Counterfactuals, whose captions are made by the change of one noun (its "altered subjects").
    """
    words = [_WORD.findall(caption.lower()) for caption in (first, second)]
    if len(words[0]) != len(words[1]):
        return None
    changed = [pair for pair in zip(*words, strict=True) if pair[0] != pair[1]]
    return (changed[0][0], changed[0][1]) if len(changed) == 1 else None


def _expect(fits: bool, survey: str, pairs: PairSet, needed: str) -> None:
    """Refuse a pair set whose shape does not fit a survey."""
    if not fits:
        raise DataError(f"survey {survey} asks of items with {needed}; {pairs.name} has {describe(pairs.shape)} each")


def _make_unit(item: Item, part: str, **shown: Any) -> SurveyUnit:
    altered = altered_words(*item.texts) if len(item.texts) == 2 else None
    origin = {"item": item.id, "cluster": item.cluster, "tags": dict(item.tags), "altered": list(altered or ())}
    return SurveyUnit.model_validate({"id": f"{item.id}/{part}", **origin, **shown})


def _caption_units(survey: str, pairs: PairSet) -> list[SurveyUnit]:
    """Return a unit for each image: which of the captions fits it?"""
    images, texts = pairs.shape
    needed = "two or more texts, and one image or one for each text"
    _expect(texts >= 2 and images in (1, texts), survey, pairs, needed)
    return [
        _make_unit(item, f"image {i}", images=[image], options=list(item.texts), truth=str(i))
        for item in pairs.items
        for i, image in enumerate(item.images)
    ]


def _image_units(survey: str, pairs: PairSet) -> list[SurveyUnit]:
    """Return a unit for each caption: which of the images fits it?"""
    images, texts = pairs.shape
    needed = "two or more images, and one text or one for each image"
    _expect(images >= 2 and texts in (1, images), survey, pairs, needed)
    return [
        _make_unit(item, f"text {t}", texts=[text], options=list(item.images), option_kind="images", truth=str(t))
        for item in pairs.items
        for t, text in enumerate(item.texts)
    ]


def _match_units(pairs: PairSet, _earlier: Earlier | None) -> list[SurveyUnit]:
    """Return a unit for each image with each caption: do they fit?"""
    fits = 1 in pairs.shape or pairs.shape[0] == pairs.shape[1]
    _expect(fits, "match", pairs, "one image, one text, or as many images as texts")
    return [
        _make_unit(item, f"image {i} text {t}", images=[image], texts=[text], truth="yes" if i == t else "no")
        for item in pairs.items
        for i, image in enumerate(item.images)
        for t, text in enumerate(item.texts)
    ]


def _single_images(pairs: PairSet, _earlier: Earlier | None) -> list[SurveyUnit]:
    """Return a unit for each distinct image of the set, under the first item that has it."""
    units: dict[str, SurveyUnit] = {}
    for item in pairs.items:
        for i, image in enumerate(item.images):
            if image not in units:
                units[image] = _make_unit(item, f"image {i}", images=[image])
    return list(units.values())


_SOURCE = "VLUE section 3.2"

#: Of a caption, as COCO's instructions have it.
_FEWEST_WORDS = 8

#: Words that RefCOCO+'s players might not use: the phrase must hold of the thing, not of its place.
_PLACES = frozenset(
    (
        *("left", "right", "top", "bottom", "upper", "lower", "leftmost", "rightmost", "topmost", "bottommost"),
        *("middle", "center", "centre", "corner"),
    )
)


def _split_words(text: str) -> list[str]:
    return re.findall(r"[\w'-]+", text.lower())


def _caption_problems(values: Mapping[str, Any], _allowed: frozenset[str]) -> list[str]:
    words = _split_words(values["caption"])
    short = [f"has {len(words)} words, fewer than {_FEWEST_WORDS}"] if len(words) < _FEWEST_WORDS else []
    return [*short, *(["starts with 'there is'"] if words[:2] == ["there", "is"] else [])]


def _caption_rows(study: Study, answers: Sequence[SurveyAnswer]) -> list[dict[str, Any]]:
    rows: dict[str, list[str]] = {}
    for answer in answers:
        rows.setdefault(study.unit_of[answer.unit].images[0], []).append(answer.values["caption"])
    return [{"image": image, "caption": captions} for image, captions in rows.items()]


CAPTION = Survey(
    name="caption",
    title=f"a caption of at least {_FEWEST_WORDS} words for an image",
    source=_SOURCE,
    instructions=(
        f"Describe the image in one sentence of at least {_FEWEST_WORDS} words.",
        "Name all important parts and only those. Do not start with 'There is'.",
    ),
    asks=(Ask("caption", "text", "Your description"),),
    units=_single_images,
    problems=_caption_problems,
    records=_caption_rows,
)


def _units_of_two_images(survey: str, pairs: PairSet, show: Callable[[Item], dict[str, Any]]) -> list[SurveyUnit]:
    _expect(pairs.shape[0] == 2, survey, pairs, "two images")
    return [
        SurveyUnit(id=item.id, item=item.id, cluster=item.cluster, tags=dict(item.tags), **show(item))
        for item in pairs.items
    ]


def _show_draft(item: Item) -> dict[str, Any]:
    # One text for two images is a draft to be put right; captions of each of them are not.
    return {"images": list(item.images), "texts": [f"Draft: {text}" for text in item.texts if len(item.texts) == 1]}


def _statement_rows(study: Study, answers: Sequence[SurveyAnswer]) -> list[dict[str, Any]]:
    return [
        {
            "sentence": answer.values["statement"],
            "images": study.unit_of[answer.unit].images,
            "label": "True" if answer.values["label"] == "true" else "False",
        }
        for answer in answers
    ]


STATEMENT = Survey(
    name="statement",
    title="a statement about two images, from a draft if there is one, and whether it is true",
    source=_SOURCE,
    instructions=(
        "Write one fluent English statement about the two images together.",
        "If a draft is shown, it may be badly translated: write what it means. Then say whether your statement is true "
        "of the images.",
    ),
    asks=(
        Ask("statement", "text", "Your statement"),
        Ask("label", "choice", "Is it true of the two images?", ("true", "false")),
    ),
    units=lambda pairs, _earlier: _units_of_two_images("statement", pairs, _show_draft),
    records=_statement_rows,
)


def _show_choice(item: Item) -> dict[str, Any]:
    return {"options": list(item.images), "option_kind": "images"}


def _normalize_answer(answer: str) -> str:
    """Write an answer as VQA's script compares it, and as its lists of answers are written."""
    return clean_words(clean_punctuation(answer.strip()))


def _question_problems(values: Mapping[str, Any], allowed: frozenset[str]) -> list[str]:
    answers = [_normalize_answer(values[f"answer_{image}"]) for image in (0, 1)]
    same = [f"both answers are {answers[0]!r}"] if answers[0] == answers[1] else []
    accepted = frozenset(map(_normalize_answer, allowed))
    others = [answer for answer in answers if allowed and answer not in accepted]
    return [*same, *(f"{answer!r} is not in the list of answers" for answer in others)]


def _question_rows(study: Study, answers: Sequence[SurveyAnswer]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for answer in answers:
        for index, image in enumerate(study.unit_of[answer.unit].options):
            record = {"image": image, "answer": answer.values[f"answer_{index}"]}
            rows.append({"question_id": len(rows), "question": answer.values["question"], **record})
    return rows


QUESTION = Survey(
    name="question",
    title="a question that has different answers on two images, and both answers",
    source=_SOURCE,
    instructions=(
        "Write one question that can be answered by looking at either image, and whose answers differ.",
        "Answer it for each image in a word or two.",
    ),
    asks=(Ask("question", "text", "Your question"), Ask("answer", "text", "The answer for image", options=True)),
    units=lambda pairs, _earlier: _units_of_two_images("question", pairs, _show_choice),
    problems=_question_problems,
    records=_question_rows,
)


def _box_problems(values: Mapping[str, Any], _allowed: frozenset[str]) -> list[str]:
    name, box = values.get("object", ""), values.get("box")
    if values["several"] == "no":
        return ["there is a box, though there are not several"] if box else []
    return ([] if name else ["the object has no name"]) + ([] if box else ["no box is drawn"])


BOX = Survey(
    name="box",
    title="are there several instances of an object; if so, a box around one of them",
    source=_SOURCE,
    instructions=(
        "Are there several things of one kind in the image? If not, say no and go on.",
        "If so, name the kind and draw a box tightly around one of them, chosen at random and not for its place or "
        "size.",
    ),
    asks=(
        Ask("several", "choice", "Are there several things of one kind?", ("yes", "no")),
        Ask("object", "text", "Of which kind?", required=False),
        Ask("box", "box", "one of them", required=False),
    ),
    units=_single_images,
    problems=_box_problems,
)


def _expression_units(pairs: PairSet, earlier: Earlier | None) -> list[SurveyUnit]:
    assert earlier is not None  # noqa: S101  (`deal` checked it)
    units = []
    for answer in earlier.answers:
        if answer.skipped or answer.problems or answer.values["several"] == "no":
            continue
        unit = earlier.study.unit_of[answer.unit]
        height, width = as_picture(pairs.pixels(unit.images[0])).shape[:2]
        x, y, wide, high = box = answer.values["box"]
        if min(x, y) < 0 or x + wide > width + 1 or y + high > height + 1:
            raise DataError(f"survey expression: box {box} of task {answer.task} leaves its image ({width}x{height})")
        kind = answer.values["object"]
        record = {"object": kind, "size": [width, height]}
        units.append(unit.model_copy(update={"id": answer.task, "texts": [kind], "box": box, "earlier": record}))
    return units


def _expression_problems(values: Mapping[str, Any], _allowed: frozenset[str]) -> list[str]:
    places = sorted(_PLACES & set(_split_words(values["expression"])))
    return [f"names a place: {', '.join(places)}"] if places else []


def _expression_rows(study: Study, answers: Sequence[SurveyAnswer]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for number, answer in enumerate(answers):
        unit = study.unit_of[answer.unit]
        size = unit.earlier.get("size")
        if not isinstance(size, list) or len(size) != 2 or not all(type(side) is int and side > 0 for side in size):
            raise DataError(
                f"unit {unit.id!r}: field 'size' of 'earlier': expected width and height, got {quote(size)}"
            )
        width, height = size
        row = {"ref_id": number, "text": answer.values["expression"], "image": unit.images[0], "bbox": unit.box}
        rows.append({**row, "height": height, "width": width})
    return rows


EXPRESSION = Survey(
    name="expression",
    title="a phrase that picks out the thing in the box, by people who did not draw it",
    source=f"{_SOURCE}; RefCOCO+ (Yu et al. 2016)",
    instructions=(
        "Write a phrase by which somebody else finds the thing in the box, and no other one of its kind.",
        "Say what it looks like, not where it is: no left or right, top or bottom.",
    ),
    asks=(Ask("expression", "text", "Your phrase"),),
    units=_expression_units,
    after="box",
    other_people=True,
    problems=_expression_problems,
    records=_expression_rows,
)


_MATCH = Survey(
    name="match",
    title="does the caption fit the image: yes or no, for every image with every caption",
    source="Winoground (Thrush et al. 2022) section 4.1",
    instructions=(
        "Say whether the caption is true of the image.",
        "Mind the order of the words: who does what, and what is where.",
    ),
    asks=(Ask("match", "choice", "Is the caption true of the image?", ("yes", "no")),),
    units=_match_units,
    judged=True,
)

#: COCO-Counterfactuals' Table 7, in its order.
_CATEGORIES = (
    "a subject or object is missing",
    "fine-grained details are missing",
    "one altered word is a kind of the other",
    "the image and its caption are fine",
    "wrong spatial relationship",
    "wrong number of objects",
    "both altered subjects are in the image",
    "an attribute is on the wrong thing",
    "something else",
)

_COCO_CF = Survey(
    name="coco-cf",
    title="which caption fits the image; both or neither may",
    source="COCO-Counterfactuals section 4.1 and appendix B.3",
    instructions=(
        "Choose the caption that describes the image best.",
        "If both hold, choose the one that says more or is more exact. Choose Both only if they describe the image "
        "equally well, and Neither if none of them describes it.",
    ),
    asks=(Ask("caption", "choice", "Which caption describes the image best?", ("both", "neither"), options=True),),
    units=lambda pairs, _earlier: _caption_units("coco-cf", pairs),
    judged=True,
)


def _misjudged_units(pairs: PairSet, earlier: Earlier | None) -> list[SurveyUnit]:
    """Return a unit for each image whose caption somebody did not choose."""
    assert earlier is not None  # noqa: S101  (`deal` checked it)
    captions = {item.id: item.texts for item in pairs.items}
    wrong: dict[str, list[str]] = {}
    for answer in earlier.answers:
        unit = earlier.study.unit_of[answer.unit]
        if not answer.skipped and answer.values["caption"] != unit.truth:
            wrong.setdefault(unit.id, []).append(answer.values["caption"])
    units = []
    for id_, choice in wrong.items():
        unit = earlier.study.unit_of[id_]
        if unit.item not in captions:
            raise DataError(f"survey error-category: {pairs.name} has no item {unit.item!r} of the earlier study")
        others = [caption for index, caption in enumerate(unit.options) if str(index) != unit.truth]
        texts = [f"Its caption: {unit.options[int(unit.truth)]}", *(f"Another caption: {other}" for other in others)]
        update = {"texts": texts, "options": [], "truth": "", "earlier": {"chosen": choice}}
        units.append(unit.model_copy(update=update))
    return units


_ERROR_CATEGORY = Survey(
    name="error-category",
    title="why people did not choose the image's caption, by category",
    source="COCO-Counterfactuals appendix A.3.1, Table 7",
    instructions=(
        "People were asked which of two captions fits this image, and did not choose its own.",
        "Choose the reason that explains it best.",
    ),
    asks=(Ask("category", "choice", "What went wrong?", _CATEGORIES),),
    units=_misjudged_units,
    after="coco-cf",
)

_BIVLC = "BiVLC appendix H"
_LOOKS = "Flaws in how a picture looks do not count: odd faces, arms or hands are accepted."


def _candidate_units(pairs: PairSet, _earlier: Earlier | None) -> list[SurveyUnit]:
    fits = pairs.shape[0] >= 2 and pairs.shape[1] == 1
    _expect(fits, "best-image", pairs, "one text and two or more candidate images")
    # None of the candidates is known to be right.
    return [unit.model_copy(update={"truth": ""}) for unit in _image_units("best-image", pairs)]


def _count_votes(study: Study, answers: Sequence[SurveyAnswer]) -> dict[str, Counter[str]]:
    votes: dict[str, Counter[str]] = {}
    for answer in answers:
        if not answer.skipped:
            votes.setdefault(answer.unit, Counter())[answer.values["image"]] += 1
    return {unit.id: votes[unit.id] for unit in study.units if unit.id in votes}


def _best_images(study: Study, answers: Sequence[SurveyAnswer]) -> list[dict[str, Any]]:
    """Return the image with most votes of each item, if it alone has them and "none" has fewer."""
    rows = []
    for id_, votes in _count_votes(study, answers).items():
        unit = study.unit_of[id_]
        (first, most), *rest = votes.most_common()
        alone = not rest or rest[0][1] < most
        image = unit.options[int(first)] if alone and first != "none" else None
        counts = {unit.options[int(vote)] if vote != "none" else vote: count for vote, count in sorted(votes.items())}
        rows.append({"id": unit.item, "text": unit.texts[0], "image": image, "votes": counts})
    return rows


def _find_ambiguity(study: Study, answers: Sequence[SurveyAnswer]) -> list[dict[str, Any]]:
    """Return for each item whether, for some caption, no more people chose its image than anything else."""
    votes = _count_votes(study, answers)
    clear: dict[str, bool] = {}
    for unit in study.units:
        if unit.id in votes:
            true_votes = votes[unit.id].pop(unit.truth, 0)
            majority = true_votes > max(votes[unit.id].values(), default=0)
            clear[unit.item] = clear.get(unit.item, True) and majority
    return [{"id": item, "ambiguous": not most} for item, most in clear.items()]


_BEST_IMAGE = Survey(
    name="best-image",
    title="the best of several generated images for a caption, or none",
    source=f"{_BIVLC}.1, step 3",
    instructions=(
        "Choose an image that shows what the description says. If several do, choose any of them; if none does, "
        "choose None.",
        "Everything that the description says must be in the image.",
        _LOOKS,
    ),
    asks=(Ask("image", "choice", "Which image shows what the description says?", ("none",), options=True),),
    units=_candidate_units,
    views={
        "as given": lambda label: label,
        "one or none": lambda label: label if label == "none" else "one",  # how BiVLC's Table 7 compares people
    },
    records=_best_images,
)

_AMBIGUITY = Survey(
    name="ambiguity",
    title="which image fits the caption, or both: items that people cannot tell apart are filtered",
    source=f"{_BIVLC}.1, step 4",
    instructions=(
        "Choose the image that matches the description best. If both match it equally well, choose Both.",
        _LOOKS,
    ),
    asks=(Ask("image", "choice", "Which image matches the description best?", ("both",), options=True),),
    units=lambda pairs, _earlier: _image_units("ambiguity", pairs),
    judged=True,
    records=_find_ambiguity,
)

_IMAGE_TO_TEXT = Survey(
    name="i2t",
    title="human baseline, image to text: which caption fits the image best",
    source=f"{_BIVLC}.1, human baseline",
    instructions=("Choose the description that matches the image best.", "Mind the order of the words."),
    asks=(Ask("caption", "choice", "Which description matches the image best?", options=True),),
    units=lambda pairs, _earlier: _caption_units("i2t", pairs),
    judged=True,
)

_TEXT_TO_IMAGE = Survey(
    name="t2i",
    title="human baseline, text to image: which image fits the caption best",
    source=f"{_BIVLC}.1, human baseline",
    instructions=("Choose the image that matches the description best.", _LOOKS),
    asks=(Ask("image", "choice", "Which image matches the description best?", options=True),),
    units=lambda pairs, _earlier: _image_units("t2i", pairs),
    judged=True,
)

SURVEYS = {
    survey.name: survey
    for survey in (
        *(_COCO_CF, _ERROR_CATEGORY),
        *(_BEST_IMAGE, _AMBIGUITY, _IMAGE_TO_TEXT, _TEXT_TO_IMAGE),
        *(_MATCH, CAPTION, STATEMENT, QUESTION, BOX, EXPRESSION),
    )
}


def find_survey(name: str) -> Survey:
    """Return the survey of that name."""
    if name not in SURVEYS:
        raise UnknownNameError(f"no survey {name!r}{nearest(name, SURVEYS)}; there are {', '.join(sorted(SURVEYS))}")
    return SURVEYS[name]


def annotate_ls() -> list[Mapping[str, str]]:
    """Return name, title and source of every survey.

    >>> {"name", "title", "source"} == set(annotate_ls()[0])
    True
    """
    return [{"name": survey.name, "title": survey.title, "source": survey.source} for survey in SURVEYS.values()]
