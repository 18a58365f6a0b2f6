"""Options of rendered sets: which items show held-out pairs, and every mistake in a recipe gets one clear error."""

import pytest

from facts import raises
from tellapart.builders.recipe_file import open_builder, read_recipe_file
from tellapart.errors import DataError
from tellapart_render.scenes_builder import Recipe

GOOD = 'name = "few"\nbuilder = "scenes"\nseed = 3\n[options]\nsize = 64\n[options.items]\ncounting = 2\n'


def test_half_of_the_items_show_held_out_pairs_and_none_where_none_are_wanted():
    items = {"attribute": 4, "location": 4}
    half, none = (Recipe(seed=1, items=items, held_out_every=every).item_keys() for every in (2, 0))
    assert [key.held_out for key in half] == ["no", "yes"] * 4
    assert {key.held_out for key in none} == {"no"}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("size", "sise", ("recipe.toml", "'sise'", "'size'")),
        ("size = 64", "size = -1", ("size", "16", "-1")),
        ("size = 64", 'size = "3"', ("size", "'3'")),
        ("counting", "shine", ("items.shine", "'shine'")),
        ("size = 64", 'wording = "loose"', ("wording", "'minimal'", "'paper'", "'loose'")),
        ("[options.items]\ncounting = 2\n", "", ("items",)),
    ],
)
def test_a_wrong_option_is_named_with_file_key_and_value(tmp_path, old, new, message):
    path = tmp_path / "recipe.toml"
    path.write_text(GOOD.replace(old, new, 1))
    with raises(DataError, message):
        open_builder(read_recipe_file(path), tmp_path)
