from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

from tellapart.data.folder import read_pair_set

BENCH = Path(__file__).parents[2] / "bench"


def module(name: str) -> ModuleType:
    """Import a file of `bench/`, which is no package."""
    if name == "shapes":
        module("real_captions")
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, BENCH / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def test_the_sets_have_the_published_shapes_and_repetitions(tmp_path: Path) -> None:
    shapes = module("shapes")
    sets = shapes.make_sets(tmp_path / "sets", 50)
    counts = {name: [len(side) for side in shapes.distinct(sets, (name,))] for name in sets}
    assert {name: len(pairs) for name, pairs in sets.items()} == {"winoground": 50, "sugarcrepe": 50, "aro": 50}
    # 800 of 800 and 800 of 800; 1,560 of 7,511 and 11,844 of 15,022; 5,000 of 25,010 and all captions.
    assert counts == {"winoground": [100, 100], "sugarcrepe": [10, 79], "aro": [10, 250]}
    for name, shape in (("winoground", (2, 2)), ("sugarcrepe", (1, 2)), ("aro", (1, 5))):
        pairs = read_pair_set(tmp_path / "sets" / name)
        assert pairs.shape == shape
        assert [item.texts for item in pairs.items] == [pair.texts for pair in sets[name]]
        assert pairs.pixels(pairs.items[-1].images[-1]).shape == (375, 500, 3)
    words = [len(text.split()) for pair in sets["sugarcrepe"] for text in pair.texts]
    assert 10 < sum(words) / len(words) < 14
    assert all(sorted(text.split()) == sorted(pair.texts[0].split()) for pair in sets["aro"] for text in pair.texts)


def test_the_same_sets_come_again_and_every_picture_is_another(tmp_path: Path) -> None:
    shapes = module("shapes")
    first = shapes.make_sets(tmp_path / "one", 5)
    files = {file.relative_to(tmp_path / "one"): file.read_bytes() for file in (tmp_path / "one").rglob("*.jpg")}
    made = [data for file, data in files.items() if "images" in file.parts]
    assert len(set(made)) == len(made) == 12
    assert shapes.make_sets(tmp_path / "two", 5) == first
    for file, data in files.items():
        assert (tmp_path / "two" / file).read_bytes() == data
    before = (tmp_path / "one" / "stamp.json").stat().st_mtime_ns
    shapes.make_sets(tmp_path / "one", 5)
    assert (tmp_path / "one" / "stamp.json").stat().st_mtime_ns == before


def test_clip_benchmark_is_given_the_same_items_in_its_own_format(tmp_path: Path) -> None:
    sets = module("shapes").make_sets(tmp_path / "sets", 6)
    home = tmp_path / "sets" / "crepe"
    for name, file in (("sugarcrepe", "add_att.json"), ("aro", "swap_obj.json")):
        rows = json.loads((home / file).read_text()).values()
        for row, pair in zip(rows, sets[name], strict=True):
            negatives = row["negative_caption"] if name == "aro" else [row["negative_caption"]]
            assert (row["caption"], *negatives) == pair.texts
            original = tmp_path / "sets" / name / "images" / pair.images[0]
            assert (home / "val2017" / row["filename"]).read_bytes() == original.read_bytes()
