"""Which functions a command spends its time in, or its memory: their shares go to `records/profiles.json`.

    python bench/profile_command.py score-eqben -m tellapart score eqben --scores FILE --data FOLDER --out FOLDER
    python bench/profile_command.py gallery bench/large.py --rank
    python bench/profile_command.py memory-of-a-score --memory -m tellapart score folder:SET --scores FILE --out FOLDER

cProfile counts the main thread alone, and calls of small functions cost more under it than they do without. Of memory
the record has the megabytes that Python and numpy held when they held most, by the innermost line of this package.
"""

from __future__ import annotations

import contextlib
import cProfile
import json
import pstats
import resource
import runpy
import sys
import threading
import tracemalloc
from pathlib import Path
from typing import Any

RECORD = Path(__file__).resolve().parent / "records" / "profiles.json"
ROOM = "tellapart/"
#: Columns of cProfile's numbers of a function: seconds in it alone, and with what it calls.
ALONE, WITH_CALLEES = 2, 3
#: Callers of an allocation that are kept: enough to come from a library to this package.
FRAMES = 10


def main() -> None:
    """Profile, print, record."""
    name, *command = sys.argv[1:]
    profiled = profile_memory if command[0] == "--memory" else profile_time
    found = profiled(command[1:] if command[0] == "--memory" else command)
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    record[name] = found
    sys.stderr.write(json.dumps(record[name], indent=1) + "\n")
    RECORD.write_text(json.dumps(record, indent=1) + "\n")


def profile_time(command: list[str]) -> dict[str, Any]:
    """Return the shares of functions in a command's time, its processor seconds and its highest memory."""
    profile = cProfile.Profile()
    with profile:
        run_command(command)
    used = resource.getrusage(resource.RUSAGE_SELF)
    stats = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    total = sum(entry[ALONE] for entry in stats.values())
    return {
        "processor_seconds": round(used.ru_utime + used.ru_stime, 1),
        "mb": round(used.ru_maxrss / 1024),
        "alone": list_shares(stats, ALONE, total),
        "with_callees": list_shares(
            {where: entry for where, entry in stats.items() if ROOM in where[0]}, WITH_CALLEES, total
        ),
    }


def run_command(command: list[str]) -> None:
    """Run a script, or a module after `-m`, in this process."""
    sys.argv = command[1:] if command[0] == "-m" else command
    with contextlib.suppress(SystemExit):
        if command[0] == "-m":
            runpy.run_module(command[1], run_name="__main__", alter_sys=True)
        else:
            sys.path.insert(0, str(Path(command[0]).resolve().parent))
            runpy.run_path(command[0], run_name="__main__")


def profile_memory(command: list[str]) -> dict[str, Any]:
    """Return the megabytes that lines held when a command held most; a thread looks five times a second."""
    ended, highest = threading.Event(), [0, None]

    def watch() -> None:
        while not ended.wait(0.2):
            held = tracemalloc.get_traced_memory()[0]
            if held > 1.1 * highest[0]:
                highest[:] = held, tracemalloc.take_snapshot()

    tracemalloc.start(FRAMES)
    watcher = threading.Thread(target=watch)
    watcher.start()
    run_command(command)
    ended.set()
    watcher.join()
    lines: dict[str, float] = {}
    for trace in highest[1].traces if highest[1] is not None else ():
        frames = [frame for frame in trace.traceback if f"/{ROOM}" in frame.filename]
        where = f"{describe((frames[-1].filename, 0, ''))}{frames[-1].lineno}" if frames else "elsewhere"
        lines[where] = lines.get(where, 0) + trace.size / 1e6
    largest = sorted(lines.items(), key=lambda one: -one[1])
    return {
        "held_mb": round(highest[0] / 1e6),
        "by_line_mb": {where: round(mb, 1) for where, mb in largest if mb >= highest[0] / 1e8},
    }


def list_shares(stats: dict[tuple[str, int, str], Any], column: int, total: float) -> dict[str, float]:
    """Return the percentage of the time of each function that takes 1.5 or more, the largest first."""
    shares = {where: round(100 * entry[column] / total, 1) for where, entry in stats.items()}
    return {describe(where): each for where, each in sorted(shares.items(), key=lambda one: -one[1]) if each >= 1.5}


def describe(where: tuple[str, int, str]) -> str:
    """Name a function without the folders above its package."""
    file, _, function = where
    return f"{file.rpartition('/src/')[2].rpartition('site-packages/')[2].rpartition('/lib/')[2]}:{function}"


if __name__ == "__main__":
    main()
