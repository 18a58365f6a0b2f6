"""Worker processes that survive the death of one of them: its job is reported as lost, the others go on."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Generic, Protocol, TypeVar

__all__ = ["Executor", "Lost", "ProcessExecutor", "Results"]

Job = TypeVar("Job")
Result = TypeVar("Result")


class Lost(Exception):  # noqa: N818  (yielded in place of a result, never raised)
    """The result of a job whose worker died: killed, out of memory, or crashed in native code."""

    def __init__(self, how: str) -> None:
        super().__init__(f"its worker process died ({how})")


Results = Generator[tuple[Job, Result | Lost], None, None]


class Executor(Protocol):
    """Applies a task to jobs: a `ProcessExecutor` on this machine, or a `RayExecutor` on a cluster."""

    def perform(self, task: Callable[[Job], Result], jobs: Sequence[Job]) -> Results[Job, Result]:
        """Yield each job with its result, in the order in which they finish; a job whose worker died comes with `Lost`.

        An exception that the task raises ends all work, and is raised here; closing the generator ends all work, too.

        Args:
            task: can be pickled; depends on its job alone.
            jobs: the task's arguments, one each.
        """
        ...


@dataclass(frozen=True, slots=True)
class ProcessExecutor:
    """Processes on this machine; with one worker, the work is done in this process.

    >>> sorted(ProcessExecutor(1).perform(abs, [-3, 2]))
    [(-3, 3), (2, 2)]
    """

    workers: int

    def perform(self, task: Callable[[Job], Result], jobs: Sequence[Job]) -> Results[Job, Result]:
        """Yield each job with its result, as an `Executor` does."""
        if self.workers <= 1 or not jobs:
            for job in jobs:
                yield job, task(job)
            return
        waiting = list(reversed(jobs))
        workers = [_WorkerProcess(task) for _ in range(min(self.workers, len(jobs)))]
        try:
            for worker in workers:
                worker.send(waiting.pop())
            while busy := {worker.connection: worker for worker in workers if worker.busy}:
                for ready in wait(list(busy)):
                    worker = busy[ready]  # type: ignore[index]
                    job, result = worker.receive()
                    if isinstance(result, Lost):
                        workers[workers.index(worker)] = worker = _WorkerProcess(task)
                    # The next job first, so that the worker is at work while this result is dealt with.
                    if waiting:
                        worker.send(waiting.pop())
                    yield job, result
        finally:
            for worker in workers:
                worker.stop()


class _WorkerProcess(Generic[Job, Result]):
    """One process and a pipe to it; it has at most one job, so its death is that job's."""

    def __init__(self, task: Callable[[Job], Result]) -> None:
        # Spawned, not forked: renderers and torch keep threads that do not survive a fork.
        context = multiprocessing.get_context("spawn")
        self.connection, child_end = context.Pipe()
        self._process = context.Process(target=_serve_jobs, args=(task, child_end), daemon=True)
        self._process.start()
        child_end.close()  # the child alone holds it from now on: when the child dies, the pipe ends
        self._jobs: list[Job] = []

    @property
    def busy(self) -> bool:
        return bool(self._jobs)

    def send(self, job: Job) -> None:
        self._jobs = [job]
        with suppress(BrokenPipeError, ConnectionResetError):  # it is dead already: `receive` meets the pipe's end
            self.connection.send(job)

    def receive(self) -> tuple[Job, Result | Lost]:
        job = self._jobs.pop()
        try:
            succeeded, result = self.connection.recv()
        except (EOFError, ConnectionResetError):
            self._process.join()
            self.connection.close()
            return job, Lost(f"exit code {self._process.exitcode}")
        if not succeeded:
            raise result
        return job, result

    def stop(self) -> None:
        self._process.terminate()
        self._process.join()
        self.connection.close()


def _serve_jobs(task: Callable[[Job], Result], connection: Connection) -> None:
    """Do jobs until the pipe ends: when the parent closes it, or dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's; it stops its workers
    try:
        while True:
            job = connection.recv()
            try:
                reply: tuple[bool, Result | Exception] = (True, task(job))
            except Exception as error:
                reply = (False, error)
            connection.send(reply)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return
