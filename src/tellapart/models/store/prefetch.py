"""Computation in threads ahead of the loop that uses the results, within a budget of memory."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from threading import Condition
from typing import Generic, Self, TypeVar

Input = TypeVar("Input")
Result = TypeVar("Result")

#: Bytes that finished results may hold before the loop takes them: some 900 images of 224 by 224 in float32.
BUDGET = 512 * 2**20

#: Bytes that a result counts for at least: it is an object even if it holds no array.
_LEAST = 1024


def available_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def bytes_held(value: object) -> int:
    """Return the bytes of the arrays or tensors in a value: one, or a list, tuple or mapping of them."""
    if isinstance(value, dict):
        return sum(map(bytes_held, value.values()))
    if isinstance(value, list | tuple):
        return sum(map(bytes_held, value))
    size = getattr(value, "nbytes", 0)
    return size if isinstance(size, int) else 0


class Prefetch(Generic[Input, Result]):
    """Compute a function of each input in threads, ahead of the loop that takes the results.

    Results come in the order of the inputs. Threads start on no further input while finished results hold more than the
    budget, so memory stays below it plus one result a thread. An error is raised in place of its result, and no input
    after it is started. Leaving the block, by an error or an interruption too, ends the threads.

    >>> with Prefetch(len, ["one", "three"], workers=2) as lengths:
    ...     list(lengths)
    [3, 5]
    """

    def __init__(
        self,
        compute: Callable[[Input], Result],
        inputs: Sequence[Input],
        *,
        workers: int | None = None,
        budget: int = BUDGET,
        size: Callable[[Result], int] = bytes_held,
    ) -> None:
        self._compute, self._inputs, self._budget, self._size = compute, inputs, budget, size
        self._held = 0  # bytes
        self._taken, self._end = 0, len(inputs)  # inputs whose results were taken, and those that may be computed
        self._room = Condition()
        self._workers = max(1, min(workers or available_cores(), len(inputs)))

    def __enter__(self) -> Self:
        self._pool = ThreadPoolExecutor(self._workers, thread_name_prefix="prefetch")
        self._results = deque(self._pool.submit(self._compute_input, k) for k in range(len(self._inputs)))
        return self

    def __exit__(self, *error: object) -> None:
        self._results.clear()
        self._end_before(0)
        self._pool.shutdown(cancel_futures=True)

    def __iter__(self) -> Iterator[Result]:
        while self._results:
            result, size = self._results.popleft().result()
            with self._room:
                self._held -= size
                self._taken += 1
                self._room.notify_all()
            yield result

    def _compute_input(self, position: int) -> tuple[Result, int]:
        def may_begin() -> bool:
            return self._held < self._budget or position == self._taken or position >= self._end

        with self._room:
            self._room.wait_for(may_begin)
        if position >= self._end:
            raise CancelledError
        try:
            result = self._compute(self._inputs[position])
        except BaseException:
            self._end_before(position)
            raise
        size = _LEAST + self._size(result)
        with self._room:
            self._held += size
        return result, size

    def _end_before(self, position: int) -> None:
        with self._room:
            self._end = min(self._end, position)
            self._room.notify_all()
