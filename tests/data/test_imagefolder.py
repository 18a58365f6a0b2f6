"""Hugging Face imagefolders: every way their columns name images and texts, and the two genuine sources."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from facts import raises
from tellapart.data.folder import read_pair_set
from tellapart.errors import DataError

Encode = Callable[..., bytes]
Noise = Callable[..., NDArray[np.uint8]]
Folder = Callable[..., Path]

I0, I1 = "images/0.png", "images/1.png"


def table(*rows: list[str], end: str = "\r\n") -> str:
    stream = io.StringIO()
    csv.writer(stream, lineterminator=end).writerows(rows)
    return stream.getvalue()


#: Rows for metadata.jsonl, and the images and texts they stand for.
ROWS: dict[str, tuple[dict[str, Any], tuple[str, ...], tuple[str, ...]]] = {
    "one of each": ({"file_name": I0, "caption": "x"}, (I0,), ("x",)),
    "a negative caption": ({"file_name": I0, "negative_caption": "y", "caption": "x"}, (I0,), ("x", "y")),
    "a foil": ({"foil": "y", "caption": "x", "file_name": I0}, (I0,), ("x", "y")),
    "numbered": ({"image_1": I1, "image_0": I0, "caption_0": "x", "caption_1": "y"}, (I0, I1), ("x", "y")),
    "from one": ({"image_2": I1, "image_1": I0, "text_1": "x", "text_2": "y"}, (I0, I1), ("x", "y")),
    "without a dash": ({"image0": I0, "image1": I1, "caption0": "x", "caption1": "y"}, (I0, I1), ("x", "y")),
    "file names": ({"image_0_file_name": I0, "image_1_file_name": I1, "caption": "x"}, (I0, I1), ("x",)),
    "lists": ({"file_names": [I1, I0], "texts": ["x", "y"]}, (I1, I0), ("x", "y")),
    "a list and columns": ({"file_names": [I0], "caption": "x", "foil": "y"}, (I0,), ("x", "y")),
    "eleven": (
        {"file_name": I0, **{f"caption_{k}": f"text {k}" for k in reversed(range(11))}},
        (I0,),
        tuple(f"text {k}" for k in range(11)),
    ),
    "without a suffix": ({"image_0": "0", "image_1": "images/1", "caption": "x"}, (I0, I1), ("x",)),
}


@pytest.mark.parametrize("kind", ROWS)
def test_columns_are_sorted_into_images_and_texts(folder: Folder, kind: str) -> None:
    row, images, texts = ROWS[kind]
    item = read_pair_set(folder([row], "metadata.jsonl")).items[0]
    assert (item.images, item.texts) == (images, texts)
    assert (item.id, item.cluster, item.provenance) == ("row-1", "row-1", {})


@pytest.mark.parametrize("kind", [kind for kind, (row, _, _) in ROWS.items() if "list" not in kind])
def test_a_csv_of_the_same_columns_gives_the_same_items(folder: Folder, kind: str) -> None:
    row, images, texts = ROWS[kind]
    for end in ("\n", "\r\n"):
        home = folder("\ufeff" + table(list(row), list(row.values()), end=end), "metadata.csv")
        item = read_pair_set(home).items[0]
        assert (item.images, item.texts) == (images, texts)


def test_id_cluster_and_tags_are_taken_and_the_rest_is_provenance(folder: Folder) -> None:
    row = {
        "id": 7,
        "cluster": "v1",
        "tags": {"type": "add"},
        "file_name": I0,
        "caption": "x",
        "score": 0.5,
        "url": None,
    }
    item = read_pair_set(folder([row, {**row, "id": "b"}], "metadata.jsonl")).items[0]
    assert (item.id, item.cluster, item.tags) == ("7", "v1", {"type": "add"})
    assert item.provenance == {"score": 0.5, "url": None}


def test_quoted_captions_keep_commas_quotes_and_line_breaks_and_rows_their_first_line(folder: Folder) -> None:
    caption = 'a "small", red\r\ncup\u2028on a mat'
    text = table(["file_name", "caption", "id"], [I0, caption, "a"], [], [I1, "x", "b"], ["images/9.png", "y", "c"])
    with raises(DataError, "/metadata.csv:6", "'file_name'", "'images/9.png'"):
        read_pair_set(folder(text, "metadata.csv"))
    home = folder(text.replace("images/9", "images/1"), "metadata.csv")
    assert read_pair_set(home).items[0].texts == (caption,)
    assert [line.rpartition(":")[2] for line in read_pair_set(home).lines.values()] == ["2", "5", "6"]


def test_an_image_without_a_suffix_is_found_in_every_format(folder: Folder, encoded: Encode, noise: Noise) -> None:
    for suffix in ("jpg", "png", "webp", "npy"):
        name = f"1_0_img_{suffix}"
        home = folder(
            [{"image_0": name, "caption": "x"}], "metadata.jsonl", {f"images/{name}.{suffix}": encoded(noise(), suffix)}
        )
        assert read_pair_set(home).items[0].images == (f"images/{name}.{suffix}",)
    home = folder([{"image_0": "frame.v2", "caption": "x"}], "metadata.jsonl", {"frame.v2.png": encoded(noise())})
    assert read_pair_set(home).items[0].images == ("frame.v2.png",)


BAD_ROWS: dict[str, tuple[dict[str, Any], str]] = {
    "no images": ({"caption": "x", "n": 1}, ("file_name", "file_names", "image_0", "n")),
    "no texts": ({"file_name": I0}, ("caption_0", "file_name")),
    "image null": ({"image_0": I0, "image_1": None, "caption": "x"}, ("'image_1'", "None")),
    "image an object": ({"file_name": {"path": I0}, "caption": "x"}, ("'file_name'", "{")),
    "caption a number": ({"file_name": I0, "caption_0": "x", "caption_1": 2}, ("'caption_1'", "2")),
    "caption a list": ({"file_name": I0, "caption": ["x"]}, ("'caption'", "['x']")),
    "empty foil": ({"file_name": I0, "caption": "x", "foil": ""}, ("'foil'", "empty")),
    "lists no lists": ({"file_names": I0, "texts": ["x"]}, ("'file_names'", "images/0")),
    "empty list": ({"file_names": [I0], "texts": []}, ("'texts'", "[]")),
    "number in a list": ({"file_names": [I0, 1], "caption": "x"}, ("'file_names[1]'", "1")),
    "missing in a list": ({"file_names": [I0, "9.png"], "caption": "x"}, ("'file_names[1]'", "'9.png'")),
    "missing": ({"image_0": I0, "image_1": "images/9.png", "caption": "x"}, ("'image_1'", "'images/9.png'")),
    "missing, no suffix": ({"image_0": "gone", "caption": "x"}, ("'image_0'", "'gone'")),
    "outside": ({"file_name": "../0.png", "caption": "x"}, ("'file_name'", "'../0.png'")),
    "outside, no suffix": ({"file_name": "../../etc/passwd", "caption": "x"}, ("'file_name'", "'../../etc/passwd'")),
    "address": ({"file_name": "https://x/0.png", "caption": "x"}, ("'file_name'", "'https://x/0.png'")),
    "gap": ({"image_0": I0, "image_2": I1, "caption": "x"}, ("image_0", "image_2")),
    "from two": ({"file_name": I0, "caption_2": "x", "caption_3": "y"}, ("caption_2", "caption_3")),
    "twice": ({"image_0": "17", "image_0_file_name": I0, "caption": "x"}, ("'image_0'", "'image_0_file_name'", "0")),
    "text and caption": ({"file_name": I0, "text_0": "x", "caption_0": "y"}, ("'text_0'", "'caption_0'", "0")),
    "id a truth": ({"id": True, "file_name": I0, "caption": "x"}, ("'id'", "True")),
    "tags a string": ({"tags": "x", "file_name": I0, "caption": "x"}, ("'tags'", "object", "'x'")),
    "no columns": ({}, ("column", "images")),
    "other shape": ({"file_name": I0, "caption": "x"}, ("'row-2'", "1", "1", "1", "2")),
    "id again": ({"id": "row-1", "file_name": I0, "caption": "x"}, ("'id'", "'row-1'", "/metadata.jsonl:1")),
}


@pytest.mark.parametrize("kind", BAD_ROWS)
def test_a_bad_row_is_named_by_file_line_and_column(folder: Folder, kind: str) -> None:
    row, says = BAD_ROWS[kind]
    home = folder([{"file_name": I0, "caption": "x", "foil": "y"}, row], "metadata.jsonl")
    with raises(DataError, f"{home}/metadata.jsonl:2", says):
        read_pair_set(home)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("file_names,caption\nimages/0.png,x\n", (":2", "'file_names'")),
        ("file_name,caption\nimages/0.png,\n", (":2", "'caption'")),
        ("", ("pairs", "lists")),
        ("file_name,caption\n", ("pairs", "lists")),
    ],
)
def test_a_bad_cell_is_named_by_file_and_line(folder: Folder, text: str, says: tuple[str, ...]) -> None:
    home = folder(text, "metadata.csv")
    with raises(DataError, f"{home}/metadata.csv", says):
        read_pair_set(home)
