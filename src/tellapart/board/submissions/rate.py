"""How often somebody may ask: a bucket that fills at a steady rate, one for each token or address."""

from __future__ import annotations

import ipaddress
import math
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock

from tellapart.board.submissions.refused import RefusedError

__all__ = ["Rate", "network"]

_MOST = 10_000  # buckets that are kept; the longest untouched goes first, and is full again by then


def network(host: str) -> str:
    """Return what of an address stands for one sender: all of IPv4's, half of IPv6's, of which anybody is given the rest.

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


class Rate:
    """Allow so many a minute, and as many at once.

    Args:
        a_minute: how many.
        clock: seconds, always rising.

    >>> rate = Rate(2, lambda: 0.0)
    >>> rate.spend("ann"), rate.spend("ann"), rate.spend("bob")
    (None, None, None)
    >>> rate.spend("ann")
    Traceback (most recent call last):
    tellapart.board.submissions.refused.RefusedError: more than 2 requests a minute; try again in 30 s
    """

    def __init__(self, a_minute: int, clock: Callable[[], float]) -> None:
        self.a_minute, self.clock = a_minute, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = Lock()

    def spend(self, who: str) -> None:
        """Take one.

        Raises:
            RefusedError: none is left.
        """
        with self._lock:
            now, a_second = self.clock(), self.a_minute / 60
            left, at = self._left.pop(who, (float(self.a_minute), now))
            left = min(float(self.a_minute), left + (now - at) * a_second)
            self._left[who] = (left - 1 if left >= 1 else left, now)
            while len(self._left) > _MOST:
                self._left.popitem(last=False)
        if left < 1:
            wait = math.ceil((1 - left) / a_second)
            raise RefusedError(429, f"more than {self.a_minute} requests a minute; try again in {wait} s")
