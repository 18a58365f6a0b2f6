"""A terminal whose encoding lacks letters shows them spelled out, and nothing that a command writes is lost."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tellapart.report.terminal import console, print_lines, print_text, table

NAME = "caf\u00e9 \u6a21"
SHOWN = {"ascii": "caf\\xe9 \\u6a21", "cp1252": "caf\u00e9 \\u6a21", "cp932": "caf\\xe9 \u6a21", "utf-8": NAME}


def in_encoding(encoding: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {"PYTHONIOENCODING": encoding, "TELLAPART_CACHE": str(folder / "cache"), "HF_HUB_OFFLINE": "1"}
    return subprocess.run(
        [sys.executable, "-m", "tellapart", *arguments],
        capture_output=True,
        encoding=encoding,
        check=False,
        cwd=folder,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize("encoding", SHOWN)
def test_lines_and_tables_are_printed_in_the_encoding_of_their_stream(
    encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding)
    monkeypatch.setattr(sys, "stdout", stream)
    print_text(NAME)
    print_lines(NAME)
    rows = table("name")
    rows.add_row(NAME)
    console().print(rows)
    stream.flush()
    lines = stream.buffer.getvalue().decode(encoding).splitlines()
    assert [line.strip() for line in lines].count(SHOWN[encoding]) == 3


def test_a_mark_that_an_encoding_lacks_has_a_plain_one(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), "ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    print_text("1 \u2013 2 \u2026")
    assert stream.buffer.getvalue() == b"1 - 2 ...\n"


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["ascii", "cp932"])
def test_a_run_is_printed_in_the_encoding_of_its_terminal(
    made_set: Callable[..., Path], encoding: str, tmp_path: Path
) -> None:
    folder = made_set(NAME, n=2)
    ran = in_encoding(encoding, tmp_path, "run", "-m", "constant", "-b", f"folder:{folder}", "--out", "r")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert (tmp_path / "r" / "report.html").is_file()
    assert SHOWN[encoding] in ran.stdout
    assert "\x1b" not in ran.stdout and max(map(len, ran.stdout.splitlines())) < 300


@pytest.mark.slow
@pytest.mark.parametrize("words", [["run", "--help"], ["ls", "benchmarks"]])
def test_help_and_listings_are_printed_in_ascii(words: list[str], tmp_path: Path) -> None:
    ran = in_encoding("ascii", tmp_path, *words)
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.slow
def test_a_run_whose_reader_is_gone_has_its_report(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    environment = {**os.environ, "TELLAPART_CACHE": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-m", "tellapart", "run", "-m", "oracle", "-b", "demo", "--limit", "2", "--out", "r"]
    ran = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, check=False, cwd=tmp_path, env=environment)
    os.close(write)
    assert (ran.returncode, ran.stderr) == (1, b"")
    assert (tmp_path / "r" / "report.html").is_file()
