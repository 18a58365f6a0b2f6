"""Which functions a command spends its time in: their shares go to `records/profiles.json` under a name.

    python bench/profile_command.py score-eqben -m tellapart score eqben --scores FILE --data FOLDER --out FOLDER
    python bench/profile_command.py gallery bench/large.py --rank

cProfile counts the main thread alone, and calls of small functions cost more under it than they do without.
"""

from __future__ import annotations

import contextlib
import cProfile
import json
import pstats
import resource
import runpy
import sys
from pathlib import Path
from typing import Any

RECORD = Path(__file__).resolve().parent / "records" / "profiles.json"
ROOM = "tellapart/"
#: Columns of cProfile's numbers of a function: seconds in it alone, and with what it calls.
ALONE, WITH_CALLEES = 2, 3


def main() -> None:
    """Profile, print, record."""
    name, *command = sys.argv[1:]
    sys.argv = command[1:] if command[0] == "-m" else command
    profile = cProfile.Profile()
    with contextlib.suppress(SystemExit), profile:
        if command[0] == "-m":
            runpy.run_module(command[1], run_name="__main__", alter_sys=True)
        else:
            sys.path.insert(0, str(Path(command[0]).resolve().parent))
            runpy.run_path(command[0], run_name="__main__")
    used = resource.getrusage(resource.RUSAGE_SELF)
    stats = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    total = sum(entry[ALONE] for entry in stats.values())
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    record[name] = {
        "processor_seconds": round(used.ru_utime + used.ru_stime, 1),
        "mb": round(used.ru_maxrss / 1024),
        "alone": list_shares(stats, ALONE, total),
        "with_callees": list_shares(
            {where: entry for where, entry in stats.items() if ROOM in where[0]}, WITH_CALLEES, total
        ),
    }
    sys.stderr.write(json.dumps(record[name], indent=1) + "\n")
    RECORD.write_text(json.dumps(record, indent=1) + "\n")


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
