"""VLUE's annotation tasks: a caption, a statement about two images, a question with two answers, a box and a phrase."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tellapart.annotate.survey import Ask, Earlier, Study, Survey, SurveyAnswer, SurveyUnit
from tellapart.annotate.units import shape_error, single_images
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.data.video import as_picture
from tellapart.errors import DataError, quote
from tellapart.metrics.vqa import clean_punctuation, clean_words

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
    problems = []
    if len(words) < _FEWEST_WORDS:
        problems.append(f"has {len(words)} words, fewer than {_FEWEST_WORDS}")
    if words[:2] == ["there", "is"]:
        problems.append("starts with 'there is'")
    return problems


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
    units=lambda pairs, _earlier: list(single_images(pairs)),
    problems=_caption_problems,
    records=_caption_rows,
)


def _fields_of_two_images(survey: str, pairs: PairSet) -> Iterator[tuple[Item, dict[str, Any]]]:
    if pairs.shape[0] != 2:
        raise shape_error(survey, pairs, "two images")
    for item in pairs.items:
        yield item, {"id": item.id, "item": item.id, "cluster": item.cluster, "tags": dict(item.tags)}


def _statement_units(pairs: PairSet, _earlier: Earlier | None) -> list[SurveyUnit]:
    # One text for two images is a draft to be put right; captions of each of them are not.
    return [
        SurveyUnit(
            **fields, images=list(item.images), texts=[f"Draft: {item.texts[0]}"] if len(item.texts) == 1 else []
        )
        for item, fields in _fields_of_two_images("statement", pairs)
    ]


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
    units=_statement_units,
    records=_statement_rows,
)


def _question_units(pairs: PairSet, _earlier: Earlier | None) -> list[SurveyUnit]:
    return [
        SurveyUnit(**fields, options=list(item.images), option_kind="images")
        for item, fields in _fields_of_two_images("question", pairs)
    ]


def _normalize_answer(answer: str) -> str:
    """Write an answer as VQA's script compares it, and as its lists of answers are written."""
    return clean_words(clean_punctuation(answer.strip()))


def _question_problems(values: Mapping[str, Any], allowed: frozenset[str]) -> list[str]:
    answers = [_normalize_answer(values[f"answer_{image}"]) for image in (0, 1)]
    problems = []
    if answers[0] == answers[1]:
        problems.append(f"both answers are {answers[0]!r}")
    known = frozenset(map(_normalize_answer, allowed))
    if allowed:
        problems += [f"{answer!r} is not in the list of answers" for answer in answers if answer not in known]
    return problems


def _question_rows(study: Study, answers: Sequence[SurveyAnswer]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for answer in answers:
        for index, image in enumerate(study.unit_of[answer.unit].options):
            own = {"image": image, "answer": answer.values[f"answer_{index}"]}
            rows.append({"question_id": len(rows), "question": answer.values["question"], **own})
    return rows


QUESTION = Survey(
    name="question",
    title="a question that has different answers on two images, and both answers",
    source=_SOURCE,
    instructions=(
        "Write one question that can be answered by looking at either image, and whose answers differ.",
        "Answer it for each image in a word or two.",
    ),
    asks=(
        Ask("question", "text", "Your question"),
        Ask("answer", "text", "The answer for image", options=True),
    ),
    units=_question_units,
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
    units=lambda pairs, _earlier: list(single_images(pairs)),
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
