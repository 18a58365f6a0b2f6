"""Not on a terminal: a plain line every half minute, none for quick work, none where quiet is wanted."""

from __future__ import annotations

import io
import re
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from tellapart.report.progress import CommandProgress, ProgressLog, _describe_stage, show_progress

Run = Callable[..., Any]


def wait_for(stream: io.StringIO, said: str, times: int = 1) -> None:
    """Wait until the log has written a text, however busy the machine is."""
    until = time.monotonic() + 60
    while stream.getvalue().count(said) < times:
        assert time.monotonic() < until, stream.getvalue()
        time.sleep(0.01)


def watch_stderr(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Put a stream in the place of standard error that can be read while the log writes."""
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    return stream


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    out, err = capsys.readouterr()
    assert out == ""
    return err.splitlines()


def test_slow_work_writes_what_is_done_what_is_left_and_the_note(capsys: pytest.CaptureFixture[str]) -> None:
    began = time.monotonic()
    with ProgressLog(interval=0.1) as progress:
        update = progress.callback("mine, seed 0")
        for done in range(1, 9):
            update("steps", done, 2000, f"loss {1 / done:.4g}")
            time.sleep(0.05)
    most = (time.monotonic() - began) / 0.1 + 1
    written = lines(capsys)
    assert 2 <= len(written) <= most
    form = r"\[0:00:\d\d\] mine, seed 0: steps \d of 2,000 \(0 %\), loss (1|0\.\d+)(, about \d:\d\d:\d\d left)?"
    assert all(re.fullmatch(form, line) for line in written), written
    assert written[-1].endswith("left")  # the first line may come before the pace is known


def test_a_stage_that_reports_nothing_is_seen_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = watch_stderr(monkeypatch)
    with ProgressLog(interval=0.05) as progress:
        wait_for(stream, "at work\n")
        update = progress.callback("audit")
        wait_for(stream, "audit: begins\n")
        update("items", 3, 3)
        wait_for(stream, "audit: items 3 of 3 (100 %)\n", times=2)
    written = [re.sub(r"^\[0:0\d:\d\d\] ", "", line) for line in stream.getvalue().splitlines()]
    assert list(dict.fromkeys(written)) == ["at work", "audit: begins", "audit: items 3 of 3 (100 %)"]


def test_quick_work_writes_nothing_and_waits_for_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    started = time.monotonic()
    with ProgressLog(interval=30.0) as progress:
        progress.callback("a")("images", 1, 3)
    assert time.monotonic() - started < 5
    assert lines(capsys) == []


def test_a_title_cannot_steer_the_terminal_that_reads_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = watch_stderr(monkeypatch)
    with ProgressLog(interval=0.02) as progress:
        progress.callback("a\x1b[2Jb\nc")("images", 1, 3)
        wait_for(stream, "] a\\x1b[2Jb\\nc: images 1 of 3 (33 %)\n")
    assert "\x1b" not in stream.getvalue()
    assert all(line.startswith("[0:0") for line in stream.getvalue().splitlines())


def test_a_reader_that_has_gone_ends_the_log_and_not_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    with ProgressLog(interval=0.01) as progress:
        progress._thread.join(60)
        assert not progress._thread.is_alive()


def test_only_the_first_rank_shows_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    assert type(show_progress()) is ProgressLog
    assert type(show_progress(quiet=True)) is CommandProgress
    for first in ("0", "", "captain"):  # the last is another program's
        monkeypatch.setenv("RANK", first)
        assert type(show_progress()) is ProgressLog
    monkeypatch.setenv("RANK", "10")
    assert type(show_progress()) is CommandProgress


@pytest.mark.slow
def test_an_audit_tells_how_far_it_is_unless_it_is_to_be_quiet(
    made_set: Any, command: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tellapart.report.progress._INTERVAL", 0.002)
    pairs = made_set(n=60)
    told = command("audit", pairs)
    assert re.search(r"^\[0:00:0\d\] audit: items \d+ of 60 \(\d+ %\)", told.err, re.MULTILINE)
    assert re.search(r"^\[0:00:0\d\] audit: pictures \d+ of 120 ", told.err, re.MULTILINE)
    quiet = command("audit", pairs, "-q")
    assert (quiet.err, quiet.out) == ("", told.out)


@pytest.mark.slow
def test_a_run_tells_which_model_and_benchmark_it_is_at(
    made_set: Any, installed: Any, command: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tellapart.report.progress._INTERVAL", 0.05)
    monkeypatch.setenv("TEST_SECONDS_PER_BATCH", "0.1")
    name = f"folder:{made_set(n=8)}"
    told = command("run", "-m", "slow", "-b", name, "--batch-size", "4", "--no-cache", "--out", "r")
    assert re.search(r"^\[0:00:0\d\] slow on folder:set: images \d+ of 16 \(\d+ %\)", told.err, re.MULTILINE)


def test_the_time_left_does_not_count_a_start_or_the_steps_before_a_resume(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("tellapart.report.progress.time.monotonic", lambda: now[0])
    log = ProgressLog(interval=30.0)
    update = log.callback("train")
    for seconds, step in ((60, 500), (260, 501), (261, 502), (262, 503)):  # 200 s of imports and of the first step
        now[0] = seconds
        update("steps", step, 1003)
    assert _describe_stage(log._stage, now[0]).endswith("about 0:08:20 left")
