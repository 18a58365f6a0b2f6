"""Files that are wrong: each is named with its row, and nothing of it is taken."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from facts import raises
from tellapart.annotate.folder import read_answers, read_study, write_answers, write_rows
from tellapart.annotate.replies import read_allowed
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


def twice(rows: Rows) -> None:
    rows[1]["annotations"].append({**rows[1]["annotations"][0], "completed_by": 2})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows[1]["data"].update(task="zoe-00001"), ("task", "1", "task", "'zoe-00001'")),
        (lambda rows: rows[0]["data"].update(study="feed"), ("task", "0", "task", "ann-00001", "'feed'")),
        (lambda rows: rows[0]["data"].pop("study"), ("task", "ann-00001", "study")),
        (lambda rows: rows[0]["data"].pop("task"), ("task", "0", "task", "export")),
        (lambda rows: rows.pop(), ("1", "4", "ann-00004", "all")),
        (lambda rows: rows[2]["annotations"].clear(), ("1", "4", "ann-00003")),
        (
            twice,
            ("task", "1", "task", "ann-00002", "/image", "task", "1"),
        ),
        (lambda rows: rows.append(rows[0]), ("task", "4", "task", "ann-00001")),
        (
            lambda rows: result(rows)["value"].update(choices=["C"]),
            ("'caption'", "'C'", "A", "B"),
        ),
        (lambda rows: result(rows)["value"].update(choices=["A", "B"]), ("'caption'", "2", "['A', 'B']")),
        (lambda rows: result(rows)["value"].update(choices=[]), ("task", "ann-00001", "'caption'", "answer")),
        (lambda rows: rows[0]["annotations"][0].update(result=[]), ("task", "ann-00001", "'caption'", "answer")),
        (
            lambda rows: result(rows).update(from_name="mood"),
            ("'mood'", "caption"),
        ),
        (lambda rows: result(rows)["value"].update(choices=[7]), ("'caption'", "7")),
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
def test_a_wrong_export_is_named(asked, change, message) -> None:
    at, path = asked
    with raises(DataError, message):
        at.imported(broken(path, change))


def test_a_minimal_export_of_an_unanswered_task_is_a_missing_answer(desk, knows) -> None:
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
def test_a_wrong_sheet_is_named(desk, reply, message) -> None:
    at = desk("coco-cf", n=2, annotators=("ann",))
    with raises(DataError, message):
        at.imported(*at.sheets(lambda *_: reply))


def test_a_sheet_without_its_columns_is_named(desk, tmp_path) -> None:
    at = desk("coco-cf", n=2, annotators=("ann",))
    (tmp_path / "a.csv").write_text("study,task\nx,y\n")
    with raises(DataError, "a.csv:2", "'caption'"):
        at.imported(tmp_path / "a.csv")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda part: part["value"].update(rotation=10), ("10", "box")),
        (lambda part: part["value"].update(width=0), ("[1.0, 2.0, 0.0, 4.0]", "box")),
        (lambda part: part.pop("original_width"), ("choice", "text")),
        (lambda part: part["value"].update(x="1"), ("choice", "text")),
    ],
)
def test_a_wrong_box_is_named(desk, change, message) -> None:
    at = desk("box", shape=(1, 2), n=1, annotators=("ann",))
    path = at.export(lambda *_: {"several": "Yes", "object": "cup", "box": [1, 2, 3, 4]})
    with raises(DataError, message):
        at.imported(broken(path, lambda rows: change(rows[0]["annotations"][0]["result"][2])))


def test_two_boxes_are_one_too_many(desk) -> None:
    at = desk("box", shape=(1, 2), n=1, annotators=("ann",))
    path = at.export(lambda *_: {"several": "Yes", "object": "cup", "box": [1, 2, 3, 4]})

    def again(rows: Rows) -> None:
        own = rows[0]["annotations"][0]["result"]
        own.append(own[2])

    with raises(DataError, "'box'", "[x, y, width, height]"):
        at.imported(broken(path, again))


def test_a_text_that_is_no_text_is_named(desk) -> None:
    at = desk("caption", shape=(1, 2), n=1, annotators=("ann",))
    path = at.export(lambda *_: {"caption": "x"})
    with raises(DataError, "'caption'", "7", "text"):
        at.imported(broken(path, lambda rows: result(rows)["value"].update(text=[7])))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", "{}", ("answers", "list")),
        ("a.json", "[1]", ("answers", "list")),
        ("a.txt", "\n", ("answers", "list")),
        ("a.txt", "\udcff", "a.txt"),
    ],
)
def test_a_wrong_list_of_answers_is_named(tmp_path, name, content, message) -> None:
    (tmp_path / name).write_text(content, errors="surrogateescape")
    with raises(DataError, message):
        read_allowed(tmp_path / name)


def test_a_list_of_answers_is_json_or_lines(tmp_path) -> None:
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
    ],
)
def test_a_wrong_key_is_named(desk, change, message) -> None:
    at = desk("coco-cf", n=2, annotators=("ann",))
    path = at.folder / "study.json"
    key = json.loads(path.read_text())
    change(key)
    path.write_text(json.dumps(key))
    with raises(DataError, message):
        read_study(at.folder)


def test_answers_to_another_key_are_refused(asked, desk) -> None:
    at, path = asked
    write_answers(at.folder, [each.model_copy(update={"task": "zoe-1"}) for each in at.imported(path)])
    with raises(DataError, "task", "'zoe-1'", "study.json"):
        read_answers(at.folder, at.study)


def test_records_that_cannot_be_written_are_an_error_that_names_the_file() -> None:
    with raises(DataError, "folder/a.json", "No such file or directory"):
        write_rows(Path("no such folder/a.json"), [])
