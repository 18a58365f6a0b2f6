"""What every answer tells the browser: nothing but our own files, no frame, no guessing of types; and whom it answers at all.

A page that somebody visits can make its own name point at this machine (DNS rebinding), and would then read a board that is
served to this machine alone, as if it were its own. Requests say which name they are for, and that page's is not ours.
"""

from __future__ import annotations

from collections.abc import Collection

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["HEADERS", "LOOPBACK", "KnownNames", "SecurityHeaders"]

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
"""Names of this machine, for itself."""

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
"""Header -> value."""


class SecurityHeaders:
    """ASGI middleware that adds `HEADERS` to every answer, errors included; a header that is set already stays.

    >>> HEADERS["X-Content-Type-Options"]
    'nosniff'
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request.

        >>> SecurityHeaders.__call__.__name__
        '__call__'
        """

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, guarded if scope["type"] == "http" else send)


class KnownNames:
    """ASGI middleware that answers requests for the board's own names alone, and of one meaning alone.

    Args:
        app: the application.
        names: without ports, as a browser has them in the address; any if there are none.

    >>> KnownNames(PlainTextResponse("hello"), ["Board.example.org"]).names
    {'board.example.org'}
    """

    def __init__(self, app: ASGIApp, names: Collection[str] = ()) -> None:
        self._app, self.names = app, {name.lower() for name in names}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request.

        >>> KnownNames.__call__.__name__
        '__call__'
        """
        answer: ASGIApp = self._app
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            if self.names and _name(headers.get("host", "")) not in self.names:
                answer = PlainTextResponse("This board is not known under that name; it takes --name.\n", 421)
            elif "transfer-encoding" in headers and "content-length" in headers:
                # A proxy may take one to tell where the request ends, and we the other.
                answer = PlainTextResponse("A request has one length.\n", 400, {"Connection": "close"})
        await answer(scope, receive, send)


def _name(host: str) -> str:
    """Return a `Host` header without its port: an IPv6 address keeps its brackets."""
    head, _, port = host.rpartition(":")
    return (head if head and port.isdigit() else host).lower()
