"""ARO: its boxes, its permutations, and both of the rules that its own code has for ties."""

import io
import json
from typing import Any

import numpy as np
import pytest
from aro_rule import original_choice
from PIL import Image

from facts import raises
from pictures import draw
from tellapart.benchmarks import set_file
from tellapart.data.rows import expect_count
from tellapart.errors import DataError
from tellapart.metrics.choice import choice_score

BOX = {"bbox_x": 2, "bbox_y": 1, "bbox_w": 3, "bbox_h": 4}


def boxed(k: int) -> dict[str, Any]:
    return {
        "image_id": 5,
        "image_path": "5.png",
        "true_caption": f"the cup {k} is on the table",
        "false_caption": f"the table is on the cup {k}",
        "relation_name": ("on", "in")[k % 2],
        "attributes": ["red", "big"],
        **BOX,
    }


@pytest.fixture(autouse=True)
def few(monkeypatch) -> None:
    """Let three items be all that a benchmark has."""
    monkeypatch.setattr(set_file, "expect_count", lambda path, count, _published: expect_count(path, count, 3))


@pytest.mark.parametrize(
    ("name", "file", "tags"),
    [
        ("aro-relation", "visual_genome_relation", {"relation": "in"}),
        ("aro-attribution", "visual_genome_attribution", {"attributes": "red_big"}),
    ],
)
def test_the_model_sees_the_box_alone(at, tmp_path, name, file, tags):
    (tmp_path / f"{file}.json").write_text(json.dumps([boxed(k) for k in range(3)]))
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "5.png").write_bytes(draw(0, size=8))
    pairs = at(name, tmp_path).records()
    item = pairs.items[1]
    assert (item.id, item.shape, item.tags, item.cluster) == ("1", (1, 2), tags, "5.png")
    assert item.texts == ("the cup 1 is on the table", "the table is on the cup 1")
    assert item.images == ("5.png#2,1,3,4",)
    with Image.open(io.BytesIO(draw(0, size=8))) as whole:
        expected = np.asarray(whole.crop((2, 1, 5, 5)))
    assert (pairs.pixels(item.images[0]) == expected).all()


def test_a_box_that_leaves_the_image_is_filled_with_black(at, tmp_path):
    rows = [boxed(k) | {"bbox_x": -2, "bbox_w": 30} for k in range(3)]
    (tmp_path / "visual_genome_relation.json").write_text(json.dumps(rows))
    (tmp_path / "5.png").write_bytes(draw(0, size=8))
    pixels = at("aro-relation", tmp_path).records().pixels("5.png#-2,1,30,4")
    assert pixels.shape == (4, 30, 3)
    assert (pixels[:, :2] == 0).all()
    assert (pixels[:, 10:] == 0).all()


@pytest.mark.parametrize(("name", "file"), [("aro-coco-order", "coco_order"), ("aro-flickr-order", "flickr30k_order")])
def test_a_caption_stands_among_four_permutations(at, tmp_path, name, file):
    rows = [{"image": "val2014/7.jpg", "caption_options": [f"{word} {k}" for word in "abcde"]} for k in range(3)]
    (tmp_path / f"{file}.json").write_text(json.dumps(rows))
    item = at(name, tmp_path).records().items[2]
    assert (item.shape, item.texts, item.cluster) == ((1, 5), ("a 2", "b 2", "c 2", "d 2", "e 2"), "val2014/7.jpg")


@pytest.mark.parametrize(
    ("file", "rows", "said"),
    [
        ("visual_genome_relation", [boxed(0) | {"bbox_w": 2.5}], ("0", "'bbox_w'")),
        ("visual_genome_relation", [boxed(0) | {"relation_name": None}], ("'relation_name'", "expected")),
        ("visual_genome_relation", [boxed(0)], ("1", "benchmark", "3")),
        ("visual_genome_relation", ["a"], ("0", "object", "row")),
    ],
)
def test_a_wrong_row_is_named(at, tmp_path, file, rows, said):
    (tmp_path / f"{file}.json").write_text(json.dumps(rows))
    with raises(DataError, said):
        at("aro-relation", tmp_path).records()


def test_an_item_without_four_permutations_is_refused(at, tmp_path):
    rows = [{"image": "7.jpg", "caption_options": ["a", "b"]}] * 3
    (tmp_path / "coco_order.json").write_text(json.dumps(rows))
    with raises(DataError, "0", "(1, 5)", "(1, 2)"):
        at("aro-coco-order", tmp_path).records()


@pytest.mark.parametrize(("texts", "tied"), [(2, 0.0), (5, 1.0)])
def test_the_original_decides_ties_in_two_ways_and_this_project_in_one(texts, tied):
    constant = np.full((4, 1, texts), 0.25)
    assert original_choice(constant).tolist() == [tied] * 4
    assert choice_score(constant).tolist() == [0.0] * 4


@pytest.mark.parametrize("texts", [2, 5])
def test_without_ties_both_rules_agree(texts):
    scores = np.random.default_rng(0).permuted(np.tile(np.arange(texts), (50, 1)), axis=1)[:, None, :]
    assert (original_choice(scores) == choice_score(scores)).all()
