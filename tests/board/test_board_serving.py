"""`tellapart serve` answers for its own names alone, keeps no secret in what it prints, and ends when it is told to."""

from __future__ import annotations

import re
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pytest


@pytest.fixture
def served(write_run: Callable[..., Path], tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A server's address and process; it goes by another name, too."""
    write_run(tmp_path / "runs" / "a", "some-model", skill=1.0)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "tellapart", "serve", "--port", str(port), "--name", "board.example.org"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert server.stdout is not None
    found = re.search(r"http://\S+", server.stdout.readline())
    assert found
    yield found[0], server
    server.kill()
    server.wait()
    server.stdout.close()


@pytest.mark.slow
def test_a_served_board_answers_for_its_own_names_and_prints_no_secret(
    served: tuple[str, subprocess.Popen[str]],
) -> None:
    at, server = served
    secret = {"Authorization": "Bearer tap_aa_secret", "Cookie": "tellapart_session=secret"}
    with httpx.Client(transport=httpx.HTTPTransport(retries=6), timeout=30, base_url=at) as client:
        assert "some-model" in client.get("/", params={"token": "tap_aa_secret"}, headers=secret).text
        assert client.get("/", headers={"Host": "board.example.org"}).status_code == 200
        for host in ("evil.example", "board.example.org.evil.example", "127.0.0.1.nip.example:80"):
            answer = client.get("/", headers={"Host": host, **secret})
            assert (answer.status_code, "some-model" in answer.text) == (400, False)
        # A connection that is open still, and another that sends nothing, keep it from nothing.
        with socket.create_connection((client.base_url.host, client.base_url.port)):
            server.send_signal(signal.SIGINT)
            assert server.wait(timeout=30) in {0, 130}
    assert server.stdout is not None
    assert "secret" not in server.stdout.read()


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="Linux alone limits another process")
def test_more_idle_connections_than_the_server_has_files_keep_no_reader_out(
    served: tuple[str, subprocess.Popen[str]],
) -> None:
    at, server = served
    address = (httpx.URL(at).host, httpx.URL(at).port)
    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (1024, 1024))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 4096:
        pytest.skip("this process may not open as many files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 4096), hard))
    with ExitStack() as idle:
        for _ in range(1500):
            one = idle.enter_context(socket.create_connection(address, timeout=20))
            with suppress(ConnectionError):  # it made room for others
                one.sendall(b"GET / HT")
        for _ in range(3):
            assert httpx.get(at, timeout=3).status_code == 200
