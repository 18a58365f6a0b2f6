"""The board as a static site: every page that a link leads to, with its data and its pictures."""

from __future__ import annotations

import json
import re
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Any

from tellapart.board.records import Tables
from tellapart.board.rendering import PAGES, StaticLinks, as_csv, as_latex, asset, path_of, render
from tellapart.board.submissions.service import Submissions
from tellapart.board.views.items import PAGE, QUERIES, collect_outcomes, picture
from tellapart.board.views.ranks import MOST, choose_page
from tellapart.errors import UnknownNameError
from tellapart.records.run_folder import write_blocks

#: Pages that a small site leaves out: a benchmark's parts, and how its ranking changes.
_LARGE_PAGES = frozenset({"by", "map", "benchmark_ranks"})

#: In a small site numbers have no bars, and lines no indentation.
_BAR = re.compile(r'<svg class="bar".*?</svg>|(?<=\n)[ \t\n]+')

PageKey = tuple[str, tuple[tuple[str, str | int], ...]]


def export_site(
    tables: Tables,
    out: Path,
    *,
    submissions: Submissions | None = None,
    most_items: int = 500,
    most_compared: int = MOST,
    small: bool = False,
) -> int:
    """Write the board to a folder, and return the number of pages.

    The links are followed from the first page on, so a page is written exactly if a link leads to it.
    """
    return _Crawl(tables, out, submissions, (most_items, most_compared), small=small).run()


class _Crawl:
    def __init__(
        self, tables: Tables, out: Path, submissions: Submissions | None, most: tuple[int, int], *, small: bool
    ) -> None:
        self._small = small
        self._tables, self._out, self._hidden = tables, out, submissions
        self._most, most_compared = most
        self._choice = choose_page(tables, most=most_compared)
        self._compared = {link.args[side] for row in self._choice.pairs for link in row for side in "ab"}
        self._added: dict[PageKey, bool] = {}  # whether an address that was met is in the site
        self._queue: deque[PageKey] = deque()
        self._items: dict[str, set[int]] = {}

    def run(self) -> int:
        self._add_page("home", {})
        pages = 0
        while self._queue:
            name, args = self._queue.popleft()
            self._write_page(name, dict(args))
            pages += 1
        return pages

    def _add_page(self, page: str, args: dict[str, str | int]) -> bool:
        """Return whether a page is in the site; a new one is written later, a file at once."""
        key = (page, tuple(sorted(args.items())))
        if key not in self._added:
            is_file = page in ("static", "picture")
            self._added[key] = self._write_file(page, args) if is_file else self._is_in(page, args)
            if self._added[key] and not is_file:
                self._queue.append(key)
        return self._added[key]

    def _write_file(self, page: str, args: dict[str, Any]) -> bool:
        with suppress(UnknownNameError):
            self._write(path_of(page, **args), asset(**args) if page == "static" else picture(self._tables, **args)[1])
            return True
        return False

    def _is_in(self, page: str, args: dict[str, str | int]) -> bool:
        if self._small and page in _LARGE_PAGES:
            return False
        if page in ("compare", "compare_many"):
            return self._compared.issuperset(args.values() if page == "compare" else str(args["models"]).split("+"))
        if page in ("items", "gallery_page"):
            return (int(args["page"]) - 1) * (PAGE if page == "items" else QUERIES) < max(1, self._most)
        if page == "item":  # those that most models fail
            slug = str(args["slug"])
            if slug not in self._items:
                failed = (collect_outcomes(self._tables, self._tables.benchmarks[slug]) < 1).sum(axis=1)
                self._items[slug] = set((-failed).argsort(kind="stable")[: self._most].tolist())
            return args["position"] in self._items[slug]
        return True

    def _write_page(self, name: str, args: dict[str, Any]) -> None:
        page_path = path_of(name, **args)
        links = StaticLinks(page_path, self._add_page, with_data=not self._small)
        if name not in PAGES:
            self._write_hidden(page_path, links, **args)
            return
        page, hidden = PAGES[name], self._hidden is not None
        view = self._choice if name == "choose" else page.gather(self._tables, **args)
        content = render(page.template, links, view=view, board=self._tables.settings, hidden=hidden)
        self._write(f"{page_path}/index.html", _BAR.sub("", content) if self._small else content)
        if name != "home_page" and not self._small:  # the first page's data has all models
            self._write(f"{page_path}/data.json", view.model_dump_json(indent=1) + "\n")
            if table := view.table():
                self._write(f"{page_path}/data.csv", as_csv(table))
                self._write(f"{page_path}/data.tex", as_latex(view.title, table))

    def _write_hidden(self, page_path: str, links: StaticLinks, name: str = "") -> None:
        """Write the leaderboard of a hidden benchmark, or the list of them."""
        assert self._hidden is not None  # noqa: S101  (no other page links to them)
        content = self._hidden.leaderboard(name) if name else self._hidden.listing()
        self._write(f"{page_path}/index.html", render("standings" if name else "hidden", links, **content))
        self._write(f"{page_path}/data.json", json.dumps(content, indent=1) + "\n")

    def _write(self, path: str, content: str | bytes) -> None:
        """Write a file; after a power cut, the same command makes it again."""
        data = content.encode() if isinstance(content, str) else content
        write_blocks(self._out / path.lstrip("/"), [data], synced=False)
