"""How long importing takes in a fresh interpreter, beside an empty interpreter; the last three are a run's."""

import statistics

from record import run_python

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


if __name__ == "__main__":
    for name, arguments in ACTIONS.items():
        seconds = statistics.median(run_python(*arguments)[0]["seconds"] for _ in range(RUNS))
        print(f"{name:20} {seconds:.2f} s (median of {RUNS})")
