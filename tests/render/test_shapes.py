"""Laws of the shapes: stored numbers, closed index ranges, unit normals that point outwards, unit extent."""

import hashlib

import numpy as np
import pytest

from facts import raises
from tellapart.errors import UnknownNameError
from tellapart_render.meshes.objects import SHAPES, shape


def test_the_shapes_of_pictures_that_ship_have_not_changed():
    digest = hashlib.sha256()
    for name in SHAPES:
        for part in shape(name).parts:
            mesh = part.mesh
            for array in (mesh.vertices, mesh.normals, mesh.uv, mesh.faces):
                digest.update(array.tobytes())
        digest.update(repr((name, shape(name).top)).encode())
    assert digest.hexdigest()[:16] == "4ac6a1e6e78aa04b"


@pytest.mark.parametrize("name", SHAPES)
def test_every_shape_is_sound_and_has_unit_extent(name):
    model = shape(name)
    assert max(model.extent) == pytest.approx(1.0)
    assert model.hull[:, 2].min() == pytest.approx(0.0, abs=1e-5)
    assert 0 < model.base[0] <= model.base[1] <= model.reach
    for part in model.parts:
        mesh = part.mesh
        assert mesh.faces.max() < len(mesh.vertices) == len(mesh.normals) == len(mesh.uv)
        assert np.isfinite(mesh.vertices).all()
        np.testing.assert_allclose(np.linalg.norm(mesh.normals, axis=1), 1.0, atol=1e-3)
        a, b, c = (mesh.vertices[mesh.faces[:, k]].astype(np.float64) for k in range(3))
        facing = np.cross(b - a, c - a)
        agreement = np.einsum("ij,ij->i", facing, mesh.normals[mesh.faces].mean(axis=1))
        assert abs(agreement.sum()) > 0.75 * np.linalg.norm(facing, axis=1).sum(), part.slot
    if model.top is not None:
        assert 0 < model.top.height <= model.height + 1e-6


def test_an_unknown_shape_is_named_with_what_there_is():
    with raises(UnknownNameError, "shape", "shapes"):
        shape("spoon")
