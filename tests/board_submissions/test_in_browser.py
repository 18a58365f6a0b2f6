"""Signing in, sending a file and seeing it measured, in a real browser and with the board's own security headers."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from time import sleep
from typing import Any

import pytest
import uvicorn

from tellapart.board.app import create_app
from tellapart.board.settings import BoardSettings
from tellapart.board.store import Store

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH")

ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking"]


@pytest.fixture
def served(board: Callable[..., Any]) -> Iterator[tuple[Any, str]]:
    """A board with pages and hidden benchmarks at an address of this machine."""
    made = board()
    with Store("sqlite://") as store, socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        app = create_app(BoardSettings(title="Ours"), store, made.service)
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", ws="none"))
        thread = Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        made.service.start()
        while not server.started:
            sleep(0.02)
        yield made, f"http://127.0.0.1:{listening.getsockname()[1]}"
        server.should_exit = True
        thread.join()


def test_a_user_signs_in_sends_a_file_and_sees_its_number(served: tuple[Any, str], tmp_path: Path) -> None:
    made, at = served
    (tmp_path / "scores.npz").write_bytes(made.npz(made.right()))
    problems: list[str] = []
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*ARGUMENTS, "--disable-dev-shm-usage"])
        page = browser.new_page()
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        page.goto(f"{at}/sign-in")
        page.get_by_label("Your token").fill(made.tokens["ann"])
        page.keyboard.press("Enter")
        page.wait_for_url(f"{at}/submissions")
        page.get_by_role("link", name="Hidden benchmarks").click()
        page.get_by_role("link", name="clocks").click()
        page.get_by_label("The model's name").fill("<b>mine</b>")
        page.get_by_label("The file").set_input_files(tmp_path / "scores.npz")
        page.get_by_role("button", name="Send").click()
        page.wait_for_url(f"{at}/submissions/*")
        page.get_by_text("group score: 100 %").wait_for()  # the page loads again by itself until then
        assert page.get_by_role("heading", level=1).inner_text() == "<b>mine</b>"
        page.get_by_role("button", name="Sign out ann").click()
        page.wait_for_url(f"{at}/hidden")
        browser.close()
    assert problems == []
