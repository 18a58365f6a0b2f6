"""The board in a real browser: read with and without scripts, by keyboard, in both colour schemes."""

from __future__ import annotations

import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tellapart.board.app import create_app

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
uvicorn = pytest.importorskip("uvicorn", reason='the board needs: pip install "tellapart[board]"')
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH")

ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking"]

Visit = Callable[..., Any]


@pytest.fixture(scope="module")
def address(settings, store) -> Iterator[str]:
    """Serve the board for real."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(create_app(settings, store), log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    server.should_exit = True
    thread.join(timeout=10)
    listening.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=[*ARGUMENTS, "--disable-dev-shm-usage"])
        yield started
        started.close()


@pytest.fixture
def visit(browser, address: str) -> Iterator[Visit]:
    """Open a page; any message on the console, and any request elsewhere, fails the test."""
    problems: list[str] = []
    pages = []

    def open_page(path: str, **options: Any) -> Any:
        page = browser.new_page(**{"viewport": {"width": 1200, "height": 900}} | options)
        page.set_default_timeout(15_000)
        page.on("console", lambda message: problems.append(f"console: {message.text} {message.location}"))
        page.on("pageerror", lambda error: problems.append(f"error: {error}"))
        page.on("dialog", lambda dialog: problems.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: request.url.startswith(address) or problems.append(request.url))
        page.goto(f"{address}{path}")
        pages.append(page)
        return page

    yield open_page
    for page in pages:
        page.close()
    # The pictures of made-up pairs are not on this machine, which is told so.
    assert [one for one in problems if "/pictures/" not in one] == []


def contrast(page: Any, selector: str) -> float:
    """WCAG's contrast of an element's text with the nearest background that is painted."""
    colours = page.eval_on_selector(
        selector,
        """element => {
            let ground = element;
            while (ground.parentElement && getComputedStyle(ground).backgroundColor === 'rgba(0, 0, 0, 0)') ground = ground.parentElement;
            return [getComputedStyle(element).color, getComputedStyle(ground).backgroundColor];
        }""",
    )

    def luminance(colour: str) -> float:
        parts = [float(part) / 255 for part in colour.split("(")[1].rstrip(")").split(",")[:3]]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, light = sorted(map(luminance, colours))
    return (light + 0.05) / (dark + 0.05)


def test_from_the_leaderboard_to_a_model_an_item_and_a_comparison(visit) -> None:
    page = visit("/")
    page.click("thead >> text=shapes")
    assert page.locator("tbody").first.locator("th").all_inner_texts() in (
        ["good", "near", "poor"],
        ["near", "good", "poor"],
    )
    page.click(".links >> text=Items")
    page.wait_for_url("**/items/pages/1")
    page.locator("tbody th a").first.click()
    page.wait_for_selector(".matrix")
    assert page.locator(".matrix").count() == 4
    assert page.locator(".matrix td.true").count() == 8
    page.locator(".card h3 a", has_text="poor").click()
    assert page.inner_text("h1") == "poor"
    assert page.locator("svg.plot polyline").count() >= 1
    page.click("header >> text=Compare")
    page.select_option("select[name=a]", label="good")
    page.select_option("select[name=b]", label="poor")
    page.click("button")
    assert page.inner_text("h1") == "good and poor"
    assert page.locator("table.every tbody tr").count() == 3


def test_other_columns_come_without_a_new_page_and_have_an_address(visit, address: str) -> None:
    page = visit("/benchmarks/shapes")
    page.evaluate("window.stayed = true")
    page.click(".choices >> text=type")
    page.wait_for_selector("thead >> text=type: colour")
    assert page.evaluate("window.stayed")
    assert page.url == f"{address}/benchmarks/shapes/by/type/group_score"
    assert page.locator("main").count() == 1


def test_everything_is_read_without_scripts(visit) -> None:
    page = visit("/benchmarks/shapes", java_script_enabled=False)
    page.click(".choices >> text=type")
    page.wait_for_selector("thead >> text=type: colour")
    assert page.locator("tbody tr").count() == 4


def test_the_keyboard_skips_to_the_content_and_reaches_the_table(visit) -> None:
    page = visit("/benchmarks/shapes")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('main') !== null")
    reached = []
    for _ in range(20):
        reached.append(page.evaluate("document.activeElement.textContent.trim()"))
        page.keyboard.press("Tab")
    assert {"Items", "good", "poor"} <= set(reached)


def test_a_screen_reader_finds_names_for_everything(visit) -> None:
    for path in (
        "/",
        "/benchmarks/shapes",
        "/benchmarks/shapes/items/0",
        "/models/good",
        "/pareto/latency",
        "/compare",
    ):
        page = visit(path)
        assert page.locator("h1").count() == 1
        assert page.locator("html[lang]").count() == 1
        assert page.evaluate("[...document.querySelectorAll('img')].filter(i => !i.alt).length") == 0
        assert (
            page.evaluate("[...document.querySelectorAll('select, input')].filter(i => !i.labels.length).length") == 0
        )
        assert (
            page.evaluate(
                "[...document.querySelectorAll('svg')].filter(s => !s.getAttribute('aria-label') && s.getAttribute('aria-hidden') !== 'true').length"
            )
            == 0
        )
        assert (
            page.evaluate(
                "[...document.querySelectorAll('nav, [role=region]')].filter(n => !n.getAttribute('aria-label')).length"
            )
            == 0
        )
        ids = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
        assert len(ids) == len(set(ids))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_in_both_colour_schemes(visit, scheme: str) -> None:
    page = visit("/benchmarks/shapes", color_scheme=scheme)
    grounds = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, grounds[4:-1].split(","))) > 382) is (scheme == "light")
    for selector in (
        "h1",
        ".lead",
        ".key-chance",
        "tbody th a",
        ".value",
        ".interval",
        ".tier",
        ".choices a[aria-current]",
        "caption",
    ):
        assert contrast(page, selector) >= 4.5, selector
    item = visit("/benchmarks/shapes/items/0", color_scheme=scheme)
    for shade in range(11):
        if item.locator(f".shade{shade}").count():
            assert contrast(item, f".shade{shade}") >= 4.5, shade


def test_a_narrow_screen_scrolls_the_table_and_not_the_page(visit) -> None:
    for path in ("/benchmarks/shapes", "/benchmarks/shapes/items/0", "/ranks", "/pareto/latency"):
        page = visit(path, viewport={"width": 380, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= 380, path
