"""Tests in a real browser, with axe-core. `python ci/parts.py axe` fetches axe-core."""

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-dev-shm-usage",
]  # fmt: skip
AXE = Path(__file__).parents[1] / "scratch" / "axe" / "axe.min.js"
RUN = """async () => {
    const found = await axe.run(document, {resultTypes: ['violations']});
    return [found.passes.length, found.violations.map(
        v => `${v.impact} ${v.id}: ${v.nodes.map(n => n.target.join(' ')).slice(0, 5).join('; ')}`)];
}"""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("no chromium on PATH")
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield started
        started.close()


def find_violations(page) -> list[str]:
    """Look through a page: every violation of any impact, best practices among them."""
    if not AXE.exists():
        pytest.skip("no axe-core here: python ci/parts.py axe")
    page.evaluate(AXE.read_text())  # by the debugger: the page's own security policy lets no such script in
    passed, found = page.evaluate(RUN)
    assert passed > 5, page.url
    return [f"{page.url}: {each}" for each in found]


def look_through(page, address: str, paths: Iterable[str]) -> list[str]:
    """Visit pages: their violations, and which of them are wider than the screen."""
    problems = []
    for path in paths:
        page.goto(f"{address}{path}")
        problems += find_violations(page)
        if page.evaluate("document.documentElement.scrollWidth") > page.viewport_size["width"]:
            problems.append(f"{path}: wider than the screen")
    return problems
