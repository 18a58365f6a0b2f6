"""Columns of a table of pairs: names that are nearly read are refused, others are kept, a run names those it reads."""

import json
from collections.abc import Callable
from itertools import product
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
#: A row with one column that is nearly read, that column, and the name it should have.
NEAR: list[tuple[dict[str, Any], str, str]] = [
    *(
        (renamed(PAIRS, **{meant: column}), column, meant)
        for meant, columns in {
            "caption_0": ("Caption_0", "captions_0", "caption-0", "\uff43aption_0", "\u0441aption_0"),
            "caption_1": ("caption_1 ", "CAPTION1", "capton_1"),
            "image_0": ("immage_0",),
            "image_1": ("imgae_1",),
        }.items()
        for column in columns
    ),
    ({**IMAGES, "Text_0": "x", "text_1": "y"}, "Text_0", "text_0"),
    ({**IMAGES, "text_0": "x", "test_1": "y"}, "test_1", "text_1"),
    ({**PAIRS, "Image_2_FileName": I0}, "Image_2_FileName", "image_2"),
    (renamed(CHOICE, caption="Caption") | {"negative_caption": "no cup"}, "Caption", "caption"),
    ({**CHOICE, "Foil": "a green cup"}, "Foil", "foil"),
    ({**CHOICE, "negative_caption_2": "a green cup"}, "negative_caption_2", "caption_2"),
    ({**CHOICE, "Texts": ["a", "b"]}, "Texts", "texts"),
    ({**PAIRS, "ID": "7"}, "ID", "id"),
    ({**PAIRS, "Cluster": "v"}, "Cluster", "cluster"),
    ({**PAIRS, "Tag:kind": "swap"}, "Tag:kind", "tag:kind"),
]


@pytest.mark.parametrize(("row", "column", "meant"), NEAR, ids=[column for _, column, _ in NEAR])
def test_a_column_that_is_nearly_read_is_refused_with_the_name_it_should_have(folder, row, column, meant):
    home = folder([row], "metadata.jsonl")
    table = write_file(home / "p.jsonl", [row])
    for read, name in ((read_pair_set, home), (find_benchmark, f"table:{table}")):
        file = "metadata.jsonl" if name == home else "p.jsonl"
        with raises(DataError, f"{file}:1", f"did you mean {meant!r}", field=column):
            read(name)


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
#: Rows whose columns contradict each other, with the columns.
CONTRARY: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({**IMAGES, "caption_1": "x", "caption_2": "y"}, ("'image_0'", "'caption_1'")),
    ({**IMAGES, "caption_1": "x"}, ("'image_0'", "'caption_1'")),
    (renamed(PAIRS, caption_0="title_0"), ("'image_0'", "'caption_1'", "'title_0' would not be read")),
    ({**IMAGES, "caption_0": "x", "caption_1": "y", "caption_2": "z"}, ("2 images", "3 texts", "caption_2")),
    ({"file_names": [I0, I1, I0], "texts": ["x", "y"]}, ("3 images", "2 texts")),
    ({"image": I0, "caption_0": "x", "text_1": "y"}, ("'caption_0'", "'text_1'")),
    ({"image": I0, "caption_0": "x", "foil": "y"}, ("'caption_0'", "'foil'")),
    ({**IMAGES, "caption": "x", "caption_1": "y"}, ("'caption_1'", "'caption'")),
    ({"image": I0, "text": "x", "text_1": "y", "text_2": "z"}, ("'text_1'", "'text'")),
    ({"image": I0, "image_1": I1, "caption": "x", "foil": "y"}, ("'image_1'", "'image'")),
    ({"image": I0, "texts": ["x", "y"], "caption": "x"}, ("'texts'", "'caption'")),
    ({"image": I0, "foil": "x", "negative_caption": "y"}, ("'negative_caption'", "'caption'")),
    ({**PAIRS, "caption_0.1": "z"}, ("'caption_0.1'", "'caption_0'")),  # pandas's second
    ({**CHOICE, "foil.1": "z"}, ("'foil.1'", "'foil'")),
    ({**PAIRS, "tags": {"a": "b"}, "tag:c": "d"}, ("'tags'", "'tag:c'")),
    ({**PAIRS, "tags": {"kind": ["swap"]}}, ("tags",)),
]


@pytest.mark.parametrize(("row", "facts"), CONTRARY, ids=range(len(CONTRARY)))
def test_columns_that_contradict_each_other_are_refused(folder, row, facts):
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
    """Write a table of these columns, names that occur twice and all."""
    names, cells = zip(*columns, strict=True)
    if path.suffix == ".parquet":
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        arrays = [cell if isinstance(cell, arrow.Array) else arrow.array(cell) for cell in cells]
        parquet.write_table(arrow.Table.from_arrays(arrays, names=names), path)
        return
    lines = ["\t".join(map(str, row)) for row in (names, *zip(*cells, strict=True))]
    text = "\n".join(lines) + "\n"
    path.write_text(text if path.suffix == ".tsv" else text.replace("\t", ","))


_PAIRS = {"image": [I0], "caption": ["true"], "foil": ["false"], "url": ["u"]}
_SCORES = {"id": ["a", "a"], "image": [0, 0], "text": [0, 1], "score": [0.9, 0.1], "note": ["", ""]}
_VECTORS = {"id": ["a"], "vector": [[0.6, 0.8]], "note": [""]}
_ROWS = {"title": ["x"], "filepath": ["a.png"], "neg_caption": ["['y']"], "neg_image": ["[]"]}

#: A table -> its columns, and what reads it.
#: Tables -> their columns, and what reads them.
TABLES: dict[tuple[str, ...], tuple[dict[str, list[Any]], Callable[[Path], Any]]] = {
    ("pairs.csv", "pairs.tsv", "pairs.parquet"): (_PAIRS, lambda path: ta.load_pairs(f"table:{path}")),
    ("scores.csv", "scores.parquet"): (_SCORES, lambda path: read_scores(path, ids=["a"], shape=(1, 2))),
    ("vectors.parquet",): (_VECTORS, read_vectors),
    ("set.parquet",): ({"id": ["1"], "caption": ["x"]}, lambda path: list(set_file.read_rows(path))),
    ("training.tsv",): (_ROWS, lambda path: list(table_rows(path, {}))),
}


@pytest.mark.parametrize("files", TABLES, ids=lambda files: files[0].partition(".")[0])
def test_a_table_with_a_name_twice_is_refused_by_its_reader(folder, files):
    home = folder([{"id": "a", "images": [I0], "texts": ["x", "y"]}])
    columns, read = TABLES[files]
    for file, name in product(files, columns):
        write_twice(home / file, *columns.items())
        read(home / file)
        write_twice(home / file, *columns.items(), (name, columns[name]))
        with raises(TellapartError, file, name):
            read(home / file)


def test_two_names_of_one_column_and_a_name_twice_within_a_column_are_refused(tmp_path):
    path, arrow = tmp_path / "v.parquet", pytest.importorskip("pyarrow")
    for name in ("ids", "vectors"):
        write_twice(path, *_VECTORS.items(), (name, _VECTORS[name[:-1]]))
        with raises(ScoreError, "v.parquet", name):
            read_vectors(path)
    both = arrow.StructArray.from_arrays([arrow.array(["swap"]), arrow.array(["add"])], names=["kind", "kind"])
    write_twice(path, ("image", [I0]), ("caption", ["x"]), ("foil", ["y"]), ("tags", both))
    with raises(DataError, "v.parquet", "'kind' is repeated"):
        ta.load_pairs(f"table:{path}")
