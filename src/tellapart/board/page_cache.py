"""Rendered pages, kept until the records change: most readers are answered without the application.

If many ask for a page that is not in the cache, one request renders it and the others wait for that one.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from http import HTTPStatus
from threading import RLock, Semaphore

from starlette.types import ASGIApp, Receive, Scope, Send

from tellapart.board.store import Store

#: Pages up to so many bytes are not compressed: they fit a few packets anyway.
_SMALL = 4096

#: Pages rendered at once. Rendering is computing, and Python's threads take turns with the one that answers readers;
#: two, since a page may wait for the database.
_AT_ONCE = 2

#: Query string -> format, "" for the one of the Accept header; the application answers any other query.
_FORMATS = {b"": "", **{b"format=" + name.encode(): name for name in ("html", "json", "csv", "latex")}}


def preferred_format(accept: str) -> str:
    """Return the format for a request without `?format=`: HTML, or JSON if `Accept` names that and not HTML.

    >>> preferred_format("text/html,*/*"), preferred_format("application/json"), preferred_format("")
    ('html', 'json', 'html')
    """
    return "json" if "application/json" in accept and "text/html" not in accept else "html"


@dataclass(frozen=True, slots=True)
class CachedPage:
    """A page as it is sent."""

    media_type: str
    content: bytes
    filename: str = ""  # the name under which a browser saves it; empty for HTML and JSON

    compressed: bytes = field(init=False)  # the content by gzip; empty for small pages
    tag: str = field(init=False)  # its ETag; weak, since it is the same for both encodings

    def __post_init__(self) -> None:
        compressed = gzip.compress(self.content, 1, mtime=0) if len(self.content) > _SMALL else b""
        object.__setattr__(self, "compressed", compressed)
        object.__setattr__(self, "tag", f'W/"{hashlib.sha256(self.content).hexdigest()[:16]}"')

    def answer(self, known: str, encodings: str) -> tuple[int, dict[str, str], bytes]:
        """Return the status, headers and bytes that answer one request."""
        # One address has several formats, and a page is out of date as soon as a record is new.
        headers = {"etag": self.tag, "vary": "Accept, Accept-Encoding", "cache-control": "no-cache"}
        if known == self.tag:
            return int(HTTPStatus.NOT_MODIFIED), headers, b""
        content = self.content
        if self.compressed and "gzip" in encodings:
            content, headers["content-encoding"] = self.compressed, "gzip"
        if self.filename:
            headers["content-disposition"] = f'attachment; filename="{self.filename}"'
        headers |= {"content-type": self.media_type, "content-length": str(len(content))}
        return int(HTTPStatus.OK), headers, content


class PageCache:
    """The most recently used pages of the newest version of the records, within a budget of bytes."""

    def __init__(self, budget: int = 64 << 20) -> None:
        self._budget, self._version = budget, -1
        self._pages: OrderedDict[Hashable, CachedPage] = OrderedDict()
        self._under_way: dict[tuple[int, Hashable], Future[CachedPage]] = {}
        self._lock, self._turns = RLock(), Semaphore(_AT_ONCE)

    def find(self, version: int, key: Hashable) -> CachedPage | None:
        """Return a page of this version if it is in the cache."""
        with self._lock:
            page = self._pages.get(key) if version == self._version else None
            if page is not None:
                self._pages.move_to_end(key)
            return page

    def get(self, version: int, key: Hashable, render: Callable[[], CachedPage]) -> CachedPage:
        """Return the page of a version of the records, rendering it if it is neither cached nor under way.

        Requests during the rendering wait, and get that page or that error; a request for a newer version never gets
        a page of an older one.
        """
        with self._lock:
            if (page := self.find(version, key)) is not None:
                return page
            if (other := self._under_way.get((version, key))) is None:
                future = self._under_way[version, key] = Future[CachedPage]()
        if other is not None:
            return other.result()
        try:
            with self._turns:
                page = render()
            self._put(version, key, page)
            future.set_result(page)
        except BaseException as error:
            future.set_exception(error)
            raise
        finally:
            del self._under_way[version, key]
        return page

    def _put(self, version: int, key: Hashable, page: CachedPage) -> None:
        """Keep a page, unless a newer version is known."""
        with self._lock:
            if version > self._version:
                self._pages.clear()
                self._version = version
            if version == self._version:
                self._pages[key] = page
                while (
                    sum(len(stored.content) + len(stored.compressed) for stored in self._pages.values()) > self._budget
                ):
                    self._pages.popitem(last=False)


class PageCacheMiddleware:
    """ASGI middleware that answers with cached pages of (path, format) before the application sees the request."""

    def __init__(self, app: ASGIApp, cache: PageCache, store: Store) -> None:
        self._app, self._cache, self._store = app, cache, store
        # A separate thread for the version: the application's may all be rendering pages.
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="version")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        form = _FORMATS.get(scope["query_string"]) if scope["type"] == "http" and scope["method"] == "GET" else None
        if form is None:
            await self._app(scope, receive, send)
            return
        # Of a repeated header the first counts.
        request = {name: value.decode("latin-1") for name, value in reversed(scope["headers"])}
        version = self._store.known()
        if version is None:
            version = await asyncio.get_running_loop().run_in_executor(self._executor, self._store.latest)
        page = self._cache.find(version, (scope["path"], form or preferred_format(request.get(b"accept", ""))))
        if page is None:
            await self._app(scope, receive, send)
            return
        status, headers, content = page.answer(request.get(b"if-none-match", ""), request.get(b"accept-encoding", ""))
        raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": raw})
        await send({"type": "http.response.body", "body": content})
