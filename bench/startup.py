"""How long `import tellapart` and `tellapart --help` take in a fresh interpreter, beside an empty interpreter."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

RUNS = 9
ACTIONS = {
    "python -c pass": ["-c", "pass"],
    "import tellapart": ["-c", "import tellapart"],
    "tellapart --help": ["-m", "tellapart", "--help"],
}


def seconds(arguments: list[str]) -> float:
    """Median wall time of one command."""
    times = []
    for _ in range(RUNS):
        started = time.perf_counter()
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
        times.append(time.perf_counter() - started)
    return statistics.median(times)


if __name__ == "__main__":
    for name, arguments in ACTIONS.items():
        print(f"{name:20} {seconds(arguments):.3f} s (median of {RUNS})")
