"""Benches at a tiny size: a GPU in its CPU form, a large set and gallery, and the costs of losses."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from scripts import run_python
from tellapart.catalog import LOSSES

if any(find_spec(package) is None for package in ("torch", "transformers", "open_clip")):
    pytest.skip("the models extra is not installed", allow_module_level=True)


BENCH = Path(__file__).parents[2] / "bench"


@pytest.mark.slow
def test_every_part_runs_on_a_cpu_and_float32_there_moves_nothing(tmp_path):
    out = tmp_path / "gpu.json"
    run_python(BENCH / "gpu.py", "--device", "cpu", "--tiny", "--out", out, timeout=550)
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


@pytest.mark.slow
def test_a_run_and_a_gallery_are_measured(tmp_path):
    record = tmp_path / "large.json"
    run_python(BENCH / "large.py", "--items", 20, "--images", 40, "--record", record)
    found = json.loads(record.read_text())
    assert (found["run"]["items"], found["gallery"]["captions"]) == (20, 200)
    assert found["gallery"]["mean_recall"] == 1.0  # a caption is nearest to its own picture, whatever else there is
    assert 50 < found["run"]["mb"] < 2_000
    assert found["gallery"]["rank_seconds"] < found["gallery"]["seconds"]


@pytest.mark.slow
def test_a_step_with_every_loss_is_measured(tmp_path):
    out = tmp_path / "losses.json"
    batch = ["--batches", "4", "--rounds", "1", "--warm-up", "0"]
    encoders = ["--width", "64", "--depth", "2", "--pixels", "32", "--negatives", "2"]
    run_python(BENCH / "losses.py", *batch, *encoders, "--out", out, timeout=300)
    rows = {row["loss"]: row for row in json.loads(out.read_text())["rows"]}
    assert set(rows) >= set(LOSSES)
    assert rows["clic"]["against"] == rows["fsc-clip"]["against"] == "itc"
    assert rows["clic"]["forward_and_backward"][0] > 0
