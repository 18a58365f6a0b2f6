"""A thread that runs until it is asked to end; an exception in a turn, or between two, does not stop it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Thread


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
