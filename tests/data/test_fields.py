"""A list of texts that was saved as one text is read as the list, or refused: it is never one caption."""

import pytest

from facts import raises
from pictures import plain
from sets import write_file
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
    path, mug = tmp_path / "rows.json", {"image": "b.png", "caption": "a mug"}
    write_file(path, [{"image": "a.png", "caption": LISTED}, mug])
    assert read_captions(path).gold == [TEXTS, ("a mug",)]
    assert [*read_retrieval(path).captions] == [*TEXTS, "a mug"]
    write_file(path, [{"question_id": 1, "question": "What?", "image": "a.png", "answer": LISTED, "dataset": "vqa"}])
    assert read_questions(path).rows[0].gold == TEXTS
    write_file(path, [mug, {"image": "a.png", "caption": WITHOUT_COMMAS}])
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
    (tmp_path / "a.png").write_bytes(plain())
    pair = {"image": "a.png", "caption": "a mug", "foil": text}
    table = write_file(tmp_path / "table.jsonl", [pair])
    write_file(tmp_path / "metadata.jsonl", [pair | {"file_name": "a.png"}])
    rows = write_file(tmp_path / "rows.jsonl", [{"image": "a.png", "caption": text}])
    coco = write_file(tmp_path / "coco.json", {"annotations": [{"image_id": 1, "caption": text}]})
    for read, facts in (
        (lambda: read_pair_table(table, Locations()), ("'foil'", "table.jsonl:1")),
        (lambda: read_pair_set(tmp_path), ("'foil'", "metadata.jsonl:1")),
        (lambda: read_rows([str(rows)], tmp_path), ("'caption'", "rows.jsonl:1")),
        (lambda: read_source_captions(rows), ("'caption'", "rows.jsonl:1")),
        (lambda: read_coco_captions(coco), ("'caption'", "coco.json")),
    ):
        with raises(DataError, "list", facts):
            read()
