"""axe-core finds nothing serious on the board's pages, in a real browser and in both colour schemes.

`python ci/axe.py scratch/axe` fetches it.
"""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from time import sleep

import pytest

from tellapart.board.app import create_app
from tellapart.board.hidden import HiddenBenchmark, HiddenSettings, SubmissionSettings
from tellapart.board.submissions.service import Submissions

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
uvicorn = pytest.importorskip("uvicorn", reason='the board needs: pip install "tellapart[board]"')
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
AXE = Path(__file__).parents[2] / "scratch" / "axe" / "axe.min.js"
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH"),
    pytest.mark.skipif(not AXE.exists(), reason="no axe-core here: python ci/axe.py scratch/axe"),
]

ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking"]
PAGES = (
    "/",
    "/benchmarks/shapes",
    "/benchmarks/shapes/by/type/group_score",
    "/benchmarks/shapes/items/0",
    "/benchmarks/shapes/items/pages/1",
    "/models/good",
    "/compare",
    "/compare/good/poor",
    "/pareto/latency",
    "/ranks",
    "/hidden",
    "/hidden/clocks",
    "/sign-in",
)

RUN = """async () => {
    const found = await axe.run(document, {resultTypes: ['violations']});
    return [found.passes.length, found.violations.filter(v => ['serious', 'critical'].includes(v.impact)).map(
        v => `${v.impact} ${v.id}: ${v.nodes.map(n => n.target.join(' ')).slice(0, 5).join('; ')}`)];
}"""


@pytest.fixture
def address(settings, store, tmp_path: Path, made_set: Callable[..., Path]) -> Iterator[str]:
    """Serve the board, with one hidden benchmark."""
    clocks = HiddenBenchmark(name="clocks", pairs=made_set("clocks", n=4), largest_share=1000.0)
    hidden = HiddenSettings(submissions=SubmissionSettings(state=tmp_path / "state", spare_bytes=0), hidden=(clocks,))
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        app = create_app(settings, store, Submissions(hidden))
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", ws="none", lifespan="off"))
        thread = Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        while not server.started:
            sleep(0.02)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        server.should_exit = True
        thread.join()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_or_critical_violation(address: str, scheme: str) -> None:
    problems: list[str] = []
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*ARGUMENTS, "--disable-dev-shm-usage"])
        page = browser.new_page(color_scheme=scheme)
        for path in PAGES:
            answer = page.goto(f"{address}{path}")
            assert answer.status == 200, path
            page.evaluate(AXE.read_text())  # by the debugger: the page's own security policy lets no such script in
            passed, found = page.evaluate(RUN)
            assert passed > 5, path
            problems += [f"{path}: {each}" for each in found]
        page.set_content("<html lang=en><title>a</title><img src='/b.png'>")
        page.evaluate(AXE.read_text())
        assert any("image-alt" in each for each in page.evaluate(RUN)[1])  # it would have been found
        browser.close()
    assert problems == []
