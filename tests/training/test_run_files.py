"""A training run's folder knows whose it is, and its log ends at the checkpoint from which the run goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from facts import raises
from tellapart.errors import RunError
from tellapart.training.run_files import RunFiles


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"fingerprint": "a", "fingerprint": "b"}', "[" * 9_000])
def test_a_damaged_claim_is_said(tmp_path: Path, content: str) -> None:
    (tmp_path / "run.json").write_text(content)
    with raises(RunError, "run.json", "out="):
        RunFiles(tmp_path).claim("b", resume=True)


def test_the_log_keeps_whole_lines_up_to_the_step(tmp_path: Path) -> None:
    files = RunFiles(tmp_path)
    whole = '{"step": 1, "total": 2.0}\n'
    files.log_path.write_text(f'{whole}{{"step": 3, "total": 2.0}}\n{{"step": 1, "step": 2}}\n{{"step": 2, "to')
    files.cut_log(2)
    assert files.log_path.read_text() == whole
