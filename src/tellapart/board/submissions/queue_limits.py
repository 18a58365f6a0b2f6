"""Limits on the files of hidden benchmarks: closing, files a day and in all, and uploads at the same time."""

from __future__ import annotations

import ipaddress
import math
import sqlite3
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock

from tellapart.board.submissions.hidden import HiddenBenchmark
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
_DAY = 86_400
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
