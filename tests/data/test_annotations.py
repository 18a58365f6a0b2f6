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
    ("read", "content", "facts"),
    [
        (read_list, b"{}", ("rows", "empty")),
        (read_list, b"[]", ("rows", "empty")),
        (read_list, b'{"a": 1}', ("object", "rows")),
        (read_list, b"null", ("null", "rows")),
        (read_list, b"3", ("3", "rows")),
        (read_mapping, b"[1]", ("object", "rows", "key")),
    ],
)
def test_a_file_of_another_kind_is_refused(tmp_path: Path, read: Any, content: bytes, facts: tuple[str, ...]) -> None:
    path = tmp_path / "rows.json"
    path.write_bytes(content)
    with raises(DataError, facts):
        read(path)
    with raises(DataError, "Is a directory", path=tmp_path):
        read(tmp_path)


@pytest.mark.parametrize(
    ("read", "facts"),
    [
        (lambda place: check_row(Pair, {"captions": []}, place), ("'image'", "missing")),
        (lambda place: check_row(Pair, {"image": 7, "captions": []}, place), ("'image'", "7")),
        (lambda place: check_row(Pair, {"image": "a", "captions": ["x", None]}, place), ("'captions[1]'", "None")),
        (lambda place: check_row(Pair, {"image": "a", "captions": "x"}, place), ("'captions'", "'x'")),
        (lambda place: check_row(Pair, {"image": "a", "captions": [], "extra": 1}, place), ("'extra'", "1")),
        (lambda place: check_row(Pair, [], place), ("object", "empty")),
        (lambda place: check_row(Pair, "a", place), "object"),
        (lambda place: row_of([1, 2], place), ("object", "{...}", "[1, 2]")),
        (lambda place: string({}, "caption", place), ("'caption'", "missing")),
        (lambda place: string({"caption": " "}, "caption", place), "text"),
        (lambda place: string({"caption": 7}, "caption", place), "got 7"),
        (lambda place: make_item(place, id="0", images=("a.png",), texts=()), "texts"),
    ],
)
def test_a_row_that_is_not_as_expected_is_named_with_its_field(read: Any, facts: str | tuple[str, ...]) -> None:
    with raises(DataError, "a.json", "3", facts):
        read("a.json: row 3")
