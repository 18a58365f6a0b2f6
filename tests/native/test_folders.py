"""A family is a module and an entry point: nothing else of the package names it, and tellapart finds it by them."""

from __future__ import annotations

import ast
import json
import tomllib
from pathlib import Path

import pytest

import tellapart_native.prefix
from tellapart import catalog
from tellapart.errors import ModelError
from tellapart.models.find import find_model, find_prefix, prefix_of_type
from tellapart.models.fusion.family import FusionPrefix
from tellapart.models.options import ModelOptions
from tellapart.models.prefix import ModelPrefix
from tellapart.models.reference import Constant

PACKAGE = Path(tellapart_native.prefix.__file__).parent
FAMILIES = sorted(path.stem for path in PACKAGE.glob("*.py") if "\nFAMILY = " in path.read_text())


def imports_of(path: Path) -> set[str]:
    return {node.module or "" for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)}


def test_each_family_has_an_entry_point_and_each_entry_point_a_family() -> None:
    project = tomllib.loads((PACKAGE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    points = project["entry-points"]["tellapart.prefixes"]
    assert len(FAMILIES) > 10
    assert points == {name: f"tellapart_native.prefix:{name.upper()}" for name in FAMILIES}


@pytest.mark.parametrize("family", FAMILIES)
def test_no_module_imports_a_family(family: str) -> None:
    assert [path for path in PACKAGE.rglob("*.py") if f"tellapart_native.{family}" in imports_of(path)] == []


def test_the_code_of_these_models_is_among_the_files_that_their_numbers_depend_on(tmp_path: Path) -> None:
    for name in ("model.pth", "tokenizer.json"):
        (tmp_path / name).write_text("{}")
    prefix = find_prefix(f"albef:{tmp_path / 'model.pth'}")
    assert isinstance(prefix, FusionPrefix)
    files = prefix.files(f"albef:{tmp_path / 'model.pth'}")
    assert files is not None
    assert {PACKAGE / "albef.py", PACKAGE / "layers" / "bert.py", tmp_path / "tokenizer.json"} <= set(files)


def test_a_strangers_prefix_opens_its_converted_folders_by_their_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the families here rely on serves any plugin."""
    loaded: list[str] = []

    def load(name: str, options: ModelOptions) -> Constant:
        loaded.append(name)
        return Constant()

    monkeypatch.setitem(catalog._ADDED["prefix"], "mine:", ModelPrefix({"mine:FILE": "mine"}, load, model_type="mine"))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "mine"}))
    find_model(str(tmp_path))
    find_model(f"hf:{tmp_path}")
    assert loaded == [f"mine:{tmp_path}"] * 2
    assert prefix_of_type("") is None and prefix_of_type("no such type") is None


def test_a_prefix_that_cannot_be_loaded_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(catalog._ADDED["prefix"], "broken:", "no declaration")
    found = prefix_of_type("blip_original")
    assert found is not None and found[0] == "blip:"
    with pytest.raises(ModelError, match="broken:"):
        find_prefix("broken:x")
