"""Limits on requests a minute: a bucket for each token or address, refilled at a steady rate."""

from __future__ import annotations

import ipaddress
import math
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock

from tellapart.board.submissions.refused import RefusedError

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
