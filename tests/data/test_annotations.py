"""JSON annotation files.

Whatever is wrong is one error that names the file, and the row and field where there are any.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tellapart.data.annotations import AnnotationRow, check_row, make_item, read_list, read_mapping, row_of, string
from tellapart.errors import DataError


class Pair(AnnotationRow):
    image: str
    captions: list[str]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"rows\.json: is not valid JSON \(.*column 1\)"),
        (b'[{"image": "a"', r"rows\.json: is not valid JSON"),
        (b"[NaN]", "NaN is not a JSON number"),
        (b"[-Infinity]", "-Infinity is not a JSON number"),
        (b"[1e999]", "1e999 is too large a number"),
        (b"[" * 100_000, "is not valid JSON"),
        (b"[" + b"9" * 5000 + b"]", "is not valid JSON"),
        (b'[{"a": 1, "b": 2, "a": 3}]', "key 'a' is repeated in one object"),
        (b'["\xff"]', r"rows\.json:1: is not UTF-8 \(byte 0xff\)"),
        (b"{}", "expected a list of rows, got an empty one"),
        (b"[]", "expected a list of rows, got an empty one"),
        (b'{"a": 1}', "expected a list of rows, got an object"),
        (b'"a"', "expected a list of rows, got a string"),
        (b"null", "expected a list of rows, got null"),
        (b"3", "expected a list of rows, got 3"),
    ],
)
def test_a_file_that_is_no_list_raises(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "rows.json"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_list(path)


def test_a_file_that_is_no_object_raises(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_text("[1]")
    with pytest.raises(DataError, match="expected an object of rows by key, got a list"):
        read_mapping(path)
    with pytest.raises(DataError, match="cannot be read"):
        read_mapping(tmp_path)


def test_a_mark_at_the_start_is_no_matter(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_bytes(b"\xef\xbb\xbf[1]")
    assert read_list(path) == [1]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"captions": []}, "f: row 3: field 'image': is missing"),
        ({"image": 7, "captions": []}, "f: row 3: field 'image': expected a string, got 7"),
        ({"image": "a", "captions": ["x", None]}, r"f: row 3: field 'captions\[1\]': .*got None"),
        ({"image": "a", "captions": "x"}, "f: row 3: field 'captions': .*got 'x'"),
        ({"image": "a", "captions": [], "extra": 1}, "f: row 3: field 'extra': is unknown, got 1"),
        ([], "f: row 3: expected an object with image, captions; got an empty one"),
        ("a", "f: row 3: expected an object with image, captions; got a string"),
    ],
)
def test_a_row_that_is_not_as_expected_raises(row: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        check_row(Pair, row, "f: row 3")


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "rows.json"
    path.write_bytes(content)
    for read in (read_list, read_mapping):
        try:
            assert read(path)
        except DataError as error:
            assert re.search(r"rows\.json(:\d+)?: ", str(error))


def test_a_row_that_is_no_object_is_shown() -> None:
    with pytest.raises(DataError, match=re.escape("a.json: row 3: expected an object {...}, got [1, 2]")):
        row_of([1, 2], "a.json: row 3")


@pytest.mark.parametrize(
    ("row", "message"),
    [({}, "field 'caption': is missing"), ({"caption": " "}, "expected text, got"), ({"caption": 7}, "got 7")],
)
def test_a_field_that_is_no_text_is_named(row: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=rf"a\.json: row 3: .*{message}"):
        string(row, "caption", "a.json: row 3")


def test_an_item_that_its_row_cannot_make_names_row_and_field() -> None:
    with pytest.raises(DataError, match=r"a\.json: row 3: .*texts"):
        make_item("a.json: row 3", id="0", images=("a.png",), texts=())
