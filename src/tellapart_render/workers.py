"""Jobs spread over processes, counted on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from tellapart.builders.executor import Lost, ProcessExecutor
from tellapart.errors import DataError

__all__ = ["run_jobs"]

Job = TypeVar("Job")
Result = TypeVar("Result")


def run_jobs(task: Callable[[Job], Result], jobs: Sequence[Job], workers: int, title: str) -> Iterator[Result]:
    """Yield `task(job)` for every job, in the order in which they finish; a counter runs if there is a terminal.

    Args:
        task: can be pickled; depends on its job alone.
        jobs: the task's arguments.
        workers: processes; with one, the work is done in this process.
        title: the counter's name for the jobs.

    Raises:
        DataError: a worker process died.
    """
    for done, (job, result) in enumerate(ProcessExecutor(workers).perform(task, jobs), start=1):
        if isinstance(result, Lost):
            raise DataError(f"{title}: {job}: {result}; run it again, with fewer workers if memory is short")
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{title}: {done}/{len(jobs)}" + ("\n" if done == len(jobs) else ""))
            sys.stderr.flush()
        yield result
