"""A training run's folder knows whose it is, and its log ends at the checkpoint from which the run goes on."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
from training_sets import config, logged

import tellapart as ta
from facts import check_facts, raises
from tellapart.errors import MissingDependencyError, RunError, TellapartWarning
from tellapart.training.losses.loss import read_terms
from tellapart.training.record import read_record
from tellapart.training.report.page import write_training_report
from tellapart.training.run_files import RunFiles, describe_idle, find_idle_terms, open_trackers
from tellapart.training.training_run import run_training


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"fingerprint": "a"}', '{"fingerprint": "a", "fingerprint": "b"}', "[" * 9_000]
)
def test_a_damaged_claim_is_said(tmp_path: Path, content: str) -> None:
    (tmp_path / "run.json").write_text(content)
    with raises(RunError, "run.json", "out="):
        RunFiles(tmp_path).claim("b", resume=True)


def test_a_training_that_has_not_ended_is_not_shown_as_a_run(tmp_path: Path) -> None:
    RunFiles(tmp_path / "run").claim("a", resume=False)
    ta.evaluate("oracle", "demo", limit=2, out=tmp_path / "run" / "report")  # the first of its measurements is there
    with raises(RunError, f"{tmp_path}/run", "not ended", "report.html", "--resume"):
        ta.show(tmp_path / "run")


def test_the_log_keeps_whole_lines_up_to_the_step(tmp_path: Path) -> None:
    files = RunFiles(tmp_path)
    whole = '{"step": 1, "total": 2.0}\n'
    files.log_path.write_text(f'{whole}{{"step": 3, "total": 2.0}}\n{{"step": 1, "step": 2}}\n{{"step": 2, "to')
    files.cut_log(2)
    assert files.log_path.read_text() == whole


def test_another_run_is_refused_by_the_keys_that_differ(tmp_path: Path) -> None:
    files = RunFiles(tmp_path / "run")
    assert not files.claim("a", {"optimiser": {"epochs": 4}, "seed": 0}, resume=False)
    with raises(RunError, f"{tmp_path}/run", "optimiser.epochs 4 -> 8", "out=") as refused:
        files.claim("b", {"optimiser": {"epochs": 8}, "seed": 0}, resume=True)
    assert "seed" not in str(refused.value) and "model =" not in str(refused.value)
    (files.folder / "record.json").write_text(json.dumps({"model": "compact:run/model"}))
    with raises(RunError, "optimiser.epochs 4 -> 8", "model = 'compact:run/model'"):
        files.claim("b", {"optimiser": {"epochs": 8}, "seed": 0}, resume=True)


def test_planned_steps_are_measured_once(tmp_path: Path) -> None:
    files = RunFiles(tmp_path)
    files.claim("a", {"seed": 0}, resume=False)
    assert [files.fix_steps(lambda: 7), files.fix_steps(lambda: 9)] == [7, 7]
    assert files.claim("a", resume=True)


def written(path: Path, steps: int, **terms: float) -> Path:
    """Write a log in which the last step's terms are 1, the others' as given."""
    rows = [{"step": k + 1, "total": 1.0, **terms} for k in range(steps)]
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def test_terms_that_are_0_at_each_of_the_first_50_steps_are_found(tmp_path: Path) -> None:
    assert find_idle_terms(written(tmp_path / "log.jsonl", 50, itc=0.5, v1=0.0, v2=0.0)) == ("v1", "v2")
    assert find_idle_terms(written(tmp_path / "log.jsonl", 49, itc=0.5, v1=0.0)) == ()
    assert find_idle_terms(written(tmp_path / "log.jsonl", 60, itc=1e-9, gradient_norm=0.0, learning_rate=0.0)) == ()


def test_the_reason_is_of_the_loss_that_owns_the_term() -> None:
    terms = read_terms({"name": "itc", "also": {"eqsim": {}}})
    check_facts(describe_idle(["eqsim.v1"], terms), "eqsim.v1 was", "alpha")
    assert "alpha" not in describe_idle(["image_to_text"], terms)


@pytest.mark.slow
def test_a_run_names_its_idle_terms(tmp_path: Path) -> None:
    loss = {"name": "eqsim", "alpha": 0.99}
    settings = config(tmp_path, loss=loss, optimiser={"steps": 50, "learning_rate": 1e-3}, batch={"size": 4})
    with pytest.warns(TellapartWarning) as told:
        run_training(settings, tmp_path, tmp_path / "run")
    record = read_record(tmp_path / "run")
    check_facts(str(told[0].message), "v1 was 0", "50 steps", "loss.alpha")
    assert record.idle == str(told[0].message)
    page = write_training_report(tmp_path / "run", record).read_text(encoding="utf-8")
    check_facts(page, "did nothing", "v1 was 0")


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
