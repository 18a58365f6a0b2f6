"""What a benchmark declares of itself, and how its name is resolved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tellapart.catalog import load as load_from_catalog
from tellapart.data.folder import read_pair_set
from tellapart.data.pairset import Outline, PairSet
from tellapart.errors import DataError

__all__ = ["Benchmark", "find_benchmark"]

FOLDER = "folder:"


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
        load: reads its pairs; None where the project may not carry them, so that only scores made elsewhere can be
            measured.
        outline: ids, clusters and tags; known without the pairs.

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
    load: Callable[[], PairSet] | None
    outline: Callable[[], Outline]

    def pairs(self) -> PairSet:
        """Load the images and captions.

        Raises:
            DataError: this project does not carry them.

        >>> find_benchmark("winoground").pairs()
        Traceback (most recent call last):
        tellapart.errors.DataError: winoground's images cannot be loaded yet: they are gated (see https://huggingface.co/datasets/facebook/winoground); score them where you have them and run: tellapart score winoground --scores FILE
        """
        if self.load is None:
            raise DataError(
                f"{self.name}'s images cannot be loaded yet: they are gated (see {self.source}); score them where you "
                f"have them and run: tellapart score {self.name} --scores FILE"
            )
        return self.load()


def find_benchmark(name: str) -> Benchmark:
    """Return the benchmark of that name; `folder:PATH` is the user's own pair set.

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
        load=lambda: pairs,
        outline=lambda: pairs.outline,
    )
