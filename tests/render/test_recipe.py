"""Recipes: what is read is what is written, and every mistake gets one clear error."""

from __future__ import annotations

from pathlib import Path

import pytest

from facts import raises
from tellapart.errors import DataError
from tellapart_render.demo import main
from tellapart_render.recipe import Recipe, read_recipe

GOOD = 'name = "few"\nseed = 3\n[items]\ncounting = 2\n'


def written(folder: Path, text: str) -> Path:
    path = folder / "recipe.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_defaults_are_those_of_the_demo(tmp_path: Path) -> None:
    recipe = read_recipe(written(tmp_path, GOOD))
    assert (recipe.size, recipe.samples, recipe.wording, recipe.held_out_every) == (160, 8, "minimal", 2)


def test_every_value_enters_the_fingerprint() -> None:
    base = Recipe(name="few", seed=3, items={"counting": 2})
    changes = [{"seed": 4}, {"size": 96}, {"samples": 4}, {"quality": 50}, {"items": {"counting": 3}}, {"name": "b"}]
    changes += [{"exchange": ["numbers"]}, {"unseen": ["light"]}]
    found = {base.model_copy(update=change).fingerprint for change in changes}
    assert len(found | {base.fingerprint}) == len(changes) + 1


def test_half_of_the_items_show_held_out_pairs_and_none_where_none_are_wanted() -> None:
    items = {"attribute": 4, "location": 4}
    assert [k.held_out for k in Recipe(name="a", seed=1, items=items).item_keys()] == ["no", "yes"] * 4
    assert {k.held_out for k in Recipe(name="a", seed=1, items=items, held_out_every=0).item_keys()} == {"no"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            GOOD.replace("seed", "sead"),
            ("recipe.toml", "'sead'", "'seed'"),
        ),
        (GOOD.replace("seed = 3", "seed = -1"), ("'seed'", "0", "-1")),
        (GOOD.replace("seed = 3", 'seed = "3"'), ("'seed'", "'3'")),
        (GOOD.replace("counting", "shine"), ("items.shine", "'shine'")),
        (GOOD + 'wording = "loose"\n', ("items.wording", "key")),
        ('wording = "loose"\n' + GOOD, ("'wording'", "'minimal'", "'paper'", "'loose'")),
        ("name = few", ("recipe.toml", "TOML")),
        ('name = "few"\nseed = 1\n', ("'items'", "key")),
    ],
)
def test_a_wrong_recipe_is_named_with_file_key_and_value(
    tmp_path: Path, text: str, message: str | tuple[str, ...]
) -> None:
    with raises(DataError, message):
        read_recipe(written(tmp_path, text))


def test_a_missing_recipe_is_named_with_the_keys_it_needs(tmp_path: Path) -> None:
    with raises(DataError, "gone.toml", "TOML", "recipe"):
        read_recipe(tmp_path / "gone.toml")


def test_a_folder_that_holds_something_is_not_written_over(tmp_path: Path) -> None:
    recipe = written(tmp_path, GOOD)
    with raises(DataError, "pair", "folder"):
        main(["--recipe", str(recipe), "--out", str(tmp_path)])
