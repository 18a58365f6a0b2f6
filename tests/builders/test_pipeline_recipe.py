"""A wrong recipe is answered with what is wrong in it and the nearest right word."""

from __future__ import annotations

from pathlib import Path

import pytest

from facts import raises
from tellapart.builders.builder import Made
from tellapart.builders.item_filters import ItemFilter
from tellapart.builders.pipeline import build
from tellapart.builders.recipe_file import RecipeFile, open_builder, open_filters, open_selections, read_recipe_file
from tellapart.builders.selections import Selection
from tellapart.catalog import BUILDERS, FILTERS, SELECTIONS, load
from tellapart.data.item import Item
from tellapart.errors import DataError, TellapartError, UnknownNameError

RIGHT = 'name = "few"\nbuilder = "negatives"\n[options]\ncaptions = "c.csv"\nimages = "."\n'

SERVED = RIGHT.replace("negatives", "language-negatives") + '[options.model]\nsource = "http://127.0.0.1:9/v1"\n'


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "recipe.toml"
    path.write_text(text)
    return path


def test_a_right_recipe_is_read_with_its_defaults(tmp_path: Path) -> None:
    read = read_recipe_file(written(tmp_path, RIGHT))
    assert (read.seed, read.retries, read.max_failed, read.filters) == (0, 2, 0, [])


@pytest.mark.parametrize("name", ["scenes.toml", "negatives.toml"])
def test_the_recipes_in_the_documents_are_right(name: str) -> None:
    assert read_recipe_file(Path(__file__).parents[2] / "docs" / "recipes" / name).builder == name.removesuffix(".toml")


@pytest.mark.parametrize(
    ("wrong", "error", "says"),
    [
        (
            RIGHT.replace("builder", "bilder"),
            DataError,
            ("recipe.toml", "'bilder'", "'builder'"),
        ),
        (
            RIGHT.replace("captions =", "caption ="),
            DataError,
            ("[options]", "'caption'", "'captions'"),
        ),
        (RIGHT.replace("negatives", "negative"), UnknownNameError, ("builder", "'negative'", "'negatives'")),
        (
            RIGHT.replace("negatives", "zebra"),
            UnknownNameError,
            ("builder", "'zebra'", "all"),
        ),
        (RIGHT.replace('name = "few"\n', ""), DataError, ("recipe.toml", "'name'")),
        (RIGHT.replace('"few"', '"a/b"'), DataError, ("'name'", "'a/b'")),
        (f"seed = -1\n{RIGHT}", DataError, ("'seed'", "input", "0", "-1")),
        (f"{RIGHT}kinds = []\n", DataError, ("[options]", "'kinds'")),
        (
            f'{RIGHT}kinds = ["swap"]\n',
            DataError,
            ("[options]", "'kinds[0]'", "input", "'replace_obj'", "'swap'"),
        ),
        (
            f'{RIGHT}[[filters]]\nname = "word"\n',
            UnknownNameError,
            ("filters[0]", "filter", "'word'", "'words'"),
        ),
        (
            f"{RIGHT}[[filters]]\nmaximum = 3\n",
            DataError,
            ("filters[0]", "'name'", "words"),
        ),
        (
            f'{RIGHT}[[filters]]\nname = "words"\nmax = 3\n',
            DataError,
            ("filters[0]", "'max'", "'maximum'"),
        ),
        (
            f'{RIGHT}[[selections]]\nname = "distinkt"\n',
            UnknownNameError,
            ("selections[0]", "selection", "'distinkt'", "'distinct'", "distinct"),
        ),
        (
            f'{RIGHT}[[selections]]\nname = "per_cluster"\n',
            DataError,
            ("selections[0]", "'maximum'"),
        ),
        ("name = \n", DataError, ("recipe.toml", "TOML", "Invalid")),
        (
            'name = "few"\nbuilder = "scenes"\n[options]\nrenderer = "blender"\nblender_python = "./evil"\n',
            DataError,
            ("[options]", "'blender_python'", "TELLAPART_BLENDER_PYTHON"),
        ),
        (
            SERVED + 'key_variable = "AWS_SECRET_ACCESS_KEY"\n',
            DataError,
            ("[options]", "'model.key_variable'", "TELLAPART_API_KEY"),
        ),
        (
            SERVED + 'api_key = "sk-1"\n',
            DataError,
            ("[options]", "'model.api_key'", "TELLAPART_API_KEY"),
        ),
    ],
)
def test_a_wrong_recipe_says_what_is_wrong(
    tmp_path: Path, wrong: str, error: type[TellapartError], says: str | tuple[str, ...]
) -> None:
    with raises(error, says):
        read_recipe_file(written(tmp_path, wrong))


def test_the_fingerprint_is_of_all_that_decides_the_set_and_of_nothing_else() -> None:
    recipe = RecipeFile(name="few", builder="negatives", seed=1)
    same = recipe.fingerprint({"captions.csv": "a"}, {"m": "1"}, "1")
    assert (
        recipe.model_copy(update={"retries": 9, "max_failed": 9}).fingerprint({"captions.csv": "a"}, {"m": "1"}, "1")
        == same
    )
    others = {
        recipe.fingerprint({"captions.csv": "b"}, {"m": "1"}, "1"),
        recipe.fingerprint({"captions.csv": "a"}, {"m": "2"}, "1"),
        recipe.fingerprint({"captions.csv": "a"}, {"m": "1"}, "2"),
        *(
            recipe.model_copy(update=change).fingerprint({"captions.csv": "a"}, {"m": "1"}, "1")
            for change in ({"seed": 2}, {"filters": [{"name": "words"}]}, {"selections": [{"name": "distinct"}]})
        ),
    }
    assert len(others | {same}) == 7


def test_options_that_no_file_was_read_for_are_checked_too() -> None:
    with raises(DataError, "[options]", "'image'", "'images'"):
        open_builder(RecipeFile(name="few", builder="negatives", options={"image": "."}), Path())


def test_the_page_on_builders_names_every_builder_option_and_filter() -> None:
    page = (Path(__file__).parents[2] / "docs" / "builders.md").read_text(encoding="utf-8")
    named = {*BUILDERS, *FILTERS, *SELECTIONS}
    named |= {option for name in BUILDERS for option in load("builder", name).Options.model_fields}
    assert {name for name in named if f"`{name}`" not in page} == set()


def test_every_filter_and_selection_of_the_catalogue_is_one() -> None:
    assert {name for name in FILTERS if not issubclass(load("filter", name), ItemFilter)} == set()
    assert {name for name in SELECTIONS if not issubclass(load("selection", name), Selection)} == set()


@pytest.mark.usefixtures("site")
def test_another_package_adds_a_filter_and_a_selection(tmp_path: Path) -> None:
    rules = {"filters": [{"name": "quiet"}], "selections": [{"name": "first", "count": 1}]}
    recipe = RecipeFile(name="few", builder="squares", **rules)
    ((_, quiet),), ((_, first),) = open_filters(recipe, "r.toml"), open_selections(recipe, "r.toml")
    items = [Item(id=name, images=("a.png",), texts=("A DOG", "a cat")) for name in "ab"]
    assert quiet.fault(Made(items[0], {})) == "a shouted caption"
    assert first.left_out(items, seed=0, home=tmp_path) == {"b": "not among the first"}


@pytest.mark.parametrize("workers", [1, 2])
def test_a_program_beside_the_recipe_is_not_run(tmp_path: Path, workers: int) -> None:
    program, ran = tmp_path / "evil", tmp_path / "ran"
    program.write_text(f"#!/bin/sh\ntouch {ran}\n")
    program.chmod(0o755)
    recipe = written(
        tmp_path,
        'name = "few"\nbuilder = "scenes"\n'
        f'[options]\nrenderer = "blender"\nblender_python = "{program}"\n[options.items]\ncounting = 1\n',
    )
    with raises(DataError, "program", "recipe"):
        build(recipe, tmp_path / "set", workers=workers)
    assert not ran.exists()
