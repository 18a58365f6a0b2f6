"""What a benchmark declares of itself, and how its name is resolved."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from tellapart.benchmarks.hub import Hub
from tellapart.benchmarks.place import Place, find_files
from tellapart.catalog import load as load_from_catalog
from tellapart.data.folder import read_pair_set
from tellapart.data.pairset import Outline, PairSet
from tellapart.data.scores import named
from tellapart.errors import DataError

__all__ = ["Benchmark", "PaperTable", "find_benchmark"]

FOLDER = "folder:"

#: Takes a tag's values to their metrics' values (value of the tag -> metric -> number from 0 to 1).
PaperTable = Callable[[Mapping[str, Mapping[str, float]]], "dict[str, float]"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """A named source of minimal pairs.

    Attributes:
        name: as on the command line and in results.
        title: one line for people.
        items: how many it holds.
        shape: images and texts of an item.
        source: where it comes from.
        licence: of its images and captions.
        citation: the paper.
        load: reads its pairs from a place that has its files. No image is opened.
        files: what it needs there: file names, `a*b` patterns, `a|b` alternatives.
        images: which images it needs, in words.
        cluster: what is resampled together, in words.
        ties: what its own code makes of a tie; here a tie is never right.
        hub: where its files are fetched from if no place has them.
        known: what is known of its items without any file, for scores that were made elsewhere.
        paper: tag, and function of its values' metrics, that give the row of the paper's table: column -> percent.
        place: where this user keeps files.

    >>> find_benchmark("winoground").items
    400
    """

    name: str
    title: str
    items: int
    shape: tuple[int, int]
    source: str
    licence: str
    citation: str
    load: Callable[[Place], PairSet]
    files: tuple[str, ...] = ()
    images: str = ""
    cluster: str = "the item"
    ties: str = "a tie is wrong"
    hub: Hub | None = None
    known: Callable[[], Outline] | None = None
    paper: tuple[str, PaperTable] | None = None
    place: Place = field(default_factory=Place)

    def missing(self) -> tuple[str, ...]:
        """Return those of the files it needs that are not in the user's place; images are not looked for.

        >>> find_benchmark("winoground").missing()
        ('test-*.parquet|examples.jsonl',)
        """
        folder = self.place.folder(self.name)
        return tuple(name for name in self.files if folder is None or not find_files(folder, name))

    def expect_pairs(self) -> None:
        """Check, without reading them, that the pairs can be had: from the user's place or from the hub.

        Raises:
            DataError: neither has them, or the hub gates them and there is no token.
            MissingDependencyError: the hub's package is needed and not installed.

        >>> find_benchmark("valse").expect_pairs()  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        tellapart.errors.DataError: valse needs actant-swap.json, action-replacement.json, coreference-hard.json and 8 more...
        """
        if not (missing := self.missing()):
            return
        try:
            if self.hub is None:
                raise DataError(self._needs(missing))
            self.hub.expect()
        except DataError as error:
            elsewhere = (
                ""
                if self.known is None
                else (f"; or score its pairs where you have them, and run: tellapart score {self.name} --scores FILE")
            )
            raise DataError(f"{error}{elsewhere}") from error

    def pairs(self) -> PairSet:
        """Load the captions, and where the images are; what no place of the user's has is fetched from the hub.

        Raises:
            DataError: the files are not there, are gated, or are not what their format says.
            MissingDependencyError: the hub's package is needed and not installed.

        >>> len(find_benchmark("demo").pairs())
        300
        """
        self.expect_pairs()
        if not self.missing() or self.hub is None:
            return self.load(self.place)
        return self.load(replace(self.place, data=self.hub.fetch()))

    def pairs_here(self) -> PairSet | None:
        """Load the pairs if the user's place or the hub's cache has them; the network is not used.

        Raises:
            DataError: the files are there, and not what their format says.

        >>> find_benchmark("aro-relation").pairs_here() is None
        True
        """
        if not self.missing():
            return self.load(self.place)
        folder = None if self.hub is None else self.hub.cached()
        return None if folder is None else self.load(replace(self.place, data=folder))

    def held(self) -> Benchmark:
        """Return the benchmark with its pairs in memory, if they are here, so that they are not read twice.

        Raises:
            DataError: the files are there, and not what their format says.

        >>> held = find_benchmark("demo").held()
        >>> held.pairs() is held.pairs()
        True
        """
        here = self.pairs_here()
        return self if here is None else replace(self, load=lambda _place: here, files=())

    def outline(self) -> Outline:
        """Return ids, clusters and tags: from the files if they are there, else what is known without them.

        Raises:
            DataError: nothing is known without the files, and they are not there or not what their format says.

        >>> find_benchmark("winoground").outline().ids[:3]
        ('0', '1', '2')
        """
        here = self.pairs_here()
        if here is not None:
            return here.outline
        if self.known is None:
            raise DataError(self._needs(self.missing()))
        return self.known()

    def _needs(self, missing: tuple[str, ...]) -> str:
        looked = self.place.folder(self.name)
        where = "no --data was given" if looked is None else f"{looked} lacks {'them' if len(missing) > 1 else 'it'}"
        hub = "" if self.hub is None else f"; or fetch it once: tellapart run -b {self.name} (from {self.hub.page})"
        return (
            f"{self.name} needs {named(missing, limit=3)}, and {where}: get the files from {self.source} and name their "
            f"folder with --data{hub}"
        )


def find_benchmark(name: str, place: Place | None = None) -> Benchmark:
    """Return the benchmark of that name; `folder:PATH` is the user's own pair set.

    Args:
        name: as `tellapart ls benchmarks` lists it.
        place: where the user keeps files.

    Raises:
        UnknownNameError: no such name.
        DataError: the folder is no pair set, or what another package installed under that name is no benchmark.

    >>> find_benchmark("demo").shape
    (2, 2)
    """
    if name.startswith(FOLDER):
        return _folder(name)
    benchmark = load_from_catalog("benchmark", name)
    if not isinstance(benchmark, Benchmark):
        raise DataError(f"benchmark {name!r} is a {type(benchmark).__name__}; its entry point must name a Benchmark")
    return benchmark if place is None else replace(benchmark, place=place)


def _folder(name: str) -> Benchmark:
    path = Path(name.removeprefix(FOLDER)).expanduser()
    if name == FOLDER:
        raise DataError("folder: names no folder; write folder:PATH, for example -b folder:my_pairs")
    pairs = read_pair_set(path, name)
    return Benchmark(
        name=name,
        title=str(pairs.card.get("title") or path.resolve().name),
        items=len(pairs),
        shape=pairs.shape,
        source=str(path),
        licence=str(pairs.card.get("licence", "not stated")),
        citation=str(pairs.card.get("citation", "not stated")),
        load=lambda _place: pairs,
    )
