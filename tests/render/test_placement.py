"""Laws of placement: relations as the camera sees them, groups that keep clear, floors that do not hide things."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tellapart_render.captions.grammar import LOCATIONS, Relation
from tellapart_render.meshes.objects import SHAPES, shape
from tellapart_render.scenes.scene import Thing, camera_for, can_carry, corners, draw_ground, project, relate, scatter

SUBJECT = Thing("bowl", "blue", 1.0, (0.0, 0.0, 0.0), 0.0)
AXES = {"left": (0, -1), "right": (0, 1), "front": (1, -1), "behind": (1, 1)}


@pytest.mark.parametrize("relation", [r for r in LOCATIONS if r != "top"])
@given(seed=st.integers(0, 10**6), name=st.sampled_from(SHAPES))
@settings(max_examples=30, deadline=None)
def test_a_thing_stands_on_its_side_and_clear_of_the_subject(relation: Relation, seed: int, name: str) -> None:
    thing = relate(Thing(name, "red", 0.9, (0.0, 0.0, 0.0), 0.3), relation, SUBJECT, np.random.default_rng(seed))
    axis, sign = AXES[relation]
    along, across = thing.position[axis] * sign, thing.position[1 - axis]
    assert along > 0
    assert abs(across) < 0.4 * along
    apart = np.hypot(*(corners(thing)[:, :2]).T).min()
    assert apart > shape("bowl").reach


@given(seed=st.integers(0, 10**6), count=st.integers(1, 5), reach=st.floats(0.2, 0.7))
@settings(max_examples=60, deadline=None)
def test_scattered_things_never_touch(seed: int, count: int, reach: float) -> None:
    spots = scatter(count, 1.0, reach, np.random.default_rng(seed))
    if spots is not None:
        assert len(spots) == count
        for one, other in combinations(spots, 2):
            assert np.hypot(one[0] - other[0], one[1] - other[1]) >= 2 * reach


def test_things_stack_as_in_a_kitchen() -> None:
    def on(above: str, below: str, size: float = 1.0) -> bool:
        return can_carry(Thing(below, "", 1.0, (0, 0, 0), 0.0), Thing(above, "", size, (0, 0, 0), 0.0))

    assert on("mug", "gift box")
    assert on("bowl", "round plate")
    assert not on("mug", "bowl"), "it would fall in"
    assert not on("mug", "teapot"), "a lid with a knob carries nothing"
    assert not on("gift box", "round plate", 1.3), "wider than the plate's hollow"


@pytest.mark.parametrize("high", [True, False])
def test_the_camera_is_as_near_as_the_frame_allows(high: bool) -> None:
    things = [SUBJECT, Thing("mug", "red", 1.0, (1.6, 0.4, 0.0), 1.0)]
    for seed in range(20):
        camera = camera_for(things, np.random.default_rng(seed), high=high)
        view = project(np.concatenate([corners(t) for t in things]), camera)
        extent = np.abs(view[:, :2]).max()
        assert 0.6 < extent < 1.05


def test_floors_never_hide_what_stands_on_them() -> None:
    white = Thing("mug", "white", 1.0, (0.0, 0.0, 0.0), 0.0)
    assert not {draw_ground([white], np.random.default_rng(k)).floor for k in range(60)} & {"marble", "paper"}


def test_the_wall_stands_behind_everything() -> None:
    far = Thing("mug", "red", 1.0, (0.0, 3.0, 0.0), 0.0)
    assert all(
        draw_ground([SUBJECT, far], np.random.default_rng(k)).wall_distance > corners(far)[:, 1].max()
        for k in range(20)
    )
