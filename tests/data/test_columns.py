"""Columns of a table of pairs: names that are nearly read are refused, others are kept, a run names those it reads."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tellapart as ta
from facts import check_facts, raises
from sets import write_file
from tellapart.benchmarks import set_file
from tellapart.benchmarks.find import find_benchmark
from tellapart.data.columns import describe_columns, fields_of
from tellapart.data.folder import read_pair_set
from tellapart.errors import DataError, ScoreError, TellapartError
from tellapart.models.memory.external import read_scores, read_vectors
from tellapart.training.data.rows import table_rows

I0, I1 = "images/0.png", "images/1.png"
IMAGES = {"image_0": I0, "image_1": I1}
PAIRS = {**IMAGES, "caption_0": "a red cup", "caption_1": "a blue cup"}
CHOICE = {"image": I0, "caption": "a red cup", "foil": "a blue cup"}


def renamed(row: dict[str, Any], **names: str) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in row.items()}


#: A row with one column that is nearly read, that column, and the name it should have.
NEAR: dict[str, tuple[dict[str, Any], str, str]] = {
    "capital": (renamed(PAIRS, caption_0="Caption_0"), "Caption_0", "caption_0"),
    "plural": (renamed(PAIRS, caption_0="captions_0"), "captions_0", "caption_0"),
    "hyphen": (renamed(PAIRS, caption_0="caption-0"), "caption-0", "caption_0"),
    "space": (renamed(PAIRS, caption_1="caption_1 "), "caption_1 ", "caption_1"),
    "no mark": (renamed(PAIRS, caption_1="CAPTION1"), "CAPTION1", "caption_1"),
    "full width": (renamed(PAIRS, caption_0="\uff43aption_0"), "\uff43aption_0", "caption_0"),
    "another script": (renamed(PAIRS, caption_0="\u0441aption_0"), "\u0441aption_0", "caption_0"),
    "exchanged letters": (renamed(PAIRS, image_1="imgae_1"), "imgae_1", "image_1"),
    "a letter less": (renamed(PAIRS, caption_1="capton_1"), "capton_1", "caption_1"),
    "a letter more": (renamed(PAIRS, image_0="immage_0"), "immage_0", "image_0"),
    "text": ({**IMAGES, "Text_0": "x", "text_1": "y"}, "Text_0", "text_0"),
    "text, a letter": ({**IMAGES, "text_0": "x", "test_1": "y"}, "test_1", "text_1"),
    "file name": ({**PAIRS, "Image_2_FileName": I0}, "Image_2_FileName", "image_2"),
    "true caption": (renamed(CHOICE, caption="Caption") | {"negative_caption": "no cup"}, "Caption", "caption"),
    "a second foil": ({**CHOICE, "Foil": "a green cup"}, "Foil", "foil"),
    "numbered foil": ({**CHOICE, "negative_caption_2": "a green cup"}, "negative_caption_2", "caption_2"),
    "list": ({**CHOICE, "Texts": ["a", "b"]}, "Texts", "texts"),
    "id": ({**PAIRS, "ID": "7"}, "ID", "id"),
    "cluster": ({**PAIRS, "Cluster": "v"}, "Cluster", "cluster"),
    "tag": ({**PAIRS, "Tag:kind": "swap"}, "Tag:kind", "tag:kind"),
}


@pytest.mark.parametrize("kind", NEAR)
def test_a_column_that_is_nearly_read_is_refused_with_the_name_it_should_have(folder, kind):
    row, column, meant = NEAR[kind]
    home = folder([row], "metadata.jsonl")
    with raises(DataError, "metadata.jsonl:1", f"did you mean {meant!r}", field=column):
        read_pair_set(home)
    (home / "p.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    with raises(DataError, "p.jsonl:1", f"did you mean {meant!r}", field=column):
        find_benchmark(f"table:{home / 'p.jsonl'}")


#: Columns that tables of pairs have, and that are none of images and texts.
ORDINARY = [
    "caption_id", "caption_source", "caption_0_source", "caption_length", "captions", "caption_model", "image_id",
    "image_url", "image_0_url", "image_0_width", "images", "filename", "filepath_0", "text", "text_length", "title",
    "option_0", "option_1", "action_1", "test_0", "next_1", "page_2", "context_0", "tag", "secondary_tag", "type",
    "label", "ids", "clusters", "idx", "index", "uid", "split_1", "version_2", "caption_2014_year", "negative",
    "source", "score.1", "0", "", "\u2116 1",
]  # fmt: skip


@pytest.mark.parametrize("row", [PAIRS, CHOICE])
def test_ordinary_columns_are_kept(row):
    kept = dict.fromkeys(ORDINARY, "x")
    fields, _ = fields_of(print, {**row, **kept})
    assert (fields["provenance"], fields["texts"]) == (kept, ["a red cup", "a blue cup"])


#: Rows whose columns contradict each other, with the columns.
CONTRARY: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "other beginnings": ({**IMAGES, "caption_1": "x", "caption_2": "y"}, ("'image_0'", "'caption_1'")),
    "one text from one": ({**IMAGES, "caption_1": "x"}, ("'image_0'", "'caption_1'")),
    "another word": (renamed(PAIRS, caption_0="title_0"), ("'image_0'", "'caption_1'", "'title_0' would not be read")),
    "no shape": (
        {**IMAGES, "caption_0": "x", "caption_1": "y", "caption_2": "z"},
        ("2 images", "3 texts", "caption_2"),
    ),
    "no shape of lists": ({"file_names": [I0, I1, I0], "texts": ["x", "y"]}, ("3 images", "2 texts")),
    "two words": ({"image": I0, "caption_0": "x", "text_1": "y"}, ("'caption_0'", "'text_1'")),
    "numbered and foil": ({"image": I0, "caption_0": "x", "foil": "y"}, ("'caption_0'", "'foil'")),
    "numbered and bare": ({**IMAGES, "caption": "x", "caption_1": "y"}, ("'caption_1'", "'caption'")),
    "text and text_1": ({"image": I0, "text": "x", "text_1": "y", "text_2": "z"}, ("'text_1'", "'text'")),
    "image and image_1": ({"image": I0, "image_1": I1, "caption": "x", "foil": "y"}, ("'image_1'", "'image'")),
    "list and columns": ({"image": I0, "texts": ["x", "y"], "caption": "x"}, ("'texts'", "'caption'")),
    "no true text": ({"image": I0, "foil": "x", "negative_caption": "y"}, ("'negative_caption'", "'caption'")),
    "pandas's second": ({**PAIRS, "caption_0.1": "z"}, ("'caption_0.1'", "'caption_0'")),
    "pandas's second foil": ({**CHOICE, "foil.1": "z"}, ("'foil.1'", "'foil'")),
    "tags twice": ({**PAIRS, "tags": {"a": "b"}, "tag:c": "d"}, ("'tags'", "'tag:c'")),
    "a tag of several values": ({**PAIRS, "tags": {"kind": ["swap"]}}, ("tags",)),
}


@pytest.mark.parametrize("kind", CONTRARY)
def test_columns_that_contradict_each_other_are_refused(folder, kind):
    row, facts = CONTRARY[kind]
    with raises(DataError, "metadata.jsonl:1", *facts):
        read_pair_set(folder([row], "metadata.jsonl"))


def test_tags_of_a_listing_are_read_as_those_of_a_table(folder):
    item = read_pair_set(folder([{**PAIRS, "tag:kind": "swap", "tag:n": 2}], "metadata.jsonl")).items[0]
    assert (item.tags, item.provenance) == ({"kind": "swap", "n": "2"}, {})
    assert describe_columns({**CHOICE, "tags": {"kind": "swap"}}, (1, 2)).endswith("foil; tags: an object")
    many = {"image": I0, **{f"caption_{k}": "x" for k in range(11)}}
    assert describe_columns(many, (1, 11)).endswith("caption_7, caption_8 and 2 more")
    assert read_pair_set(folder([{"id": "a", "images": [I0], "texts": ["x", "y"]}])).read_as == ""
    assert fields_of(str, {"image": I0, "caption": "a", "true": 1})[0]["provenance"] == {"true": 1}  # of nothing
    arrow = {**CHOICE, "cluster": None, "tags": {"kind": "swap", "level": None}}  # of rows with other tags
    fields, _ = fields_of(str, arrow)
    assert fields["tags"] == {"kind": "swap"} and "cluster" not in fields


@pytest.mark.parametrize("cell", ["", "  ", None, float("nan")])
def test_an_empty_cell_is_no_tag(cell):
    # Else it is a value of the tag, and counts in the mean over its values.
    for tags in ({"tag:kind": cell, "tag:n": 0}, {"tags": {"kind": cell, "n": 0}}):
        assert fields_of(print, {**CHOICE, **tags})[0]["tags"] == {"n": "0"}


def test_a_run_begins_with_the_columns_it_read(command, folder):
    rows = [{**PAIRS, "id": str(k), "tag:kind": "swap", "url": "u", "first": "a cup"} for k in range(3)]
    home = folder([renamed(row, caption_0="left") for row in rows], "metadata.jsonl")
    columns = "2 images x 2 texts from image_0, image_1, left as caption_0, caption_1; tags: 1 column; only kept: "
    columns += "url, first"
    path = write_file(home / "p.csv", [renamed(row, caption_0="left") for row in rows])
    given = ("--columns", "caption_0=left")
    ran = command("run", "-m", "oracle", "-b", path, *given, "--quiet", "--out", "r", code=0)
    assert ran.out.splitlines()[0] == f"table:p.csv: {columns}"
    assert json.loads(Path("r/results.json").read_text())["benchmarks"]["table:p.csv"]["read_as"] == columns
    check_facts(Path("r/report.html").read_text(), f"read as {columns}")
    audited = command("audit", path, *given, "--quiet", "--no-images")
    assert audited.out.splitlines()[0] == f"table:p.csv: {columns}"
    command("export", path, *given, "--to", "scores.csv", code=0)
    lines = Path("scores.csv").read_text().splitlines()
    Path("scores.csv").write_text("\n".join([lines[0], *(line.replace(",,", ",0.5,", 1) for line in lines[1:])]))
    scored = command("score", path, *given, "--scores", "scores.csv", "--out", "s", code=0)
    assert scored.out.splitlines()[0] == f"table:p.csv: {columns}; read from field score"


def write_twice(path: Path, *columns: tuple[str, Any]) -> None:
    """Write a parquet file of these columns, names that occur twice and all."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    arrays = [arrow.array(values) for _, values in columns]
    parquet.write_table(arrow.Table.from_arrays(arrays, names=[name for name, _ in columns]), path)


def write_text(path: Path, *columns: tuple[str, Any]) -> None:
    mark = "\t" if path.suffix == ".tsv" else ","
    rows = zip(*(values for _, values in columns), strict=True)
    lines = [mark.join(name for name, _ in columns), *(mark.join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n")


_PAIRS = {"image": [I0], "caption": ["true"], "foil": ["false"], "url": ["u"]}
_SCORES = {"id": ["a", "a"], "image": [0, 0], "text": [0, 1], "score": [0.9, 0.1], "note": ["", ""]}
_VECTORS = {"id": ["a"], "vector": [[0.6, 0.8]], "note": [""]}
_ROWS = {"title": ["x"], "filepath": ["a.png"], "neg_caption": ["['y']"], "neg_image": ["[]"]}

#: A table -> its columns, and what reads it.
TABLES: dict[str, tuple[dict[str, list[Any]], Callable[[Path], Any]]] = {
    **{f"pairs.{kind}": (_PAIRS, lambda path: ta.load_pairs(f"table:{path}")) for kind in ("csv", "tsv", "parquet")},
    **{
        f"scores.{kind}": (_SCORES, lambda path: read_scores(path, ids=["a"], shape=(1, 2)))
        for kind in ("csv", "parquet")
    },
    "vectors.parquet": (_VECTORS, read_vectors),
    "set.parquet": ({"id": ["1"], "caption": ["x"]}, lambda path: list(set_file.read_rows(path))),
    "training.tsv": (_ROWS, lambda path: list(table_rows(path, {}))),
}


@pytest.mark.parametrize(("file", "name"), [(file, name) for file, (columns, _) in TABLES.items() for name in columns])
def test_a_table_with_a_name_twice_is_refused_by_its_reader(folder, file, name):
    path = folder([{"id": "a", "images": [I0], "texts": ["x", "y"]}]) / file
    columns, read = TABLES[file]
    write = write_twice if path.suffix == ".parquet" else write_text
    write(path, *columns.items())
    read(path)
    write(path, *columns.items(), (name, columns[name]))
    with raises(TellapartError, file, name):
        read(path)


@pytest.mark.parametrize("name", ["ids", "vectors"])
def test_vectors_with_two_names_of_one_column_are_refused(tmp_path, name):
    write_twice(tmp_path / "v.parquet", *_VECTORS.items(), (name, _VECTORS[name[:-1]]))
    with raises(ScoreError, "v.parquet", name):
        read_vectors(tmp_path / "v.parquet")


def test_a_name_twice_within_a_column_is_refused(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    both = arrow.StructArray.from_arrays([arrow.array(["swap"]), arrow.array(["add"])], names=["kind", "kind"])
    names, cells = ["image", "caption", "foil", "tags"], [[I0], ["x"], ["y"], both]
    parquet.write_table(
        arrow.Table.from_arrays([*map(arrow.array, cells[:3]), both], names=names), tmp_path / "p.parquet"
    )
    with raises(DataError, "p.parquet", "'kind' is repeated"):
        ta.load_pairs(f"table:{tmp_path / 'p.parquet'}")
