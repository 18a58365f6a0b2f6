"""Connections that keep a server waiting are closed: a request that never ends, a body that stops, an answer nobody reads.

uvicorn closes a connection that is idle after an answer, and waits for everything else without end, so that a few thousand
half requests, at no cost to who sends them, would take every descriptor that the server may open.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

from tellapart.board.submissions.rate import network

__all__ = ["EACH", "MOST", "SECONDS", "Connection"]

#: Connections at once; of one address, unless it is a proxy's.
MOST, EACH = 700, 200  # a process may open 1,024 files where nobody says otherwise

#: What a client owes -> how long it is waited for: all of a request's head; more of a body; taking more of an answer.
SECONDS = {"request": 15.0, "body": 30.0, "reading": 60.0}


class Connection(H11Protocol):
    """HTTP/1.1 as h11 reads it, strictly, with an end to all waiting; for `uvicorn.run(..., http=Connection)`.

    >>> Connection.__mro__[1].__name__
    'H11Protocol'
    """

    _owed, _since = "", 0.0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request; of too many connections the one ends that has waited longest for its own."""
        super().connection_made(transport)
        if self._of_address() > EACH:
            transport.abort()
            return
        self._wait()
        open_ = [one for one in self.connections if isinstance(one, Connection) and not one.transport.is_closing()]
        if len(open_) > MOST:
            idle = [one for one in open_ if one._owed == "request"]
            min(idle, key=lambda one: one._since).transport.abort()  # this one is among them

    def _of_address(self) -> int:
        host = self.client[0] if self.client else ""
        if host in ("", "127.0.0.1", "::1", *str(self.config.forwarded_allow_ips or "").replace(" ", "").split(",")):
            return 0  # a socket file, this machine, or a proxy: everybody comes from there
        own = network(host)
        return sum(isinstance(one, Connection) and network((one.client or ("",))[0]) == own for one in self.connections)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        super().connection_lost(exc)
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        """Take what came, and wait for the rest."""
        super().data_received(data)
        self._wait(came=True)

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._wait()

    def pause_writing(self) -> None:
        """Wait until the client takes what it asked for."""
        super().pause_writing()
        self._wait()

    def resume_writing(self) -> None:
        """It has taken some of it."""
        super().resume_writing()
        self._wait()

    def _owes(self) -> str:
        if self.flow.write_paused:
            return "reading"
        if self.cycle is None or self.cycle.response_complete:
            return "request"
        return "body" if self.cycle.more_body and not self.flow.read_paused else ""

    def _wait(self, *, came: bool = False) -> None:
        """Wait for what is owed now; a head has one deadline for all of it, whatever comes in between."""
        owed = self._owes()
        if owed == self._owed and not (came and owed == "body"):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._owed, self._since, self._timer = owed, self.loop.time(), None
        if owed and not self.transport.is_closing():
            self._timer = self.loop.call_later(SECONDS[owed], self.transport.abort)
