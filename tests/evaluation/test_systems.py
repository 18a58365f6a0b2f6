"""Systems: which runs are of one, and what they are called."""

from pathlib import Path

import pytest

from facts import raises
from tellapart.errors import RunError
from tellapart.evaluation.systems import System, gather
from tellapart.records.result import BenchmarkResult, ModelRecord, Result, RunRecord
from tellapart.records.run_folder import write_result


def write(folder: Path, name: str, *benchmarks: str, **model: str) -> Path:
    parts = {each: BenchmarkResult(title=each, fingerprint=each, metrics={}, origin="") for each in benchmarks}
    run = RunRecord(started="2026-11-22T07:00:00+00:00", seed=0, versions={}, command="")
    write_result(folder, Result(run=run, model=ModelRecord(name=name, **model), benchmarks=parts))
    return folder


def test_runs_of_one_model_on_other_benchmarks_are_one_system(tmp_path):
    one, two = write(tmp_path / "a", "m", "x", fingerprint="1"), write(tmp_path / "b", "m", "y", "z", fingerprint="1")
    (system,) = gather([one, two])
    assert (system.label, dict(system.folders)) == ("m", {"x": one, "y": two, "z": two})
    assert list(system.result.benchmarks) == ["x", "y", "z"] and system.place == f"{one}, {two}"


def test_one_model_by_two_paths_is_one_system(tmp_path):
    one = write(tmp_path / "a", "hf:clip", "x", fingerprint="1")
    two = write(tmp_path / "b", "/models/clip", "y", fingerprint="1")
    assert [system.label for system in gather([one, two])] == ["hf:clip"]
    named = write(tmp_path / "c", "Our CLIP", "z", fingerprint="1")
    assert [system.label for system in gather([one, two, named])] == ["hf:clip", "Our CLIP"]


@pytest.mark.parametrize("change", ["dtype", "reading", "prompt", "fingerprint"])
def test_another_way_to_compute_is_another_system(tmp_path, change):
    one = write(tmp_path / "a", "m", "x", fingerprint="1")
    other = write(tmp_path / "b", "m", "y", **({"fingerprint": "1"} | {change: "other"}))
    assert [system.label for system in gather([one, other])] == ["m (run 1)", "m (run 2)"]


def test_two_runs_on_the_same_benchmark_stay_two(tmp_path):
    folders = [write(tmp_path / name, "m", "x", fingerprint="1") for name in "ab"]
    assert [system.label for system in gather([*folders, folders[0]])] == ["m (run 1)", "m (run 2)"]


def test_score_files_are_no_proof_that_they_came_from_a_computed_model(tmp_path):
    computed, files = write(tmp_path / "a", "m", "x", fingerprint="1"), write(tmp_path / "b", "m", "y")
    assert [system.label for system in gather([files, computed])] == ["m (score files)", "m"]


def test_labels_are_of_models_that_are_there(tmp_path):
    folders = [write(tmp_path / name, name, "x") for name in ("clip", "blip")]
    assert [system.label for system in gather(folders, {"clip": "CLIP B/32"})] == ["CLIP B/32", "blip"]
    with raises(RunError, "labels=", "clap", "model"):
        gather(folders, {"clap": "CLIP"})
    for labels in ({"clip": "CLIP", "blip": "CLIP"}, {"clip": "blip"}):  # drawn twice under one name
        with raises(RunError, "labels=", "clip", "blip", labels["clip"]):
            gather(folders, labels)
    with raises(RunError, "run", "named"):
        gather([])
    with raises(RunError, "'y'", "x"):
        System.of(folders[0]).record("y")


def test_reference_models_rank_nothing_unless_they_are_alone(tmp_path):
    import tellapart as ta
    from tellapart.evaluation.systems import leave_references

    ta.evaluate(["demo-encoder", "random", "oracle"], "demo", limit=4, out=tmp_path / "a")
    ta.evaluate("random", "demo", limit=4, out=tmp_path / "b")
    assert [one.label for one in leave_references(gather([tmp_path / "a", tmp_path / "b"]))] == ["demo-encoder"]
    assert len(leave_references(gather([tmp_path / "b"]))) == 1
