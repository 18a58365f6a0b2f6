"""Laws of the meshes: closed index ranges, unit normals that point outwards, unit extent."""

from __future__ import annotations

import numpy as np
import pytest

from facts import raises
from tellapart.errors import UnknownNameError
from tellapart_render.meshes.objects import SHAPES, shape
from tellapart_render.meshes.solids import (
    Mesh,
    extrude,
    move,
    revolve,
    round_corners,
    rounded_box,
    square_off,
    stretch,
    tube,
)

BALL = revolve([(float(np.sin(t)), float(-np.cos(t))) for t in np.linspace(0, np.pi, 40)], segments=80)


def volume(mesh: Mesh) -> float:
    """Signed volume by the divergence theorem: positive where triangles face outwards."""
    a, b, c = (mesh.vertices[mesh.faces[:, k]].astype(np.float64) for k in range(3))
    return float(np.einsum("ij,ij->i", a, np.cross(b, c)).sum() / 6)


def test_a_half_circle_turns_into_a_ball() -> None:
    assert volume(BALL) == pytest.approx(4 / 3 * np.pi, rel=0.01)
    np.testing.assert_allclose(BALL.normals[81:-81], BALL.vertices[81:-81], atol=0.05)


def test_boxes_prisms_and_stretched_balls_have_their_volume() -> None:
    assert volume(rounded_box((2.0, 3.0, 4.0), 0.001)) == pytest.approx(24, rel=0.01)
    assert volume(extrude([(0, 0), (2, 0), (2, 1), (0, 1)], 3.0)) == pytest.approx(6)
    assert volume(stretch(BALL, (2.0, 1.0, 0.5))) == pytest.approx(4 / 3 * np.pi, rel=0.01)


def test_moving_and_turning_keeps_the_volume_and_turns_the_normals() -> None:
    box = rounded_box((1.0, 2.0, 3.0), 0.1)
    moved = move(box, (5.0, -2.0, 1.0), yaw=0.7, pitch=0.4)
    centred = Mesh(moved.vertices - moved.vertices.mean(axis=0), moved.normals, moved.uv, moved.faces)
    assert volume(centred) == pytest.approx(volume(box), rel=1e-3)
    np.testing.assert_allclose(np.linalg.norm(moved.normals, axis=1), 1.0, atol=1e-4)


def test_a_squared_disc_is_wider_on_the_diagonal_alone() -> None:
    plate = square_off(revolve([(0, 0), (1, 0), (1, 0.2), (0, 0.2)], segments=72), 9.0)
    reach = np.hypot(plate.vertices[:, 0], plate.vertices[:, 1])
    assert plate.vertices[:, :2].max() == pytest.approx(1.0, abs=1e-3)
    assert 1.25 < reach.max() < np.sqrt(2)


def test_a_tapered_tube_ends_narrower() -> None:
    spout = tube([(0, 0, 0), (0, 0, 1), (0, 0, 2)], (0.2, 0.2), taper=0.5)
    widths = [np.ptp(spout.vertices[spout.vertices[:, 2] == z][:, 0]) for z in (0, 2)]
    assert widths[1] == pytest.approx(widths[0] / 2, rel=1e-3)


def test_rounding_never_leaves_the_corners_hull() -> None:
    line = np.array(round_corners([(0, 0), (1, 0), (1, 1), (0.5, 1)], 5.0))
    assert line.min() >= 0
    assert line.max() <= 1


@pytest.mark.parametrize("name", SHAPES)
def test_every_shape_is_sound_and_has_unit_extent(name: str) -> None:
    model = shape(name)
    assert max(model.extent) == pytest.approx(1.0)
    assert model.hull[:, 2].min() == pytest.approx(0.0, abs=1e-5)
    assert 0 < model.base[0] <= model.base[1] <= model.reach
    for part in model.parts:
        mesh = part.mesh
        assert mesh.faces.max() < len(mesh.vertices) == len(mesh.normals) == len(mesh.uv)
        assert np.isfinite(mesh.vertices).all()
        np.testing.assert_allclose(np.linalg.norm(mesh.normals, axis=1), 1.0, atol=1e-3)
    if model.top is not None:
        assert 0 < model.top.height <= model.height + 1e-6


@pytest.mark.parametrize("name", SHAPES)
def test_normals_of_every_shape_agree_with_its_triangles(name: str) -> None:
    for part in shape(name).parts:
        mesh = part.mesh
        a, b, c = (mesh.vertices[mesh.faces[:, k]].astype(np.float64) for k in range(3))
        facing = np.cross(b - a, c - a)
        mean = mesh.normals[mesh.faces].mean(axis=1)
        agreement = np.einsum("ij,ij->i", facing, mean)
        weight = np.linalg.norm(facing, axis=1)
        assert abs(agreement.sum()) > 0.75 * weight.sum(), part.slot


def test_an_unknown_shape_is_named_with_what_there_is() -> None:
    with raises(UnknownNameError, "shape", "shapes"):
        shape("spoon")
