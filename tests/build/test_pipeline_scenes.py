"""Rendered scenes through the pipeline: verified, the same for any number of workers, and what the older command draws."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("mitsuba", reason="needs the render extra: mitsuba")
pytest.importorskip("pyoidn", reason="needs the render extra: pyoidn")

from tellapart.build.builder import Rejected, Start
from tellapart.build.pipeline import build
from tellapart.build.rendered.demo import build as build_demo
from tellapart.build.rendered.recipe import Recipe
from tellapart.build.rendered.scenes import Scenes
from tellapart.data.folder import read_pair_set

OPTIONS = "[options]\nsize = 40\nsamples = 1\ndepth = 2\n"


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "recipe.toml"
    path.write_text(f'name = "few"\nbuilder = "scenes"\nseed = 5\n{text}')
    return path


def test_a_recipe_of_scenes_is_rendered_the_same_by_one_and_by_two(tmp_path: Path) -> None:
    recipe = written(tmp_path, f"{OPTIONS}[options.items]\ncounting = 2\nlocation = 1\n")
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
    same = Recipe(
        name="few", seed=5, size=40, samples=1, depth=2, held_out_every=0, items={"counting": 2, "location": 1}
    )
    build_demo(same, tmp_path / "demo")
    older = read_pair_set(tmp_path / "demo")
    assert pairs.fingerprint() == older.fingerprint()


def test_what_cannot_be_drawn_is_rejected_with_its_reason() -> None:
    # At 16 pixels five small things cannot all be seen.
    options = Scenes.Options(size=16, samples=1, attempts=1, items={"counting": 30})
    scenes = Scenes(Start(options, 5, Path()))
    outcomes = [scenes.make(candidate) for candidate in scenes.candidates()]
    assert Rejected("masks", "none of 1 draws shows what its captions say") in outcomes
