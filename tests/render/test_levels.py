"""Graded aspects: the tag is what is measured, by formulas of this file; all else of both pictures is the same."""

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scanned import shelf

from facts import raises
from tellapart.builders.builder import Start
from tellapart.builders.pipeline import build
from tellapart.data.folder import read_pair_set
from tellapart.errors import DataError
from tellapart_render.captions.grammar import ASPECTS, GRADED, Aspect
from tellapart_render.meshes.materials import PALETTE, is_colour, mix_paint
from tellapart_render.renderers.mitsuba import masks as render_masks
from tellapart_render.scene_file import scene_of_item
from tellapart_render.scenes.quadruple import LEVELS, Key, Quadruple, View, ciede2000, draw_level, measure_level, to_lab
from tellapart_render.scenes_builder import Scenes
from tellapart_render.training_rows import write_training_rows

RECIPE = Path(__file__).parents[2] / "docs" / "recipes" / "levels.toml"
NUMBERS = range(10)


def drawn(aspect: Aspect) -> list[Quadruple]:
    return [draw_level(Key("test", 3, aspect, number)) for number in NUMBERS]


def step(aspect: Aspect, number: int) -> float:
    """The drawn step: even in the logarithm, by multiples of the golden ratio."""
    least, most = LEVELS[aspect].steps
    share = math.fmod(0.5 + number * (math.sqrt(5) - 1) / 2, 1)
    return math.exp(math.log(least) + share * math.log(most / least))


def view(rows: list[list[int]], alone: list[int], pixels: NDArray[np.uint8] | None = None) -> View:
    visible = np.array(rows, np.int16)
    return View(np.zeros((*visible.shape, 3), np.uint8) if pixels is None else pixels, visible, alone)


def test_every_graded_aspect_has_a_row():
    assert tuple(LEVELS) == GRADED
    assert not set(GRADED) & set(ASPECTS)


@pytest.mark.parametrize("aspect", GRADED)
def test_a_key_determines_its_quadruple_and_both_pictures_share_camera_light_and_ground(aspect):
    for number, quadruple in enumerate(drawn(aspect)):
        assert quadruple == draw_level(Key("test", 3, aspect, number))
        one, other = quadruple.scenes
        assert (one.camera, one.light, one.ground) == (other.camera, other.light, other.ground)
        assert one.things != other.things
        assert quadruple.captions[0] != quadruple.captions[1]


@pytest.mark.parametrize("aspect", ["colour", "hidden", "extent", "distractors"])
def test_the_colour_of_the_object_alone_differs(aspect):
    for quadruple in drawn(aspect):
        one, other = (scene.things for scene in quadruple.scenes)
        assert replace(one[0], colour=other[0].colour) == other[0]
        assert one[1:] == other[1:]
        words, others = (caption.split() for caption in quadruple.captions)
        changed = [pair for pair in zip(words, others, strict=True) if pair[0] != pair[1]]
        assert [{*pair} <= set(PALETTE) for pair in changed] == [True]


@pytest.mark.parametrize("aspect", ["size", "distance", "angle", "height"])
def test_levels_of_the_scene_are_the_drawn_steps_up_to_rounding(aspect):
    for number, quadruple in enumerate(drawn(aspect)):
        measured = measure_level(aspect, quadruple.scenes, ())
        assert measured == pytest.approx(step(aspect, number), rel=4e-3)


def test_the_level_of_a_scene_is_that_of_its_places():
    def places(aspect):
        scenes = drawn(aspect)[5].scenes
        shifts = [[a - b for a, b in zip(*(t.position for t in scene.things[:2]), strict=True)] for scene in scenes]
        return measure_level(aspect, scenes, ()), [(shift[0], shift[1]) for shift in shifts]

    distance, shifts = places("distance")
    near, far = sorted(math.hypot(*shift) for shift in shifts)
    assert distance == pytest.approx(far / near, rel=1e-3)
    angle, (one, other) = places("angle")
    assert angle == pytest.approx(abs(math.degrees(math.atan2(*one[::-1]) - math.atan2(*other[::-1]))), rel=1e-3)
    larger = drawn("size")[5].scenes[0].things
    sizes = sorted(thing.size for thing in larger)
    assert measure_level("size", drawn("size")[5].scenes, ()) == pytest.approx(sizes[1] / sizes[0], rel=1e-3)
    assert larger[0].shape == larger[1].shape


def test_the_larger_object_is_the_one_that_the_caption_calls_large():
    for quadruple in drawn("size"):
        for caption, scene in zip(quadruple.captions, quadruple.scenes, strict=True):
            large = scene.things[0].size > scene.things[1].size
            assert caption.startswith("The large" if large else "The small")
    for quadruple in drawn("height"):
        for caption, scene in zip(quadruple.captions, quadruple.scenes, strict=True):
            upper = max(scene.things[:2], key=lambda thing: thing.position[2])
            assert upper.shape.split()[-1] in caption.split(" above ")[0]
            assert all(block.position[2] + block.size == pytest.approx(thing.position[2], abs=2e-4)
                       for thing, block in zip(scene.things[:2], scene.things[2:], strict=True))  # fmt: skip
    for quadruple in drawn("angle"):
        for caption, scene in zip(quadruple.captions, quadruple.scenes, strict=True):
            assert ("left" in caption) == (scene.things[0].position[0] < scene.things[1].position[0])
    for quadruple in drawn("distance"):
        near, far = (math.dist(*(t.position for t in scene.things)) for scene in quadruple.scenes)
        assert ("near" in quadruple.captions[0]) == (near < far)


def test_levels_of_the_picture_are_counted_from_masks():
    scenes = drawn("count")[0].scenes
    two = view([[-1, 0, 0, 1], [-1, -1, -1, 1]], [2, 2])
    three = view([[2, 0, 0, 1], [-1, -1, -1, 1]], [2, 2, 1])
    assert measure_level("count", scenes, (two, three)) == measure_level("count", scenes, (three, two)) == 1
    assert measure_level("distractors", scenes, (three, three)) == 2
    half = view([[-1, 0, 1, 1], [-1, -1, 1, 1]], [4, 4])
    assert measure_level("hidden", scenes, (half, half)) == 75  # one of four pixels is seen
    assert measure_level("extent", scenes, (half, half)) == pytest.approx(100 * math.sqrt(1 / 8), rel=1e-3)


def test_the_level_of_a_colour_is_ciede2000_of_the_objects_pixels():
    pixels = np.zeros((1, 3, 3), np.uint8)
    pixels[0, :2], pixels[0, 2] = (255, 255, 255), (9, 99, 9)
    white = view([[0, 0, 1]], [2, 1], pixels)
    black = view([[0, 0, 1]], [2, 1], np.where(pixels == 255, 0, pixels).astype(np.uint8))
    # Of L* 100 and 0 alone: the lightness weight of 50 is 1.
    assert measure_level("colour", drawn("colour")[0].scenes, (white, black)) == pytest.approx(100, abs=0.05)


@pytest.mark.parametrize(
    ("one", "other", "difference"),
    [
        # Sharma, Wu and Dalal (2005), table 1
        ((50, 2.6772, -79.7751), (50, 0, -82.7485), 2.0425),
        ((50, 3.1571, -77.2803), (50, 0, -82.7485), 2.8615),
        ((50, -1.3802, -84.2814), (50, 0, -82.7485), 1.0000),
        ((50, 0, 0), (50, -1, 2), 2.3669),
        ((50, 2.49, -0.001), (50, -2.49, 0.0009), 7.1792),
        ((50, 2.49, -0.001), (50, -2.49, 0.0011), 7.2195),
        ((50, -0.001, 2.49), (50, 0.0009, -2.49), 4.8045),
        ((50, 2.5, 0), (50, 0, -2.5), 4.3065),
        ((50, 2.5, 0), (73, 25, -18), 27.1492),
        ((50, 2.5, 0), (61, -5, 29), 22.8977),
        ((50, 2.5, 0), (56, -27, -3), 31.9030),
        ((60.2574, -34.0099, 36.2677), (60.4626, -34.1751, 39.4387), 1.2644),
        ((63.0109, -31.0961, -5.8663), (62.8187, -29.7946, -4.0864), 1.2630),
        ((2.0776, 0.0795, -1.1350), (0.9033, -0.0636, -0.5514), 0.9082),
    ],
)
def test_ciede2000_is_the_papers(one, other, difference):
    for a, b in ((one, other), (other, one)):
        assert ciede2000(np.array(a), np.array(b)) == pytest.approx(difference, abs=5e-5)


def test_lab_of_the_primaries():
    green, grey = to_lab(np.array([[0, 255, 0], [119, 119, 119]], np.uint8))
    assert green == pytest.approx([87.73, -86.18, 83.18], abs=0.05)
    assert grey == pytest.approx([50.03, 0, 0], abs=0.05)


def test_paints_mix_between_two_of_the_palette():
    assert mix_paint("red") == mix_paint("red 0.0 blue") == pytest.approx(PALETTE["red"])
    assert mix_paint("red 1.0 blue") == pytest.approx(PALETTE["blue"])
    assert mix_paint("metallic") == PALETTE["white"]
    assert all(map(is_colour, ("", "metallic", "red", "red 0.25 blue")))
    assert not any(map(is_colour, ("teal", "red 0.25 teal", "red 0.25", "red x blue", "red 0.25 blue ")))


@pytest.mark.slow
def test_the_recipe_builds_and_its_levels_are_those_of_its_scenes_and_masks(tmp_path):
    pytest.importorskip("mitsuba", reason="needs the render extra: mitsuba")
    pytest.importorskip("pyoidn", reason="needs the render extra: pyoidn")
    text = re.sub(r"= 6[67]$", "= 1", RECIPE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    (tmp_path / "levels.toml").write_text(text.replace("size = 112", "size = 64").replace("samples = 4", "samples = 1"))
    items = read_pair_set(build(tmp_path / "levels.toml", tmp_path / "set").folder).items
    assert [item.tags["aspect"] for item in items] == list(GRADED)
    levels = {item.tags["aspect"]: float(item.tags["level"]) for item in items}
    for item in items:
        scenes = [scene_of_item(item, side).scene for side in (0, 1)]
        seen = [render_masks(scene, 64)[0] for scene in scenes]
        match item.tags["aspect"]:
            case "count":
                assert levels["count"] == abs(len(scenes[0].things) - len(scenes[1].things))
            case "distractors":
                assert levels["distractors"] == len(scenes[0].things) - 1
            case "hidden":
                alone = (render_masks(replace(scenes[0], things=scenes[0].things[:1]), 64)[0] == 0).sum()
                assert levels["hidden"] == pytest.approx(100 * (1 - (seen[0] == 0).sum() / alone), rel=1e-3)
            case "extent":
                assert levels["extent"] == pytest.approx(100 * math.sqrt((seen[0] == 0).sum()) / 64, rel=1e-3)
            case "size":
                assert levels["size"] == pytest.approx(step("size", 0), rel=4e-3)
    with raises(DataError, "'count'", "count-000", str(tmp_path / "set")):
        write_training_rows(tmp_path / "set")


def test_scanned_objects_have_no_graded_aspects(tmp_path):
    shelf(tmp_path / "scans")
    start = Start(Scenes.Options(assets="scans", items={"counting": 1, "size": 2}), 1, tmp_path)
    with raises(DataError, "scans", "items.size", "0"):
        Scenes(start)
