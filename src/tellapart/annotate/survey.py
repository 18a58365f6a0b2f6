"""Surveys: units with their questions, the annotators who get them, and the order in which options are shown.

Every annotator has separate tasks, since the order of the units and the side of each option are drawn again for each
of them. `Study` records the draws, and the right answers: it is the key that answers are decoded with, and no
annotator should see it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from pydantic import Field as Checked

from tellapart.data.annotations import AnnotationRow
from tellapart.data.pairset import PairSet
from tellapart.errors import DataError

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
    """How units are dealt to annotators.

    Attributes:
        annotators: names; they become part of file names.
        each: how many annotators see each unit; None for all of them.
        seed: of the orders, and of the sample.
        sample: how many items are drawn at random; None for all of them.
    """

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
