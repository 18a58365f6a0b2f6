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


ONE = {"fingerprint": "1"}


@pytest.mark.parametrize(
    ("runs", "labels"),
    [
        ([("hf:clip", "x", ONE), ("/models/clip", "y", ONE)], ["hf:clip"]),
        ([("hf:clip", "x", ONE), ("/models/clip", "y", ONE), ("Our CLIP", "z", ONE)], ["hf:clip", "Our CLIP"]),
        *(
            ([("m", "x", ONE), ("m", "y", ONE | {change: "other"})], ["m (run 1)", "m (run 2)"])
            for change in ("dtype", "reading", "prompt", "fingerprint")
        ),
        ([("m", "x", ONE), ("m", "x", ONE)], ["m (run 1)", "m (run 2)"]),
        # Files of scores are no proof that they came from the model that was computed.
        ([("m", "y", {}), ("m", "x", ONE)], ["m (score files)", "m"]),
    ],
)
def test_a_model_that_is_computed_in_one_way_is_one_system_by_any_path(runs, labels, tmp_path):
    folders = [write(tmp_path / str(k), name, part, **model) for k, (name, part, model) in enumerate(runs)]
    assert [system.label for system in gather([*folders, folders[0]])] == labels


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
