"""The bench of the losses' costs at a tiny size."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tellapart.catalog import LOSSES

if find_spec("torch") is None:
    pytest.skip("the models extra is not installed", allow_module_level=True)

BENCH = Path(__file__).parents[2] / "bench" / "losses.py"


@pytest.mark.slow
def test_a_step_with_every_loss_is_measured(tmp_path: Path) -> None:
    out = tmp_path / "losses.json"
    batch = ["--batches", "4", "--rounds", "1", "--warm-up", "0"]
    encoders = ["--width", "64", "--depth", "2", "--pixels", "32", "--negatives", "2"]
    subprocess.run(
        [sys.executable, str(BENCH), *batch, *encoders, "--out", str(out)],
        check=True,
        capture_output=True,
        timeout=300,
    )
    rows = {row["loss"]: row for row in json.loads(out.read_text())["rows"]}
    assert set(rows) >= set(LOSSES)
    assert rows["clic"]["against"] == rows["fsc-clip"]["against"] == "itc"
    assert rows["clic"]["forward_and_backward"][0] > 0
