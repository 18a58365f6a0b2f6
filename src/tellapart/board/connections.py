"""Connections with deadlines: a request that never ends, a body that stops or an answer that is not read ends them.

uvicorn closes only connections that are idle after an answer. A few thousand half requests, which cost their sender
nothing, would take every descriptor of the process. See decision 15 for the measurements.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

from tellapart.board.submissions.rate import network

#: Connections at once; and of one address, unless it is a proxy's.
MOST, EACH = 500, 200

#: New connections that the event loop accepts at once; three times as many may be open before it can end the first.
#: With `MOST` they are fewer than the 1,024 files that a process may open by default: at that limit, the loop accepts
#: none for a second.
BACKLOG = 128

#: Seconds for which the board waits for all of a request's head, more of a body, and a client that reads an answer.
SECONDS = {"request": 15.0, "body": 30.0, "reading": 60.0}


class Connection(H11Protocol):
    """uvicorn's HTTP/1.1 protocol with a deadline for everything that a client owes, for `uvicorn.Config(http=...)`."""

    _owed, _since = "", 0.0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a request; beyond `MOST` connections, end the one that has waited longest."""
        super().connection_made(transport)
        if self._count_of_address() > EACH:
            transport.abort()
            return
        self._set_deadline()
        active = [
            connection
            for connection in self.connections
            if isinstance(connection, Connection) and not connection.transport.is_closing()
        ]
        if len(active) > MOST:
            idle = [one for one in active if one._owed == "request"]  # this one is among them
            min(idle, key=lambda one: one._since).transport.abort()

    def _count_of_address(self) -> int:
        host = self.client[0] if self.client else ""
        if host in ("", "127.0.0.1", "::1", *str(self.config.forwarded_allow_ips or "").replace(" ", "").split(",")):
            return 0  # a socket file, this machine, or a proxy: all readers may come from there
        address = network(host)
        return sum(
            isinstance(connection, Connection) and network((connection.client or ("",))[0]) == address
            for connection in self.connections
        )

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        super().connection_lost(exc)
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        """Parse the data, and wait for the rest."""
        super().data_received(data)
        self._set_deadline(received=True)

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._set_deadline()

    def pause_writing(self) -> None:
        """Wait until the client reads its answer."""
        super().pause_writing()
        self._set_deadline()

    def resume_writing(self) -> None:
        """Stop waiting for the client to read."""
        super().resume_writing()
        self._set_deadline()

    def _waiting_for(self) -> str:
        if self.flow.write_paused:
            return "reading"
        if self.cycle is None or self.cycle.response_complete:
            return "request"
        return "body" if self.cycle.more_body and not self.flow.read_paused else ""

    def _set_deadline(self, *, received: bool = False) -> None:
        """Set the deadline for the client's next bytes; a head has one for all of it, however often a byte comes."""
        owed = self._waiting_for()
        if owed == self._owed and not (received and owed == "body"):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._owed, self._since, self._timer = owed, self.loop.time(), None
        if owed and not self.transport.is_closing():
            self._timer = self.loop.call_later(SECONDS[owed], self.transport.abort)
