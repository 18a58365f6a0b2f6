"""A thread that reads new and changed runs into a board while it is served."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Thread

from tellapart.board.records import Board, ReportProblem
from tellapart.errors import TellapartError, first_line


class TirelessThread(Thread):
    """A thread that takes turn after turn; if it ends all the same, so does the process, and a supervisor sees that."""

    def __init__(self, name: str, turn: Callable[[], float], over: Event, *, wait: float = 0.0) -> None:
        super().__init__(name=name, daemon=True)
        self._turn, self._over, self._pause = turn, over, wait

    def run(self) -> None:
        """Take turns until it is over."""
        try:
            while not self._over.is_set():
                with suppress(BaseException):  # even errors that would end a thread: nobody else does its work
                    while not self._over.wait(self._pause):
                        self._pause = self._turn()
        finally:
            if not self._over.is_set():
                os.kill(os.getpid(), signal.SIGTERM)


#: Between two looks at the folders; after a failure twice as long each time, up to the last.
SECONDS, _MOST_SECONDS = 5.0, 30.0


class Watch:
    """A thread that looks for changes every few seconds, as long as its `with` block lasts.

    Nothing that a look raises ends it: it is reported, and the next look tries the same again.
    """

    def __init__(self, board: Board, report: ReportProblem, *, seconds: float = SECONDS) -> None:
        self._board, self._report, self._seconds, self._wait = board, report, seconds, seconds
        self._good, self._over = time.monotonic(), Event()
        self._thread = TirelessThread("watch", self._take_turn, self._over, wait=seconds)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    @property
    def age(self) -> float:
        """Seconds since the board was last known to show the content of its folders."""
        return time.monotonic() - self._good

    def _take_turn(self) -> float:
        """Look, and return the seconds until the next look."""
        try:
            self._board.read_in(self._report)
            self._good, self._wait = time.monotonic(), self._seconds
        except BaseException as error:
            expected = isinstance(error, TellapartError)
            reason = str(error) if expected else f"{type(error).__name__}: {first_line(error)}"
            self._wait = min(2 * self._wait, max(_MOST_SECONDS, self._seconds))
            with suppress(Exception):  # standard error may be closed
                again = f"it is tried again in {self._wait:g} s"
                self._report(f"the board could not be brought up to date: {reason}; {again}")
        return self._wait
