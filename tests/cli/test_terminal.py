"""Terminals, their encodings and logs: bars and colours where a person watches, plain lines elsewhere, nothing lost."""

import errno
import io
import os
import pty
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from boards import until
from scripts import run_python
from tellapart.report.progress import (
    CommandProgress,
    ProgressLog,
    TerminalProgress,
    _describe_stage,
    _short_title,
    show_progress,
)
from tellapart.report.tables import text_table
from tellapart.report.terminal import console, print_lines, print_text

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
    variables = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", **environment}
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), terminal)
    process = subprocess.Popen([sys.executable, "-c", code], env=variables, **streams)
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
def test_colours_are_left_out_where_they_are_not_wanted():
    code = "from tellapart.evaluation.check import Gate; from tellapart.report.terminal import print_template;"
    code += "print_template('gates', gates=[Gate('constant', '2x2', 'text_score', '0 %', '100 %', False)])"
    red = re.compile(r"\x1b\[[0-9;]*31m")
    assert red.search(watched(code))
    plain = watched(code, NO_COLOR="1")
    assert "FAILS" in plain
    assert not red.search(plain)


def test_quick_work_shows_none():
    assert watched(WORK.format(steps=5, seconds=0.0)).strip() == "done"


def test_a_bar_goes_when_its_work_is_done(monkeypatch):
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
def test_a_long_title_leaves_room_for_the_bar(length):
    title = "".join(chr(ord("a") + k % 26) for k in range(length))
    short = _short_title(title)
    assert (len(short), short[:16], short[-20:]) == (min(length, 48), title[:16], title[-20:])


@pytest.mark.slow
def test_a_run_on_a_terminal_shows_bars_and_ends_with_its_table(made_set, installed, tmp_path):
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


NAME = "caf\u00e9 \u6a21"
SHOWN = {"ascii": "caf\\xe9 \\u6a21", "cp1252": "caf\u00e9 \\u6a21", "cp932": "caf\\xe9 \u6a21", "utf-8": NAME}


def in_encoding(encoding: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {"PYTHONIOENCODING": encoding, "TELLAPART_CACHE": str(folder / "cache"), "HF_HUB_OFFLINE": "1"}
    how = {"encoding": encoding, "cwd": folder, "env": {**os.environ, **environment}}
    return run_python("-m", "tellapart", *arguments, status=None, **how)


@pytest.mark.parametrize("encoding", SHOWN)
def test_lines_and_tables_are_printed_in_the_encoding_of_their_stream(encoding, monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding)
    monkeypatch.setattr(sys, "stdout", stream)
    print_text(NAME)
    print_lines(NAME)
    print_text("1 \u2013 2 \u2026")
    console().print(text_table("name", rows=[(NAME,)]))
    stream.flush()
    lines = stream.buffer.getvalue().decode(encoding).splitlines()
    assert [line.strip() for line in lines].count(SHOWN[encoding]) == 3
    assert encoding != "ascii" or "1 - 2 ..." in lines  # a plain one in the place of a mark that an encoding lacks


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["ascii", "cp932"])
def test_runs_help_and_listings_are_printed_in_the_encoding_of_their_terminal(made_set, encoding, tmp_path):
    folder = made_set(NAME, n=2)
    ran = in_encoding(encoding, tmp_path, "run", "-m", "constant", "-b", f"folder:{folder}", "--out", "r")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert (tmp_path / "r" / "report.html").is_file()
    assert SHOWN[encoding] in ran.stdout
    assert "\x1b" not in ran.stdout and max(map(len, ran.stdout.splitlines())) < 300
    for words in (["run", "--help"], ["ls", "benchmarks"]) if encoding == "ascii" else ():
        ran = in_encoding(encoding, tmp_path, *words)
        assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.slow
def test_a_run_whose_reader_is_gone_has_its_report(tmp_path):
    read, write = os.pipe()
    os.close(read)
    environment = {**os.environ, "TELLAPART_CACHE": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-m", "tellapart", "run", "-m", "oracle", "-b", "demo", "--limit", "2", "--out", "r"]
    ran = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, check=False, cwd=tmp_path, env=environment)
    os.close(write)
    assert (ran.returncode, ran.stderr) == (1, b"")
    assert (tmp_path / "r" / "report.html").is_file()


def wait_for(stream: io.StringIO, said: str, times: int = 1) -> None:
    """Wait until the log has written a text, however busy the machine is."""
    until(lambda: stream.getvalue().count(said) >= times, every=0.01)


def watch_stderr(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Put a stream in the place of standard error that can be read while the log writes."""
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    return stream


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    out, err = capsys.readouterr()
    assert out == ""
    return err.splitlines()


def test_a_stage_that_reports_nothing_is_seen_to_go_on_and_a_title_cannot_steer_the_terminal(monkeypatch):
    stream = watch_stderr(monkeypatch)
    with ProgressLog(interval=0.05) as progress:
        wait_for(stream, "at work\n")
        update = progress.callback("audit")
        wait_for(stream, "audit: begins\n")
        update("items", 3, 3)
        wait_for(stream, "audit: items 3 of 3 (100 %)\n", times=2)
    written = [re.sub(r"^\[0:0\d:\d\d\] ", "", line) for line in stream.getvalue().splitlines()]
    assert list(dict.fromkeys(written)) == ["at work", "audit: begins", "audit: items 3 of 3 (100 %)"]
    stream = watch_stderr(monkeypatch)
    with ProgressLog(interval=0.02) as progress:
        progress.callback("a\x1b[2Jb\nc")("images", 1, 3)
        wait_for(stream, "] a\\x1b[2Jb\\nc: images 1 of 3 (33 %)\n")
    assert "\x1b" not in stream.getvalue()
    assert all(line.startswith("[0:0") for line in stream.getvalue().splitlines())


def test_slow_work_writes_what_is_done_what_is_left_and_the_note_and_quick_work_nothing(capsys):
    started = time.monotonic()
    with ProgressLog(interval=30.0) as progress:
        progress.callback("a")("images", 1, 3)
    assert time.monotonic() - started < 5
    assert lines(capsys) == []
    began = time.monotonic()
    with ProgressLog(interval=0.1) as progress:
        update = progress.callback("mine, seed 0")
        for done in range(1, 9):
            update("steps", done, 2000, f"loss {1 / done:.4g}")
            time.sleep(0.05)
    most, written = (time.monotonic() - began) / 0.1 + 1, lines(capsys)
    assert 2 <= len(written) <= most
    form = r"\[0:00:\d\d\] mine, seed 0: steps \d of 2,000 \(0 %\), loss (1|0\.\d+)(, about \d:\d\d:\d\d left)?"
    assert all(re.fullmatch(form, line) for line in written), written
    assert written[-1].endswith("left")  # the first line may come before the pace is known


def test_a_reader_that_has_gone_ends_the_log_and_not_the_work(monkeypatch):
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    with ProgressLog(interval=0.01) as progress:
        progress._thread.join(60)
        assert not progress._thread.is_alive()


def test_only_the_first_rank_shows_progress(monkeypatch):
    assert type(show_progress()) is ProgressLog
    assert type(show_progress(quiet=True)) is CommandProgress
    for first in ("0", "", "captain"):  # the last is another program's
        monkeypatch.setenv("RANK", first)
        assert type(show_progress()) is ProgressLog
    monkeypatch.setenv("RANK", "10")
    assert type(show_progress()) is CommandProgress


@pytest.mark.slow
def test_an_audit_tells_how_far_it_is_unless_it_is_to_be_quiet(made_set, command, monkeypatch):
    monkeypatch.setattr("tellapart.report.progress._INTERVAL", 0.002)
    pairs = made_set(n=60)
    told = command("audit", pairs)
    assert re.search(r"^\[0:00:0\d\] audit: items \d+ of 60 \(\d+ %\)", told.err, re.MULTILINE)
    assert re.search(r"^\[0:00:0\d\] audit: pictures \d+ of 120 ", told.err, re.MULTILINE)
    quiet = command("audit", pairs, "-q")
    assert (quiet.err, quiet.out) == ("", told.out)


@pytest.mark.slow
def test_a_run_tells_which_model_and_benchmark_it_is_at(made_set, installed, command, monkeypatch):
    monkeypatch.setattr("tellapart.report.progress._INTERVAL", 0.05)
    monkeypatch.setenv("TEST_SECONDS_PER_BATCH", "0.1")
    name = f"folder:{made_set(n=8)}"
    told = command("run", "-m", "slow", "-b", name, "--batch-size", "4", "--no-cache", "--out", "r")
    assert re.search(r"^\[0:00:0\d\] slow on folder:set: images \d+ of 16 \(\d+ %\)", told.err, re.MULTILINE)


def test_the_time_left_does_not_count_a_start_or_the_steps_before_a_resume(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("tellapart.report.progress.time.monotonic", lambda: now[0])
    log = ProgressLog(interval=30.0)
    update = log.callback("train")
    for seconds, step in ((60, 500), (260, 501), (261, 502), (262, 503)):  # 200 s of imports and of the first step
        now[0] = seconds
        update("steps", step, 1003)
    assert _describe_stage(log._stage, now[0]).endswith("about 0:08:20 left")
