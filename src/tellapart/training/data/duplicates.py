"""Count equal texts and pictures among the training rows, and find training pictures that a benchmark also has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tellapart.benchmarks.find import find_benchmark
from tellapart.benchmarks.locations import Locations
from tellapart.data.images import pixel_hash
from tellapart.data.perceptual import gather_hashes, near_duplicates, perceptual_hash, thumbnail
from tellapart.data.progress import Progress
from tellapart.data.scores import join_names
from tellapart.data.video import decode_slot
from tellapart.errors import DataError
from tellapart.models.protocols import Bounded
from tellapart.models.scoring.frames import list_frames
from tellapart.tasks.registry import find_task
from tellapart.training.data.rows import TEXT_BLOCK, TextIds, TrainingRows, read_image


@dataclass(frozen=True, slots=True)
class Leak:
    """The names of training images that are in a benchmark, to the pixel or alike, and how many pictures it has."""

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


#: The hash of a frame's pixels, the frame's perceptual hash, and its thumbnail.
Hashes = tuple[str, int, NDArray[np.uint8]]

#: Name of a picture -> the hashes of its frames: an image has one, a video several.
PictureHashes = dict[str, Sequence[Hashes]]


def pixels_by_file(hashes: PictureHashes) -> dict[Path, str]:
    """Return the hash of the pixels of each file; of a video, of its last frame."""
    return {Path(name): frames[-1][0] for name, frames in hashes.items()}


def hash_image(name: str, read: Callable[[str], bytes]) -> list[Hashes]:
    """Return the hashes of a picture, or of each of a video's frames."""
    try:
        pixels = decode_slot(read(name), name)
    except OSError as error:
        raise DataError(f"{name}: cannot be read ({error.strerror})") from error
    return [(pixel_hash(frame), perceptual_hash(frame), thumbnail(frame)) for frame in list_frames(pixels)]


def hash_images(
    names: Sequence[str], read: Callable[[str], bytes] = lambda name: read_image(Path(name)),
    stage: str = "training images", progress: Progress | None = None,
) -> PictureHashes:  # fmt: skip
    """Return the hashes of pictures, each of which is decoded once."""
    hashes = PictureHashes()
    with ThreadPoolExecutor(4) as pool:
        for name, hashed in zip(names, pool.map(lambda name: hash_image(name, read), names), strict=True):
            hashes[name] = hashed
            if progress is not None:
                progress(stage, len(hashes), len(names))
    return hashes


def find_leaks(
    rows: TrainingRows, benchmarks: Sequence[str], progress: Progress | None = None,
    place: Locations | None = None, hashes: PictureHashes | None = None,
) -> list[Leak]:  # fmt: skip
    """Compare every training image with every picture of the benchmarks, by pixels and by perceptual hash."""
    if not benchmarks:
        return []
    hashes = hash_images(rows.files, progress=progress) if hashes is None else hashes
    ours = [(name, frame) for name in rows.files for frame in hashes[name]]
    files, prints = np.array([Path(name).name for name, _ in ours]), gather_hashes([frame[1:] for _, frame in ours])
    leaks = list[Leak]()
    for name in benchmarks:
        benchmark = find_benchmark(name, place)
        records = benchmark.records()
        references, read = find_task(benchmark.task, name).images_of(records), benchmark.read_image(records)
        assert read is not None  # noqa: S101  (the records were loaded)
        pictures = hash_images(references, read, f"images of {name}", progress).values()
        theirs = [frame for frames in pictures for frame in frames]
        pixels, near = {frame[0] for frame in theirs}, np.zeros(len(ours), dtype=bool)
        for i, _ in near_duplicates(prints, gather_hashes([frame[1:] for frame in theirs])):
            near[i] = True
        same = np.array([frame[0] in pixels for _, frame in ours], dtype=bool)
        shared, alike = (tuple(files[hit].tolist()) for hit in (same, near & ~same))
        leaks.append(Leak(name, shared, alike, len(references)))
    return leaks


def refuse_leaks(leaks: Sequence[Leak]) -> None:
    """Refuse to train on a benchmark's pictures."""
    for leak in leaks:
        same, alike = len(leak.same), len(leak.alike)
        words = "image is one of its pictures" if same == 1 else "images are its pictures"
        parts = [f"{same} training {words} to the pixel ({join_names(leak.same, limit=3)})"] if same else []
        verb = "image looks" if alike == 1 else "images look"
        parts += [f"{alike} training {verb} like one ({join_names(leak.alike, limit=3)})"] if alike else []
        if parts:
            raise DataError(
                f"{leak.benchmark}: {', '.join(parts)}; a number measured on training images means nothing: leave "
                f"them out of data.train or {leak.benchmark} out of report.benchmarks, or allow it with allow_leak=True"
            )


@dataclass(frozen=True, slots=True)
class Duplicates:
    """How much of some rows is the same to a model.

    Attributes:
        captions: rows whose caption is that of another picture, too.
        pictures: rows whose picture is in a file of another name, too.
        foils: false captions that are true of their picture.
        cut, texts: texts that the tokenizer cuts, and all texts.
        merged: rows whose caption is cut, and then is the same as another row's.
        caption, picture: the most frequent ones, with their rows.
        middle: the median number of a picture's captions.
        counterparts: hard counterparts that show their row's picture in another file.
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
        parts = (f"{n:,} {single if n == 1 else plural}{rest}" for n, single, plural, rest in counts if n)
        return ", ".join(parts)


def count_duplicates(rows: TrainingRows, reader: Bounded) -> Duplicates:
    """Count rows whose texts, as the tokenizer reads them, or whose pictures are equal."""
    texts = list(dict.fromkeys(text for row in rows.rows for text in (row.caption, *row.negatives)))
    ids, cut = TextIds(reader), set[str]()
    numbers = dict(zip(texts, ids(texts), strict=True))
    for start in range(0, len(texts), TEXT_BLOCK):
        block = texts[start : start + TEXT_BLOCK]
        cut |= {text for text, lost in zip(block, reader.find_cut(block), strict=True) if lost}
    captions, pictures = [numbers[row.caption] for row in rows.rows], rows.image_ids.tolist()
    entries = list(zip(rows.rows, captions, pictures, strict=True))
    true = {*zip(pictures, captions, strict=True)}
    captions_of = Counter(picture for picture, _ in true)  # picture -> how many captions
    pictures_of = Counter(caption for _, caption in true)  # caption -> how many pictures
    files = Counter(picture for picture, _ in {(picture, row.image) for row, _, picture in entries})
    written = Counter(caption for caption, _ in {(caption, row.caption) for row, caption, _ in entries})
    foils = 0
    for row, _, picture in entries:
        positives = set(ids(row.positives))
        foils += sum((picture, numbers[foil]) in true or numbers[foil] in positives for foil in row.negatives)
    widest = max(entries, key=lambda entry: pictures_of[entry[1]])
    fullest = max(entries, key=lambda entry: captions_of[entry[2]])
    return Duplicates(
        captions=sum(pictures_of[caption] > 1 for caption in captions),
        pictures=sum(files[picture] > 1 for picture in pictures),
        foils=foils,
        cut=len(cut),
        texts=len(texts),
        merged=sum(written[caption] > 1 and row.caption in cut for row, caption, _ in entries),
        caption=(widest[0].caption, pictures_of[widest[1]]),
        picture=(fullest[0].image.name, captions_of[fullest[2]]),
        middle=int(np.median(list(captions_of.values()))),
        counterparts=sum(len(row.counterparts) for row in rows.rows) - sum(map(len, rows.counterparts)),
    )
