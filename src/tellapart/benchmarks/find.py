"""Benchmarks by name: those of the catalogue, and the user's own files behind a prefix."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.class_folders import class_folder_benchmark
from tellapart.benchmarks.image_sources import own_images
from tellapart.benchmarks.locations import Locations
from tellapart.benchmarks.ranking import ranking_benchmark
from tellapart.benchmarks.unprefixed import explain_path
from tellapart.catalog import load as load_from_catalog
from tellapart.catalog import names
from tellapart.data.folder import read_pair_set
from tellapart.data.pairset import PairSet
from tellapart.errors import DataError, UnknownNameError

__all__ = ["FOLDER", "find_benchmark", "load_pairs", "load_pairs_or_folder"]

FOLDER = "folder:"


def find_benchmark(name: str, place: Locations | None = None) -> Benchmark:
    """Return the benchmark of that name; `folder:PATH` is the user's own pair set, `ranking:FILE` their rankings,
    `classes:DIR` their folders of classes, `pairing:NAME` a set of 2x2 pairs asked in words.

    Args:
        name: as `tellapart ls benchmarks` lists it.
        place: where the user keeps files.

    Raises:
        UnknownNameError: no such name, or it is a path that needs one of these prefixes.
        DataError: the folder is no pair set, or what another package installed under that name is no benchmark.

    >>> find_benchmark("demo").shape
    (2, 2)
    """
    for prefix, open_own in _OWN.items():
        if name.startswith(prefix):
            return open_own(name, place)
    if name not in names("benchmark") and (lies_there := explain_path(name)) is not None:
        raise UnknownNameError(lies_there)
    benchmark = load_from_catalog("benchmark", name)
    if not isinstance(benchmark, Benchmark):
        raise DataError(f"benchmark {name!r} is a {type(benchmark).__name__}; its entry point must name a Benchmark")
    return benchmark if place is None else replace(benchmark, place=place)


def load_pairs(name: str, place: Locations | None = None) -> PairSet:
    """Load the minimal pairs of that name; files that no folder has are fetched from the hub.

    Raises:
        UnknownNameError: no such name.
        DataError: as `find_benchmark`; the benchmark is another task; its files are missing or damaged.

    >>> len(load_pairs("demo"))
    300
    """
    benchmark = find_benchmark(name, place)
    if benchmark.shape is None:
        raise DataError(f"{name} is a task ({benchmark.task}), and no set of minimal pairs")
    pairs: PairSet = benchmark.records()
    return pairs


def load_pairs_or_folder(name: str, place: Locations | None = None) -> PairSet:
    """Load minimal pairs as `load_pairs` does; a folder may be named without `folder:`.

    Raises:
        UnknownNameError: no benchmark of that name, and no folder.
        DataError: as `load_pairs`.
    """
    if name not in names("benchmark") and Path(name).expanduser().is_dir():
        name = f"{FOLDER}{name}"
    return load_pairs(name, place)


def _folder(name: str, place: Locations | None) -> Benchmark:
    path = Path(name.removeprefix(FOLDER)).expanduser()
    if name == FOLDER:
        raise DataError("folder: names no folder; write folder:PATH, for example -b folder:my_pairs")
    place = place or Locations()
    images = own_images(path, place)
    pairs = read_pair_set(path, name, images.find)
    if place.images is not None or place.outside:
        pairs = replace(pairs, read=images)
    return Benchmark(
        name=name,
        title=str(pairs.card.get("title") or path.resolve().name),
        items=len(pairs),
        shape=pairs.shape,
        source=str(path),
        licence=str(pairs.card.get("licence", "not stated")),
        citation=str(pairs.card.get("citation", "not stated")),
        load=lambda _place: pairs,
        place=place,
    )


def _pairing(name: str, place: Locations | None) -> Benchmark:
    own = name.removeprefix("pairing:")
    if not own:
        raise DataError("pairing: names no set of pairs; write pairing:NAME, for example -b pairing:demo")
    pairs = find_benchmark(own, place)
    if pairs.shape is None:
        raise DataError(f"{own} is a task ({pairs.task}), and no set of minimal pairs")
    if pairs.shape != (2, 2):
        raise DataError(f"{name}: which caption belongs to which image is asked of 2x2 items; {own} has {pairs.shape}")
    load = lru_cache(maxsize=1)(pairs.load)
    return replace(
        pairs,
        name=name,
        title=f"{pairs.title}; in words",
        task="pairing",
        shape=None,
        load=load,
        pictures=lambda at: load(at).read_bytes,
        known=None,
        paper=None,
    )


#: What a name may begin with, and what opens the user's own files behind it.
_OWN: Mapping[str, Callable[[str, Locations | None], Benchmark]] = MappingProxyType(
    {
        FOLDER: _folder,
        "ranking:": ranking_benchmark,
        "classes:": class_folder_benchmark,
        "pairing:": _pairing,
    }
)
