"""The environment of `make demo` and `make test`: uv or pip, the lock, and the floors of advisories."""

import os
import re
import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path
from typing import Any

import environment
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from facts import raises

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LOCK = (ROOT / "ci" / "lock.txt").read_text(encoding="utf-8")

#: Stands for uv, pip and Python: it notes its arguments, and fails if the test says so.
FAKE = """#!{python}
import os, pathlib, sys
line = " ".join(sys.argv)
pathlib.Path({log!r}).open("a").write(line + "\\n")
if "pip --disable" in line and line.endswith(" uv") and {wheel}:
    pathlib.Path({beside!r}).symlink_to(sys.argv[0])
sys.exit(int({fails}))
"""


def locked() -> list[Requirement]:
    return [Requirement(line) for line in LOCK.splitlines() if not line.startswith("#")]


def test_the_lock_holds_one_version_of_everything_that_an_extra_needs():
    versions = {canonicalize_name(line.name): str(line.specifier).removeprefix("==") for line in locked()}
    extras = PROJECT["optional-dependencies"]
    needed = [Requirement(line) for lines in (PROJECT["dependencies"], *extras.values()) for line in lines]
    others = [(need, versions.get(canonicalize_name(need.name), "0")) for need in needed if need.name != "tellapart"]
    outside = [str(need) for need, version in others if not need.specifier.contains(version)]
    assert outside == [], "run `python3 ci/environment.py lock --keep`"


def test_the_lock_has_the_pins_and_is_of_no_machine():
    pins = re.findall(r"^([\w-]+)==(\S+)$", (ROOT / "ci" / "pins.txt").read_text(encoding="utf-8"), re.MULTILINE)
    assert pins
    versions = {canonicalize_name(line.name): str(line.specifier) for line in locked()}
    assert [version for name, version in pins if versions[canonicalize_name(name)] != f"=={version}"] == []
    assert [line for line in LOCK.splitlines() if re.search(r"://| @ |^-|\+|^\.|^(nvidia|cuda)-", line)] == []
    assert all(re.fullmatch(r"==[\w.]+", str(line.specifier)) for line in locked())


def test_a_local_build_and_its_libraries_do_not_enter_the_lock():
    compiled = "torch==2.13.0+cpu ; sys_platform == 'linux'\nnvidia-nvtx==13.0.85\ntriton==3.7.1\ntritonclient==1.0\n"
    lines = [line for line in environment.lock_of(compiled).splitlines() if not line.startswith("#")]
    assert lines == ["torch==2.13.0 ; sys_platform == 'linux'", "tritonclient==1.0"]


def test_uv_looks_where_pip_looks():
    configured = (
        "global.index-url='https://far/simple'\n"
        "install.index-url='https://mirror/simple'\n"
        "global.extra_index_url='https://a/simple\\nhttps://b/simple'\n"
        ":env:.find-links='/wheels /more'\n"
        "global.cert='/ca.pem'\n"
        "global.timeout='9'\n"
    )
    expected = {"UV_DEFAULT_INDEX": "https://mirror/simple", "UV_INDEX": "https://a/simple https://b/simple"}
    expected |= {"UV_FIND_LINKS": "/wheels,/more", "SSL_CERT_FILE": "/ca.pem", "UV_INDEX_STRATEGY": "unsafe-best-match"}
    assert environment.uv_settings(configured, {}) == expected
    # Its own variables win over pip's settings.
    del expected["UV_DEFAULT_INDEX"]
    assert environment.uv_settings(configured, {"UV_DEFAULT_INDEX": "mine"}) == expected


@pytest.mark.parametrize(
    ("configured", "variables", "backend"),
    [
        ("", {}, "auto"), ("global.timeout='9'\nglobal.no-index='false'\n", {}, "auto"),
        ("global.index-url='https://mirror/simple'\n", {}, None), (":env:.find-links='/wheels'\n", {}, None),
        ("", {"UV_FIND_LINKS": "/wheels"}, None), ("", {"UV_TORCH_BACKEND": "cpu"}, None),
    ],
)  # fmt: skip
def test_the_kind_of_torch_is_chosen_only_where_nobody_named_an_index(configured, variables, backend):
    assert environment.uv_settings(configured, variables).get("UV_TORCH_BACKEND") == backend


class Machine:
    """A machine whose uv and pip are stand-ins that note what they are asked."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.home, self.programs, self.log = folder / "env", folder / "programs", folder / "log"
        self.programs.mkdir()
        (self.home / "bin").mkdir(parents=True)
        self.patch = patch
        patch.setenv("PATH", str(self.programs))

    def put(self, name: str, fails: str = "False", wheel: bool = False) -> Path:
        where = self.home / "bin" / name if name == "python" else self.programs / name
        beside = str(self.home / "bin" / "uv")
        where.write_text(FAKE.format(python=sys.executable, log=str(self.log), beside=beside, fails=fails, wheel=wheel))
        where.chmod(0o755)
        return where

    def with_pip(self, fails: str = "False", wheel: bool = False) -> None:
        python = self.put("python", fails, wheel)
        package = self.home / "lib" / "python3.11" / "site-packages" / "pip"
        package.mkdir(parents=True)
        (package / "__main__.py").touch()
        assert environment.pip_of(python) == [str(python), "-m", "pip", "--disable-pip-version-check"]

    def lines(self) -> list[str]:
        text = self.log.read_text() if self.log.exists() else ""
        return [re.sub(r"\S*/(env|programs)/(bin/)?", "", line) for line in text.splitlines()]


@pytest.fixture
def machine(tmp_path, monkeypatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def installs(lines: list[str]) -> list[str]:
    return [line.split()[0] for line in lines if "--editable .[board]" in line]


@pytest.mark.parametrize(
    ("uv_fails", "pip_fails", "used", "said"),
    [
        ("False", "False", ["uv"], "by uv"),
        (None, "line.endswith(' uv')", ["python"], "uv cannot be installed"),
        ("True", "False", ["uv", "python"], "uv failed"),
    ],
)
def test_uv_installs_and_where_it_cannot_pip_goes_on_and_says_so(machine, capsys, uv_fails, pip_fails, used, said):
    if uv_fails:
        machine.put("uv", fails=uv_fails)
    machine.with_pip(fails=pip_fails)
    environment.install(machine.home, "board")
    assert installs(machine.lines()) == used
    assert said in capsys.readouterr().err.splitlines()[-1]


def test_without_uv_pip_puts_it_into_the_environment_once(machine):
    machine.with_pip(wheel=True)
    environment.install(machine.home, "board")
    environment.install(machine.home, "board")
    assert installs(machine.lines()) == ["uv", "uv"]
    assert len([line for line in machine.lines() if line.endswith(" uv")]) == 1
    assert all(f"--constraint {ROOT / 'ci' / 'lock.txt'}" in line for line in machine.lines())


def test_where_pip_fails_too_there_is_an_error(machine):
    machine.put("uv", fails="True")
    machine.with_pip(fails="True")
    with raises(SystemExit, "1"):
        environment.install(machine.home, "board")


def test_an_environment_is_made_without_pip_and_kept(tmp_path):
    python = environment.create(tmp_path / "env")
    subprocess.run([python, "-c", "import sys; assert sys.prefix != sys.base_prefix"], check=True)
    (tmp_path / "env" / "mine").touch()
    assert environment.create(tmp_path / "env") == python
    assert (tmp_path / "env" / "mine").exists()
    assert not list((tmp_path / "env").glob("lib/*/site-packages/pip"))


def test_the_readme_the_page_on_installing_and_contributing_name_the_same_commands():
    readme, install, contributing = (
        (ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/install.md", "CONTRIBUTING.md")
    )
    line = 'uvx --from "tellapart @ git+'
    assert line in readme and line in install
    assert "make demo" in readme and "make test" in readme
    assert "make lock" in contributing and "ci/lock.txt" in contributing
    assert "make --no-print-directory test" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


LISTED = tomllib.loads((ROOT / "ci" / "advisories.toml").read_text(encoding="utf-8"))["advisory"]


def read_floors(project: dict[str, Any]) -> dict[str, Version]:
    """The lowest version that each dependency may have, of all extras: any of them can be installed alone."""
    lowest: dict[str, Version] = {}
    for need in map(Requirement, chain(project["dependencies"], *project["optional-dependencies"].values())):
        bounds = [Version(bound.version) for bound in need.specifier if bound.operator in {">=", "==", "~=", ">"}]
        name, floor = canonicalize_name(need.name), max(bounds, default=Version("0"))
        lowest[name] = min(floor, lowest.get(name, floor))
    return lowest


@pytest.mark.parametrize("advisory", LISTED, ids=lambda advisory: f"{advisory['package']}-{advisory['id']}")
def test_a_floor_is_at_or_above_the_fix_of_an_advisory(advisory):
    """An advisory that says why it is not reached binds no floor."""
    assert advisory.keys() - {"unreached"} == {"package", "id", "fixed", "source"}
    floor = read_floors(PROJECT)[canonicalize_name(advisory["package"])]
    least = f"{advisory['package']}>={advisory['fixed']}"
    assert "unreached" in advisory or floor >= Version(advisory["fixed"]), f"write {least} into pyproject.toml"


def test_no_advisory_stands_twice_and_the_lowest_floor_of_all_extras_counts():
    names = [(canonicalize_name(advisory["package"]), advisory["id"]) for advisory in LISTED]
    assert len(set(names)) == len(names)
    old = "torch.thing>=2.4; python_version >= '3.11'"
    extras = {"models": ["Torch_Thing[x]>=2.10,<3"], "old": [old], "any": ["b"]}
    floors = read_floors({"dependencies": ["a~=1.2", "b>=1"], "optional-dependencies": extras})
    assert {name: str(floor) for name, floor in floors.items()} == {"a": "1.2", "b": "0", "torch-thing": "2.4"}
