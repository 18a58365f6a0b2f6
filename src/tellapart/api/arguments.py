"""Arguments as people give them: one or several, a text or a path, a number for a limit; or one sentence on it."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from tellapart.benchmarks.locations import Locations
from tellapart.data.pairset import PairSet
from tellapart.data.paths import as_path as read_path
from tellapart.data.progress import NotedProgress
from tellapart.errors import RunError, quote
from tellapart.records.zipped import unpacked

__all__ = [
    "LimitGiven",
    "PairsGiven",
    "PathGiven",
    "ProgressGiven",
    "as_limit",
    "as_names",
    "as_path",
    "as_paths",
    "as_tuple",
    "expect_used",
    "locations",
    "refuse_columns",
    "refuse_idle",
    "run_folders",
]

#: A text or a path; a `Run` is one, too.
PathGiven: TypeAlias = str | os.PathLike[str]

#: A pair set, its folder, or the name of a benchmark of minimal pairs.
PairsGiven: TypeAlias = PathGiven | PairSet

#: A number of items, a share of them, or either as the command line writes it.
LimitGiven: TypeAlias = int | float | str | None

#: True shows progress, False does not, None if somebody may look; or a function from a title to a callback.
ProgressGiven: TypeAlias = bool | Callable[[str], NotedProgress] | None


def as_path(value: object, what: str) -> Path:
    """Return a text or a path as a path.

    Raises:
        RunError: it is neither.

    >>> as_path("runs/mine", "out").as_posix()
    'runs/mine'
    """
    return read_path(value, what, RunError)


def as_paths(value: PathGiven | Sequence[PathGiven], what: str) -> list[Path]:
    """Return one path or several as a list of paths.

    Raises:
        RunError: there is none, or one is neither a text nor a path.

    >>> [path.as_posix() for path in as_paths(["a", Path("b")], "runs")]
    ['a', 'b']
    """
    return [as_path(each, what) for each in as_tuple(value, what)]


@contextmanager
def run_folders(value: PathGiven | Sequence[PathGiven], name: str) -> Iterator[list[Path]]:
    """Yield one run folder or several; a zip archive of one is unpacked until the block ends.

    Raises:
        RunError: there is none, one is neither a text nor a path, or an archive is refused.

    >>> with run_folders(["a", Path("b")], "runs") as folders:
    ...     print([folder.as_posix() for folder in folders])
    ['a', 'b']
    """
    with unpacked(as_paths(value, name)) as folders:
        yield folders


def as_tuple(value: object, what: str) -> tuple[Any, ...]:
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


def as_names(value: object, what: str = "names") -> tuple[str, ...]:
    """Return names as a tuple; none of None or of an empty one.

    Raises:
        RunError: one is not a text, or holds half a character.

    >>> as_names(["a", "b"]), as_names(None)
    (('a', 'b'), ())
    """
    names = () if value is None or (isinstance(value, list | tuple) and not value) else as_tuple(value, what)
    if other := [name for name in names if not (isinstance(name, str) and name)]:
        raise RunError(f"{what}={quote(value)}: {quote(other[0])} is not a name; give texts")
    if halves := [name for name in names if any("\ud800" <= letter <= "\udfff" for letter in name)]:
        raise RunError(f"{what}={quote(halves[0])}: a part of it is not UTF-8; type the name again")
    return names


def as_limit(value: object) -> str | None:
    """Return a number or a share of items as the command line writes it.

    Raises:
        RunError: it is not a number.

    >>> as_limit(100), as_limit(0.1), as_limit(None)
    ('100', '0.1', None)
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RunError(f"limit={quote(value)}: give a number of items (20) or a share of them between 0 and 1 (0.1)")
    return f"{value}"


def expect_used(call: str, missing: str, **given: tuple[object, object]) -> None:
    """Refuse arguments of a call that do nothing because another one is missing, or is given.

    Args:
        call: the function's name.
        missing: what they lack, after "has no effect".
        given: each argument's value and its default.

    Raises:
        RunError: one is not at its default.

    >>> try:
    ...     expect_used("mine", "without scorer=MODEL", hard=(3, 8), reading=(None, None))
    ... except RunError as error:
    ...     print(error)
    mine: hard=3 has no effect without scorer=MODEL; leave it out
    """
    for name, (value, default) in given.items():
        if value != default:
            raise RunError(f"{call}: {name}={value} has no effect {missing}; leave it out")


def refuse_columns(columns: Mapping[str, str] | None, names: Collection[object]) -> None:
    """Refuse names of columns if no benchmark is a table: they would have no effect.

    Raises:
        RunError: no name is that of a table.
    """
    if not columns:
        return
    from tellapart.benchmarks.find import set_name
    from tellapart.benchmarks.pair_table import TABLE

    if not any(isinstance(name, str | os.PathLike) and TABLE in set_name(str(name)) for name in names):
        sets = ", ".join(quote(str(getattr(name, "name", name)), 200) for name in names)
        raise RunError(
            f"columns= is of {TABLE}FILE (.csv, .tsv, .jsonl, .parquet), and {sets} is none; name such a file"
        )


def refuse_idle(names: Iterable[object], place: Locations, *, strict: bool = False) -> Locations:
    """Return the folders of the user's benchmarks if each option acts on one of these benchmarks.

    Args:
        names: of benchmarks, or benchmarks in memory: pairs need none of it, others may need all.
        place: the folders that are given.
        strict: whether a set's published number of records was asked for.

    Raises:
        RunError: an option has no effect.
    """
    named = [str(name) if isinstance(name, os.PathLike) else name for name in names]
    given = {"data": place.data, "images": place.images, "strict": strict or None}
    why = {
        "data": "needs no files",
        "images": "shows no images, or holds them",
        "strict": "has no published number of records",
    }
    for option in (option for option, value in given.items() if value is not None):
        if not any(_takes_option(name, option) for name in named):
            sets = ", ".join(quote(getattr(name, "name", name)) for name in named)
            raise RunError(f"{option}={given[option]} has no effect on {sets}, which {why[option]}; leave it out")
    return place


def _takes_option(benchmark: object, option: str) -> bool:
    if not isinstance(benchmark, str):
        return not isinstance(benchmark, PairSet)
    from tellapart.benchmarks.find import takes_options

    taken = takes_options(benchmark)
    return taken is None or option in taken


def locations(
    data: PathGiven | None = None,
    images: PathGiven | None = None,
    outside_images: bool = False,
    columns: Mapping[str, str] | None = None,
) -> Locations:
    """Return the folders of the user's benchmarks, as `Locations`.

    Raises:
        DataError: one of them is not a folder.
        RunError: one of them is not a path, or `columns` is no mapping.

    >>> locations().data is None
    True
    """
    if not isinstance(columns, Mapping | None):
        raise RunError(f"columns={quote(columns)}: give a mapping, for example columns={{'image_0': 'left'}}")
    return Locations(
        None if data is None else as_path(data, "data"),
        None if images is None else as_path(images, "images"),
        bool(outside_images),
        tuple((columns or {}).items()),
    )
