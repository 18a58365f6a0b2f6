"""Sets of the user: a TOML file of ten lines, a table of pairs, and where their images may lie."""

import gzip
import json
import math
from collections.abc import Callable
from contextlib import nullcontext
from datetime import date
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tellapart as ta
from facts import check_facts, raises
from pictures import draw, plain
from sets import file_bytes, put, record, write_file
from tellapart.auditing.audit import Options, audit
from tellapart.auditing.card import make_card, markdown
from tellapart.benchmarks.find import find_benchmark, load_pairs, set_name
from tellapart.benchmarks.locations import FolderImages, Locations
from tellapart.benchmarks.pair_table import read_pair_table
from tellapart.data.images import decode
from tellapart.data.pairset import PairSet
from tellapart.errors import DataError, RunError, TellapartWarning
from tellapart.evaluation.verified import read_result
from tellapart.report.image_sources import ImageSources

#: The examples of the documents: pairs, and questions with two options.
OWN, OWN_OPTIONS = (
    block.split("```")[0]
    for block in (Path(__file__).parents[2] / "docs" / "benchmarks.md").read_text("utf-8").split("```toml\n")[1:]
)
Row = dict[str, Any]


@pytest.fixture
def own(tmp_path) -> Path:
    rows = [{"left": f"{k}a.png", "right": f"{k}b.png", "words": ["red", "blue"]} for k in range(3)]
    write_file(tmp_path / "rows.jsonl", rows)
    for k, side in product(range(3), "ab"):
        write_file(tmp_path / "images" / f"{k}{side}.png", draw(40 * k + (side == "a"), size=2))
    return write_file(tmp_path / "cups.toml", OWN)


def records_of(path: Path, place: Locations | None = None) -> Any:
    return find_benchmark(str(path), place).records()


@pytest.fixture
def declared(tmp_path) -> Callable[..., Any]:
    """Write a set of one file, with these rows if there are any and these tables; return its records."""

    def load(tables: str, content: list[Row] | None = None, file: str = "rows.jsonl", **keys: object) -> Any:
        if content is not None:
            write_file(tmp_path / file, content)
        head = {"name": "mine", "title": "mine", "source": "here", "files": [file], **keys}
        lines = [f"{key} = {json.dumps(value)}\n" for key, value in head.items()]
        return records_of(write_file(tmp_path / "mine.toml", "".join(lines) + tables))

    return load


@pytest.mark.slow
def test_a_users_own_set_is_ten_lines(own, command):
    assert len(OWN.splitlines()) <= 10
    one = find_benchmark(str(own))
    assert (one.name, one.items, one.shape, one.own) == ("set:cups.toml", 3, (2, 2), own)
    assert set_name(str(own)) == set_name(f"set:{own}") == "set:cups.toml"
    command("run", "-b", own, "-m", "oracle", "--out", "r", "--json", code=0)
    assert command("show", "r").code == 0


@pytest.mark.parametrize("together", ["", "rows = 2\n"])
def test_a_text_of_the_set_is_a_field_of_every_row_whatever_the_columns_are(declared, together):
    rows = [{"l": f"{k}a.png", "r": f"{k}b.png", "words": ["red", "blue"], "request": "a column"} for k in (0, 1)]
    at = "0." if together else ""
    texts = [f"{{request}} {{{at}words.{k}}}" for k in (0, 1)]
    item = f'id = "{{row}}"\nimages = ["{{{at}l}}", "{{{at}r}}"]\ntexts = {json.dumps(texts)}\n'
    found = declared(f'{together}[texts]\nrequest = "Look:"\n\n[[item]]\n{item}', rows)
    assert {item.texts for item in found.items} == {("Look: red", "Look: blue")}


@pytest.mark.parametrize("options", ['"{candidates}"', '["{candidates.0}", "{candidates.1}"]'])
def test_a_users_own_options_are_a_and_b_by_their_places(tmp_path, options):
    asked = {"pair": "0", "question": "Which way?", "candidates": "['up', 'down']"}
    rows = [asked | {"film": "a", "answer": "down"}, asked | {"film": "b", "answer": "up"}]
    write_file(tmp_path / "asked.csv", rows)
    (tmp_path / "films.toml").write_text(OWN_OPTIONS.replace('options = "{candidates}"', f"options = {options}"))
    records = records_of(tmp_path / "films.toml")
    assert [(one.images, one.gold) for one in records.rows] == [(("a.mp4",), "b"), (("b.mp4",), "a")]
    assert records.rows[0].texts[0] == "Which way? (A) up (B) down Answer with the letter."
    assert records.groups_by("group") == ((0, 1),)
    write_file(tmp_path / "asked.csv", [rows[0], rows[1] | {"answer": "left"}])
    with raises(DataError, "asked.csv:3", "'{answer}'", "'left'"):
        records_of(tmp_path / "films.toml")


def test_a_gallery_with_a_row_for_each_caption_is_that_with_a_row_for_each_image(declared, tmp_path):
    pictures = [{"id": 7, "file_name": "a.png"}, {"id": 9, "file_name": "b.png"}]
    said = [(7, "a cup"), (9, "two cups"), (7, "one cup")]
    coco = {"images": pictures, "annotations": [{"image_id": image, "caption": text} for image, text in said]}
    (tmp_path / "captions.json").write_text(json.dumps(coco))
    write_file(tmp_path / "flat.csv", [{"name": "ab"[image > 7], "caption": text} for image, text in said])
    write_file(
        tmp_path / "rows.jsonl",
        [{"name": "a", "caption": ["a cup", "one cup"]}, {"name": "b", "caption": ["two cups"]}],
    )
    by_id = 'format = "object"\neach = "annotations"\nby_id = {image_id = "images.file_name"}\n'
    files = (("captions.json", by_id, "{image_id}"), ("flat.csv", "", "{name}.png"), ("rows.jsonl", "", "{name}.png"))
    galleries = []
    for file, keys, image in files:
        tables = f'{keys}[gallery]\nimage = "{image}"\ncaptions = "{{caption}}"\n'
        galleries.append(declared(tables, file=file, items=2))
    assert galleries[0] == galleries[1] == galleries[2]
    assert galleries[0].captions == ("a cup", "one cup", "two cups") and galleries[0].pairs == ((0, 0), (0, 1), (1, 2))


@pytest.mark.slow
def test_a_users_own_gallery_is_measured_both_ways(own, command):
    gallery = '[gallery]\nimage = "{left}"\ncaptions = "{words}"\n'
    own.write_text(OWN.split("[[item]]")[0] + gallery)
    one = find_benchmark(str(own))
    assert (one.task, one.items) == ("retrieval", 3)
    scores = {"image_ids": ["0", "1", "2"], "caption_ids": [str(k) for k in range(6)]}
    np.savez(own.with_name("scores.npz"), **scores, scores=np.repeat(np.eye(3), 2, axis=1))
    command("score", own, "--scores", own.with_name("scores.npz"), "--name", "x", "--out", "r", "--json", code=0)
    (measured,) = json.loads(Path("r/results.json").read_text())["benchmarks"].values()
    assert {measured["metrics"][f"{side}_recall@1"]["value"] for side in ("i2t", "t2i")} == {1.0}


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("title", "titel", ("'titel'", "'title'")),
        ('"{left}"', '"{left"', ("{name}", "{name.0}", "{name:012}", "{name|change}")),
        ('"{left}"', '"{left|base}"', ("{left|base}", "left")),
        ('"a {words.1} cup"', '"{words.1|list}"', ("'words.1'", "['...'", "'blue'")),
        ('"a {words.1} cup"', '"a {words.1|list}"', ("{words.1|list}", "list")),
        ('"a {words.1} cup"', '"{words|list:03}"', ("{words|list:03}", "words")),
        ('id = "{row}"', 'id = "{words|list}"', ("'item[0].id'", "{words|list}")),
        ("[[item]]", '[gallery]\nimage = "{left}"\ncaptions = "{words}"\n[[item]]', "[gallery]"),
        ('"{left}"', '"{middle}"', ("rows.jsonl:1", "'middle'")),
        ("{words.1}", "{words.2}", ("rows.jsonl:1", "'words.2'", "2")),
        ("{words.1}", "{words}", ("rows.jsonl:1", "'words'")),
        ("rows.jsonl", "none.jsonl", ("none.jsonl", "lacks")),
        ("rows.jsonl", "a" * 300, ("folder",)),  # before Python 3.13 with the name of an OSError
        ("rows.jsonl", "/rows.jsonl", ("'/rows.jsonl'", "NotImplementedError")),
        ("rows.jsonl", "[" * 100_000, ("4,096", "folder")),
        ("rows.jsonl", "**/**/rows.jsonl", ("4,096", "folder")),
        ("rows.jsonl", "", ("ValueError", "folder")),
        ("[[item]]", "items = 4\n[[item]]", ("3", "benchmark", "4")),
        ("[[item]]", "rows = 2\n[[item]]", ("3", "2", "rows")),
        ("[[item]]", 'x = 1\n[[question]]', ("'x'", "field")),
        ("[[item]]", 'load = "minimal_pairs:load_eqben"\n[[item]]', ("'load'", "field")),  # a set that ships may
        ('id = "{row}"', 'id = "same"', ("rows.jsonl:2", "id", "'same'", "rows.jsonl:1")),
        ('id = "{row}"', 'id = "{row}"\ntrue = 0', ("'true'", "2x2")),
        ("[[item]]", 'corrected = {0 = "b"}\n[[item]]', ("'corrected'", "[[question]]")),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_set_is_said(own, before, after, says):
    own.write_text(OWN.replace(before, after, 1))
    with raises(DataError, says):
        records_of(own)


@pytest.mark.parametrize(
    ("texts", "answer", "true"),
    [
        (["two", "three"], "three", 1),
        (["two", "three"], "1", 1),
        (["0", "1"], "1", 1),
        (["1", "2"], "1", None),
        (["10", "12"], "12", 1),
        (["2", "4", "6"], "6", 2),
        (["2", "5", "2"], "2", 2),
        (["1", "2", "3"], 1, 1),
    ],
)
def test_a_digit_that_is_a_place_and_another_text_is_not_guessed_at(declared, texts, answer, true):
    item = '[[item]]\nid = "{row}"\nimages = "{image}"\ntexts = "{texts}"\ntrue = "{answer}"\n'
    with raises(DataError, "rows.jsonl:1", "'1'", "place") if true is None else nullcontext():
        assert declared(item, [{"image": "0a.png", "texts": texts, "answer": answer}]).items[0].truths == (true,)


def test_ids_are_of_the_objects_of_their_row(declared):
    names = [["red", "blue"], ["blue", "green"], ["old", "new"]]
    rows: list[Row] = [
        {"things": [{"id": n, "name": f"a {one} cup"} for n, one in enumerate(two)], "of": [1, 0]} for two in names
    ]
    item = 'by_id = { of = "things.name" }\n[[item]]\nid = "{row}"\nimages = "0a.png"\ntexts = "{of}"\n'
    assert [item.texts for item in declared(item, rows).items] == [
        (f"a {two} cup", f"a {one} cup") for one, two in names
    ]
    rows[1]["things"].append({"id": 0, "name": "a white cup"})
    with raises(DataError, "rows.jsonl:2", "'things'", "id 0", "name"):
        declared(item, rows)


def test_a_row_of_another_type_and_texts_of_a_set_with_one_true_text_are_refused(own):
    with raises(DataError, "texts", "true"):
        find_benchmark(f"texts:{own}")
    assert find_benchmark("texts:sugarcrepe-pp", Locations()).task == "true-texts"
    rows = own.with_name("rows.jsonl")
    rows.write_text(rows.read_text().replace('"2a.png"', "7"))
    with raises(DataError, "rows.jsonl:3", "'left'", "7"):
        records_of(own)


def test_a_file_and_its_twin_are_joined_row_by_row(declared, tmp_path):
    for folder, true in (("data", "a red cup"), ("reworded", "a cup that is red")):
        rows = [{"image": f"{k}.png", "true": f"{true} {k}", "false": f"a blue cup {k}"} for k in range(2)]
        write_file(tmp_path / folder / "cups.json", rows)
    item = '[[item]]\nid = "{row}"\nimages = "{image}"\ntexts = ["{true}", "{joined.true}", "{false}"]\ntrue = [0, 1]\n'
    keys = {"file": "data/cups.json", "joined": "reworded", "shape": [1, 3], "true": 2}
    found = [one.texts[:2] for one in declared(item, **keys).items]
    assert found == [(f"a red cup {k}", f"a cup that is red {k}") for k in range(2)]
    write_file(tmp_path / "reworded" / "cups.json", rows[:1])
    with raises(DataError, "reworded", "1 rows", "2"):
        declared(item, **keys)


def test_statements_about_two_images_are_declared(declared, tmp_path):
    rows = [{"id": f"a-{k}", "text": "Both are red.", "label": k == 0} for k in range(2)]
    statement = 'id = "{id}"\nimages = ["a.png", "b.png"]\nsentence = "{text}"\nlabel = "{label|truth}"\n'
    found = declared(f"[[statement]]\n{statement}", rows)
    assert [(*one.images, one.gold) for one in found.rows] == [("a.png", "b.png", True), ("a.png", "b.png", False)]
    assert find_benchmark(str(tmp_path / "mine.toml"), Locations(tmp_path)).task == "nlvr2"
    with raises(DataError, "rows.jsonl:1", "label", "perhaps"):
        declared(f"[[statement]]\n{statement}", [rows[0] | {"label": "perhaps"}])


# Pairs in one file: any CSV, TSV, JSONL or parquet, its columns named, and what is wrong in it.

COLUMNS = {"image_0": "left", "image_1": "right", "caption_0": "first", "caption_1": "second", "tag:kind": "what"}
ROWS = [
    {"left": f"{k}_0.png", "right": f"{k}_1.png", "first": f"{k} cups; red", "second": f"{k} bowls", "what": "swap"}
    for k in range(4)
]


def shade(number: int) -> bytes:
    return plain((number * 20, 9, 9))


@pytest.fixture
def shades(tmp_path) -> Path:
    for k, side in product(range(4), (0, 1)):
        write_file(tmp_path / "shades" / f"{k}_{side}.png", shade(2 * k + side))
    return tmp_path / "shades"


def write_table(folder: Path, name: str, rows: list[dict[str, str]]) -> Path:
    data = file_bytes(name.removesuffix(".gz").replace(".tsv", ".csv"), rows)
    data = data.replace(b",", b"\t") if name.endswith(".tsv") else data
    (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return folder / name


@pytest.mark.parametrize("name", ["p.csv", "p.tsv", "p.jsonl", "p.csv.gz"])
def test_a_table_is_measured_and_read_again_with_its_columns_named(tmp_path, shades, name):
    path, out = write_table(tmp_path, name, ROWS), tmp_path / "run"
    typed = f"table:{path}" if "jsonl" in name else str(path)
    ta.evaluate("oracle", typed, images=shades, columns=COLUMNS, out=out)
    result = read_result(out)
    record = result.benchmarks[f"table:{name}"]
    assert (record.shape, record.metrics["group_score"].value, list(record.by)) == ((2, 2), 1.0, ["kind"])
    # Reports find the images again, though a record names no columns; and those of pairs that were read in Python.
    pairs = ta.load_pairs(f"table:{write_table(shades, name, ROWS)}", columns=COLUMNS)
    ta.score(pairs, np.eye(2)[None].repeat(4, 0), out=tmp_path / "scored")
    for run in (out, tmp_path / "scored"):
        read = ImageSources.of(run, read_result(run), f"table:{name}").reader()
        assert read is not None and read("3_1.png") == shade(7)
    assert set_name(typed) == f"table:{name}" and result.run.columns == COLUMNS
    assert set(ta.verify(out)["state"]) == {"equal"}
    write_table(tmp_path, name, [{**row, "first": "another"} for row in ROWS])
    assert "different" in ta.verify(out)["state"]


@pytest.mark.parametrize(
    ("typed", "folder", "meant"),
    [
        ("Left Side/0_0.PNG", ".", "did you mean 'left side/0_0.png'"),
        ("leftside/0_0.png", ".", "did you mean 'left side/0_0.png'"),
        ("left side/0_0.png", "left side", "images={shades}"),
        ("left side/o_0.png", ".", "name the folder"),
        ("left side/9_9.png", ".", "name the folder"),
        ("left sid/0_0.png", ".", "name the folder"),
        ("left side/0-0.png", ".", "did you mean '0_0.png'"),
    ],
)
def test_a_picture_that_is_not_there_is_answered_with_its_name_or_its_folder(tmp_path, shades, typed, folder, meant):
    write_file(shades / "left side" / "0_0.png", shade(0))
    path = write_table(tmp_path, "p.csv", [{"image": typed, "caption": "a cat", "foil": "a dog"}])
    with raises(DataError, "p.csv:2", typed, meant.format(shades=shades), field="image"):
        read_pair_table(path, Locations(images=shades / folder))


def test_wrong_columns_are_named_with_the_near_ones(tmp_path, shades):
    path = write_table(shades, "p.csv", ROWS)
    gone = write_table(shades, "gone.csv", [ROWS[0] | {"left": "gone.png"}])
    near = write_table(shades, "near.csv", [{"image_0": "0_0.png", "captoin_0": "a", "captoin_1": "b"}])
    single = write_table(shades, "single.csv", [{"image": "0_0.png", "caption": "a", "negative": "b"}])
    meant = "did you mean '{}'".format
    for typed, columns, kind, field, facts in (
        (path, {**COLUMNS, "image_0": "lefft"}, DataError, "image_0", ("p.csv:2", "'lefft'", meant("left"))),
        (path, {"pictures": "left"}, DataError, None, ("'pictures'", "image_0", "tag:NAME")),
        (path, None, DataError, None, ("p.csv:2", "file_name", "left, right", "columns=")),
        (path, {"left": "image_0"}, DataError, None, ("p.csv:2", "columns={'image_0': 'left'}")),
        (gone, COLUMNS, DataError, "image_0", ("gone.csv:2", "'gone.png'")),
        (near, None, DataError, "captoin_0", ("near.csv:2", "'captoin_0'", meant("caption_0"))),
        (single, None, DataError, None, ("single.csv", "'negative_caption'", "'image_1'", "'negative'", "columns=")),
        (f"folder:{path}", None, DataError, None, (str(path), "table:")),
        ("demo", COLUMNS, RunError, None, ("columns=", "table:FILE", "demo")),
        (path, "image_0=left", RunError, None, ("columns='image_0=left'", "mapping")),
    ):
        with raises(kind, *facts, field=field):
            ta.load_pairs(str(typed), columns=columns)
    with raises(RunError, "columns=", "table:FILE", str(shades)):
        ta.evaluate("oracle", str(shades), columns=COLUMNS)


def test_a_field_takes_no_other_field_s_column_while_its_own_is_lost(tmp_path, shades):
    rows = [{field: row[column] for field, column in COLUMNS.items()} for row in ROWS]
    path = write_table(shades, "p.csv", rows)
    with raises(DataError, "p.csv:2", "columns={'caption_0': 'caption_1'}", "'caption_0'"):
        ta.load_pairs(f"table:{path}", columns={"caption_0": "caption_1"})
    turned = ta.load_pairs(f"table:{path}", columns={"caption_0": "caption_1", "caption_1": "caption_0"})
    assert [item.texts for item in turned.items] == [(row["caption_1"], row["caption_0"]) for row in rows]


def test_the_command_line_takes_columns(command, tmp_path, shades):
    given = ("run", "-m", "oracle", "-b", write_table(tmp_path, "p.csv", ROWS), "--images", shades, "--out", "r")
    columns = ",".join(f"{field}={column}" for field, column in COLUMNS.items())
    ran = command(*given, "--columns", columns, "--json", code=0)
    assert "table:p.csv" in ran.json["runs"][0]["benchmarks"]
    ran = command(*given, "--columns", "image_0", code=2)
    assert ran.err.count("\n") == 1 and "FIELD=COLUMN" in ran.err
    assert "--columns image_0=COLUMN,image_1=COLUMN" in command(*given).err


def test_a_card_next_to_a_table_is_the_sets_card(tmp_path, shades):
    path = write_table(tmp_path, "p.csv", ROWS)
    place = Locations(images=shades, columns=tuple(COLUMNS.items()))
    without = read_pair_table(path, place)
    (tmp_path / "card.json").write_text(json.dumps({"title": "Cups", "frames": 4, "datasheet": {"purpose": "To test"}}))
    pairs = read_pair_table(path, place)
    assert (without.card, pairs.card["title"], pairs.frames) == ({}, "Cups", 4)
    card = markdown(make_card(pairs, audit(pairs, Options(pictures=False))))
    check_facts(card, "# Cups", "To test")
    (tmp_path / "card.json").write_text("[]")
    with raises(DataError, "card.json"):
        read_pair_table(path, place)


def test_parquet_holds_bytes_in_a_struct_or_alone_or_names_files_and_no_other_column_hides_them(shades):
    paths = sorted(shades.glob("*.png"))[:2]
    names, data = [path.name for path in paths], [path.read_bytes() for path in paths]
    path, texts = shades / "pairs.parquet", {"caption_0": ["a", "b"], "caption_1": ["x", "y"]}
    structs = [{"bytes": one, "path": None} for one in data]
    for left in (structs, data, [{"bytes": None, "path": name} for name in names]):
        write_file(path, {"left-image": left, "right": left[::-1], **texts})
        pairs = ta.load_pairs(str(path), columns={"image_0": "left-image", "image_1": "right"})
        assert (pairs.shape, pairs.items[1].texts) == ((2, 2), ("b", "y"))
        assert [pairs.read_bytes(image) for image in pairs.items[1].images] == data[::-1]
    other: dict[str, Any] = {"embedding": [b"1", b"2"], "cluster": [7, 7], "day": [date(2026, 11, 30)] * 2}
    # 0.1 in CSV and JSON, too, and not 0.10000000149011612
    other |= {"size": [math.nan] * 2, "tag:level": np.float32([0.1, math.nan])}
    write_file(path, {"image": names, **other, **texts})
    pairs = ta.load_pairs(str(path))
    assert [pairs.read_bytes(item.images[0]) for item in pairs.items] == data
    assert {item.cluster for item in pairs.items} == {"7"}
    assert [item.tags for item in pairs.items] == [{"level": "0.1"}, {}]
    assert pairs.items[0].provenance.items() >= {"day": "2026-11-30", "size": None}.items()


def test_rows_with_several_entries_or_none_show_their_own_pictures_in_every_shard(declared, tmp_path):
    for shard, rows in enumerate(([0, 1], [2, 3])):
        asked = [{"q": f"{k}{entry}"} for k in rows for entry in "ab"]
        table = {"image": [shade(k) for k in rows], "asked": [asked[:2], asked[2:]] if shard else [asked, []]}
        write_file(tmp_path / f"a-{shard}.parquet", table)

    def shown(item: str, **keys: object) -> list[bytes]:
        pairs = declared(f"[[item]]\n{item}", file="a-*.parquet", **keys)
        return [pairs.read_bytes(image) for one in pairs.items for image in one.images]

    found = shown('id = "{q}"\nimages = "@image"\ntexts = ["{q}", "no"]\n', each="asked")
    assert found == [shade(row) for row in (0, 0, 0, 0, 2, 2, 3, 3)]
    two = 'id = "{file}"\nimages = ["@1.image", "@0.image"]\ntexts = ["a", "b"]\n'
    assert shown(two, rows=2) == [shade(row) for row in (1, 0, 3, 2)]
    with raises(DataError, "@1.image", "rows"):
        shown(two)
    write_file(tmp_path / "a-0.parquet", {"image": [shade(1)], "box": [[0, 0, 2, 3]]})
    (tmp_path / "a-1.parquet").unlink()
    (cut,) = shown('id = "0"\nimages = "@image"\ntexts = ["a", "b"]\ncrop = "box"\n')
    assert decode(cut, "").shape == (3, 2, 3)
    write_file(tmp_path / "a-0.parquet", {"image": [shade(1), shade(2)]})  # a file of pictures alone has rows, too
    assert shown('id = "{row}"\nimages = "@image"\ntexts = ["a", "b"]\n') == [shade(1), shade(2)]


@pytest.mark.parametrize("true", [2, "2", "2.0", " 2", [2], "[2]"])
def test_the_true_text_of_a_table_stands_where_it_says(shades, true):
    def read(*rows: Row, **columns: str) -> PairSet:
        return ta.load_pairs(f"table:{write_file(shades / 'pairs.jsonl', rows)}", columns=columns)

    row = {"image": "0_0.png", "caption_0": "a", "caption_1": "b", "caption_2": "c"}
    pairs = read(row | {"answer": true}, true="answer")
    assert pairs.items[0].true == (2,) and not pairs.items[0].provenance and "true" in pairs.read_as
    with raises(DataError, "'true'", "'b'", "place"):
        read(row | {"answer": "b"}, true="answer")
    with raises(DataError, "row-2", "'true'", "'b'"):  # no first text by default
        read(row | {"true": true}, row | {"true": "b"})
    for empty in ([], "[]"):  # a CSV file has a list's text; the first row may be the empty one
        pairs = read(row | {"true": empty}, row | {"true": true})
        assert [item.truths for item in pairs.items] == [(0,), (2,)] and "only kept" not in pairs.read_as
    for several in ("[0, 2]", "[0 2]"):
        assert read(row | {"true": several}).items[0].truths == (0, 2)
    of_squares = {"image_0": "0_0.png", "image_1": "0_1.png", "caption_0": "a", "caption_1": "b", "true": true}
    assert read(of_squares).items[0].provenance == {"true": true}


def test_ratings_are_decimal_numbers_and_a_packed_file_has_the_plain_one_s_name(declared, tmp_path):
    rows = [{"image": f"{k}.png", "text": "a cup", "ratings": [k + 0.25, 4], "level": k / 2} for k in range(3)]
    write_table(tmp_path, "rows.jsonl.gz", rows)
    rating = 'id = "{row}"\nimage = "{image}"\ntext = "{text}"\nratings = "{ratings}"\n'
    rating += 'tags = { file = "{file}", level = "{level}" }\n'

    def counted(key: str, count: int) -> list[Any]:
        return declared(f"counts = {{ {key} = {count} }}\n[[rating]]\n{rating}", file="rows.jsonl.gz").rows

    assert [(row.gold, row.tags) for row in counted("rows", 3)] == [
        ((k + 0.25, 4), {"file": "rows", "level": level}) for k, level in enumerate(("0", "0.5", "1"))
    ]
    for key in ("rows", '"rows.jsonl"'):  # as sets wrote it before
        with raises(DataError, "rows.jsonl.gz", "3 rows", "4"):
            counted(key, 4)


def test_pictures_as_text_words_for_blanks_and_a_missing_header_are_answered(shades):
    name, line = "0_0.png", "0_0.png,a cat,a dog\n"
    row = {"image": name, "caption": "nan", "negative_caption": "a dog"}
    with pytest.warns(TellapartWarning, match=r"blank\.csv.*1 of its captions.*'nan'.*'row-1'"):
        read_pair_table(write_table(shades, "blank.csv", [row]), Locations())
    several = [row | {"caption": "a cat", "cluster": "nan"}] * 2  # all items without one would be resampled as one
    with pytest.warns(TellapartWarning, match=r"missing\.csv.*2 items are one cluster.*'nan'"):
        read_pair_table(write_table(shades, "missing.csv", several), Locations())
    for file, content, facts in (
        ("coded.csv", [row | {"image": "iVBORw0K" * 40}], ("coded.csv:2", "'image'", "base64")),
        ("bare.csv", line, ("bare.csv", "first line names the columns")),
        ("bare.csv", line * 2, ("bare.csv:2", name, "first line", "line above")),
        ("upper.csv", [row | {"image": name.upper()}], ("upper.csv:2", name.upper(), f"did you mean '{name}'")),
    ):
        with raises(DataError, facts):
            read_pair_table(write_file(shades / file, content), Locations())


# Images of the user's own sets: below `--images`, in the set's folder, and elsewhere by a word of the user's alone.


@pytest.fixture
def photos(tmp_path) -> Path:
    """A collection that nobody copies: `val/0.png` to `val/3.png`."""
    for number in range(4):
        write_file(tmp_path / "photos" / "val" / f"{number}.png", draw(number, size=16))
    return tmp_path / "photos"


@pytest.fixture
def write(tmp_path) -> Callable[..., Path]:
    """Write a set of two 2x2 items whose images have names with their numbers."""

    def make(image: object, name: str = "mine") -> Path:
        names = [str(image).format(number) for number in range(4)]
        rows = [record(id=f"{k}", images=names[2 * k : 2 * k + 2]) for k in range(2)]
        return put(tmp_path / name, rows, images={})

    return make


@pytest.fixture(params=["absolute", "dots", "link"])
def outside(request, write, photos, tmp_path) -> Path:
    """A set whose images lie outside of its folder, in each of the ways that there are."""
    val = photos / "val"
    folder = write({"absolute": val / "{}.png", "dots": "../photos/val/{}.png", "link": "{}.png"}[request.param])
    if request.param == "link":
        for path in val.iterdir():
            (folder / path.name).symlink_to(path)
    return folder


def test_images_of_a_folder_are_looked_for_under_images_as_those_of_any_benchmark(write, photos):
    folder = write("{}.png")
    with raises(DataError, "pairs.jsonl:1", "'images[0]'", "'0.png'", "images="):
        load_pairs(f"folder:{folder}")
    for images in (photos / "val", photos):  # in it, or one folder deeper
        assert load_pairs(f"folder:{folder}", Locations(images=images)).read_bytes("3.png") == draw(3, size=16)
    # A dataset's listing may leave the suffix out.
    row = {"image_0": "0", "image_1": "1", "caption_0": "one cup", "caption_1": "two cups"}
    write_file(folder / "metadata.jsonl", [row])
    (folder / "pairs.jsonl").unlink()
    pairs = load_pairs(f"folder:{folder}", Locations(images=photos))
    assert pairs.items[0].images == ("0.png", "1.png")
    assert pairs.read_bytes("1.png") == draw(1, size=16)


def test_a_folder_of_the_sets_name_comes_before_the_folder_itself_and_the_sets_own_comes_last(write, photos):
    folder = write("{}.png")
    write_file(photos / "mine" / "0.png", draw(10))
    for number in range(4):
        (folder / f"{number}.png").write_bytes(draw(20 + number))
    pairs = load_pairs(f"folder:{folder}", Locations(images=photos))
    assert (pairs.read_bytes("0.png"), pairs.read_bytes("1.png")) == (draw(10), draw(21))
    assert load_pairs(f"folder:{folder}").read_bytes("0.png") == draw(20)


def test_where_images_lie_changes_no_number_and_no_fingerprint(command, write, photos):
    write("{}.png")
    own = write("images/{}.png", "own")
    (photos / "val").rename(own / "images")
    (photos / "val").symlink_to(own / "images")
    common = ("run", "-m", "bag-of-words", "-m", "random", "--no-cache", "--json")
    there = command(*common, "-b", "folder:mine", "--images", photos / "val", "--out", "a").json["runs"]
    here = command(*common, "-b", "folder:own", "--out", "b").json["runs"]
    for one, other in zip(there, here, strict=True):
        (mine,), (others,) = one["benchmarks"].values(), other["benchmarks"].values()
        assert (mine["fingerprint"], mine["metrics"]) == (others["fingerprint"], others["metrics"])
    assert count_pictures("a") == count_pictures("b") > 0


def test_images_outside_are_read_if_that_is_allowed_and_refused_by_an_error_that_names_the_option(outside):
    for place, facts in ((Locations(), ("pairs.jsonl:1", "'images[0]'")), (Locations(images=outside), ())):
        with raises(DataError, "outside_images=True", *facts):
            load_pairs(f"folder:{outside}", place)
    pairs = load_pairs(f"folder:{outside}", Locations(outside=True))
    assert [pairs.read_bytes(image) for image in pairs.items[1].images] == [draw(2, size=16), draw(3, size=16)]


def test_what_is_allowed_for_images_is_a_picture_still(write, tmp_path):
    (tmp_path / "secret.txt").write_text("secret")
    for reference, said in (("../secret.txt", ("image", ".webp")), ("https://a/b.png", "address")):
        with raises(DataError, said):
            load_pairs(f"folder:{write(reference)}", Locations(outside=True))


def count_pictures(run: str) -> int:
    return Path(run, "report.html").read_text("utf-8").count("data:image/")


@pytest.mark.few(2)
def test_a_run_shows_pictures_from_outside_and_show_does_so_only_if_told_again(command, outside):
    given = ("run", "-m", "random", "-b", f"folder:{outside}", "--out", "r")
    refused = command(*given)
    assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1)
    assert "--outside-images" in refused.err
    command(*given, "--outside-images", code=0)
    pictures = count_pictures("r")
    record = json.loads(Path("r/results.json").read_text())
    assert "outside" in record["run"].pop("command")
    assert "outside" not in json.dumps(record)  # or a stranger's run would allow itself what it likes
    check_facts(command("show", "r").err, "warning", "report", "--outside-images")
    Path("r/report.html").unlink()
    command("show", "r")
    assert count_pictures("r") == 0
    shown = command("show", "r", "--outside-images")
    assert (shown.code, shown.err) == (0, "")
    assert count_pictures("r") == pictures > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("export", "folder:mine", "--to", "TO.csv"),
        ("audit", "mine"),
        ("annotate", "export", "match", "folder:mine", "--to", "TO"),
        ("time", "-m", "random", "-b", "folder:mine", "--repeats", "1", "--warm-up", "1", "--batch-size", "2"),
        ("score", "folder:mine", "--scores", "scores.csv", "--out", "TO"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_every_command_that_reads_a_folder_takes_both_options(command, write, photos, tmp_path, arguments):
    scores = [{"id": k, "image": i, "text": t, "score": i + t} for k, i, t in product(range(2), repeat=3)]
    write_file(tmp_path / "scores.csv", scores)
    write(photos / "val" / "{}.png")
    assert "--outside-images" in command(*arguments, code=2).err
    command(*(argument.replace("TO", "allowed") for argument in arguments), "--outside-images", code=0)
    write("{}.png")
    command(*(argument.replace("TO", "below") for argument in arguments), "--images", photos, code=0)


@pytest.mark.parametrize("listing", ["pairs.jsonl", "metadata.csv", "pairs.csv", "pairs.tsv", "pairs.parquet"])
def test_absolute_paths_inside_the_folder_are_read_and_become_relative(photos, listing):
    images = [[str(photos / "val" / f"{2 * k + side}.png") for side in (0, 1)] for k in range(2)]
    table = [{"image_0": a, "image_1": b, "caption_0": "a cup", "caption_1": "two cups"} for a, b in images]
    if listing == "pairs.jsonl":
        write_file(photos / listing, [record(id=str(k), images=names) for k, names in enumerate(images)])
    else:
        write_table(photos, listing, table)
    kind = "folder:{}" if listing in {"pairs.jsonl", "metadata.csv"} else "table:{}/" + listing
    # The folder's name may go through a link, in the file or on the command line.
    link, elsewhere = photos.parent / "link", photos.parent / "elsewhere"
    link.symlink_to(photos)
    for name in (kind.format(photos), kind.format(link)):
        pairs = load_pairs(name)
        assert pairs.items[1].images == ("val/2.png", "val/3.png")
        assert pairs.read_bytes("val/3.png") == (photos / "val" / "3.png").read_bytes()
    elsewhere.mkdir()
    (photos / listing).rename(elsewhere / listing)
    with raises(DataError, f"{photos}/val/0.png", "absolute", elsewhere, "images=", "outside_images=True"):
        load_pairs(kind.format(elsewhere))
    below = load_pairs(kind.format(elsewhere), Locations(images=photos))
    assert below.items[0].images == ("val/0.png", "val/1.png")
    assert below.read_bytes("val/1.png") == (photos / "val" / "1.png").read_bytes()


def test_an_absolute_path_leads_out_of_the_folder_by_no_way_and_to_none_that_comes_before(photos, tmp_path):
    write_file(tmp_path / "secret.png", draw(8))
    (photos / "link.png").symlink_to(tmp_path / "secret.png")
    (photos / "up").symlink_to(tmp_path)
    images = FolderImages(photos)
    for way in ("../secret.png", "link.png", "up/secret.png", "up/../secret.png", "val/../../secret.png"):
        with raises(DataError, "outside_images=True"):
            images.find(f"{photos}/{way}")
    with raises(DataError, "absolute"):
        images.find(f"{photos}-2/val/0.png")
    picture = write_file(tmp_path / "mine" / "val" / "0.png", draw(9))
    images = FolderImages(photos, also=tmp_path / "mine")
    with raises(DataError, picture, "absolute"):  # 'val/0.png' is another picture in the first folder
        images.find(str(picture))
    picture = picture.rename(picture.with_name("9.png"))
    assert images.find(str(picture)) == picture.resolve()


@pytest.mark.parametrize(
    ("kind", "listing", "said"), [("folder", "pairs.jsonl", "absolute"), ("table", "p.jsonl", "write_pair_set")]
)
def test_croissant_metadata_are_written_only_of_a_file_that_finds_its_images(command, photos, kind, listing, said):
    images = [str(photos / "val" / f"{k}.png") for k in (0, 1)]
    table = dict(zip(("image_0", "image_1", "text_0", "text_1"), (*images, "one cup", "two cups"), strict=True))
    write_file(photos / listing, [record(images=images) if kind == "folder" else table])
    ran = command("audit", f"table:photos/{listing}" if kind == "table" else "folder:photos", "--to", "card")
    assert not Path("card/croissant.json").exists()
    check_facts(ran.out, "no croissant.json", said)
