"""The declared sets that ship, by their names: `sets/FILE.toml`, or a variant of one, `FILE/NAME`."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.set_file import read_set_file, set_benchmark

SETS = Path(__file__).parent / "sets"


@cache
def __getattr__(name: str) -> Benchmark:
    """Return a set as if it were an attribute: the catalogue's lines need no other form."""
    file, _, variant = name.partition("/")
    path = SETS / f"{file}.toml"
    if file.startswith("_") or not path.is_file():
        raise AttributeError(f"no set {name!r} in {SETS}")
    return set_benchmark(read_set_file(path, variant))
