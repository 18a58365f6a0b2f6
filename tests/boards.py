"""A board for tests: read into its tables, with a client of its pages or a real browser; quick workers."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from html.parser import HTMLParser
from pathlib import Path
from threading import Lock, Thread
from time import monotonic, sleep
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tellapart.board.app import create_app
from tellapart.board.records import Board
from tellapart.board.settings import BoardSettings


def open_board(
    shown: Path | BoardSettings, report: Callable[[str], Any] = pytest.fail, submissions: Any = None
) -> tuple[TestClient, Board]:
    """Open the board of a folder of runs, or of settings, with hidden benchmarks or without."""
    settings = shown if isinstance(shown, BoardSettings) else BoardSettings(runs=(shown,))
    board = Board(settings, submissions.results) if submissions else Board(settings)
    board.read_in(report)
    return TestClient(create_app(board, submissions)), board


def until(holds: Callable[[], bool], *, seconds: float = 60, every: float = 0.01) -> None:
    """Wait until something holds."""
    end = monotonic() + seconds
    while not holds():
        assert monotonic() < end, "waited in vain"
        sleep(every)


def addresses_of(page: Path) -> list[str]:
    """Return the addresses that a page of a site names."""
    found: list[str] = []
    parser = HTMLParser()
    names = {"href", "src", "action", "hx-get"}
    parser.handle_starttag = lambda _, attrs: found.extend(value for name, value in attrs if name in names and value)
    parser.feed(page.read_text(encoding="utf-8"))
    return found


#: A process that has imported what workers need, and forks one for each message: its folder, standard input and output.
_FORKER = """
import os, signal, socket, sys
import tellapart.board.submissions.prepared
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
asked = socket.socket(fileno=0)
asked.send(b"ready")
while (message := socket.recv_fds(asked, 4096, 2))[0]:
    folder, program = message[0].decode().split(chr(0))
    if child := os.fork():
        asked.send(str(child).encode())
        for descriptor in message[1]:
            os.close(descriptor)
        continue
    try:
        os.setsid()
        for number, descriptor in enumerate((*message[1], os.open(os.devnull, os.O_WRONLY))):
            os.dup2(descriptor, number)
        sys.stdin, sys.stdout = open(0), open(1, "w")
        os.chdir(folder)
        exec(program)
        sys.stdout.flush()
    finally:
        os._exit(0)
"""


class Forker:
    """In place of the module `subprocess`: a worker's program in a fork, since its imports take longer than its job."""

    PIPE, DEVNULL = subprocess.PIPE, subprocess.DEVNULL

    def __init__(self) -> None:
        self.asked, theirs = socket.socketpair()
        # Each thread of a library takes address space, which workers have little of.
        single = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        with theirs:
            self.process = subprocess.Popen([sys.executable, "-c", _FORKER], stdin=theirs, env=os.environ | single)
        assert self.asked.recv(20) == b"ready"
        self.lock = Lock()

    def Popen(self, arguments: Sequence[str], *, cwd: Path, **_: Any) -> Any:  # noqa: N802
        assert "tellapart.board.submissions" in arguments[2]
        (child_in, writing), (reading, child_out) = os.pipe(), os.pipe()
        with self.lock:
            socket.send_fds(self.asked, [f"{cwd}\0{arguments[2]}".encode()], [child_in, child_out])
            pid = int(self.asked.recv(20))
        for descriptor in (child_in, child_out):
            os.close(descriptor)

        def kill() -> None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

        streams = {"stdin": os.fdopen(writing, "wb"), "stdout": os.fdopen(reading, "rb")}
        worker = SimpleNamespace(pid=pid, returncode=None, kill=kill, **streams)
        worker.wait = lambda: setattr(worker, "returncode", len(worker.stdout.read()))
        return worker

    def close(self) -> None:
        self.asked.close()
        self.process.wait()


# Tests in a real browser. `python ci/parts.py axe` fetches axe-core.

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking"]
AXE = Path(__file__).parents[1] / "scratch" / "axe" / "axe.min.js"
RUN = """async () => {
    const found = await axe.run(document, {resultTypes: ['violations']});
    return [found.passes.length, found.violations.map(
        v => `${v.impact} ${v.id}: ${v.nodes.map(n => n.target.join(' ')).slice(0, 5).join('; ')}`)];
}"""


@contextmanager
def served(app: Any, **options: Any) -> Iterator[str]:
    """Serve an application for real while the block lasts, with uvicorn's options; its address."""
    uvicorn = pytest.importorskip("uvicorn", reason='the board needs: pip install "tellapart[board]"')
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        server = uvicorn.Server(
            uvicorn.Config(app, **{"log_level": "error", "ws": "none", "lifespan": "off"} | options)
        )
        thread = Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        while not server.started:
            assert thread.is_alive()
            sleep(0.02)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="session")
def serving() -> Callable[[Any], Any]:
    return served


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("no chromium on PATH")
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=[*ARGUMENTS, "--disable-dev-shm-usage"])
        yield started
        started.close()


@pytest.fixture(scope="session")
def axe() -> Callable[[Any], list[str]]:
    """Look through a page: every violation of any impact, best practices among them."""
    if not AXE.exists():
        pytest.skip("no axe-core here: python ci/parts.py axe")
    script = AXE.read_text()

    def violations(page: Any) -> list[str]:
        page.evaluate(script)  # by the debugger: the page's own security policy lets no such script in
        passed, found = page.evaluate(RUN)
        assert passed > 5, page.url
        return [f"{page.url}: {each}" for each in found]

    return violations
