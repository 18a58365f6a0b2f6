"""Work in a fork of this process, which has imported what it needs; a command can be killed at a chosen moment."""

import argparse
import json
import os
import pickle
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent

#: What leaves a trace on the disk; SQLite's own writes raise none of these, and are met by moments of time.
_WRITES = {
    *(f"os.{name}" for name in ("mkdir", "rename", "remove", "rmdir", "truncate", "fsync")),
    *("sqlite3.connect", "shutil.rmtree"),
}


class Ended(NamedTuple):
    """How a fork ended: its exit status (-9 where it was killed), and what it had sent by then."""

    status: int
    answers: list[Any]


class Fork:
    """A piece of work in a fork of this process; what it yields is sent at once."""

    def __init__(self, work: Callable[[], Iterable[object]]) -> None:
        self._reading, writing = os.pipe()
        self._process = os.fork()
        if self._process == 0:
            status = 1
            try:
                os.close(self._reading)
                for answer in work():
                    os.write(writing, pickle.dumps(answer))
                status = 0
            except Exception as error:
                os.write(writing, pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}")))
            finally:
                os._exit(status)
        os.close(writing)

    def wait(self, at_most: float | None = None) -> Ended:
        """Wait for the end, or kill the fork where it has sent nothing after so many seconds; raise its error."""
        if at_most is not None and not select.select([self._reading], [], [], at_most)[0]:
            os.kill(self._process, signal.SIGKILL)
        answers = []
        with os.fdopen(self._reading, "rb") as pipe, suppress(EOFError, pickle.UnpicklingError):
            while True:
                answers.append(pickle.load(pipe))
        if answers and isinstance(answers[-1], Exception):
            raise answers[-1]
        return Ended(os.waitstatus_to_exitcode(os.waitpid(self._process, 0)[1]), answers)

    def answer(self) -> Any:
        """Wait for the first thing that it sends; None if it died before."""
        return next(iter(self.wait().answers), None)


@dataclass(frozen=True, slots=True)
class Command:
    """How a forked command ended: -9 where it was killed, 70 after a traceback; `writes` are its steps on the disk."""

    status: int
    said: str
    seconds: float
    writes: int


def run_command(*arguments: str) -> None:
    """Run `tellapart ...` in this process; it ends with a SystemExit."""
    from tellapart.cli.main import main

    sys.argv = ["tellapart", *arguments]
    main()


def run_forked(
    work: Callable[[], object], folder: Path, *, at_write: int | None = None, after: float | None = None
) -> Command:
    """Do some work in a fork, in a working folder, and wait for its end."""
    started = time.monotonic()
    status, exits = Fork(partial(_work, work, folder, at_write)).wait(after)
    seconds, writes = time.monotonic() - started, (folder / "writes").stat().st_size
    return Command(*exits or (status,), (folder / "printed").read_text(errors="replace"), seconds, writes)


def run_whole(work: Callable[[], object], folder: Path) -> Command:
    """Do some work in a fork that nobody disturbs; it must succeed."""
    ended = run_forked(work, folder)
    assert ended.status == 0, ended.said
    return ended


def _work(work: Callable[[], object], folder: Path, at_write: int | None) -> Iterator[int]:
    """Yield the exit status of some work, whose output and steps go to files of the folder."""
    os.chdir(folder)
    printed, steps = (os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) for name in ("printed", "writes"))
    for stream in (1, 2):
        os.dup2(printed, stream)
    sys.stdout, sys.stderr = (os.fdopen(stream, "w", buffering=1) for stream in (1, 2))
    made = 0

    def count(event: str, about: tuple[object, ...]) -> None:
        nonlocal made
        opened = event == "open" and isinstance(about[2], int) and about[2] & (os.O_WRONLY | os.O_RDWR)
        if not opened and event not in _WRITES:
            return
        if made == at_write:
            os.kill(os.getpid(), signal.SIGKILL)
        made += 1
        os.write(steps, b".")

    sync = os.fsync

    def counted_sync(file: int) -> None:
        sys.audit("os.fsync")
        sync(file)

    os.fsync = counted_sync
    sys.addaudithook(count)
    status = 0
    try:
        work()
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        traceback.print_exc()
        status = 70
    sys.stdout.flush()
    sys.stderr.flush()
    yield status


def write_inputs(folder: Path) -> None:
    """Write three small pair sets, an architecture, and the files of `settings/`."""
    sys.path.append(str(HERE.parent / "tests"))
    from sets import write_set

    for seed, name in enumerate(("few", "more", "held")):
        write_set(folder / name, seed=seed)
    shutil.copytree(HERE / "valid" / "arch", folder / "arch")
    shutil.copytree(HERE / "settings", folder, dirs_exist_ok=True)


def run_all(doc: str, what: str, often_of: Mapping[str, int], harm: Callable[[str, Path, int, int], Any]) -> int:
    """Do harm to each so often, print what came of it and write the record; 1 where any came out badly.

    `what` names the option that says how often instead, and what is harmed: `kills of jobs`. `harm` takes a name, a
    folder with inputs, how often, and the seed.
    """
    often, _, group = what.partition(" of ")
    options = argparse.ArgumentParser(description=doc.splitlines()[0])
    options.add_argument(f"--{often}", type=int, help="of each, in place of the usual number")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument(f"--{group}", nargs="*", default=list(often_of))
    options.add_argument("--out", type=Path)
    given = vars(options.parse_args())
    record: dict[str, Any] = {often: given[often], "seed": given["seed"], group: {}}
    with tempfile.TemporaryDirectory() as scratch:
        write_inputs(Path(scratch))
        for name in given[group]:
            record[group][name] = harm(name, Path(scratch), given[often] or often_of[name], given["seed"])
            print(name, json.dumps(record[group][name], indent=1), flush=True)
            if given["out"]:  # after each: it takes long
                given["out"].write_text(json.dumps(record, indent=1) + "\n")
    return 1 if any(found["bad"] for found in record[group].values()) else 0
