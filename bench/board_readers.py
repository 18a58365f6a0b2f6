"""Readers that ask again as soon as they are answered, over connections that stay open.

What they wait, in milliseconds.

The client is a socket and nothing more: what an HTTP library costs for an answer is more than what the board costs.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, islice

#: A page's address, or something that gives a new one at each call.
Address = str | Callable[[], str]


def read(
    port: int, populations: Sequence[tuple[int, Sequence[Address]]], seconds: float, pause: float | None = None
) -> dict[str, object]:
    """Let several populations of readers read at once, and return what each address's readers waited."""
    return asyncio.run(_read(port, populations, seconds, pause))


async def _read(
    port: int, populations: Sequence[tuple[int, Sequence[Address]]], seconds: float, pause: float | None
) -> dict[str, object]:
    waits: dict[str, list[float]] = defaultdict(list)
    failed: dict[str, int] = defaultdict(int)
    end = time.perf_counter() + seconds

    cut = 0

    async def patient(addresses: Iterator[Address]) -> None:
        nonlocal cut
        while time.perf_counter() < end:
            try:
                await reader(addresses)
            except (OSError, asyncio.IncompleteReadError):
                cut += 1
                await asyncio.sleep(0.2)

    async def reader(addresses: Iterator[Address]) -> None:
        receiver, sender = await asyncio.open_connection("127.0.0.1", port, limit=1 << 21)
        while time.perf_counter() < end:
            address = next(addresses)
            path, kind = (address, address) if isinstance(address, str) else (address(), "pages not read before")
            started = time.perf_counter()
            sender.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAccept-Encoding: gzip\r\n\r\n".encode())
            head = (await receiver.readuntil(b"\r\n\r\n")).lower()
            length = head.index(b"content-length:") + len(b"content-length:")
            await receiver.readexactly(int(head[length : head.index(b"\r", length)]))
            waits[kind].append(1000 * (time.perf_counter() - started))
            failed[kind] += not head.startswith(b"http/1.1 200")
            if pause is not None:
                await asyncio.sleep(pause)
        sender.close()

    tasks = [
        (reader if pause is None else patient)(islice(cycle(addresses), k % len(addresses), None))
        for count, addresses in populations
        for k in range(count)
    ]
    await asyncio.gather(*tasks)
    every = [wait for waited in waits.values() for wait in waited]
    return {
        "readers": sum(count for count, _ in populations),
        "seconds": seconds,
        **({} if pause is None else {"pause": pause, "connections_cut": cut}),
        "answers_a_second": round(len(every) / seconds),
        **_told(every, sum(failed.values())),
        "of_each": {kind: _told(waited, failed[kind]) for kind, waited in sorted(waits.items())},
    }


def _told(waits: list[float], failed: int) -> dict[str, float]:
    ordered = sorted(waits)
    return {
        "answers": len(ordered),
        "failed": failed,
        "median": round(statistics.median(ordered), 1),
        "p95": round(ordered[int(0.95 * len(ordered))], 1),
        "slowest": round(ordered[-1], 1),
    }
