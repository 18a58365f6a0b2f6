"""A pair set by its name or its folder."""

from __future__ import annotations

from pathlib import Path

from tellapart.benchmarks.find import FOLDER, load_pairs
from tellapart.benchmarks.locations import Locations
from tellapart.catalog import names
from tellapart.data.pairset import PairSet

__all__ = ["find_set"]


def find_set(name: str, place: Locations | None = None) -> PairSet:
    """Return the pairs of a benchmark, or of a folder, for which `folder:` may be left out.

    Raises:
        UnknownNameError: no benchmark of that name, and no folder.
        DataError: its files are not there or are not what their format says, or it is a task and no set of pairs.

    >>> len(find_set("demo"))
    300
    """
    if name not in names("benchmark") and Path(name).expanduser().is_dir():
        name = f"{FOLDER}{name}"
    return load_pairs(name, place)
