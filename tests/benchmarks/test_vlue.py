"""VLUE's files: their published counts, and one clear error for whatever is done to them."""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from facts import raises
from tellapart.benchmarks.vlue import (
    read_boxes,
    read_captions,
    read_questions,
    read_retrieval,
    read_statements,
    read_vqa2,
)
from tellapart.data.task_records import RetrievalSet
from tellapart.errors import DataError
from tellapart.metrics.answers import exact_match
from tellapart.metrics.retrieval import scores_both_ways, unavoidable_misses

FOLDER = Path(__file__).parents[2].parent / "shared" / "data" / "vlue"
CAPTION = {"image": "ta/images/73-கரிக்கோல்/73-13.jpg", "caption": ["A man draws.", "A man with a pencil."]}
STATEMENT = {"sentence": "Both show a dog.", "images": ["a.jpg", "b.jpg"], "label": "True"}
QUESTION = {"question_id": 5, "question": "One cup?", "image": "sw/79-1.jpg", "answer": "yes"}
BOX = {"ref_id": 3, "text": "man", "image": "a.jpg", "bbox": [1, 2.5, 9, 8], "height": 480, "width": 640}


def shared(name: str) -> Path:
    path = FOLDER / name
    if not path.is_file():
        pytest.skip("VLUE's annotation files are not beside this checkout")
    return path


def test_the_retrieval_file_has_its_counts() -> None:
    gallery = read_retrieval(shared("itr_vlue_test.json"))
    assert (len(gallery.images), len(set(gallery.images))) == (5450, 5413)
    assert (len(gallery.captions), len(set(gallery.captions))) == (27_796, 27_609)
    of_image = Counter(Counter(image for image, _ in gallery.pairs).values())
    assert of_image == {5: 5249, 8: 174, 6: 15, 7: 7, 4: 5}
    assert Counter(image[:2] for image in gallery.images).keys() == {"ta", "tr", "id", "sw", "zh"}
    assert sum(times > 1 for times in Counter(gallery.captions).values()) == 160
    assert sum(len(images) > 1 for images in owners_of(gallery).values()) == 144


def test_karpathys_own_file_is_read_and_only_its_test_split(tmp_path: Path) -> None:
    def image(number: int, split: str) -> dict[str, Any]:
        sentences = [{"raw": f"text {k} of {number}.", "tokens": ["text"], "sentid": k} for k in range(2)]
        return {
            "filepath": "val2014",
            "filename": f"{number:012}.jpg",
            "split": split,
            "sentences": sentences,
            "cocoid": 1,
        }

    path = tmp_path / "dataset_coco.json"
    rows = [image(k, split) for k, split in enumerate(("train", "test", "val", "restval", "test"))]
    path.write_text(json.dumps({"images": rows, "dataset": "coco"}))
    gallery = read_retrieval(path)
    assert gallery.images == ("val2014/000000000001.jpg", "val2014/000000000004.jpg")
    assert gallery.captions == tuple(f"text {k} of {number}." for number in (1, 4) for k in range(2))
    assert read_captions(path).images == gallery.images
    del rows[1]["filepath"]  # Flickr30K's has none
    path.write_text(json.dumps({"images": rows, "dataset": "flickr30k"}))
    assert read_retrieval(path).images[0] == "000000000001.jpg"
    path.write_text(json.dumps({"images": rows[:1], "dataset": "coco"}))
    with raises(DataError, str(path), "'test'", "images"):
        read_retrieval(path)
    del rows[1]["sentences"]
    path.write_text(json.dumps({"images": rows, "dataset": "coco"}))
    with raises(DataError, str(path), "images[1]", "sentences"):
        read_retrieval(path)


def owners_of(gallery: RetrievalSet) -> dict[str, Counter[str]]:
    """Each distinct caption, with the pictures it belongs to and how often it does."""
    owners: dict[str, Counter[str]] = {}
    for caption, image in zip(gallery.captions, gallery.caption_clusters, strict=True):
        owners.setdefault(caption, Counter())[image] += 1
    return owners


@pytest.mark.slow
def test_what_the_duplicates_of_the_retrieval_file_cost_every_model() -> None:
    gallery = read_retrieval(shared("itr_vlue_test.json"))
    listed = Counter(gallery.images)
    # Text to image, exactly: of the pictures a caption belongs to, those that can stand in the first place together.
    fewest = 0
    for pictures in owners_of(gallery).values():
        single = [times for picture, times in pictures.items() if listed[picture] == 1]
        fewest += sum(pictures.values()) - max(single, default=0)
    assert fewest == 539
    # Image to text: each of the 37 pictures listed twice has captions of both rows, and one of them comes first.
    assert unavoidable_misses(gallery.images, gallery.captions, gallery.pairs) == (37, 539)
    assert unavoidable_misses(gallery.images, gallery.captions, gallery.pairs, k=5) == (0, 0)


def test_an_oracle_of_content_on_the_retrieval_file_misses_what_it_must() -> None:
    # The first 1,500 images: score 1 where picture and caption belong together somewhere in the set.
    gallery = read_retrieval(shared("itr_vlue_test.json"))
    pairs = np.array([pair for pair in gallery.pairs if pair[0] < 1500])
    captions = gallery.captions[: pairs[:, 1].max() + 1]
    picture = np.unique(gallery.images[:1500], return_inverse=True)[1]
    words = np.unique(captions, return_inverse=True)[1]
    known = np.zeros((picture.max() + 1, words.max() + 1), np.float32)
    known[picture[pairs[:, 0]], words[pairs[:, 1]]] = 1
    found = scores_both_ways(known[picture][:, words], pairs)
    bound = unavoidable_misses(gallery.images[:1500], captions, [(int(i), int(c)) for i, c in pairs])
    missed = [int((ranks.recall(1) == 0).sum()) for ranks in (found.image_to_text, found.text_to_image)]
    assert missed[1] >= bound[1] > 0
    assert missed[0] >= bound[0]
    assert found.text_to_image.tie_neutral_recall(1).mean() > found.text_to_image.recall(1).mean() > 0.9


def test_the_caption_file_is_the_retrieval_file_by_row_number() -> None:
    captions = read_captions(shared("itr_vlue_test.json"))
    assert captions.ids == tuple(map(str, range(5450)))
    assert sum(map(len, captions.references)) == 27_796


@pytest.mark.slow
def test_the_question_file_has_its_counts() -> None:
    found = read_questions(shared("vqa_vlue_test.json"))
    assert len(found.questions) == 11_942
    assert len({question.question for question in found.questions}) == 4987
    assert len({question.question.lower().strip() for question in found.questions}) == 4969
    assert len(set(found.gold)) == 728
    assert sum(answer in ("yes", "no") for answer in found.gold) == 4349
    assert exact_match(found.gold, found.gold).all()


def write(folder: Path, found: Any, name: str = "rows.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(found), encoding="utf-8")
    return path


def test_a_statement_keeps_its_left_and_its_right_image_and_reads_its_label(tmp_path: Path) -> None:
    rows = [STATEMENT, {**STATEMENT, "label": "False"}]
    found = read_statements(write(tmp_path, rows)).statements
    assert [(one.left, one.right, one.label) for one in found] == [("a.jpg", "b.jpg", True), ("a.jpg", "b.jpg", False)]


def test_boxes_and_answers_of_people_are_read(tmp_path: Path) -> None:
    box = read_boxes(write(tmp_path, [BOX, {**BOX, "text": "woman", "dets": [[0, 0, 5, 5]]}])).boxes[1]
    assert (box.box, box.size, box.candidates) == ((1.0, 2.5, 9.0, 8.0), (640, 480), ((0.0, 0.0, 5.0, 5.0),))
    people = read_questions(write(tmp_path, [{**QUESTION, "answer": ["yes"] * 9 + ["no"], "dataset": "vqa"}]))
    assert people.questions[0].answers == ("yes",) * 9 + ("no",)


ASKED = {"questions": [{"question_id": 9, "image_id": 42, "question": "One cup?"}], "license": {}}
GIVEN = {
    "annotations": [
        {
            "question_id": 9,
            "image_id": 42,
            "question_type": "is there",
            "answer_type": "yes/no",
            "multiple_choice_answer": "yes",
            "answers": [{"answer": "yes", "answer_id": k, "answer_confidence": "maybe"} for k in range(1, 11)],
        }
    ]
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda q, a: q["questions"].clear(), ("q.json", "'questions'")),
        (lambda q, a: a.pop("annotations"), ("object", "rows", "key")),
        (lambda q, a: a["annotations"][0].update(question_id=8), ("question_id", "8")),
        (lambda q, a: a["annotations"][0].update(image_id=7), ("question_id", "9", "'image_id'", "7", "42")),
        (lambda q, a: a["annotations"][0]["answers"].clear(), ("0", "'answers'")),
        (
            lambda q, a: q["questions"].append(q["questions"][0]),
            ("1", "'question_id'", "9", "0"),
        ),
    ],
)
def test_files_of_vqa2_that_do_not_fit_raise(
    tmp_path: Path, change: Callable[[Any, Any], Any], message: str | tuple[str, ...]
) -> None:
    asked, given_ = copy.deepcopy(ASKED), copy.deepcopy(GIVEN)
    change(asked, given_)
    with raises(DataError, message):
        read_vqa2(write(tmp_path, asked, "q.json"), write(tmp_path, given_, "a.json"))


@pytest.mark.parametrize(
    ("read", "row", "message"),
    [
        (read_retrieval, {**CAPTION, "caption": []}, ("1", "'caption'", "empty")),
        (read_retrieval, {**CAPTION, "captions": ["x"]}, ("1", "'captions'")),
        (read_captions, {**CAPTION, "image_id": "0"}, ("1", "'image_id'", "0", "0")),
        (read_captions, {**CAPTION, "image_id": True}, ("1", "'image_id'", "True")),
        (
            read_statements,
            {**STATEMENT, "label": "true"},
            ("1", "'label'", "input", "'True'", "'False'", "'true'"),
        ),
        (
            read_statements,
            {**STATEMENT, "images": ["a.jpg"]},
            ("1", "'images'", "2"),
        ),
        (read_questions, QUESTION, ("1", "'question_id'", "5", "0")),
        (read_boxes, {**BOX, "bbox": [1, 2, 0, 4]}, ("1", "'bbox'")),
        (read_boxes, {**BOX, "width": 0}, ("1", "'width'", "input", "0")),
        (read_boxes, ["man"], ("1", "object", "ref_id")),
    ],
)
def test_a_bad_row_is_named_with_its_field(
    tmp_path: Path, read: Callable[[Path], Any], row: Any, message: str | tuple[str, ...]
) -> None:
    good = {read_retrieval: CAPTION, read_captions: CAPTION, read_statements: STATEMENT, read_questions: QUESTION}
    with raises(DataError, "rows.json", message):
        read(write(tmp_path, [good.get(read, BOX), row]))


def test_the_order_of_rows_changes_no_pairs(tmp_path: Path) -> None:
    rows = [
        {**QUESTION, "question_id": k, "question": f"{k // 2}?", "image": str(k), "answer": str(k)} for k in range(8)
    ]
    there = read_questions(write(tmp_path, rows))
    back = read_questions(write(tmp_path, rows[::-1]))

    def names(found: Any) -> set[frozenset[str]]:
        return {frozenset(found.questions[row].id for row in pair) for pair in found.complementary_pairs()}

    assert names(there) == names(back)
    assert len(names(there)) == 4
