"""VLUE's annotation files: retrieval, captions, NLVR2, questions, boxes; and the two files of VQA 2.0.

One function a file, each to the records of its task. VLUE's out-of-domain sets use images of MaRVL; its in-domain
ones are COCO, NLVR2, VQA 2.0 and RefCOCO+. Ids are strings; a row without an id is known by its number, from 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BeforeValidator, Field

from tellapart.data.annotations import AnnotationRow, check_row, karpathy_images, read_list, read_mapping
from tellapart.data.fields import split_list
from tellapart.data.rows import read_json
from tellapart.data.task_records import (
    Box,
    BoxSet,
    CaptionSet,
    Question,
    QuestionSet,
    RetrievalSet,
    Statement,
    StatementSet,
)
from tellapart.errors import DataError

Filled = Annotated[str, Field(min_length=1, pattern=r"\S")]  # a blank is not a text
Number = Annotated[float, Field(allow_inf_nan=False)]
Sides = Annotated[list[Number], Field(min_length=4, max_length=4)]
R = TypeVar("R", bound=AnnotationRow)


def _as_list(value: object) -> object:
    """Return a lone string as a list of one, and a list that is written as a string as that list."""
    value = split_list(value)
    return [value] if isinstance(value, str) else value


def _as_text(value: object) -> object:
    """Return an id as a string; files may hold numbers."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Texts = Annotated[list[Filled], Field(min_length=1), BeforeValidator(_as_list)]
Id = Annotated[Filled, BeforeValidator(_as_text)]


class _Captions(AnnotationRow):
    image: Filled
    caption: Texts
    image_id: Id = ""


class _Statement(AnnotationRow):
    sentence: Filled
    images: Annotated[list[Filled], Field(min_length=2, max_length=2)]
    label: Literal["True", "False"]


class _Question(AnnotationRow):
    question_id: Id
    question: Filled
    image: Filled
    answer: Texts
    dataset: str = ""


class _Box(AnnotationRow):
    ref_id: Id
    text: Filled
    image: Filled
    bbox: Sides
    height: Annotated[int, Field(gt=0)]
    width: Annotated[int, Field(gt=0)]
    dets: list[Sides] = Field(default_factory=list)


class _Asked(AnnotationRow):
    question_id: Id
    image_id: int
    question: Filled


class _Answer(AnnotationRow):
    answer: str
    answer_id: int = 0
    answer_confidence: str = ""


class _Answers(AnnotationRow):
    question_id: Id
    image_id: int
    answers: Annotated[list[_Answer], Field(min_length=1)]
    question_type: str = ""
    answer_type: str = ""
    multiple_choice_answer: str = ""


def read_retrieval(path: Path) -> RetrievalSet:
    """Read `itr_vlue_test.json`, or COCO's and Flickr30K's Karpathy splits in the same form, or in his.

    Of Karpathy's `dataset_coco.json` and `dataset_flickr30k.json` the images of the split `test` are read.

    Each row is an image with its captions. Rows with the same image stay apart: they are separate gallery entries,
    as in the published numbers (VLUE: 5,450 rows, 5,413 images; `unavoidable_misses` measures the cost).
    """
    rows = _check_captions(path)
    return RetrievalSet.of(path.stem, [row.image for row in rows], [row.caption for row in rows])


def read_captions(path: Path) -> CaptionSet:
    """Read `caption_vlue_test.json`, which is `itr_vlue_test.json` with `image_id`, the row's number; or that file."""
    rows = _check_captions(path)
    ids = _check_distinct(path, "image_id", [row.image_id or str(number) for number, row in enumerate(rows)])
    return CaptionSet(path.stem, ids, tuple(row.image for row in rows), tuple(tuple(row.caption) for row in rows))


def read_statements(path: Path) -> StatementSet:
    """Read `nlvr2_vlue_test.json`: a sentence, the left and the right image, and the label "True" or "False".

    The labels are strings, of which Python holds both to be true; here they become bools.
    """
    rows = enumerate(_check_rows(path, _Statement))
    statements = (Statement(str(k), row.sentence, row.images[0], row.images[1], row.label == "True") for k, row in rows)
    return StatementSet(path.stem, tuple(statements))


def read_questions(path: Path) -> QuestionSet:
    """Read `vqa_vlue_test.json`, one gold answer a question; or X-VLM's form of VQA 2.0, with a list of answers."""
    rows = _check_rows(path, _Question)
    _check_distinct(path, "question_id", [row.question_id for row in rows])
    questions = (Question(row.question_id, row.question, row.image, tuple(row.answer)) for row in rows)
    return QuestionSet(path.stem, tuple(questions))


def read_vqa2(questions: Path, annotations: Path, split: str = "val2014") -> QuestionSet:
    """Read VQA 2.0 as its site ships it: a file of questions, a file of ten people's answers to each."""
    question_rows = rows_under(questions, read_mapping(questions), "questions", _Asked)
    answer_rows = rows_under(annotations, read_mapping(annotations), "annotations", _Answers)
    ids = _check_distinct(questions, "question_id", [row.question_id for row in question_rows])
    _check_distinct(annotations, "question_id", [row.question_id for row in answer_rows])
    answers = {row.question_id: row for row in answer_rows}
    if unpaired := sorted(set(ids) ^ answers.keys()):
        raise DataError(f"{annotations} and {questions} differ: question_id {unpaired[0]} is in one of them only")
    joined: list[Question] = []
    for row in question_rows:
        own, id_ = answers[row.question_id], row.question_id
        if own.image_id != row.image_id:
            raise DataError(
                f"{annotations}: question_id {id_}: field 'image_id': {own.image_id}, asked of {row.image_id}"
            )
        image = f"{split}/COCO_{split}_{row.image_id:012d}.jpg"
        joined.append(Question(id_, row.question, image, tuple(answer.answer for answer in own.answers)))
    return QuestionSet(questions.stem, tuple(joined))


def read_boxes(path: Path) -> BoxSet:
    """Read a grounding file: `ref_id`, `text`, `image`, `bbox` (x, y, width, height), `width`, `height`, maybe `dets`.

    VLUE does not ship this file; the form is that of its reading code and of X-VLM's RefCOCO+ files.
    """
    boxes: list[Box] = []
    for number, row in enumerate(_check_rows(path, _Box)):
        if min(row.bbox[2:]) <= 0:
            raise DataError(f"{path}: row {number}: field 'bbox': {row.bbox} has no area (x, y, width, height)")
        size = (row.width, row.height)
        # One object is referred to by several phrases, so `ref_id` alone is not an id.
        boxes.append(Box(str(number), row.text, row.image, _make_box(row.bbox), size, tuple(map(_make_box, row.dets))))
    return BoxSet(path.stem, tuple(boxes))


def _check_captions(path: Path) -> list[_Captions]:
    """Check the rows of images with captions, a list of them or Karpathy's file with all splits."""
    content = read_json(path)
    images = content.get("images") if isinstance(content, dict) else None
    if not isinstance(images, list):
        return _check_rows(path, _Captions)
    rows = [
        check_row(_Captions, {"image": image, "caption": [sentence.get("raw") for sentence in sentences]}, place)
        for place, image, sentences in karpathy_images(path, images, {"test"})
    ]
    if not rows:
        raise DataError(f"{path}: images: none is of the split 'test'", path=path)
    return rows


def _check_rows(path: Path, row: type[R]) -> list[R]:
    return [check_row(row, one, f"{path}: row {number}") for number, one in enumerate(read_list(path))]


def rows_under(path: Path, content: Mapping[str, Any], key: str, row: type[R]) -> list[R]:
    """Check the rows of the list that a file's object holds under a key; its other keys are its licence and date."""
    rows = content.get(key)
    if not isinstance(rows, list) or not rows:
        raise DataError(f"{path}: field {key!r}: expected a list of rows")
    return [check_row(row, one, f"{path}: {key}: row {number}") for number, one in enumerate(rows)]


def _make_box(sides: list[float]) -> tuple[float, float, float, float]:
    x, y, width, height = map(float, sides)
    return x, y, width, height


def _check_distinct(path: Path, field: str, values: list[str]) -> tuple[str, ...]:
    first_row: dict[str, int] = {}
    for number, value in enumerate(values):
        if value in first_row:
            raise DataError(f"{path}: row {number}: field {field!r}: {value} is in row {first_row[value]} already")
        first_row[value] = number
    return tuple(first_row)
