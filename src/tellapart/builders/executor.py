"""Apply a task to jobs, in processes or on a Ray cluster; a job whose worker dies comes back as `Lost`."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import metadata
from multiprocessing.connection import Connection, wait
from types import ModuleType
from typing import Any, Generic, Protocol, TypeVar

from tellapart.errors import RunError, TellapartError, first_line, require

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
        """Yield each job with its result, in the order in which jobs finish; `Lost` is the result of a dead worker.

        An exception that the task raises ends all work, and is raised here; closing the generator ends all work, too.

        Args:
            task: a function that can be pickled; its result depends on its argument, the job, alone.
            jobs: the jobs.
        """
        ...


@dataclass(frozen=True, slots=True)
class ProcessExecutor:
    """Processes on this machine; with one worker, the work is done in this process."""

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
            while busy := {worker.connection: worker for worker in workers if worker.jobs}:
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
        self.jobs: list[Job] = []  # the job at work, or none
        self._has_begun = False

    def send(self, job: Job) -> None:
        self.jobs = [job]
        with suppress(BrokenPipeError, ConnectionResetError):  # it is dead already: `receive` meets the pipe's end
            self.connection.send(job)

    def receive(self) -> tuple[Job, Result | Lost]:
        job = self.jobs.pop()
        try:
            if not self._has_begun:
                self._has_begun = self.connection.recv()  # the first message of `_serve_jobs`
            succeeded, result = self.connection.recv()
        except (EOFError, ConnectionResetError):
            self._process.join()
            if not self._has_begun:
                fault = f"a worker process could not begin (exit code {self._process.exitcode})"
                fix = 'make the call under `if __name__ == "__main__":`, in a file'
                raise RunError(f"workers: {fault}. It reads the calling script again: {fix}") from None
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
        connection.send(True)  # it has begun
        while True:
            job = connection.recv()
            try:
                reply: tuple[bool, Result | Exception] = (True, task(job))
            except Exception as error:
                reply = (False, error)
            connection.send(reply)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return


#: Seconds that a cluster's address may take to answer, and then its nodes.
_ADDRESS_TIMEOUT = 10.0
_NODE_TIMEOUT = 120.0

#: At least so many jobs are in a cluster at once if `workers` is not given: jobs that wait let an autoscaler add nodes.
_LEAST_JOBS = 64


@dataclass(frozen=True, slots=True)
class RayExecutor:
    """The workers of a Ray cluster, one CPU each; every node needs this version of tellapart and the recipe's files.

    A process that has joined a cluster with `ray.init` already stays in it, whatever the address.

    Attributes:
        address: `local` (this machine's CPUs), `auto` (the cluster that runs here or is RAY_ADDRESS) or `host:port`.
        workers: the jobs at once; None for as many as there is room for.
        gpus: a worker's share of a GPU; with 0 it sees no GPU.
        version: the version of tellapart that every node must have; this process's if empty.
    """

    address: str
    workers: int | None = None
    gpus: float = 0.0
    version: str = ""

    def perform(self, task: Callable[[Job], Result], jobs: Sequence[Job]) -> Results[Job, Result]:
        """Yield each job with its result, as an `Executor` does."""
        if not jobs:
            return
        with _join_cluster(self.address, self.workers) as ray:
            self._check_cluster(ray)
            room = self.workers or max(_LEAST_JOBS, 2 * int(ray.cluster_resources().get("CPU", 1)))
            # When a node or worker dies, Ray repeats the job elsewhere; `Lost` comes after the last of these retries.
            remote = ray.remote(on_node).options(num_cpus=1, num_gpus=self.gpus, max_retries=3)
            shared_task = ray.put(task)  # sent once, not with every job
            waiting = list(reversed(jobs))
            busy: dict[Any, Job] = {}
            while waiting or busy:
                while waiting and len(busy) < room:
                    job = waiting.pop()
                    busy[remote.remote(shared_task, job)] = job
                finished, _ = ray.wait(list(busy), num_returns=1)
                for reference in finished:
                    yield busy.pop(reference), _get_result(ray, reference)

    def _check_cluster(self, ray: ModuleType) -> None:
        """Check that there is room for a worker and that every node has the same tellapart, before it is used there."""
        cpus, gpus = (ray.cluster_resources().get(kind, 0) for kind in ("CPU", "GPU"))
        if cpus < 1 or gpus < self.gpus:
            needed = f"a worker takes 1 CPU and {self.gpus:g} GPUs"
            raise RunError(f"the Ray cluster has {cpus:g} CPUs and {gpus:g} GPUs; {needed}")

        # Ray sends a function inside a function by value: a node may have no tellapart to import it from.
        def installed_version() -> str:
            from importlib import metadata

            try:
                return metadata.version("tellapart")
            except metadata.PackageNotFoundError:
                return ""

        on_one_node = require("ray.util.scheduling_strategies", extra="ray").NodeAffinitySchedulingStrategy
        nodes = [node for node in ray.nodes() if node["Alive"]]
        strategies = [on_one_node(node["NodeID"], soft=True) for node in nodes]
        ask = ray.remote(installed_version)
        replies = [ask.options(num_cpus=0, scheduling_strategy=strategy).remote() for strategy in strategies]
        version = self.version or metadata.version("tellapart")
        try:
            versions = ray.get(replies, timeout=_NODE_TIMEOUT)
        except ray.exceptions.GetTimeoutError as late:
            fault = f"the Ray cluster's nodes did not answer within {_NODE_TIMEOUT:g} s; look at `ray status`"
            raise RunError(fault) from late
        for node, node_version in zip(nodes, versions, strict=True):
            if node_version != version:
                has = f"tellapart {node_version}" if node_version else "no tellapart"
                fault = f"{has}, and tellapart {version} is at work here; install the same on every node"
                raise RunError(f"the Ray node {node['NodeManagerAddress']} has {fault}")


def on_node(task: Callable[[Job], Result], job: Job) -> Result:
    """Do a job on a node; an error names the node, for the cause may be there."""
    try:
        return task(job)
    except TellapartError as error:
        raise type(error)(f"on the Ray node {socket.gethostname()}: {error}") from error


def _get_result(ray: ModuleType, reference: Any) -> Any:
    """Return the result of a finished job, or `Lost`; an exception of the task is raised."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:  # the task raised
        raise (error.cause if isinstance(error.cause, Exception) else error) from None
    except ray.exceptions.RayError as error:
        return Lost(f"on the Ray cluster: {type(error).__name__}")


@contextmanager
def _join_cluster(address: str, workers: int | None) -> Iterator[Any]:
    """Join a cluster, and leave it at the end; no usage is reported, and nodes' output stays in their logs."""
    ray = require("ray", extra="ray")
    if ray.is_initialized():
        yield ray
        return
    quiet = {"log_to_driver": False, "logging_level": "error"}
    address = os.environ.get("RAY_ADDRESS", "auto") if address == "auto" else address
    try:
        if address == "local":
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            ray.init(address="local", num_cpus=workers, include_dashboard=False, **quiet)
        else:
            if address != "auto":
                _check_address(address)
            ray.init(address=address, **quiet)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise RunError(
            f"no Ray cluster answers at {address!r} ({first_line(error)}); start one with `ray start --head`, "
            "join it on this machine with `ray start --address HOST:PORT`, or give --ray local"
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _check_address(address: str) -> None:
    """Check that something listens at an address: Ray itself would wait for many minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise RunError(f"{address!r} is not an address of a Ray cluster: local, auto or HOST:PORT")
    try:
        socket.create_connection((host, int(port)), timeout=_ADDRESS_TIMEOUT).close()
    except (OSError, OverflowError) as error:
        raise ConnectionError(str(error)) from error
