"""Folders of pair sets: tellapart's, which come back as they were written, and every way to write an imagefolder."""

import csv
import io
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from facts import raises
from pictures import encoded, noise
from sets import put, record, write_file
from tellapart.data.folder import read_pair_set, write_pair_set
from tellapart.data.item import Item
from tellapart.errors import DataError

#: Every character that a file can hold, with those that cut lines elsewhere made likely.
characters = st.one_of(st.sampled_from("\u2028\u2029\u0085\r\n\v\f\x1c\"'\\{},\ufeff\0"), st.characters(codec="utf-8"))
strings = st.text(characters, min_size=1, max_size=30)
json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(10**20), 10**20), strings)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(strings, inner, max_size=3),
    max_leaves=5,
)
items_of_one_shape = st.tuples(st.integers(1, 3), st.integers(1, 3)).flatmap(
    lambda shape: st.lists(
        st.builds(
            Item,
            id=strings,
            images=st.tuples(*[st.sampled_from(["images/0.png", "images/1.webp", "frames/2.npy"])] * shape[0]),
            texts=st.tuples(*[strings] * shape[1]),
            tags=st.dictionaries(strings, strings, max_size=3),
            cluster=st.just("") | strings,
            provenance=st.dictionaries(strings, json_values, max_size=3),
        ),
        min_size=1,
        max_size=4,
        unique_by=lambda item: item.id,
    )
)
LONG = Item(id="i" * 10_000, images=("images/0.png",), texts=("w " * 500_000, "\u2028" * 1000))


@pytest.mark.slow
@settings(max_examples=40)
@given(items=items_of_one_shape, card=st.dictionaries(strings, json_values, max_size=3))
@example(items=[LONG], card={})
def test_what_is_written_is_read_back(items, card):
    used = sorted({reference for item in items for reference in item.images})
    images = {reference: encoded(noise(seed=len(reference)), reference.rpartition(".")[2]) for reference in used}
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch) / "deep" / "set"
        write_pair_set(home, items, images, card)
        again = read_pair_set(home)
        assert (again.items, again.card) == (tuple(items), card)
        assert (again.name, again.root) == ("set", home)
        assert {reference: again.read_bytes(reference) for reference in used} == images
        assert [path.name for path in home.parent.iterdir()] == ["set"]


def test_an_image_that_many_items_show_is_looked_for_once(tmp_path):
    write_file(tmp_path / "pairs.jsonl", [record(id=f"{k}", images=[image]) for k, image in enumerate("xyxxy")])
    looked: list[str] = []
    pairs = read_pair_set(tmp_path, find=lambda reference: looked.append(reference) or tmp_path / reference)
    assert [item.images[0] for item in pairs.items] == list("xyxxy")
    assert looked == ["x", "y"]


def test_blank_lines_a_byte_order_mark_and_windows_line_ends_are_no_hindrance(folder):
    text = "\ufeff" + "\r\n".join(["", json.dumps(record()), "  ", json.dumps(record(id="b"))])
    pairs = read_pair_set(folder(text))
    assert [item.id for item in pairs.items] == ["a", "b"]
    assert [line.rpartition(":")[2] for line in pairs.lines.values()] == ["2", "4"]


def test_faults_of_several_lines_are_named_at_once(folder):
    rows = [record(id="a", images=["images/0.png", "images/x.png"]), record(id="b"), record(id="")]
    home = folder([*rows, record(id="d", images=["images/y.png", "images/1.png"])])
    facts = ("images/x.png", "3: field", "4: field", "images/y.png")
    with raises(DataError, facts, path="pairs.jsonl", line=1, field="images[1]"):
        read_pair_set(home)


def test_a_fault_of_many_lines_is_written_once(folder):
    home = folder([record(id=str(k)) | {"captions": []} for k in range(30)])
    with raises(DataError, "pairs.jsonl:1", "captions", "lines 2, 3", "after 20") as failure:
        read_pair_set(home)
    assert str(failure.value).count("captions") == 1


def test_a_set_is_named_after_its_folder_or_as_told_and_its_own_list_goes_before_that_of_an_imagefolder(
    folder, monkeypatch
):
    folder([{"file_name": "images/0.png", "caption": "x"}], "metadata.jsonl")
    home = folder([record()])
    pairs = read_pair_set(home)
    assert (pairs.name, pairs.shape) == ("clocks", (2, 2))
    assert read_pair_set(home, "mine").name == "mine"
    monkeypatch.chdir(home)
    assert read_pair_set(Path()).name == "clocks"


#: Changes of the second row, and the facts of its refusal.
BAD_FIELDS: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"id": ...}, ("'id'", "missing")),
    ({"id": ""}, ("'id'", "empty")),
    ({"texts": ["a", 7]}, ("'texts[1]'", "7")),
    ({"texts": ["a", ""]}, ("'texts[1]'", "empty")),
    ({"images": ["", "images/1.png"]}, ("'images[0]'", "empty")),
    ({"tags": ["x"]}, ("'tags'", "object", "['x']")),
    ({"provenance": "web"}, ("'provenance'", "object", "'web'")),
    ({"text": ["a", "b"]}, ("'text'", "'texts'", "id")),
    ({"": 1}, ("without a name", "id")),
    ({"xyz": 1}, ("'xyz'", "id")),
    ({"images": ["images/0.png", "images/9.png"]}, ("'images[1]'", "'images/9.png'")),
    ({"images": ["images", "images/1.png"]}, ("'images[0]'", "'images'")),
    ({"images": ["../a.png", "images/1.png"]}, ("'images[0]'", "'../a.png'")),
    ({"images": ["/a.png", "images/1.png"]}, ("'images[0]'", "'/a.png'")),
    ({"images": ["http://x/a.png", "b.png"]}, ("'images[0]'", "'http://x/a.png'")),
    ({"images": ["a\0.png", "b.png"]}, ("'images[0]'", "'a\\x00.png'")),
    ({"texts": ["a"]}, ("'b'", "2", "1", "2", "2")),
    ({"id": "a"}, ("'id'", "'a'", "/pairs.jsonl:1")),
]
I0, I1 = "images/0.png", "images/1.png"
#: A second row of an imagefolder, and the facts of its refusal.
BAD_ROWS: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"caption": "x", "n": 1}, ("file_name", "file_names", "image_0", "n")),
    ({"file_name": I0}, ("caption_0", "file_name")),
    ({"image_0": I0, "image_1": None, "caption": "x"}, ("'image_1'", "None")),
    ({"file_name": I0, "caption_0": "x", "caption_1": 2}, ("'caption_1'", "2")),
    ({"file_name": I0, "caption": "x", "foil": ""}, ("'foil'", "empty")),
    ({"file_names": I0, "texts": ["x"]}, ("'file_names'", "images/0")),
    ({"file_names": [I0], "texts": []}, ("'texts'", "[]")),
    ({"file_names": [I0, 1], "caption": "x"}, ("'file_names[1]'", "1")),
    ({"file_names": [I0, "9.png"], "caption": "x"}, ("'file_names[1]'", "'9.png'")),
    ({"image_0": I0, "image_1": "images/9.png", "caption": "x"}, ("'image_1'", "'images/9.png'")),
    ({"image_0": "gone", "caption": "x"}, ("'image_0'", "'gone'")),
    ({"file_name": "../../etc/passwd", "caption": "x"}, ("'file_name'", "'../../etc/passwd'")),
    ({"file_name": "https://x/0.png", "caption": "x"}, ("'file_name'", "'https://x/0.png'")),
    ({"image_0": I0, "image_2": I1, "caption": "x"}, ("image_0", "image_2")),
    ({"file_name": I0, "caption_2": "x", "caption_3": "y"}, ("caption_2", "caption_3")),
    ({"image_0": "17", "image_0_file_name": I0, "caption": "x"}, ("'image_0'", "'image_0_file_name'", "0")),
    ({"file_name": I0, "text_0": "x", "caption_0": "y"}, ("'text_0'", "'caption_0'", "0")),
    ({}, ("column", "images")),
    ({"file_name": I0, "caption": "x"}, ("'row-2'", "1", "1", "1", "2")),
    ({"id": "row-1", "file_name": I0, "caption": "x"}, ("'id'", "'row-1'", "/metadata.jsonl:1")),
]
FIRST = {"file_name": I0, "caption": "x", "foil": "y"}
#: A list and its content -> the line and the facts of its refusal.
BAD_LISTS: list[tuple[str, Any, int | None, tuple[str, ...]]] = [
    *(("pairs.jsonl", [record(), record(**{"id": "b", **changes})], 2, facts) for changes, facts in BAD_FIELDS),
    *(("metadata.jsonl", [FIRST, row], 2, facts) for row, facts in BAD_ROWS),
    ("metadata.csv", "file_names,caption\nimages/0.png,x\n", 2, ("'file_names'",)),
    ("metadata.csv", "file_name,caption\nimages/0.png,\n", 2, ("'caption'",)),
    ("metadata.csv", "file_name,caption\n", None, ("pairs", "lists")),
    *(
        (name, text, None, ("pairs", "lists"))
        for name in ("metadata.csv", "pairs.jsonl")
        for text in ("", "\n \n", "\ufeff")
    ),
    ("pairs.jsonl", f'\ufeff{json.dumps(record())}\n\n["a"]\n', 3, ("object",)),
]


@pytest.mark.parametrize(("listing", "content", "line", "facts"), BAD_LISTS, ids=range(len(BAD_LISTS)))
def test_a_bad_field_cell_or_line_is_named_by_file_and_line(folder, listing, content, line, facts):
    home = folder(content, listing)
    with raises(DataError, facts, path=f"{home}/{listing}", line=line):
        read_pair_set(home)


def test_a_message_stays_short_whatever_stands_in_the_file(folder):
    huge = "x" * 100_000
    rows: list[dict[str, Any]] = [{"id": huge}, {"texts": huge}, {"images": [huge, huge]}, {"tags": {huge: 1}}]
    rows += [{huge: 1}, {huge: 1, "id": 1}]
    for content in (*([record(id=huge), record(**changes)] for changes in rows), f'["{huge}"]'):
        with pytest.raises(DataError) as caught:
            read_pair_set(folder(content))
        assert len(str(caught.value)) < (300 if isinstance(content, str) else 1000)


def test_a_folder_without_a_list_of_pairs_is_refused(tmp_path, folder):
    known = ("pairs.jsonl", "metadata.jsonl", "metadata.csv")
    write_file(tmp_path / "file", "")
    write_file(tmp_path / "hidden" / "items.jsonl", "{}\n")  # a hidden benchmark's task
    for name, facts in (
        ("gone", ("/gone", known, "folder")),
        ("", (tmp_path, known, "pairs")),
        ("file", ("/file", "folder")),
        ("hidden", (tmp_path / "hidden", "rename items.jsonl to pairs.jsonl")),
    ):
        with raises(DataError, *facts):
            read_pair_set(tmp_path / name)
    home = folder([record()])
    with raises(DataError, "clocks", "inside"):
        read_pair_set(tmp_path)
    with raises(DataError, f"'folder:{home}'", f"write {home}"):  # a benchmark's prefix
        read_pair_set(Path(f"folder:{home}"))
    with pytest.raises(DataError) as caught:
        read_pair_set(Path(f"folder:{tmp_path}/none"))
    assert f"write {tmp_path}/none" not in str(caught.value)


#: A list of pairs -> a good row of it, and fields or columns that it may have.
#: A list of pairs -> a good row of it, and fields or columns that it may have.
FIELDS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "pairs.jsonl": (record(), ["id", "images", "texts", "tags", "cluster", "provenance", "txts"]),
    "metadata.jsonl": (FIRST, ["id", "file_name", "caption", "foil", "tags", "cluster"]),
}


@pytest.mark.parametrize("listing", FIELDS)
@settings(max_examples=120)
@given(data=st.data(), value=json_values | st.lists(strings, max_size=3) | st.floats())
def test_any_json_in_any_field_is_read_or_raises_a_data_error_that_names_line_and_field(listing, data, value):
    row, fields = FIELDS[listing]
    field = data.draw(st.sampled_from(fields))
    with tempfile.TemporaryDirectory() as scratch:
        home = put(Path(scratch) / "set", [row | {field: value}], listing)
        try:
            item = read_pair_set(home).items[0]
        except DataError as error:
            assert f"{listing}:1: " in str(error)
            assert f"field '{field}" in str(error).replace('"', "'") or "not valid JSON" in str(error)
        else:
            if listing == "pairs.jsonl":
                got = item.model_dump(mode="json")[field]
                assert got == json.loads(json.dumps(value)) or (field == "cluster" and not value.strip())
            elif field != "tags" and not (field == "cluster" and (value is None or not str(value).strip())):
                texts = dict(zip(("caption", "foil"), item.texts, strict=False))
                got = {"id": item.id, "file_name": item.images[0], "cluster": item.cluster, **texts}[field]
                assert type(value) in (str, int) and got == str(value)


def pair(name: str = "a", images: tuple[str, ...] = ("images/0.png",), **fields) -> Item:
    return Item(id=name, images=images, texts=("x", "y"), **fields)


GOOD = {"images/0.png": b"any bytes"}
#: What is no set: its items, images and card, and the facts of its refusal.
BAD_SETS: list[tuple[list[Item], dict[str, bytes], dict[str, Any], tuple[str, ...]]] = [
    ([], {}, {}, ("'set'", "pair")),
    ([pair(), pair()], GOOD, {}, ("'id'", "'a'", "file")),
    ([pair(), pair("b", ("images/0.png",) * 2)], GOOD, {}, ("'b'", "2", "2")),
    ([pair()], {}, {}, ("'a'", "'images[0]'", "bytes", "'images/0.png'")),
    ([pair()], {**GOOD, "b.png": b""}, {}, ("1", "b.png", "images")),
    ([pair(images=("../0.png",))], {"../0.png": b""}, {}, ("'../0.png'", "pair")),
    ([pair(images=("/tmp/0.png",))], {"/tmp/0.png": b""}, {}, ("'/tmp/0.png'",)),  # noqa: S108
    ([pair(images=("a/./0.png",))], {"a/./0.png": b""}, {}, ("'a/0.png'",)),  # twice the file
    ([pair(images=("a", "a.png"))], dict.fromkeys(("a", "a.png"), b"\x89PNG\r\n\x1a\n"), {}, ("'a'",)),
    ([pair(images=("pairs.jsonl",))], {"pairs.jsonl": b""}, {}, ("image", ".webp")),
    ([pair()], GOOD, {"made": Path()}, ("JSON", "UTF-8", "PosixPath")),
    ([pair()], GOOD, {"score": float("nan")}, ("JSON", "UTF-8", "card")),
    ([pair()], GOOD, {"by": "\ud800"}, ("'utf-8'", "card")),
    ([pair(provenance={"s": float("inf")})], GOOD, {}, ("'a'", "JSON")),
    ([pair(images=("a.png", "a.png/b.png"))], {"a.png": b"", "a.png/b.png": b""}, {}, ("/set",)),
    ([pair(images=("a" * 300 + ".png",))], {"a" * 300 + ".png": b""}, {}, ("/set",)),
]


@pytest.mark.parametrize(("items", "images", "card", "says"), BAD_SETS, ids=range(len(BAD_SETS)))
def test_a_bad_set_is_not_written_and_leaves_nothing_behind(tmp_path, items, images, card, says):
    with raises(DataError, says):
        write_pair_set(tmp_path / "set", items, images, card)
    assert list(tmp_path.iterdir()) == []


KILLED = """
import os, signal, sys
from pathlib import Path
from tellapart.data.folder import write_pair_set
from tellapart.data.item import Item
write_bytes, left = Path.write_bytes, int(sys.argv[2])
def write(path, data):
    global left
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    left -= 1
    return write_bytes(path, data)
Path.write_bytes = write
items = [Item(id=str(k), images=(f"{k}.png",), texts=("x",)) for k in range(3)]
write_pair_set(Path(sys.argv[1]), items, {f"{k}.png": b"bytes" for k in range(3)}, {})
"""


@pytest.mark.few(2)
@pytest.mark.parametrize("files", [0, 3, 4])
def test_a_process_killed_in_the_middle_leaves_no_folder_of_that_name(tmp_path, files):
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "set"), str(files)], check=False)
    assert done.returncode == -9
    assert not (tmp_path / "set").exists()
    # The next attempt is not in the way of what the first left.
    write_pair_set(tmp_path / "set", [pair()], GOOD, {})
    assert len(read_pair_set(tmp_path / "set")) == 1


def table(*rows: list[str], end: str = "\r\n") -> str:
    stream = io.StringIO()
    csv.writer(stream, lineterminator=end).writerows(rows)
    return stream.getvalue()


#: Rows for metadata.jsonl, and the images and texts they stand for.
#: Rows for metadata.jsonl, and the images and texts they stand for.
ROWS: list[tuple[dict[str, Any], tuple[str, ...], tuple[str, ...]]] = [
    ({"file_name": I0, "caption": "x"}, (I0,), ("x",)),
    ({"file_name": I0, "negative_caption": "y", "caption": "x"}, (I0,), ("x", "y")),
    ({"foil": "y", "caption": "x", "file_name": I0}, (I0,), ("x", "y")),
    ({"filepath": I0, "caption": "x", "foil": "y"}, (I0,), ("x", "y")),
    ({"image_1": I1, "image_0": I0, "caption_0": "x", "caption_1": "y"}, (I0, I1), ("x", "y")),
    ({"image_2": I1, "image_1": I0, "text_1": "x", "text_2": "y"}, (I0, I1), ("x", "y")),
    ({"image0": I0, "image1": I1, "caption0": "x", "caption1": "y"}, (I0, I1), ("x", "y")),
    ({"image_0_file_name": I0, "image_1_file_name": I1, "caption": "x"}, (I0, I1), ("x",)),
    ({"file_names": [I1, I0], "texts": ["x", "y"]}, (I1, I0), ("x", "y")),
    ({"file_names": [I0], "caption": "x", "foil": "y"}, (I0,), ("x", "y")),
    ({"file_name": I0, **{f"caption_{k}": f"{k}" for k in reversed(range(11))}}, (I0,), tuple(map(str, range(11)))),
    ({"image_0": "0", "image_1": "images/1", "caption": "x"}, (I0, I1), ("x",)),
]


@pytest.mark.parametrize(("row", "images", "texts"), ROWS, ids=range(len(ROWS)))
def test_columns_are_sorted_into_images_and_texts_in_a_csv_file_too(folder, row, images, texts):
    item = read_pair_set(home := folder([row], "metadata.jsonl")).items[0]
    assert (item.images, item.texts) == (images, texts)
    assert (item.id, item.cluster, item.provenance) == ("row-1", "row-1", {})
    (home / "metadata.jsonl").unlink()
    for end in ("\n", "\r\n") if "file_names" not in row else ():
        item = read_pair_set(folder("\ufeff" + table(list(row), list(row.values()), end=end), "metadata.csv")).items[0]
        assert (item.id, item.images, item.texts) == ("row-1", images, texts)


def test_id_cluster_and_tags_are_taken_and_the_rest_is_provenance(folder):
    row = {"id": 7, "cluster": "v1", "tags": {"type": "add"}, "file_name": I0, "caption": "x"}
    row |= {"score": 0.5, "url": None}
    item = read_pair_set(folder([row, {**row, "id": "b"}], "metadata.jsonl")).items[0]
    assert (item.id, item.cluster, item.tags) == ("7", "v1", {"type": "add"})
    assert item.provenance == {"score": 0.5, "url": None}


def test_quoted_captions_keep_commas_quotes_and_line_breaks_and_rows_their_first_line(folder):
    caption = 'a "small", red\r\ncup\u2028on a mat'
    text = table(["file_name", "caption", "id"], [I0, caption, "a"], [], [I1, "x", "b"], ["images/9.png", "y", "c"])
    with raises(DataError, "/metadata.csv:6", "'file_name'", "'images/9.png'"):
        read_pair_set(folder(text, "metadata.csv"))
    home = folder(text.replace("images/9", "images/1"), "metadata.csv")
    assert read_pair_set(home).items[0].texts == (caption,)
    assert [line.rpartition(":")[2] for line in read_pair_set(home).lines.values()] == ["2", "5", "6"]


def test_an_image_without_a_suffix_is_found_in_every_format(folder):
    names = {f"1_0_img_{suffix}": f"images/1_0_img_{suffix}.{suffix}" for suffix in ("jpg", "png", "webp", "npy")}
    for name, file in (names | {"frame.v2": "frame.v2.png"}).items():
        images = {file: encoded(noise(), file.rpartition(".")[2])}
        home = folder([{"image_0": name, "caption": "x"}], "metadata.jsonl", images)
        assert read_pair_set(home).items[0].images == (file,)
