import json
from pathlib import Path
from typing import Any

import pytest
import rivals
import shapes
import speed
from examples.findings.frame import render_page

from tellapart.data.folder import read_pair_set

ROOT = Path(__file__).parents[2]


def test_the_sets_have_the_published_shapes_and_repetitions(tmp_path):
    sets = shapes.make_sets(tmp_path / "sets", 50)
    counts = {name: [len(side) for side in shapes.distinct(sets, (name,))] for name in sets}
    assert {name: len(pairs) for name, pairs in sets.items()} == {"winoground": 50, "sugarcrepe": 50, "aro": 50}
    # 800 of 800 and 800 of 800; 1,560 of 7,511 and 11,844 of 15,022; 5,000 of 25,010 and all captions.
    assert counts == {"winoground": [100, 100], "sugarcrepe": [10, 79], "aro": [10, 250]}
    for name, shape in (("winoground", (2, 2)), ("sugarcrepe", (1, 2)), ("aro", (1, 5))):
        pairs = read_pair_set(tmp_path / "sets" / name)
        assert pairs.shape == shape
        assert [item.texts for item in pairs.items] == [pair.texts for pair in sets[name]]
        assert pairs.pixels(pairs.items[-1].images[-1]).shape == (375, 500, 3)
    words = [len(text.split()) for pair in sets["sugarcrepe"] for text in pair.texts]
    assert 10 < sum(words) / len(words) < 14
    assert all(sorted(text.split()) == sorted(pair.texts[0].split()) for pair in sets["aro"] for text in pair.texts)


def test_the_same_sets_come_again_and_every_picture_is_another(tmp_path):
    first = shapes.make_sets(tmp_path / "one", 5)
    files = {file.relative_to(tmp_path / "one"): file.read_bytes() for file in (tmp_path / "one").rglob("*.jpg")}
    made = [data for file, data in files.items() if "images" in file.parts]
    assert len(set(made)) == len(made) == 12
    assert shapes.make_sets(tmp_path / "two", 5) == first
    for file, data in files.items():
        assert (tmp_path / "two" / file).read_bytes() == data
    before = (tmp_path / "one" / "stamp.json").stat().st_mtime_ns
    shapes.make_sets(tmp_path / "one", 5)
    assert (tmp_path / "one" / "stamp.json").stat().st_mtime_ns == before


def test_clip_benchmark_is_given_the_same_items_in_its_own_format(tmp_path):
    sets = shapes.make_sets(tmp_path / "sets", 6)
    home = tmp_path / "sets" / "crepe"
    for name, file in (("sugarcrepe", "add_att.json"), ("aro", "swap_obj.json")):
        rows = json.loads((home / file).read_text()).values()
        for row, pair in zip(rows, sets[name], strict=True):
            negatives = row["negative_caption"] if name == "aro" else [row["negative_caption"]]
            assert (row["caption"], *negatives) == pair.texts
            original = tmp_path / "sets" / name / "images" / pair.images[0]
            assert (home / "val2017" / row["filename"]).read_bytes() == original.read_bytes()


@pytest.fixture
def record() -> dict[str, Any]:
    tools = {
        "tellapart": {"cold": 4.0, "cold_processor": 8.0, "warm": 2.0},
        "unibench": {"cold": 10.0, "cold_processor": 19.0, "warm": 5.0},
    }
    run = {
        "model": "ViT-B-32", "group": "sugarcrepe+aro", "images": 4, "texts": 30, "image_slots": 20, "text_slots": 35,
        "forward": {"images": 2.0, "texts": 1.8}, "tools": tools,
    }  # fmt: skip
    return {
        "runs": [run],
        "items": 10,
        "machine": {"processor": "a processor", "cores": 2, "device": "cpu"},
        "versions": {"torch": "2.13.0"},
        "command": "python bench/speed.py --items 10",
        "date": "2026-01-02",
        "left_out": {"mteb": "mteb: no wheel"},
    }


def shown(record: dict[str, Any]) -> str:
    return render_page(ROOT / "docs" / "templates", "speed", {"record": record})


def test_the_table_holds_ratios_bound_and_circumstances(record):
    text = shown(record)
    assert "4 distinct images of 20, 30 distinct texts of 35; the model alone: 3.8 s" in text
    assert "| unibench | 10.0 | 2.5 | 38 % | 19 | 5.0 | 2.5 |" in text
    assert "| tellapart | 4.0 | 1.0 | 95 % | 8 | 2.0 | 1.0 |" in text
    for said in ("a processor, 2 cores, cpu", "torch 2.13.0", "`python bench/speed.py --items 10`", "2026-01-02"):
        assert said in text


def test_a_tool_that_was_left_out_is_named_with_the_reason(record):
    assert "Left out: mteb, because mteb: no wheel" in shown(record)


def test_without_this_project_there_is_no_ratio(record):
    del record["runs"][0]["tools"]["tellapart"]
    assert "| unibench | 10.0 |  | 38 % | 19 | 5.0 |  |" in shown(record)


def test_what_is_recorded_of_several_rounds_is_the_median_of_each_number():
    rounds = [
        (rivals.Run(wall, processor, {"aro": 0.5}), rivals.Run(1.0, 0.5, {"aro": 0.5}))
        for wall, processor in ((50.0, 20.0), (23.0, 22.0), (25.0, 21.0))
    ]
    assert speed.median_of(rounds) == {
        "cold": 25.0, "cold_processor": 21.0, "warm": 1.0, "warm_processor": 0.5, "accuracy": {"aro": 0.5}
    }  # fmt: skip
