"""A list of texts that was saved as one text is read as the list, or refused: it is never one caption."""

import json

import pytest
from PIL import Image

from facts import raises
from tellapart.benchmarks.locations import Locations
from tellapart.benchmarks.pair_table import read_pair_table
from tellapart.benchmarks.published_tasks import read_captions, read_coco_captions, read_questions, read_retrieval
from tellapart.builders.caption_files import read_captions as read_source_captions
from tellapart.data.fields import fill_all, one_text, split_list
from tellapart.data.folder import read_pair_set
from tellapart.errors import DataError
from tellapart.training.data.rows import read_rows

LISTED = "['a cup', \"one man's cup\"]"
TEXTS = ("a cup", "one man's cup")
#: As numpy prints an array: no list that can be read.
WITHOUT_COMMAS = "['a cup' 'one cup']"


def test_a_text_in_brackets_is_a_text():
    for text in ("[a cup]", "a cup ['red']", "['a cup'] and a mug", "[MASK] cup", "[1, 2]", ""):
        assert split_list(text) == text
        assert one_text(text) == text
    assert split_list(LISTED) == [*TEXTS] and split_list('["a cup"]') == ["a cup"] and split_list(3) == 3
    for text in (LISTED, WITHOUT_COMMAS, "['a cup']", ' ["a"] '):
        with raises(ValueError, "list", repr(text)):
            one_text(text)


def test_a_list_written_as_text_is_several_captions_and_answers_of_a_file(tmp_path):
    path = tmp_path / "rows.json"
    path.write_text(json.dumps([{"image": "a.png", "caption": LISTED}, {"image": "b.png", "caption": "a mug"}]))
    assert read_captions(path).gold == [TEXTS, ("a mug",)]
    assert [*read_retrieval(path).captions] == [*TEXTS, "a mug"]
    asked = {"question_id": 1, "question": "What?", "image": "a.png", "answer": LISTED, "dataset": "vqa"}
    path.write_text(json.dumps([asked]))
    assert read_questions(path).rows[0].gold == TEXTS
    path.write_text(json.dumps([{"image": "a.png", "caption": "a mug"}, {"image": "b.png", "caption": WITHOUT_COMMAS}]))
    with raises(DataError, WITHOUT_COMMAS, "list", "rows.json: row 1", field="caption"):
        read_captions(path)


def test_a_list_written_as_text_fills_a_template_that_stands_for_several():
    assert fill_all("{captions}", {"captions": LISTED}, "a.csv:2") == TEXTS
    with raises(DataError, "a.csv:2", "'captions'", "list"):
        fill_all("{captions}", {"captions": WITHOUT_COMMAS}, "a.csv:2")
    kinds: dict[str, type] = {}
    fill_all("{captions}", {"captions": "a cup"}, "a.csv:2", kinds)
    with raises(DataError, "a.csv:3", "'captions'", "lists", "single"):
        fill_all("{captions}", {"captions": LISTED}, "a.csv:3", kinds)


@pytest.mark.parametrize("text", [LISTED, WITHOUT_COMMAS])
def test_a_list_written_as_text_is_no_caption_of_a_pair_a_source_or_a_training_row(text, tmp_path):
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    row = {"image": "a.png", "caption": "a mug", "foil": text}
    (tmp_path / "metadata.jsonl").write_text(json.dumps(row))
    with raises(DataError, "list", "'foil'", "metadata.jsonl:1"):
        read_pair_table(tmp_path / "metadata.jsonl", Locations())
    (tmp_path / "metadata.jsonl").write_text(json.dumps(row | {"file_name": "a.png"}))
    with raises(DataError, "list", "'foil'", "metadata.jsonl:1"):
        read_pair_set(tmp_path)
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps({"image": "a.png", "caption": text}))
    with raises(DataError, "list", "'caption'", "rows.jsonl:1"):
        read_rows([str(rows)], tmp_path)
    with raises(DataError, "list", "'caption'", "rows.jsonl:1"):
        read_source_captions(rows)
    coco = tmp_path / "coco.json"
    coco.write_text(json.dumps({"annotations": [{"image_id": 1, "caption": text}]}))
    with raises(DataError, "list", "coco.json", "'caption'"):
        read_coco_captions(coco)
