"""A power cut at any moment: what is found afterwards is whole or is not there, and going on gives the same."""

import json
import re
import sys
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from power_loss import Image, build_library, images_of, restore

from tellapart.models.torch.backend import import_torch

pytestmark = pytest.mark.slow


@pytest.fixture
def library(tmp_path_factory) -> Path:
    return build_library(tmp_path_factory.mktemp("p"))


def some(images: list[Image], most: int = 4) -> list[Image]:
    """Spread evenly over a command, its end among them; `make gates` kills at twenty moments."""
    step = max(1, len(images) / most)
    return [images[int(k * step)] for k in range(int(len(images) / step))] + [images[-1]]


def files_of(folder: Path) -> dict[str, Any]:
    """A folder's files; of records only what does not say when and how fast they were made."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.suffix == ".html" or not path.is_file() or path.name.startswith("."):
            continue
        found[name] = path.read_bytes()
        if path.name in ("results.json", "record.json"):
            of_end = name.startswith(("wise/alpha-0.00/", "wise/alpha-1.00/"))
            found[name] = without(json.loads(found[name]), _TIMES | _COMPUTED if of_end else _TIMES)
        elif path.name == "README.md":
            found[name] = re.sub(rb"[\d,]+ s( since it was resumed)? on", b"", found[name])
    return found


#: When and how fast something was made.
_TIMES = {"started", "seconds", "resumed", "command", "sha256", "torch_threads"}
#: The ends of a sweep are taken from the report, or computed again if another process made that.
_COMPUTED = {"images_encoded", "texts_encoded", "texts_shared"}


def without(value, left_out: set[str]):
    if isinstance(value, dict):
        return {key: without(each, left_out) for key, each in value.items() if key not in left_out}
    return [without(each, left_out) for each in value] if isinstance(value, list) else value


def tellapart(*words: object) -> list[str]:
    return [sys.executable, "-m", "tellapart", *map(str, words)]


@pytest.mark.parametrize(("what", "file"), [("run", "samples/demo.jsonl"), ("build", "pairs.jsonl")])
def test_a_command_goes_on_after_a_power_cut_at_any_sync(what, file, library, tmp_path, command):
    root = tmp_path / "disk"
    root.mkdir()
    recipe = tmp_path / "few.toml"
    recipe.write_text('name = "few"\nbuilder = "scenes"\nseed = 3\n[options.items]\nattribute = 1\n')
    options = {"run": ("--limit", 4, "--cache", root / "cache"), "build": (recipe, "--workers", 1)}[what]
    words = (what, *options, "--out", root / "out")
    images = images_of(tellapart(*words), root, library, OMP_NUM_THREADS="1")
    whole = files_of(root / "out")
    assert len(images) > 10 and file in whole
    for image in some(images):
        restore(image, root)
        command(*words, code=0)
        assert files_of(root / "out") == whole


def test_training_goes_on_and_ends_in_the_same_bytes(library, tmp_path, command, request):
    if find_spec("open_clip") is None:  # not imported here: it wants torchvision's operators
        pytest.skip('training needs: pip install "tellapart[train]"')
    from training_sets import squares, table, toml

    root = tmp_path / "disk"
    root.mkdir()
    config = tmp_path / "train.toml"
    report = {"benchmarks": [f"folder:{squares(tmp_path / 'test', 4, seed=1)}"], "alphas": [0.0, 0.5, 1.0]}
    config.write_text(toml(table(tmp_path, report=report)))
    words = ("train", config, "--out", root / "run")
    images = images_of(tellapart(*words), root, library, OMP_NUM_THREADS="1")
    torch = import_torch()  # with another number of threads last bits may differ
    request.addfinalizer(partial(torch.set_num_threads, torch.get_num_threads()))
    torch.set_num_threads(1)
    whole = files_of(root / "run")
    assert "record.json" in whole and "wise/curve.json" in whole
    begun = [image for image in images if "run/run.json" in image]
    assert len(begun) >= 20
    for image in some(begun, 3):
        restore(image, root)
        command(*words, "--resume", code=0)
        found = files_of(root / "run")
        assert found.keys() == whole.keys()
        assert [name for name, content in whole.items() if found[name] != content] == []
