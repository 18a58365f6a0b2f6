"""Install the package with some extras into an environment, by uv where it can be had and by pip elsewhere.

    python3 ci/environment.py install .venv board    # `make demo`
    python3 ci/environment.py lock                   # `make lock`: the newest versions that fit together
    python3 ci/environment.py lock --keep            # no version moves; new packages of pyproject.toml come in

Both take the versions of ci/lock.txt. This file needs the standard library alone: it runs before anything is
installed.
"""

import argparse
import ast
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "ci" / "lock.txt"
PINS = ROOT / "ci" / "pins.txt"
TOOLS = ROOT / "ci" / "tools.txt"

#: pip's setting -> uv's variable, and the separator of its values.
_SETTINGS = {
    "index-url": ("UV_DEFAULT_INDEX", " "),
    "extra-index-url": ("UV_INDEX", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "no-index": ("UV_NO_INDEX", " "),
    "trusted-host": ("UV_INSECURE_HOST", " "),
    "cert": ("SSL_CERT_FILE", " "),
    "proxy": ("ALL_PROXY", " "),
}
_PIP_CONFIG = re.compile(r"^(global|install|:env:)\.([\w-]+)=(.+)$", re.MULTILINE)

#: Each build of torch pins the CUDA libraries that it needs; a lock of one build's would refuse the others.
_WITH_TORCH = re.compile(r"(nvidia-|cuda-|triton\b)")

_HEADER = """\
# Written by `make lock`; pip and uv read it as constraints. It has every package of every extra, for all systems and
# Pythons, without the CUDA libraries: the build of torch that is installed pins those. `make lock` does not move the
# versions in ci/pins.txt.
"""

_TOOLS_HEADER = """\
# Written by `make lock`: the tools of ci/tools.in and all that they need, with hashes, for
# `pip install --require-hashes --requirement ci/tools.txt`.
"""


def create(home: Path) -> Path:
    """Create an environment without pip (that takes seconds) unless it is there; return its Python."""
    python = home / "bin" / "python"
    if not python.exists():
        venv.EnvBuilder(symlinks=True, with_pip=False).create(home)
    return python


def pip_of(python: Path) -> list[str] | None:
    """Return the command of a pip that installs for `python`: the environment's, the user's, or a new one, or None."""
    inside = [str(python), "-m", "pip", "--disable-pip-version-check"]
    if any(python.parents[1].glob("lib/python*/site-packages/pip/__main__.py")):
        return inside
    version = next((found.version for found in importlib.metadata.distributions(name="pip")), "0")
    if tuple(map(int, re.findall(r"\d+", version)[:2])) >= (22, 3):  # the first with `--python`
        return [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
    return inside if _runs([str(python), "-m", "ensurepip"]) else None


def find_uv(python: Path) -> str | None:
    """Return the path of uv: on the PATH, beside `python`, or installed there by pip; None where that fails."""
    beside = python.with_name("uv")
    if path := shutil.which("uv"):
        return path
    if not beside.exists() and (pip := pip_of(python)):
        _runs([*pip, "install", "-qq", "--constraint", str(LOCK), "uv"])
    return str(beside) if beside.exists() else None


def uv_settings(configured: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that let uv find packages where pip does (`pip config list`); those of `environment` win.

    >>> uv_settings("global.index-url='https://mirror/simple'", {})
    {'UV_DEFAULT_INDEX': 'https://mirror/simple', 'UV_INDEX_STRATEGY': 'unsafe-best-match'}
    """
    rank = {"global": 0, "install": 1, ":env:": 2}
    lines = sorted(_PIP_CONFIG.findall(configured), key=lambda line: rank[line[0]])
    values = {name.lower().replace("_", "-"): str(ast.literal_eval(value)).split() for _, name, value in lines}
    settings = {variable: comma.join(values[name]) for name, (variable, comma) in _SETTINGS.items() if values.get(name)}
    if settings.get("UV_NO_INDEX", "").lower() in {"0", "false", "no", "off"}:
        del settings["UV_NO_INDEX"]
    # pip takes the best version of all its indexes, uv by default those of the first index that knows the name.
    settings["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    named = {"index-url", "extra-index-url", "find-links"} & values.keys()
    if not named and not {"UV_DEFAULT_INDEX", "UV_INDEX", "UV_FIND_LINKS", "UV_NO_INDEX"} & environment.keys():
        # The torch of the public index brings gigabytes of CUDA. `auto` takes the build for this machine's driver,
        # the CPU's if it has none; a mirror or a folder of wheels decides for itself.
        settings["UV_TORCH_BACKEND"] = "auto"
    return {name: value for name, value in settings.items() if name not in environment}


def install(home: Path, extras: str) -> None:
    """Install this checkout, editable, with `extras` (names between commas) at the locked versions."""
    python = create(home)
    # pip comes along, or a `pip install` in the activated environment would be another Python's.
    wanted = ["--quiet", "--constraint", str(LOCK), "pip", "--editable", f".[{extras}]"]
    if uv := find_uv(python):
        sys.stderr.write(f"installing into {home.name} by uv\n")
        if _runs([uv, "pip", "install", "--python", str(python), *wanted], uv_environment()):
            return
    pip = pip_of(python)
    if pip is None:
        raise SystemExit("there is neither uv nor pip nor ensurepip; install uv, or your system's python3-venv")
    failed = "failed" if uv else "cannot be installed"
    sys.stderr.write(f"uv {failed}; pip installs the same versions into {home.name}, more slowly\n")
    if not _runs([*pip, "install", *wanted]):
        raise SystemExit(1)


def lock(keep: bool) -> None:
    """Write ci/lock.txt, the newest versions that fit or those that it has, and ci/tools.txt with hashes."""
    uv = find_uv(Path(sys.executable))
    if uv is None:
        raise SystemExit("`make lock` needs uv, and it could not be installed")
    with tempfile.TemporaryDirectory() as scratch:
        versions, tools = (Path(scratch) / path.name for path in (LOCK, TOOLS))
        if keep:
            shutil.copy(LOCK, versions)
            shutil.copy(TOOLS, tools)
        _compile(uv, versions, "pyproject.toml", "--all-extras", "--constraint", str(PINS))
        LOCK.write_text(lock_of(versions.read_text(encoding="utf-8")), encoding="utf-8")
        _compile(uv, tools, "ci/tools.in", "--generate-hashes", "--constraint", str(LOCK))
        TOOLS.write_text(_TOOLS_HEADER + tools.read_text(encoding="utf-8"), encoding="utf-8")


def _compile(uv: str, out: Path, *wanted: str) -> None:
    line = [uv, "pip", "compile", "--quiet", "--universal", "--no-header", "--python-version", "3.11", "--no-annotate"]
    # Wheels that this machine alone has must not decide, or the lock would be another elsewhere.
    machines = {"UV_FIND_LINKS", "UV_TORCH_BACKEND"}
    settings = {name: value for name, value in uv_environment().items() if name not in machines}
    if not _runs([*line, "--output-file", str(out), *wanted], settings):
        raise SystemExit(f"uv found no versions that fit together; {LOCK.parent.name}/{out.name} is as it was")


def lock_of(compiled: str) -> str:
    """Return the lock from what `uv pip compile` wrote.

    >>> print(lock_of("numpy==2.4.6\\nnvidia-nvtx==13.0\\ntorch==2.13.0+cpu\\n").removeprefix(_HEADER), end="")
    numpy==2.4.6
    torch==2.13.0
    """
    lines = [line for line in compiled.splitlines() if line and not _WITH_TORCH.match(line)]
    return _HEADER + "".join(re.sub(r"(==[^\s+]+)\+\S+", r"\1", line) + "\n" for line in lines)


def uv_environment() -> dict[str, str]:
    """Return this process's variables and those of `uv_settings`."""
    line = [sys.executable, "-m", "pip", "config", "list"]
    configured = subprocess.run(line, capture_output=True, text=True, check=False).stdout  # noqa: S603
    return {**os.environ, **uv_settings(configured, os.environ)}


def _runs(line: Sequence[str], environment: Mapping[str, str] | None = None) -> bool:
    """Run a command in the repository's root; return whether it succeeded."""
    return subprocess.run(line, cwd=ROOT, env=environment, check=False).returncode == 0  # noqa: S603


def main() -> None:
    """Read the command line, and install or lock."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    installing = commands.add_parser("install")
    installing.add_argument("home", type=Path, help="the environment's folder")
    installing.add_argument("extras", help="names between commas")
    locking = commands.add_parser("lock")
    locking.add_argument("--keep", action="store_true", help="move no version that still fits")
    options = parser.parse_args()
    if sys.version_info < (3, 11):  # noqa: UP036  (nothing has looked at the Python yet)
        raise SystemExit(f"Python 3.11 or newer is needed, this is {sys.version.split()[0]}; try PYTHON=python3.12")
    if options.command == "install":
        install(options.home.absolute(), options.extras)
    else:
        lock(options.keep)


if __name__ == "__main__":
    main()
