"""Accounts: users with a role, tokens that are shown once, and browser sessions; and the limits on what they send.

A token is `tap_<id>_<secret>` with 256 random bits. The database holds an HMAC of the secret under the server's
key, and neither is of use without the other; a slow hash would add nothing for a secret that cannot be guessed.
Digests are compared in constant time, and for an unknown id a digest is compared, too. A token or session that was
found to be over stays so, even if the server's clock goes back.
"""

from __future__ import annotations

import hmac
import ipaddress
import math
import re
import secrets
import sqlite3
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Lock
from typing import Literal, get_args

from tellapart.board.submissions.hidden import HiddenBenchmark
from tellapart.board.submissions.hidden_items import keyed_hash
from tellapart.board.submissions.state import Database
from tellapart.errors import TellapartError


class RefusedError(TellapartError):
    """A refused request: nothing was changed, and nothing was counted.

    Attributes:
        status: of HTTP: 401 no valid token, 403 not allowed, 404 not found, 408 too slow, 409 closed, 413 too large,
            422 invalid, 429 too often, 503 busy, 507 no room on the disk.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


_MOST = 10_000  # buckets; the one unused for longest is dropped first, and is full again by then


def network(host: str) -> str:
    """Return the part of an address that is one sender's: all of IPv4; of IPv6 64 bits, as everyone gets the others.

    >>> network("192.0.2.7"), network("2001:db8::5:6:7:8"), network("::ffff:192.0.2.7"), network("testclient")
    ('192.0.2.7', '2001:db8::/64', '192.0.2.7', 'testclient')
    """
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return host
    mapped = address.ipv4_mapped
    return str(mapped) if mapped else str(ipaddress.IPv6Network((address, 64), strict=False))


class RateLimit:
    """A limit on requests a minute; as many may come at once."""

    def __init__(self, a_minute: int, clock: Callable[[], float]) -> None:
        self.a_minute, self.clock = a_minute, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # sender -> (requests left, at this time)
        self._lock = Lock()

    def spend(self, sender: str) -> None:
        """Count one request."""
        with self._lock:
            now, a_second = self.clock(), self.a_minute / 60
            tokens, at = self._buckets.pop(sender, (float(self.a_minute), now))
            tokens = min(float(self.a_minute), tokens + (now - at) * a_second)
            self._buckets[sender] = (tokens - 1 if tokens >= 1 else tokens, now)
            while len(self._buckets) > _MOST:
                self._buckets.popitem(last=False)
        if tokens < 1:
            wait = math.ceil((1 - tokens) / a_second)
            raise RefusedError(429, f"more than {self.a_minute} requests a minute; try again in {wait} s")


#: Uncounted files of a user in a day, over all benchmarks: each costs the server time and the user no attempt.
REFUSED_A_DAY = 20
_IN_COUNTED = "state IN ('validated', 'measuring', 'done', 'stopped')"
_UNCOUNTED = f"SELECT count(*) FROM submission WHERE user = ? AND created >= ? AND NOT {_IN_COUNTED}"  # noqa: S608
_TOTAL_AND_TODAY = f"""
SELECT count(*), coalesce(sum(created >= ?), 0) FROM submission WHERE benchmark = ? AND user = ? AND {_IN_COUNTED}
"""  # noqa: S608  (constants)


class QueueLimits:
    """Limits on files that count, and the closings of benchmarks, by date or by hand.

    A closing is final, since private numbers are published from then on. One by date is written to the database before
    that: a clock that is set back, or a later date in the board file, does not open the benchmark again.
    """

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self.database, self.clock = database, clock

    def check(self, rows: sqlite3.Connection, user: str, benchmark: HiddenBenchmark) -> None:
        """Refuse a file to a closed benchmark, or beyond a limit; reads in the caller's transaction."""
        name, now = benchmark.name, self.clock()
        by_hand = rows.execute("SELECT at FROM closing WHERE benchmark = ?", (name,)).fetchone()
        if by_hand or self._is_past(benchmark):
            raise RefusedError(409, f"{name} is closed; its private numbers are on the board")
        midnight = now - now % _DAY
        next_day = f"the next day (UTC) begins in {(midnight + _DAY - now) / 3600:.1f} hours"
        if rows.execute(_UNCOUNTED, (user, midnight)).fetchone()[0] >= REFUSED_A_DAY:
            raise RefusedError(
                429, f"{REFUSED_A_DAY} files of {user} wait or came to nothing today, and no more are read; {next_day}"
            )
        if used := self.find_used_up(rows, user, benchmark, now):
            when = f"; {next_day}" if used.startswith("today") else ""
            raise RefusedError(429, f"{user} has used {used} to {name}{when}")

    @staticmethod
    def find_used_up(rows: sqlite3.Connection, user: str, benchmark: HiddenBenchmark, at: float) -> str:
        """Return `all submissions (20)` or `today's submissions (3)` if a user's counted files reach it, or ''."""
        left, today = QueueLimits.count_left(rows, user, benchmark, at)
        if not left:
            return f"all submissions ({benchmark.total})"
        return "" if today else f"today's submissions ({benchmark.daily})"

    @staticmethod
    def count_left(rows: sqlite3.Connection, user: str, benchmark: HiddenBenchmark, at: float) -> tuple[int, int]:
        """Return how many more files of a user may count: in all, and on the day (UTC) of a moment."""
        total, today = rows.execute(_TOTAL_AND_TODAY, (at - at % _DAY, benchmark.name, user)).fetchone()
        left = max(0, benchmark.total - total)
        return left, min(left, max(0, benchmark.daily - today))

    def is_closed(self, benchmark: HiddenBenchmark) -> bool:
        """Return whether a benchmark is closed, and the closing is written down."""
        if self.database.one("SELECT at FROM closing WHERE benchmark = ?", benchmark.name) is not None:
            return True
        if not self._is_past(benchmark):
            return False
        try:
            self.close(benchmark.name, by="server")
        except sqlite3.OperationalError:  # a full disk: no file is taken any more, and nothing published yet
            return False
        return True

    def _is_past(self, benchmark: HiddenBenchmark) -> bool:
        return benchmark.closes is not None and self.clock() >= benchmark.closes.timestamp()

    def close(self, name: str, *, by: str) -> bool:
        """Write down that a benchmark is closed from now on; return False if it was already."""
        with self.database.change() as rows:
            closing = rows.execute("INSERT OR IGNORE INTO closing VALUES (?, ?)", (name, self.clock()))
            if closing.rowcount:
                self.database.log(rows, self.clock(), by, "benchmark closed", {"benchmark": name})
            return bool(closing.rowcount)


class UploadLimit:
    """A limit on uploads at the same time: each holds a connection, memory and room on the disk."""

    def __init__(self, *, each: int = 2, most: int = 8) -> None:
        self.each, self.most = each, most
        self._uploads: Counter[str] = Counter()
        self._lock = Lock()

    @contextmanager
    def hold(self, user: str) -> Iterator[int]:
        """Hold a place while the block lasts; yield how many other places are held."""
        with self._lock:
            others = self._uploads.total()
            if self._uploads[user] >= self.each:
                raise RefusedError(429, f"{user} is sending as many as may come, {self.each}; wait until one has come")
            if others >= self.most:
                raise RefusedError(503, "too many files are being sent at this moment; nothing was counted, try again")
            self._uploads[user] += 1
        try:
            yield others
        finally:
            with self._lock:
                self._uploads[user] -= 1
                self._uploads += Counter()  # drops users without an upload


COOKIE = "tellapart_session"
"""The cookie of a browser's session."""

Role = Literal["reader", "submitter", "admin"]
"""A user's role; each includes those before it."""

_ROLES: tuple[str, ...] = get_args(Role)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_DAY = 86_400
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
