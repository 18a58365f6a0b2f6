"""A set of one's own, which a TOML file declares: its ten lines, and what is wrong with others."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from annotation_formats import encoded

from facts import raises
from tellapart.benchmarks.find import find_benchmark, set_name
from tellapart.benchmarks.locations import Locations
from tellapart.errors import DataError, UnknownNameError

#: The examples of the documents: pairs, and questions with two options.
OWN, OWN_OPTIONS = (
    block.split("```")[0]
    for block in (Path(__file__).parents[2] / "docs" / "benchmarks.md").read_text("utf-8").split("```toml\n")[1:]
)


@pytest.fixture
def own(tmp_path: Path, draw: Callable[..., bytes]) -> Path:
    rows = [{"left": f"{k}a.png", "right": f"{k}b.png", "words": ["red", "blue"]} for k in range(3)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "images").mkdir()
    for k in range(3):
        for side in "ab":
            (tmp_path / "images" / f"{k}{side}.png").write_bytes(draw(40 * k + (side == "a"), size=2))
    (tmp_path / "cups.toml").write_text(OWN)
    return tmp_path / "cups.toml"


@pytest.mark.slow
def test_a_users_own_set_is_ten_lines(own: Path, command: Callable[..., Any]) -> None:
    assert len(OWN.splitlines()) <= 10
    one = find_benchmark(str(own))
    assert (one.name, one.items, one.shape, one.own) == ("set:cups.toml", 3, (2, 2), own)
    assert set_name(str(own)) == set_name(f"set:{own}") == "set:cups.toml"
    done = command("run", "-b", own, "-m", "oracle", "--out", "r", "--json")
    assert done.code == 0, done.err
    assert command("show", "r").code == 0


@pytest.mark.parametrize("options", ['"{candidates}"', '["{candidates.0}", "{candidates.1}"]'])
def test_a_users_own_options_are_a_and_b_by_their_places(tmp_path: Path, options: str) -> None:
    asked = {"pair": "0", "question": "Which way?", "candidates": "['up', 'down']"}
    rows = [asked | {"film": "a", "answer": "down"}, asked | {"film": "b", "answer": "up"}]
    (tmp_path / "asked.csv").write_bytes(encoded("asked.csv", rows))
    (tmp_path / "films.toml").write_text(OWN_OPTIONS.replace('options = "{candidates}"', f"options = {options}"))
    records = find_benchmark(str(tmp_path / "films.toml")).records()
    assert [(one.images, one.answer) for one in records.questions] == [(("a.mp4",), "b"), (("b.mp4",), "a")]
    assert records.questions[0].question == "Which way? (A) up (B) down Answer with the letter."
    assert records.groups_by("group") == ((0, 1),)
    (tmp_path / "asked.csv").write_bytes(encoded("asked.csv", [rows[0], rows[1] | {"answer": "left"}]))
    with raises(DataError, "asked.csv:3", "'{answer}'", "'left'"):
        find_benchmark(str(tmp_path / "films.toml")).records()


@pytest.mark.slow
def test_a_users_own_gallery_is_measured_both_ways(own: Path, command: Callable[..., Any]) -> None:
    gallery = '[gallery]\nimage = "{left}"\ncaptions = "{words}"\n'
    own.write_text(OWN.split("[[item]]")[0] + gallery)
    one = find_benchmark(str(own))
    assert (one.task, one.items) == ("retrieval", 3)
    scores = {"image_ids": ["0", "1", "2"], "caption_ids": [str(k) for k in range(6)]}
    np.savez(own.with_name("scores.npz"), **scores, scores=np.repeat(np.eye(3), 2, axis=1))
    done = command("score", own, "--scores", own.with_name("scores.npz"), "--name", "x", "--out", "r", "--json")
    assert done.code == 0, done.err
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
        ("[[item]]", 'x = 1\n[[question]]', ("'x'", "key")),
        ('id = "{row}"', 'id = "same"', ("rows.jsonl:2", "id", "'same'", "rows.jsonl:1")),
        ('id = "{row}"', 'id = "{row}"\ntrue = 0', ("'true'", "2x2")),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_set_is_said(own: Path, before: str, after: str, says: str | tuple[str, ...]) -> None:
    own.write_text(OWN.replace(before, after, 1))
    with raises(DataError, says):
        find_benchmark(str(own)).records()


def test_a_row_of_another_type_is_no_row(own: Path) -> None:
    rows = own.with_name("rows.jsonl")
    lines = rows.read_text().splitlines()
    rows.write_text("\n".join([*lines[:2], lines[2].replace('"2a.png"', "7")]))
    with raises(DataError, "rows.jsonl:3", "'left'", "7"):
        find_benchmark(str(own)).records()


def test_a_set_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with raises(DataError, "set:no.toml", "'no.toml'", "set:FILE.toml"):
        find_benchmark("set:no.toml")
    with raises(UnknownNameError, "benchmark", "'sugarcrepe-p'", "'sugarcrepe-pp'"):
        find_benchmark("sugarcrepe-p")


def test_the_archive_of_a_set_holds_its_images(own: Path) -> None:
    import zipfile

    with zipfile.ZipFile(own.with_name("all.zip"), "w") as archive:
        for file in (own.parent / "images").iterdir():
            archive.write(file, file.name)
            file.unlink()
    own.write_text(OWN.replace("[[item]]", 'archive = "all.zip"\n[[item]]'))
    pairs = find_benchmark(str(own)).records()
    assert pairs.pixels("0a.png").shape == (2, 2, 3)


def test_texts_alone_are_of_sets_with_two_true_texts(own: Path) -> None:
    with raises(DataError, "texts", "true"):
        find_benchmark(f"texts:{own}")
    assert find_benchmark("texts:sugarcrepe-pp", Locations()).task == "true-texts"


def test_a_file_and_its_twin_are_joined_row_by_row(tmp_path: Path) -> None:
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


def test_statements_about_two_images_are_declared(tmp_path: Path) -> None:
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
    assert [(one.left, one.right, one.label) for one in benchmark.records().statements] == [
        ("a.png", "b.png", True),
        ("a.png", "b.png", False),
    ]
    lines.write_text(json.dumps(rows[0] | {"label": "perhaps"}))
    with raises(DataError, "rows.jsonl:1", "label", "perhaps"):
        find_benchmark(str(declared), Locations(tmp_path)).records()
