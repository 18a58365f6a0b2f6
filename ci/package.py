"""Build a wheel and an sdist, check them, and run both in environments of their own.

    python ci/package.py [--tag vX.Y.Z] [--address https://github.com/NAME/REPOSITORY] [--out DIR]

Checked are the metadata, the version, the repository's address, what the archives hold, and that an installation
measures the demo. `--address` first writes an address wherever it is named.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

#: What an archive must not hold: caches, runs, and what only a checkout needs.
_STRANGE = re.compile(r"(^|/)(__pycache__|\.[^/]+|runs|scratch|tests|bench|docs|examples)(/|$)|\.(pyc|sqlite)$")
_EXPECTED = {".gitignore"}  # hatchling puts it there, so that a build out of the sdist leaves out the same files
_MOST = 20_000_000

_NAMING: list[str] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))["naming"]
#: What names the repository's address; the first decides it.
NAMING = (*_NAMING, *(f"examples/notebooks/{path.name}" for path in sorted((ROOT / "examples/notebooks").glob("*.py"))))


def strange_names(names: Iterable[str]) -> list[str]:
    """Return the names in an archive, below its top folder, that do not belong into a distribution."""
    inside = (name.partition("/")[2] for name in names)
    return [name for name in inside if name not in _EXPECTED and _STRANGE.search(name)]


def version_mismatches(version: str, tag: str | None, citation: str, changelog: str) -> list[str]:
    """Return a line for everything that names another version than the package."""
    number = re.escape(version)
    lines = {
        f"the tag is {tag}, and the package is {version}": tag in (None, f"v{version}"),
        f"CITATION.cff does not say `version: {version}`": re.search(rf"(?m)^version: {number}$", citation),
        f"CHANGELOG.md has no section `## {version}`": re.search(rf"(?m)^## {number}\b", changelog),
    }
    return [line for line, fits in lines.items() if not fits]


def address_of(project: str) -> str:
    """Return the repository's address in the text of pyproject.toml.

    >>> address_of('Repository = "https://github.com/OWNER/tellapart"')
    'https://github.com/OWNER/tellapart'
    """
    found = re.search(r'^Repository = "(https://github\.com/[\w.-]+/[\w.-]+)"$', project, re.MULTILINE)
    if found is None:
        raise SystemExit('pyproject.toml: [project.urls] has no line Repository = "https://github.com/NAME/REPOSITORY"')
    return found[1]


def address_mismatches(texts: Mapping[str, str]) -> list[str]:
    """Return a line for every file that does not name the repository of pyproject.toml, or names another."""
    address = address_of(texts["pyproject.toml"])
    slug = address.removeprefix("https://github.com/")
    lines = []
    for name, text in texts.items():
        others = {*re.findall(r"(?:github\.com/|uses: )([\w-]+/tellapart)\b", text)} - {slug}
        lines += [f"{name} names the repository {other}, and pyproject.toml {slug}" for other in sorted(others)]
        if slug not in text:
            lines.append(f"{name} does not name the repository {slug}")
    return lines


def fill_address(root: Path, address: str) -> None:
    """Write an address of a repository on GitHub in place of the one in pyproject.toml, in every file of `NAMING`."""
    project = address_of(f'Repository = "{address}"')
    before = address_of((root / NAMING[0]).read_text(encoding="utf-8"))
    old, new = (text.removeprefix("https://github.com/").split("/") for text in (before, project))
    for name in NAMING:
        text = (root / name).read_text(encoding="utf-8").replace("/".join(old), "/".join(new))
        text = text.replace(f"{old[0]}.github.io/{old[1]}", f"{new[0]}.github.io/{new[1]}")
        text = re.sub(r"(; | +# )put the repository's account in place of OWNER", "", text)
        (root / name).write_text(text, encoding="utf-8")


def build(out: Path) -> tuple[Path, Path]:
    """Build both archives and check their metadata; return the wheel and the sdist."""
    # By the build system that is installed here, of which ci/tools.txt has the hash; an isolated build takes any.
    line = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    subprocess.run(line, check=True, stdout=sys.stderr)  # noqa: S603
    (wheel,), (sdist,) = out.glob("*.whl"), out.glob("*.tar.gz")
    check = [sys.executable, "-m", "twine", "check", "--strict", str(wheel), str(sdist)]
    subprocess.run(check, check=True, stdout=sys.stderr)  # noqa: S603
    return wheel, sdist


def expect_clean(wheel: Path, sdist: Path) -> None:
    """Check what the archives hold: nothing that does not belong there, all that is needed, and not too much."""
    with zipfile.ZipFile(wheel) as zipped, tarfile.open(sdist) as tarred:
        names = {wheel: zipped.namelist(), sdist: tarred.getnames()}
    for path, inside in names.items():
        if strange := strange_names(inside):
            raise SystemExit(f"{path.name} holds what does not belong there: {', '.join(strange[:10])}")
        if path.stat().st_size > _MOST:
            raise SystemExit(f"{path.name} has {path.stat().st_size:,} bytes, more than {_MOST:,}")
    packages = ("tellapart", "tellapart_native", "tellapart_render")
    for needed in ("tellapart/models/demo_encoder/image.onnx", *(f"{package}/py.typed" for package in packages)):
        if needed not in names[wheel]:
            raise SystemExit(f"{wheel.name} lacks {needed}")


def try_installed(archive: Path) -> None:
    """Install an archive in a fresh environment, and run it from a folder that knows nothing of this checkout."""
    with tempfile.TemporaryDirectory(prefix="package-") as scratch:
        home = Path(scratch)
        venv.create(home / "venv", with_pip=True)
        python = home / "venv" / "bin" / "python"
        environment = os.environ | {"TELLAPART_CACHE": str(home / "cache"), "HF_HUB_OFFLINE": "1", "NO_COLOR": "1"}
        for name in ("PYTHONPATH", "PYTHONHOME", "TELLAPART_DATA"):
            environment.pop(name, None)

        def run(*arguments: str) -> str:
            line = [str(python), *arguments]
            done = subprocess.run(line, cwd=home, env=environment, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603
            return done.stdout

        run("-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(archive))
        if str(home) not in (where := run("-c", "import tellapart; print(tellapart.__file__)")):
            raise SystemExit(f"{archive.name} was installed, and {where.strip()} is imported in its place")
        version = run("-m", "tellapart", "--version").split()[-1]
        if f"-{version}" not in archive.name:
            raise SystemExit(f"{archive.name} says that its version is {version}")
        run("-m", "tellapart", "--help")
        if "albef:FILE" not in run("-m", "tellapart", "ls", "models"):
            raise SystemExit(f"{archive.name}: `tellapart ls models` lacks the prefixes of tellapart_native")
        if '"scenes"' not in run("-m", "tellapart", "ls", "builders", "--json"):
            raise SystemExit(f"{archive.name}: `tellapart ls builders` lacks the builder of tellapart_render")
        record = json.loads(run("-m", "tellapart", "run", "-m", "oracle", "-b", "demo", "--out", "run", "--json"))
        value = record["runs"][0]["benchmarks"]["demo"]["metrics"]["group_score"]["value"]
        if value != 1 or not (home / "run" / "report.html").is_file():
            raise SystemExit(f"{archive.name}: the model that knows the truth gets {value} on the demo; it must get 1")
        sys.stderr.write(f"{archive.name}: installed, {version}, the demo is measured\n")


def main() -> None:
    """Do all of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tag", help="the tag that is to be released")
    parser.add_argument("--out", type=Path, help="keep the two files there")
    parser.add_argument("--address", help="of the repository on GitHub; write it where it is named, first")
    options = parser.parse_args()
    if options.address:
        fill_address(ROOT, options.address)
    version = re.search(r'^__version__ = "(.+)"$', (ROOT / "src/tellapart/__init__.py").read_text(), re.MULTILINE)
    assert version is not None  # noqa: S101
    files = ((ROOT / name).read_text(encoding="utf-8") for name in ("CITATION.cff", "CHANGELOG.md"))
    named = {name: (ROOT / name).read_text(encoding="utf-8") for name in NAMING}
    if lines := [*version_mismatches(version[1], options.tag, *files), *address_mismatches(named)]:
        raise SystemExit("; ".join(lines))
    with tempfile.TemporaryDirectory(prefix="dist-") as scratch:
        out = options.out or Path(scratch)
        wheel, sdist = build(out)
        expect_clean(wheel, sdist)
        for archive in (wheel, sdist):
            try_installed(archive)


if __name__ == "__main__":
    main()
