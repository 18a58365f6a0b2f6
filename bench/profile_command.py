"""Which functions a command spends its time in, or its memory: their shares go to `records/profiles.json`.

    python bench/profile_command.py score-eqben -m tellapart score eqben --scores FILE --data FOLDER --out FOLDER
    python bench/profile_command.py gallery bench/large.py --rank
    python bench/profile_command.py memory-of-a-score --memory -m tellapart score folder:SET --scores FILE --out FOLDER

cProfile counts the main thread alone, and calls of small functions cost more under it than they do without.
"""

import contextlib
import cProfile
import json
import pstats
import resource
import runpy
import sys
import threading
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

from psutil import Process

RECORD = Path(__file__).resolve().parent / "records" / "profiles.json"
ROOM = "tellapart/"
#: Columns of cProfile's numbers of a function: seconds in it alone, and with what it calls.
ALONE, WITH_CALLEES = 2, 3
#: Of memory: before the first function of this package, and outside them all.
START = "elsewhere"


def main() -> None:
    """Profile, print, record."""
    name, *command = sys.argv[1:]
    found = profile_memory(command[1:]) if command[0] == "--memory" else profile_time(command)
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    record[name] = found
    sys.stderr.write(json.dumps(found, indent=1) + "\n")
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
        "with_callees": list_shares({at: row for at, row in stats.items() if ROOM in at[0]}, WITH_CALLEES, total),
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
    """Return a command's highest memory, the function that ran then, and the growth by the package's functions."""
    ended, measured, memory = threading.Event(), threading.get_ident(), Process().memory_info
    samples = [(memory().rss / 1e6, START)]

    def watch() -> None:
        while not ended.wait(0.01):
            samples.append((memory().rss / 1e6, running_function(measured)))

    watcher = threading.Thread(target=watch)
    watcher.start()
    run_command(command)
    ended.set()
    watcher.join()
    grown = Counter[str]()
    for (before, _), (after, where) in pairwise(samples):
        grown[where] += max(0, after - before)  # type: ignore[assignment]  (megabytes)
    held, held_in = max(samples)
    largest = {function: round(mb) for function, mb in grown.most_common() if mb >= held / 100}
    return {"held_mb": round(held), "held_in": held_in, "grown_mb": largest}


def running_function(thread: int) -> str:
    """Return the innermost function of this package that a thread runs."""
    frame = sys._current_frames().get(thread)
    while frame is not None and f"/{ROOM}" not in frame.f_code.co_filename:
        frame = frame.f_back
    return START if frame is None else describe((frame.f_code.co_filename, 0, frame.f_code.co_name))


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
