"""What `make package` refuses: another version in a file that names it, and strange names in an archive."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

import tellapart

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def package() -> ModuleType:
    spec = importlib.util.spec_from_file_location("package", ROOT / "ci" / "package.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_citation_and_changelog_name_the_packages_version(package: ModuleType) -> None:
    citation, changelog = ((ROOT / name).read_text(encoding="utf-8") for name in ("CITATION.cff", "CHANGELOG.md"))
    assert package.version_mismatches(tellapart.__version__, f"v{tellapart.__version__}", citation, changelog) == []


def test_another_version_anywhere_is_named(package: ModuleType) -> None:
    lines = package.version_mismatches("1.2.3", "v1.2.4", "version: 1.2.30\n", "# Changelog\n\n## 1.2.2\n")
    assert [re.sub(r"\W+", " ", line) for line in lines] == [
        "the tag is v1 2 4 and the package is 1 2 3",
        "CITATION cff does not say version 1 2 3 ",
        "CHANGELOG md has no section 1 2 3 ",
    ]


def test_caches_runs_and_tests_do_not_belong_into_an_archive(package: ModuleType) -> None:
    right = ["t-1/src/tellapart/data/item.py", "t-1/.gitignore", "t-1/src/tellapart/builders/__init__.py"]
    wrong = ["t-1/src/tellapart/__pycache__/a.pyc", "t-1/runs/x/results.json", "t-1/.env", "t-1/tests/test_a.py"]
    assert package.strange_names([*right, *wrong]) == [name.partition("/")[2] for name in wrong]


def test_what_the_sources_hold_has_a_place_in_the_repository() -> None:
    built = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["sdist"]
    assert all((ROOT / name.lstrip("/")).exists() for name in built["include"])


def test_nox_knows_every_python_that_the_metadata_claims() -> None:
    nox = pytest.importorskip("nox", reason="nox is in the dev extra")
    spec = importlib.util.spec_from_file_location("noxfile", ROOT / "noxfile.py")
    assert spec
    assert spec.loader
    noxfile = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        spec.loader.exec_module(noxfile)
    claimed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    assert {f"Programming Language :: Python :: {version}" for version in noxfile.PYTHONS} <= set(claimed)
    assert noxfile.PYTHONS[0] == "3.11"
    assert nox


def test_the_release_needs_no_secret_and_follows_the_tag() -> None:
    release = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    assert "secrets." not in release
    assert "id-token: write" in release
    assert 'ci/package.py --tag="$GITHUB_REF_NAME"' in release
    assert ".ci/run" in (ROOT / ".github" / "workflows" / "test.yml").read_text()
