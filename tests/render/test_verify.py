"""Masks and checks: a scene that does not show what its caption says is rejected with the right reason."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("mitsuba", reason="needs the render extra: mitsuba")

from tellapart_render.renderers.mitsuba import masks
from tellapart_render.scenes.quadruple import Fact, Key, draw
from tellapart_render.scenes.scene import Camera, Ground, Light, Scene, Thing
from tellapart_render.scenes_builder import REASONS, check, find_fault

SIZE = 48
CAMERA = Camera((0.0, -5.5, 2.4), (0.0, 0.0, 0.3), 36.0, 0.0)
LIGHT, GROUND = Light(4.0, 0.9, 0.3, 1.0, 0.0, 0), Ground("oak", 0, 4.0, 0.0, 0, 3.0)
BOX = Thing("gift box", "", 1.0, (0.6, 0.0, 0.0), 0.0)
MUG = Thing("mug", "red", 0.9, (-0.7, 0.0, 0.0), 0.0)


def scene(*things: Thing) -> Scene:
    return Scene(CAMERA, LIGHT, GROUND, things)


def at(thing: Thing, x: float, y: float, z: float = 0.0) -> Thing:
    return replace(thing, position=(x, y, z))


def verdict(scene: Scene, fact: Fact) -> str | None:
    return find_fault(scene, fact, *masks(scene, SIZE))


def test_masks_tell_the_things_apart_and_count_lone_pixels():
    seen, alone = masks(scene(MUG, BOX), SIZE)
    assert seen.shape == (SIZE, SIZE)
    assert set(np.unique(seen)) == {-1, 0, 1}
    assert [int((seen == k).sum()) for k in (0, 1)] == alone
    assert np.nonzero(seen == 0)[1].mean() < np.nonzero(seen == 1)[1].mean()


def test_a_nearer_thing_takes_pixels_from_the_farther_one():
    seen, alone = masks(scene(at(MUG, 0.0, 0.6), at(BOX, 0.0, -0.6)), SIZE)
    assert (seen == 0).sum() < alone[0]
    assert (seen == 1).sum() == alone[1]


@pytest.mark.parametrize(
    ("things", "fact", "reason"),
    [
        ((MUG, BOX), Fact("left", 2), None),
        ((MUG, BOX), Fact("right", 2), "wrong side"),
        ((MUG, BOX), Fact("front", 2), "wrong depth"),
        ((MUG, BOX), Fact("top", 2), "not on top"),
        ((MUG, BOX), Fact(None, 2), None),
        ((MUG, BOX), Fact(None, 3), "wrong count"),
        ((at(MUG, 0.05, -1.0), at(BOX, 0.0, 0.6)), Fact("front", 2), None),
        ((at(MUG, 0.05, -1.0), at(BOX, 0.0, 0.6)), Fact("behind", 2), "wrong depth"),
        ((at(MUG, 0.05, -1.0), at(BOX, 0.0, 0.6)), Fact("left", 2), "wrong side"),
        ((at(MUG, -0.8, -1.2), at(BOX, 0.5, 0.4)), Fact("left", 2), "wrong side"),
        ((at(MUG, 0.65, 1.1), replace(BOX, position=(0.0, -0.3, 0.0), size=1.3)), Fact("behind", 2), "occluded"),
        ((replace(MUG, size=0.05), BOX), Fact("left", 2), "too small"),
        ((at(MUG, -1.75, 0.0), BOX), Fact("left", 2), "cut off"),
        ((at(MUG, 0.6, 0.0, 0.6949), BOX), Fact("top", 2), None),
        ((at(MUG, 0.6, 0.0, 0.9), BOX), Fact("top", 2), "not on top"),
        ((at(MUG, 0.2, 0.0, 0.6949), BOX), Fact("top", 2), "not on top"),
        ((at(MUG, -0.7, 0.0, 0.3), BOX), Fact("left", 2), "not on top"),
    ],
)
def test_a_scene_is_accepted_or_rejected_for_its_own_reason(things, fact, reason):
    assert verdict(scene(*things), fact) == reason
    assert reason is None or reason in REASONS


def test_swapping_the_pictures_of_a_location_pair_is_always_noticed():
    accepted = [q for q in (draw(Key("test", 5, "location", i)) for i in range(8)) if check(q, SIZE) is None]
    assert len(accepted) >= 4
    for quadruple in accepted:
        swapped = replace(quadruple, scenes=(quadruple.scenes[1], quadruple.scenes[0]))
        assert check(swapped, SIZE) is not None


def test_swapping_the_pictures_of_a_counting_pair_is_always_noticed():
    for index in range(3):
        quadruple = draw(Key("test", 5, "counting", index))
        swapped = replace(quadruple, scenes=(quadruple.scenes[1], quadruple.scenes[0]))
        assert check(swapped, SIZE) is not None
