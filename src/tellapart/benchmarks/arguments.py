"""The user's pair sets and folders of benchmarks' files, as callers give them; refused if they have no effect."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from typing import TypeAlias

from tellapart.benchmarks.find import load_pairs as load_named
from tellapart.benchmarks.find import set_name, takes_options
from tellapart.benchmarks.locations import Locations
from tellapart.benchmarks.pair_table import TABLE
from tellapart.benchmarks.plugins import open_benchmark
from tellapart.data.arguments import PathGiven, as_path
from tellapart.data.pairset import PairSet
from tellapart.errors import RunError, quote

#: A pair set, its folder, or the name of a benchmark of minimal pairs.
PairsGiven: TypeAlias = PathGiven | PairSet


def load_pairs(
    pairs: PairsGiven,
    *,
    data: PathGiven | None = None,
    images: PathGiven | None = None,
    outside_images: bool = False,
    columns: Mapping[str, str] | None = None,
) -> PairSet:
    """Load minimal pairs: a benchmark's by its name, or those of a folder, with or without `folder:` before it.

    Raises:
        UnknownNameError: no benchmark of that name, and no folder.
        DataError: it is another task, or files are missing or damaged.

    >>> from pathlib import Path
    >>> load_pairs("demo").shape, len(load_pairs(Path("examples/eqsim_ablation/smoke_scenes")))
    ((2, 2), 36)
    """
    return load_sets(pairs, None, locations(data, images, outside_images, columns))[0]


def load_sets(pairs: PairsGiven, other: PairsGiven | None, place: Locations) -> tuple[PairSet, PairSet | None]:
    """Load one set or two, as `load_pairs` does; an option has an effect if it acts on one of them."""
    sets = (pairs,) if other is None else (pairs, other)
    refuse_idle(sets, place)
    names = [each if isinstance(each, PairSet) else open_benchmark(str(as_path(each, "pairs"))) for each in sets]
    refuse_columns(dict(place.columns), names)
    first, *more = (name if isinstance(name, PairSet) else load_named(name, place, folders=True) for name in names)
    return first, more[0] if more else None


def refuse_columns(columns: Mapping[str, str] | None, names: Collection[object]) -> None:
    """Refuse names of columns if no benchmark is a table: they would have no effect."""
    if columns and not any(isinstance(name, str | os.PathLike) and TABLE in set_name(str(name)) for name in names):
        sets = ", ".join(quote(str(getattr(name, "name", name)), 200) for name in names)
        raise RunError(
            f"columns= is of {TABLE}FILE (.csv, .tsv, .jsonl, .parquet), and {sets} is none; name such a file"
        )


def refuse_idle(names: Iterable[object], place: Locations, *, strict: bool = False) -> Locations:
    """Return the folders of the user's benchmarks if each option acts on one of these benchmarks."""
    named = [str(name) if isinstance(name, os.PathLike) else name for name in names]
    given = {"data": place.data, "images": place.images, "strict": strict or None}
    why = {
        "data": "needs no files",
        "images": "shows no images, or holds them",
        "strict": "has no published number of records",
    }
    for option, value in given.items():
        if value is not None and not any(_takes_option(name, option) for name in named):
            sets = ", ".join(quote(getattr(name, "name", name)) for name in named)
            raise RunError(f"{option}={value} has no effect on {sets}, which {why[option]}; leave it out")
    return place


def _takes_option(benchmark: object, option: str) -> bool:
    if not isinstance(benchmark, str):
        return not isinstance(benchmark, PairSet)
    taken = takes_options(benchmark)
    return taken is None or option in taken


def locations(
    data: PathGiven | None = None,
    images: PathGiven | None = None,
    outside_images: bool = False,
    columns: Mapping[str, str] | None = None,
) -> Locations:
    """Return the folders of the user's benchmarks, as `Locations`."""
    if not isinstance(columns, Mapping | None):
        raise RunError(f"columns={quote(columns)}: give a mapping, for example columns={{'image_0': 'left'}}")
    return Locations(
        None if data is None else as_path(data, "data"),
        None if images is None else as_path(images, "images"),
        bool(outside_images),
        tuple((columns or {}).items()),
    )
