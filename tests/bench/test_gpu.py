"""The GPU's bench in its CPU form: its structure and its correctness part; no GPU's speed is tested anywhere."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

if any(find_spec(package) is None for package in ("torch", "transformers", "open_clip")):
    pytest.skip("the models extra is not installed", allow_module_level=True)

BENCH = Path(__file__).parents[2] / "bench" / "gpu.py"


@pytest.mark.slow
def test_every_part_runs_on_a_cpu_and_float32_there_moves_nothing(tmp_path: Path) -> None:
    out = tmp_path / "gpu.json"
    command = [sys.executable, str(BENCH), "--device", "cpu", "--tiny", "--out", str(out)]
    subprocess.run(command, check=True, capture_output=True, timeout=550)
    record = json.loads(out.read_text())
    assert record["left_out"] == {}
    assert list(record["parts"]) == ["decoding", "tiny", "blip-itm", "writer-tiny", "onnx"]
    for name in ("tiny", "blip-itm"):
        part = record["parts"][name]
        same, rounded = part["float32_against_cpu"], part["bfloat16_against_cpu"]
        assert (same["largest_difference"], same["flips"], same["items"]) == (0.0, 0, 4)
        assert 0 < rounded["largest_difference"] < 0.1
    tiny = record["parts"]["tiny"]
    assert tiny["prepared"] > 0 and 0 < tiny["float16_against_cpu"]["largest_difference"] < 0.1
    assert tiny["texts"]["shared"] and all(tiny["texts"][key] > 0 for key in ("from_texts", "apart", "bare"))
    assert record["parts"]["writer-tiny"]["cost_of_four_over_one"] > 0
    assert record["seconds"] < 480
