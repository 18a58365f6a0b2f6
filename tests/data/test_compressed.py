"""Text files that end in `.gz` are read as without it, up to a bound; gzip by another name is named."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from facts import raises
from tellapart.builders.caption_files import read_caption_pairs, read_captions
from tellapart.data.rows import read_csv, read_jsonl
from tellapart.data.strict_json import load_json, unpack_gzip
from tellapart.errors import DataError, TellapartError
from tellapart.models.memory.external import read_scores
from tellapart.tasks.predictions import label, read_predictions

SCORES = "\n".join(["id,image,text,score", *(f"a,{i},{t},{i + t}" for i in (0, 1) for t in (0, 1))])


def read_statements(path: Path) -> list[bool]:
    return read_predictions(path, ["a"], label, "statement", lambda number, value: False)


@pytest.mark.parametrize(
    ("name", "text", "read"),
    [
        ("a.json", '{"a": 1}', load_json),
        ("a.jsonl", '{"a": 1}\n{"a": 2}\n', lambda path: list(read_jsonl(path))),
        ("a.csv", "a,b\n1,2\n", lambda path: list(read_csv(path))),
        ("a.txt", "7_0\ta cat\n", read_captions),
        ("a.tsv", "caption\timage\na cat\tb.png\n", read_captions),
        ("a.jsonl", '{"id": "1", "caption_0": "a", "caption_1": "b"}', read_caption_pairs),
        ("a.csv", SCORES, lambda path: read_scores(path, ids=["a"], shape=(2, 2)).values.tolist()),
        (
            "a.csv",
            "id,prediction\na,yes\n",
            read_statements,
        ),
    ],
)
def test_a_packed_file_is_read_as_the_plain_one(tmp_path: Path, name: str, text: str, read) -> None:
    (tmp_path / name).write_text(text)
    (tmp_path / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
    held, packed = read(tmp_path / name), read(tmp_path / f"{name}.gz")
    assert held == packed
    (tmp_path / f"{name}.gz").write_bytes(gzip.compress(text.encode())[:-9])
    with raises(TellapartError, "gzip", path=tmp_path / f"{name}.gz"):
        read(tmp_path / f"{name}.gz")
    (tmp_path / name).write_bytes(gzip.compress(text.encode()))
    with raises(TellapartError, "gzip", ".gz", path=tmp_path / name):
        read(tmp_path / name)


def test_no_more_than_the_bound_is_unpacked() -> None:
    bomb = gzip.compress(bytes(10_000_000))
    assert len(bomb) < 100_000
    with raises(DataError, "a.jsonl.gz", "1,000"):
        unpack_gzip(bomb, Path("a.jsonl.gz"), most=1_000)
    two = b"".join(gzip.compress(json.dumps(each).encode()) for each in (1, 2))  # members joined, as `cat` does
    assert unpack_gzip(two, Path("a.gz"), most=10) == b"12"


@pytest.mark.parametrize("length", [0, 1, 10, 20, -1])
def test_a_part_of_a_file_is_no_file(tmp_path: Path, length: int) -> None:
    path = tmp_path / "rows.csv.gz"
    path.write_bytes(gzip.compress(b"id,caption\na,a cat\n")[:length])
    with raises(DataError, path="rows.csv.gz"):
        list(read_csv(path))
