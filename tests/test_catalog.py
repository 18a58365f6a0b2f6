"""The catalogue: every name leads somewhere, a wrong one to its neighbour, and other packages add theirs."""

import os
import sys
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest

from facts import check_facts, raises
from scripts import install, run_python
from tellapart import catalog
from tellapart.benchmarks.find import find_benchmark
from tellapart.errors import UnknownNameError, nearest
from tellapart.models.find import find_model
from tellapart.tasks.registry import TASKS

NAMED = [("benchmark", name) for name in catalog.BENCHMARKS] + [("model", name) for name in catalog.MODELS]


@pytest.mark.parametrize(("kind", "name"), NAMED)
def test_every_name_of_the_catalogue_leads_to_an_object(kind, name):
    target = catalog.load(kind, name)
    assert callable(target) if kind == "model" else target.name == name


def test_for_a_built_in_name_the_installed_packages_are_not_searched(monkeypatch):
    """A search reads a file of every package, which takes longer than all else that a name takes."""

    def search(**_: object) -> None:
        raise AssertionError("searched")

    monkeypatch.setattr("importlib.metadata.entry_points", search)
    assert (find_benchmark("demo").name, find_model("constant").name) == ("demo", "constant")
    with pytest.raises(AssertionError, match="searched"):
        find_benchmark("of-another-package")


def test_names_come_in_their_order_and_the_default_and_references_are_models():
    assert catalog.names("model")[: len(catalog.MODELS)] == list(catalog.MODELS)
    assert catalog.names("benchmark")[: len(catalog.BENCHMARKS)] == list(catalog.BENCHMARKS)
    assert len(TASKS) == sum(1 for _ in TASKS) > 10
    assert {catalog.DEFAULT_MODEL, *catalog.REFERENCES} == set(catalog.MODELS)
    assert catalog.DEFAULT_MODEL not in catalog.REFERENCES


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
        catalog.load(kind, name)


def test_nearest_is_silent_only_when_nothing_is_near():
    assert (nearest("texts", []), nearest("caption", ["captions", "image"])) == ("", "; did you mean 'captions'?")


MAKE = "def make(options):\n    return 'made by ' + __name__\n"


def seeing(site: Path) -> dict[str, str]:
    """Return the environment of a program that sees the packages in `site`."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), *sys.path])}


def answer(site: Path, expression: str) -> str:
    """Evaluate an expression in a fresh interpreter that sees the packages in `site`."""
    code = f"from tellapart.catalog import load, names\nprint({expression})"
    done = run_python("-c", code, status=None, env=seeing(site))
    return done.stdout.strip() or done.stderr.strip()


def test_another_package_adds_a_model_and_cannot_replace_one(tmp_path):
    points = "theirs = other_models:make\nconstant = other_models:make"
    install(tmp_path, "other_models", f"[tellapart.models]\n{points}", MAKE)
    assert answer(tmp_path, "load('model', 'theirs')(None)") == "made by other_models"
    assert answer(tmp_path, "load('model', 'constant').__module__") == "tellapart.models.reference"
    assert answer(tmp_path, "[*map(names('model').count, ['constant', 'theirs'])]") == "[1, 1]"
    assert "did you mean 'theirs'?" in answer(tmp_path, "load('model', 'theirz')")


BROKEN = [("metric", "import no_such_thing"), ("metric", "import sys\nsys.exit(0)"), ("metric", "make = 7")]


@pytest.mark.parametrize(("kind", "code"), [*BROKEN, ("task", "make = 7")])
def test_an_installed_package_that_cannot_be_loaded_is_named_once_and_the_rest_works(tmp_path, kind, code):
    install(tmp_path, "broken_package", f"[tellapart.{kind}s]\ntheirs = broken_package:make", code)
    done = run_python("-c", "from tellapart.tasks.registry import METRICS\nprint(*METRICS)", env=seeing(tmp_path))
    assert {"group_score", "kendall"} <= {*done.stdout.split()}
    (warning,) = (line for line in done.stderr.splitlines() if "Warning" in line)
    check_facts(warning, "'theirs'", "broken_package", kind)


@pytest.mark.parametrize("place", ["checkout", "wheel", "copy"])
def test_the_packages_of_the_same_wheel_join_by_its_entry_points(place, tmp_path, monkeypatch):
    """They come from pyproject.toml in a checkout, which may be newer than the metadata, and from those elsewhere."""
    target = "tellapart_render.scenes_builder:Scenes"
    points = {"checkout": "old = gone:Gone", "wheel": f"scenes = {target}"}
    info = install(tmp_path / "site", "tellapart", f"[tellapart.builders]\n{points.get(place, '')}\n", "")
    monkeypatch.setattr("importlib.metadata.distribution", lambda name: PathDistribution(info))
    if place != "checkout":
        monkeypatch.setattr("tellapart.catalog.__file__", str(tmp_path / "lib" / "tellapart" / "catalog.py"))
    monkeypatch.setattr("tellapart.catalog._shipped_points", catalog._shipped_points.__wrapped__)
    shipped = catalog._shipped.__wrapped__("builder")
    joined = {name: shipped[name] for name in shipped.keys() - catalog.BUILDERS}
    assert joined == ({} if place == "copy" else {"scenes": target}) or (
        place == "checkout" and joined["scenes"] == target and "old" not in joined
    )


def test_a_name_that_two_packages_give_and_a_package_that_cannot_be_imported_are_named(tmp_path):
    install(tmp_path, "one_package", "[tellapart.models]\ntheirs = one_package:make\nno = one_package:gone", MAKE)
    install(tmp_path, "two_package", "[tellapart.models]\ntheirs = two_package:make", MAKE)
    assert answer(tmp_path, "load('model', 'theirs')").endswith(
        "UnknownNameError: model 'theirs' is given by one_package and two_package; uninstall all but one"
    )
    assert answer(tmp_path, "load('model', 'no')").endswith(
        "AttributeError: module 'one_package' has no attribute 'gone'\n"
        "model 'no' (one_package:gone) comes from the package one_package"
    )


@pytest.mark.slow
def test_another_package_adds_a_prefix_and_cannot_replace_one(tmp_path):
    points = "mine = prefix_package:MINE\nhf = prefix_package:MINE\nno = prefix_package:make"
    code = "from tellapart.models.options import ModelPrefix\nfrom tellapart.models.reference import Constant\n"
    code += "MINE = ModelPrefix({'mine:SIZE': 'a model of a size'}, lambda name, options: Constant())\n"
    install(tmp_path, "prefix_package", f"[tellapart.prefixes]\n{points}", MAKE + code)
    find = "__import__('tellapart.models.find', fromlist=['*'])"
    assert answer(tmp_path, f"{find}.find_model('mine:3').name") == "constant"
    told = answer(tmp_path, "names('prefix')[-2:], list(load('prefix', 'hf:').forms)")
    assert told == "['mine:', 'no:'] ['hf:PATH or ORG/REPO']"
    assert answer(tmp_path, f"{find}.name_forms()['mine:SIZE']") == "a model of a size"
    assert answer(tmp_path, f"{find}.name_forms()['no:']").startswith("cannot be loaded: prefix 'no:' is a function;")
    for name, said in (
        ("mime:3", "no prefix 'mime:'; did you mean 'mine:'? `tellapart ls models` lists them all"),
        ("mine:", "mine: names no model; write mine:SIZE: a model of a size"),
    ):
        assert answer(tmp_path, f"{find}.find_model('{name}')").endswith(said)
