"""Work in a fork of this process, which has imported what it needs: it can be killed at a chosen moment."""

import argparse
import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from sets import write_set

HERE = Path(__file__).resolve().parent

#: What leaves a trace on the disk; SQLite's own writes raise none of these, and are met by moments of time.
_WRITES = {
    *(f"os.{name}" for name in ("mkdir", "rename", "remove", "rmdir", "truncate", "fsync")),
    *("sqlite3.connect", "shutil.rmtree"),
}


@dataclass(frozen=True, slots=True)
class Ended:
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
) -> Ended:
    """Do some work in a fork, in a working folder, and wait for its end."""
    reading, writing = os.pipe()
    started = time.monotonic()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _work(work, folder, at_write, writing)
    os.close(writing)
    if after is not None:
        while time.monotonic() - started < after and not (
            os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        ):
            time.sleep(0.002)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
    writes = sum(len(block) for block in iter(lambda: os.read(reading, 1 << 16), b""))
    os.close(reading)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return Ended(status, (folder / "printed").read_text(errors="replace"), time.monotonic() - started, writes)


def _work(work: Callable[[], object], folder: Path, at_write: int | None, writing: int) -> None:
    os.chdir(folder)
    printed = os.open("printed", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
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
        os.write(writing, b".")

    sync = os.fsync

    def counted_sync(file: int) -> None:
        sys.audit("os.fsync")
        sync(file)

    os.fsync = counted_sync
    sys.addaudithook(count)
    code = 0
    try:
        work()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        traceback.print_exc()
        code = 70
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def write_inputs(folder: Path) -> None:
    """Write three small pair sets, an architecture, and the files of `settings/`."""
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
