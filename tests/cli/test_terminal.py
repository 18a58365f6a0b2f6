"""On a terminal: bars where a person watches slow work, colours unless they are not wanted; elsewhere neither."""

from __future__ import annotations

import errno
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tellapart.report.progress import TerminalProgress, _short_title

WORK = """
import time
from tellapart.report.progress import show_progress
with show_progress() as progress:
    update = progress.callback("model on demo")
    for done in range(1, {steps} + 1):
        time.sleep({seconds})
        update("images", done, {steps})
print("done")
"""


def watched(code: str, **environment: str) -> str:
    """Run Python on a terminal of its own, and return what that showed."""
    master, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", **environment},
    )
    os.close(terminal)
    shown = b""
    while True:
        try:
            read = os.read(master, 65536)
        except OSError as closed:  # how Linux says that the other side is gone
            assert closed.errno == errno.EIO
            break
        if not read:
            break
        shown += read
    os.close(master)
    assert process.wait(timeout=30) == 0
    return shown.decode()


@pytest.mark.slow
def test_colours_are_left_out_where_they_are_not_wanted() -> None:
    code = "from tellapart.evaluation.check import Gate; from tellapart.report.printing import print_gates;"
    code += "print_gates([Gate('constant', '2x2', 'text_score', '0 %', '100 %', False)])"
    red = re.compile(r"\x1b\[[0-9;]*31m")
    assert red.search(watched(code))
    plain = watched(code, NO_COLOR="1")
    assert "FAILS" in plain
    assert not red.search(plain)


def test_quick_work_shows_none() -> None:
    assert watched(WORK.format(steps=5, seconds=0.0)).strip() == "done"


def test_a_bar_goes_when_its_work_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tellapart.report.progress._PATIENCE", 0.0)
    with TerminalProgress() as progress:
        update = progress.callback("a")
        update("images", 1, 3)
        update("images", 2, 3)
        assert list(progress._tasks) == ["a: images"]
        update("images", 3, 3)
        update("texts", 1, 2)
        assert list(progress._tasks) == ["a: texts"]


@pytest.mark.parametrize("length", [1, 47, 48, 49, 50, 300])
def test_a_long_title_leaves_room_for_the_bar(length: int) -> None:
    title = "".join(chr(ord("a") + k % 26) for k in range(length))
    short = _short_title(title)
    assert len(short) == min(length, 48)
    assert short[:16] == title[:16]
    assert short[-20:] == title[-20:]


@pytest.mark.slow
def test_a_run_on_a_terminal_shows_bars_and_ends_with_its_table(made_set, installed: Path, tmp_path: Path) -> None:
    name, out = f"folder:{made_set(n=16)}", tmp_path / "r"
    arguments = ["run", "-m", "slow", "-b", name, "--batch-size", "4", "--no-cache", "--out", str(out)]
    shown = watched(
        f"import os, sys; os.environ['TEST_SECONDS_PER_BATCH'] = '0.4'; sys.path.insert(0, {str(installed)!r});"
        f"sys.argv = ['tellapart', *{arguments!r}]; from tellapart.cli.main import main; main()"
    )
    assert "slow on folder:set: images" in shown
    assert re.search(r"(4|8|12|16|20|24|28)/32", shown) and re.search(r"\d:\d\d:\d\d", shown)
    assert shown.count("\x1b[?25h") == shown.count("\x1b[?25l") > 0, "the cursor is shown again"
    assert re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown).rstrip().endswith("report.html")
