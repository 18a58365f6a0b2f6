"""An executor on a Ray cluster: jobs go to every node, and those of a node that dies are done again elsewhere."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from types import ModuleType
from typing import Any, TypeVar

from tellapart.builders.executor import Lost, Results
from tellapart.errors import RunError, TellapartError, first_line, require

Job = TypeVar("Job")
Result = TypeVar("Result")

#: Seconds that an address may take to answer, and then its nodes.
_ADDRESS_TIMEOUT = 10.0
_NODE_TIMEOUT = 120.0

#: Jobs in the cluster at once when nothing limits them: every CPU has a next one, and an autoscaler adds nodes.
_LEAST_JOBS = 64


@dataclass(frozen=True, slots=True)
class RayExecutor:
    """The workers of a Ray cluster, one CPU each; every node needs this version of tellapart and the recipe's files.

    A process that has joined a cluster with `ray.init` already stays in it, whatever the address.

    Attributes:
        address: `local` (a cluster of this machine's CPUs, for this build alone), `auto` (the one that runs on this
            machine, or that `RAY_ADDRESS` names) or `host:port`.
        workers: jobs at once; as many as there is room for if not given.
        gpus: the share of a GPU that each worker takes; without any, it sees none.
        version: of tellapart, that the nodes must have; this one's if not given.
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
            # Ray itself sends a job to another node when its node or worker dies; `Lost` comes when that failed, too.
            remote = ray.remote(on_node).options(num_cpus=1, num_gpus=self.gpus, max_retries=3)
            shared = ray.put(task)  # once, not with every job
            waiting = list(reversed(jobs))
            busy: dict[Any, Job] = {}
            while waiting or busy:
                while waiting and len(busy) < room:
                    job = waiting.pop()
                    busy[remote.remote(shared, job)] = job
                (ready, *_), _ = ray.wait(list(busy), num_returns=1)
                yield busy.pop(ready), _get_result(ray, ready)

    def _check_cluster(self, ray: ModuleType) -> None:
        """Check that there is room for a worker and that every node has the same tellapart, before it is used there."""
        cpus, gpus = (ray.cluster_resources().get(kind, 0) for kind in ("CPU", "GPU"))
        if cpus < 1 or gpus < self.gpus:
            raise RunError(
                f"the Ray cluster has {cpus:g} CPUs and {gpus:g} GPUs; a worker takes 1 CPU and {self.gpus:g} GPUs"
            )

        # Ray sends a function inside a function by value: a node may have no tellapart to import it from.
        def installed_version() -> str:
            from importlib import metadata

            try:
                return metadata.version("tellapart")
            except metadata.PackageNotFoundError:
                return ""

        near = require("ray.util.scheduling_strategies", extra="ray").NodeAffinitySchedulingStrategy
        nodes = [node for node in ray.nodes() if node["Alive"]]
        replies = [
            ray.remote(installed_version)
            .options(num_cpus=0, scheduling_strategy=near(node["NodeID"], soft=True))
            .remote()
            for node in nodes
        ]
        version = self.version or metadata.version("tellapart")
        try:
            versions = ray.get(replies, timeout=_NODE_TIMEOUT)
        except ray.exceptions.GetTimeoutError as late:
            raise RunError(
                f"the Ray cluster's nodes did not answer within {_NODE_TIMEOUT:g} s; look at `ray status`"
            ) from late
        for node, node_versions in zip(nodes, versions, strict=True):
            if node_versions != version:
                has = f"tellapart {node_versions}" if node_versions else "no tellapart"
                raise RunError(
                    f"the Ray node {node['NodeManagerAddress']} has {has}, "
                    f"and tellapart {version} is at work here; install the same on every node"
                )


def on_node(task: Callable[[Job], Result], job: Job) -> Result:
    """Do a job on a node; an error names the node, for the cause may be there."""
    try:
        return task(job)
    except TellapartError as error:
        raise type(error)(f"on the Ray node {socket.gethostname()}: {error}") from error


def _get_result(ray: ModuleType, ready: Any) -> Any:
    try:
        return ray.get(ready)
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
