"""`tellapart serve` and `tellapart board export`, as a user calls them."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from facts import raises
from tellapart.cli.main import app
from tellapart.errors import RunError


@pytest.mark.slow
def test_serve_shows_the_runs_without_any_configuration(write_run, tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "a", "some-model", skill=1.0)
    server = subprocess.Popen(
        [sys.executable, "-m", "tellapart", "serve", "--port", "0"], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        found = re.search(r"http://\S+", server.stdout.readline())
        assert found
        with httpx.Client(transport=httpx.HTTPTransport(retries=6), timeout=30) as client:
            page = client.get(found[0])
        assert page.status_code == 200
        assert "some-model" in page.text
        assert page.headers["x-content-type-options"] == "nosniff"
        assert "server" not in page.headers
    finally:
        server.send_signal(signal.SIGINT)
        assert server.wait(timeout=30) in {0, 130}
        assert server.stdout is not None
        server.stdout.close()


def test_an_address_that_is_taken_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with raises(RunError, f"127.0.0.1:{port}", "host=", "port="):
            CliRunner().invoke(app, ["serve", "--port", str(port), "--runs", str(tmp_path)], catch_exceptions=False)


def test_export_writes_a_site_and_says_where(write_run, tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "a", "some-model", skill=1.0)
    done = CliRunner().invoke(
        app,
        [
            "board",
            "export",
            "--runs",
            str(tmp_path / "runs"),
            "--out",
            str(tmp_path / "site"),
            "--items",
            "2",
            "--database",
            "sqlite://",
        ],
    )
    assert done.exit_code == 0, done.output
    assert f"open {tmp_path / 'site' / 'index.html'}" in done.output
    assert "some-model" in (tmp_path / "site" / "index.html").read_text()
    assert not (tmp_path / "runs" / "board.sqlite").exists()


def test_a_folder_that_is_not_there_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    with raises(RunError, "--out", "folder"):
        CliRunner().invoke(
            app, ["board", "export", "--runs", str(tmp_path / "gone"), "--out", str(tmp_path)], catch_exceptions=False
        )


@pytest.mark.slow
def test_a_board_file_names_runs_and_numbers(write_run, tmp_path: Path) -> None:
    write_run(tmp_path / "mine" / "a", "some-model", skill=1.0)
    (tmp_path / "records.toml").write_text(
        'source = "s"\n[[models]]\nname = "paper"\n[models.scores.shapes]\ngroup_score = 0.5'
    )
    (tmp_path / "board.toml").write_text('[board]\ntitle = "Our <board>"\nruns = ["mine"]\nimported = ["records.toml"]')
    done = CliRunner().invoke(
        app, ["board", "export", "--board", str(tmp_path / "board.toml"), "--out", str(tmp_path / "site")]
    )
    assert done.exit_code == 0, done.output
    text = (tmp_path / "site" / "index.html").read_text()
    assert "<h1>Our &lt;board&gt;</h1>" in text
    assert "some-model" in text
    assert "paper" in text
    assert not (tmp_path / "mine" / "board.sqlite").exists()  # a board of these runs alone shows no imported number
    assert len(list((tmp_path / "mine").glob("board-*.sqlite"))) == 1
