"""How many files may be on their way in at once: each holds a connection, memory and room on the disk until it has come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from tellapart.board.submissions.refused import RefusedError

__all__ = ["Slots"]


class Slots:
    """So many files at once, and fewer of one user.

    Args:
        each: of one user.
        most: of all of them.

    >>> slots = Slots(each=1, most=8)
    >>> with slots.hold("ann") as others:
    ...     others
    0
    """

    def __init__(self, *, each: int = 2, most: int = 8) -> None:
        self.each, self.most = each, most
        self._held: Counter[str] = Counter()
        self._lock = Lock()

    @contextmanager
    def hold(self, user: str) -> Iterator[int]:
        """Hold a place while the block lasts; say how many others are held.

        Raises:
            RefusedError: the user, or all of them, have as many as may be.
        """
        with self._lock:
            others = self._held.total()
            if self._held[user] >= self.each:
                raise RefusedError(429, f"{user} is sending {self.each} files already; wait until one has come")
            if others >= self.most:
                raise RefusedError(503, "too many files are being sent at this moment; nothing was counted, try again")
            self._held[user] += 1
        try:
            yield others
        finally:
            with self._lock:
                self._held[user] -= 1
                self._held += Counter()  # who holds none is forgotten
