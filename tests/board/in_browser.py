"""What tests in a real browser share: a board at an address of this machine, chromium, and axe-core.

`python ci/parts.py axe` fetches axe-core.
"""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from time import sleep
from typing import Any

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking"]
AXE = Path(__file__).parents[2] / "scratch" / "axe" / "axe.min.js"
RUN = """async () => {
    const found = await axe.run(document, {resultTypes: ['violations']});
    return [found.passes.length, found.violations.map(
        v => `${v.impact} ${v.id}: ${v.nodes.map(n => n.target.join(' ')).slice(0, 5).join('; ')}`)];
}"""


@contextmanager
def served(app: Any) -> Iterator[str]:
    """Serve an application for real while the block lasts; its address."""
    uvicorn = pytest.importorskip("uvicorn", reason='the board needs: pip install "tellapart[board]"')
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", ws="none", lifespan="off"))
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
