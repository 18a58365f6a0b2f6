"""What a command goes through: modules of the package that are imported, files and functions of it that are entered.

`python bench/trace.py` traces `run`, `compare` and `show` on the bundled set, and a step of a training, each in a fresh
interpreter. What an import executes is not counted. Another checkout's figures: its interpreter with this file.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

from record import run_python

#: Commands, in the order in which they are traced: the later ones read what the first wrote.
COMMANDS = {
    "run --limit 20": "run -m random -m constant -b demo --limit 20 --out runs/both",
    "compare": "compare runs/both runs/oracle",
    "show": "show runs/both",
    "a training step": "train train.toml --out runs/trained",
}
PREPARED = "run -m oracle -b demo --limit 20 --out runs/oracle"

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
#: Of its steps the one that enters the fewest functions is traced: the fourth and the last write a checkpoint and the
#: page, too.
TRAINING = Path(__file__).parent / "forecast" / "traced.toml"
#: The function with which a step of a training ends.
STEP_END = "_finish_step"

#: Functions whose calls are counted one by one.
WATCHED = ("read_result", "read_samples", "parse_json", "_finite_number")


def trace(arguments: list[str]) -> dict[str, Any]:
    """Run a command in this process, and count what it enters of the package."""
    import tellapart
    from tellapart.cli.main import main

    package, entered = f"{Path(tellapart.__file__).parent}{os.sep}", Counter[tuple[str, str]]()
    watched, steps, imports = Counter[str](), list[Counter[tuple[str, str]]](), 0

    def note(frame: FrameType, event: str, _argument: object) -> None:
        nonlocal imports, entered
        code = frame.f_code
        if code.co_name == "<module>":
            imports += {"call": 1, "return": -1}.get(event, 0)
        elif event == "return" and code.co_name == STEP_END:
            steps.append(entered)
            entered = Counter()
        elif event == "call" and not imports:
            watched[code.co_name] += code.co_name in WATCHED
            if code.co_filename.startswith(package):
                entered[code.co_filename, code.co_qualname] += 1

    sys.argv = ["tellapart", *arguments]
    sys.setprofile(note)
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
        main()
    sys.setprofile(None)
    entered = min(steps, key=len, default=entered)
    return {
        "imported": sum(name.split(".")[0] == "tellapart" for name in sys.modules),
        "files": len({file for file, _ in entered}),
        "functions": len(entered),
        "calls": entered.total(),
    } | {name: watched[name] for name in WATCHED}


def _run_apart(arguments: str) -> dict[str, Any]:
    return dict(json.loads(run_python(Path(__file__).resolve(), *arguments.split())[1]))


if __name__ == "__main__":
    if sys.argv[1:]:
        print(json.dumps(trace(sys.argv[1:])))
    else:
        os.chdir(tempfile.mkdtemp())
        run_python("-m", "examples.tutorial.draw_pairs", PYTHONPATH=str(EXAMPLES.parent))
        Path("train.toml").write_text(TRAINING.read_text(encoding="utf-8").replace("EXAMPLES", str(EXAMPLES)))
        _run_apart(PREPARED)
        rows = {name: _run_apart(arguments) for name, arguments in COMMANDS.items()}
        print(" " * 16, *(f"{name:>14}" for name in next(iter(rows.values()))))
        for name, counted in rows.items():
            print(f"{name:16}", *(f"{count:14,}" for count in counted.values()))
