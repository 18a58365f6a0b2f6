"""Check a built site: no page of FOLDER loads a script, a style, a font or a picture from another host.

    python ci/check_site.py FOLDER [--in-browser]

In Chromium axe-core finds nothing serious, and no page is wider than its window. Without Chromium or axe-core (`python
ci/parts.py axe`) no page is opened, and the reason is printed.
"""

import re
import sys
import tomllib
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from threading import Thread

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from browsers import ARGUMENTS, AXE, CHROMIUM, RUN

SITE = Path(__file__).parents[1] / "docs" / "site.toml"
PAGES: list[str] = tomllib.loads(SITE.read_text(encoding="utf-8"))["looked_through"]
WINDOWS = (("light", 1280), ("dark", 390))

#: Tag -> the attributes by which a page loads something.
_LOADS = {"script": ("src",), "img": ("src", "srcset"), "source": ("src", "srcset"), "iframe": ("src",)}
_LOADED_LINKS = {"stylesheet", "icon", "preload", "preconnect", "dns-prefetch", "modulepreload", "prefetch"}
_ELSEWHERE = re.compile(r"^(https?:)?//")
_IN_STYLE = re.compile(r"""(?:url\(|@import)\s*["']?((?:https?:)?//[^"')\s]+)""")


class _Loads(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        names = _LOADS.get(tag, ())
        if tag == "link" and _LOADED_LINKS & set(values.get("rel", "").split()):
            names = ("href",)
        self.found += [values[name] for name in names if _ELSEWHERE.match(values.get(name, ""))]


def loads_from_elsewhere(folder: Path) -> Iterator[str]:
    """Yield a line for everything that a page or a style of a site loads from another host."""
    for path in sorted(folder.rglob("*.html")):
        parser = _Loads()
        parser.feed(path.read_text(encoding="utf-8"))
        yield from (f"{path.relative_to(folder)}: {address}" for address in parser.found)
    for path in sorted(folder.rglob("*.css")):
        found = _IN_STYLE.findall(path.read_text(encoding="utf-8"))
        yield from (f"{path.relative_to(folder)}: {address}" for address in found)


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
    site = Path(sys.argv[1])
    if not (site / "index.html").is_file():
        sys.exit(f"{site} holds no site: build it with `make site`")
    faults = list((look_through if "--in-browser" in sys.argv[2:] else loads_from_elsewhere)(site))
    sys.exit("\n".join(faults) or 0)
