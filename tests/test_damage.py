"""Short forms of what `make gates` measures: damaged files at every door, kills, and flipped bits."""

import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from scripts import run_python

CI = Path(__file__).parents[1] / "ci"
#: Looked for, not imported: the programs do that in processes of their own.
NEEDED = ("torch", "open_clip", "fastapi", "av", "h5py", "pyarrow")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not all(map(find_spec, NEEDED)), reason=f"needs {', '.join(NEEDED)}"),
]


def measure(program: str, *arguments: object, out: Path) -> dict[str, Any]:
    """Run a program of `ci/`, which fails where anything bad came of it, and return its record."""
    run_python(CI / program, *arguments, "--out", out, env={**os.environ, "OMP_NUM_THREADS": "1"})
    return dict(json.loads(out.read_text()))


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_damaged_files_are_one_line_or_the_same_content(tmp_path):
    # tests/test_attacks.py reads the attacks.
    record = measure("gates.py", "--no-attacks", "--inputs", 300, "--seed", 1, out=tmp_path / "gates.json")
    assert sum(record["outcomes"].values()) == 300
    assert len(record["doors"]) > 40


@pytest.mark.parametrize("name", ["report", "submit", "train"])  # runs and builds are killed by tests of their rooms
def test_what_was_killed_ends_in_the_same_bytes(name, tmp_path):
    job = measure("kills.py", "--kills", 1, "--seed", 1, "--jobs", name, out=tmp_path / "kills.json")["jobs"][name]
    assert (job["kills"], job["bad"]) == (1, [])


@pytest.mark.parametrize("name", ["store", "samples", "records"])
def test_a_flipped_bit_is_found_or_harmless(name, tmp_path):
    record = measure("flips.py", "--flips", 2, "--seed", 1, "--files", name, out=tmp_path / "flips.json")
    assert record["files"][name]["found"] + record["files"][name]["harmless"] == 2
