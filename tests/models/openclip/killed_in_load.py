"""Follow checkpoints of open_clip in processes that are killed as they load one; write what they told, in order.

It runs as a program, which imports torch once and forks: its threads must not be a test's.
"""

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tellapart as ta
from tellapart.models.openclip import weights
from tellapart.models.openclip.library import import_open_clip
from tellapart.models.torch.backend import import_torch

open_clip, torch = import_open_clip(), import_torch()

KILLS = 8


def follow(landed: Path, pairs: str, out: Path, until: int, tell: Callable[[str], None]) -> None:
    """Measure until that many are done; tell when a file is being read, when it was, and when it is measured."""
    read = weights.read_checkpoint

    def read_slowly(path: Path, **options: Any) -> Any:
        tell(f"load {Path(path).stem}")
        checkpoint = read(path, **options)
        tell(f"loaded {Path(path).stem}")
        return checkpoint

    weights.read_checkpoint = read_slowly
    ta.evaluate(
        benchmarks=pairs,
        follow=landed,
        every=0.01,
        until=until,
        cache=False,
        out=out,
        progress=False,
        ready=lambda name: tell(f"measured {name}"),
    )


def start(*given: Any) -> tuple[int, int]:
    """Follow in a child; return its process and the pipe of its lines."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reads)
        follow(*given, lambda line: os.write(writes, f"{line}\n".encode()))
        os._exit(0)
    os.close(writes)
    return child, reads


def land(landed: Path, state: dict[str, Any], step: int) -> None:
    draft = landed / f"draft_{step}.new"
    moved = {name: value * (1 + step / 100) if value.ndim > 1 else value for name, value in state.items()}
    torch.save({"epoch": step, "state_dict": moved}, draft)
    draft.rename(landed / f"epoch_{step}.pt")


def main(architectures: str, weights_file: str, pairs: str, place: str) -> None:
    torch.set_num_threads(1)
    open_clip.add_model_config(architectures)
    state, draw = torch.load(weights_file, weights_only=True), random.Random(0)
    landed, out = Path(place) / "logs" / "checkpoints", Path(place) / "run"
    landed.mkdir(parents=True)
    (landed.parent / "params.txt").write_text("model: tiny\nforce_quick_gelu: False\n")
    told = []
    for kill in range(KILLS):
        for step in (2 * kill + 1, 2 * kill + 2):
            land(landed, state, step)
        child, reads = start(landed, pairs, out, 10**6)
        with os.fdopen(reads) as lines:
            wanted = draw.choice(("load ", "load ", "loaded ", "measured "))
            for line in iter(lines.readline, ""):
                told.append(line.strip())
                if line.startswith(wanted):
                    break
            time.sleep(draw.random() / 200)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            told += [*map(str.strip, lines), "killed"]
    child, reads = start(landed, pairs, out, 2 * KILLS)
    with os.fdopen(reads) as lines:
        told += map(str.strip, lines)
    assert os.waitpid(child, 0)[1] == 0
    (Path(place) / "told.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
