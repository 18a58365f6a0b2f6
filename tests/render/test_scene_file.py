"""Scenes as JSON, read back and rendered to the bytes of the set's picture; Blender beside Mitsuba."""

import os
import sys
from functools import reduce
from importlib.util import find_spec
from operator import getitem
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scanned import shelf

from facts import raises
from sets import write_file
from tellapart.builders.pipeline import build
from tellapart.data.item import Item
from tellapart.errors import DataError
from tellapart_render.meshes.assets import read_asset
from tellapart_render.renderers.blender import VARIABLE, Blender
from tellapart_render.renderers.renderer import Settings
from tellapart_render.scene_file import SceneFile, load_renderer, main, read_scene_file, scene_of_item, write_scene_file
from tellapart_render.scenes.quadruple import Key, draw
from tellapart_render.scenes_builder import encode

CONTENT = SceneFile(draw(Key("test", 0, "location", 1, vocabulary="figure-14")).scenes[0], Settings(24, 1, 2, 3))


def need_renderer() -> None:
    for library in ("mitsuba", "pyoidn"):
        pytest.importorskip(library, reason=f"needs the render extra: {library}")


@pytest.mark.parametrize("aspect", ["attribute", "counting", "location"])
def test_every_scene_is_read_back_as_it_was_written(tmp_path, aspect):
    for index in range(5):
        for scene in draw(Key("test", 1, aspect, index, vocabulary="figure-14")).scenes:
            content = SceneFile(scene, Settings(32, 2, 3, index), "blender")
            write_scene_file(tmp_path / "scene.json", content)
            assert read_scene_file(tmp_path / "scene.json") == content


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("camera", "field"), "wide", ("scene.json", "'camera.field'", "input")),
        (("camera", "zoom"), 2, "'camera.zoom'"),
        (("things", 0, "size"), -1, ("'things[0].size'", "input", "0")),
        (("things", 1, "position"), [0, 1], ("'things[1].position[2]'", "missing")),
        (("things", 1, "shape"), "spoon", ("'things[1].shape'", "shape")),
        (("things", 0, "colour"), "teal", ("'things[0].colour'", "'teal'")),
        (("things", 0, "colour"), "red 0.5 teal", ("'things[0].colour'", "'red 0.5 teal'")),
        (("ground", "floor"), "sand", ("'ground.floor'", "'sand'")),
        (("ground", "wall"), 99, ("'ground.wall'", "input", "12")),
        (("format",), 2, ("'format'", "input", "1")),
        (("settings", "renderer"), "povray", ("'settings.renderer'", "input", "'mitsuba'", "'blender'")),
    ],
)
def test_a_wrong_field_is_named(tmp_path, path, value, message):
    fields = CONTENT.to_json()
    reduce(getitem, path[:-1], fields)[path[-1]] = value
    with raises(DataError, message):
        read_scene_file(write_file(tmp_path / "scene.json", fields))


def test_what_is_not_json_and_items_of_other_builders_are_refused(tmp_path):
    file = tmp_path / "scene.json"
    with raises(DataError, "scene.json", ".scene_file"):
        read_scene_file(file)
    file.write_text("{")
    with raises(DataError, "scene.json", "JSON"):
        read_scene_file(file)
    with raises(DataError, "'a'", "'camera'"):
        scene_of_item(Item(id="a", images=("a.png",), texts=("x", "y")), 0)


def test_an_exported_scene_renders_to_the_bytes_of_the_set(tmp_path):
    need_renderer()
    recipe = 'name = "few"\nbuilder = "scenes"\nseed = 5\n[options]\nsize = 32\nsamples = 1\ndepth = 2\n'
    recipe = write_file(tmp_path / "recipe.toml", f"{recipe}[options.items]\nlocation = 1\n")
    made = build(recipe, tmp_path / "few")
    for side in (0, 1):
        assert main(["export", str(made.folder), "location-000", str(side), "--out", str(tmp_path / "s.json")]) == 0
        assert main(["render", str(tmp_path / "s.json"), "--out", str(tmp_path / "s.png")]) == 0
        with Image.open(tmp_path / "s.png") as image:
            pixels = np.asarray(image)
        assert encode(pixels, 86) == (made.folder / f"images/location-000_{side}.webp").read_bytes()
    with raises(DataError, "'nothing'", "location-000"):
        main(["export", str(made.folder), "nothing", "0", "--out", "unused"])


def test_a_scene_of_assets_is_rendered_where_their_folder_is_named(tmp_path):
    need_renderer()
    name = read_asset(shelf(tmp_path / "scans"), "Brick").shape
    fields = CONTENT.to_json()
    fields["things"] = [{"shape": name, "colour": "", "size": 1.0, "position": [0, 0, 0], "yaw": 0.3}]
    write_file(tmp_path / "scene.json", fields)
    arguments = ["render", str(tmp_path / "scene.json"), "--out", str(tmp_path / "s.png")]
    assert main([*arguments, "--assets", str(tmp_path / "scans")]) == 0
    with Image.open(tmp_path / "s.png") as image:
        assert image.size == (24, 24)
    assert load_renderer("mitsuba").name == "mitsuba"


# Blender beside Mitsuba: the same scene, the same masks but for edges, the same pixels again; and clear refusals.

SCENE = draw(Key("test", 4, "location", 1, vocabulary="figure-14")).scenes[0]
MADE = Path(__file__).parents[2] / "scratch" / "blender" / "bin" / "python"
BLENDER_SETTINGS = Settings(size=48, samples=4, depth=3, seed=5)


@pytest.fixture(scope="module")
def python():
    found = os.environ.get(VARIABLE) or (str(MADE) if MADE.exists() else "")
    if not found:
        pytest.skip(f"needs an interpreter that has bpy, in {VARIABLE}, or: python ci/parts.py blender")
    return found


@pytest.fixture(scope="module")
def blender(python):
    """Start the worker, and what the other renderer keeps for the process, before the first test."""
    if find_spec("mitsuba") and find_spec("pyoidn"):
        from tellapart_render.renderers.mitsuba import MITSUBA

        MITSUBA.masks(SCENE, 16)
    blender = Blender(python)
    blender.masks(SCENE, 16)
    return blender


@pytest.mark.slow
def test_both_renderers_agree_on_places_light_and_colour(blender):
    need_renderer()
    from tellapart_render.renderers.mitsuba import MITSUBA

    (seen, alone), (there, lone) = blender.masks(SCENE, 64), MITSUBA.masks(SCENE, 64)
    assert seen.shape == there.shape
    assert (seen == there).mean() > 0.98
    np.testing.assert_allclose(alone, lone, rtol=0.1)
    ours, theirs = (each.render(SCENE, BLENDER_SETTINGS).astype(float) for each in (blender, MITSUBA))
    assert ours.shape == theirs.shape == (48, 48, 3)
    np.testing.assert_allclose(ours.mean(axis=(0, 1)), theirs.mean(axis=(0, 1)), atol=12)
    assert np.corrcoef(ours.ravel(), theirs.ravel())[0, 1] > 0.9


@pytest.mark.slow
def test_the_same_scene_gives_the_same_pixels_also_in_another_process(blender, python):
    once = blender.render(SCENE, BLENDER_SETTINGS)
    blender.masks(SCENE, 16)
    np.testing.assert_array_equal(blender.render(SCENE, BLENDER_SETTINGS), once)
    np.testing.assert_array_equal(Blender(python).render(SCENE, BLENDER_SETTINGS), once)


@pytest.mark.slow
def test_a_job_that_fails_says_why_and_the_worker_goes_on(blender):
    with raises(DataError, "Blender", "Traceback"):
        blender.render(SCENE, Settings(size=16, samples="many"))
    assert blender.masks(SCENE, 16)[0].shape == (16, 16)
    assert set(blender.versions) == {"blender"}


def test_a_missing_interpreter_is_an_error_with_the_fix(monkeypatch, tmp_path):
    monkeypatch.delenv(VARIABLE, raising=False)
    without = write_file(tmp_path / "python", f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    without.chmod(0o755)
    cases = {"": ("'blender'", "Python", "Blender", VARIABLE), "/no/such": ("/no/such", "Python")}
    for python, facts in (cases | {str(without): ("Blender", "1", "Python")}).items():
        with raises(DataError, facts):
            Blender(python).masks(SCENE, 16)
