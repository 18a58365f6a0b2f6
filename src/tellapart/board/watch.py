"""New runs appear on a board that is being served: its folders are looked at every few seconds."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Thread

from tellapart.board.records import read_in, signature
from tellapart.board.settings import BoardSettings
from tellapart.board.store import Store
from tellapart.errors import TellapartError

__all__ = ["SECONDS", "Watch"]

#: Between two looks.
SECONDS = 5.0


class Watch:
    """A thread that reads in what changed; it ends with the block.

    >>> with Store("sqlite://") as store, Watch(store, BoardSettings(), print) as watch:
    ...     watch.look()
    False
    """

    def __init__(
        self, store: Store, settings: BoardSettings, problem: Callable[[str], None], *, seconds: float = SECONDS
    ) -> None:
        self._store, self._settings, self._problem, self._seconds = store, settings, problem, seconds
        self._seen = signature(settings)
        self._over = Event()
        self._thread = Thread(target=self._go, name="watch", daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def look(self) -> bool:
        """Read in what changed since the last look, and say whether anything did.

        >>> with Store("sqlite://") as store:
        ...     Watch(store, BoardSettings(), print).look()
        False
        """
        now = signature(self._settings)
        if now == self._seen:
            return False
        self._seen = now
        try:
            read_in(self._store, self._settings, self._problem)
        except TellapartError as error:
            self._problem(str(error))
        return True

    def _go(self) -> None:
        while not self._over.wait(self._seconds):
            self.look()
