"""Files that are wrong: each is named with its row, and nothing of it is taken."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from facts import raises
from tellapart.annotate.study import read_allowed, read_answers, read_study, write_answers, write_rows
from tellapart.annotate.surveys import Earlier, Study, find_survey
from tellapart.errors import DataError

Rows = list[dict[str, Any]]


@pytest.fixture
def asked(desk, knows):
    at = desk("coco-cf", n=2, annotators=("ann",))
    return at, at.export(knows(at))


@dataclass(frozen=True)
class Instead:
    """What the file then holds, where a change is no change of its rows."""

    rows: Any


def broken(path: Path, change: Callable[[Rows], object]) -> Path:
    rows = json.loads(path.read_text())
    changed = change(rows)
    path.write_text(json.dumps(changed.rows if isinstance(changed, Instead) else rows))
    return path


def result(rows: Rows, task: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = rows[task]["annotations"][0]["result"][0]
    return found


def other_answer(row: dict[str, Any]) -> dict[str, Any]:
    """A copy of a task whose annotation has the other choice, as a second annotator may give."""
    other: dict[str, Any] = json.loads(json.dumps(row))
    value = other["annotations"][0]["result"][0]["value"]
    value["choices"] = ["B" if value["choices"] == ["A"] else "A"]
    return other


def twice(rows: Rows) -> None:
    rows[1]["annotations"] += other_answer(rows[1])["annotations"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows[1]["data"].update(task="zoe-00001"), ("task", "1", "task", "'zoe-00001'")),
        (lambda rows: rows[0]["data"].update(study="feed"), ("task", "0", "task", "ann-00001", "'feed'")),
        (lambda rows: rows[0]["data"].pop("task"), ("task", "0", "task", "export")),
        (lambda rows: rows.pop(), ("1", "4", "ann-00004", "all")),
        (lambda rows: rows[2]["annotations"].clear(), ("1", "4", "ann-00003")),
        (twice, ("task", "1", "task", "ann-00002", "/image", "task", "1")),
        (lambda rows: rows.append(other_answer(rows[0])), ("task", "4", "task", "ann-00001")),
        (lambda rows: result(rows)["value"].update(choices=["C"]), ("'caption'", "'C'", "A", "B")),
        (lambda rows: result(rows)["value"].update(choices=["A", "B"]), ("'caption'", "2", "['A', 'B']")),
        (lambda rows: result(rows)["value"].update(choices=[]), ("task", "ann-00001", "'caption'", "answer")),
        (lambda rows: result(rows).update(from_name="mood"), ("'mood'", "caption")),
        (lambda rows: result(rows).pop("from_name"), "`from_name`"),
        (lambda rows: result(rows).update(value={"brush": 1}), ("choice", "text")),
        (lambda rows: rows[0].update(annotations={}), ("object", "data")),
        (lambda rows: rows[0].update(annotations=["x"]), ("'x'", "annotations")),
        (lambda rows: rows[0].pop("annotations"), ("JSON", "JSON_MIN")),
        (lambda rows: rows.insert(0, "x"), ("task", "0", "object", "'x'")),
        (lambda rows: Instead({"tasks": rows}), ("Label", "Studio")),
        (lambda rows: Instead([]), ("list", "tasks")),
    ],
)
def test_a_wrong_export_is_named(asked, change, message):
    at, path = asked
    with raises(DataError, message):
        at.imported(broken(path, change))


def test_a_minimal_export_of_an_unanswered_task_is_a_missing_answer(desk, knows):
    at = desk("coco-cf", n=2, annotators=("ann",))

    def unanswered(rows: Rows) -> None:
        del rows[0]["caption"]
        rows[0]["annotation_id"] = None

    path = broken(at.export_minimal(knows(at)), unanswered)
    with raises(DataError, "1", "4", "ann-00001"):
        at.imported(path)


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ({"caption": "maybe"}, ("filled_ann.csv:2", "task", "ann-00001", "'caption'", "'maybe'")),
        ({"caption": "A", "skip": "yes"}, ("task", "ann-00001", "skipped")),
        ({"study": "feed", "caption": "A"}, ("filled_ann.csv:2", "task", "ann-00001", "'feed'")),
        ({"task": "ann-00009", "caption": "A"}, ("task", "'ann-00009'")),
        ({}, ("4", "4", "answer")),
    ],
)
def test_a_wrong_sheet_is_named(desk, reply, message):
    at = desk("coco-cf", n=2, annotators=("ann",))
    with raises(DataError, message):
        at.imported(*at.sheets(lambda *_: reply))


def test_a_sheet_without_its_columns_is_named(desk, tmp_path):
    at = desk("coco-cf", n=2, annotators=("ann",))
    (tmp_path / "a.csv").write_text("study,task\nx,y\n")
    with raises(DataError, "a.csv:2", "'caption'"):
        at.imported(tmp_path / "a.csv")


BOX = {"several": "Yes", "object": "cup", "box": [1, 2, 3, 4]}


@pytest.mark.parametrize(
    ("survey", "reply", "change", "message"),
    [
        ("box", BOX, lambda parts: parts[2]["value"].update(rotation=10), ("10", "box")),
        ("box", BOX, lambda parts: parts[2]["value"].update(width=0), ("[1.0, 2.0, 0.0, 4.0]", "box")),
        ("box", BOX, lambda parts: parts[2].pop("original_width"), ("choice", "text")),
        ("box", BOX, lambda parts: parts[2]["value"].update(x="1"), ("choice", "text")),
        ("box", BOX, lambda parts: parts.append(parts[2]), ("'box'", "[x, y, width, height]")),
        ("caption", {"caption": "x"}, lambda parts: parts[0]["value"].update(text=[7]), ("'caption'", "7", "text")),
    ],
)
def test_a_wrong_box_or_text_is_named(desk, survey, reply, change, message):
    at = desk(survey, shape=(1, 2), n=1, annotators=("ann",))
    path = at.export(lambda *_: reply)
    with raises(DataError, message):
        at.imported(broken(path, lambda rows: change(rows[0]["annotations"][0]["result"])))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", "{}", ("answers", "list")),
        ("a.json", "[1]", ("answers", "list")),
        ("a.txt", "\n", ("answers", "list")),
        ("a.txt", "\udcff", "a.txt"),
    ],
)
def test_a_wrong_list_of_answers_is_named(tmp_path, name, content, message):
    (tmp_path / name).write_text(content, errors="surrogateescape")
    with raises(DataError, message):
        read_allowed(tmp_path / name)


def test_a_list_of_answers_is_json_or_lines(tmp_path):
    (tmp_path / "a.json").write_text('["yes", "no"]')
    (tmp_path / "a.txt").write_text("yes\n\nno\n")
    assert read_allowed(tmp_path / "a.json") == read_allowed(tmp_path / "a.txt") == {"yes", "no"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda key: key.update(units=[]), "units"),
        (lambda key: key["tasks"][0].update(unit="gone"), ("task", "ann-00001", "asks")),
        (lambda key: key.pop("seed"), ("'seed'", "missing")),
        (lambda key: key.update(mood=1), "'mood'"),
        (lambda key: key.update(survey="i3t"), ("'i3t'", "'i2t'")),
        (lambda key: key.update(shape=[2]), ("'shape'", "[2]")),
        (lambda key: key.update(shape=[2, 3]), ("2x3", "2")),
        (lambda key: key["units"][1].update(truth="-1"), ("'truth'", "'-1'", "0", "1")),
        (lambda key: key["units"][1].update(altered=["cup"]), ("'altered'", "['cup']")),
        (lambda key: key["units"][1].update(options=["one"]), ("unit", "options")),
        (lambda key: [unit.update(images=[]) for unit in key["units"]], ("unit", "nothing")),
        (lambda key: key["units"].append(key["units"][0]), ("unit", "twice")),
        (lambda key: key["tasks"].append(key["tasks"][0]), ("'ann-00001'", "twice")),
        (lambda key: key["tasks"].append({**key["tasks"][0], "id": "ann-00009"}), ("annotator", "unit", "twice")),
        (lambda key: key["tasks"][0].update(annotator="zoe"), ("ann-00001", "'annotator'", "'zoe'")),
        (lambda key: key["tasks"][0].update(order=[0, 0]), ("ann-00001", "'order'", "[0, 1]", "[0, 0]")),
        (lambda key: key["annotators"].append("ann"), "ann"),
    ],
)
def test_a_wrong_key_is_named(desk, change, message):
    at = desk("coco-cf", n=2, annotators=("ann",))
    path = at.folder / "study.json"
    key = json.loads(path.read_text())
    change(key)
    path.write_text(json.dumps(key))
    with raises(DataError, "study.json", message):
        read_study(at.folder)


@pytest.mark.parametrize(
    ("change", "line", "message"),
    [
        (lambda rows: rows.append(rows[1]), 5, ("ann-00002", "second", "2")),
        (lambda rows: rows[0].update(task="zoe-1"), 1, ("'zoe-1'", "study.json")),
        (lambda rows: rows[0].update(annotator="zoe"), 1, ("ann-00001", "ann", "zoe")),
        (lambda rows: rows[0].update(unit=rows[1]["unit"]), 1, ("ann-00001", "import")),
        (lambda rows: rows[2]["values"].update(caption="7"), 3, ("ann-00003", "'caption'", "'7'", "0", "1", "both")),
        (lambda rows: rows[2]["values"].update(caption="Both"), 3, ("'values'", "{'caption': 'Both'}")),
        (lambda rows: rows[2]["values"].update(caption=1), 3, ("'caption'", "1")),
        (lambda rows: rows[2].update(values={}), 3, ("'caption'", "answer")),
        (lambda rows: rows[2].update(skipped=True), 3, ("ann-00003", "'values'")),
        (lambda rows: rows[2]["values"].update(mood="0"), 3, ("'mood'", "caption")),
        (lambda rows: rows[2].update(problems=["is odd"]), 3, ("'problems'", "['is odd']")),
    ],
)
def test_a_wrong_row_of_answers_is_named(asked, change, line, message):
    at, path = asked
    file = write_answers(at.folder, at.imported(path))
    rows = [json.loads(row) for row in file.read_text().splitlines()]
    change(rows)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with raises(DataError, f"answers.jsonl:{line}", message):
        read_answers(at.folder, at.study)


def test_an_answer_cannot_lose_the_rule_that_it_breaks(desk):
    at = desk("caption", shape=(1, 2), n=1, annotators=("ann",))
    (answer,) = at.imported(at.export(lambda *_: {"caption": "a cup"}))
    write_answers(at.folder, [answer])
    assert read_answers(at.folder, at.study) == [answer]
    write_answers(at.folder, [answer.model_copy(update={"problems": []})])
    with raises(DataError, "answers.jsonl:1", "'problems'"):
        read_answers(at.folder, at.study)


def test_a_phrase_for_a_box_needs_the_size_of_its_image(desk):
    boxes = desk("box", shape=(1, 2), n=1, annotators=("ann",))
    drawn = boxes.imported(boxes.export(lambda *_: {"several": "Yes", "object": "cup", "box": [1, 2, 3, 4]}))
    at = desk("expression", shape=(1, 2), n=1, annotators=("bob",), earlier=Earlier(boxes.study, tuple(drawn)))
    answers = at.imported(at.export(lambda *_: {"expression": "the red cup"}))
    survey = find_survey("expression")
    assert survey.records(at.study, answers)[0]["width"] == 8
    (unit,) = at.study.units
    wrong = Study(**at.study.model_dump() | {"units": [unit.model_copy(update={"earlier": {"size": [8]}})]})
    with raises(DataError, repr(unit.id), "'size'", "[8]"):
        survey.records(wrong, answers)


def test_records_that_cannot_be_written_are_an_error_that_names_the_file():
    with raises(DataError, "folder/a.json", "No such file or directory"):
        write_rows(Path("no such folder/a.json"), [])
