"""Take the README's pictures of a report and a board, and keep the numbers that they show in `docs/pictures.json`."""

import json
import sys
from pathlib import Path

from gallery import DESKTOP, DOCS, open_browser, open_page

from tellapart.api.run import open_run


def photograph(report: Path, site: Path) -> None:
    """Photograph the head of the report, its first items, and a leaderboard of the board."""
    with open_browser() as browser:
        page = open_page(browser, DESKTOP, report.resolve().as_uri())
        page.screenshot(path=DOCS / "report.png")
        page.get_by_role("heading", name="Items", exact=True).first.evaluate("heading => heading.scrollIntoView()")
        page.screenshot(path=DOCS / "report-items.png")
        page.goto((site / "benchmarks" / "demo" / "index.html").resolve().as_uri())
        page.screenshot(path=DOCS / "board.png")


def keep_numbers(run: Path) -> None:
    """Write each model's metrics of the first look, in percent, and the fingerprint of the items."""
    opened = open_run(run)
    records = {system.label: system.record("demo") for system in opened.systems}
    numbers = {
        label: {
            name: f"{100 * record.metrics[name].value:.2f}" for name in ("group_score", "text_score", "image_score")
        }
        for label, record in records.items()
    }
    (fingerprint,) = {record.fingerprint for record in records.values()}
    text = json.dumps({"benchmark": "demo", "fingerprint": fingerprint, "percent": numbers}, indent=1)
    (DOCS / "pictures.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    photograph(Path(sys.argv[1]), Path(sys.argv[2]))
    keep_numbers(Path(sys.argv[1]).parent)
