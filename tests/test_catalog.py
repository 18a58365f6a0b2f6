"""The catalogue: every name leads somewhere, a wrong one to its neighbour, and other packages add theirs."""

import os
import sys
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest

from facts import check_facts, raises
from scripts import run_python
from tellapart.benchmarks.find import find_benchmark
from tellapart.catalog import (
    BENCHMARKS,
    BUILDERS,
    DEFAULT_MODEL,
    MODELS,
    REFERENCES,
    _shipped,
    _shipped_points,
    load,
    names,
)
from tellapart.errors import UnknownNameError, nearest
from tellapart.models.find import find_model
from tellapart.tasks.registry import TASKS


@pytest.mark.parametrize("kind_and_name", [("benchmark", n) for n in BENCHMARKS] + [("model", n) for n in MODELS])
def test_every_name_of_the_catalogue_leads_to_an_object(kind_and_name):
    kind, name = kind_and_name
    target = load(kind, name)
    assert callable(target) if kind == "model" else target.name == name


def test_for_a_built_in_name_the_installed_packages_are_not_searched(monkeypatch):
    """A search reads a file of every package, which takes longer than all else that a name takes."""

    def search(**_: object) -> None:
        raise AssertionError("searched")

    monkeypatch.setattr("importlib.metadata.entry_points", search)
    assert find_benchmark("demo").name == "demo"
    assert find_model("constant").name == "constant"
    with pytest.raises(AssertionError, match="searched"):
        find_benchmark("of-another-package")


def test_names_come_in_their_order_and_the_default_and_references_are_models():
    assert names("model")[: len(MODELS)] == list(MODELS)
    assert names("benchmark")[: len(BENCHMARKS)] == list(BENCHMARKS)
    assert len(TASKS) == sum(1 for _ in TASKS) > 10
    assert {DEFAULT_MODEL, *REFERENCES} == set(MODELS)
    assert DEFAULT_MODEL not in REFERENCES


@pytest.mark.parametrize(
    ("kind", "name", "says"),
    [
        ("benchmark", "winogrund", ("benchmark", "'winogrund'", "'winoground'")),
        ("model", "bag_of_words", ("model", "'bag_of_words'", "'bag-of-words'")),
        ("model", "Constant", ("model", "'Constant'", "'constant'", "all")),
        ("model", "zzz", ("model", "'zzz'", "all")),
        ("model", "", ("model", "all", "models")),
        ("benchmark", "oracle", ("benchmark", "'oracle'")),
    ],
)
def test_a_wrong_name_is_answered_with_the_nearest_one(kind, name, says):
    with raises(UnknownNameError, says):
        load(kind, name)


def test_nearest_is_silent_only_when_nothing_is_near():
    assert nearest("texts", []) == ""
    assert nearest("caption", ["captions", "image"]) == "; did you mean 'captions'?"


def installed(site: Path, package: str, points: str, group: str = "models") -> None:
    """Install a package's metadata, as pip leaves it, and a module of its name."""
    info = site / f"{package}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[tellapart.{group}]\n{points}\n")
    (site / f"{package}.py").write_text("def make(options):\n    return 'made by ' + __name__\n")


def seeing(site: Path) -> dict[str, str]:
    """Return the environment of a program that sees the packages in `site`."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), *sys.path])}


def answer(site: Path, expression: str) -> str:
    """Evaluate an expression in a fresh interpreter that sees the packages in `site`."""
    code = f"from tellapart.catalog import load, names\nprint({expression})"
    done = run_python("-c", code, status=None, env=seeing(site))
    return done.stdout.strip() or done.stderr.strip()


def test_another_package_adds_a_model_and_cannot_replace_one(tmp_path):
    installed(tmp_path, "other_models", "theirs = other_models:make\nconstant = other_models:make")
    assert answer(tmp_path, "load('model', 'theirs')(None)") == "made by other_models"
    assert answer(tmp_path, "load('model', 'constant').__module__") == "tellapart.models.reference"
    assert answer(tmp_path, "[*map(names('model').count, ['constant', 'theirs'])]") == "[1, 1]"
    assert "did you mean 'theirs'?" in answer(tmp_path, "load('model', 'theirz')")


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("metric", "import no_such_thing"),
        ("metric", "import sys\nsys.exit(0)"),
        ("metric", "make = 7"),
        ("task", "make = 7"),
    ],
)
def test_an_installed_package_that_cannot_be_loaded_is_named_once_and_the_rest_works(tmp_path, kind, code):
    installed(tmp_path, "broken_package", "theirs = broken_package:make", f"{kind}s")
    (tmp_path / "broken_package.py").write_text(code)
    done = run_python("-c", "from tellapart.tasks.registry import METRICS\nprint(*METRICS)", env=seeing(tmp_path))
    assert {"group_score", "kendall"} <= {*done.stdout.split()}
    (warning,) = (line for line in done.stderr.splitlines() if "Warning" in line)
    check_facts(warning, "'theirs'", "broken_package", kind)


@pytest.mark.parametrize("place", ["checkout", "wheel", "copy"])
def test_the_packages_of_the_same_wheel_join_by_its_entry_points(place, tmp_path, monkeypatch):
    """They come from pyproject.toml in a checkout, which may be newer than the metadata, and from those elsewhere."""
    target = "tellapart_render.scenes_builder:Scenes"
    info = tmp_path / "tellapart-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tellapart\nVersion: 1\n")
    points = {"checkout": "old = gone:Gone", "wheel": f"scenes = {target}"}
    (info / "entry_points.txt").write_text(f"[tellapart.builders]\n{points.get(place, '')}\n")
    monkeypatch.setattr("importlib.metadata.distribution", lambda name: PathDistribution(info))
    if place != "checkout":
        monkeypatch.setattr("tellapart.catalog.__file__", str(tmp_path / "lib" / "tellapart" / "catalog.py"))
    monkeypatch.setattr("tellapart.catalog._shipped_points", _shipped_points.__wrapped__)
    shipped = _shipped.__wrapped__("builder")
    joined = {name: shipped[name] for name in shipped.keys() - BUILDERS}
    assert joined == ({} if place == "copy" else {"scenes": target}) or (
        place == "checkout" and joined["scenes"] == target and "old" not in joined
    )


def test_a_name_that_two_packages_give_is_refused(tmp_path):
    installed(tmp_path, "one_package", "theirs = one_package:make")
    installed(tmp_path, "two_package", "theirs = two_package:make")
    assert answer(tmp_path, "load('model', 'theirs')").endswith(
        "UnknownNameError: model 'theirs' is given by one_package and two_package; uninstall all but one"
    )


def test_a_package_that_cannot_be_imported_is_named(tmp_path):
    installed(tmp_path, "broken_package", "theirs = broken_package:gone")
    assert answer(tmp_path, "load('model', 'theirs')").endswith(
        "AttributeError: module 'broken_package' has no attribute 'gone'\n"
        "model 'theirs' (broken_package:gone) comes from the package broken_package"
    )


@pytest.mark.slow
def test_another_package_adds_a_prefix_and_cannot_replace_one(tmp_path):
    installed(
        tmp_path,
        "prefix_package",
        "mine = prefix_package:MINE\nhf = prefix_package:MINE\nno = prefix_package:make",
        "prefixes",
    )
    with (tmp_path / "prefix_package.py").open("a") as module:
        module.write(
            "from tellapart.models.options import ModelPrefix\n"
            "from tellapart.models.reference import Constant\n"
            "MINE = ModelPrefix({'mine:SIZE': 'a model of a size'}, lambda name, options: Constant())\n"
        )
    find = "__import__('tellapart.models.find', fromlist=['*'])"
    assert answer(tmp_path, f"{find}.find_model('mine:3').name") == "constant"
    assert answer(tmp_path, "names('prefix')[-2:], list(load('prefix', 'hf:').forms)") == (
        "['mine:', 'no:'] ['hf:PATH or ORG/REPO']"
    )
    assert answer(tmp_path, f"{find}.name_forms()['mine:SIZE']") == "a model of a size"
    assert answer(tmp_path, f"{find}.name_forms()['no:']").startswith("cannot be loaded: prefix 'no:' is a function;")
    assert answer(tmp_path, f"{find}.find_model('mime:3')").endswith(
        "no prefix 'mime:'; did you mean 'mine:'? `tellapart ls models` lists them all"
    )
    assert answer(tmp_path, f"{find}.find_model('mine:')").endswith(
        "mine: names no model; write mine:SIZE: a model of a size"
    )
