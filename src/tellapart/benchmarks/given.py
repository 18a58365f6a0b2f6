"""Benchmarks that are objects: a declaration or a pair set that the user made, in Python or in a file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.locations import Locations
from tellapart.benchmarks.pair_table import TABLE
from tellapart.catalog import BENCHMARKS, add, load
from tellapart.data.folder import LISTINGS
from tellapart.data.pairset import PairSet
from tellapart.errors import DataError, quote

#: A benchmark as callers give it: its name or `folder:PATH`, a pair set, or a declaration.
BenchmarkGiven: TypeAlias = str | Path | PairSet | Benchmark

#: The part between the file and the object in the name of a benchmark in a file of Python.
CODE = ".py:"


def as_benchmark(
    thing: object, place: Locations | None = None, *, name: str = "", file: Path | None = None
) -> Benchmark:
    """Return a declaration or a pair set as a benchmark, which reports find again in this process.

    >>> from tellapart.data.folder import read_pair_set
    >>> as_benchmark(read_pair_set(Path("examples/eqsim_ablation/smoke_scenes"))).name
    'folder:smoke_scenes'
    """
    if isinstance(thing, PairSet):
        benchmark = _of_pairs(thing)
        if benchmark.name in BENCHMARKS and file is None:
            return benchmark
    elif isinstance(thing, Benchmark):
        benchmark = thing
    else:
        raise DataError(
            f"{quote(thing)} ({type(thing).__name__}) is not a benchmark: give a name (`tellapart ls benchmarks`), "
            "folder:PATH, a pair set or a Benchmark"
        )
    if file is not None:
        benchmark = replace(benchmark, name=name or benchmark.name, own=file)
    if place is not None and place != Locations():  # else it keeps the present one
        benchmark = replace(benchmark, place=place)
    if benchmark.name in BENCHMARKS:
        _expect_the_catalogues(benchmark)
    else:
        add("benchmark", benchmark.name, benchmark)
    return benchmark


def _of_pairs(pairs: PairSet) -> Benchmark:
    if pairs.name in BENCHMARKS:  # loaded from it, all or in part
        declared: Benchmark = load("benchmark", pairs.name)
        return replace(declared, load=lambda _place: pairs, files=(), hub=None, known=None)
    folder = f"folder:{pairs.root.resolve().name}"
    is_folder = pairs.read is None and folder in {pairs.name, f"folder:{pairs.name}"} and _is_set(pairs.root)
    return Benchmark(
        name=folder if is_folder else pairs.name,
        own=pairs.root.resolve() if is_folder else _find_table(pairs),
        title=str(pairs.card.get("title") or pairs.name),
        items=len(pairs),
        shape=pairs.shape,
        true=pairs.true,
        source=str(pairs.root) if is_folder else "an object of Python",
        licence=str(pairs.card.get("licence") or "not stated"),
        citation=str(pairs.card.get("citation") or "not stated"),
        load=lambda _place: pairs,
    )


def _find_table(pairs: PairSet) -> Path | None:
    """Return the table that pairs were read from, where reports find their images; None if they come from none."""
    path = pairs.root.resolve() / pairs.name.removeprefix(TABLE)
    return path if pairs.name.startswith(TABLE) and path.is_file() else None


def _is_set(folder: Path) -> bool:
    return any((folder / listing).is_file() for listing in LISTINGS)


def _expect_the_catalogues(made: Benchmark) -> None:
    if made.load is not load("benchmark", made.name).load:
        raise DataError(f"{made.name!r} is a benchmark of the catalogue; give yours another name")
