"""Laws of the shapes, and folders of scanned objects: stored numbers, unit extent, clear errors."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scanned import box, shelf, write_asset

from facts import raises
from tellapart.errors import DataError, UnknownNameError
from tellapart_render.captions.grammar import add_vocabulary, vocabulary
from tellapart_render.meshes.assets import Asset, asset_texture, find_assets, read_asset, read_obj, register
from tellapart_render.meshes.materials import surface
from tellapart_render.meshes.objects import SHAPES, shape
from tellapart_render.scenes_builder import asset_vocabulary, read_names


def test_the_shapes_of_pictures_that_ship_have_not_changed():
    digest = hashlib.sha256()
    for name in SHAPES:
        for mesh in (part.mesh for part in shape(name).parts):
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


# Folders of scanned objects: read, scaled, named, hashed; broken files and paths that lead elsewhere are refused.


@pytest.mark.parametrize("flat", [True, False])
def test_an_asset_stands_over_the_origin_at_unit_extent_with_its_picture(tmp_path, flat):
    write_asset(tmp_path, "Brick", (255, 0, 0), (0.4, 0.2, 0.1), flat=flat)
    name = register(read_asset(tmp_path, "Brick"))
    brick = shape(name)
    np.testing.assert_allclose(brick.extent, (1.0, 0.5, 0.25), atol=1e-5)
    np.testing.assert_allclose(brick.hull.min(axis=0), (-0.5, -0.25, 0.0), atol=1e-5)
    assert (brick.top.kind, round(brick.top.height, 4)) == ("flat", 0.25)
    assert asset_texture(name)[0, 0].tolist() == [1.0, 0.0, 0.0]
    assert surface(name, "texture", "").colour is asset_texture(name)


def test_an_asset_whose_y_points_up_is_turned_and_a_pyramid_carries_nothing(tmp_path):
    write_asset(tmp_path, "Post", (9, 9, 9), (0.1, 0.4, 0.2))
    for up, extent in (("y", (0.25, 0.5, 1.0)), ("z", (0.25, 1.0, 0.5))):
        np.testing.assert_allclose(shape(register(read_asset(tmp_path, "Post", up))).extent, extent, atol=1e-5)
    mesh = write_asset(tmp_path, "Tent", (9, 9, 9), (1, 1, 1))
    mesh.write_text("v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nv .5 .5 1\nf 4 3 2 1\nf 1 2 5\nf 2 3 5\nf 3 4 5\nf 4 1 5\n")
    assert shape(register(read_asset(tmp_path, "Tent"))).top is None


def test_a_shape_is_named_by_its_content_and_an_unknown_one_with_what_there_is(tmp_path):
    write_asset(tmp_path, "Box", (9, 9, 9), (1, 1, 1))
    before = read_asset(tmp_path, "Box")
    write_asset(tmp_path, "Box", (9, 9, 8), (1, 1, 1))
    assert before.shape != read_asset(tmp_path, "Box").shape
    with raises(UnknownNameError, "shape('Box@0')", "shape", "asset folders"):
        shape("Box@0")
    with raises(UnknownNameError, "shape", "shapes"):
        shape("spoon")


@given(st.lists(st.tuples(*[st.floats(-9, 9, width=32)] * 3), min_size=3, max_size=9))
def test_polygons_become_fans_with_unit_normals(tmp_path_factory, points):
    path = tmp_path_factory.mktemp("obj") / "model.obj"
    lines = [f"v {x} {y} {z} # a point" for x, y, z in points]
    path.write_text("\n".join([*lines, "f " + " ".join(str(k - len(points)) for k in range(len(points)))]))
    mesh = read_obj(path)
    assert len(mesh.faces) == len(points) - 2
    np.testing.assert_allclose(np.linalg.norm(mesh.normals, axis=1), 1.0, atol=1e-4)
    np.testing.assert_allclose(mesh.vertices[mesh.faces[0]], np.asarray(points[:3]), atol=1e-6)


def test_given_normals_and_coordinates_are_kept_and_v_is_turned(tmp_path):
    path = tmp_path / "model.obj"
    path.write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nvt 0.25 0.25\nvn 0 3 4\nf 1/1/1 2/1/1 3//1\n")
    mesh = read_obj(path)
    np.testing.assert_allclose(mesh.normals, [[0, 0.6, 0.8]] * 3, atol=1e-6)
    assert sorted(mesh.uv.tolist()) == [[0.0, 1.0], [0.25, 0.75], [0.25, 0.75]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("v 0 0 x\n", ("model.obj", "1", "'v'", "'0 0 x'")),
        ("\nv 0 0\n", ("model.obj", "2", "'v'", "3", "'0 0'")),
        ("v 0 0 nan\n", ("1", "'v'", "3")),
        ("v 0 0 0\nf 1 2 3\n", ("2", "2", "1", "line")),
        ("v 0 0 0\nf 0 1 1\n", ("2", "0", "1", "line")),
        ("v 0 0 0\nf 1/7 1 1\n", ("2", "7", "0")),
        ("v 0 0 0\nf 1 1\n", ("2", "'1 1'")),
        ("v 0 0 0\nf a b c\n", ("2", "'a'")),
        ("v 0 0 0\n", ("model.obj", "faces")),
    ],
)
def test_a_broken_mesh_is_refused_with_its_line(tmp_path, text, message):
    path = tmp_path / "model.obj"
    path.write_text(text)
    with raises(DataError, message):
        read_obj(path)


def test_binary_files_flat_points_and_broken_pictures_are_refused(tmp_path):
    mesh = write_asset(tmp_path, "Box", (9, 9, 9), (1, 1, 1), flat=True)
    for file, data, facts in (
        ("texture.png", b"\x89PNG nothing", ("PNG", "picture")),
        ("model.obj", b"v 1 1 1\nf 1 1 1\n", "all"),
        ("model.obj", b"\xff\xfe\x00", ("OBJ", "text")),
    ):
        mesh.with_name(file).write_bytes(data)
        with raises(DataError, file, facts):
            register(read_asset(tmp_path, "Box"))
    with raises(DataError, "gone.obj", "OBJ", "model.obj"):
        read_obj(tmp_path / "gone.obj")
    with raises(DataError, "asset_texture('never')"):
        asset_texture("never")


def test_names_and_links_that_lead_elsewhere_are_refused(tmp_path):
    for name in ("../Box", "/etc", "a/b", ".hidden", "", "a\\b"):
        with raises(DataError, "folder", "slashes"):
            read_asset(tmp_path, name)
    shelf(tmp_path / "outside")
    (tmp_path / "scans").mkdir()
    (tmp_path / "scans" / "Brick").symlink_to(tmp_path / "outside" / "Brick")
    with raises(DataError, "model.obj", "scans"):
        read_asset(tmp_path / "scans", "Brick")


def test_folders_without_assets_and_assets_without_pictures_are_refused(tmp_path):
    with raises(DataError, "<Name>/meshes/model.obj", "folder"):
        find_assets(tmp_path / "gone")
    with raises(DataError, "<Name>/meshes/model.obj", "<Name>/model.obj"):
        find_assets(tmp_path)
    (tmp_path / "Box").mkdir()
    (tmp_path / "Box" / "model.obj").write_text(box((1, 1, 1)))
    with raises(DataError, "Box", "meshes/model.obj", "missing"):
        read_asset(tmp_path, "Box")


def test_names_come_from_toml_csv_metadata_or_the_folder(tmp_path):
    scans = shelf(tmp_path / "scans")
    toml, table = tmp_path / "names.toml", tmp_path / "names.csv"
    toml.write_text('Crate_Red = "red crate with lid"\nBrick = { noun = "old brick", category = "stone" }\n')
    table.write_text("folder,noun,category\nCrate_Red,red crate with lid,\nBrick,old brick,stone\n")
    assert read_names(toml) == read_names(table)
    one, other = (asset_vocabulary(scans, path) for path in (toml, table))
    assert one == other
    crate, brick = vocabulary(one.name).objects
    assert (crate.phrase(2), crate.category, crate.colour) == ("red crates with lid", "crate", "red")
    assert (brick.phrase(), brick.category) == ("old brick", "stone")
    assert set(one.inputs) == {"Crate_Red", "Brick"}

    (scans / "Crate_Red" / "metadata.pbtxt").write_text('categories {\n  first: "Box"\n}\n')
    by_folder = vocabulary(asset_vocabulary(scans, None).name)
    categories = {each.phrase(): each.category for each in by_folder.objects}
    assert categories == {"brick": "brick", "crate blue": "blue", "crate red": "box"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Brick = 3\n", ("names.toml", "'Brick'", "3")),
        ('Brick = { nuon = "x" }\n', ("'Brick'", "noun")),
        ("Brick =\n", ("names.toml", "TOML")),
        ('Brick = "box"\nCrate_Red = "box"\n', ("names.toml", "'box'")),
        ('Brick = "red box"\nCrate_Red = "blue box"\n', ("all", "assets", "category")),
        ('"../Brick" = "box"\n', ("'../Brick'", "folder")),
    ],
)
def test_names_that_cannot_be_used_are_refused(tmp_path, text, message):
    (tmp_path / "names.toml").write_text(text)
    with raises(DataError, message):
        asset_vocabulary(shelf(tmp_path / "scans"), tmp_path / "names.toml")


def test_a_table_without_its_columns_is_refused_with_its_line(tmp_path):
    with raises(DataError, "names.csv", "Folder_Name", '"red coffee mug"'):
        read_names(tmp_path / "names.csv")
    (tmp_path / "names.csv").write_text("folder,noun\nBrick,old brick\nBrick,new brick\n")
    with raises(DataError, "names.csv:3", "'Brick'"):
        read_names(tmp_path / "names.csv")
    (tmp_path / "names.csv").write_text("folder,noun\nBrick,\n")
    with raises(DataError, "names.csv:2", "columns", "folder"):
        read_names(tmp_path / "names.csv")


def test_another_vocabulary_may_not_take_a_name(tmp_path):
    with pytest.raises(ValueError, match=r"another vocabulary is called 'demo'"):
        add_vocabulary(replace(vocabulary("demo"), located=()))
    with raises(UnknownNameError, "figure-14", "vocabulary"):
        vocabulary("demmo")
    assert Asset("A", tmp_path, tmp_path, "0" * 64, "z").shape == "A@0000000000"


def test_a_texture_of_another_format_is_handed_to_no_other_program(tmp_path, monkeypatch):
    from PIL import EpsImagePlugin, Image

    program, ran = tmp_path / "bin" / "gs", tmp_path / "ran"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ntouch {ran}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    monkeypatch.setattr(EpsImagePlugin, "gs_binary", None)  # looked for anew
    write_asset(tmp_path, "Brick", (255, 0, 0), (0.4, 0.2, 0.1), flat=True)
    Image.new("RGB", (4, 4)).save(tmp_path / "Brick" / "texture.png", "EPS")
    with raises(DataError, "texture.png", "PNG", "picture"):
        register(read_asset(tmp_path, "Brick"))
    assert not ran.exists()
