"""Authentication of requests: by a token or a browser's session, counted against a rate."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

import anyio
from fastapi import Request
from starlette.requests import ClientDisconnect

from tellapart.board.submissions.accounts import COOKIE, Account, Role
from tellapart.board.submissions.rate import network
from tellapart.board.submissions.refused import RefusedError
from tellapart.board.submissions.service import Submissions

_SMALL = 8192  # bytes of a form without a file
_SOON = 10  # seconds in which it must come


class RequestAuth:
    """The authentication of one request."""

    def __init__(self, request: Request, board: Submissions) -> None:
        self.request, self.board = request, board
        self.address = f"address {network(request.client.host) if request.client else ''}"

    @property
    def is_browser(self) -> bool:
        """Whether the request has no token, so that only a session can authenticate it."""
        return "authorization" not in self.request.headers

    def count(self) -> None:
        """Count a request that needs no account: by the session's token, or else by the address."""
        account = self._of_session()
        self.board.requests.spend(f"token {account.token}" if account else self.address)

    def account(self, role: Role, *, by_token: bool = False) -> Account:
        """Return the account of the request, and count the request."""
        account = self._of_session() if self.is_browser and not by_token else self._of_token()
        if account is None:
            raise RefusedError(401, "sign in first; a program sends its token: Authorization: Bearer TOKEN")
        self.board.requests.spend(f"token {account.token}")
        if not account.may(role):
            raise RefusedError(403, f"this takes a token of the role {role}; {account.user} is a {account.role}")
        return account

    def _of_session(self) -> Account | None:
        return self.board.accounts.of_session(self.request.cookies.get(COOKIE, ""))

    def _of_token(self) -> Account:
        scheme, _, token = self.request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise RefusedError(401, "send your token: Authorization: Bearer TOKEN")
        return self.board.accounts.of_token(token.strip(), self.count_guess)

    def count_guess(self, user: str, *, by_address: bool = True) -> None:
        """Count a wrong token by the address, and by the account that it guesses at from any address.

        Good tokens are not counted: nobody locks another user out.
        """
        if by_address:
            self.board.sign_ins.spend(self.address)
        if user:
            self.board.sign_ins.spend(f"account {user}")

    def check_site(self) -> None:
        """Refuse a form that comes from another site, by the browser's header."""
        headers = self.request.headers
        # Our own pages send `null` under `Referrer-Policy: no-referrer`; the form's key guards the request then.
        origin, host = headers.get("origin", "null"), headers.get("host", "")
        elsewhere = origin != "null" and urlsplit(origin).netloc != host
        if elsewhere or headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            raise RefusedError(403, "this form was sent from another site")

    async def small_form(self) -> dict[str, str]:
        """Read a form without files, of this site; anyone may send a few a minute."""
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
