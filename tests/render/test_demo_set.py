"""The committed demo, complete, minimal and renderable again; the options of rendered sets."""

import io
import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from facts import raises
from sets import write_file
from tellapart.benchmarks.minimal_pairs import DEMO_FOLDER
from tellapart.builders.recipe_file import open_builder, read_recipe_file
from tellapart.data.folder import read_pair_set
from tellapart.errors import DataError
from tellapart_render.captions.grammar import ASPECTS
from tellapart_render.scenes.quadruple import draw
from tellapart_render.scenes.scene import Scene
from tellapart_render.scenes_builder import Recipe, check, draw_accepted, encode, pictures


@pytest.fixture(scope="module")
def rows():
    lines = (DEMO_FOLDER / "pairs.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def recipe():
    made = read_recipe_file(DEMO_FOLDER / "recipe.toml")
    return Recipe(seed=made.seed, **made.options)


@pytest.fixture(scope="module")
def keys(rows, recipe):
    """Each item's key, with the attempt that was accepted, by its id."""
    attempts = {row["id"]: row["provenance"]["seed"][2] for row in rows}
    return {key.name: replace(key, attempt=attempts[key.name]) for key in recipe.item_keys()}


def decoded(data: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image.convert("RGB"))


def test_it_holds_a_hundred_items_for_each_aspect_whose_pictures_are_distinct_and_small(rows):
    assert {item.shape for item in read_pair_set(DEMO_FOLDER).items} == {(2, 2)}
    assert Counter(row["tags"]["aspect"] for row in rows) == dict.fromkeys(ASPECTS, 100)
    assert Counter(row["tags"]["held_out"] for row in rows) == {"yes": 200, "no": 200}
    assert len({row["id"] for row in rows}) == len({row["cluster"] for row in rows}) == 400
    files = [DEMO_FOLDER / name for row in rows for name in row["images"]]
    assert len(set(files)) == len({file.read_bytes() for file in files}) == 800
    for file in files:
        with Image.open(file) as image:
            assert (image.size, image.format, image.mode) == ((160, 160), "WEBP", "RGB")
    assert sum(f.stat().st_size for f in files) < 4_000_000
    assert sum(f.stat().st_size for f in DEMO_FOLDER.rglob("*") if f.is_file()) < 4_500_000


def test_every_item_is_what_the_recipe_draws(rows, keys):
    for row in rows:
        key, provenance = keys[row["id"]], row["provenance"]
        quadruple = draw(key)
        assert row["texts"] == list(quadruple.captions)
        assert (row["tags"]["change"], row["tags"]["held_out"]) == (quadruple.change, key.held_out)
        scenes = tuple(Scene.from_record(provenance | {"things": things}) for things in provenance["things"])
        assert scenes == quadruple.scenes


def test_captions_of_an_order_item_have_the_same_words_and_the_card_says_what_is_there(rows):
    of_order = [row for row in rows if row["tags"]["aspect"] == "order"]
    for row in of_order:
        first, second = (Counter(text.removesuffix(".").lower().split()) for text in row["texts"])
        assert first == second and row["texts"][0] != row["texts"][1]
    assert Counter(row["tags"]["change"] for row in of_order) == {"colours": 34, "places": 33, "numbers": 33}
    card = json.loads((DEMO_FOLDER / "card.json").read_text())
    assert {card["recipe_fingerprint"]} == {row["provenance"]["recipe"] for row in rows}
    assert card["counts"]["aspect"] == dict.fromkeys(ASPECTS, 100)
    assert card["bytes"] == sum((DEMO_FOLDER / name).stat().st_size for row in rows for name in row["images"])
    rejected = sum(n for reason, n in card["funnel"].items() if reason.startswith("rejected"))
    assert card["funnel"]["drawn"] == card["funnel"]["accepted"] + rejected
    assert sum(row["provenance"]["seed"][2] for row in rows) == rejected
    assert card["reproducible"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["attribute-001", "counting-042", "location-017", "order-004"])
def test_a_committed_item_renders_again(name, rows, recipe, keys):
    pytest.importorskip("mitsuba", reason="needs the render extra: mitsuba")
    pytest.importorskip("pyoidn", reason="needs the render extra: pyoidn")
    row = next(row for row in rows if row["id"] == name)
    quadruple = draw(keys[name])
    assert check(quadruple, recipe.size) is None
    for pixels, file in zip(pictures(quadruple, recipe), row["images"], strict=True):
        again = decoded(encode(pixels, recipe.quality)).astype(int)
        committed = decoded((DEMO_FOLDER / file).read_bytes()).astype(int)
        difference = np.abs(again - committed)
        # Equal bit for bit where it was made; other processors round differently, so a light path in a thousand may
        # turn another way before the denoiser smooths it.
        assert difference.mean() < 1.0
        assert (difference > 16).mean() < 0.005


def test_a_set_that_cannot_be_drawn_says_why():
    pytest.importorskip("mitsuba", reason="needs the render extra: mitsuba")
    # At 16 pixels five small things cannot all be seen.
    tiny = Recipe(seed=5, size=16, samples=1, attempts=1, items={"counting": 30})
    with raises(DataError, "counting-003", "1", "{", "1}"):
        for key in tiny.item_keys():
            draw_accepted(key, tiny.attempts, tiny.size)


# Options of rendered sets: which items show held-out pairs, and every mistake in a recipe gets one clear error.

GOOD = 'name = "few"\nbuilder = "scenes"\nseed = 3\n[options]\nsize = 64\n[options.items]\ncounting = 2\n'


def test_half_of_the_items_show_held_out_pairs_and_none_where_none_are_wanted():
    items = {"attribute": 4, "location": 4}
    for every, shown in ((2, ["no", "yes"] * 4), (0, ["no"] * 8)):
        assert [key.held_out for key in Recipe(seed=1, items=items, held_out_every=every).item_keys()] == shown


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("size = 64", "size = -1", ("size", "16", "-1")),
        ("counting", "shine", ("items.shine", "'shine'")),
        ("size = 64", 'wording = "loose"', ("wording", "'minimal'", "'paper'", "'loose'")),
        ("[options.items]\ncounting = 2\n", "", ("items",)),
    ],
)
def test_a_wrong_option_is_named_with_file_key_and_value(tmp_path, old, new, message):
    path = write_file(tmp_path / "recipe.toml", GOOD.replace(old, new, 1))
    with raises(DataError, message):
        open_builder(read_recipe_file(path), tmp_path)
