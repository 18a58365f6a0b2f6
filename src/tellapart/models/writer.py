"""Writes to the store in a thread, while the model computes the next batch."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Self

__all__ = ["Writer"]


class Writer:
    """Runs writes in one thread, in order; a second write waits until the first is done.

    A process that is killed loses the batch that it computes and the current write, nothing else. Leaving the block
    waits for the last write, after an error or an interruption too.

    >>> stored = []
    >>> with Writer() as writer:
    ...     writer.write(lambda: stored.append("batch 1"))
    ...     writer.write(lambda: stored.append("batch 2"))
    >>> stored
    ['batch 1', 'batch 2']
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="store-writer")
        self._current: Future[None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error_type: type[BaseException] | None, *error: object) -> None:
        self._pool.shutdown()
        if error_type is None:
            self.settle()

    def write(self, write: Callable[[], None]) -> None:
        """Start a write once the one before it is done.

        Raises:
            StoreError: the one before failed.
        """
        self.settle()
        self._current = self._pool.submit(write)

    def settle(self) -> None:
        """Wait until everything is written.

        Raises:
            StoreError: a write failed.
        """
        if self._current is not None:
            current, self._current = self._current, None
            current.result()
