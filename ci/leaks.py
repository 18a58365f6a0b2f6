"""A plugin of pytest: a test that leaves something behind fails itself, and not the test after it.

It compares the process before and after each test: sockets and pipes, threads, child processes, temporary files,
environment, folder, `sys.path`, handlers of signals, settings of torch. Each test begins with the same random state and
an empty store. `leaks.toml` names a library's long-lived threads and processes. The garbage collector passes over what
importing and collecting made.
"""

import gc
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import pytest

#: What a server that is told to stop may still need.
SECONDS = 10.0

#: What libraries keep for the process, and why.
LASTING = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))

State = dict[str, Any]
FOLDER = pytest.StashKey[tempfile.TemporaryDirectory[str]]()
#: The variable that names the folder of the store.
CACHE = "TELLAPART_CACHE"
_NUMBERS = count()


def _lasting(name: str) -> bool:
    return any(lasting in name for lasting in LASTING)


def open_connections() -> set[str]:
    """Return the open descriptors that lead to a socket or a pipe, with where they lead."""
    found = set()
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # the descriptor of this very listing
            target = os.readlink(f"/proc/self/fd/{descriptor}")
            if target.startswith(("socket:", "pipe:")):
                found.add(f"{target} ({descriptor})")
    return found


def live_threads() -> set[str]:
    """Return the names of the threads of Python that run."""
    names = ((thread.name, thread.ident) for thread in threading.enumerate() if thread.is_alive())
    return {f"{name} ({ident})" for name, ident in names if not _lasting(name)}


def child_processes() -> set[str]:
    """Return the child processes, with their command lines; one that ended and that nobody waited for is one, too."""
    found = set()
    for thread in os.listdir("/proc/self/task"):
        with suppress(OSError):
            with open(f"/proc/self/task/{thread}/children", encoding="ascii") as children:
                numbers = children.read().split()
            for child in numbers:
                command = Path(f"/proc/{child}/cmdline").read_text().replace("\0", " ")
                if not _lasting(command):
                    found.add(f"{child}: {command[:200]}")
    return found


def settings() -> State:
    """Return what a test sets for the whole process, by name; of torch, what changes later numbers or times."""
    found = {f"${name}": value for name, value in os.environ.items() if not _lasting(name)}
    found |= {f"handler of {number.name}": signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    found |= {"current folder": os.getcwd()} | {f"sys.path: {path}": "there" for path in sys.path if not _lasting(path)}
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "get_default_dtype"):
        found |= {
            "torch: default dtype": torch.get_default_dtype(),
            "torch: threads": torch.get_num_threads(),
            "torch: gradients": torch.is_grad_enabled(),
            "torch: inference mode": torch.is_inference_mode_enabled(),
            "torch: deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
            "torch: precision of matrix products": torch.get_float32_matmul_precision(),
            "torch: autocast": torch.is_autocast_enabled("cpu"),
            "torch: process group": torch.distributed.is_available() and torch.distributed.is_initialized(),
        }
    return found


RESOURCES: dict[str, Callable[[], set[str]]] = {
    "open": open_connections,
    "threads": live_threads,
    "processes": child_processes,
    "temporary files": lambda: {name for name in os.listdir(tempfile.gettempdir()) if not _lasting(name)},
}


def leaked(before: dict[str, set[str]]) -> dict[str, set[str]]:
    """Return the resources that are there now and were not before, by kind; waits for what is still being closed."""
    until, collected = time.monotonic() + SECONDS, False
    while True:
        left = {kind: now for kind, count in RESOURCES.items() if (now := count() - before[kind])}
        if not left or time.monotonic() > until:
            return left
        if not collected:  # what only a circle of references holds: its ResourceWarning is this test's
            collected = bool(gc.collect()) or True
        time.sleep(0.01)


def changed(before: State) -> dict[str, str]:
    """Return the settings that differ from before, each as "before -> now"."""
    now = settings()
    names = before.keys() | {name for name in now if not name.startswith("torch: ")}  # the test may import torch
    different = sorted(name for name in names if before.get(name) != now.get(name))
    return {name: f"{before.get(name)!r} -> {now.get(name)!r}" for name in different}


def seed_random_state() -> None:
    """Set the global random state of Python, numpy and torch, so that no test draws by what ran before it."""
    random.seed(0)
    if numpy := sys.modules.get("numpy.random"):
        numpy.seed(0)
    if (torch := sys.modules.get("torch")) is not None and hasattr(torch, "default_generator"):
        # Not `torch.manual_seed`: before the first use of a GPU it keeps each call, with its whole stack, for later.
        torch.default_generator.manual_seed(0)
        if torch.cuda.is_initialized():
            torch.cuda.manual_seed_all(0)


def pytest_configure(config: pytest.Config) -> None:
    """Give this process and its programs a temporary folder; Python's tracker of shared memory starts here, too."""
    resource_tracker.ensure_running()
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())  # what `tmp_path` keeps stays there
    folder = tempfile.TemporaryDirectory(prefix="tests-")
    config.stash[FOLDER] = folder
    os.environ["TMPDIR"] = tempfile.tempdir = folder.name
    os.environ[CACHE] = f"{folder.name}/cache"
    os.mkdir(os.environ[CACHE])


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the folder."""
    if folder := config.stash.get(FOLDER, None):
        tempfile.tempdir = None
        del os.environ["TMPDIR"], os.environ[CACHE]
        folder.cleanup()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Keep what importing and collecting the tests makes from the garbage collector."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True)
def leaves_nothing_behind() -> Iterator[None]:
    """Fail a test that leaves a resource open or a setting changed; its store has a new folder.

    A fixture of several tests has the store of the process.
    """
    shared = os.environ[CACHE]
    os.environ[CACHE] = folder = f"{shared}/{next(_NUMBERS)}"
    try:
        yield from _compare_process() if sys.platform == "linux" else (None,)  # /proc
    finally:
        os.environ[CACHE] = shared
        shutil.rmtree(folder, ignore_errors=True)


def _compare_process() -> Iterator[None]:
    seed_random_state()
    environment, folder, path = dict(os.environ), os.getcwd(), list(sys.path)
    resources, before = {kind: count() for kind, count in RESOURCES.items()}, settings()
    yield
    left, different = leaked(resources), changed(before)
    if left or different:
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(folder)
        sys.path[:] = path
        lines = [f"{kind}: {', '.join(sorted(names))}" for kind, names in left.items()]
        lines += [f"{name}: {change}" for name, change in different.items()]
        pytest.fail("the test leaves behind:\n" + "\n".join(lines), pytrace=False)
