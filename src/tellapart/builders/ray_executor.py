"""A crew on a Ray cluster: jobs go to whatever nodes there are, and what a node had when it went is done again elsewhere."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from typing import Any, TypeVar

from tellapart.builders.executor import Lost
from tellapart.errors import RunError, TellapartError, first_line, require

__all__ = ["RayCluster"]

Job = TypeVar("Job")
Answer = TypeVar("Answer")

#: Seconds that an address may take to answer, and then its nodes.
_PATIENCE = 10.0
_GREETING = 120.0

#: Jobs that wait in the cluster when nothing limits them: enough that every CPU has a next one, and that nodes are asked for.
_LEAST = 64


@dataclass(frozen=True, slots=True)
class RayCluster:
    """The workers of a Ray cluster, one CPU each; every node needs this version of tellapart and the recipe's files.

    A process that has joined a cluster with `ray.init` already stays in it, whatever the address.

    Attributes:
        address: `local` (a cluster of this machine's CPUs, for this build alone), `auto` (the one that runs on this
            machine, or that `RAY_ADDRESS` names) or `host:port`.
        workers: jobs at once; as many as there is room for if not given.
        gpus: what each worker takes of a GPU; without any, it sees none.
        version: of tellapart, that the nodes must have; this one's if not given.

    >>> next(RayCluster("nowhere").perform(abs, [-3]))
    Traceback (most recent call last):
    tellapart.errors.RunError: 'nowhere' is no address of a Ray cluster: local, auto or HOST:PORT
    """

    address: str
    workers: int | None = None
    gpus: float = 0.0
    version: str = ""

    def perform(
        self, task: Callable[[Job], Answer], jobs: Sequence[Job]
    ) -> Generator[tuple[Job, Answer | Lost], None, None]:
        """Yield each job with its answer, as a `Crew` does.

        Raises:
            RunError: no cluster answers, it has no room for a worker, or a node has another version of tellapart.
            MissingDependencyError: ray is not installed.

        >>> list(RayCluster("local").perform(abs, []))
        []
        """
        if not jobs:
            return
        with _joined(self.address, self.workers) as ray:
            self._greet(ray)
            room = self.workers or max(_LEAST, 2 * int(ray.cluster_resources().get("CPU", 1)))
            # Ray sends a job to another node when its own dies, or its worker; what comes with Lost has used that up.
            remote = ray.remote(on_node).options(num_cpus=1, num_gpus=self.gpus, max_retries=3)
            shared = ray.put(task)  # once, not with every job
            waiting = list(reversed(jobs))
            busy: dict[Any, Job] = {}
            while waiting or busy:
                while waiting and len(busy) < room:
                    job = waiting.pop()
                    busy[remote.remote(shared, job)] = job
                (ready, *_), _ = ray.wait(list(busy), num_returns=1)
                yield busy.pop(ready), _answer(ray, ready)

    def _greet(self, ray: Any) -> None:
        """Check that there is room for a worker and that every node has the same tellapart, before it is used there."""
        has = ray.cluster_resources()
        if has.get("CPU", 0) < 1 or has.get("GPU", 0) < self.gpus:
            raise RunError(
                f"the Ray cluster has {has.get('CPU', 0):g} CPUs and {has.get('GPU', 0):g} GPUs; a worker takes 1 CPU "
                f"and {self.gpus:g} GPUs"
            )

        def installed() -> str:  # a function in a function is sent as it is: a node may have no tellapart to look in
            from importlib import metadata

            try:
                return metadata.version("tellapart")
            except metadata.PackageNotFoundError:
                return ""

        near = require("ray.util.scheduling_strategies", extra="ray").NodeAffinitySchedulingStrategy
        nodes = [node for node in ray.nodes() if node["Alive"]]
        asked = [
            ray.remote(installed).options(num_cpus=0, scheduling_strategy=near(node["NodeID"], soft=True)).remote()
            for node in nodes
        ]
        version = self.version or metadata.version("tellapart")
        try:
            found = ray.get(asked, timeout=_GREETING)
        except ray.exceptions.GetTimeoutError as late:
            raise RunError(
                f"the Ray cluster's nodes did not answer within {_GREETING:g} s; look at `ray status`"
            ) from late
        for node, there in zip(nodes, found, strict=True):
            if there != version:
                raise RunError(
                    f"the Ray node {node['NodeManagerAddress']} has {f'tellapart {there}' if there else 'no tellapart'}, "
                    f"and tellapart {version} is at work here; install the same on every node"
                )


def on_node(task: Callable[[Job], Answer], job: Job) -> Answer:
    """Do a job on a node, which an error names: it may be that node's alone.

    >>> on_node(abs, -3)
    3
    """
    try:
        return task(job)
    except TellapartError as error:
        raise type(error)(f"on the Ray node {socket.gethostname()}: {error}") from error


def _answer(ray: Any, ready: Any) -> Any:
    try:
        return ray.get(ready)
    except ray.exceptions.RayTaskError as error:  # the task raised
        raise (error.cause if isinstance(error.cause, Exception) else error) from None
    except ray.exceptions.RayError as error:
        return Lost(f"on the Ray cluster: {type(error).__name__}")


@contextmanager
def _joined(address: str, workers: int | None) -> Iterator[Any]:
    """Join a cluster, and leave it at the end; nothing is reported to anyone, and nodes' own output stays in their logs."""
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
                _knock(address)
            ray.init(address=address, **quiet)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise RunError(
            f"no Ray cluster answers at {address!r} ({first_line(error)}); start one with `ray start --head`, "
            "join it on this machine with `ray start --address HOST:PORT`, or say --ray local"
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _knock(address: str) -> None:
    """Ask whether anything listens there: Ray itself would wait for many minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise RunError(f"{address!r} is no address of a Ray cluster: local, auto or HOST:PORT")
    try:
        socket.create_connection((host, int(port)), timeout=_PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise ConnectionError(str(error)) from error
