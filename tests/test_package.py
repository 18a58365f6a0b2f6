"""What `make package` refuses: another version in a file that names it, and strange names in an archive."""

import re
import shutil
import tempfile
import tomllib
from pathlib import Path

import package
import pytest

import tellapart
from scripts import import_script

ROOT = Path(__file__).parent.parent


def test_every_file_that_names_a_version_names_the_packages():
    citation, changelog = ((ROOT / name).read_text(encoding="utf-8") for name in ("CITATION.cff", "CHANGELOG.md"))
    assert package.version_mismatches(tellapart.__version__, f"v{tellapart.__version__}", citation, changelog) == []
    lines = package.version_mismatches("1.2.3", "v1.2.4", "version: 1.2.30\n", "# Changelog\n\n## 1.2.2\n")
    assert [re.sub(r"\W+", " ", line) for line in lines] == [
        "the tag is v1 2 4 and the package is 1 2 3",
        "CITATION cff does not say version 1 2 3 ",
        "CHANGELOG md has no section 1 2 3 ",
    ]


def test_every_file_names_the_repository_of_pyproject(tmp_path):
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in package.NAMING}
    assert package.address_mismatches(texts) == []
    odd = texts | {"README.md": "git+https://github.com/other/tellapart", "mkdocs.yml": ""}
    lines = [(line.split()[0], "other/tellapart" in line) for line in package.address_mismatches(odd)]
    assert lines == [("README.md", True), ("README.md", False), ("mkdocs.yml", False)]


def test_an_address_is_written_into_every_file_that_names_it(tmp_path):
    for name in package.NAMING:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    package.fill_address(tmp_path, "https://github.com/lab/pairs")
    texts = {name: (tmp_path / name).read_text(encoding="utf-8") for name in package.NAMING}
    assert package.address_mismatches(texts) == []
    left = re.compile(r"OWNER/tellapart|OWNER\.github|place of OWNER")
    assert [name for name, text in texts.items() if left.search(text)] == []
    assert tomllib.loads(texts["pyproject.toml"])["project"]["urls"]["Documentation"] == "https://lab.github.io/pairs"
    with pytest.raises(SystemExit, match=r"https://github\.com/NAME/REPOSITORY"):
        package.fill_address(tmp_path, "github.com/lab/pairs")


def test_links_and_pictures_of_the_readme_lead_to_the_tag_on_an_index():
    hook = pytest.importorskip("hatch_fancy_pypi_readme.hooks", reason="hatch-fancy-pypi-readme is in the dev extra")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    settings = project["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    metadata = {"version": tellapart.__version__}
    hook.FancyReadmeMetadataHook(str(ROOT), settings).update(metadata)
    links = re.findall(r"(!?)\[[^\]]*\]\(([^)\s]+)\)", metadata["readme"]["text"])
    assert len(links) > 20
    for picture, link in links:
        kind = "raw" if picture else "blob"
        start = f"{project['project']['urls']['Repository']}/{kind}/v{tellapart.__version__}/"
        assert link.startswith(start) and (ROOT / link.removeprefix(start)).exists()


def test_the_recipe_for_conda_is_valid_and_needs_what_the_package_needs(tmp_path, monkeypatch):
    """rattler-build reads it: it refuses fields, versions and licences that there are not."""
    yaml = pytest.importorskip("yaml")
    rattler_build = pytest.importorskip("rattler_build", reason="py-rattler-build is in the dev extra")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # rattler-build leaves folders there
    text = (ROOT / "recipe" / "recipe.yaml").read_text(encoding="utf-8")
    (built,) = rattler_build.Stage0Recipe.from_yaml(text).render()
    assert built.recipe.package.version == tellapart.__version__
    for wrong in (text.replace("homepage:", "homepages:"), text.replace("Apache-2.0", "Apachy")):
        with pytest.raises(rattler_build.RattlerBuildError):
            rattler_build.Stage0Recipe.from_yaml(wrong).render()
    recipe = yaml.safe_load(text)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    asked = (project["project"]["dependencies"], project["build-system"]["requires"])
    needs, builds = ({line.replace(">=", " >=") for line in lines} for lines in asked)
    python = f"python {project['project']['requires-python']}"
    assert {*recipe["requirements"]["run"]} == {python, *needs}
    assert {*recipe["requirements"]["host"]} == {python, "pip", *builds}
    scripts = [f"{name} = {place}" for name, place in project["project"]["scripts"].items()]
    assert recipe["build"]["python"]["entry_points"] == scripts


def test_an_archive_holds_no_caches_and_what_has_a_place_in_the_repository():
    right = ["t-1/src/tellapart/data/item.py", "t-1/.gitignore", "t-1/src/tellapart/builders/__init__.py"]
    wrong = ["t-1/src/tellapart/__pycache__/a.pyc", "t-1/runs/x/results.json", "t-1/.env", "t-1/tests/test_a.py"]
    assert package.strange_names([*right, *wrong]) == [name.partition("/")[2] for name in wrong]
    built = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["sdist"]
    assert all((ROOT / name.lstrip("/")).exists() for name in built["include"])


def test_nox_knows_every_python_that_the_metadata_claims():
    pytest.importorskip("nox", reason="nox is in the dev extra")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        noxfile = import_script(ROOT / "noxfile.py")
    claimed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    assert {f"Programming Language :: Python :: {version}" for version in noxfile.PYTHONS} <= set(claimed)
    assert noxfile.PYTHONS[0] == "3.11"


def test_the_release_needs_no_secret_and_follows_the_tag():
    release = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    assert "secrets." not in release and "id-token: write" in release
    assert 'ci/package.py --tag="$GITHUB_REF_NAME"' in release
    assert ".ci/run" in (ROOT / ".github" / "workflows" / "test.yml").read_text()
