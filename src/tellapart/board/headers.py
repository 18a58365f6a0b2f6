"""Middleware for every answer: headers that confine the browser to the board, one length a request, HEAD as GET."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tellapart.errors import plain, quote

#: Names of this machine, for itself.
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")

#: Header -> value.
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class SecurityHeaders:
    """ASGI middleware that adds `HEADERS` to every answer, except those that are set already, errors included.

    It refuses a request with two lengths: a proxy before the board may find its end by one, and the board by the other.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        app, request = self._app, Headers(scope=scope)
        if "transfer-encoding" in request and "content-length" in request:
            app = PlainTextResponse("A request has one length.\n", 400, {"Connection": "close"})
        await app(scope, receive, send_with_headers)


class HeadRequests:
    """ASGI middleware that answers HEAD as GET, without the body: links are looked at that way, and monitors ask so."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def send_without_body(message: Message) -> None:
            await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

        await self._app({**scope, "method": "GET"}, receive, send_without_body)


class BoardAddress:
    """ASGI middleware for a board's names and its path: it refuses other hosts, and logs 20 with their option."""

    def __init__(self, app: ASGIApp, names: Iterable[str], root: str = "") -> None:
        self._app, self._root, self._logged = app, root, set[str]()
        self._trusted = TrustedHostMiddleware(self._enter, sorted(names), www_redirect=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await self._trusted(scope, receive, send)
        host = Headers(raw=scope.get("headers", [])).get("host", "").partition(":")[0][:80]
        if "entered" not in scope and host not in self._logged and len(self._logged) < 20:  # anybody can send any
            self._logged.add(host)
            logging.getLogger(__name__).warning(
                "refused a request for the host %s: --name %s lets it in; a proxy must send the browser's "
                "(proxy_set_header Host $host)",
                plain(quote(host)),
                plain(host),
            )

    async def _enter(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["entered"] = True
        if scope["type"] == "http":  # some proxies take the path off, others do not
            path = scope["path"] if scope["path"] != self._root else f"{self._root}/"
            path = path if path.startswith(f"{self._root}/") else self._root + path
            scope = {**scope, "root_path": self._root, "path": path}
        await self._app(scope, receive, send)
