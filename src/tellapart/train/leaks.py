"""Which training images are pictures of a benchmark that is to be reported: what was trained on must not be measured on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tellapart.benchmarks.benchmark import Benchmark, find_benchmark
from tellapart.benchmarks.task_benchmark import TaskBenchmark
from tellapart.data.images import decode, pixel_hash
from tellapart.data.perceptual import Prints, near, perceptual_hash, prints, thumbnail
from tellapart.data.progress import Progress
from tellapart.errors import DataError
from tellapart.tasks.registry import find_task
from tellapart.train.rows import Rows

__all__ = ["Leak", "leaks", "refuse"]


@dataclass(frozen=True, slots=True)
class Leak:
    """What a benchmark shares with the training images.

    Attributes:
        benchmark: its name.
        same: training images that are one of its pictures, to the pixel.
        alike: training images that look like one of its pictures, and are none.
        images: how many pictures it has.

    >>> Leak("demo", ("a.png",), (), 600).same
    ('a.png',)
    """

    benchmark: str
    same: tuple[str, ...]
    alike: tuple[str, ...]
    images: int


@dataclass(frozen=True, slots=True, eq=False)
class _Seen:
    names: tuple[str, ...]
    pixels: tuple[str, ...]
    looks: Prints


def leaks(rows: Rows, benchmarks: Sequence[str], progress: Progress | None = None) -> list[Leak]:
    """Compare every training image with every picture of the benchmarks, by pixels and by perceptual hash.

    Args:
        rows: what is trained on.
        benchmarks: names of sets and tasks.
        progress: told how far it is.

    Raises:
        DataError: an image cannot be read.

    >>> from tellapart.benchmarks.benchmark import find_benchmark
    >>> from tellapart.train.rows import Row
    >>> demo = find_benchmark("demo").pairs()
    >>> rows = Rows((Row(demo.root / demo.items[0].images[0], "a"),))
    >>> [(leak.same, leak.alike) for leak in leaks(rows, ["demo"])]
    [(('attribute-000_0.webp',), ())]
    """
    if not benchmarks:
        return []
    paths = list(dict.fromkeys(row.image for row in rows.rows))
    ours = _seen([str(path) for path in paths], lambda name: Path(name).read_bytes(), "training images", progress)
    found = []
    for name in benchmarks:
        references, read = _pictures(find_benchmark(name))
        theirs = _seen(references, read, f"images of {name}", progress)
        there = set(theirs.pixels)
        same = np.array([value in there for value in ours.pixels])
        alike = np.zeros(len(ours.names), dtype=bool)
        for i, _ in near(ours.looks, theirs.looks):
            alike[i] = True
        found.append(Leak(name, _some(ours, same), _some(ours, alike & ~same), len(references)))
    return found


def refuse(found: Sequence[Leak]) -> None:
    """Refuse to train on a benchmark's pictures.

    Raises:
        DataError: a benchmark shares a picture, or what looks like one, with the training images.

    >>> refuse([Leak("demo", ("a.png", "b.png"), ("c.png",), 600)])
    Traceback (most recent call last):
    tellapart.errors.DataError: demo: 2 training images are its pictures to the pixel (a.png, b.png), 1 looks like one (c.png); a number measured on what was trained on means nothing: leave them out of data.train or demo out of report.benchmarks, or allow it with --allow-leak
    """
    for leak in found:
        parts = []
        if leak.same:
            verb = "image is one of its pictures" if len(leak.same) == 1 else "images are its pictures"
            parts.append(f"{len(leak.same)} training {verb} to the pixel ({_named(leak.same)})")
        if leak.alike:
            noun = "looks like one" if len(leak.alike) == 1 else "look like one"
            parts.append(f"{len(leak.alike)} {noun} ({_named(leak.alike)})")
        if parts:
            raise DataError(
                f"{leak.benchmark}: {', '.join(parts)}; a number measured on what was trained on means nothing: leave them out "
                f"of data.train or {leak.benchmark} out of report.benchmarks, or allow it with --allow-leak"
            )


def _seen(
    names: Sequence[str], read: Callable[[str], bytes], stage: str, progress: Progress | None, threads: int = 4
) -> _Seen:
    def one(name: str) -> tuple[str, int, NDArray[np.uint8]]:
        try:
            pixels = decode(read(name), name)
        except OSError as error:
            raise DataError(f"{name}: cannot be read ({error.strerror})") from error
        return pixel_hash(pixels), perceptual_hash(pixels), thumbnail(pixels)

    looked = []
    with ThreadPoolExecutor(threads) as pool:
        for done, found in enumerate(pool.map(one, names), start=1):
            looked.append(found)
            if progress is not None:
                progress(stage, done, len(names))
    kept = prints([(value, small) for _, value, small in looked])
    return _Seen(tuple(names), tuple(value for value, _, _ in looked), kept)


def _pictures(benchmark: Benchmark | TaskBenchmark) -> tuple[list[str], Callable[[str], bytes]]:
    """Return the references of all pictures of a benchmark, and what reads one."""
    if isinstance(benchmark, Benchmark):
        pairs = benchmark.pairs()
        return list(dict.fromkeys(image for item in pairs.items for image in item.images)), pairs.read_bytes
    rows = find_task(benchmark.task, benchmark.name).template(benchmark.records())
    named = [image for row in rows for image in (row.get("images") or [row.get("image")])]
    return list(dict.fromkeys(image for image in named if image)), benchmark.read_image()


def _some(seen: _Seen, hit: NDArray[np.bool_]) -> tuple[str, ...]:
    return tuple(Path(name).name for name, yes in zip(seen.names, hit, strict=True) if yes)


def _named(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
