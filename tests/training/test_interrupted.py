"""A training run on the command line tells how far it is, and Ctrl-C what it leaves."""

import json
import re
import resource
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from training_sets import config, far, table, toml, weights

from boards import until
from facts import check_facts, raises
from tellapart.errors import RunError
from tellapart.training.training_run import run_training

pytestmark = pytest.mark.slow


def write_config(folder: Path, **changes) -> Path:
    path = folder / "train.toml"
    path.write_text(toml(table(folder, **changes)), encoding="utf-8")
    return path


@pytest.fixture
def interrupt(start) -> Callable[..., str]:
    """Start a training run, interrupt it as soon as something is there, and return what is said."""

    def begin(*arguments: object, when: Callable[[], bool]) -> str:
        process = start("train", *arguments)
        until(lambda: when() or process.poll() is not None, seconds=120)
        process.send_signal(signal.SIGINT)
        printed, said = process.communicate(timeout=60)
        assert (printed, process.returncode) == ("", 130), said
        return said.rstrip()

    return begin


def test_before_the_first_checkpoint_nothing_is_kept(interrupt, tmp_path):
    config = write_config(tmp_path, optimiser={"steps": 100000}, validation={"every": 100000})
    out = tmp_path / "run"
    said = interrupt(config, "--out", out, when=(out / "log.jsonl").exists)
    again = f"tellapart train {config} --out {out} --resume"
    check_facts(said, "interrupted", "no step", f"{out} is this run's", again)


def test_before_the_folder_is_the_runs_no_resume_is_named(tmp_path, command, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("tellapart.train", interrupted)
    told = command("train", write_config(tmp_path), "--out", tmp_path / "run", "--resume")
    check_facts(told.err, "interrupted", "nothing is kept", f"train.toml --out {tmp_path}/run")
    assert "--resume" not in told.err


def test_after_a_checkpoint_that_one_is_kept_and_taken_up(interrupt, tmp_path):
    config = write_config(tmp_path, optimiser={"steps": 100000}, validation={"every": 3, "keep": 100000})
    out = tmp_path / "run"
    said = interrupt(config, "--out", out, when=(out / "checkpoints" / "step-00000003").exists)
    # On a slow machine lines of progress come before.
    kept = re.search(rf"^interrupted; .* step ([\d,]+) .*{out}/checkpoints\.", said, re.MULTILINE)
    assert kept is not None, said
    step, last = int(kept[1].replace(",", "")), max((out / "checkpoints").iterdir())
    assert json.loads((last / "state.json").read_text())["step"] == step
    assert said.endswith(f"tellapart train {config} --out {out} --resume")


def test_of_several_seeds_the_finished_ones_are_named(interrupt, tmp_path):
    config = write_config(tmp_path, optimiser={"steps": 300}, validation={"every": 100})
    out = tmp_path / "seeds"
    said = interrupt(config, "--out", out, "--seeds", 2, when=(out / "seed-001" / "log.jsonl").exists)
    check_facts(said, "interrupted", f"{out}/seed-000", "complete", "tellapart train")


def test_off_a_terminal_lines_tell_step_loss_and_what_is_left(tmp_path, command, monkeypatch):
    monkeypatch.setattr("tellapart.report.progress._INTERVAL", 0.05)
    config = write_config(tmp_path, optimiser={"steps": 60})
    told = command("train", config, "--out", "run")
    assert told.code == 0, told.err
    form = r"^\[0:00:\d\d\] squares, seed 0: steps \d+ of 60 \(\d+ %\), loss \d+\.\d+, about 0:\d\d:\d\d left$"
    assert re.search(form, told.err, re.MULTILINE), told.err
    assert command("train", config, "--out", "other", "--quiet").err == ""


@pytest.mark.parametrize(("room", "left"), [(200_000, "best"), (0, "log.jsonl")])
def test_a_full_disk_ends_training_with_one_sentence_and_a_checkpoint_to_go_on_from(tmp_path, room, left):
    settings, limits = config(tmp_path), resource.getrlimit(resource.RLIMIT_FSIZE)
    run_training(settings, tmp_path, tmp_path / "undisturbed")

    def fill_up(stage, done, _total, _note=""):
        if (stage, done) == ("steps", 2):  # the checkpoint after it is written
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))

    try:
        with raises(RunError, left, "too large", "resume=True"):
            run_training(settings, tmp_path, tmp_path / "full", progress=fill_up)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [path.name for path in (tmp_path / "full" / "checkpoints").iterdir()] == ["step-00000002"]
    run_training(settings, tmp_path, tmp_path / "full", resume=True)
    assert far(weights(tmp_path / "undisturbed"), weights(tmp_path / "full")) == 0
    assert (tmp_path / "undisturbed" / "log.jsonl").read_bytes() == (tmp_path / "full" / "log.jsonl").read_bytes()
