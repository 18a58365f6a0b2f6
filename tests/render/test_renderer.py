"""Pictures: the same scene and seed give the same pixels, and a change stays where it is."""

import pytest

pytest.importorskip("mitsuba", reason="needs the render extra: mitsuba")
pytest.importorskip("pyoidn", reason="needs the render extra: pyoidn")

import numpy as np

from scripts import run_python
from tellapart_render.renderers.mitsuba import masks, render
from tellapart_render.renderers.renderer import Settings
from tellapart_render.scenes.quadruple import Key, draw

SMALL = Settings(size=40, samples=2, depth=3, seed=5)


@pytest.fixture(scope="module")
def pair():
    return [render(scene, SMALL) for scene in draw(Key("test", 2, "attribute", 2)).scenes]


def test_a_picture_is_srgb_bytes_neither_black_nor_burnt(pair):
    for picture in pair:
        assert picture.shape == (40, 40, 3)
        assert picture.dtype == np.uint8
        assert 40 < picture.mean() < 225
        assert picture.std() > 8


def test_the_same_scene_and_seed_give_the_same_pixels(pair):
    again = render(draw(Key("test", 2, "attribute", 2)).scenes[0], SMALL)
    np.testing.assert_array_equal(again, pair[0])


def test_rendering_something_else_in_between_changes_nothing(pair):
    render(draw(Key("test", 3, "location", 0)).scenes[0], Settings(32, 1, 2))
    np.testing.assert_array_equal(render(draw(Key("test", 2, "attribute", 2)).scenes[1], SMALL), pair[1])


def test_a_change_of_colour_shows_on_the_object_and_hardly_elsewhere(pair):
    visible, _ = masks(draw(Key("test", 2, "attribute", 2)).scenes[0], 40)
    difference = np.abs(pair[0].astype(int) - pair[1].astype(int)).mean(axis=2)
    assert difference[visible == 0].mean() > 20
    assert difference[visible == 0].mean() > 8 * difference[visible != 0].mean()


def test_a_missing_renderer_is_named_with_the_line_that_installs_it():
    # In a fresh process: what is imported once stays imported.
    code = (
        "import sys; sys.modules['mitsuba'] = None\n"
        "from tellapart_render.scenes.quadruple import Key, draw\n"
        "from tellapart_render.renderers.mitsuba import masks\n"
        "from tellapart.errors import MissingDependencyError\n"
        "try:\n    masks(draw(Key('test', 0, 'counting', 0)).scenes[0], 16)\n"
        "except MissingDependencyError as error:\n    print(error)\n"
    )
    printed = run_python("-c", code).stdout
    assert printed.startswith("mitsuba ") and 'pip install "tellapart[render]"' in printed
