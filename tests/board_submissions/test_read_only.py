"""A folder that may be read alone: a board's commands say so in a line, and leave it as it is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

#: Root without the right to ignore modes.
AS_ANYBODY = ["setpriv", "--bounding-set=-dac_override,-dac_read_search,-fowner", "--inh-caps=-all"]


@pytest.fixture
def closed(tmp_path: Path, board: Callable[..., Any]) -> Iterator[Path]:
    """Make a board of which nothing may be written."""
    if not os.geteuid() and shutil.which("setpriv") is None:
        pytest.skip("root ignores modes, and setpriv is not here to take that right away")
    made = board(24)
    made.measured(made.npz(made.right()))
    (tmp_path / "board.toml").write_text(
        f'[submissions]\nstate = "state"\n[[hidden]]\nname = "clocks"\npairs = "{made.pairs}"\n'
        'metrics = ["group_score"]\ntotal = 5\nlargest_share = 1000.0\n'
    )
    every = [tmp_path, *tmp_path.rglob("*")]
    modes = {path: path.stat().st_mode for path in every}
    for path in every:
        path.chmod(modes[path] & ~0o222)
    yield tmp_path
    for path in every:
        if path.exists():
            path.chmod(modes[path])


@pytest.mark.parametrize(
    ("command", "fact"),
    [
        (["user", "zed", "--board", "board.toml"], "submissions.sqlite"),
        (["backup", "copy", "--board", "board.toml"], "copy cannot be written"),
        (["new", "other", "--pairs", "clocks"], "other cannot be made"),
    ],
)
def test_a_command_that_may_not_write_says_so_in_a_line(closed: Path, command: list[str], fact: str) -> None:
    before = {path: path.read_bytes() for path in closed.rglob("*") if path.is_file()}
    done = subprocess.run(
        [*([] if os.geteuid() else AS_ANYBODY), sys.executable, "-m", "tellapart", "board", *command],
        cwd=closed,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout + done.stderr
    assert (done.returncode, len(said.splitlines()), fact in said) == (2, 1, True), said
    assert {path: path.read_bytes() for path in closed.rglob("*") if path.is_file()} == before
