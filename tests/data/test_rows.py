"""Files of rows are read alike, packed or not, and refused in one line; and no spreadsheet runs a cell."""

import csv
import gzip
import io
import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts import raises
from sets import write_file
from tellapart.builders.caption_files import read_caption_pairs, read_captions
from tellapart.data.folder import read_card, read_pair_set
from tellapart.data.rows import (
    make_item,
    read_csv,
    read_jsonl,
    read_object,
    read_rows,
    row_of,
    spreadsheet_cell,
    string,
)
from tellapart.data.strict_json import expect_content, read_json, read_whole, unpack_gzip
from tellapart.errors import DataError, ModelError, RunError, TellapartError
from tellapart.evaluation.verified import read_result
from tellapart.models.memory.external import read_scores
from tellapart.tasks.predictions import parse_label, read_predictions

ROWS = [["image", "caption"], ["a.png", "a cat, and a dog; both"], ["b.png", 'a "big" tab\t, in\ntwo lines']]


def written(folder: Path, rows: list[list[str]], delimiter: str, **how: object) -> Path:
    stream = io.StringIO(newline="")
    csv.writer(stream, delimiter=delimiter, **how).writerows(rows)
    path = folder / "a.csv"
    path.write_bytes(stream.getvalue().encode("utf-8-sig"))
    return path


@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_commas_semicolons_and_tabs_part_the_same_fields(tmp_path, delimiter, quoting):
    path = written(tmp_path, ROWS, delimiter, quoting=quoting)
    assert list(read_csv(path)) == [(k, dict(zip(ROWS[0], ROWS[k - 1], strict=True))) for k in (2, 3)]


@given(columns=st.lists(st.text(st.sampled_from('ab;,\t"\n ')), min_size=2, max_size=4, unique=True))
def test_the_header_alone_decides_and_quoted_marks_part_nothing(tmp_path_factory, columns):
    folder = tmp_path_factory.mktemp("csv")
    for delimiter in ",;\t":
        path = written(folder, [columns, ["x"] * len(columns)], delimiter, quoting=csv.QUOTE_ALL)
        assert [row for _, row in read_csv(path)] == [dict.fromkeys(columns, "x")]


@pytest.mark.parametrize(
    ("name", "text", "rows"),
    [
        ("a.tsv", "id\tcaption, true\n7\ta cat, a dog\n", [(2, {"id": "7", "caption, true": "a cat, a dog"})]),
        ("a.csv", "caption\na cat; a dog\n", [(2, {"caption": "a cat; a dog"})]),  # no marks, of a single column
        *(
            ("a.csv", text.replace("|", mark), [(3, {"image": "a.png", "caption": "a cat"})])
            for text in ("image|caption\n|\na.png|a cat\n|\n\n|\n", "sep=|\nimage|caption\na.png|a cat\n")
            for mark in ",;\t|"
            if mark != "|" or "sep" in text
        ),
    ],
)
def test_the_header_the_name_or_a_first_line_says_what_parts_a_file_and_lines_keep_their_numbers(
    name, text, rows, tmp_path
):
    assert list(read_csv(write_file(tmp_path / name, text))) == rows


def test_a_file_that_is_not_there_is_answered_with_the_nearest_beside_it_and_a_pointer_with_the_command(tmp_path):
    (tmp_path / "my pairs.csv").touch()
    with raises(DataError, "mypairs.csv", "did you mean 'my pairs.csv'"):
        read_whole(tmp_path / "mypairs.csv")
    with raises(DataError, "zebra.csv") as error:
        read_whole(tmp_path / "gone" / "zebra.csv")
    assert "did you mean" not in str(error.value)
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
    path = write_file(tmp_path / "rows.jsonl", pointer)
    for kind, read in ((DataError, read_whole), (ModelError, lambda path: expect_content(None, path, ModelError))):
        with raises(kind, "rows.jsonl", "git lfs pull"):
            read(path)


#: What is no JSON, or can be read in two ways -> the facts of its refusal.
#: What is no JSON, or can be read in two ways -> the facts of its refusal.
BAD_JSON: dict[bytes, tuple[str, ...]] = {
    b" ": ("Expecting value", "column 2"),
    b"{'id': 'a'}": ("Expecting property name", "column 2"),
    b'{"id": "a", "images": [': ("Expecting value", "column 24"),
    b'{"id": "a"} {"id": "b"}': ("Extra", "column 13"),
    b'{"id": NaN}': ("NaN",),
    b'{"a": {"score": -Infinity}}': ("-Infinity",),
    b'{"a": {"score": 1e999}}': ("1e999", "large"),
    b'{"id": ' + b"9" * 5000 + b"}": ("large",),
    b'{"id": ' + b"[" * 200_000: ("100",),
    b'{"id": ' + b"[" * 100 + b"]" * 100 + b"}": ("100",),
    b'{"id": "a", "id": "b"}': ("'id'", "object"),
    b'{"tags": {"x": "1", "x": "2"}}': ("'x'", "object"),
    rb'{"id": "\ud800"}': ("half of a character", "write the whole"),
    '{"id": "caf\u00e9"}'.encode("latin-1"): ("UTF-8", "0xe9"),
    '{"id": "a"}'.encode("utf-16"): ("UTF-8", "0xff"),
    b'{"id": "a\tb"}': ("Invalid control",),
}
#: The file that each reader of JSON is given.
READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "json": ("a.json", read_json),
    "object": ("a.json", read_object),
    "list": ("a.json", partial(read_json, kind=list)),
    "mapping": ("a.json", partial(read_json, kind=dict)),
    "lines": ("a.jsonl", lambda path: list(read_jsonl(path))),
    "rows": ("a.jsonl.gz", lambda path: list(read_rows(path, (".jsonl",), "rows"))),
    "pairs": ("pairs.jsonl", lambda path: read_pair_set(path.parent)),
    "card": ("card.json", lambda path: read_card(path.parent)),
    "record": ("results.json", lambda path: read_result(path.parent)),
}


@pytest.mark.parametrize("reader", READERS)
def test_what_is_no_json_is_one_line_that_names_the_file_of_every_reader(tmp_path, reader):
    name, read = READERS[reader]
    path = tmp_path / name
    for content, facts in BAD_JSON.items():
        if not content.strip() and "jsonl" in name:
            continue  # no line, and so no row
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
        with raises((DataError, RunError), *facts) as caught:
            read(path)
        assert str(path) in str(caught.value) and len(str(caught.value)) < 400
    levels = "[" * 100 + "]" * 100
    assert json.dumps(read_json(write_file(tmp_path / "levels.json", levels))) == levels


#: What is no table -> the line and the facts of its refusal.
#: What is no table -> the line and the facts of its refusal.
BAD_TABLES: dict[bytes, tuple[int, tuple[str, ...]]] = {
    b"file_name,caption\n\nimages/0.png\n": (3, ("1 fields", "2")),
    b"file_name,caption\nimages/0.png,a cat, a dog\n": (2, ("3 fields", "2", "','", "double quotes")),
    b"file_name;caption\nimages/0.png,a cat\n": (2, ("1 fields", "2")),
    b"file_name,caption,caption\n": (1, ("'caption'",)),
    b'file_name,caption\nimages/0.png,"a" cat\n': (2, ("CSV", "quote", "twice")),
    b'file_name,caption\nimages/0.png,"a cat\n\n\n': (2, ("CSV", "unexpected", "twice")),
    b"file_name,caption\nimages/0.png," + b"x" * 200_000: (2, ("CSV", "field")),
    "file_name,caption\nimages/0.png,caf\u00e9\n".encode("latin-1"): (2, ("UTF-8", "0xe9")),
}
TABLES: dict[str, tuple[str, Callable[[Path], object]]] = {
    "csv": ("a.csv", lambda path: list(read_csv(path))),
    "rows": ("a.tsv.gz", lambda path: list(read_rows(path, (".tsv",), "rows"))),
    "pairs": ("metadata.csv", lambda path: read_pair_set(path.parent)),
}


@pytest.mark.parametrize("reader", TABLES)
def test_what_is_no_table_is_one_line_that_names_file_and_line_of_every_reader(tmp_path, reader):
    name, read = TABLES[reader]
    path = tmp_path / name
    for content, (line, facts) in BAD_TABLES.items():
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
        with raises(DataError, *facts, path=path, line=line):
            read(path)


FORMULA = tuple("=+-@＝＋－＠")


@given(st.text(st.sampled_from([*FORMULA, *' a1;,\t\r\n\0"|('])))
def test_no_part_of_a_text_begins_a_formula_wherever_a_program_splits_the_file(text):
    target = io.StringIO()
    csv.writer(target).writerow(["a", spreadsheet_cell(text)])
    (row,) = csv.reader(io.StringIO(target.getvalue(), newline=""))
    for part in (row[1], *re.split(r"[;\t\r\n]", target.getvalue())):
        assert not part.strip(' "').startswith(FORMULA)
    if "'" not in text:
        assert row[1].replace("'", "") == text


@given(st.text(st.characters(categories=("L", "N"))) | st.sampled_from([-1.5, 0.0, 1e-300, -3, None]))
def test_a_name_of_letters_and_digits_and_a_number_stay_as_they_are_and_an_apostrophe_comes_first(cell):
    assert spreadsheet_cell(cell) == cell and type(spreadsheet_cell(cell)) is type(cell)
    for text in ("\tx", "\rx", "\nx", "\0x", "  =1", "=1", "-1", "@SUM(1)"):
        assert str(spreadsheet_cell(text)).startswith("'")


SCORES = "\n".join(["id,image,text,score", *(f"a,{i},{t},{i + t}" for i in (0, 1) for t in (0, 1))])


@pytest.mark.parametrize(
    ("name", "text", "read"),
    [
        ("a.json", '{"a": 1}', read_json),
        ("a.jsonl", '{"a": 1}\n{"a": 2}\n', lambda path: list(read_jsonl(path))),
        ("a.csv", "a,b\n1,2\n", lambda path: list(read_csv(path))),
        ("a.txt", "7_0\ta cat\n", read_captions),
        ("a.tsv", "caption\timage\na cat\tb.png\n", read_captions),
        ("a.jsonl", '{"id": "1", "caption_0": "a", "caption_1": "b"}', read_caption_pairs),
        ("a.csv", SCORES, lambda path: read_scores(path, ids=["a"], shape=(2, 2)).values.tolist()),
        ("a.csv", "id,prediction\na,yes\n",
         lambda path: read_predictions(path, ["a"], parse_label, "statement", lambda number, value: False)),
    ],
)  # fmt: skip
def test_a_packed_file_is_read_as_the_plain_one(tmp_path, name, text, read):
    plain, packed = write_file(tmp_path / name, text), tmp_path / f"{name}.gz"
    whole = gzip.compress(text.encode())
    packed.write_bytes(whole)
    assert read(plain) == read(packed)
    for path, data, facts in ((packed, whole[:-9], ("gzip",)), (plain, whole, ("gzip", ".gz"))):
        path.write_bytes(data)
        with raises(TellapartError, *facts, path=path):
            read(path)


def test_no_more_than_the_bound_is_unpacked_and_a_part_of_a_file_is_no_file(tmp_path):
    bomb = gzip.compress(bytes(10_000_000))
    assert len(bomb) < 100_000
    with raises(DataError, "a.jsonl.gz", "1,000"):
        unpack_gzip(bomb, Path("a.jsonl.gz"), most=1_000)
    two = b"".join(gzip.compress(json.dumps(each).encode()) for each in (1, 2))  # members joined, as `cat` does
    assert unpack_gzip(two, Path("a.gz"), most=10) == b"12"
    for length in (0, 1, 10, 20, -1):
        path = write_file(tmp_path / "rows.csv.gz", gzip.compress(b"id,caption\na,a cat\n")[:length])
        with raises(DataError, path="rows.csv.gz"):
            list(read_csv(path))


@pytest.mark.parametrize(
    ("kind", "content", "facts"),
    [
        (list, b"{}", ("rows", "{}")),
        (list, b"[]", ("rows", "[]")),
        (list, b'{"a": 1}', ("{'a': 1}", "rows")),
        (list, b"null", ("None", "rows")),
        (list, b"3", ("3", "rows")),
        (dict, b"[1]", ("object", "rows", "key")),
    ],
)
def test_a_file_of_another_kind_is_refused(tmp_path, kind, content, facts):
    with raises(DataError, facts):
        read_json(write_file(tmp_path / "rows.json", content), kind=kind)
    with raises(DataError, "Is a directory", path=tmp_path):
        read_json(tmp_path, kind=kind)


@pytest.mark.parametrize(
    ("read", "facts"),
    [
        (lambda place: row_of([1, 2], place), ("object", "{...}", "[1, 2]")),
        (lambda place: string({}, "caption", place), ("'caption'", "missing")),
        (lambda place: string({"caption": " "}, "caption", place), "text"),
        (lambda place: string({"caption": 7}, "caption", place), "got 7"),
        (lambda place: make_item(place, id="0", images=("a.png",), texts=()), "texts"),
    ],
)
def test_a_row_that_is_not_as_expected_is_named_with_its_field(read, facts):
    with raises(DataError, "a.json", "3", facts):
        read("a.json: row 3")
