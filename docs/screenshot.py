"""Take the README's pictures: `docs/report.png` and `docs/report-items.png` of a report, `docs/board.png` of a board.

`tellapart board export --runs runs/demo --out site`, then `python docs/screenshot.py runs/demo/report.html site`; it
needs Chromium on the PATH and the `dev` extra.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

DOCS = Path(__file__).parent
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking"]


def photograph(report: Path, site: Path) -> None:
    """Photograph the head of the report, its first items, and a leaderboard of the board."""
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        page = browser.new_page(viewport={"width": 1180, "height": 860}, color_scheme="light")
        page.goto(report.resolve().as_uri())
        page.screenshot(path=DOCS / "report.png")
        page.get_by_role("heading", name="Items", exact=True).first.evaluate("heading => heading.scrollIntoView()")
        page.screenshot(path=DOCS / "report-items.png")
        page.set_viewport_size({"width": 1180, "height": 1000})
        page.goto((site / "benchmarks" / "demo" / "index.html").resolve().as_uri())
        page.screenshot(path=DOCS / "board.png")
        browser.close()


if __name__ == "__main__":
    photograph(Path(sys.argv[1]), Path(sys.argv[2]))
