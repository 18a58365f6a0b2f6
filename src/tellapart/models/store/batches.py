"""Batches of samples for a model: their size follows its memory, and changes no score."""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from threading import Condition
from typing import TypeVar

from tellapart.errors import ModelError, TellapartError, first_line
from tellapart.models.protocols import Model, Sized

Sample = TypeVar("Sample")

#: Errors of libraries that the house's own are raised from, if a model or its processor fails on an input.
_LIBRARY_ERRORS = (RuntimeError, ValueError, IndexError, TypeError)

#: On a CPU an image costs the same in a batch of 8 or of 64 (ViT-B/32); small batches leave memory to the reader.
_ON_CPU = 32
_FIRST_ON_GPU, _LAST_ON_GPU = 64, 1024

#: A batch twice as big must be faster by this share per sample to be worth its memory.
_WORTH = 1.05


class Batches:
    """Passes samples to a model in batches, in smaller ones when its memory is full."""

    def __init__(self, model: Model, batch_size: int | None, *, passes: int = 1) -> None:
        if batch_size is not None and batch_size < 1:
            raise ModelError(f"batch_size must be at least 1; got {batch_size}")
        self._name = model.name
        size = batch_size or (passes * model.batch_size if isinstance(model, Sized) else None)
        on_cpu = str(getattr(model, "device", "cpu")).startswith("cpu")
        self.size = size or (_ON_CPU if on_cpu else _FIRST_ON_GPU)
        self._grows = size is None and not on_cpu
        self._seconds = float("inf")  # a sample, in the best batch so far

    def run_samples(self, compute: Callable[[Sequence[Sample]], None], samples: Sequence[Sample]) -> None:
        """Compute all the samples, in order."""
        start = 0
        while start < len(samples):
            part = samples[start : start + self.size]
            began = time.perf_counter()
            try:
                compute(part)
            except Exception as error:
                if not _out_of_memory(error):
                    raise
            else:
                start += len(part)
                seconds = (time.perf_counter() - began) / len(part)
                if not self._grows or len(part) < self.size:
                    continue
                if seconds * _WORTH > self._seconds or self.size == _LAST_ON_GPU:
                    self._grows = False
                else:
                    self._seconds, self.size = seconds, self.size * 2
                continue
            # Outside of the handler: the error's traceback held the tensors that filled the memory.
            sys.modules["torch"].cuda.empty_cache()
            if len(part) == 1:
                raise ModelError(
                    f"model {self._name!r} runs out of its device's memory with one sample; free memory there, "
                    "or use device=cpu"
                )
            self.size, self._grows = len(part) // 2, False


def compute_named(compute: Callable[[slice], Sample], names: Sequence[str]) -> Sample:
    """Compute a batch; if it fails, ask for each sample alone, and name the first that fails.

    Errors that speak of no input, such as a server's, pass unchanged, and so does a full memory.
    """
    try:
        return compute(slice(0, len(names)))
    except Exception as error:
        explained = isinstance(error, TellapartError) and not isinstance(error.__cause__, _LIBRARY_ERRORS)
        if explained or _out_of_memory(error):
            raise
        if len(names) == 1:
            text = str(error) if isinstance(error, TellapartError) else f"{type(error).__name__}: {first_line(error)}"
            raise ModelError(f"{names[0]}: {text}") from error
        for number, name in enumerate(names):
            compute_named(lambda _, part=slice(number, number + 1): compute(part), [name])  # type: ignore[misc]
        raise


def _out_of_memory(error: Exception) -> bool:
    # A model that ran out of torch's memory has imported torch; this module need not.
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(error, torch.cuda.OutOfMemoryError)


Input = TypeVar("Input")
Result = TypeVar("Result")

#: Bytes that finished results may hold before the loop takes them: some 900 images of 224 by 224 in float32.
BUDGET = 512 * 2**20

#: Threads that read at most, by default. On 16 cores 4 and 8 prepare 707 images a second, 16 only 606: Python runs in
#: one at a time (bench/records/gpu.json).
_THREADS = 8

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


def prefetch(
    compute: Callable[[Input], Result],
    inputs: Sequence[Input],
    *,
    workers: int | None = None,
    budget: int = BUDGET,
    size: Callable[[Result], int] = bytes_held,
) -> Generator[Result, None, None]:
    """Compute a function of each input in threads, ahead of the loop that takes the results in the inputs' order.

    Threads start on no further input while finished results hold more than the budget, so memory stays below it plus
    one result a thread. An error is raised in place of its result, and no input after it is started. Closing the
    generator ends the threads.
    """
    room, held, taken, end = Condition(), 0, 0, len(inputs)

    def end_before(position: int) -> None:
        nonlocal end
        with room:
            end = min(end, position)
            room.notify_all()

    def compute_input(position: int) -> tuple[Result, int]:
        nonlocal held
        with room:
            room.wait_for(lambda: held < budget or position == taken or position >= end)
        if position >= end:
            raise CancelledError
        try:
            result = compute(inputs[position])
        except BaseException:
            end_before(position)
            raise
        bytes_of_result = _LEAST + size(result)
        with room:
            held += bytes_of_result
        return result, bytes_of_result

    threads = max(1, min(workers or min(available_cores(), _THREADS), end))
    pool = ThreadPoolExecutor(threads, thread_name_prefix="prefetch")
    pending = deque(pool.submit(compute_input, position) for position in range(end))
    try:
        while pending:
            result, bytes_of_result = pending.popleft().result()
            with room:
                held -= bytes_of_result
                taken += 1
                room.notify_all()
            yield result
    finally:
        pending.clear()
        end_before(0)
        pool.shutdown(cancel_futures=True)
