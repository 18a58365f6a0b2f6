"""Worker processes that outlive the death of one of them: the job it had is named, the others go on."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Generic, Protocol, TypeVar

__all__ = ["Crew", "Lost", "Processes"]

Job = TypeVar("Job")
Answer = TypeVar("Answer")


class Lost(Exception):  # noqa: N818  (an answer of a crew, which no one raises)
    """A worker died before it answered: killed, out of memory, or crashed in native code.

    >>> str(Lost("exit code -9"))
    'its worker process died (exit code -9)'
    """

    def __init__(self, how: str) -> None:
        super().__init__(f"its worker process died ({how})")


class Crew(Protocol):
    """Whoever answers jobs: `Processes` of this machine, or a `RayCluster`.

    >>> crew: Crew = Processes(1)
    >>> list(crew.perform(len, ["abc"]))
    [('abc', 3)]
    """

    def perform(
        self, task: Callable[[Job], Answer], jobs: Sequence[Job]
    ) -> Generator[tuple[Job, Answer | Lost], None, None]:
        """Yield each job with its answer, in whatever order they finish; a job whose worker died comes with `Lost`.

        An exception that the task raises ends it all, and is raised here; so does closing the generator.

        Args:
            task: can be pickled; depends on its job alone.
            jobs: what to do.
        """
        ...


@dataclass(frozen=True, slots=True)
class Processes:
    """Some processes on this machine; with one, the work is done in this process.

    >>> sorted(Processes(1).perform(abs, [-3, 2]))
    [(-3, 3), (2, 2)]
    """

    workers: int

    def perform(
        self, task: Callable[[Job], Answer], jobs: Sequence[Job]
    ) -> Generator[tuple[Job, Answer | Lost], None, None]:
        """Yield each job with its answer, as a `Crew` does.

        >>> next(Processes(1).perform(abs, [-3, 2]))
        (-3, 3)
        """
        if self.workers <= 1 or not jobs:
            for job in jobs:
                yield job, task(job)
            return
        waiting = list(reversed(jobs))
        crew = [_Worker(task) for _ in range(min(self.workers, len(jobs)))]
        try:
            for worker in crew:
                worker.give(waiting.pop())
            while busy := {worker.connection: worker for worker in crew if worker.busy}:
                for ready in wait(list(busy)):
                    worker = busy[ready]  # type: ignore[index]
                    job, answer = worker.take()
                    if isinstance(answer, Lost):
                        crew[crew.index(worker)] = worker = _Worker(task)
                    # The next job first, so that the worker is at work while this answer is dealt with.
                    if waiting:
                        worker.give(waiting.pop())
                    yield job, answer
        finally:
            for worker in crew:
                worker.stop()


class _Worker(Generic[Job, Answer]):
    """One process with a pipe to it: at most one job is with it, so its death is that job's."""

    def __init__(self, task: Callable[[Job], Answer]) -> None:
        # Spawned, not forked: renderers and torch keep threads that do not survive a fork.
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(task, theirs), daemon=True)
        self._process.start()
        theirs.close()  # theirs alone from now on: when they die, the pipe ends
        self._jobs: list[Job] = []

    @property
    def busy(self) -> bool:
        return bool(self._jobs)

    def give(self, job: Job) -> None:
        self._jobs = [job]
        with suppress(BrokenPipeError, ConnectionResetError):  # it is dead already: `take` finds the pipe's end
            self.connection.send(job)

    def take(self) -> tuple[Job, Answer | Lost]:
        job = self._jobs.pop()
        try:
            fine, answer = self.connection.recv()
        except (EOFError, ConnectionResetError):
            self._process.join()
            self.connection.close()
            return job, Lost(f"exit code {self._process.exitcode}")
        if not fine:
            raise answer
        return job, answer

    def stop(self) -> None:
        self._process.terminate()
        self._process.join()
        self.connection.close()


def _serve(task: Callable[[Job], Answer], connection: Connection) -> None:
    """Answer jobs until the pipe ends: when the parent closes it, or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's; it stops its workers
    try:
        while True:
            job = connection.recv()
            try:
                answer = (True, task(job))
            except Exception as error:
                answer = (False, error)  # type: ignore[assignment]
            connection.send(answer)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return
