"""How time and memory grow with the number of items, from stored scores and from stored vectors.

    python bench/growth.py --seconds 240
    python bench/growth.py --sizes 100 --sizes 200 --sizes 400 --record trial.json    # to see that it works

The exponent is fitted to what a size takes beyond the smallest one; 1 is linear. A size that would not end within the
time is left out, and named.
"""

import math
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from large import make_set
from record import command_line, run_bench, run_python, time_call
from typer import Option

MODEL = Path(__file__).resolve().parent / "drivers" / "hashing_model.py"
SIZES = (100, 1_000, 10_000, 100_000, 1_000_000)


def measure(sizes: Annotated[list[int], Option()] = SIZES, seconds: float = 3600.0) -> dict[str, Any]:
    """Measure both; no size starts that would not end within half of the seconds."""
    record: dict[str, Any] = {"command": command_line()}
    for place, (name, measure_size) in enumerate({"scores": measure_scores, "vectors": measure_vectors}.items()):
        record[name] = grow(measure_size, sizes, seconds / 2 * (1 + place) - time.perf_counter() + BEGAN)
    return record


def grow(measure: Callable[[Path, int], dict[str, float]], sizes: list[int], seconds: float) -> dict[str, Any]:
    """Measure sizes in turn while they fit into the time, and fit exponents of time and memory."""
    found: dict[int, dict[str, float]] = {}
    left_out = []
    began, last = time.perf_counter(), 0.0
    for size in sizes:
        growth = size / max(found) if found else 1.0
        if time.perf_counter() - began + growth * last > seconds:
            left_out.append(size)
            continue
        with tempfile.TemporaryDirectory() as scratch:
            found[size], last, _ = time_call(partial(measure, Path(scratch), size))
    return {
        "sizes": found,
        "exponents": {key: fit_exponent({size: each[key] for size, each in found.items()}) for key in KEYS},
        "left_out": left_out,
    }


def fit_exponent(values: dict[int, float]) -> float | None:
    """Return the slope of a value beyond the smallest size's, against the size, both as logarithms."""
    smallest = min(values)
    rows = [
        (math.log(size - smallest), math.log(value - values[smallest]))
        for size, value in values.items()
        if value > 1.05 * values[smallest]
    ]
    return round(float(np.polyfit(*zip(*rows, strict=True), 1)[0]), 2) if len(rows) > 1 else None


def measure_scores(folder: Path, items: int) -> dict[str, float]:
    """Score a file of random scores."""
    make_set(folder / "set", items)
    scores = np.random.default_rng(0).random((items, 2, 2)).astype(np.float32)
    np.savez(folder / "scores.npz", ids=np.array([str(k) for k in range(items)]), scores=scores)
    command = ["-m", "tellapart", "score", f"folder:{folder / 'set'}", "--scores", folder / "scores.npz", "--json"]
    return run_python(*command, "--out", folder / "run")[0]


def measure_vectors(folder: Path, items: int) -> dict[str, float]:
    """Measure from a store that an earlier run filled."""
    make_set(folder / "set", items)
    command = ["-m", "tellapart", "run", "-m", f"{MODEL}:HASHING", "-b", f"folder:{folder / 'set'}", "--json"]
    command += ["--cache", folder / "store", "--out"]
    run_python(*command, folder / "first")
    return run_python(*command, folder / "again")[0]


KEYS = ("processor_seconds", "mb")
BEGAN = time.perf_counter()

if __name__ == "__main__":
    run_bench(measure, "growth", "--record")
