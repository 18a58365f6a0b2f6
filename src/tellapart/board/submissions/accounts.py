"""Accounts: users with a role, tokens that are shown once, and browser sessions.

A token is `tap_<id>_<secret>` with 256 random bits. The database holds an HMAC of the secret under the server's
key, and neither is of use without the other; a slow hash would add nothing for a secret that cannot be guessed.
Digests are compared in constant time, and for an unknown id a digest is compared, too. A token or session that was
found to be over stays so, even if the server's clock goes back.
"""

from __future__ import annotations

import hmac
import re
import secrets
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, get_args

from tellapart.board.submissions.hidden_items import keyed_hash
from tellapart.board.submissions.queue_limits import RefusedError
from tellapart.board.submissions.state import Database

COOKIE = "tellapart_session"
"""The cookie of a browser's session."""

Role = Literal["reader", "submitter", "admin"]
"""A user's role; each includes those before it."""

_ROLES: tuple[str, ...] = get_args(Role)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_DAY = 86_400.0
_SERVER = "server"  # the log's name for actions without a user


@dataclass(frozen=True, slots=True)
class Account:
    """The user of a request, and the id of the token."""

    user: str
    role: Role
    token: str

    def may(self, role: Role) -> bool:
        """Return whether the account's role includes this one."""
        return _ROLES.index(self.role) >= _ROLES.index(role)


class Accounts:
    """Users, tokens and sessions."""

    def __init__(self, database: Database, key: bytes, clock: Callable[[], float]) -> None:
        self.database, self.key, self.clock = database, key, clock

    def add(self, name: str, role: Role, *, by: str) -> None:
        """Add a user."""
        if not _NAME.fullmatch(name):
            raise RefusedError(422, f"user {name!r:.80}: up to 63 letters, digits and . _ -, first a letter or a digit")
        if name.lower() == _SERVER:
            raise RefusedError(422, f"user {name!r}: the log calls the server itself so; use another name")
        if role not in _ROLES:
            raise RefusedError(422, f"role {role!r:.80}: use one of {', '.join(_ROLES)}")
        with self.database.change() as rows:
            try:
                rows.execute("INSERT INTO user VALUES (?, ?, ?)", (name, role, self.clock()))
            except sqlite3.IntegrityError:
                raise RefusedError(409, f"user {name!r} is there already") from None
            self.database.log(rows, self.clock(), by, "user added", {"user": name, "role": role})

    def role(self, user: str) -> str:
        """Return a user's role."""
        row = self.database.one("SELECT role FROM user WHERE name = ?", user)
        if row is None:
            raise RefusedError(404, f"no user {user!r:.80}")
        return str(row["role"])

    def issue(self, user: str, *, days: float, by: str) -> tuple[str, str]:
        """Make a token for a user.

        Returns:
            Its id, by which it is revoked, and the token, which cannot be shown again.
        """
        if not 0 < days <= 3660:
            raise RefusedError(422, f"a token is good for more than 0 and up to 3660 days; got {days:g}")
        id_, secret, now = secrets.token_hex(6), secrets.token_urlsafe(32), self.clock()
        row = (id_, user, keyed_hash(self.key, "token", secret), now, now + days * _DAY)
        with self.database.change() as rows:
            try:
                rows.execute("INSERT INTO token VALUES (?, ?, ?, ?, ?, NULL)", row)
            except sqlite3.IntegrityError:
                raise RefusedError(404, f"no user {user!r:.80}") from None
            self.database.log(rows, now, by, "token issued", {"user": user, "token": id_})
        return id_, f"tap_{id_}_{secret}"

    def revoke(self, id_: str, *, by: str) -> None:
        """Revoke a token, and end its sessions."""
        with self.database.change() as rows:
            now = self.clock()
            revoked = rows.execute("UPDATE token SET revoked = ? WHERE id = ? AND revoked IS NULL", (now, id_))
            if not revoked.rowcount:
                raise RefusedError(404, f"no token {id_!r:.80} that is still good")
            rows.execute("DELETE FROM session WHERE token = ?", (id_,))
            self.database.log(rows, now, by, "token revoked", {"token": id_})

    def of_token(self, token: str, before_refusal: Callable[[str], None] = lambda _user: None) -> Account:
        """Return the account of a token."""
        _, id_, secret = ("", *token.removeprefix("tap_").partition("_")[::2])
        row = self.database.one("SELECT token.*, role FROM token JOIN user ON name = user WHERE id = ?", id_)
        digest = keyed_hash(self.key, "token", secret.encode("utf-8", "replace").decode())
        right = hmac.compare_digest(digest, row["digest"] if row else keyed_hash(self.key, "nobody's"))
        if row is not None and right and row["revoked"] is None and self.clock() < row["expires"]:
            return Account(row["user"], row["role"], row["id"])
        before_refusal(row["user"] if row is not None else "")
        if row is not None:  # a known id: a stolen, old or mistyped token; anything else is only noise
            why = "wrong secret" if not right else "revoked" if row["revoked"] is not None else "expired"
            with self.database.change() as rows:
                if why == "expired":  # for good: a clock that is set back makes it no better
                    rows.execute("UPDATE token SET revoked = expires WHERE id = ? AND revoked IS NULL", (id_,))
                self.database.log(rows, self.clock(), row["user"], "token refused", {"token": id_, "why": why})
        raise RefusedError(
            401, "this token is not good: mistyped, expired or revoked; ask an admin of the board for another"
        )

    def sign_in(self, token: str, *, hours: float, before_refusal: Callable[[str], None] = lambda _user: None) -> str:
        """Begin a browser session; return its cookie. `before_refusal` as of `of_token`."""
        account, cookie = self.of_token(token, before_refusal), secrets.token_urlsafe(32)
        with self.database.change() as rows:
            now = self.clock()
            rows.execute("DELETE FROM session WHERE expires < ?", (now,))
            digest = keyed_hash(self.key, "session", cookie)
            rows.execute("INSERT INTO session VALUES (?, ?, ?)", (digest, account.token, now + hours * 3600))
            self.database.log(rows, now, account.user, "signed in", {"token": account.token})
        return cookie

    def of_session(self, cookie: str) -> Account | None:
        """Return the account of a session; None without a cookie, or if the session or its token is over."""
        if not cookie:
            return None
        now, digest = self.clock(), keyed_hash(self.key, "session", cookie)
        row = self.database.one(
            "SELECT user, role, token.id, min(session.expires, token.expires) > ? AND revoked IS NULL AS good "
            "FROM session JOIN token ON token.id = session.token JOIN user ON name = user WHERE session.digest = ?",
            now,
            digest,
        )
        if row is None:
            return None
        if not row["good"]:  # for good: a clock that is set back opens it no more
            with suppress(sqlite3.OperationalError), self.database.change() as rows:
                rows.execute("DELETE FROM session WHERE digest = ?", (digest,))
            return None
        return Account(row["user"], row["role"], row["id"])

    def sign_out(self, cookie: str) -> None:
        """End a session."""
        with self.database.change() as rows:
            rows.execute("DELETE FROM session WHERE digest = ?", (keyed_hash(self.key, "session", cookie),))

    def form_key(self, cookie: str) -> str:
        """Return the key that a form of this session must carry, so that no other site can send one."""
        return keyed_hash(self.key, "form", cookie).hex()

    def check_form(self, cookie: str, key: str) -> None:
        """Refuse a form that is not from this session's pages."""
        if not hmac.compare_digest(self.form_key(cookie).encode(), key.encode("utf-8", "replace")):
            raise RefusedError(
                403, "this form was not sent from the board's own page, or the session is over; load it again"
            )
