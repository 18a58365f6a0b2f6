"""Files that are wrong: each is named with its row, and nothing of it is taken."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

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
        (lambda rows: rows[1]["data"].update(task="zoe-00001"), r"task 1: task 'zoe-00001' is unknown to this study"),
        (lambda rows: rows[0]["data"].update(study="feed"), r"task 0: task ann-00001 is of study 'feed', and this is"),
        (lambda rows: rows[0]["data"].pop("study"), r"task ann-00001 is of no study"),
        (lambda rows: rows[0]["data"].pop("task"), r"task 0: has no `task`; export with the task's data"),
        (lambda rows: rows.pop(), r"1 of 4 tasks have no answer: ann-00004; import all files together"),
        (lambda rows: rows[2]["annotations"].clear(), r"1 of 4 tasks have no answer: ann-00003"),
        (
            twice,
            r"task 1: a second answer to task ann-00002 \(ann on item-\d/image \d\), answered in .*task 1; keep one",
        ),
        (lambda rows: rows.append(rows[0]), r"task 4: a second answer to task ann-00001"),
        (
            lambda rows: result(rows)["value"].update(choices=["C"]),
            r"field 'caption': 'C' is none of .*A, B, both, neit",
        ),
        (lambda rows: result(rows)["value"].update(choices=["A", "B"]), r"field 'caption': 2 answers \['A', 'B'\]"),
        (lambda rows: result(rows)["value"].update(choices=[]), r"task ann-00001: field 'caption' has no answer"),
        (lambda rows: rows[0]["annotations"][0].update(result=[]), r"task ann-00001: field 'caption' has no answer"),
        (
            lambda rows: result(rows).update(from_name="mood"),
            r"field 'mood' is not asked; this survey asks for caption",
        ),
        (lambda rows: result(rows)["value"].update(choices=[7]), r"field 'caption': 7 is none of the choices"),
        (lambda rows: result(rows).pop("from_name"), r"expected results with `from_name` and `value`"),
        (lambda rows: result(rows).update(value={"brush": 1}), r"expected a choice, a text or a rectangle"),
        (lambda rows: rows[0].update(annotations={}), r"expected an object `data` and a list `annotations`"),
        (lambda rows: rows[0].update(annotations=["x"]), r"expected annotations with a list `result`, got 'x'"),
        (lambda rows: rows[0].pop("annotations"), r"has neither `annotations` \(JSON\) nor `task` \(JSON_MIN\)"),
        (lambda rows: rows.insert(0, "x"), r"task 0: expected an object, got 'x'"),
        (lambda rows: Instead({"tasks": rows}), r"expected a list of tasks, as Label Studio's"),
        (lambda rows: Instead([]), r"expected a list of tasks"),
    ],
)
def test_a_wrong_export_is_named(asked, change, message) -> None:
    at, path = asked
    with pytest.raises(DataError, match=message):
        at.imported(broken(path, change))


def test_a_minimal_export_of_an_unanswered_task_is_a_missing_answer(desk, knows) -> None:
    at = desk("coco-cf", n=2, annotators=("ann",))

    def unanswered(rows: Rows) -> None:
        del rows[0]["caption"]
        rows[0]["annotation_id"] = None

    path = broken(at.export_minimal(knows(at)), unanswered)
    with pytest.raises(DataError, match="1 of 4 tasks have no answer: ann-00001"):
        at.imported(path)


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ({"caption": "maybe"}, r"filled_ann\.csv:2: task ann-00001: field 'caption': 'maybe' is none of the choices"),
        ({"caption": "A", "skip": "yes"}, r"task ann-00001 is both skipped and answered; clear one"),
        ({"study": "feed", "caption": "A"}, r"filled_ann\.csv:2: task ann-00001 is of study 'feed'"),
        ({"task": "ann-00009", "caption": "A"}, r"task 'ann-00009' is unknown"),
        ({}, r"4 of 4 tasks have no answer"),
    ],
)
def test_a_wrong_sheet_is_named(desk, reply, message) -> None:
    at = desk("coco-cf", n=2, annotators=("ann",))
    with pytest.raises(DataError, match=message):
        at.imported(*at.sheets(lambda *_: reply))


def test_a_sheet_without_its_columns_is_named(desk, tmp_path) -> None:
    at = desk("coco-cf", n=2, annotators=("ann",))
    (tmp_path / "a.csv").write_text("study,task\nx,y\n")
    with pytest.raises(DataError, match=r"a\.csv:2: column 'caption' is missing; keep the columns"):
        at.imported(tmp_path / "a.csv")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda part: part["value"].update(rotation=10), "the box is turned by 10 degrees; draw it upright"),
        (lambda part: part["value"].update(width=0), r"the box \[1\.0, 2\.0, 0\.0, 4\.0\] has no area"),
        (lambda part: part.pop("original_width"), "expected a choice, a text or a rectangle"),
        (lambda part: part["value"].update(x="1"), "expected a choice, a text or a rectangle"),
    ],
)
def test_a_wrong_box_is_named(desk, change, message) -> None:
    at = desk("box", shape=(1, 2), n=1, annotators=("ann",))
    path = at.export(lambda *_: {"several": "Yes", "object": "cup", "box": [1, 2, 3, 4]})
    with pytest.raises(DataError, match=message):
        at.imported(broken(path, lambda rows: change(rows[0]["annotations"][0]["result"][2])))


def test_two_boxes_are_one_too_many(desk) -> None:
    at = desk("box", shape=(1, 2), n=1, annotators=("ann",))
    path = at.export(lambda *_: {"several": "Yes", "object": "cup", "box": [1, 2, 3, 4]})

    def again(rows: Rows) -> None:
        own = rows[0]["annotations"][0]["result"]
        own.append(own[2])

    with pytest.raises(DataError, match=r"field 'box': a box is \[x, y, width, height\]"):
        at.imported(broken(path, again))


def test_a_text_that_is_no_text_is_named(desk) -> None:
    at = desk("caption", shape=(1, 2), n=1, annotators=("ann",))
    path = at.export(lambda *_: {"caption": "x"})
    with pytest.raises(DataError, match="field 'caption': expected a text, got 7"):
        at.imported(broken(path, lambda rows: result(rows)["value"].update(text=[7])))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", "{}", "expected a list of answers"),
        ("a.json", "[1]", "expected a list of answers"),
        ("a.txt", "\n", "expected a list of answers"),
        ("a.txt", "\udcff", "cannot be read"),
    ],
)
def test_a_wrong_list_of_answers_is_named(tmp_path, name, content, message) -> None:
    (tmp_path / name).write_text(content, errors="surrogateescape")
    with pytest.raises(DataError, match=message):
        read_allowed(tmp_path / name)


def test_a_list_of_answers_is_json_or_lines(tmp_path) -> None:
    (tmp_path / "a.json").write_text('["yes", "no"]')
    (tmp_path / "a.txt").write_text("yes\n\nno\n")
    assert read_allowed(tmp_path / "a.json") == read_allowed(tmp_path / "a.txt") == {"yes", "no"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda key: key.update(units=[]), "has no units"),
        (lambda key: key["tasks"][0].update(unit="gone"), "task ann-00001 asks a unit that is not there"),
        (lambda key: key.pop("seed"), "field 'seed': is missing"),
        (lambda key: key.update(mood=1), "field 'mood'"),
    ],
)
def test_a_wrong_key_is_named(desk, change, message) -> None:
    at = desk("coco-cf", n=2, annotators=("ann",))
    path = at.folder / "study.json"
    key = json.loads(path.read_text())
    change(key)
    path.write_text(json.dumps(key))
    with pytest.raises(DataError, match=message):
        read_study(at.folder)


def test_answers_to_another_key_are_refused(asked, desk) -> None:
    at, path = asked
    write_answers(at.folder, [each.model_copy(update={"task": "zoe-1"}) for each in at.imported(path)])
    with pytest.raises(DataError, match=r"task 'zoe-1' is unknown to .*study\.json; import the answers again"):
        read_answers(at.folder, at.study)


def test_records_that_cannot_be_written_are_an_error_that_names_the_file() -> None:
    with pytest.raises(DataError, match=r"no such folder/a\.json cannot be written \(No such file or directory\)"):
        write_rows(Path("no such folder/a.json"), [])
