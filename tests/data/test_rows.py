"""CSV files as spreadsheets of different countries write them are the same rows; what is no JSON is one line."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts import raises
from tellapart.data.annotations import read_list, read_mapping
from tellapart.data.folder import read_card, read_pair_set
from tellapart.data.rows import read_csv, read_json, read_jsonl, read_object, read_rows
from tellapart.data.strict_json import expect_content, read_whole
from tellapart.errors import DataError, ModelError

ROWS = [["image", "caption"], ["a.png", "a cat, and a dog; both"], ["b.png", 'a "big" tab\t, in\ntwo lines']]


def written(folder: Path, rows: list[list[str]], delimiter: str, **how: object) -> Path:
    stream = io.StringIO(newline="")
    csv.writer(stream, delimiter=delimiter, **how).writerows(rows)  # type: ignore[arg-type]
    path = folder / "a.csv"
    path.write_bytes(stream.getvalue().encode("utf-8-sig"))
    return path


@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_commas_semicolons_and_tabs_part_the_same_fields(tmp_path: Path, delimiter: str, quoting: int) -> None:
    path = written(tmp_path, ROWS, delimiter, quoting=quoting)
    assert list(read_csv(path)) == [
        (number, dict(zip(ROWS[0], row, strict=True))) for number, row in ((2, ROWS[1]), (3, ROWS[2]))
    ]


@given(columns=st.lists(st.text(st.sampled_from('ab;,\t"\n ')), min_size=2, max_size=4, unique=True))
def test_the_header_alone_decides_and_quoted_marks_part_nothing(
    tmp_path_factory: pytest.TempPathFactory, columns: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("csv")
    for delimiter in ",;\t":
        path = written(folder, [columns, ["x"] * len(columns)], delimiter, quoting=csv.QUOTE_ALL)
        assert [row for _, row in read_csv(path)] == [dict.fromkeys(columns, "x")]


def test_one_column_has_no_marks(tmp_path: Path) -> None:
    path = written(tmp_path, [["caption"], ["a cat; a dog"]], "|")
    assert list(read_csv(path)) == [(2, {"caption": "a cat; a dog"})]


def test_a_row_of_other_marks_than_the_header_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("image;caption\na.png,a cat\n")
    with raises(DataError, "a.csv:2", "1", "2"):
        list(read_csv(tmp_path / "a.csv"))


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_rows_of_marks_alone_are_no_rows_and_keep_the_numbers_of_lines(tmp_path: Path, mark: str) -> None:
    (tmp_path / "a.csv").write_text(f"image{mark}caption\n{mark}\na.png{mark}a cat\n{mark}\n\n{mark}\n")
    assert list(read_csv(tmp_path / "a.csv")) == [(3, {"image": "a.png", "caption": "a cat"})]


def test_a_mark_in_a_field_without_quotes_is_answered_with_the_quotes(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("image,caption\na.png,a cat, asleep\n")
    with raises(DataError, "a.csv:2", "3 fields", "2", "','", "double quotes"):
        list(read_csv(tmp_path / "a.csv"))


def test_a_file_that_is_not_there_is_answered_with_the_nearest_beside_it(tmp_path: Path) -> None:
    (tmp_path / "my pairs.csv").touch()
    with raises(DataError, "mypairs.csv", "did you mean 'my pairs.csv'"):
        read_whole(tmp_path / "mypairs.csv")
    with raises(DataError, "zebra.csv") as error:
        read_whole(tmp_path / "gone" / "zebra.csv")
    assert "did you mean" not in str(error.value)


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_a_first_line_names_the_mark_and_lines_keep_their_numbers(tmp_path: Path, mark: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"sep={mark}\nimage{mark}caption\na.png{mark}a cat\n", encoding="utf-8")
    assert list(read_csv(path)) == [(3, {"image": "a.png", "caption": "a cat"})]


def test_a_quote_that_is_not_closed_is_answered_with_the_way_to_write_it(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text('image\tcaption\na.png\t"a cat\n', encoding="utf-8")
    with raises(DataError, "a.tsv:2", "quote", "twice"):
        list(read_csv(path))


def test_a_pointer_of_git_lfs_is_named_with_the_command(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", encoding="utf-8")
    with raises(DataError, "rows.jsonl", "git lfs pull"):
        read_whole(path)
    with raises(ModelError, "rows.jsonl", "git lfs pull"):
        expect_content(None, path, ModelError)


#: What is no JSON, or can be read in two ways -> the facts of its refusal.
BAD_JSON: dict[str, tuple[bytes, tuple[str, ...]]] = {
    "blank": (b" ", ("Expecting value", "column 2")),
    "not json": (b"{'id': 'a'}", ("Expecting property name", "column 2")),
    "cut off": (b'{"id": "a", "images": [', ("Expecting value", "column 24")),
    "two objects": (b'{"id": "a"} {"id": "b"}', ("Extra", "column 13")),
    "nan": (b'{"id": NaN}', ("NaN",)),
    "minus infinity": (b'{"a": {"score": -Infinity}}', ("-Infinity",)),
    "beyond a double": (b'{"a": {"score": 1e999}}', ("1e999", "large")),
    "more digits than python reads": (b'{"id": ' + b"9" * 5000 + b"}", ("large",)),
    "deeper than python reads": (b'{"id": ' + b"[" * 200_000, ("100",)),
    "101 levels": (b'{"id": ' + b"[" * 100 + b"]" * 100 + b"}", ("100",)),
    "key twice": (b'{"id": "a", "id": "b"}', ("'id'", "object")),
    "key twice inside": (b'{"tags": {"x": "1", "x": "2"}}', ("'x'", "object")),
    "half a character": (rb'{"id": "\ud800"}', ("half of a character",)),
    "latin-1": ('{"id": "caf\u00e9"}'.encode("latin-1"), ("UTF-8", "0xe9")),
    "utf-16": ('{"id": "a"}'.encode("utf-16"), ("UTF-8", "0xff")),
    "raw control character": (b'{"id": "a\tb"}', ("Invalid control",)),
}
#: The file that each reader of JSON is given.
READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "json": ("a.json", read_json),
    "object": ("a.json", read_object),
    "list": ("a.json", read_list),
    "mapping": ("a.json", read_mapping),
    "lines": ("a.jsonl", lambda path: list(read_jsonl(path))),
    "rows": ("a.jsonl.gz", lambda path: list(read_rows(path, (".jsonl",), "rows"))),
    "pairs": ("pairs.jsonl", lambda path: read_pair_set(path.parent)),
    "card": ("card.json", lambda path: read_card(path.parent)),
}


@pytest.mark.parametrize("reader", READERS)
def test_what_is_no_json_is_one_line_that_names_the_file_of_every_reader(tmp_path: Path, reader: str) -> None:
    name, read = READERS[reader]
    path = tmp_path / name
    for content, facts in BAD_JSON.values():
        if not content.strip() and "jsonl" in name:
            continue  # no line, and so no row
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
        with raises(DataError, *facts) as caught:
            read(path)
        assert str(path) in str(caught.value) and len(str(caught.value)) < 400


def test_a_hundred_levels_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("[" * 100 + "]" * 100)
    assert json.dumps(read_json(tmp_path / "a.json")) == "[" * 100 + "]" * 100
