"""What TensorBoard reads back is what the log says: each step once, however often the run was killed."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from training_sets import config, logged

from facts import raises
from tellapart.errors import MissingDependencyError
from tellapart.training.run_files import open_trackers
from tellapart.training.training_run import run_training


def _events(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Tag -> steps and values, as TensorBoard shows them."""
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="needs the extra 'train'"
    )
    read = accumulator.EventAccumulator(str(folder))
    read.Reload()
    return {tag: [(one.step, one.value) for one in read.Scalars(tag)] for tag in read.Tags()["scalars"]}


class Stopped(Exception):  # noqa: N818
    pass


@pytest.mark.slow
def test_a_resumed_run_tells_each_step_once(tmp_path: Path) -> None:
    settings = config(tmp_path, log={"tensorboard": True}, data={"validation": "folder:train"}, optimiser={"steps": 6})

    def progress(stage: str, done: int, _total: int, _note: str = "") -> None:
        if (stage, done) == ("steps", 5):  # one step beyond the checkpoint
            raise Stopped

    with pytest.raises(Stopped):
        run_training(settings, tmp_path, tmp_path / "run", progress=progress)
    assert [step for step, _ in _events(tmp_path / "run" / "tensorboard")["total"]] == [1, 2, 3, 4, 5]
    run_training(settings, tmp_path, tmp_path / "run", resume=True)
    result = _events(tmp_path / "run" / "tensorboard")
    lines = logged(tmp_path / "run")
    for tag in ("total", "learning_rate", "gradient_norm", "scale", "validation_group_score"):
        expected = [(line["step"], line[tag]) for line in lines if tag in line]
        assert [step for step, _ in result[tag]] == [step for step, _ in expected]
        assert [value for _, value in result[tag]] == pytest.approx([value for _, value in expected], rel=1e-6)
    assert len(result["total"]) == 6 and len(result["validation_group_score"]) == 3


def test_nothing_is_written_where_nothing_is_asked(tmp_path: Path) -> None:
    run_training(config(tmp_path), tmp_path, tmp_path / "run")
    assert not (tmp_path / "run" / "tensorboard").exists()


@pytest.mark.slow
@pytest.mark.skipif(find_spec("wandb") is not None, reason="wandb is installed")
def test_a_missing_tracker_is_said_before_the_first_step(tmp_path: Path) -> None:
    with raises(MissingDependencyError, "tellapart[wandb]", "needed"):
        run_training(config(tmp_path, log={"wandb": "pairs"}), tmp_path, tmp_path / "run")
    assert not (tmp_path / "run" / "log.jsonl").exists()


def test_what_is_told_is_opened_with_the_first_number(tmp_path: Path) -> None:
    with open_trackers(config(tmp_path, log={"tensorboard": True}).log, tmp_path / "run", "few") as settings:
        assert len(settings) == 1 and not (tmp_path / "run").exists()
        settings[0](7, {"total": 0.5})
    assert _events(tmp_path / "run" / "tensorboard") == {"total": [(7, 0.5)]}
