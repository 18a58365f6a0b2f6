"""Look through pages of a built site in Chromium: axe-core finds nothing serious, no page is wider than its window.

Without Chromium or axe-core (`python ci/parts.py axe`) nothing is checked, and the reason is printed.
"""

import sys
import tomllib
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from threading import Thread

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from offline_site import check_site

from browsers import ARGUMENTS, AXE, CHROMIUM, RUN

SITE = Path(__file__).parents[1] / "docs" / "site.toml"
PAGES: list[str] = tomllib.loads(SITE.read_text(encoding="utf-8"))["looked_through"]
WINDOWS = (("light", 1280), ("dark", 390))


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def look_through(folder: Path) -> Iterator[str]:
    """Yield a line for each fault of a page in a window."""
    if CHROMIUM is None or find_spec("playwright") is None or not AXE.exists():
        sys.stderr.write("no page was opened: this needs Chromium, playwright, and python ci/parts.py axe\n")
        return
    from playwright.sync_api import sync_playwright

    script = AXE.read_text(encoding="utf-8")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    with server, sync_playwright() as playwright:
        Thread(target=server.serve_forever, daemon=True).start()
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        for scheme, width in WINDOWS:
            page = started.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            for name in PAGES:
                page.goto(f"http://127.0.0.1:{server.server_port}/{name}")
                page.evaluate(script)
                faults = [fault for fault in page.evaluate(RUN)[1] if fault.startswith(("serious", "critical"))]
                beyond = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
                faults += [f"{beyond} pixels wider than the window"] * (beyond > 0)
                yield from (f"{name}, {scheme}, {width} pixels: {fault}" for fault in faults)
        started.close()
        server.shutdown()


if __name__ == "__main__":
    sys.exit(check_site(look_through))
