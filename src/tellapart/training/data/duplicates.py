"""Texts and pictures that are the same: among the rows, and pictures that a reported benchmark also has."""

from __future__ import annotations

import hashlib
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
from tellapart.models.protocols import Bounded
from tellapart.models.scoring.frames import list_frames
from tellapart.tasks.registry import find_task
from tellapart.training.data.rows import TrainingRows, read_image

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


#: Texts that are tokenised at a time, and whose numbers are kept.
_BLOCK, _KEPT = 4096, 1 << 22


class TextIds:
    """A number for each text: the same for texts of the same tokens within the context, in every process."""

    def __init__(self, reader: Bounded) -> None:
        self._reader = reader
        self._numbers: dict[str, int] = {}

    def __call__(self, texts: Sequence[str]) -> list[int]:
        """Return the number of each text, of 64 bits with a sign."""
        new = [text for text in dict.fromkeys(texts) if text not in self._numbers]
        numbers: dict[str, int] = {}
        for start in range(0, len(new), _BLOCK):
            block = new[start : start + _BLOCK]
            numbers |= zip(block, map(_hash_tokens, self._reader.token_ids(block)), strict=True)
        if len(self._numbers) < _KEPT:
            self._numbers |= numbers
        return [numbers[text] if text in numbers else self._numbers[text] for text in texts]


def _hash_tokens(ids: Sequence[int]) -> int:
    digest = hashlib.sha256(np.asarray(ids, np.int64).tobytes()).digest()
    return int.from_bytes(digest[:8], "little", signed=True)


@dataclass(frozen=True, slots=True)
class Duplicates:
    """How much of some rows is the same to a model.

    Rows count whose caption is that of another picture, or whose picture is in a file of another name. `foils` are
    false captions that are true of their picture, `merged` rows whose caption is another row's after the cut alone.
    `counterparts` are hard ones that show their row's picture in another file. `caption` and `picture` are the most
    frequent ones, `middle` is the median of captions of a picture.
    """

    captions: int
    pictures: int
    foils: int
    cut: int
    texts: int
    merged: int
    caption: tuple[str, int]
    picture: tuple[str, int]
    middle: int
    counterparts: int = 0

    def to_log(self) -> dict[str, float]:
        """Return the counts that are not 0, for the log's first line."""
        counts = {"rows_same_caption": self.captions, "rows_same_picture": self.pictures, "texts_cut": self.cut}
        return {name: float(count) for name, count in counts.items() if count}

    def describe(self) -> str:
        """Return the counts in words; empty if all are 0."""
        counts = (
            (self.captions, "row shares its caption's", "rows share their captions'", " tokens with another picture"),
            (self.pictures, "row shows", "rows show", " a picture that another file also holds"),
            (self.foils, "false caption is", "false captions are", " true of the picture"),
            (self.counterparts, "hard counterpart shows", "hard counterparts show", " the row's own picture"),
            (self.cut, f"of {self.texts:,} texts loses", f"of {self.texts:,} texts lose", " the end"),
        )
        return ", ".join(
            f"{count:,} {single if count == 1 else plural}{rest}" for count, single, plural, rest in counts if count
        )


def count_duplicates(rows: TrainingRows, reader: Bounded) -> Duplicates:
    """Count texts and pictures that are the same."""
    texts = list(dict.fromkeys(text for row in rows.rows for text in (row.caption, *row.negatives)))
    numbers = dict(zip(texts, (ids := TextIds(reader))(texts), strict=True))
    captions, pictures = [numbers[row.caption] for row in rows.rows], rows.image_ids.tolist()
    cut = {text for k in range(0, len(texts), _BLOCK) for text, lost in _cut_of(reader, texts[k : k + _BLOCK]) if lost}
    showing: dict[int, set[int]] = {}  # the pictures of each caption, and the captions and files of each picture
    of_picture: dict[int, set[int]] = {}
    files: dict[int, set[Path]] = {}
    written: dict[int, set[str]] = {}
    for row, caption, picture in zip(rows.rows, captions, pictures, strict=True):
        showing.setdefault(caption, set()).add(picture)
        of_picture.setdefault(picture, set()).add(caption)
        files.setdefault(picture, set()).add(row.image)
        written.setdefault(caption, set()).add(row.caption)
    foils = sum(
        numbers[foil] in true
        for row, picture in zip(rows.rows, pictures, strict=True)
        for true in [of_picture[picture].union(ids(row.positives))]
        for foil in row.negatives
    )
    widest = max(captions, key=lambda caption: len(showing[caption]))
    fullest = max(pictures, key=lambda picture: len(of_picture[picture]))
    return Duplicates(
        captions=sum(len(showing[caption]) > 1 for caption in captions),
        pictures=sum(len(files[picture]) > 1 for picture in pictures),
        foils=foils,
        cut=len(cut),
        texts=len(texts),
        merged=sum(len(written[c]) > 1 and row.caption in cut for row, c in zip(rows.rows, captions, strict=True)),
        caption=(rows.rows[captions.index(widest)].caption, len(showing[widest])),
        picture=(rows.rows[pictures.index(fullest)].image.name, len(of_picture[fullest])),
        middle=int(np.median(list(map(len, of_picture.values())))),
        counterparts=sum(len(row.counterparts) for row in rows.rows) - sum(map(len, rows.counterparts)),
    )


def _cut_of(reader: Bounded, texts: Sequence[str]) -> zip[tuple[str, bool]]:
    return zip(texts, reader.find_cut(texts), strict=True)
