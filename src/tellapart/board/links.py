"""Addresses of pages: absolute ones on a server, relative ones in a static site."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Protocol

#: Page -> its address. Every value is a number or a slug of letters, digits, `.`, `_` and `-`.
PATTERNS = {
    "home": "/",
    "home_page": "/pages/{page}",
    "agreement": "/benchmarks/agree",
    "benchmark": "/benchmarks/{slug}",
    "by": "/benchmarks/{slug}/by/{tag}/{metric}",
    "map": "/benchmarks/{slug}/map/{tag}/{metric}",
    "benchmark_ranks": "/benchmarks/{slug}/ranks",
    "items": "/benchmarks/{slug}/items/pages/{page}",
    "item": "/benchmarks/{slug}/items/{position}",
    "gallery": "/benchmarks/{slug}/gallery/{model}",
    "gallery_page": "/benchmarks/{slug}/gallery/{model}/{side}/pages/{page}",
    "model": "/models/{slug}",
    "choose": "/compare",
    "compare": "/compare/{a}/{b}",
    "compare_many": "/compare/{models}",
    "pareto": "/pareto/{cost}",
    "pareto_over": "/pareto/{cost}/{over}",
    "ranks": "/ranks",
    "hidden": "/hidden",
    "hidden_benchmark": "/hidden/{name}",
    "task_file": "/hidden/{name}/task.zip",
    "send": "/hidden/{name}/submissions",
    "sent": "/submissions",
    "submission": "/submissions/{id}",
    "sign_in": "/sign-in",
    "sign_out": "/sign-out",
    "picture": "/benchmarks/{slug}/items/{position}/pictures/{number}",
    "static": "/static/{name}",
}


def path_of(page: str, /, **args: str | int) -> str:
    """Return a page's address on a server.

    >>> path_of("item", slug="demo", position=3)
    '/benchmarks/demo/items/3'
    """
    return PATTERNS[page].format(**args)


class Links(Protocol):
    """The source of a template's links."""

    is_static: bool

    def to(self, page: str, /, **args: str | int) -> str | None:
        """Return a page's address; None for a page that is left out."""

    def data(self, kind: str) -> str:
        """Return the address of this page as `json`, `csv` or `latex`."""


class ServerLinks:
    """Links on a server, below the path `root` at which a proxy shows it.

    >>> ServerLinks().to("model", slug="clip"), ServerLinks("/board").to("home"), ServerLinks().data("csv")
    ('/models/clip', '/board/', '?format=csv')
    """

    is_static = False

    def __init__(self, root: str = "") -> None:
        self._root = root

    def to(self, page: str, /, **args: str | int) -> str:
        """Return a page's address."""
        return self._root + path_of(page, **args)

    def data(self, kind: str) -> str:
        """Return the address of this page's data."""
        return f"?format={kind}"


class StaticLinks:
    """Links from one page of a static site to others, which work from `file://`.

    >>> links = StaticLinks("/models/clip", lambda page, args: page != "item")
    >>> links.to("benchmark", slug="demo"), links.to("static", name="board.css"), links.to("home"), links.data("csv")
    ('../../benchmarks/demo/index.html', '../../static/board.css', '../../index.html', 'data.csv')
    >>> links.to("item", slug="demo", position=3) is None
    True
    """

    is_static = True

    def __init__(self, here: str, add: Callable[[str, dict[str, str | int]], bool], *, with_data: bool = True) -> None:
        self._with_data = with_data
        self._up = "../" * (len(PurePosixPath(here).parts) - 1)
        self._add = add

    def to(self, page: str, /, **args: str | int) -> str | None:
        """Return a page's file, relative to this one; None for a page that is left out."""
        if not self._add(page, args):
            return None
        path = path_of(page, **args).lstrip("/")
        if page in {"static", "picture"}:
            return self._up + path
        return self._up + (f"{path}/index.html" if path else "index.html")

    def data(self, kind: str) -> str:
        """Return the file of this page's data, in the same folder; empty if the site has none."""
        return "" if not self._with_data else f"data.{'tex' if kind == 'latex' else kind}"
