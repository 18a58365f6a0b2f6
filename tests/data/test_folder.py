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
from sets import put, record
from tellapart.data.folder import read_pair_set, write_pair_set
from tellapart.data.item import Item
from tellapart.errors import DataError

#: Every character that a file can hold, with those that cut lines elsewhere made likely.
characters = st.one_of(st.sampled_from("\u2028\u2029\u0085\r\n\v\f\x1c\"'\\{},\ufeff\0"), st.characters(codec="utf-8"))
strings = st.text(characters, min_size=1, max_size=30)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | strings,
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
    rows = [{"id": f"{k}", "images": [image], "texts": ["a", "b"]} for k, image in enumerate("xyxxy")]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    looked: list[str] = []

    def find(reference: str) -> Path:
        looked.append(reference)
        return tmp_path / reference

    assert [item.images[0] for item in read_pair_set(tmp_path, find=find).items] == list("xyxxy")
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


def test_a_set_is_named_after_its_folder_or_as_told(folder, monkeypatch):
    home = folder([record()])
    assert read_pair_set(home).name == "clocks"
    assert read_pair_set(home, "mine").name == "mine"
    monkeypatch.chdir(home)
    assert read_pair_set(Path()).name == "clocks"


def test_an_own_list_goes_before_the_lists_of_an_imagefolder(folder):
    folder([{"file_name": "images/0.png", "caption": "x"}], "metadata.jsonl")
    assert read_pair_set(folder([record()])).shape == (2, 2)


BAD_FIELDS: dict[str, tuple[dict[str, Any], str]] = {
    "no id": ({"id": ...}, ("'id'", "missing")),
    "empty id": ({"id": ""}, ("'id'", "empty")),
    "text a number": ({"texts": ["a", 7]}, ("'texts[1]'", "7")),
    "empty text": ({"texts": ["a", ""]}, ("'texts[1]'", "empty")),
    "empty image": ({"images": ["", "images/1.png"]}, ("'images[0]'", "empty")),
    "tags a list": ({"tags": ["x"]}, ("'tags'", "object", "['x']")),
    "provenance a string": ({"provenance": "web"}, ("'provenance'", "object", "'web'")),
    "unknown key": ({"text": ["a", "b"]}, ("'text'", "'texts'", "id")),
    "unknown key, empty": ({"": 1}, ("without a name", "id")),
    "unknown key, like none": ({"xyz": 1}, ("'xyz'", "id")),
    "missing image": ({"images": ["images/0.png", "images/9.png"]}, ("'images[1]'", "'images/9.png'")),
    "image a folder": ({"images": ["images", "images/1.png"]}, ("'images[0]'", "'images'")),
    "image outside": ({"images": ["../a.png", "images/1.png"]}, ("'images[0]'", "'../a.png'")),
    "absolute image": ({"images": ["/a.png", "images/1.png"]}, ("'images[0]'", "'/a.png'")),
    "image address": ({"images": ["http://x/a.png", "b.png"]}, ("'images[0]'", "'http://x/a.png'")),
    "nul in image": ({"images": ["a\0.png", "b.png"]}, ("'images[0]'", "'a\\x00.png'")),
    "other shape": ({"texts": ["a"]}, ("'b'", "2", "1", "2", "2")),
    "id again": ({"id": "a"}, ("'id'", "'a'", "/pairs.jsonl:1")),
}


@pytest.mark.parametrize("kind", BAD_FIELDS)
def test_a_bad_field_is_named_by_file_line_and_field(folder, kind):
    changes, says = BAD_FIELDS[kind]
    home = folder([record(), record(**{"id": "b", **changes})])
    with raises(DataError, f"{home}/pairs.jsonl:2", says):
        read_pair_set(home)


def test_a_message_stays_short_whatever_stands_in_the_file(folder):
    huge = "x" * 100_000
    rows: list[dict[str, Any]] = [{"id": huge}, {"texts": huge}, {"images": [huge, huge]}, {"tags": {huge: 1}}]
    for changes in [*rows, {huge: 1}, {huge: 1, "id": 1}]:
        with pytest.raises(DataError) as caught:
            read_pair_set(folder([record(**{"id": huge}), record(**changes)]))
        assert len(str(caught.value)) < 1000
    with pytest.raises(DataError) as caught:
        read_pair_set(folder(f'["{huge}"]'))
    assert len(str(caught.value)) < 300


def test_a_folder_without_a_list_of_pairs_is_refused(tmp_path, folder):
    known = ("pairs.jsonl", "metadata.jsonl", "metadata.csv")
    with raises(DataError, "/gone", known, "folder"):
        read_pair_set(tmp_path / "gone")
    with raises(DataError, tmp_path, known, "pairs"):
        read_pair_set(tmp_path)
    (tmp_path / "file").write_text("")
    with raises(DataError, "/file", "folder"):
        read_pair_set(tmp_path / "file")
    folder([record()])
    with raises(DataError, "clocks", "inside"):
        read_pair_set(tmp_path)


#: A list of pairs -> a good row of it, and fields or columns that it may have.
FIELDS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "pairs.jsonl": (record(), ["id", "images", "texts", "tags", "cluster", "provenance", "txts"]),
    "metadata.jsonl": (
        {"file_name": "images/0.png", "caption": "x", "foil": "y"},
        ["id", "file_name", "caption", "foil", "tags", "cluster"],
    ),
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
BAD_SETS: dict[str, tuple[list[Item], dict[str, bytes], dict[str, Any], str]] = {
    "no items": ([], {}, {}, ("'set'", "pair")),
    "id twice": ([pair(), pair()], GOOD, {}, ("'id'", "'a'", "file")),
    "two shapes": ([pair(), pair("b", ("images/0.png",) * 2)], GOOD, {}, ("'b'", "2", "2")),
    "no bytes": ([pair()], {}, {}, ("'a'", "'images[0]'", "bytes", "'images/0.png'")),
    "of no item": ([pair()], {**GOOD, "b.png": b""}, {}, ("1", "b.png", "images")),
    "leaves": ([pair(images=("../0.png",))], {"../0.png": b""}, {}, ("'../0.png'", "pair")),
    "absolute": ([pair(images=("/tmp/0.png",))], {"/tmp/0.png": b""}, {}, "'/tmp/0.png'"),  # noqa: S108
    "twice the file": ([pair(images=("a/./0.png",))], {"a/./0.png": b""}, {}, "'a/0.png'"),
    "taken": ([pair(images=("a", "a.png"))], dict.fromkeys(("a", "a.png"), b"\x89PNG\r\n\x1a\n"), {}, "'a'"),
    "the list itself": ([pair(images=("pairs.jsonl",))], {"pairs.jsonl": b""}, {}, ("image", ".webp")),
    "card not json": ([pair()], GOOD, {"made": Path()}, ("JSON", "UTF-8", "PosixPath")),
    "card with nan": ([pair()], GOOD, {"score": float("nan")}, ("JSON", "UTF-8", "card")),
    "card with half a character": ([pair()], GOOD, {"by": "\ud800"}, ("'utf-8'", "card")),
    "provenance with nan": ([pair(provenance={"s": float("inf")})], GOOD, {}, ("'a'", "JSON")),
    "file and folder": ([pair(images=("a.png", "a.png/b.png"))], {"a.png": b"", "a.png/b.png": b""}, {}, "/set"),
    "long name": ([pair(images=("a" * 300 + ".png",))], {"a" * 300 + ".png": b""}, {}, "/set"),
}


@pytest.mark.parametrize("kind", BAD_SETS)
def test_a_bad_set_is_not_written_and_leaves_nothing_behind(tmp_path, kind):
    items, images, card, says = BAD_SETS[kind]
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


def test_a_folder_with_a_benchmarks_prefix_is_answered_with_its_path(tmp_path):
    write_pair_set(tmp_path / "set", [pair()], GOOD, {})
    with raises(DataError, f"'folder:{tmp_path}/set'", f"write {tmp_path}/set"):
        read_pair_set(Path(f"folder:{tmp_path}/set"))
    with pytest.raises(DataError) as caught:
        read_pair_set(Path(f"folder:{tmp_path}/none"))
    assert f"write {tmp_path}/none" not in str(caught.value)


def test_the_folder_of_a_hidden_benchmarks_task_is_refused_with_the_name_that_its_list_needs(tmp_path):
    (tmp_path / "items.jsonl").write_text("{}\n")
    with raises(DataError, str(tmp_path), "rename items.jsonl to pairs.jsonl"):
        read_pair_set(tmp_path)


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
    "a path": ({"filepath": I0, "caption": "x", "foil": "y"}, (I0,), ("x", "y")),
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
def test_columns_are_sorted_into_images_and_texts_in_a_csv_file_too(folder, kind):
    row, images, texts = ROWS[kind]
    item = read_pair_set(home := folder([row], "metadata.jsonl")).items[0]
    assert (item.images, item.texts) == (images, texts)
    assert (item.id, item.cluster, item.provenance) == ("row-1", "row-1", {})
    (home / "metadata.jsonl").unlink()
    for end in ("\n", "\r\n") if "list" not in kind else ():
        home = folder("\ufeff" + table(list(row), list(row.values()), end=end), "metadata.csv")
        item = read_pair_set(home).items[0]
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
    "caption a number": ({"file_name": I0, "caption_0": "x", "caption_1": 2}, ("'caption_1'", "2")),
    "empty foil": ({"file_name": I0, "caption": "x", "foil": ""}, ("'foil'", "empty")),
    "lists no lists": ({"file_names": I0, "texts": ["x"]}, ("'file_names'", "images/0")),
    "empty list": ({"file_names": [I0], "texts": []}, ("'texts'", "[]")),
    "number in a list": ({"file_names": [I0, 1], "caption": "x"}, ("'file_names[1]'", "1")),
    "missing in a list": ({"file_names": [I0, "9.png"], "caption": "x"}, ("'file_names[1]'", "'9.png'")),
    "missing": ({"image_0": I0, "image_1": "images/9.png", "caption": "x"}, ("'image_1'", "'images/9.png'")),
    "missing, no suffix": ({"image_0": "gone", "caption": "x"}, ("'image_0'", "'gone'")),
    "outside, no suffix": ({"file_name": "../../etc/passwd", "caption": "x"}, ("'file_name'", "'../../etc/passwd'")),
    "address": ({"file_name": "https://x/0.png", "caption": "x"}, ("'file_name'", "'https://x/0.png'")),
    "gap": ({"image_0": I0, "image_2": I1, "caption": "x"}, ("image_0", "image_2")),
    "from two": ({"file_name": I0, "caption_2": "x", "caption_3": "y"}, ("caption_2", "caption_3")),
    "twice": ({"image_0": "17", "image_0_file_name": I0, "caption": "x"}, ("'image_0'", "'image_0_file_name'", "0")),
    "text and caption": ({"file_name": I0, "text_0": "x", "caption_0": "y"}, ("'text_0'", "'caption_0'", "0")),
    "no columns": ({}, ("column", "images")),
    "other shape": ({"file_name": I0, "caption": "x"}, ("'row-2'", "1", "1", "1", "2")),
    "id again": ({"id": "row-1", "file_name": I0, "caption": "x"}, ("'id'", "'row-1'", "/metadata.jsonl:1")),
}


@pytest.mark.parametrize("kind", BAD_ROWS)
def test_a_bad_row_is_named_by_file_line_and_column(folder, kind):
    row, says = BAD_ROWS[kind]
    home = folder([{"file_name": I0, "caption": "x", "foil": "y"}, row], "metadata.jsonl")
    with raises(DataError, f"{home}/metadata.jsonl:2", says):
        read_pair_set(home)


@pytest.mark.parametrize(
    ("listing", "text", "says"),
    [
        ("metadata.csv", "file_names,caption\nimages/0.png,x\n", (":2", "'file_names'")),
        ("metadata.csv", "file_name,caption\nimages/0.png,\n", (":2", "'caption'")),
        ("metadata.csv", "file_name,caption\n", ("pairs", "lists")),
        *(
            (name, text, ("pairs", "lists"))
            for name in ("metadata.csv", "pairs.jsonl")
            for text in ("", "\n \n", "\ufeff")
        ),
        ("pairs.jsonl", f'\ufeff{json.dumps(record())}\n\n["a"]\n', (":3", "object")),
    ],
)
def test_a_bad_cell_or_line_is_named_by_file_and_line(folder, listing, text, says):
    home = folder(text, listing)
    with raises(DataError, f"{home}/{listing}", says):
        read_pair_set(home)
