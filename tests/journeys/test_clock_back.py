"""Commands under a clock that goes back or stands still: no negative duration, no run lost, the same numbers."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from scripts import run_python

LIBRARY = next(iter(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")), None)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(LIBRARY is None, reason="no libfaketime here (Debian: apt-get install faketime)"),
]


def at(time: str, folder: Path, *words: object, status: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a command while the system's clock, and it alone, is another: `-i2.0` is a clock that jumps."""
    shown = {**os.environ, "LD_PRELOAD": str(LIBRARY), "FAKETIME": time, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    shown |= {"OMP_NUM_THREADS": "1", "TELLAPART_CACHE": str(folder / "cache"), "TZ": "UTC"}
    return run_python("-m", "tellapart", *words, status=status, cwd=folder, env=shown, timeout=300)


def seconds(value: object) -> list[float]:
    """Every duration in a record."""
    if isinstance(value, dict):
        own = [each for key, each in value.items() if key == "seconds"]
        return own + [found for each in value.values() for found in seconds(each)]
    return [found for each in value for found in seconds(each)] if isinstance(value, list) else []


#: Quiet: under this clock the thread that tells of progress waits busily, and a run takes four times as long.
RUN = ("run", "-m", "random", "-b", "demo", "--limit", 4, "--quiet")


def test_two_runs_at_the_same_moment_do_not_lose_one(tmp_path):
    """The name of a run's folder is a time: one that comes twice is refused, or the same run."""
    moment = "2026-01-02 03:04:05"  # stands still
    at(moment, tmp_path, *RUN)
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name == "2026-01-02_03-04-05.000"
    before = (folder / "results.json").read_bytes()
    other = at(moment, tmp_path, "run", "-m", "constant", "-b", "demo", "--limit", 4, "--quiet", status=2)
    assert (folder / "results.json").read_bytes() == before
    assert other.stderr.startswith("error: ") and other.stderr.count("\n") == 1, other.stderr


def test_a_run_that_goes_on_in_the_past_gives_the_same_numbers(tmp_path):
    at("@2026-03-01 12:00:00", tmp_path, *RUN, "--out", tmp_path / "run")
    whole = json.loads((tmp_path / "run" / "results.json").read_text())
    at("@1999-12-31 23:59:59", tmp_path, *RUN, "--out", tmp_path / "run")
    assert json.loads((tmp_path / "run" / "results.json").read_text())["benchmarks"] == whole["benchmarks"]
    at("@1999-12-31 23:59:59", tmp_path, *RUN, "--out", tmp_path / "anew")
    found = json.loads((tmp_path / "anew" / "results.json").read_text())
    metrics = {name: each["metrics"] for name, each in found["benchmarks"].items()}
    assert metrics == {name: each["metrics"] for name, each in whole["benchmarks"].items()}
    assert all(value >= 0 for value in seconds(found)) and seconds(found)


def test_a_build_whose_clock_goes_back_is_the_same_set(tmp_path):
    recipe = tmp_path / "few.toml"
    recipe.write_text('name = "few"\nbuilder = "scenes"\nseed = 3\n[options.items]\nattribute = 1\n')
    quiet = ("--quiet",)  # as above; the second, whose clock went back, tells
    for time, name, more in (("@2030-01-01 00:00:00", "one", quiet), ("@1999-01-01 00:00:00", "two", ())):
        done = at(time, tmp_path, "build", recipe, "--out", tmp_path / name, "--workers", 1, *more)
        assert "-" not in "".join(word for word in done.stderr.split() if word.startswith("[")), done.stderr
    for path in (path for path in (tmp_path / "one").rglob("*") if path.is_file()):
        assert (tmp_path / "two" / path.relative_to(tmp_path / "one")).read_bytes() == path.read_bytes(), path
