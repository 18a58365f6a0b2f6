"""Spread independent jobs over processes."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

__all__ = ["spread"]

Job = TypeVar("Job")
Answer = TypeVar("Answer")


def spread(task: Callable[[Job], Answer], jobs: Sequence[Job], workers: int, title: str) -> Iterator[Answer]:
    """Yield `task(job)` for every job, in whatever order they finish; a counter runs where there is a terminal.

    Args:
        task: can be pickled; depends on its job alone.
        jobs: what to do.
        workers: processes; with one, the work is done in this process.
        title: what the jobs are, for the counter.

    >>> sorted(spread(abs, [-3, 2, -1], workers=1, title="numbers"))
    [1, 2, 3]
    """
    if workers <= 1:
        yield from _counted(map(task, jobs), len(jobs), title)
        return
    # Spawned, not forked: Mitsuba and the denoiser keep threads that do not survive a fork.
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        yield from _counted(pool.imap_unordered(task, jobs), len(jobs), title)


def _counted(answers: Iterator[Answer], total: int, title: str) -> Iterator[Answer]:
    """Pass answers on and count them on the terminal."""
    shown = sys.stderr.isatty()
    for done, answer in enumerate(answers, start=1):
        if shown:
            sys.stderr.write(f"\r{title}: {done}/{total}" + ("\n" if done == total else ""))
            sys.stderr.flush()
        yield answer
