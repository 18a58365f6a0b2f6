"""No lower bound of a dependency lets in a version that the repository's list of advisories knows to be open."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from facts import check_facts, raises

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "ci" / "advisories.py"

PYPROJECT = """
[project]
name = "mine"
dependencies = ["pillow>=13.0", "numpy"]
[project.optional-dependencies]
models = ["torch>=2.10"]
train = ["mine[models]", "Torch_Thing[extra]>=1,<3; python_version >= '3.11'"]
"""
ADVISORY = """
[[advisory]]
package = "torch"
id = "CVE-2026-24747"
fixed = "2.10"
source = "PyTorch"
"""


@pytest.fixture
def advisories() -> ModuleType:
    spec = importlib.util.spec_from_file_location("advisories", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check(
    advisories: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], pyproject: str, listed: str
) -> tuple[int, str, str]:
    (tmp_path / "pyproject.toml").write_text(pyproject)
    (tmp_path / "advisories.toml").write_text(listed)
    status = advisories.main(
        ["--pyproject", str(tmp_path / "pyproject.toml"), "--advisories", str(tmp_path / "advisories.toml")]
    )
    return status, *capsys.readouterr()


def test_this_repository_s_floors_are_at_or_above_every_fix_and_to_check_it_takes_a_moment() -> None:
    began = time.monotonic()
    done = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "every floor is at or above the fix" in done.stdout
    assert time.monotonic() - began < 10


def test_torch_s_floor_is_above_both_ways_around_weights_only(advisories: ModuleType) -> None:
    listed = {each.id: each for each in advisories.read_advisories(ROOT / "ci" / "advisories.toml")}
    assert not listed["CVE-2025-32434"].unreached
    assert not listed["CVE-2026-24747"].unreached
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert str(advisories.floors(project)["torch"]) == "2.10"


@pytest.mark.parametrize("floor", ["torch>=2.9.1", "torch>=2.10rc1", "torch", "torch<3", "torch~=2.6"])
def test_a_floor_below_a_fix_fails_and_says_what_to_write(
    advisories: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], floor: str
) -> None:
    lowered = PYPROJECT.replace("torch>=2.10", floor)
    status, said, wrong = check(advisories, tmp_path, capsys, lowered, ADVISORY)
    assert status == 1
    check_facts(wrong, "CVE-2026-24747", "2.10", "torch>=2.10", "pyproject.toml")
    check_facts(said, "1", "0", "4", "1")


@pytest.mark.parametrize("floor", ["torch>=2.10", "torch>=2.10.1,<3", "torch==2.13.0", "torch~=2.11"])
def test_a_floor_at_or_above_a_fix_passes(
    advisories: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], floor: str
) -> None:
    assert check(advisories, tmp_path, capsys, PYPROJECT.replace("torch>=2.10", floor), ADVISORY)[0] == 0


def test_one_low_floor_among_several_extras_is_enough(
    advisories: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = f'{PYPROJECT}old = ["torch>=2.4"]\n'
    assert "the floor is 2.4," in check(advisories, tmp_path, capsys, more, ADVISORY)[2]
    more = f'{PYPROJECT}any = ["torch"]\n'
    assert "the floor is not set," in check(advisories, tmp_path, capsys, more, ADVISORY)[2]


def test_names_are_compared_as_installers_do(
    advisories: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = ADVISORY.replace('"torch"', '"torch.thing"')
    assert "torch-thing: the floor is 1," in check(advisories, tmp_path, capsys, PYPROJECT, listed)[2]


def test_what_is_not_reached_is_counted_and_not_checked(
    advisories: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = ADVISORY.replace("2.10", "99") + 'unreached = "never called"\n'
    status, said, _ = check(advisories, tmp_path, capsys, PYPROJECT, listed)
    assert status == 0
    check_facts(said, "1", "1")


def test_an_advisory_of_a_package_that_nothing_needs_is_said(
    advisories: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = ADVISORY.replace('"torch"', '"torhc"')
    status, _, wrong = check(advisories, tmp_path, capsys, PYPROJECT, listed)
    assert status == 1
    check_facts(wrong, "torhc", "CVE-2026-24747", "pyproject.toml")


@pytest.mark.parametrize(
    ("listed", "said"),
    [
        (ADVISORY.replace("fixed =", "fixd ="), ("1", "CVE-2026-24747", "'fixed'")),
        (ADVISORY.replace("2.10", "soon"), ("1", "CVE-2026-24747", "'soon'")),
        (ADVISORY + 'why = "?"\n', ("1", "CVE-2026-24747", "'why'")),
        (ADVISORY + ADVISORY, ("CVE-2026-24747", "torch", "twice")),
    ],
)
def test_a_broken_list_is_refused(
    advisories: ModuleType, tmp_path: Path, listed: str, said: str | tuple[str, ...]
) -> None:
    (tmp_path / "list.toml").write_text(listed)
    with raises(ValueError, said):
        advisories.read_advisories(tmp_path / "list.toml")


def test_pip_audit_is_asked_where_it_is_installed_and_missed_where_it_is_not(
    advisories: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if importlib.util.find_spec("pip_audit") is None:
        assert advisories.audit_environment().startswith("pip-audit is not installed:")
    (tmp_path / "pip_audit.py").write_text("import sys\nprint('asked', *sys.argv[1:])\nsys.exit(1)\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert advisories.audit_environment().startswith("pip-audit ended with exit status 1:\nasked --local")
