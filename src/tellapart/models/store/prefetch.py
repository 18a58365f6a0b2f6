"""Computation in threads ahead of the loop that uses the results, within a budget of memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from threading import Condition, Lock, Thread
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
        self._started = 0  # inputs before this one have been started
        self._held = 0  # bytes
        self._stopped = False
        self._finished: dict[int, tuple[Result | None, BaseException | None, int]] = {}
        lock = Lock()
        self._room, self._ready = Condition(lock), Condition(lock)
        count = min(workers or available_cores(), len(inputs))
        # Daemons: a read that a dead network disk never ends must not keep the process alive.
        self._threads = [Thread(target=self._work_inputs, name=f"prefetch-{k}", daemon=True) for k in range(count)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        with self._room:
            self._stopped = True
            self._finished.clear()
            self._room.notify_all()
        for thread in self._threads:
            thread.join()

    def __iter__(self) -> Iterator[Result]:
        for position in range(len(self._inputs)):
            with self._ready:
                while position not in self._finished:
                    self._ready.wait(1.0)  # with a timeout: on Windows nothing interrupts a wait without one
                result, error, size = self._finished.pop(position)
                self._held -= size
                self._room.notify()
            if error is not None:
                raise error
            yield result  # type: ignore[misc]  # without an error it is a Result, which may be None

    def _work_inputs(self) -> None:
        while (position := self._next_input()) is not None:
            result, failure, size = None, None, _LEAST
            try:
                result = self._compute(self._inputs[position])
                size += self._size(result)
            except BaseException as error:
                failure = error
            with self._ready:
                if failure is not None:
                    self._stopped = True  # every input before this one has been started already
                self._finished[position] = result, failure, size
                self._held += size
                self._ready.notify()

    def _next_input(self) -> int | None:
        """Return the position of the next input once there is room for its result; None after the last."""
        with self._room:
            while self._held >= self._budget and not self._stopped:
                self._room.wait()
            if self._stopped or self._started == len(self._inputs):
                self._room.notify_all()
                return None
            self._started += 1
            self._room.notify()  # there may be room for another result
            return self._started - 1
