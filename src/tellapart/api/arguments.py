"""Arguments as people give them: one or several, a text or a path, a number for a limit; or one sentence on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from tellapart.benchmarks.locations import Locations
from tellapart.catalog import nearest
from tellapart.data.paths import as_path as read_path
from tellapart.errors import RunError, quote

__all__ = ["as_limit", "as_names", "as_path", "as_tuple", "choose", "field_names", "locations"]


def as_path(value: Any, what: str) -> Path:
    """Return a text or a path as a path.

    Raises:
        RunError: it is neither.

    >>> as_path("runs/mine", "out").as_posix()
    'runs/mine'
    """
    return read_path(value, what, RunError)


def as_tuple(value: Any, what: str) -> tuple[Any, ...]:
    """Return one thing, or several in a list or tuple, as a tuple; paths in it as texts.

    Raises:
        RunError: there is none.

    >>> as_tuple("demo", "benchmarks"), as_tuple([Path("a"), "b"], "models")
    (('demo',), ('a', 'b'))
    """
    several = tuple(value) if isinstance(value, list | tuple) else (value,)
    if several == ():
        raise RunError(f"{what}={quote(value)}: name at least one")
    return tuple(str(each) if isinstance(each, Path) else each for each in several)


def as_names(value: Any) -> tuple[str, ...]:
    """Return names of models as a tuple; none of None or of an empty one.

    Raises:
        RunError: one is no text.

    >>> as_names(["a", "b"]), as_names(None)
    (('a', 'b'), ())
    """
    names = () if value is None or (isinstance(value, list | tuple) and not value) else as_tuple(value, "names")
    if other := [name for name in names if not (isinstance(name, str) and name)]:
        raise RunError(f"names={quote(value)}: {quote(other[0])} is no name; give a text for each model")
    return names


def as_limit(value: Any) -> str | None:
    """Return a number or a share of items as `--limit` writes it.

    Raises:
        RunError: it is no number.

    >>> as_limit(100), as_limit(0.1), as_limit(None)
    ('100', '0.1', None)
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RunError(f"limit={quote(value)}: give a number of items (20) or a share of them between 0 and 1 (0.1)")
    return f"{value}"


def choose(call: str, given: Mapping[str, Any], known: Iterable[str]) -> dict[str, Any]:
    """Return keyword arguments that a function takes.

    Raises:
        RunError: it does not take one of them.

    >>> choose("evaluate", {"seed": 1}, ["seed", "device"])
    {'seed': 1}
    """
    known = list(known)
    for name in given:
        if name not in known:
            hint = nearest(name, known) or ";"
            raise RunError(f"{call}({name}=...): no such argument{hint} it also takes {', '.join(known)}")
    return dict(given)


def locations(data: Any = None, images: Any = None, outside_images: bool = False) -> Locations:
    """Return where the user keeps benchmarks' files, as `--data`, `--images` and `--outside-images` say it.

    Raises:
        DataError: one of them is no folder.
        RunError: one of them is no path.

    >>> locations().data is None
    True
    """
    return Locations(
        None if data is None else as_path(data, "data"),
        None if images is None else as_path(images, "images"),
        bool(outside_images),
    )


def field_names(record: type, *without: str) -> list[str]:
    """List the fields of a dataclass that are arguments of a function, too."""
    return [field.name for field in fields(record) if field.name not in without]
