"""The bench of a large set and a large gallery runs, on small ones."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench" / "large.py"


@pytest.mark.slow
def test_a_run_and_a_gallery_are_measured(tmp_path: Path) -> None:
    record = tmp_path / "large.json"
    subprocess.run(
        [sys.executable, str(BENCH), "--items", "20", "--images", "40", "--record", str(record)],
        check=True,
        capture_output=True,
    )
    found = json.loads(record.read_text())
    assert (found["run"]["items"], found["gallery"]["captions"]) == (20, 200)
    assert found["gallery"]["mean_recall"] == 1.0  # a caption is nearest to its own picture, whatever else there is
    assert 50 < found["run"]["mb"] < 2_000
    assert found["gallery"]["rank_seconds"] < found["gallery"]["seconds"]
