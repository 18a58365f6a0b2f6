"""Arguments as people give them: one or several, a text or a path, a number for a limit; and options without effect."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

from tellapart.errors import RunError, TellapartError, nearest, quote

__all__ = ["PathGiven", "as_path", "as_paths"]


def expect_used(call: str, reason: str, error: type[TellapartError] = RunError, **given: tuple[object, object]) -> None:
    """Refuse options of a call that do nothing."""
    for name, (value, default) in given.items():
        if value != default:
            raise error(f"{call}: {name}={value} has no effect {reason}; leave it out")


def expect_kind(kind: str, uses: Mapping[str, Collection[str]], given: Mapping[str, tuple[object, object]]) -> None:
    """Refuse options that a kind does not use, by a table of option -> the kinds that use it; others all kinds use."""
    for name, values in given.items():
        if name in uses and kind not in uses[name]:
            expect_used(kind, f"on {kind}, but on {', '.join(uses[name])}", RunError, **{name: values})


def home_folder() -> Path | None:
    """Return the user's home folder; None without one, as in many containers: `HOME` is empty, the root, or not set."""
    home = Path(os.path.expanduser("~"))  # noqa: PTH111  (pathlib's raises an error)
    return home if home.is_absolute() and home != home.parent else None


def suggest_beside(path: Path) -> str:
    """Return "; did you mean ...?" with the file that has nearly a missing path's name beside it, or nothing."""
    try:  # of a folder that may hold millions
        return nearest(path.name, [entry.name for entry in islice(path.parent.iterdir(), 1_000)])
    except OSError:  # no folder, or one that may not be read
        return ""


#: A text or a path; a `Run` is one, too.
PathGiven: TypeAlias = str | os.PathLike[str]

#: A number of items, a share of them, or either as the command line writes it.
LimitGiven: TypeAlias = int | float | str | None


def as_path(value: object, what: str, error: type[TellapartError] = RunError) -> Path:
    """Return a text or a path as a path, with `~` expanded."""
    if isinstance(value, str | os.PathLike) and str(value):
        path = Path(value)
        if path.parts[:1] == ("~",) and home_folder() is None:
            raise error(f"{what}={quote(value)}: this user has no home folder; set HOME, or write the full path")
        return path.expanduser()
    raise error(f"{what}={quote(value)} ({type(value).__name__}) is not a path; give a text or a pathlib.Path")


def as_paths(value: PathGiven | Sequence[PathGiven], what: str) -> list[Path]:
    """Return one path or several as a list of paths."""
    return [as_path(each, what) for each in as_tuple(value, what)]


def as_tuple(value: object, what: str) -> tuple[Any, ...]:
    """Return one thing, or several in a list or tuple, as a tuple; paths in it as texts."""
    several = value if isinstance(value, list | tuple) else (value,)
    if not several:
        raise RunError(f"{what}={quote(value)}: name at least one")
    return tuple(str(each) if isinstance(each, Path) else each for each in several)


def as_names(value: object, what: str = "names") -> tuple[str, ...]:
    """Return names as a tuple; none of None or of an empty one."""
    names = () if value is None or (isinstance(value, list | tuple) and not value) else as_tuple(value, what)
    if other := [name for name in names if not (isinstance(name, str) and name)]:
        raise RunError(f"{what}={quote(value)}: {quote(other[0])} is not a name; give texts")
    if halves := [name for name in names if any("\ud800" <= letter <= "\udfff" for letter in name)]:
        raise RunError(f"{what}={quote(halves[0])}: a part of it is not UTF-8; type the name again")
    return names


def as_limit(value: object) -> str | None:
    """Return a number or a share of items as the command line writes it."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RunError(f"limit={quote(value)}: give a number of items (20) or a share of them between 0 and 1 (0.1)")
    return f"{value}"
