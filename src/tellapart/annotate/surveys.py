"""Surveys: units with their questions, the annotators who get them, and the surveys of the papers by name.

The order of the units and of their options is drawn for each annotator. `Study` records the draws and the right
answers: it is the key, which no annotator should see.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field as Checked

from tellapart.data.fields import split_words
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet, describe
from tellapart.data.rows import AnnotationRow, read_toml
from tellapart.data.video import as_picture
from tellapart.errors import DataError, UnknownNameError, nearest, quote
from tellapart.metrics.answers import clean_punctuation, clean_words
from tellapart.records.result import Record

#: The names under which options are shown.
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class Ask(Record):
    """A question that is asked of every unit."""

    name: str
    control: Literal["choice", "text", "box"]  # a box is drawn on the first image
    label: str
    choices: tuple[str, ...] = ()  # answers that are not options of the unit: `both`, `neither`, `yes`
    options: bool = False  # the unit's options can be chosen, or a text is written for each of them
    required: bool = True  # of an annotator who does not skip the unit

    def labels(self, count: int) -> dict[str, str]:
        """Return field -> label, for a unit with `count` options: a text has a field for each option."""
        if self.control == "text" and self.options:
            return {f"{self.name}_{letter.lower()}": f"{self.label} {letter}" for letter in LETTERS[:count]}
        return {self.name: self.label}


class SurveyUnit(AnnotationRow):
    """Everything that an annotator sees at once, the options to choose from, and the right answer."""

    id: str
    item: str
    cluster: str
    tags: dict[str, str] = Checked(default_factory=dict)
    images: list[str] = Checked(default_factory=list)
    texts: list[str] = Checked(default_factory=list)
    options: list[str] = Checked(default_factory=list)  # their order is drawn; an answer names one by its index here
    option_kind: Literal["images", "texts"] = "texts"
    truth: str = ""  # the right answer; empty if there is none
    altered: list[str] = Checked(default_factory=list)  # the two words by which the item's two captions differ
    box: list[float] = Checked(default_factory=list)  # x, y, width, height in pixels, drawn on the first image
    earlier: dict[str, Any] = Checked(default_factory=dict)  # facts from an earlier study that this one's records need

    @property
    def layout(self) -> tuple[int, int, int, str]:
        """How many images, texts and options are shown, and the kind of the options."""
        return len(self.images), len(self.texts), len(self.options), self.option_kind


class AnnotatorTask(AnnotationRow):
    """A unit that an annotator gets; `order` has for each letter the index of its option in the unit."""

    id: str
    annotator: str
    unit: str
    order: list[int]


class SurveyAnswer(AnnotationRow):
    """An annotator's answer to a unit."""

    task: str
    annotator: str
    unit: str
    values: dict[str, Any] = Checked(default_factory=dict)  # by field; an option by its index, a box in pixels
    skipped: bool = False  # without values
    problems: list[str] = Checked(default_factory=list)  # rules that the answer breaks; it is then stored, but not used


def usable(answers: Sequence[SurveyAnswer]) -> list[SurveyAnswer]:
    """Return the answers that were not skipped and break no rule."""
    return [answer for answer in answers if not answer.skipped and not answer.problems]


class Study(AnnotationRow):
    """The key of a survey: its units with their truths, every annotator's tasks, and the seed of all draws."""

    survey: str
    pairs: str
    shape: list[Annotated[int, Checked(ge=1)]] = Checked(min_length=2, max_length=2)  # images and texts of an item
    seed: int
    annotators: list[str]
    units: list[SurveyUnit] = Checked(min_length=1)
    tasks: list[AnnotatorTask]

    @cached_property
    def token(self) -> str:
        """A mark of this study's tasks; it begins with a letter, as a spreadsheet takes `160788599e18` for a number."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        return "s" + hashlib.sha256(text.encode()).hexdigest()[:12]

    def tasks_of(self, annotator: str) -> list[AnnotatorTask]:
        """Return an annotator's tasks, in their order."""
        return [task for task in self.tasks if task.annotator == annotator]

    @cached_property
    def unit_of(self) -> dict[str, SurveyUnit]:
        """Each unit by its id."""
        return {unit.id: unit for unit in self.units}


@dataclass(frozen=True, slots=True)
class Earlier:
    """A study that another one starts from, with its answers."""

    study: Study
    answers: tuple[SurveyAnswer, ...]


class Survey(Record):
    """A kind of survey, as `surveys.toml` has it."""

    name: str
    title: str
    source: str
    shows: str  # a key of `_UNITS`
    instructions: tuple[str, ...]
    asks: tuple[Ask, ...]
    after: str = ""  # the survey of an earlier study; the units are made of its answers
    other_people: bool = False  # those who answered the earlier study may not be asked
    judged: bool = False  # each unit has a right answer
    views: tuple[str, ...] = ("as given",)  # keys of `VIEWS`

    @property
    def choice(self) -> Ask | None:
        """The choice that people can agree on, if one is asked."""
        return next((ask for ask in self.asks if ask.control == "choice"), None)

    @property
    def records(self) -> Callable[[Study, Sequence[SurveyAnswer]], list[dict[str, Any]]] | None:
        """The function that makes a benchmark's records of the answers; None for a survey without records."""
        return _RECORDS.get(self.name)

    def problems(self, values: Mapping[str, Any], allowed: frozenset[str]) -> list[str]:
        """Return the rules that an answer's values break; `allowed` lists the only answers allowed, or none."""
        return _PROBLEMS[self.name](values, allowed) if self.name in _PROBLEMS else []


def check_annotators(names: Sequence[str], each: int | None = None) -> None:
    """Refuse names that no file can have, that a spreadsheet would run, or that repeat; and groups of uneven sizes."""
    if (odd := [name for name in names if not re.fullmatch(r"\w[\w@.-]*", name, re.ASCII)]) or not names:
        signs = "letters, digits, _ and, but for the first sign, @ . -"
        raise DataError(f"annotators {', '.join(map(repr, odd)) or '(none)'}: name each in {signs}")
    if len({name.lower() for name in names}) < len(names):
        raise DataError(f"annotators {', '.join(names)}: a name is listed twice")
    if each is not None and (each < 1 or len(names) % each):
        raise DataError(f"{len(names)} annotators cannot be dealt into groups of {each}, as a unit needs; divide them")


def deal(
    survey: Survey,
    pairs: PairSet,
    annotators: Sequence[str],
    *,
    each: int | None = None,
    seed: int = 0,
    sample: int | None = None,
    earlier: Earlier | None = None,
) -> Study:
    """Make a survey of a pair set, or of a sample of items: units are dealt to groups of `each` annotators, or to all.

    Orders of units and options are drawn for each annotator, and depend on the seed, the names and the ids alone.
    """
    check_annotators(annotators, each)
    if sample is not None and sample < 1:
        raise DataError(f"a sample of {sample} items asks nothing; draw 1 or more")
    if survey.after and (earlier is None or earlier.study.survey != survey.after):
        raise DataError(f"survey {survey.name} starts from a {survey.after} study; name its folder with after=")
    if earlier and survey.other_people and (same := set(annotators) & set(earlier.study.annotators)):
        raise DataError(
            f"survey {survey.name} is for people who did not answer the {survey.after} study: "
            f"{', '.join(sorted(same))} did; name others with annotators="
        )
    # Of an item with several true texts only the first is asked about. Other items keep the order of their texts.
    pairs = pairs if pairs.true == 1 else pairs.one_truth()
    units = _UNITS[survey.shows](survey, pairs, earlier)
    items = [*dict.fromkeys(unit.item for unit in units)]
    if sample is not None and sample < len(items):
        drawn = {items[index] for index in _named_generator(seed, "sample").permutation(len(items))[:sample]}
        units = [unit for unit in units if unit.item in drawn]
    if not units:
        raise DataError(f"survey {survey.name}: {pairs.name} leaves nothing to ask")
    if len({unit.layout for unit in units}) > 1:
        raise DataError(f"survey {survey.name}: units of {pairs.name} show other numbers of images, texts or options")
    if (options := len(units[0].options)) > len(LETTERS):
        ways = f"there are {len(LETTERS)} letters; give fewer candidates, or ask of each alone in a match survey"
        raise DataError(f"survey {survey.name}: units of {pairs.name} have {options} options, and {ways}")
    per_unit = each or len(annotators)
    groups = [annotators[at : at + per_unit] for at in range(0, len(annotators), per_unit)]
    shuffled = _named_generator(seed, "units").permutation(len(units))
    tasks: list[AnnotatorTask] = []
    for number, group in enumerate(groups):
        group_units = [units[index] for index in shuffled[number :: len(groups)]]
        for annotator in group:
            for position, index in enumerate(_named_generator(seed, annotator).permutation(len(group_units)), start=1):
                id_, unit = f"{annotator}-{position:05d}", group_units[index]
                order = _named_generator(seed, annotator, unit.id).permutation(len(unit.options)).tolist()
                tasks.append(AnnotatorTask(id=id_, annotator=annotator, unit=unit.id, order=order))
    facts = {"survey": survey.name, "pairs": pairs.name, "shape": list(pairs.shape), "seed": seed}
    return Study.model_validate(facts | {"annotators": list(annotators), "units": units, "tasks": tasks})


def _named_generator(seed: int, *names: str) -> np.random.Generator:
    """Return a generator for a seed and names alone, so that no draw depends on the number of draws before."""
    digest = hashlib.sha256("\0".join([str(seed), *names]).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "big"))


def altered_words(first: str, second: str) -> tuple[str, str] | None:
    """Return each caption's word in which the two differ, in lower case; None if they differ in more, or in length.

    Source: COCO-Counterfactuals, whose captions are made by the change of one noun (its "altered subjects").
    """
    words, others = map(split_words, (first, second))
    changes = [(word, other) for word, other in zip(words, others, strict=False) if word != other]
    return changes[0] if len(words) == len(others) and len(changes) == 1 else None


def _expect(fits: bool, survey: Survey, pairs: PairSet, needed: str) -> None:
    """Refuse a pair set whose shape does not fit a survey."""
    if not fits:
        raise DataError(f"survey {survey.name} asks of items with {needed}; {pairs.name} has {describe(pairs.shape)}")


def _make_unit(item: Item, part: str, **shown: Any) -> SurveyUnit:
    altered = altered_words(*item.texts) if len(item.texts) == 2 else None
    origin = {"item": item.id, "cluster": item.cluster, "tags": dict(item.tags), "altered": list(altered or ())}
    return SurveyUnit.model_validate({"id": f"{item.id}/{part}", **origin, **shown})


def _true_index(item: Item, index: int) -> int:
    """Return the index of the text that belongs to the image at `index`, or the reverse: in a square item the same."""
    return index if len(item.images) == len(item.texts) else item.truths[0]


def _belong(item: Item, image: int, text: int) -> str:
    """Return `yes` if the image and the text with these indices belong together, else `no`."""
    if len(item.images) == len(item.texts):
        return "yes" if image == text else "no"
    other = text if len(item.images) == 1 else image  # the index of the side with several
    return "yes" if other == item.truths[0] else "no"


def _caption_units(survey: Survey, pairs: PairSet, _earlier: Earlier | None) -> list[SurveyUnit]:
    """Return a unit for each image: which of the captions fits it?"""
    images, texts = pairs.shape
    needed = "two or more texts, and one image or one for each text"
    _expect(texts >= 2 and images in (1, texts), survey, pairs, needed)
    return [
        _make_unit(item, f"image {i}", images=[image], options=list(item.texts), truth=str(_true_index(item, i)))
        for item in pairs.items
        for i, image in enumerate(item.images)
    ]


def _image_units(survey: Survey, pairs: PairSet, _earlier: Earlier | None) -> list[SurveyUnit]:
    """Return a unit for each caption: which of the images fits it? Only a judged survey has right answers."""
    images, texts = pairs.shape
    needed = "two or more images, and one text or one for each image"
    needed = needed if survey.judged else "one text and two or more candidate images"
    _expect(images >= 2 and (texts == 1 or (survey.judged and texts == images)), survey, pairs, needed)
    units = []
    for item in pairs.items:
        for t, text in enumerate(item.texts):
            shown = {"texts": [text], "options": [*item.images], "option_kind": "images"}
            truth = str(_true_index(item, t)) if survey.judged else ""
            units.append(_make_unit(item, f"text {t}", truth=truth, **shown))
    return units


def _match_units(survey: Survey, pairs: PairSet, _earlier: Earlier | None) -> list[SurveyUnit]:
    """Return a unit for each image with each caption: do they fit?"""
    fits = 1 in pairs.shape or pairs.shape[0] == pairs.shape[1]
    _expect(fits, survey, pairs, "one image, one text, or as many images as texts")
    return [
        _make_unit(item, f"image {i} text {t}", images=[image], texts=[text], truth=_belong(item, i, t))
        for item in pairs.items
        for i, image in enumerate(item.images)
        for t, text in enumerate(item.texts)
    ]


def _single_images(_survey: Survey, pairs: PairSet, _earlier: Earlier | None) -> list[SurveyUnit]:
    """Return a unit for each distinct image of the set, under the first item that has it."""
    units: dict[str, SurveyUnit] = {}
    for item in pairs.items:
        for i, image in enumerate(item.images):
            units.setdefault(image, _make_unit(item, f"image {i}", images=[image]))
    return list(units.values())


#: Words that a caption must have, by COCO's instructions.
_FEWEST_WORDS = 8

#: Words that RefCOCO+'s players might not use: a phrase must describe the object (`left-handed`), not its place.
_PLACES = frozenset(
    ("left", "right", "top", "bottom", "upper", "lower", "leftmost", "rightmost", "topmost", "bottommost", "middle",
     "center", "centre", "corner")
)  # fmt: skip


def _split_words(text: str) -> list[str]:
    return [word for part in split_words(text, "'’-") if (word := part.strip("'’-"))]


def _caption_problems(values: Mapping[str, Any], _allowed: frozenset[str]) -> list[str]:
    words = _split_words(values["caption"])
    short = [f"has {len(words)} words, fewer than {_FEWEST_WORDS}"] if len(words) < _FEWEST_WORDS else []
    return [*short, *(["starts with 'there is'"] if words[:2] == ["there", "is"] else [])]


def _caption_rows(study: Study, answers: Sequence[SurveyAnswer]) -> list[dict[str, Any]]:
    rows: dict[str, list[str]] = {}
    for answer in answers:
        rows.setdefault(study.unit_of[answer.unit].images[0], []).append(answer.values["caption"])
    return [{"image": image, "caption": captions} for image, captions in rows.items()]


def _two_images(survey: Survey, pairs: PairSet, _earlier: Earlier | None) -> list[SurveyUnit]:
    """Return a unit for each item: with its images as options for `question`, else with a draft of the statement."""
    _expect(pairs.shape[0] == 2, survey, pairs, "two images")
    units = []
    for item in pairs.items:
        origin = {"id": item.id, "item": item.id, "cluster": item.cluster, "tags": dict(item.tags)}
        shown: dict[str, Any] = {"options": [*item.images], "option_kind": "images"}
        if survey.name != "question":
            # A single text for two images is a draft, which the annotator corrects; two texts are the images' captions.
            drafts = [f"Draft: {text}" for text in item.texts] if len(item.texts) == 1 else []
            shown = {"texts": drafts, "images": [*item.images]}
        units.append(SurveyUnit.model_validate(origin | shown))
    return units


def _statement_rows(study: Study, answers: Sequence[SurveyAnswer]) -> list[dict[str, Any]]:
    rows = []
    for answer in answers:
        label, images = answer.values["label"].title(), study.unit_of[answer.unit].images
        rows.append({"sentence": answer.values["statement"], "images": images, "label": label})
    return rows


def _question_problems(values: Mapping[str, Any], allowed: frozenset[str]) -> list[str]:
    answers, accepted = (  # cleaned as VQA's script cleans them before it compares
        [clean_words(clean_punctuation(answer.strip())) for answer in texts]
        for texts in ((values["answer_0"], values["answer_1"]), allowed)
    )
    same = [f"both answers are {answers[0]!r}"] if answers[0] == answers[1] else []
    others = [answer for answer in answers if allowed and answer not in accepted]
    return [*same, *(f"{answer!r} is not in the list of answers" for answer in others)]


def _question_rows(study: Study, answers: Sequence[SurveyAnswer]) -> list[dict[str, Any]]:
    rows = [
        {"question": answer.values["question"], "image": image, "answer": answer.values[f"answer_{index}"]}
        for answer in answers
        for index, image in enumerate(study.unit_of[answer.unit].options)
    ]
    return [{"question_id": number, **row} for number, row in enumerate(rows)]


def _box_problems(values: Mapping[str, Any], _allowed: frozenset[str]) -> list[str]:
    name, box = values.get("object", ""), values.get("box")
    if values["several"] == "no":
        return ["there is a box, though there are not several"] if box else []
    return ([] if name else ["the object has no name"]) + ([] if box else ["no box is drawn"])


def _expression_units(_survey: Survey, pairs: PairSet, earlier: Any) -> list[SurveyUnit]:
    """Return a unit for each box of the earlier study, whose object is to be described; `deal` refuses None."""
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
    words = (word for word in _split_words(values["expression"]) if not word.endswith("-handed"))
    places = sorted(_PLACES.intersection(part for word in words for part in word.split("-")))
    return [f"names a place: {', '.join(places)}"] if places else []


def _expression_rows(study: Study, answers: Sequence[SurveyAnswer]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for number, answer in enumerate(answers):
        unit = study.unit_of[answer.unit]
        size = unit.earlier.get("size")
        if not isinstance(size, list) or len(size) != 2 or not all(type(side) is int and side > 0 for side in size):
            raise DataError(f"unit {unit.id!r}: field 'size' of 'earlier': expected width, height, got {quote(size)}")
        row = {"ref_id": number, "text": answer.values["expression"], "image": unit.images[0], "bbox": unit.box}
        rows.append({**row, "height": size[1], "width": size[0]})
    return rows


def _misjudged_units(_survey: Survey, pairs: PairSet, earlier: Any) -> list[SurveyUnit]:
    """Return a unit for each image whose caption somebody did not choose."""
    items = {item.id for item in pairs.items}
    wrong: dict[str, list[str]] = {}
    for answer in earlier.answers:
        if not answer.skipped and answer.values["caption"] != earlier.study.unit_of[answer.unit].truth:
            wrong.setdefault(answer.unit, []).append(answer.values["caption"])
    units = []
    for id_, choice in wrong.items():
        unit = earlier.study.unit_of[id_]
        if unit.item not in items:
            raise DataError(f"survey error-category: {pairs.name} has no item {unit.item!r} of the earlier study")
        others = [f"Another caption: {text}" for k, text in enumerate(unit.options) if str(k) != unit.truth]
        texts = [f"Its caption: {unit.options[int(unit.truth)]}", *others]
        changed = {"texts": texts, "options": [], "truth": "", "earlier": {"chosen": choice}}
        units.append(unit.model_copy(update=changed))
    return units


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
    """Return whether each item is ambiguous: the image of one of its captions did not get more votes than any other.

    An item with an unanswered caption is left out, unless another caption shows that it is ambiguous.
    """
    votes_of, clear = _count_votes(study, answers), dict[str, list[bool | None]]()
    for unit in study.units:
        votes = votes_of.get(unit.id)
        others = [count for option, count in votes.items() if option != unit.truth] if votes else []
        is_clear = votes[unit.truth] > max(others, default=0) if votes else None
        clear.setdefault(unit.item, []).append(is_clear)
    return [
        {"id": item, "ambiguous": False in of_captions}
        for item, of_captions in clear.items()
        if False in of_captions or None not in of_captions
    ]


#: What a unit shows -> what makes the units of a pair set, and of an earlier study's answers.
_UNITS: dict[str, Callable[[Survey, PairSet, Earlier | None], list[SurveyUnit]]] = {
    "an image with its captions": _caption_units,
    "a caption with its images": _image_units,
    "an image and a caption": _match_units,
    "an image": _single_images,
    "two images": _two_images,
    "a box": _expression_units,
    "a caption that was not chosen": _misjudged_units,
}

#: Survey -> the rules that an answer's values break.
_PROBLEMS: dict[str, Callable[[Mapping[str, Any], frozenset[str]], list[str]]] = {
    "caption": _caption_problems,
    "question": _question_problems,
    "box": _box_problems,
    "expression": _expression_problems,
}

_RECORDS: dict[str, Callable[[Study, Sequence[SurveyAnswer]], list[dict[str, Any]]]] = {
    "caption": _caption_rows,
    "statement": _statement_rows,
    "question": _question_rows,
    "expression": _expression_rows,
    "best-image": _best_images,
    "ambiguity": _find_ambiguity,
}

#: How labels are merged before people are compared; BiVLC's Table 7 compares them by "one or none".
VIEWS: dict[str, Callable[[str], str]] = {
    "as given": str,
    "one or none": lambda label: label if label == "none" else "one",
}

SURVEYS = {
    name: Survey(name=name, **declared)
    for name, declared in read_toml(Path(__file__).with_name("surveys.toml")).items()
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
