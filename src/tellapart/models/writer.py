"""Writing to the store beside the model: what was computed is kept while the next batch is computed."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

__all__ = ["Writer"]


class Writer:
    """Runs writes in a thread of its own, one at a time and in order, at most one behind.

    A process that is killed loses what it was computing and the write at hand, nothing else. Leaving the block waits
    for the last write, after an error or an interruption too.

    >>> kept = []
    >>> with Writer() as writer:
    ...     writer.write(lambda: kept.append("batch 1"))
    ...     writer.write(lambda: kept.append("batch 2"))
    >>> kept
    ['batch 1', 'batch 2']
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="store-writer")
        self._at_hand: Future[None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown()
        if error is None:
            self.settle()

    def write(self, write: Callable[[], None]) -> None:
        """Begin a write once the one before it is done.

        Raises:
            StoreError: the one before failed.

        >>> with Writer() as writer:
        ...     writer.write(lambda: None)
        """
        self.settle()
        self._at_hand = self._pool.submit(write)

    def settle(self) -> None:
        """Wait until everything is written.

        Raises:
            StoreError: a write failed.

        >>> with Writer() as writer:
        ...     writer.settle()
        """
        if self._at_hand is not None:
            at_hand, self._at_hand = self._at_hand, None
            at_hand.result()
