"""Look through pages of a built site in Chromium: axe-core finds nothing serious, no page is wider than its window.

Without Chromium or axe-core (`python ci/parts.py axe`) nothing is checked, and the reason is printed.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from offline_site import check_site

from browsers import ARGUMENTS, AXE, CHROMIUM, RUN

PAGES = (
    "index.html",
    "404.html",
    "start.html",
    "commands.html",
    "which_command.html",
    "gallery.html",
    "benchmarks.html",
    "python.html",
    "findings/checkpoints.html",
    "api/index.html",
)
WINDOWS = (("light", 1280), ("dark", 390))


@contextmanager
def serve_folder(folder: Path) -> Iterator[str]:
    """Serve a folder while the block lasts; yield its address."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:  # or the thread would keep a failed check from ending
            server.shutdown()
            thread.join()


def find_faults(page: Any, script: str) -> Iterator[str]:
    """Yield what axe-core finds on an opened page, and how much wider than its window the page is."""
    page.evaluate(script)
    yield from (fault for fault in page.evaluate(RUN)[1] if fault.startswith(("serious", "critical")))
    beyond = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    if beyond > 0:
        yield f"{beyond} pixels wider than the window"


def look_through(folder: Path) -> Iterator[str]:
    """Yield a line for each fault of a page in a window."""
    if CHROMIUM is None or find_spec("playwright") is None or not AXE.exists():
        sys.stderr.write("no page was opened: this needs Chromium, playwright, and python ci/parts.py axe\n")
        return
    from playwright.sync_api import sync_playwright

    script = AXE.read_text(encoding="utf-8")
    with serve_folder(folder) as address, sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        for scheme, width in WINDOWS:
            page = started.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            for name in PAGES:
                page.goto(f"{address}/{name}")
                yield from (f"{name}, {scheme}, {width} pixels: {fault}" for fault in find_faults(page, script))
        started.close()


if __name__ == "__main__":
    sys.exit(check_site(look_through))
