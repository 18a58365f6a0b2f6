"""Load minimal pairs: the function `load_pairs`, and the sets of functions that take one or two."""

from __future__ import annotations

from collections.abc import Mapping

from tellapart.api.arguments import PairsGiven, PathGiven, as_path, locations, refuse_columns, refuse_idle
from tellapart.api.plugins import open_benchmark
from tellapart.benchmarks.find import load_pairs_or_folder
from tellapart.benchmarks.locations import Locations
from tellapart.data.pairset import PairSet

__all__ = ["load_pairs", "load_sets"]


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
    """Load one set or two, as `load_pairs` does; an option has an effect if it acts on one of them.

    Raises:
        TellapartError: as `load_pairs`.
    """
    sets = (pairs,) if other is None else (pairs, other)
    refuse_idle(sets, place)
    names = [each if isinstance(each, PairSet) else open_benchmark(str(as_path(each, "pairs"))) for each in sets]
    refuse_columns(dict(place.columns), names)
    first, *more = (name if isinstance(name, PairSet) else load_pairs_or_folder(name, place) for name in names)
    return first, more[0] if more else None
