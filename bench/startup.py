"""How long importing takes in a fresh interpreter, beside an empty interpreter; the last three are a run's."""

import statistics
import subprocess
import sys
import time

RUNS = 9
ACTIONS = {
    "python -c pass": ["-c", "pass"],
    "import tellapart": ["-c", "import tellapart"],
    "tellapart --help": ["-m", "tellapart", "--help"],
    "import torch": ["-c", "import torch"],
    "open_clip as it is": [
        "-c",
        "from tellapart.models.torch.backend import import_torch; import_torch(); import open_clip",
    ],
    "open_clip as a run": ["-c", "from tellapart.models.openclip.library import import_open_clip; import_open_clip()"],
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
