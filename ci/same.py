"""Run the same commands by an earlier commit and by the working tree, and show what differs.

    python ci/same.py [--base COMMIT] [--only JOURNEY]... [--keep DIR]

Each side is built and installed into an environment of its own, on the libraries of this one. Each journey of
`same.toml` then runs its commands in an empty folder, once by each side. Standard output and error, exit status and
every file that was written are compared byte for byte, but for times, paths and the version. SQLite files, zip archives
and pages are compared by their rows, members and text. A difference is printed as a diff; the exit status is 1 if there
is one, or if a command ended otherwise than its line asks.

A line that begins with `!` must be refused. `{inputs}` is the folder of `same_inputs.py`'s models and files, `{data}`
the folder of published annotation files; a journey that needs it is left out, with a line, where it is absent.
Differences that are meant are named in `docs/decisions/`, with their reasons.
"""

from __future__ import annotations

import argparse
import difflib
import fnmatch
import io
import json
import os
import re
import shlex
import sqlite3
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

ROOT = Path(__file__).parent.parent
DESCRIBED = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
DATA = ROOT.parent / "shared" / "data"

#: The last commit whose differences from the one before it were read: decision 29 has them.
BASE = "66b8b56b"

#: What people read of a page: texts, scripts with their numbers, and attributes that are read aloud or followed.
_TEXTS = re.compile(r"""(?s)<script.*?</script>|\b(?:alt|title|href|aria-label)=(?:"[^"]*"|'[^']*')|(?<=>)[^<]+""")


def install(source: str, environment: Path) -> Path:
    """Install a source into a new environment on this one's libraries; return the folder of its commands."""
    _call(sys.executable, "-m", "venv", "--without-pip", environment)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(environment), "platbase": str(environment)}))
    # A path that a .pth file names is searched, but its own .pth files are not read: the editable project stays out.
    (packages / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    pip = (sys.executable, "-m", "pip", "--python", environment / "bin" / "python", "install", "--quiet", "--no-deps")
    _call(*pip, "--no-build-isolation", "--ignore-installed", source)
    return environment / "bin"


def run_journey(programs: Path, lines: list[str], folder: Path, places: Mapping[str, str]) -> list[str]:
    """Run a journey's commands in a folder; return what ended otherwise than its line asks."""
    folder.mkdir(parents=True)
    (folder / ".home").mkdir()
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("TELLAPART", "PYTHON"))},
        "PATH": f"{programs}:{os.environ['PATH']}",
        "HOME": str(folder / ".home"),
        "TELLAPART_CACHE": str(folder / ".cache"),
        **DESCRIBED["environment"],
    }
    wrong = []
    for number, line in enumerate(lines):
        refused = line.startswith("!")
        command = line.removeprefix("!").strip()
        for named, place in places.items():
            command = command.replace(f"{{{named}}}", place)
        is_python = line.startswith("python:")
        name, *more = ["python", "-c", command.removeprefix("python:").strip()] if is_python else shlex.split(command)
        program = programs / name
        arguments = [str(program) if program.exists() else name, *more]
        done = subprocess.run(
            arguments, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=900
        )
        text = f"$ {line}\n{done.stdout}\n--- standard error\n{done.stderr}\n--- status {done.returncode}\n"
        (folder / f"{number:02}.transcript").write_text(text, encoding="utf-8")
        if (done.returncode != 0) != refused or "Traceback" in done.stderr:
            wrong.append(f"{programs}: {line}: status {done.returncode}\n{done.stderr[-2000:]}")
    return wrong


def differences(base: Path, new: Path, places: Mapping[str, str]) -> Iterator[str]:
    """Yield a diff for each file that only one side wrote, or that differs."""
    files = [{str(path.relative_to(side)) for path in side.rglob("*") if path.is_file()} for side in (base, new)]
    for name in sorted(files[0] | files[1]):
        if name.startswith((".cache", ".home")) or any(fnmatch.fnmatch(name, each) for each in DESCRIBED["ignored"]):
            continue
        if name not in files[0] or name not in files[1]:
            yield f"only in {'the working tree' if name not in files[0] else 'the base'}: {name}\n"
            continue
        before, after = (lines_of(side / name, side, places) for side in (base, new))
        if before != after:
            lines = difflib.unified_diff(before, after, f"base/{name}", f"new/{name}", "", "", 1, "")
            yield "".join(f"{line}\n" for line in lines)


def lines_of(path: Path, folder: Path, places: Mapping[str, str]) -> list[str]:
    """Return a file's content as lines, without what varies between two runs of one version."""
    data = path.read_bytes()
    if data[:16] == b"SQLite format 3\0":
        with closing(sqlite3.connect(path)) as connection:
            lines = list(connection.iterdump())
    elif zipfile.is_zipfile(io.BytesIO(data)) and path.suffix != ".npz":
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            lines = [f"{name} {archive.read(name).hex()}" for name in sorted(archive.namelist())]
    else:
        try:
            text = data.decode()
        except UnicodeDecodeError:
            rows = (data[k : k + 32].hex() for k in range(0, min(len(data), 1 << 16), 32))
            return [f"{len(data)} bytes", *rows, str(hash(data))]
        lines = text.splitlines()
        if path.suffix == ".html":
            parts = _TEXTS.findall(re.sub(r"(?s)<style.*?</style>", "", text))
            lines = [" ".join(part.split()) for part in parts if part.strip()]
    steady = [_steady(line, folder, places) for line in lines]
    return [line for line in steady if not line.startswith("[CLOCK]")]  # progress, whose lines come with the clock


def _steady(line: str, folder: Path, places: Mapping[str, str]) -> str:
    line = line.replace(str(folder), "FOLDER")
    for name, place in places.items():
        line = line.replace(place, name.upper())
    for pattern, word in DESCRIBED["varying"]:
        line = re.sub(pattern, word, line)
    return line


def _call(*line: str | Path) -> None:
    done = subprocess.run([str(part) for part in line], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(
            f"{' '.join(map(str, line))}: status {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
        )


def main() -> int:
    """Install both sides, run every journey by both, print what differs; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--base", default=BASE, metavar="COMMIT")
    parser.add_argument("--only", action="append", default=[], metavar="JOURNEY")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="a new folder for all that is written")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    journeys: dict[str, list[str]] = DESCRIBED["journeys"]
    if missing := set(options.only) - set(journeys):
        raise SystemExit(f"no journey {', '.join(sorted(missing))}; they are {', '.join(journeys)}")
    chosen = [name for name in journeys if not options.only or name in options.only]
    with tempfile.TemporaryDirectory() as scratch:
        folder = (options.keep or Path(scratch)).absolute()
        places = {
            "inputs": str(folder / "inputs"),
            "recipes": str(ROOT / "docs" / "recipes"),
            **({"data": str(DATA)} if DATA.is_dir() else {}),
        }
        _call(sys.executable, Path(__file__).with_name("same_inputs.py"), places["inputs"])
        sources = {"base": f"git+file://{ROOT.resolve()}@{options.base}", "new": str(ROOT)}
        sides = {name: install(source, folder / name / "environment") for name, source in sources.items()}
        left_out = [name for name in chosen if "data" not in places and "{data}" in str(journeys[name])]
        for name in left_out:
            print(f"{name}: left out, {DATA} is not there")

        def try_journey(name: str) -> tuple[str, list[str]]:
            work = {side: folder / "work" / side / name for side in sides}
            wrong = [run_journey(sides[side], journeys[name], place, places) for side, place in work.items()]
            return name, [*wrong[0], *wrong[1], *differences(*work.values(), places)]

        with ThreadPoolExecutor(options.jobs) as pool:
            found = dict(pool.map(try_journey, [name for name in chosen if name not in left_out]))
    for name, parts in found.items():
        print(f"{name}: {len(journeys[name])} commands, {'the same' if not parts else f'{len(parts)} differences'}")
        sys.stdout.writelines(parts)
    commands, differ = sum(len(journeys[name]) for name in found), sum(map(len, found.values()))
    print(json.dumps({"base": options.base, "commands": commands, "differ": differ}))
    return int(any(found.values()))


if __name__ == "__main__":
    sys.exit(main())
