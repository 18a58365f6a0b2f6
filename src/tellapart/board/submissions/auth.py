"""Who a request comes from, and what it is allowed; a refusal as an answer."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import anyio
from fastapi import Request, Response
from fastapi.responses import HTMLResponse, JSONResponse
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect

from tellapart.board.submissions.accounts import COOKIE, Account, Role
from tellapart.board.submissions.pages import wants_page, written
from tellapart.board.submissions.rate import network
from tellapart.board.submissions.refused import RefusedError
from tellapart.board.submissions.service import Submissions

__all__ = ["Asking", "RefusingRoute"]

_SMALL = 8192  # bytes of a form without a file
_SOON = 10  # seconds in which it has come


#: A full disk, or a database that another process holds.
_UNABLE = RefusedError(503, "the server cannot do this now; nothing was changed, try again later")


class RefusingRoute(APIRoute):
    """A route whose refusals are answers: `{"detail": why}`, or a page that says so.

    >>> RefusingRoute.__mro__[1].__name__
    'APIRoute'
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler, wrapped."""
        handler = super().get_route_handler()

        async def refusing(request: Request) -> Response:
            try:
                return await handler(request)
            except (RefusedError, sqlite3.OperationalError) as error:
                refused = error if isinstance(error, RefusedError) else _UNABLE
                headers = {"Cache-Control": "no-store"}
                if refused.status == 401:
                    headers["WWW-Authenticate"] = "Bearer"
                if wants_page(request):
                    return HTMLResponse(written("refused", {"refused": refused}), refused.status, headers)
                return JSONResponse({"detail": str(refused)}, refused.status, headers)

        return refusing


class Asking:
    """A request, seen as somebody's.

    >>> Asking.__init__.__name__
    '__init__'
    """

    def __init__(self, request: Request, board: Submissions) -> None:
        self.request, self.board = request, board
        self.address = f"address {network(request.client.host) if request.client else ''}"

    @property
    def browser(self) -> bool:
        """Whether it has no token of its own, so that only a session can speak for it."""
        return "authorization" not in self.request.headers

    def count(self) -> None:
        """Count a request that anybody may make: to whoever is signed in, or else to the address.

        Raises:
            RefusedError: too often.
        """
        cookie = self.request.cookies.get(COOKIE, "")
        found = self.board.accounts.of_session(cookie) if cookie else None
        self.board.requests.spend(f"token {found.token}" if found else self.address)

    def account(self, role: Role, *, by_token: bool = False) -> Account:
        """Return who asks, and count the request.

        Args:
            role: what the request takes.
            by_token: a session is not enough.

        Raises:
            RefusedError: nobody who may; or too often.
        """
        found = self._of_session() if self.browser and not by_token else self._of_token()
        self.board.requests.spend(f"token {found.token}")
        if not found.may(role):
            raise RefusedError(403, f"this takes a token of the role {role}; {found.user} is a {found.role}")
        return found

    def _of_token(self) -> Account:
        scheme, _, token = self.request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise RefusedError(401, "send your token: Authorization: Bearer TOKEN")
        # Guesses are counted, and good tokens are not.
        return self.board.accounts.of_token(token.strip(), lambda: self.board.sign_ins.spend(self.address))

    def _of_session(self) -> Account:
        cookie = self.request.cookies.get(COOKIE, "")
        found = self.board.accounts.of_session(cookie) if cookie else None
        if found is None:
            raise RefusedError(401, "sign in first; a program sends its token: Authorization: Bearer TOKEN")
        return found

    def check_site(self) -> None:
        """Refuse a form of another site, as far as the browser says where it is from.

        Raises:
            RefusedError: it is of another.
        """
        headers = self.request.headers
        # `null` is what a page of ours sends under `Referrer-Policy: no-referrer`; the form's key is what guards it then.
        origin, host = headers.get("origin", "null"), headers.get("host", "")
        elsewhere = origin != "null" and urlsplit(origin).netloc != host
        if elsewhere or headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            raise RefusedError(403, "this form was sent from another site")

    async def small_form(self) -> dict[str, str]:
        """Read a form without files, of this site, that anybody may send a few times a minute.

        Raises:
            RefusedError: it is of another site, too long, too slow, no form, or sent too often.
        """
        self.check_site()
        self.board.sign_ins.spend(self.address)
        body = b""
        try:
            with anyio.fail_after(_SOON):
                async for piece in self.request.stream():
                    body += piece
                    if len(body) > _SMALL:
                        raise RefusedError(413, f"this form takes up to {_SMALL} bytes")
        except (TimeoutError, ClientDisconnect) as error:
            raise RefusedError(408, "the form did not come whole") from error
        try:
            return dict(parse_qsl(body.decode("ascii"), max_num_fields=8))
        except ValueError as error:
            raise RefusedError(422, "the body is no form") from error
