"""Pages that are made already are answered before the application looks at the request: no thread, no validation."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from starlette.types import ASGIApp, Receive, Scope, Send

from tellapart.board.made_pages import MadePages
from tellapart.board.store import Store

__all__ = ["FORMATS", "MadeFirst", "accepted"]

#: What a query may be, and the form that it asks for; with any other query the application answers.
FORMATS = {b"": "", **{b"format=" + name.encode(): name for name in ("html", "json", "csv", "latex")}}


def accepted(accept: str) -> str:
    """Return the form that a request without `?format=` asks for: HTML, or JSON if it names that and not HTML.

    >>> accepted("text/html,*/*"), accepted("application/json"), accepted("")
    ('html', 'json', 'html')
    """
    return "json" if "application/json" in accept and "text/html" not in accept else "html"


class MadeFirst:
    """ASGI middleware that answers what is in `MadePages` under (path, form), if it is of the newest records.

    >>> MadeFirst.__call__.__name__
    '__call__'
    """

    def __init__(self, app: ASGIApp, made: MadePages, store: Store) -> None:
        self._app, self._made, self._store = app, made, store
        # A thread of its own: those of the application may all be making pages.
        self._asking = ThreadPoolExecutor(1, thread_name_prefix="version")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request.

        >>> MadeFirst.__call__.__name__
        '__call__'
        """
        form = FORMATS.get(scope["query_string"]) if scope["type"] == "http" and scope["method"] == "GET" else None
        if form is None:
            await self._app(scope, receive, send)
            return
        asked = _first_of(scope)
        version = self._store.known()
        if version is None:
            version = await asyncio.get_running_loop().run_in_executor(self._asking, self._store.latest)
        body = self._made.find(version, (scope["path"], form or accepted(asked.get(b"accept", ""))))
        if body is None:
            await self._app(scope, receive, send)
            return
        status, headers, content = body.answer(asked.get(b"if-none-match", ""), asked.get(b"accept-encoding", ""))
        raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": raw})
        await send({"type": "http.response.body", "body": content})


def _first_of(scope: Scope) -> Mapping[bytes, str]:
    found: dict[bytes, str] = {}
    for name, value in scope["headers"]:
        found.setdefault(name, value.decode("latin-1"))
    return found
