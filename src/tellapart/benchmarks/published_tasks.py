"""Readers of published sets of other tasks than pairs: VLUE, NLVR2, VQA, RefCOCO+, COLA's labels, GEB+'s moments."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.locations import Locations, first_file
from tellapart.catalog import load
from tellapart.data.fields import field_fault, one_text, split_list
from tellapart.data.rows import (
    AnnotationRow,
    Filled,
    Seconds,
    expect_count,
    karpathy_images,
    read_csv,
    read_jsonl,
    string,
)
from tellapart.data.strict_binary import read_plain_pickle
from tellapart.data.strict_json import read_json
from tellapart.data.task_records import (
    BoxSet,
    CaptionSet,
    LabelSet,
    MomentSet,
    QuestionSet,
    Record,
    RetrievalSet,
    StatementSet,
    make_moment,
)
from tellapart.data.validation import validate
from tellapart.errors import DataError, quote

# VLUE: retrieval, captions, NLVR2, questions and boxes, out of domain, and in domain, on the sets of the fine-tuning.
#
# VLUE's out-of-domain sets use images of MaRVL; its in-domain ones are COCO, NLVR2, VQA 2.0 and RefCOCO+. One function
# reads a file to the records of its task. Ids are strings; a row without an id is known by its number, from 0.

Number = Annotated[float, Field(allow_inf_nan=False)]
Sides = Annotated[list[Number], Field(min_length=4, max_length=4)]
R = TypeVar("R", bound=AnnotationRow)


#: A lone string is a list of one; a list that is written as a string is that list.
Texts = Annotated[
    list[Filled],
    Field(min_length=1),
    BeforeValidator(lambda value: [value] if isinstance(value, str) else value),
    BeforeValidator(split_list),
]
#: Files may hold numbers for ids.
Id = Annotated[Filled, BeforeValidator(lambda value: str(value) if type(value) is int else value)]


class _Loose(AnnotationRow):
    """A row of which the measured fields are read alone."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


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
    captions = (Record(id_, (row.image,), (), tuple(row.caption)) for id_, row in zip(ids, rows, strict=True))
    return CaptionSet(path.stem, tuple(captions))


def read_statements(path: Path) -> StatementSet:
    """Read `nlvr2_vlue_test.json`: a sentence, the left and the right image, and the label "True" or "False".

    The labels are strings, of which Python holds both to be true; here they become bools.
    """
    rows = enumerate(_check_rows(path, _Statement))
    statements = (Record(str(k), tuple(row.images), (row.sentence,), row.label == "True") for k, row in rows)
    return StatementSet(path.stem, tuple(statements))


def read_questions(path: Path) -> QuestionSet:
    """Read `vqa_vlue_test.json`, one gold answer a question; or X-VLM's form of VQA 2.0, with a list of answers."""
    rows = _check_rows(path, _Question)
    _check_distinct(path, "question_id", [row.question_id for row in rows])
    questions = (Record(row.question_id, (row.image,), (row.question,), tuple(row.answer)) for row in rows)
    return QuestionSet(path.stem, tuple(questions))


def read_vqa2(questions: Path, annotations: Path, split: str = "val2014") -> QuestionSet:
    """Read VQA 2.0 as its site ships it: a file of questions, a file of ten people's answers to each."""
    question_rows = rows_under(questions, read_json(questions, dict), "questions", _Asked)
    answer_rows = rows_under(annotations, read_json(annotations, dict), "annotations", _Answers)
    ids = _check_distinct(questions, "question_id", [row.question_id for row in question_rows])
    _check_distinct(annotations, "question_id", [row.question_id for row in answer_rows])
    answers = {row.question_id: row for row in answer_rows}
    if unpaired := sorted(set(ids) ^ answers.keys()):
        raise DataError(f"{annotations} and {questions} differ: question_id {unpaired[0]} is in one of them only")
    joined: list[Record] = []
    for row in question_rows:
        own, id_ = answers[row.question_id], row.question_id
        if own.image_id != row.image_id:
            fault = f"field 'image_id': {own.image_id}, asked of {row.image_id}"
            raise DataError(f"{annotations}: question_id {id_}: {fault}")
        image = f"{split}/COCO_{split}_{row.image_id:012d}.jpg"
        joined.append(Record(id_, (image,), (row.question,), tuple(answer.answer for answer in own.answers)))
    return QuestionSet(questions.stem, tuple(joined))


def read_boxes(path: Path) -> BoxSet:
    """Read a grounding file: `ref_id`, `text`, `image`, `bbox` (x, y, width, height), `width`, `height`, maybe `dets`.

    VLUE does not ship this file; the form is that of its reading code and of X-VLM's RefCOCO+ files.
    """
    boxes: list[Record] = []
    for number, row in enumerate(_check_rows(path, _Box)):
        if min(row.bbox[2:]) <= 0:
            raise DataError(f"{path}: row {number}: field 'bbox': {row.bbox} has no area (x, y, width, height)")
        # One object is referred to by several phrases, so `ref_id` alone is not an id.
        facts = {"size": (row.width, row.height), "candidates": tuple(tuple(map(float, box)) for box in row.dets)}
        boxes.append(Record(str(number), (row.image,), (row.text,), tuple(map(float, row.bbox)), facts=facts))
    return BoxSet(path.stem, tuple(boxes))


def _check_captions(path: Path) -> list[_Captions]:
    """Check the rows of images with captions, a list of them or Karpathy's file with all splits."""
    content = read_json(path)
    images = content.get("images") if isinstance(content, dict) else None
    if not isinstance(images, list):
        return _check_rows(path, _Captions)
    rows = [
        validate(_Captions, {"image": image, "caption": [sentence.get("raw") for sentence in sentences]}, place)
        for place, image, sentences in karpathy_images(path, images, {"test"})
    ]
    if not rows:
        raise DataError(f"{path}: images: none is of the split 'test'", path=path)
    return rows


def _check_rows(path: Path, row: type[R]) -> list[R]:
    return [validate(row, one, f"{path}: row {number}") for number, one in enumerate(read_json(path, list))]


def rows_under(path: Path, content: Mapping[str, Any], key: str, row: type[R]) -> list[R]:
    """Check the rows of the list that a file's object holds under a key; its other keys are its licence and date."""
    rows = content.get(key)
    if not isinstance(rows, list) or not rows:
        raise DataError(f"{path}: field {key!r}: expected a list of rows")
    return [validate(row, one, f"{path}: {key}: row {number}") for number, one in enumerate(rows)]


def _check_distinct(path: Path, field: str, values: list[str]) -> tuple[str, ...]:
    first_row: dict[str, int] = {}
    for number, value in enumerate(values):
        if value in first_row:
            raise DataError(f"{path}: row {number}: field {field!r}: {value} is in row {first_row[value]} already")
        first_row[value] = number
    return tuple(first_row)


_SIDES = {"synthetic-images-for-original-captions": 0, "synthetic-images-for-counterfactual-captions": 1}


def read_counterfactuals_test(path: Path) -> RetrievalSet:
    """Read COCO-Counterfactuals' test split."""
    images, captions = [], []
    for line, row in read_csv(path):
        where = f"{path}:{line}"
        image = PurePosixPath(string(row, "image_path", where))
        # The released name of an image that the split names by its side's folder.
        side = next((number for folder, number in _SIDES.items() if folder in image.parts), None)
        if side is None:
            raise DataError(f"{where}: field 'image_path': '{image}' lies in none of {', '.join(_SIDES)}")
        images.append(f"{image.stem}_img_{side}.jpg")
        captions.append([string(row, "caption", where)])
    return RetrievalSet.of("coco-counterfactuals-test", images, captions)


def load_counterfactuals_retrieval(place: Locations, _benchmark: Benchmark) -> RetrievalSet:
    """Load every image and every caption of COCO-Counterfactuals' pairs."""
    items = load("benchmark", "coco-counterfactuals").load(place).items
    images = [image for item in items for image in item.images]
    return RetrievalSet.of("coco-counterfactuals", images, [[text] for item in items for text in item.texts])


def load_vqa2(place: Locations, benchmark: Benchmark) -> QuestionSet:
    """Load VQA 2.0's two files, or the one file that ALBEF and X-VLM join them to."""
    joined = benchmark.files[0].rpartition("|")[2]
    questions, answers = (first_file(place, benchmark.name, pattern) for pattern in benchmark.files)
    if joined in (questions.name, answers.name):
        return read_questions(first_file(place, benchmark.name, joined))
    return read_vqa2(questions, answers)


_GOLD = "coco_karpathy_test_gt.json"
_NUMBER = re.compile(r"(?:^|[/_])0*(\d+)\.jpg$", re.ASCII)


class _Caption(_Loose):
    image_id: Annotated[int, Field(ge=0)]
    caption: Annotated[str, Field(min_length=1), AfterValidator(one_text)]


def read_karpathy_captions(path: Path) -> CaptionSet:
    """Read `coco_karpathy_test.json`: rows of an `image` that ends in its COCO number, and a list, `caption`."""
    captions = read_captions(path)
    rows = []
    for place, row in enumerate(captions.rows):
        number = _NUMBER.search(row.images[0])
        if number is None:
            fault = f"{row.images[0]!r} does not end in the image's COCO number"
            raise DataError(f"{path}: row {place}: field 'image': {fault}")
        rows.append(replace(row, id=number[1]))
    return CaptionSet(captions.name, tuple(rows))


def read_coco_captions(path: Path, split: str = "val2014") -> CaptionSet:
    """Read captions in COCO's format: `{"annotations": [{"image_id": 42, "caption": "a man"}, ...], ...}`."""
    captions: dict[int, list[str]] = {}
    for row in rows_under(path, read_json(path, dict), "annotations", _Caption):
        captions.setdefault(row.image_id, []).append(row.caption)
    rows = (
        Record(str(image), (f"{split}/COCO_{split}_{image:012d}.jpg",), (), tuple(texts))
        for image, texts in captions.items()
    )
    return CaptionSet(path.stem, tuple(rows))


def read_published_captions(path: Path) -> CaptionSet:
    """Read either of X-VLM's two files."""
    return read_coco_captions(path) if path.name == _GOLD else read_karpathy_captions(path)


#: The images are named after the identifier without its sentence: `test1-0-1-img0.png` is the left one.
_IMAGE = re.compile(r"(?:.*/)?([^-/]+-\d+)-\d+-img[01]\.\w+")


class _Example(_Loose):
    """A line also holds images' addresses, the writer, the votes and the search's words."""

    identifier: Annotated[str, Field(pattern=r"^[^-/]+-\d+-\d+-\d+$")]
    sentence: Filled
    label: Literal["True", "False"]


def read_nlvr2(path: Path, items: int | None = None) -> StatementSet:
    """Read `test1.json` or `dev.json` as the authors publish them; or ALBEF's and X-VLM's list of the same rows.

    The list has no identifiers: its statements are numbered, and the set is taken from the images' names. A file of
    lines that was cut between two of them shows in nothing but the number of its `items`.
    """
    try:
        with path.open(encoding="utf-8-sig", errors="replace") as file:
            is_list = not file.read(1 << 16).lstrip().startswith("{")
    except OSError:  # the reader of lists reports why
        is_list = True
    if is_list:
        listed = read_statements(path)
        return replace(listed, rows=tuple(map(_in_its_set, listed.rows)))
    statements = []
    for line, content in read_jsonl(path):
        row = validate(_Example, content, f"{path}:{line}")
        split, set_, pair, sentence = row.identifier.split("-")
        # The folder is the one that the images are handed out in; the group is as `metrics.py` writes it.
        images = tuple(f"{split}/{split}-{set_}-{pair}-img{side}.png" for side in (0, 1))
        group, is_true = f"{split}-{set_}--{sentence}", row.label == "True"
        statements.append(Record(row.identifier, images, (row.sentence,), is_true, group))
    if items is not None:
        expect_count(path, len(statements), items, what="statements")
    return StatementSet(path.stem, tuple(statements))


def _in_its_set(row: Record) -> Record:
    """Put a statement into the group of its set's sentence, if the images' names contain the set."""
    sets = {match[1] for image in row.images if (match := _IMAGE.fullmatch(image))}
    return replace(row, group=f"{sets.pop()}: {row.texts[0]}") if len(sets) == 1 else row


class _Sentence(_Loose):
    sent: Annotated[str, Field(min_length=1)]
    sent_id: int


class _Ref(_Loose):
    ann_id: int
    split: str
    sentences: Annotated[list[_Sentence], Field(min_length=1)]


class _Image(_Loose):
    id: int
    file_name: Annotated[str, Field(min_length=1)]
    width: Annotated[int, Field(gt=0)]
    height: Annotated[int, Field(gt=0)]


class _Instance(_Loose):
    id: int
    image_id: int
    bbox: Sides


def read_refcoco(refs: Path, instances: Path, *, splits: Sequence[str]) -> BoxSet:
    """Read the phrases of some splits; a phrase's id is its `sent_id`."""
    rows = read_plain_pickle(refs)
    if not isinstance(rows, list) or not rows:
        raise DataError(f"{refs}: expected a list of references")
    content = read_json(instances, dict)
    images = {row.id: row for row in rows_under(instances, content, "images", _Image)}
    boxes = {row.id: row for row in rows_under(instances, content, "annotations", _Instance)}
    boxes_of_phrases: list[Record] = []
    for number, row in enumerate(rows):
        place = f"{refs}: row {number}"
        ref = validate(_Ref, row, place)
        if ref.split not in splits:
            continue
        box = boxes.get(ref.ann_id)
        image = None if box is None else images.get(box.image_id)
        if box is None or image is None:
            raise field_fault(place, "ann_id", f"{instances} has no box {ref.ann_id}, or not its image")
        facts, sides = {"size": (image.width, image.height), "candidates": ()}, tuple(map(float, box.bbox))
        boxes_of_phrases += [
            Record(str(sentence.sent_id), (image.file_name,), (sentence.sent,), sides, facts=facts)
            for sentence in ref.sentences
        ]
    try:
        return BoxSet("refcoco+", tuple(boxes_of_phrases))
    except DataError as error:
        raise DataError(f"{refs}: {error}") from error


# COLA's single objects: labels of an object with its attributes, and the images in which each is hard.


def read_image_labels(path: Path, of: str) -> LabelSet:
    """Read one of the three files; images are named by the last part of their addresses."""
    content = read_json(path)
    # README.md names the two parts, scripts/eval.py counts them.
    parts = [content.get("labels"), content.get("data")] if isinstance(content, dict) else content
    if not isinstance(parts, list) or len(parts) != 2 or not all(isinstance(part, list) and part for part in parts):
        raise DataError(f"{path}: expected `labels` and `data`, two lists", path=path)
    texts, rows = parts
    for number, text in enumerate(texts):
        if not isinstance(text, str) or not text.strip():
            raise DataError(f"{path}: label {number}: expected a text; got {quote(text)}", path=path, field="labels")
    images, marks = zip(*(_read_marks(row, len(texts), path, number) for number, row in enumerate(rows)), strict=True)
    labels = []
    for column, text in enumerate(texts):
        counted = tuple(place for place, (_, hard) in enumerate(marks) if hard[column])
        true = tuple(bool(marks[place][0][column]) for place in counted)
        if any(true):
            labels.append(Record(str(column), (), (text,), true, facts={"counted": counted}))
    return LabelSet(of, tuple(labels), images)


def _read_marks(row: Any, size: int, path: Path, number: int) -> tuple[str, tuple[list[int], list[int]]]:
    place = f"{path}: row {number}"
    if not isinstance(row, list) or len(row) != 4:
        raise DataError(f"{place}: expected an image, its objects, labels and hard marks; got {quote(row)}", path=path)
    image, _, label, hard = row
    file = PurePosixPath(image).name if isinstance(image, str) else ""
    if not file:
        raise field_fault(place, "image_file", "expected a path;", image)
    for field, values in (("label", label), ("hard_list", hard)):
        valid = isinstance(values, list) and all(type(value) is int and value in (0, 1) for value in values)
        if not valid or len(values) != size:
            raise field_fault(place, field, f"expected {size} marks, each 0 or 1")
    return file, (label, hard)


# GEB+'s annotation files: the moments of Kinetics videos at which something changes, captioned before and after.


class _Boundary(AnnotationRow):
    boundary_id: Filled
    timestamp: Seconds
    prev_timestamp: Seconds
    next_timestamp: Seconds
    label: Filled
    subject: Filled
    status_before: Filled
    status_after: Filled
    caption: Filled
    action_of_cause: str | None


def read_moments(path: Path) -> MomentSet:
    """Read GEB+'s `val.json` or `test.json`: video -> its boundaries.

    A boundary's id is its video's, a number and the annotator's letter. Boundaries that two annotators marked at the
    same time stay two queries. `caption` must be made of the three parts in the same row.

    Source: GEB+ (Wang et al. 2022), `datasets/annotations`, filtered version.
    """
    moments: dict[str, Record] = {}
    for video, rows in read_json(path, dict).items():
        if not isinstance(rows, list) or not rows:
            raise DataError(f"{path}: video {video!r}: expected a list of boundaries")
        for number, content in enumerate(rows):
            moment = _make_moment(video, content, f"{path}: video {video!r}: row {number}")
            if moment.id in moments:
                raise DataError(f"{path}: video {video!r}: row {number}: field 'boundary_id': {moment.id} is repeated")
            moments[moment.id] = moment
    return MomentSet(path.stem, tuple(moments.values()))


def _make_moment(video: str, content: object, place: str) -> Record:
    row = validate(_Boundary, content, place)
    if not row.boundary_id.startswith(f"{video}_"):
        raise field_fault(place, "boundary_id", f"{row.boundary_id!r} is not of this video")
    if not row.prev_timestamp <= row.timestamp <= row.next_timestamp:
        between = f"{row.prev_timestamp} and {row.next_timestamp}"
        fault = f"{row.timestamp} does not lie between the boundaries before and after it, {between}"
        raise field_fault(place, "timestamp", fault)
    parts = f"Subject: {row.subject} //Status_Before: {row.status_before} //Status_After: {row.status_after}"
    if row.caption != parts:
        raise field_fault(place, "caption", f"{quote(row.caption)} is not made of subject, before and after")
    states = (row.subject, row.status_before, row.status_after)
    return make_moment(row.boundary_id, video, float(row.timestamp), states, row.label, float(row.next_timestamp))
