"""What a benchmark declares of itself, and how its name is resolved."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path

from tellapart.benchmarks.class_folders import PREFIX as CLASSES
from tellapart.benchmarks.class_folders import class_folder_benchmark
from tellapart.benchmarks.definition import Declared
from tellapart.benchmarks.locations import Locations
from tellapart.benchmarks.ranking import PREFIX as RANKING
from tellapart.benchmarks.ranking import ranking_benchmark
from tellapart.benchmarks.task_benchmark import TaskBenchmark
from tellapart.catalog import load as load_from_catalog
from tellapart.data.folder import read_pair_set
from tellapart.data.pairset import Outline, PairSet
from tellapart.errors import DataError

__all__ = ["ALL", "Benchmark", "PaperTable", "find_benchmark", "find_pairs"]

FOLDER = "folder:"
PAIRING = "pairing:"

#: The value that stands for every item, in what a paper's table is made of.
ALL = "all items"

#: Takes a tag's values, and ALL, to their metrics' values (value of the tag -> metric -> number from 0 to 1).
PaperTable = Callable[[Mapping[str, Mapping[str, float]]], "dict[str, float]"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark(Declared):
    """A named source of minimal pairs.

    Attributes:
        shape: images and texts of an item.
        load: reads its pairs from a place that has its files. No image is opened.
        ties: what its own code makes of a tie; here a tie is never right.
        known: what is known of its items without any file, for scores that were made elsewhere.
        paper: tag, and function of its values' metrics, that give the row of the paper's table: column -> percent.

    >>> find_benchmark("winoground").items
    400
    """

    shape: tuple[int, int]
    load: Callable[[Locations], PairSet]
    ties: str = "a tie is wrong"
    known: Callable[[], Outline] | None = None
    paper: tuple[str, PaperTable] | None = None

    def expect(self) -> None:
        """Check, without reading them, that the pairs can be had: from the user's place or from the hub.

        Raises:
            DataError: neither has them, or the hub gates them and there is no token.
            MissingDependencyError: the hub's package is needed and not installed.

        >>> find_benchmark("valse").expect()  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        tellapart.errors.DataError: valse needs actant-swap.json, action-replacement.json, coreference-hard.json and 8 more...
        """
        try:
            Declared.expect(self)
        except DataError as error:
            if self.known is None:
                raise
            elsewhere = f"or score its pairs where you have them, and run: tellapart score {self.name} --scores FILE"
            raise DataError(f"{error}; {elsewhere}") from error

    def pairs(self) -> PairSet:
        """Load the captions, and where the images are; what no place of the user's has is fetched from the hub.

        Raises:
            DataError: the files are not there, are gated, or are not what their format says.
            MissingDependencyError: the hub's package is needed and not installed.

        >>> len(find_benchmark("demo").pairs())
        300
        """
        self.expect()
        return self.load(self.located())

    def pairs_here(self) -> PairSet | None:
        """Load the pairs if the user's place or the hub's cache has them; the network is not used.

        Raises:
            DataError: the files are there, and not what their format says.

        >>> find_benchmark("aro-relation").pairs_here() is None
        True
        """
        place = self.here()
        return None if place is None else self.load(place)

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
            raise DataError(self.needs())
        return self.known()


def find_benchmark(name: str, place: Locations | None = None) -> Benchmark | TaskBenchmark:
    """Return the benchmark of that name; `folder:PATH` is the user's own pair set, `ranking:FILE` their rankings,
    `classes:DIR` their folders of classes, `pairing:NAME` a set of 2x2 pairs asked in words.

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
    if name.startswith(RANKING):
        return ranking_benchmark(name, place)
    if name.startswith(CLASSES):
        return class_folder_benchmark(name)
    if name.startswith(PAIRING):
        return _pairing(name, place)
    benchmark = load_from_catalog("benchmark", name)
    if not isinstance(benchmark, Benchmark | TaskBenchmark):
        raise DataError(f"benchmark {name!r} is a {type(benchmark).__name__}; its entry point must name a Benchmark")
    return benchmark if place is None else replace(benchmark, place=place)


def find_pairs(name: str, place: Locations | None = None) -> Benchmark:
    """Return the benchmark of minimal pairs of that name.

    Raises:
        UnknownNameError: no such name.
        DataError: as `find_benchmark`, or it is a task and no set of pairs.

    >>> find_pairs("vlue-nlvr2")
    Traceback (most recent call last):
    tellapart.errors.DataError: vlue-nlvr2 is a task (nlvr2), and no set of minimal pairs
    """
    benchmark = find_benchmark(name, place)
    if isinstance(benchmark, TaskBenchmark):
        raise DataError(f"{name} is a task ({benchmark.task}), and no set of minimal pairs")
    return benchmark


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


def _pairing(name: str, place: Locations | None) -> TaskBenchmark:
    own = name.removeprefix(PAIRING)
    if not own:
        raise DataError("pairing: names no set of pairs; write pairing:NAME, for example -b pairing:demo")
    pairs = find_pairs(own, place)
    if pairs.shape != (2, 2):
        raise DataError(f"{name}: which caption belongs to which image is asked of 2x2 items; {own} has {pairs.shape}")
    held: list[PairSet] = []

    def load(at: Locations) -> PairSet:
        if not held:
            held.append(pairs.load(at))
        return held[0]

    declared = {each.name: getattr(pairs, each.name) for each in fields(Declared)}
    return TaskBenchmark(
        **{**declared, "name": name, "title": f"{pairs.title}; in words"},
        task="pairing",
        load=load,
        pictures=lambda at: load(at).read_bytes,
    )
