"""A thread that reads new and changed runs into a board while it is served."""

from __future__ import annotations

from threading import Event, Thread

from tellapart.board.records import ReportProblem, read_in, signature
from tellapart.board.settings import BoardSettings
from tellapart.board.store import Store
from tellapart.errors import TellapartError

__all__ = ["SECONDS", "Watch"]

#: Between two looks at the folders.
SECONDS = 5.0


class Watch:
    """A thread that looks for changes every few seconds, as long as its `with` block lasts."""

    def __init__(
        self, store: Store, settings: BoardSettings, report: ReportProblem, *, seconds: float = SECONDS
    ) -> None:
        self._store, self._settings, self._report, self._seconds = store, settings, report, seconds
        self._seen = signature(settings)
        self._over = Event()
        self._thread = Thread(target=self._run, name="watch", daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def look(self) -> bool:
        """Read in what changed since the last look, and return whether anything did."""
        now = signature(self._settings)
        if now == self._seen:
            return False
        self._seen = now
        try:
            read_in(self._store, self._settings, self._report)
        except TellapartError as error:
            self._report(str(error))
        return True

    def _run(self) -> None:
        while not self._over.wait(self._seconds):
            self.look()
