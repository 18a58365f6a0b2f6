"""Sets of the user: a TOML file of ten lines, and a table of pairs."""

import gzip
import json
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest
from annotation_formats import encoded

import tellapart as ta
from facts import check_facts, raises
from pictures import draw, plain
from tellapart.auditing.audit import Options, audit
from tellapart.auditing.card import make_card, markdown
from tellapart.benchmarks.find import find_benchmark, set_name
from tellapart.benchmarks.locations import Locations
from tellapart.benchmarks.pair_table import read_pair_table
from tellapart.errors import DataError, RunError, TellapartWarning, UnknownNameError
from tellapart.evaluation.verified import read_result
from tellapart.report.image_sources import ImageSources

# A set of one's own, which a TOML file declares: its ten lines, and what is wrong with others.

#: The examples of the documents: pairs, and questions with two options.
OWN, OWN_OPTIONS = (
    block.split("```")[0]
    for block in (Path(__file__).parents[2] / "docs" / "benchmarks.md").read_text("utf-8").split("```toml\n")[1:]
)


@pytest.fixture
def own(tmp_path) -> Path:
    rows = [{"left": f"{k}a.png", "right": f"{k}b.png", "words": ["red", "blue"]} for k in range(3)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "images").mkdir()
    for k in range(3):
        for side in "ab":
            (tmp_path / "images" / f"{k}{side}.png").write_bytes(draw(40 * k + (side == "a"), size=2))
    (tmp_path / "cups.toml").write_text(OWN)
    return tmp_path / "cups.toml"


@pytest.mark.slow
def test_a_users_own_set_is_ten_lines(own, command):
    assert len(OWN.splitlines()) <= 10
    one = find_benchmark(str(own))
    assert (one.name, one.items, one.shape, one.own) == ("set:cups.toml", 3, (2, 2), own)
    assert set_name(str(own)) == set_name(f"set:{own}") == "set:cups.toml"
    command("run", "-b", own, "-m", "oracle", "--out", "r", "--json", code=0)
    assert command("show", "r").code == 0


@pytest.mark.parametrize("together", ["", "rows = 2\n"])
def test_a_text_of_the_set_is_a_field_of_every_row_whatever_the_columns_are(own, together):
    listing = own.with_name("rows.jsonl")
    rows = [{**json.loads(line), "request": "a column"} for line in listing.read_text().splitlines()[:2]]
    listing.write_text("\n".join(map(json.dumps, rows)))
    field = "0.words" if together else "words"
    text = OWN.replace("{left}", "{0.left}").replace("{right}", "{0.right}") if together else OWN
    head, item = text.split("[[item]]")
    item = re.sub(r"texts = .*", f'texts = ["{{request}} {{{field}.0}}", "{{request}} {{{field}.1}}"]', item)
    own.write_text(f'{head}{together}[texts]\nrequest = "Look:"\n\n[[item]]{item}')
    records = find_benchmark(str(own)).records()
    assert {record.texts for record in records.items} == {("Look: red", "Look: blue")}


@pytest.mark.parametrize("options", ['"{candidates}"', '["{candidates.0}", "{candidates.1}"]'])
def test_a_users_own_options_are_a_and_b_by_their_places(tmp_path, options):
    asked = {"pair": "0", "question": "Which way?", "candidates": "['up', 'down']"}
    rows = [asked | {"film": "a", "answer": "down"}, asked | {"film": "b", "answer": "up"}]
    (tmp_path / "asked.csv").write_bytes(encoded("asked.csv", rows))
    (tmp_path / "films.toml").write_text(OWN_OPTIONS.replace('options = "{candidates}"', f"options = {options}"))
    records = find_benchmark(str(tmp_path / "films.toml")).records()
    assert [(one.images, one.gold) for one in records.rows] == [(("a.mp4",), "b"), (("b.mp4",), "a")]
    assert records.rows[0].texts[0] == "Which way? (A) up (B) down Answer with the letter."
    assert records.groups_by("group") == ((0, 1),)
    (tmp_path / "asked.csv").write_bytes(encoded("asked.csv", [rows[0], rows[1] | {"answer": "left"}]))
    with raises(DataError, "asked.csv:3", "'{answer}'", "'left'"):
        find_benchmark(str(tmp_path / "films.toml")).records()


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
        ("rows.jsonl", "a" * 300, ("OSError", "folder")),
        ("rows.jsonl", "/rows.jsonl", ("'/rows.jsonl'", "NotImplementedError")),
        ("rows.jsonl", "[" * 100_000, ("4,096", "folder")),
        ("rows.jsonl", "**/**/rows.jsonl", ("4,096", "folder")),
        ("rows.jsonl", "", ("ValueError", "folder")),
        ("[[item]]", "items = 4\n[[item]]", ("3", "benchmark", "4")),
        ("[[item]]", "rows = 2\n[[item]]", ("3", "2", "rows")),
        ("[[item]]", 'x = 1\n[[question]]', ("'x'", "field")),
        ("[[item]]", 'load = "eqben:load_pairs"\n[[item]]', ("'load'", "field")),  # only a set that ships names code
        ('id = "{row}"', 'id = "same"', ("rows.jsonl:2", "id", "'same'", "rows.jsonl:1")),
        ('id = "{row}"', 'id = "{row}"\ntrue = 0', ("'true'", "2x2")),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_set_is_said(own, before, after, says):
    own.write_text(OWN.replace(before, after, 1))
    with raises(DataError, says):
        find_benchmark(str(own)).records()


def test_a_row_of_another_type_is_no_row(own):
    rows = own.with_name("rows.jsonl")
    lines = rows.read_text().splitlines()
    rows.write_text("\n".join([*lines[:2], lines[2].replace('"2a.png"', "7")]))
    with raises(DataError, "rows.jsonl:3", "'left'", "7"):
        find_benchmark(str(own)).records()


def test_a_set_file_that_is_not_there_is_said(tmp_path):
    with raises(DataError, "set:no.toml", "'no.toml'", "set:FILE.toml"):
        find_benchmark("set:no.toml")
    with raises(UnknownNameError, "benchmark", "'sugarcrepe-p'", "'sugarcrepe-pp'"):
        find_benchmark("sugarcrepe-p")


def test_the_archive_of_a_set_holds_its_images(own):
    with zipfile.ZipFile(own.with_name("all.zip"), "w") as archive:
        for file in (own.parent / "images").iterdir():
            archive.write(file, file.name)
            file.unlink()
    own.write_text(OWN.replace("[[item]]", 'archive = "all.zip"\n[[item]]'))
    pairs = find_benchmark(str(own)).records()
    assert pairs.pixels("0a.png").shape == (2, 2, 3)


def test_texts_alone_are_of_sets_with_two_true_texts(own):
    with raises(DataError, "texts", "true"):
        find_benchmark(f"texts:{own}")
    assert find_benchmark("texts:sugarcrepe-pp", Locations()).task == "true-texts"


def test_a_file_and_its_twin_are_joined_row_by_row(tmp_path):
    for folder, true in (("data", "a red cup"), ("reworded", "a cup that is red")):
        (tmp_path / folder).mkdir()
        rows = [{"image": f"{k}.png", "true": f"{true} {k}", "false": f"a blue cup {k}"} for k in range(2)]
        (tmp_path / folder / "cups.json").write_text(json.dumps(rows))
    table = 'images = "{image}"\ntexts = ["{true}", "{joined.true}", "{false}"]\ntrue = [0, 1]\n'
    declared = tmp_path / "cups.toml"
    declared.write_text(
        'name = "cups"\ntitle = "cups"\nsource = "here"\nfiles = ["data/cups.json"]\njoined = "reworded"\n'
        f'shape = [1, 3]\ntrue = 2\n[[item]]\nid = "{{row}}"\n{table}'
    )
    joined = find_benchmark(str(declared), Locations(tmp_path)).records()
    assert [item.texts[:2] for item in joined.items] == [(f"a red cup {k}", f"a cup that is red {k}") for k in range(2)]
    (tmp_path / "reworded" / "cups.json").write_text(json.dumps(rows[:1]))
    with raises(DataError, "reworded", "1 rows", "2"):
        find_benchmark(str(declared), Locations(tmp_path)).records()


def test_statements_about_two_images_are_declared(tmp_path):
    rows = [{"id": f"a-{k}", "l": "a.png", "r": "b.png", "text": "Both are red.", "label": k == 0} for k in range(2)]
    lines = tmp_path / "rows.jsonl"
    lines.write_text("\n".join(map(json.dumps, rows)))
    declared = tmp_path / "twos.toml"
    declared.write_text(
        'name = "twos"\ntitle = "twos"\nsource = "here"\nfiles = ["rows.jsonl"]\n[[statement]]\nid = "{id}"\n'
        'images = ["{l}", "{r}"]\nsentence = "{text}"\nlabel = "{label|truth}"\n'
    )
    benchmark = find_benchmark(str(declared), Locations(tmp_path))
    assert benchmark.task == "nlvr2"
    expected = [("a.png", "b.png", True), ("a.png", "b.png", False)]
    assert [(*one.images, one.gold) for one in benchmark.records().rows] == expected
    lines.write_text(json.dumps(rows[0] | {"label": "perhaps"}))
    with raises(DataError, "rows.jsonl:1", "label", "perhaps"):
        find_benchmark(str(declared), Locations(tmp_path)).records()


# Pairs in one file: any CSV, TSV, JSONL or parquet, its columns named, and what is wrong in it.

COLUMNS = {"image_0": "left", "image_1": "right", "caption_0": "first", "caption_1": "second", "tag:kind": "what"}
ROWS = [
    {"left": f"{k}_0.png", "right": f"{k}_1.png", "first": f"{k} cups, red", "second": f"{k} bowls", "what": "swap"}
    for k in range(4)
]


def shade(number: int) -> bytes:
    return plain((number * 20, 9, 9))


@pytest.fixture
def photos(tmp_path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    for k in range(4):
        for side in (0, 1):
            (folder / f"{k}_{side}.png").write_bytes(shade(2 * k + side))
    return folder


def write_table(folder: Path, name: str, rows: list[dict[str, str]]) -> Path:
    mark = "\t" if ".tsv" in name else ","
    text = {
        True: "".join(json.dumps(row) + "\n" for row in rows),
        False: "\n".join(mark.join(f'"{cell}"' for cell in row) for row in ([*rows[0]], *(r.values() for r in rows))),
    }[".jsonl" in name]
    data = text.encode()
    (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return folder / name


@pytest.mark.parametrize("name", ["p.csv", "p.tsv", "p.jsonl", "p.csv.gz"])
def test_a_table_is_measured_with_its_columns_named(tmp_path, photos, name):
    path = write_table(tmp_path, name, ROWS)
    typed = f"table:{path}" if "jsonl" in name else str(path)
    ta.evaluate("oracle", typed, images=photos, columns=COLUMNS, out=tmp_path / "run")
    record = read_result(tmp_path / "run").benchmarks[f"table:{name}"]
    assert (record.shape, record.metrics["group_score"].value, list(record.by)) == ((2, 2), 1.0, ["kind"])
    # Reports find the images again, though a record names no columns.
    read = ImageSources.of(tmp_path / "run", read_result(tmp_path / "run"), f"table:{name}").reader()
    assert read is not None and read("3_1.png") == shade(7)
    assert set_name(typed) == f"table:{name}"


def test_the_pairs_of_a_run_are_read_again_by_the_columns_that_it_named(tmp_path, photos):
    ta.evaluate(
        "oracle", str(write_table(tmp_path, "p.csv", ROWS)), images=photos, columns=COLUMNS, out=tmp_path / "run"
    )
    assert read_result(tmp_path / "run").run.columns == COLUMNS
    assert set(ta.verify(tmp_path / "run")["state"]) == {"equal"}
    write_table(tmp_path, "p.csv", [{**row, "first": "another"} for row in ROWS])
    assert "different" in ta.verify(tmp_path / "run")["state"]


@pytest.mark.parametrize(
    ("typed", "folder", "meant"),
    [
        ("Left Side/0_0.PNG", ".", "did you mean 'left side/0_0.png'"),
        ("leftside/0_0.png", ".", "did you mean 'left side/0_0.png'"),
        ("left side/0_0.png", "left side", "images={photos}"),
        ("left side/o_0.png", ".", "name the folder"),
        ("left side/9_9.png", ".", "name the folder"),
        ("left sid/0_0.png", ".", "name the folder"),
        ("left side/0-0.png", ".", "did you mean '0_0.png'"),
    ],
)
def test_a_picture_that_is_not_there_is_answered_with_its_name_or_its_folder(tmp_path, photos, typed, folder, meant):
    (photos / "left side").mkdir()
    (photos / "left side" / "0_0.png").write_bytes(shade(0))
    rows = [{"image": typed, "caption": "a cat", "foil": "a dog"}]
    place = Locations(images=photos / folder)
    with raises(DataError, "p.csv:2", typed, meant.format(photos=photos), field="image"):
        read_pair_table(write_table(tmp_path, "p.csv", rows), place)


def test_columns_without_a_table_are_refused_with_what_was_named(photos):
    with raises(RunError, "columns=", "table:FILE", str(photos)):
        ta.evaluate("oracle", str(photos), columns=COLUMNS)


def test_a_report_of_pairs_that_were_read_in_python_finds_their_images(tmp_path, photos):
    pairs = ta.load_pairs(f"table:{write_table(photos, 'p.csv', ROWS)}", columns=COLUMNS)
    ta.score(pairs, np.eye(2)[None].repeat(4, 0), out=tmp_path / "run")
    read = ImageSources.of(tmp_path / "run", read_result(tmp_path / "run"), "table:p.csv").reader()
    assert read is not None and read("3_1.png") == shade(7)


def test_usual_names_need_no_option(tmp_path, photos):
    rows = [{"filepath": "0_0.png", "caption": "a cat", "foil": "a dog", "note": "x"}]
    pairs = find_benchmark(str(write_table(photos, "p.csv", rows))).records()
    assert pairs.items[0].texts == ("a cat", "a dog")
    assert (pairs.items[0].images, pairs.items[0].provenance) == (("0_0.png",), {"note": "x"})


def test_wrong_columns_are_named_with_the_near_ones(tmp_path, photos):
    path = write_table(photos, "p.csv", ROWS)
    with raises(DataError, "p.csv:2", "'lefft'", "did you mean 'left'", field="image_0"):
        ta.evaluate("oracle", str(path), columns={**COLUMNS, "image_0": "lefft"})
    with raises(DataError, "'pictures'", "image_0", "tag:NAME"):
        ta.evaluate("oracle", str(path), columns={"pictures": "left"})
    with raises(RunError, "columns='image_0=left'", "mapping"):
        ta.load_pairs(str(path), columns="image_0=left")
    with raises(DataError, "p.csv:2", "file_name", "left, right", "columns="):
        ta.evaluate("oracle", str(path))
    near = write_table(photos, "near.csv", [{"image_0": "0_0.png", "captoin_0": "a", "captoin_1": "b"}])
    with raises(DataError, "near.csv:2", "'captoin_0'", "did you mean 'caption_0'", field="captoin_0"):
        find_benchmark(str(near))
    with raises(DataError, "p.csv:2", "'gone.png'", field="image_0"):
        broken = write_table(photos, "p.csv", [{**ROWS[0], "left": "gone.png"}])
        ta.evaluate("oracle", str(broken), columns=COLUMNS)
    with raises(DataError, "p.csv:2", "columns={'image_0': 'left'}"):
        ta.evaluate("oracle", str(path), columns={"left": "image_0"})
    single = write_table(photos, "single.csv", [{"image": "0_0.png", "caption": "a", "negative": "b"}])
    with raises(DataError, "single.csv", "'negative_caption'", "'negative'"):
        ta.evaluate("oracle", str(single))
    with raises(DataError, str(path), "table:"):
        ta.evaluate("oracle", f"folder:{path}")
    with raises(RunError, "columns=", "table:FILE"):
        ta.evaluate("oracle", "demo", columns=COLUMNS)


def test_a_field_takes_no_other_field_s_column_while_its_own_is_lost(tmp_path, photos):
    rows = [{field: row[column] for field, column in COLUMNS.items()} for row in ROWS]
    path = write_table(photos, "p.csv", rows)
    with raises(DataError, "p.csv:2", "columns={'caption_0': 'caption_1'}", "'caption_0'"):
        ta.load_pairs(f"table:{path}", columns={"caption_0": "caption_1"})
    turned = ta.load_pairs(f"table:{path}", columns={"caption_0": "caption_1", "caption_1": "caption_0"})
    assert [item.texts for item in turned.items] == [(row["caption_1"], row["caption_0"]) for row in rows]


def test_rows_of_one_image_and_one_text_are_answered_with_the_columns_they_lack(tmp_path, photos):
    rows = [{"left": row["left"], "first": row["first"], "remark": row["second"]} for row in ROWS]
    path = write_table(tmp_path, "p.csv", rows)
    with raises(DataError, "p.csv", "'negative_caption'", "'image_1'", "'remark'", "columns="):
        ta.evaluate("oracle", str(path), images=photos, columns={"image": "left", "caption": "first"})


def test_the_command_line_takes_columns(command, tmp_path, photos):
    path = write_table(tmp_path, "p.csv", ROWS)
    columns = ",".join(f"{field}={column}" for field, column in COLUMNS.items())
    ran = command(
        "run", "-m", "oracle", "-b", path, "--images", photos, "--columns", columns, "--out", "r", "--json", code=0
    )
    assert "table:p.csv" in ran.json["runs"][0]["benchmarks"]
    ran = command("run", "-m", "oracle", "-b", path, "--images", photos, "--columns", "image_0", "--out", "r2")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "FIELD=COLUMN" in ran.err
    ran = command("run", "-m", "oracle", "-b", path, "--images", photos, "--out", "r3")
    assert "--columns image_0=COLUMN,image_1=COLUMN" in ran.err


def test_a_card_next_to_a_table_is_the_sets_card(tmp_path, photos):
    path = write_table(tmp_path, "p.csv", ROWS)
    place = Locations(images=photos, columns=tuple(COLUMNS.items()))
    without = read_pair_table(path, place)
    (tmp_path / "card.json").write_text(json.dumps({"title": "Cups", "frames": 4, "datasheet": {"purpose": "To test"}}))
    pairs = read_pair_table(path, place)
    assert (without.card, pairs.card["title"], pairs.frames) == ({}, "Cups", 4)
    card = markdown(make_card(pairs, audit(pairs, Options(pictures=False))))
    check_facts(card, "# Cups", "To test")
    (tmp_path / "card.json").write_text("[]")
    with raises(DataError, "card.json"):
        read_pair_table(path, place)


def test_parquet_holds_bytes_in_a_struct_or_alone_or_names_files_beside_it(photos):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    paths = sorted(photos.glob("*.png"))[:2]
    columns = {
        "struct": [{"bytes": path.read_bytes(), "path": None} for path in paths],
        "bytes": [path.read_bytes() for path in paths],
        "names": [{"bytes": None, "path": path.name} for path in paths],
    }
    place = Locations(columns=tuple(zip(COLUMNS, ("left", "right", "first", "second"), strict=False)))
    for name, column in columns.items():
        table = {"left": column, "right": column[::-1], "first": ["a", "b"], "second": ["x", "y"]}
        parquet.write_table(pyarrow.table(table), photos / f"{name}.parquet")
        pairs = find_benchmark(str(photos / f"{name}.parquet"), place).records()
        assert (pairs.shape, pairs.items[1].texts) == ((2, 2), ("b", "y"))
        assert [pairs.read_bytes(image) for image in pairs.items[1].images] == [
            path.read_bytes() for path in paths[::-1]
        ]


def test_pictures_as_text_words_for_blanks_and_a_missing_header_are_answered(tmp_path, photos):
    (name, *_) = sorted(path.name for path in photos.iterdir() if path.suffix == ".png")
    rows = [{"image": name, "caption": "nan", "negative_caption": "a dog"}]
    with pytest.warns(TellapartWarning, match=r"blank\.csv.*1 of its captions.*'nan'.*'row-1'"):
        read_pair_table(write_table(photos, "blank.csv", rows), Locations())
    with raises(DataError, "coded.csv:2", "'image'", "base64"):
        read_pair_table(write_table(photos, "coded.csv", [{**rows[0], "image": "iVBORw0K" * 40}]), Locations())
    (photos / "bare.csv").write_text(f"{name},a cat,a dog\n")
    with raises(DataError, "bare.csv", "first line names the columns"):
        read_pair_table(photos / "bare.csv", Locations())
    (photos / "bare.csv").write_text(f"{name},a cat,a dog\n" * 2)
    with raises(DataError, "bare.csv:2", name, "first line", "line above"):
        read_pair_table(photos / "bare.csv", Locations())
    with raises(DataError, "upper.csv:2", name.upper(), f"did you mean '{name}'"):
        read_pair_table(write_table(photos, "upper.csv", [{**rows[0], "image": name.upper()}]), Locations())
