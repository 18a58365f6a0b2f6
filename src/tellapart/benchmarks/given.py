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
    """Return a declaration or a pair set as a benchmark, which reports find again in this process."""
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
    if benchmark.name not in BENCHMARKS:
        add("benchmark", benchmark.name, benchmark)
    elif benchmark.load is not load("benchmark", benchmark.name).load:
        raise DataError(f"{benchmark.name!r} is a benchmark of the catalogue; give yours another name")
    return benchmark


def pairs_benchmark(pairs: PairSet, *, name: str, source: str, own: Path | None, place: Locations) -> Benchmark:
    """Return a pair set in memory as a benchmark; its card has the title, the licence and the citation."""
    return Benchmark(
        name=name,
        own=own,
        title=str(pairs.card.get("title") or pairs.name.removeprefix("folder:")),
        items=len(pairs),
        shape=pairs.shape,
        true=pairs.true,
        source=source,
        licence=str(pairs.card.get("licence") or "not stated"),
        citation=str(pairs.card.get("citation") or "not stated"),
        load=lambda _place: pairs,
        place=place,
    )


def _of_pairs(pairs: PairSet) -> Benchmark:
    if pairs.name in BENCHMARKS:  # loaded from it, all or in part
        declared: Benchmark = load("benchmark", pairs.name)
        return replace(declared, load=lambda _place: pairs, files=(), hub=None, known=None)
    folder = f"folder:{pairs.root.resolve().name}"
    is_set = any((pairs.root / listing).is_file() for listing in LISTINGS)
    if is_set and pairs.read is None and folder in {pairs.name, f"folder:{pairs.name}"}:
        home = pairs.root.resolve()
        return pairs_benchmark(pairs, name=folder, own=home, source=str(pairs.root), place=Locations())
    # The table that they were read from, where reports find their images.
    table = pairs.root.resolve() / pairs.name.removeprefix(TABLE)
    own = table if pairs.name.startswith(TABLE) and table.is_file() else None
    return pairs_benchmark(pairs, name=pairs.name, own=own, source="an object of Python", place=Locations())
