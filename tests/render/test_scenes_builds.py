"""Rendered scenes through the pipeline, of built-in meshes and of scans: verified, the same by any workers."""

from pathlib import Path

import pytest

pytest.importorskip("mitsuba", reason="needs the render extra: mitsuba")
pytest.importorskip("pyoidn", reason="needs the render extra: pyoidn")

import numpy as np
from PIL import Image
from scanned import shelf

from facts import raises
from tellapart.auditing.audit import audit
from tellapart.auditing.card import make_card, markdown
from tellapart.auditing.datasheet import croissant
from tellapart.builders.builder import Rejected, Start
from tellapart.builders.pipeline import build
from tellapart.data.folder import read_pair_set
from tellapart.errors import DataError
from tellapart_render.renderers.mitsuba import MITSUBA
from tellapart_render.scene_file import scene_of_item
from tellapart_render.scenes_builder import Scenes

OPTIONS = "[options]\nsize = 40\nsamples = 1\ndepth = 2\n"
DEMO = OPTIONS + 'vocabulary = "demo"\n'


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "recipe.toml"
    path.write_text(f'name = "few"\nbuilder = "scenes"\nseed = 5\n{text}')
    return path


@pytest.mark.slow
def test_a_recipe_of_scenes_is_rendered_the_same_by_one_and_by_two(tmp_path):
    recipe = written(tmp_path, f"{DEMO}[options.items]\ncounting = 2\nlocation = 1\n")
    one, two = (build(recipe, tmp_path / str(workers), workers=workers) for workers in (1, 2))
    files = sorted(path.relative_to(one.folder) for path in one.folder.rglob("*") if path.is_file())
    assert len(files) == 3 * 2 + 2
    for file in files:
        assert (one.folder / file).read_bytes() == (two.folder / file).read_bytes()

    pairs = read_pair_set(one.folder)
    assert pairs.shape == (2, 2)
    assert pairs.items[0].provenance["models"] == {
        name: pairs.items[0].provenance["models"][name] for name in ("mitsuba", "pyoidn")
    }


def test_masks_are_written_and_listed(tmp_path):
    recipe = written(tmp_path, f"{DEMO}masks = true\n[options.items]\ncounting = 1\n")
    pairs = read_pair_set(build(recipe, tmp_path / "set").folder)
    (item,) = pairs.items
    things = item.provenance["things"]
    listed = item.provenance["masks"]
    assert [len(of_image) for of_image in listed] == [len(of_image) for of_image in things]
    assert {str(path.relative_to(pairs.root)) for path in pairs.root.glob("masks/*")} == set(item.masks)
    for side in (0, 1):
        seen = [np.asarray(Image.open(pairs.root / mask)) for mask in listed[side]]
        assert all(mask.shape == (40, 40) and set(np.unique(mask)) == {0, 255} for mask in seen)
        assert (np.sum(seen, axis=0) <= 255).all()  # no pixel shows two things
        visible, _ = MITSUBA.masks(scene_of_item(item, side).scene, 40)
        assert all(((mask > 0) == (visible == number)).all() for number, mask in enumerate(seen))
    assert "masks/" in pairs.card["masks"] and "masks/" in markdown(make_card(pairs, audit(pairs)))
    (entry,) = [entry for entry in croissant(pairs)["distribution"] if entry["@id"] == "masks"]
    assert entry["includes"] == ["masks/*.png"]


@pytest.mark.slow
def test_what_cannot_be_drawn_is_rejected_with_its_reason():
    # At 16 pixels five small things cannot all be seen.
    options = Scenes.Options(size=16, samples=1, attempts=1, items={"counting": 30})
    scenes = Scenes(Start(options, 5, Path()))
    outcomes = [scenes.make(candidate) for candidate in scenes.candidates()]
    assert Rejected("masks", "none of 1 draws shows what its captions say") in outcomes


def scanned(tmp_path: Path, items: str) -> Path:
    shelf(tmp_path / "scans")
    (tmp_path / "names.toml").write_text(
        'Crate_Red = "red crate"\nCrate_Blue = "blue crate"\nBrick = { noun = "old brick", category = "stone" }\n'
    )
    return written(tmp_path, f'{OPTIONS}assets = "scans"\nnames = "names.toml"\n[options.items]\n{items}\n')


def test_scanned_objects_are_built_audited_and_told_in_the_provenance(tmp_path):
    recipe = scanned(tmp_path, "attribute = 1\ncounting = 1\nlocation = 1")
    pairs = read_pair_set(build(recipe, tmp_path / "set").folder)
    assert [item.tags["aspect"] for item in pairs.items] == ["attribute", "counting", "location"]
    words = {"crate", "crates", "brick", "bricks"}
    assert all(words & set(text.strip(".").split()) for item in pairs.items for text in item.texts)
    assert set(pairs.items[0].provenance["inputs"]) == {"Brick", "Crate_Blue", "Crate_Red"}
    assert {scene_of_item(pairs.items[0], side).scene.things[0].shape.split("@")[0] for side in (0, 1)} == {
        "Crate_Blue",
        "Crate_Red",
    }
    found = audit(pairs)
    assert (found.items, found.images, found.shape) == (3, 6, (2, 2))
    assert len(found.changes) == 3


def test_options_that_cannot_be_met_are_refused(tmp_path, monkeypatch):
    scans = shelf(tmp_path / "scans")
    (scans / "Crate_Blue").rename(tmp_path / "away")
    start = Start(Scenes.Options(assets="scans", items={"attribute": 1}), 1, tmp_path)
    with raises(DataError, "scans", "category", "attribute"):
        Scenes(start)
    with raises(DataError, "held_out_every", "2", "figure-14", "0"):
        Scenes(Start(Scenes.Options(held_out_every=2, items={}), 1, tmp_path))
    monkeypatch.setenv("TELLAPART_BLENDER_PYTHON", "/no/such")
    with raises(DataError, "/no/such"):
        Scenes(Start(Scenes.Options(renderer="blender", items={}), 1, tmp_path))
