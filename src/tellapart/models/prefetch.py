"""Work done ahead by threads: results in order, as far ahead as a budget of memory allows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from threading import Condition, Lock, Thread
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

__all__ = ["Prefetch", "available_cores", "bytes_held"]

Given = TypeVar("Given")
Made = TypeVar("Made")

#: What finished results that nobody has taken yet may hold, in bytes: some 900 images of 224 by 224 in float32.
BUDGET = 512 * 2**20

#: What a result counts for at least: it is an object even if it holds no array.
_LEAST = 1024


def available_cores() -> int:
    """Return how many cores this process may use.

    >>> available_cores() >= 1
    True
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def bytes_held(value: Any) -> int:
    """Return the bytes of the arrays or tensors in a value: one, or a list, tuple or mapping of them.

    >>> import numpy as np
    >>> bytes_held({"pixel_values": np.zeros((2, 3), np.float32), "sizes": [np.zeros(4, np.uint8)]})
    28
    """
    if isinstance(value, dict):
        return sum(map(bytes_held, value.values()))
    if isinstance(value, list | tuple):
        return sum(map(bytes_held, value))
    size = getattr(value, "nbytes", 0)
    return size if isinstance(size, int) else 0


class Prefetch(Generic[Given, Made]):
    """Compute a function of each input in threads, ahead of the loop that takes the results.

    Results come in the order of the inputs. Threads take up no further input while finished results hold more than the
    budget, so memory stays below it plus one result a thread. An error is raised in the place of its result, and
    nothing after it is begun. Leaving the block, by an error or an interruption too, ends the threads.

    Args:
        compute: called in any of the threads.
        inputs: what to compute it of.
        workers: threads; one for each core if not given. Their number changes nothing that comes out.
        budget: in bytes.
        size: of a result, in bytes.

    >>> with Prefetch(len, ["one", "three"], workers=2) as lengths:
    ...     list(lengths)
    [3, 5]
    """

    def __init__(
        self,
        compute: Callable[[Given], Made],
        inputs: Sequence[Given],
        *,
        workers: int | None = None,
        budget: int = BUDGET,
        size: Callable[[Made], int] = bytes_held,
    ) -> None:
        self._compute, self._inputs, self._budget, self._size = compute, inputs, budget, size
        self._begun = 0  # inputs before this one have been taken up
        self._held = 0  # bytes
        self._stopped = False
        self._finished: dict[int, tuple[Made | None, BaseException | None, int]] = {}
        lock = Lock()
        self._room, self._ready = Condition(lock), Condition(lock)
        count = min(workers or available_cores(), len(inputs))
        # Daemons: a read that a dead network disk never ends must not keep the process alive.
        self._threads = [Thread(target=self._work, name=f"prefetch-{k}", daemon=True) for k in range(count)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._room:
            self._stopped = True
            self._finished.clear()
            self._room.notify_all()
        for thread in self._threads:
            thread.join()

    def __iter__(self) -> Iterator[Made]:
        for place in range(len(self._inputs)):
            with self._ready:
                while place not in self._finished:
                    self._ready.wait(1.0)  # with an end: on Windows nothing interrupts a wait without one
                made, error, size = self._finished.pop(place)
                self._held -= size
                self._room.notify()
            if error is not None:
                raise error
            yield made  # type: ignore[misc]  # what was made without an error is a Made, None included

    def _work(self) -> None:
        while (place := self._take_up()) is not None:
            made, failed = None, None
            size = _LEAST
            try:
                made = self._compute(self._inputs[place])
                size += self._size(made)
            except BaseException as error:
                failed = error
            with self._ready:
                if failed is not None:
                    self._stopped = True  # every input before this one has been taken up already
                self._finished[place] = made, failed, size
                self._held += size
                self._ready.notify()

    def _take_up(self) -> int | None:
        """Return the place of the next input, once there is room for its result; None if none is to be begun."""
        with self._room:
            while self._held >= self._budget and not self._stopped:
                self._room.wait()
            if self._stopped or self._begun == len(self._inputs):
                self._room.notify_all()
                return None
            self._begun += 1
            self._room.notify()  # what made room for this one may have made room for another
            return self._begun - 1
