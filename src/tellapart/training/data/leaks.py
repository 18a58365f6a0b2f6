"""Training images that are pictures of a reported benchmark: training images must not be measured on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tellapart.benchmarks.find import find_benchmark
from tellapart.benchmarks.locations import Locations
from tellapart.data.images import pixel_hash
from tellapart.data.perceptual import ImageHashes, gather_hashes, near_duplicates, perceptual_hash, thumbnail
from tellapart.data.progress import Progress
from tellapart.data.video import decode_slot
from tellapart.errors import DataError
from tellapart.models.scoring.frames import list_frames
from tellapart.tasks.registry import find_task
from tellapart.training.data.rows import TrainingRows
from tellapart.training.data.shards import read_image

#: Words for several images, and for one.
_SAME, _ALIKE = ("images are its pictures", "image is one of its pictures"), ("look like one", "looks like one")


@dataclass(frozen=True, slots=True)
class Leak:
    """The training images that a benchmark shares, the same to the pixel or alike, and how many pictures it has."""

    benchmark: str
    same: tuple[str, ...]
    alike: tuple[str, ...]
    images: int

    def describe_choice(self) -> str:
        """Return a line on weights that are chosen by such pictures; empty if there are none."""
        shared = len(self.same) + len(self.alike)
        if not shared:
            return ""
        return (
            f"data.validation: {shared:,} training images are pictures of {self.benchmark} or look like one: weights "
            "are chosen by pictures that were trained on; leave them out of data.train, or name another set"
        )


@dataclass(frozen=True, slots=True, eq=False)
class PictureHashes:
    """Hashes of pictures by their names: of the pixels, and perceptual ones."""

    names: tuple[str, ...]
    pixels: tuple[str, ...]
    prints: ImageHashes

    def by_file(self) -> dict[Path, str]:
        """Return the hash of the pixels of each file."""
        return dict(zip(map(Path, self.names), self.pixels, strict=True))

    def select(self, names: Sequence[str]) -> PictureHashes:
        """Return the hashes of some of the pictures."""
        places = {name: place for place, name in enumerate(self.names)}
        rows = [places[name] for name in names]
        prints = ImageHashes(self.prints.hashes[rows], self.prints.thumbnails[rows])
        return PictureHashes(tuple(names), tuple(self.pixels[row] for row in rows), prints)


def hash_pictures(rows: TrainingRows, progress: Progress | None = None) -> PictureHashes:
    """Return the hashes of the rows' image files, each of which is decoded once."""
    return _hash_images(list(rows.files), lambda name: read_image(Path(name)), "training images", progress)


def find_leaks(
    rows: TrainingRows,
    benchmarks: Sequence[str],
    progress: Progress | None = None,
    place: Locations | None = None,
    hashes: PictureHashes | None = None,
) -> list[Leak]:
    """Compare every training image with every picture of the benchmarks, by pixels and by perceptual hash."""
    if not benchmarks:
        return []
    ours = hash_pictures(rows, progress) if hashes is None else hashes.select(rows.files)
    leaks = []
    for name in benchmarks:
        benchmark = find_benchmark(name, place)
        records = benchmark.records()
        references, read = find_task(benchmark.task, name).images_of(records), benchmark.read_image(records)
        assert read is not None  # noqa: S101  (the records were loaded)
        theirs = _hash_images(references, read, f"images of {name}", progress)
        pixels = set(theirs.pixels)
        same = np.array([value in pixels for value in ours.pixels])
        alike = np.zeros(len(ours.names), dtype=bool)
        for i, _ in near_duplicates(ours.prints, theirs.prints):
            alike[i] = True
        leaks.append(Leak(name, _hit_names(ours, same), _hit_names(ours, alike & ~same), len(references)))
    return leaks


def refuse_leaks(leaks: Sequence[Leak]) -> None:
    """Refuse to train on a benchmark's pictures."""
    for leak in leaks:
        same, alike = len(leak.same), len(leak.alike)
        parts = [f"{same} training {_SAME[same == 1]} to the pixel ({_join_few(leak.same)})"] if same else []
        parts += [f"{alike} {_ALIKE[alike == 1]} ({_join_few(leak.alike)})"] if alike else []
        if parts:
            raise DataError(
                f"{leak.benchmark}: {', '.join(parts)}; a number measured on training images means nothing: leave "
                f"them out of data.train or {leak.benchmark} out of report.benchmarks, or allow it with allow_leak=True"
            )


def _hash_images(
    names: Sequence[str], read: Callable[[str], bytes], stage: str, progress: Progress | None, threads: int = 4
) -> PictureHashes:
    def hash_frames(name: str) -> list[tuple[str, str, int, NDArray[np.uint8]]]:
        try:
            pixels = decode_slot(read(name), name)
        except OSError as error:
            raise DataError(f"{name}: cannot be read ({error.strerror})") from error
        return [(name, pixel_hash(frame), perceptual_hash(frame), thumbnail(frame)) for frame in list_frames(pixels)]

    hashes = []
    with ThreadPoolExecutor(threads) as pool:
        for done, hashed in enumerate(pool.map(hash_frames, names), start=1):
            hashes += hashed
            if progress is not None:
                progress(stage, done, len(names))
    looks = gather_hashes([(value, small) for *_, value, small in hashes])
    return PictureHashes(tuple(name for name, *_ in hashes), tuple(value for _, value, *_ in hashes), looks)


def _hit_names(hashed: PictureHashes, hit: NDArray[np.bool_]) -> tuple[str, ...]:
    return tuple(Path(name).name for name, yes in zip(hashed.names, hit, strict=True) if yes)


def _join_few(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
