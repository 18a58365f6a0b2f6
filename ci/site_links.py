"""Check the links of a built site: each leads to a file of the site, and each anchor to an element of that file.

    python ci/site_links.py FOLDER

Links to other hosts are not followed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from built_site import check_site


class _Page(HTMLParser):
    """The links of a page, and the names that links can lead to."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.names: set[str] = {"", "top"}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.names |= {values[name] for name in ("id", "name") if name in values}
        self.links += [values[name] for name in ("href", "src") if name in values and tag != "base"]


def read_page(path: Path) -> _Page:
    """Read the links and names of a page."""
    page = _Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def dead_links(folder: Path) -> Iterator[str]:
    """Yield a line for each link of a site that leads nowhere in it."""
    pages = {path.resolve(): read_page(path) for path in sorted(folder.rglob("*.html"))}
    root = folder.resolve()
    for path, page in pages.items():
        for link in dict.fromkeys(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            place = unquote(parts.path)
            target = root / place.lstrip("/") if place.startswith("/") else path.parent / place if place else path
            target = (target / "index.html" if target.is_dir() else target).resolve()
            if not target.is_file():
                yield f"{path.relative_to(root)}: {link}"
            elif target in pages and unquote(parts.fragment) not in pages[target].names:
                yield f"{path.relative_to(root)}: {link} (no such anchor)"


if __name__ == "__main__":
    sys.exit(check_site(dead_links))
