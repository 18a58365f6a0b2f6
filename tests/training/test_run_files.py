"""A training run's folder knows whose it is, and its log ends at the checkpoint from which the run goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tellapart as ta
from facts import raises
from tellapart.errors import RunError
from tellapart.training.run_files import RunFiles


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
