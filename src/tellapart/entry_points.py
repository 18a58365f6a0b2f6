"""Entry points: the catalogue's entries that come with the packages of tellapart's distribution, and with others'."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution, entry_points
from pathlib import Path

__all__ = ["entry_name", "installed_points", "package_of", "plural_of", "shipped_targets"]


def shipped_targets(kind: str) -> dict[str, str]:
    """Return the names and `"module:attribute"` of a kind that the packages of tellapart's distribution add.

    >>> shipped_targets("builder")["scenes"]
    'tellapart_render.scenes_builder:Scenes'
    """
    group = f"tellapart.{plural_of(kind)}"
    return {entry_name(point): point.value for point in _shipped_points() if point.group == group}


@cache
def _shipped_points() -> list[EntryPoint]:
    """Return the entry points of tellapart's distribution, by name.

    In a checkout they are read from pyproject.toml: it may be newer than the metadata that an editable installation
    left, and PYTHONPATH alone leaves none.
    """
    file = Path(__file__).parents[2] / "pyproject.toml"
    project = tomllib.loads(file.read_text(encoding="utf-8")).get("project", {}) if file.is_file() else {}
    if project.get("name") == "tellapart":
        groups = project.get("entry-points", {})
        points = [EntryPoint(name, value, group) for group in groups for name, value in groups[group].items()]
    else:
        try:
            points = list(distribution("tellapart").entry_points)
        except PackageNotFoundError:  # the folder was copied
            points = []
    return sorted(points, key=lambda point: point.name)


def installed_points(kind: str) -> dict[str, list[EntryPoint]]:
    """Return the entry points of a kind of all packages that are installed, by the catalogue's name."""
    points: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=f"tellapart.{plural_of(kind)}"):
        points.setdefault(entry_name(point), []).append(point)
    return points


def entry_name(point: EntryPoint) -> str:
    """Return the catalogue's name: that of an entry point cannot end in a colon, and `mine` is the prefix `mine:`."""
    return f"{point.name}:" if point.group == "tellapart.prefixes" else point.name


def plural_of(kind: str) -> str:
    """Return the name of a kind's entry points and listing.

    >>> plural_of("prefix"), plural_of("loss"), plural_of("model")
    ('prefixes', 'losses', 'models')
    """
    return f"{kind}es" if kind.endswith(("s", "x")) else f"{kind}s"


def package_of(point: EntryPoint) -> str:
    """Return the name of the package that gives an entry point."""
    return point.dist.name if point.dist else "an unnamed package"
