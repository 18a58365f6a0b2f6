"""Connections with deadlines: a request that never ends, a body that stops or an answer that is not read ends them.

uvicorn closes only connections that are idle after an answer. A few thousand half requests, which cost their sender
nothing, would take every descriptor of the process. See decision 15 for the measurements.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from tellapart.board.submissions.queue_limits import network
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

    It answers HEAD as GET, without the body: links are looked at that way, and monitors ask so. It refuses a request
    with two lengths: a proxy before the board may find its end by one, and the board by the other.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        method = scope["method"]

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            elif method == "HEAD":
                message = {**message, "body": b""}
            await send(message)

        app, request = self._app, Headers(scope=scope)
        if "transfer-encoding" in request and "content-length" in request:
            app = PlainTextResponse("A request has one length.\n", 400, {"Connection": "close"})
        await app({**scope, "method": "GET" if method == "HEAD" else method}, receive, send_with_headers)


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


#: Connections at once; and of one address, unless it is a proxy's.
MOST, EACH = 500, 200

#: New connections that the event loop accepts at once; three times as many may be open before it can end the first.
#: With `MOST` they are fewer than the 1,024 files that a process may open by default: at that limit, the loop accepts
#: none for a second.
BACKLOG = 128

#: Seconds for which the board waits for all of a request's head, more of a body, and a client that reads an answer.
SECONDS = {"request": 15.0, "body": 30.0, "reading": 60.0}


class Connection(H11Protocol):
    """uvicorn's HTTP/1.1 protocol with a deadline for everything that a client owes, for `uvicorn.Config(http=...)`."""

    _owed, _since = "", 0.0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a request; beyond `MOST` connections, end the one that has waited longest."""
        super().connection_made(transport)
        if self._count_of_address() > EACH:
            transport.abort()
            return
        self._set_deadline()
        active = [other for other in self._others() if not other.transport.is_closing()]
        if len(active) > MOST:
            idle = [other for other in active if other._owed == "request"]  # this one is among them
            min(idle, key=lambda other: other._since).transport.abort()

    def _others(self) -> list[Connection]:
        return [connection for connection in self.connections if isinstance(connection, Connection)]

    def _count_of_address(self) -> int:
        host = self.client[0] if self.client else ""
        if host in ("", "127.0.0.1", "::1", *str(self.config.forwarded_allow_ips or "").replace(" ", "").split(",")):
            return 0  # a socket file, this machine, or a proxy: all readers may come from there
        return [network((other.client or ("",))[0]) for other in self._others()].count(network(host))

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        super().connection_lost(exc)
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        """Parse the data, and wait for the rest."""
        super().data_received(data)
        self._set_deadline(received=True)

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._set_deadline()

    def pause_writing(self) -> None:
        """Wait until the client reads its answer."""
        super().pause_writing()
        self._set_deadline()

    def resume_writing(self) -> None:
        """Stop waiting for the client to read."""
        super().resume_writing()
        self._set_deadline()

    def _set_deadline(self, *, received: bool = False) -> None:
        """Set the deadline for the client's next bytes; a head has one for all of it, however often a byte comes."""
        if self.flow.write_paused:
            owed = "reading"
        elif self.cycle is None or self.cycle.response_complete:
            owed = "request"
        else:
            owed = "body" if self.cycle.more_body and not self.flow.read_paused else ""
        if owed == self._owed and not (received and owed == "body"):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._owed, self._since, self._timer = owed, self.loop.time(), None
        if owed and not self.transport.is_closing():
            self._timer = self.loop.call_later(SECONDS[owed], self.transport.abort)
