"""JSON annotation files.

Whatever is wrong is one error that names the file, and the row and field where there are any.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from facts import raises
from tellapart.data.annotations import AnnotationRow, check_row, make_item, read_list, read_mapping, row_of, string
from tellapart.errors import DataError


class Pair(AnnotationRow):
    image: str
    captions: list[str]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{}", ("rows", "empty")),
        (b"[]", ("rows", "empty")),
        (b'{"a": 1}', ("object", "rows")),
        (b'"a"', ("rows", "list")),
        (b"null", ("null", "rows")),
        (b"3", ("3", "rows")),
    ],
)
def test_a_file_that_is_no_list_raises(tmp_path: Path, content: bytes, message: str | tuple[str, ...]) -> None:
    path = tmp_path / "rows.json"
    path.write_bytes(content)
    with raises(DataError, message):
        read_list(path)


def test_a_file_that_is_no_object_raises(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_text("[1]")
    with raises(DataError, "object", "rows", "key"):
        read_mapping(path)
    with raises(DataError, "Is a directory", path=tmp_path):
        read_mapping(tmp_path)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"captions": []}, ("f", "3", "'image'", "missing")),
        ({"image": 7, "captions": []}, ("f", "3", "'image'", "7")),
        ({"image": "a", "captions": ["x", None]}, ("f", "3", "'captions[1]'", "None")),
        ({"image": "a", "captions": "x"}, ("f", "3", "'captions'", "'x'")),
        ({"image": "a", "captions": [], "extra": 1}, ("f", "3", "'extra'", "1")),
        ([], ("f", "3", "object", "empty")),
        ("a", ("f", "3", "object")),
    ],
)
def test_a_row_that_is_not_as_expected_raises(row: Any, message: str | tuple[str, ...]) -> None:
    with raises(DataError, message):
        check_row(Pair, row, "f: row 3")


def test_a_row_that_is_no_object_is_shown() -> None:
    with raises(DataError, "a.json", "3", "object", "{...}", "[1, 2]"):
        row_of([1, 2], "a.json: row 3")


@pytest.mark.parametrize(
    ("row", "message"), [({}, ("'caption'", "missing")), ({"caption": " "}, "text"), ({"caption": 7}, "got 7")]
)
def test_a_field_that_is_no_text_is_named(row: dict[str, Any], message: str | tuple[str, ...]) -> None:
    with raises(DataError, "a.json", "3", message):
        string(row, "caption", "a.json: row 3")


def test_an_item_that_its_row_cannot_make_names_row_and_field() -> None:
    with raises(DataError, "a.json", "3", "row", "texts"):
        make_item("a.json: row 3", id="0", images=("a.png",), texts=())
