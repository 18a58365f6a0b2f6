"""Rendered scenes: pictures, masks and checks, and whole builds of built-in meshes and of scans."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mitsuba", reason="needs the render extra: mitsuba")
pytest.importorskip("pyoidn", reason="needs the render extra: pyoidn")

from PIL import Image
from scanned import shelf

from facts import raises
from scripts import run_python
from sets import contents
from tellapart.auditing.audit import audit
from tellapart.auditing.card import croissant, make_card, markdown
from tellapart.builders.builder import Rejected, Start
from tellapart.builders.pipeline import build
from tellapart.data.folder import read_pair_set
from tellapart.errors import DataError
from tellapart_render.renderers.mitsuba import MITSUBA, masks, render
from tellapart_render.renderers.renderer import Settings
from tellapart_render.scene_file import scene_of_item
from tellapart_render.scenes.quadruple import Fact, Key, draw
from tellapart_render.scenes.scene import Camera, Ground, Light, Scene, Thing
from tellapart_render.scenes_builder import REASONS, Recipe, Scenes, check, find_fault, pictures

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
    assert contents(one.folder) == contents(two.folder)
    assert len(contents(one.folder)) == 3 * 2 + 2
    pairs = read_pair_set(one.folder)
    assert pairs.shape == (2, 2)
    assert pairs.items[0].provenance["models"].keys() == {"mitsuba", "pyoidn"}


def test_masks_are_written_and_listed(tmp_path):
    recipe = written(tmp_path, f"{DEMO}masks = true\n[options.items]\ncounting = 1\n")
    pairs = read_pair_set(build(recipe, tmp_path / "set").folder)
    (item,) = pairs.items
    things, listed = item.provenance["things"], item.provenance["masks"]
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


def test_a_renderer_that_fails_rejects_no_candidate(monkeypatch):
    scenes = Scenes(Start(Scenes.Options(size=48, samples=1, items={"counting": 1}), 5, Path()))
    (candidate,) = scenes.candidates()

    def fail(*_):
        raise DataError("the worker ended")

    monkeypatch.setattr("tellapart_render.scenes_builder.pictures", fail)
    with raises(DataError, "the worker ended"):
        scenes.make(candidate)


def test_any_seed_of_a_recipe_renders_and_both_pictures_share_its_noise():
    recipe = Recipe(seed=2**63 - 1, items={"counting": 1}, size=16, samples=1)
    (key,) = recipe.item_keys()
    assert recipe.settings(key).seed == (2**63 - 1) * 1000 % 2**32
    assert [picture.shape for picture in pictures(draw(key), recipe)] == [(16, 16, 3)] * 2
    assert Recipe(seed=7, items={}).settings(replace(key, index=2)).seed == 7002


def test_scanned_objects_are_built_audited_and_told_in_the_provenance(tmp_path):
    shelf(tmp_path / "scans")
    (tmp_path / "names.toml").write_text(
        'Crate_Red = "red crate"\nCrate_Blue = "blue crate"\nBrick = { noun = "old brick", category = "stone" }\n'
    )
    items = "[options.items]\nattribute = 1\ncounting = 1\nlocation = 1\n"
    recipe = written(tmp_path, f'{OPTIONS}assets = "scans"\nnames = "names.toml"\n{items}')
    pairs = read_pair_set(build(recipe, tmp_path / "set").folder)
    assert [item.tags["aspect"] for item in pairs.items] == ["attribute", "counting", "location"]
    words = {"crate", "crates", "brick", "bricks"}
    assert all(words & set(text.strip(".").split()) for item in pairs.items for text in item.texts)
    assert set(pairs.items[0].provenance["inputs"]) == {"Brick", "Crate_Blue", "Crate_Red"}
    shapes = {scene_of_item(pairs.items[0], side).scene.things[0].shape.split("@")[0] for side in (0, 1)}
    assert shapes == {"Crate_Blue", "Crate_Red"}
    found = audit(pairs)
    assert (found.items, found.images, found.shape, len(found.changes)) == (3, 6, (2, 2), 3)


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


# Pictures: the same scene and seed give the same pixels, and a change stays where it is.

SMALL = Settings(size=40, samples=2, depth=3, seed=5)


PAIR = draw(Key("test", 2, "attribute", 2)).scenes


@pytest.fixture(scope="module")
def pair():
    return [render(scene, SMALL) for scene in PAIR]


def test_a_picture_is_srgb_bytes_and_a_change_of_colour_shows_on_the_object_alone(pair):
    for picture in pair:
        assert (picture.shape, picture.dtype) == ((40, 40, 3), np.uint8)
        assert 40 < picture.mean() < 225 and picture.std() > 8
    visible, _ = masks(PAIR[0], 40)
    difference = np.abs(pair[0].astype(int) - pair[1].astype(int)).mean(axis=2)
    assert difference[visible == 0].mean() > 20
    assert difference[visible == 0].mean() > 8 * difference[visible != 0].mean()


def test_the_same_scene_and_seed_give_the_same_pixels_whatever_is_rendered_in_between(pair):
    np.testing.assert_array_equal(render(PAIR[0], SMALL), pair[0])
    render(draw(Key("test", 3, "location", 0)).scenes[0], Settings(32, 1, 2))
    np.testing.assert_array_equal(render(PAIR[1], SMALL), pair[1])


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


# Masks and checks: a scene that does not show what its caption says is rejected with the right reason.

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


def test_masks_tell_things_apart_and_a_nearer_thing_takes_pixels_from_the_farther_one():
    seen, alone = masks(scene(MUG, BOX), SIZE)
    assert seen.shape == (SIZE, SIZE)
    assert set(np.unique(seen)) == {-1, 0, 1}
    assert [int((seen == k).sum()) for k in (0, 1)] == alone
    assert np.nonzero(seen == 0)[1].mean() < np.nonzero(seen == 1)[1].mean()
    seen, alone = masks(scene(at(MUG, 0.0, 0.6), at(BOX, 0.0, -0.6)), SIZE)
    assert (seen == 0).sum() < alone[0]
    assert (seen == 1).sum() == alone[1]


BESIDE, NEAR = (MUG, BOX), (at(MUG, 0.05, -1.0), at(BOX, 0.0, 0.6))
#: Why a scene is rejected, or "", and what it shows of what a caption says.
VERDICTS = {
    "": [
        (BESIDE, Fact("left", 2)), (BESIDE, Fact(None, 2)), (NEAR, Fact("front", 2)),
        ((at(MUG, 0.6, 0.0, 0.6949), BOX), Fact("top", 2)),
    ],
    "wrong side": [
        (BESIDE, Fact("right", 2)), (NEAR, Fact("left", 2)),
        ((at(MUG, -0.8, -1.2), at(BOX, 0.5, 0.4)), Fact("left", 2)),
    ],
    "wrong depth": [(BESIDE, Fact("front", 2)), (NEAR, Fact("behind", 2))],
    "not on top": [
        (BESIDE, Fact("top", 2)), ((at(MUG, 0.6, 0.0, 0.9), BOX), Fact("top", 2)),
        ((at(MUG, 0.2, 0.0, 0.6949), BOX), Fact("top", 2)), ((at(MUG, -0.7, 0.0, 0.3), BOX), Fact("left", 2)),
    ],
    "wrong count": [(BESIDE, Fact(None, 3))],
    "occluded": [((at(MUG, 0.65, 1.1), replace(at(BOX, 0.0, -0.3), size=1.3)), Fact("behind", 2))],
    "too small": [((replace(MUG, size=0.05), BOX), Fact("left", 2))],
    "cut off": [((at(MUG, -1.75, 0.0), BOX), Fact("left", 2))],
}  # fmt: skip


def test_a_scene_is_accepted_or_rejected_for_its_own_reason():
    assert {*VERDICTS} - {""} <= {*REASONS}
    for reason, shown in VERDICTS.items():
        assert [verdict(scene(*things), fact) or "" for things, fact in shown] == [reason] * len(shown)


def test_swapping_the_pictures_of_a_location_or_counting_pair_is_always_noticed():
    accepted = [q for q in (draw(Key("test", 5, "location", i)) for i in range(8)) if check(q, SIZE) is None]
    assert len(accepted) >= 4
    for quadruple in (*accepted, *(draw(Key("test", 5, "counting", index)) for index in range(3))):
        assert check(replace(quadruple, scenes=quadruple.scenes[::-1]), SIZE) is not None
