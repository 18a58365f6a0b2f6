"""Laws of drawn quadruples and of graded ones: minimal, determined by the key, held-out pairs kept apart."""

import hashlib
import json
import math
import re
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scanned import shelf
from sentences import words_apart

from facts import raises
from tellapart.builders.builder import Start
from tellapart.builders.pipeline import build
from tellapart.data.folder import read_pair_set
from tellapart.errors import DataError
from tellapart_render.captions.grammar import ASPECTS, COUNTS, GRADED, HELD_OUT, LOCATIONS, SIZES, Aspect
from tellapart_render.meshes.materials import PALETTE, is_colour, mix_paint
from tellapart_render.meshes.objects import SHAPES, shape
from tellapart_render.renderers.mitsuba import masks as render_masks
from tellapart_render.scene_file import scene_of_item
from tellapart_render.scenes import quadruple as graded
from tellapart_render.scenes import scene as placing
from tellapart_render.scenes.quadruple import LEVELS, Key, Quadruple, draw, draw_level, measure_level
from tellapart_render.scenes.scene import Scene, Thing, camera_for, can_carry, corners, draw_ground, project
from tellapart_render.scenes_builder import Scenes
from tellapart_render.training_rows import write_training_rows

KEYS = [Key("test", 7, a, i, held_out=h) for a, i, h in product(ASPECTS, range(60), ("yes", "no"))]
KEYS += [Key("test", 7, "attribute", 119)]  # the first pair of which the kind alone differs


@pytest.fixture(scope="module")
def drawn():
    return [draw(key) for key in KEYS]


@pytest.fixture(scope="module")
def of(drawn):
    """The drawn quadruples of an aspect."""
    return lambda aspect: [quadruple for quadruple in drawn if quadruple.key.aspect == aspect]


def test_attribute_pairs_differ_in_the_attribute_words_and_in_what_carries_them(of):
    for quadruple in of("attribute"):
        one, other = (scene.things for scene in quadruple.scenes)
        assert one[1] == other[1]
        assert replace(one[0], shape=other[0].shape, colour=other[0].colour) == other[0] != one[0]
        words = words_apart(*map(str.split, quadruple.captions))
        allowed = [set(nouns[0].attribute.split()) for nouns in quadruple.nouns]
        assert set(words[0]) <= allowed[0] and set(words[1]) <= allowed[1] and words != ([], [])
        assert quadruple.nouns[0][0].category == quadruple.nouns[1][0].category


def test_location_pairs_differ_in_the_location_and_where_the_object_stands(of):
    relation_of = {words: r for r, group in LOCATIONS.items() for words in group}
    for quadruple in of("location"):
        one, other = (scene.things for scene in quadruple.scenes)
        assert one[1] == other[1]
        assert replace(one[0], position=other[0].position) == other[0] != one[0]
        assert {f.relation for f in quadruple.facts} == {relation_of[w] for w in quadruple.place.split("/")}
        assert quadruple.facts[0].relation != quadruple.facts[1].relation
        said = [*zip(quadruple.captions, quadruple.place.split("/"), strict=True)]
        assert all(f" {words} the " in caption for caption, words in said)
        assert len({caption.replace(words, "*") for caption, words in said}) == 1


def test_counting_pairs_differ_in_the_number_and_share_the_common_objects(of):
    for quadruple in of("counting"):
        few, many = sorted((scene.things for scene in quadruple.scenes), key=len)
        assert many[: len(few)] == few
        counts = [len(scene.things) for scene in quadruple.scenes]
        assert words_apart(*map(str.split, quadruple.captions)) == ([str(counts[0])], [str(counts[1])])
        assert set(counts) <= set(COUNTS) - {1}
        assert len({(t.shape, t.colour, t.size) for t in many}) == 1


def test_all_kinds_of_change_occur_and_held_out_pairs_where_they_are_wanted_alone(drawn, of):
    assert {f.relation for q in drawn for f in q.facts} == {None, *LOCATIONS}
    assert {f.count for q in of("counting") for f in q.facts} == {2, 3, 4, 5}
    assert {size for q in of("attribute") for size in q.sizes} == set(SIZES)
    assert {q.change for q in of("attribute")} == {"colour", "kind", "colour and kind"}
    for quadruple in drawn:
        pairs = {(t.shape, t.colour) for scene in quadruple.scenes for t in scene.things}
        assert bool(pairs & HELD_OUT) == (quadruple.key.held_out == "yes")


@pytest.mark.parametrize(("pairs", "gap"), [(100, 0.16), pytest.param(700, 0.08, marks=pytest.mark.slow)])
def test_the_order_of_a_pair_tells_nothing(pairs, gap):
    counting = [draw(Key("test", 7, "counting", i, held_out=h)) for i in range(pairs // 2) for h in ("yes", "no")]
    more_first = np.mean([q.facts[0].count > q.facts[1].count for q in counting])
    assert abs(more_first - 0.5) < gap


def test_size_words_are_true_of_every_pair_of_things(of):
    scenes = [(scene, quadruple.sizes) for quadruple in of("attribute") for scene in quadruple.scenes]
    said = [(word, t.size) for scene, words in scenes for t, word in zip(scene.things, words, strict=True)]
    assert max(size for word, size in said if word == "small") * 1.3 < min(s for word, s in said if word == "large")


def test_everything_is_in_view_and_things_on_top_rest_on_what_carries_them(drawn):
    for scene in (scene for quadruple in drawn[::7] for scene in quadruple.scenes):
        seen = np.concatenate([project(corners(thing), scene.camera) for thing in scene.things])
        assert np.abs(seen[:, :2]).max() < 1.1 and seen[:, 2].min() > 0
    for quadruple in drawn:
        for scene, fact in zip(quadruple.scenes, quadruple.facts, strict=True):
            if fact.relation == "top":
                assert can_carry(scene.things[1], scene.things[0])
                assert scene.things[0].position[2] > 0
            else:
                assert all(thing.position[2] == 0 for thing in scene.things)


def test_streams_seeds_indices_and_attempts_give_different_scenes():
    key = Key("demo", 1, "location", 0)
    others = [replace(key, stream="train"), replace(key, seed=2), replace(key, index=1), replace(key, attempt=1)]
    assert len({draw(each).scenes for each in (key, *others)}) == 5


def test_the_papers_wording_allows_a_count_of_one_and_two_verbs():
    loose, places = (
        [draw(Key("test", 3, aspect, i, wording="paper")) for i in range(30)] for aspect in ("counting", "location")
    )
    ones = [q for q in loose if 1 in {f.count for f in q.facts}]
    assert ones and all(" 1 " in f" {' '.join(q.captions)} " for q in ones)
    said = [zip(q.captions, q.place.split("/"), strict=True) for q in places]
    assert any(len({caption.split(f" {words} ")[0] for caption, words in pair}) == 2 for pair in said)


def test_a_scene_survives_its_record(drawn):
    scene = drawn[0].scenes[0]
    assert Scene.from_record(scene.to_record()) == scene
    for wrong, facts in (({}, "'camera'"), (scene.to_record() | {"light": [0.1]}, ("5", "record"))):
        with raises(DataError, "scene", facts):
            Scene.from_record(wrong)


def test_scenes_with_nothing_unseen_are_what_they_were():
    keys = [Key("demo", 7, a, i, vocabulary=v) for a, i, v in product(ASPECTS[:3], range(6), ("demo", "figure-14"))]
    records = [scene.to_record() for key in keys for scene in draw(key).scenes]
    assert hashlib.sha256(json.dumps(records).encode()).hexdigest()[:16] == "d4ae1d797bc62d40"  # before there was any


def test_what_is_unseen_is_drawn_from_other_ranges_and_the_rest_stays():
    keys = [Key("demo", 7, a, i) for a, i in product(ASPECTS, range(15))]
    usual = [draw(key) for key in keys]
    other = [draw(replace(key, unseen=("camera", "light", "ground"))) for key in keys]
    for one, new in zip(usual, other, strict=True):
        assert one.captions == new.captions and new.scenes[0].camera == new.scenes[1].camera
        assert [scene.things for scene in one.scenes] == [scene.things for scene in new.scenes]

    def values(drawn, part, field):
        return {getattr(getattr(one.scenes[0], part), field) for one in drawn}

    for field in ("elevation", "spread", "strength", "room"):
        assert max(values(usual, "light", field)) < min(values(other, "light", field))
    assert max(map(abs, values(usual, "light", "warmth"))) <= 1 < min(map(abs, values(other, "light", "warmth")))
    assert max(values(usual, "camera", "field")) < min(values(other, "camera", "field"))
    for field in ("floor", "tile", "wall"):
        assert not values(usual, "ground", field) & values(other, "ground", field)
    lit = draw(replace(keys[0], unseen=("light",))).scenes[0]
    assert (lit.camera, lit.ground) == (usual[0].scenes[0].camera, usual[0].scenes[0].ground)
    assert lit.light == other[0].scenes[0].light


def test_order_items_take_turns_with_the_exchanges_that_are_asked_for():
    def drawn(**chosen):
        return [draw(replace(Key("demo", 7, "order", k), **chosen)).change for k in range(6)]

    assert drawn() == drawn(exchange=("colours", "numbers", "places")) == ["colours", "numbers", "places"] * 2
    assert drawn(exchange=("numbers",)) == ["numbers"] * 6
    assert drawn(exchange=("places", "numbers")) == ["places", "numbers"] * 3


SUBJECT = Thing("bowl", "blue", 1.0, (0.0, 0.0, 0.0), 0.0)
AXES = {"left": (0, -1), "right": (0, 1), "front": (1, -1), "behind": (1, 1)}


@pytest.mark.parametrize("relation", [r for r in LOCATIONS if r != "top"])
@given(seed=st.integers(0, 10**6), name=st.sampled_from(SHAPES))
@settings(max_examples=30, deadline=None)
def test_a_thing_stands_on_its_side_and_clear_of_the_subject(relation, seed, name):
    thing = Thing(name, "red", 0.9, (0.0, 0.0, 0.0), 0.3)
    thing = placing.relate(thing, relation, SUBJECT, np.random.default_rng(seed))
    axis, sign = AXES[relation]
    along, across = thing.position[axis] * sign, thing.position[1 - axis]
    assert along > 0 and abs(across) < 0.4 * along
    assert np.hypot(*(corners(thing)[:, :2]).T).min() > shape("bowl").reach


@given(seed=st.integers(0, 10**6), count=st.integers(1, 5), reach=st.floats(0.2, 0.7))
@settings(max_examples=60, deadline=None)
def test_scattered_things_never_touch(seed, count, reach):
    spots = placing.scatter(count, 1.0, reach, np.random.default_rng(seed))
    assert len(spots) == count
    for one, other in combinations(spots, 2):
        assert np.hypot(one[0] - other[0], one[1] - other[1]) >= 2 * reach


def test_things_stack_as_in_a_kitchen():
    def on(above, below, size=1.0):
        return can_carry(Thing(below, "", 1.0, (0, 0, 0), 0.0), Thing(above, "", size, (0, 0, 0), 0.0))

    assert on("mug", "gift box") and on("bowl", "round plate")
    assert not on("mug", "bowl"), "it would fall in"
    assert not on("mug", "teapot"), "a lid with a knob carries nothing"
    assert not on("gift box", "round plate", 1.3), "wider than the plate's hollow"


@pytest.mark.parametrize("high", [True, False])
def test_the_camera_is_as_near_as_the_frame_allows(high):
    things = [SUBJECT, Thing("mug", "red", 1.0, (1.6, 0.4, 0.0), 1.0)]
    for seed in range(20):
        camera = camera_for(things, np.random.default_rng(seed), high=high)
        seen = project(np.concatenate([corners(t) for t in things]), camera)
        assert 0.6 < np.abs(seen[:, :2]).max() < 1.05


def test_floors_hide_nothing_and_the_wall_stands_behind_everything():
    def grounds(*things):
        return [draw_ground([*things], np.random.default_rng(k)) for k in range(60)]

    white, far = (Thing("mug", colour, 1.0, (0.0, y, 0.0), 0.0) for colour, y in (("white", 0.0), ("red", 3.0)))
    assert not {ground.floor for ground in grounds(white)} & {"marble", "paper"}
    assert min(ground.wall_distance for ground in grounds(SUBJECT, far)) > corners(far)[:, 1].max()


# Graded aspects: the tag is what is measured, by formulas of this file; all else of both pictures is the same.

RECIPE = Path(__file__).parents[2] / "docs" / "recipes" / "levels.toml"
NUMBERS = range(10)


def draw_levels(aspect: Aspect) -> list[Quadruple]:
    return [draw_level(Key("test", 3, aspect, number)) for number in NUMBERS]


def step(aspect: Aspect, number: int) -> float:
    """The drawn step: even in the logarithm, by multiples of the golden ratio."""
    least, most = LEVELS[aspect].steps
    share = math.fmod(0.5 + number * (math.sqrt(5) - 1) / 2, 1)
    return math.exp(math.log(least) + share * math.log(most / least))


def view(rows: list[list[int]], alone: list[int], pixels: NDArray[np.uint8] | None = None) -> graded.View:
    visible = np.array(rows, np.int16)
    return graded.View(np.zeros((*visible.shape, 3), np.uint8) if pixels is None else pixels, visible, alone)


def test_graded_aspects_have_rows_and_none_are_of_scanned_objects(tmp_path):
    assert tuple(LEVELS) == GRADED
    assert not set(GRADED) & set(ASPECTS)
    shelf(tmp_path / "scans")
    start = Start(Scenes.Options(assets="scans", items={"counting": 1, "size": 2}), 1, tmp_path)
    with raises(DataError, "scans", "items.size", "0"):
        Scenes(start)


@pytest.mark.parametrize("aspect", GRADED)
def test_a_key_determines_its_quadruple_and_both_pictures_share_camera_light_and_ground(aspect):
    for number, quadruple in enumerate(draw_levels(aspect)):
        assert quadruple == draw_level(Key("test", 3, aspect, number))
        one, other = quadruple.scenes
        assert (one.camera, one.light, one.ground) == (other.camera, other.light, other.ground)
        assert one.things != other.things
        assert quadruple.captions[0] != quadruple.captions[1]


@pytest.mark.parametrize("aspect", ["colour", "hidden", "extent", "distractors"])
def test_the_colour_of_the_object_alone_differs(aspect):
    for quadruple in draw_levels(aspect):
        one, other = (scene.things for scene in quadruple.scenes)
        assert replace(one[0], colour=other[0].colour) == other[0]
        assert one[1:] == other[1:]
        (first,), (second,) = words_apart(*map(str.split, quadruple.captions))
        assert {first, second} <= set(PALETTE)


@pytest.mark.parametrize(("seed", "number"), [(1, 52), (1, 102), (2, 36)])
def test_no_sneaker_distracts_from_the_one_shoe_of_a_caption(seed, number):
    quadruple = draw_level(Key("test", seed, "distractors", number, vocabulary="figure-14"))
    assert " 1 " in f" {quadruple.captions[0]}" and "shoe" in quadruple.captions[0]
    assert not {thing.shape for thing in quadruple.scenes[0].things} & {"boot", "sneaker", "canvas shoe", "high heel"}


@pytest.mark.parametrize("aspect", ["size", "distance", "angle", "height"])
def test_levels_of_the_scene_are_the_drawn_steps_up_to_rounding(aspect):
    measured = [measure_level(aspect, quadruple.scenes, ()) for quadruple in draw_levels(aspect)]
    assert measured == pytest.approx([step(aspect, number) for number in NUMBERS], rel=4e-3)


def test_the_level_of_a_scene_is_that_of_its_places():
    def places(aspect):
        scenes = draw_levels(aspect)[5].scenes
        shifts = [[a - b for a, b in zip(*(t.position for t in scene.things[:2]), strict=True)] for scene in scenes]
        return measure_level(aspect, scenes, ()), [(shift[0], shift[1]) for shift in shifts]

    distance, shifts = places("distance")
    near, far = sorted(math.hypot(*shift) for shift in shifts)
    assert distance == pytest.approx(far / near, rel=1e-3)
    angle, (one, other) = places("angle")
    assert angle == pytest.approx(abs(math.degrees(math.atan2(*one[::-1]) - math.atan2(*other[::-1]))), rel=1e-3)
    scenes = draw_levels("size")[5].scenes
    small, large = sorted(scenes[0].things, key=lambda thing: thing.size)
    assert measure_level("size", scenes, ()) == pytest.approx(large.size / small.size, rel=1e-3)
    assert large.shape == small.shape


def test_the_larger_object_is_the_one_that_the_caption_calls_large():
    def sides(aspect):
        return [
            pair for q in draw_levels(aspect) for pair in zip(q.captions, (s.things for s in q.scenes), strict=True)
        ]

    for caption, things in sides("size"):
        assert caption.startswith("The large" if things[0].size > things[1].size else "The small")
    for caption, things in sides("height"):
        upper = max(things[:2], key=lambda thing: thing.position[2])
        assert upper.shape.split()[-1] in caption.split(" above ")[0]
        tops = [block.position[2] + block.size for block in things[2:]]
        assert tops == pytest.approx([thing.position[2] for thing in things[:2]], abs=2e-4)
    for caption, things in sides("angle"):
        assert ("left" in caption) == (things[0].position[0] < things[1].position[0])
    for quadruple in draw_levels("distance"):
        near, far = (math.dist(*(t.position for t in scene.things)) for scene in quadruple.scenes)
        assert ("near" in quadruple.captions[0]) == (near < far)


def test_levels_of_the_picture_are_counted_from_masks():
    scenes = draw_levels("count")[0].scenes
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
    assert measure_level("colour", draw_levels("colour")[0].scenes, (white, black)) == pytest.approx(100, abs=0.05)


@pytest.mark.parametrize(
    ("one", "other", "difference"),
    [  # Sharma, Wu and Dalal (2005), table 1
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
        assert graded.ciede2000(np.array(a), np.array(b)) == pytest.approx(difference, abs=5e-5)


def test_primaries_have_their_lab_and_paints_mix_between_two_of_the_palette():
    green, grey = graded.to_lab(np.array([[0, 255, 0], [119, 119, 119]], np.uint8))
    assert green == pytest.approx([87.73, -86.18, 83.18], abs=0.05)
    assert grey == pytest.approx([50.03, 0, 0], abs=0.05)
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
    scenes = {item.tags["aspect"]: [scene_of_item(item, side).scene for side in (0, 1)] for item in items}

    def area(scene):
        return (render_masks(scene, 64)[0] == 0).sum()

    hidden, extent = scenes["hidden"][0], scenes["extent"][0]
    alone = replace(hidden, things=hidden.things[:1])
    assert levels["count"] == abs(len(scenes["count"][0].things) - len(scenes["count"][1].things))
    assert levels["distractors"] == len(scenes["distractors"][0].things) - 1
    assert levels["hidden"] == pytest.approx(100 * (1 - area(hidden) / area(alone)), rel=1e-3)
    assert levels["extent"] == pytest.approx(100 * math.sqrt(area(extent)) / 64, rel=1e-3)
    assert levels["size"] == pytest.approx(step("size", 0), rel=4e-3)
    with raises(DataError, "'count'", "count-000", str(tmp_path / "set")):
        write_training_rows(tmp_path / "set")
