"""Public files of region features to one `regions.safetensors`, which LXMERT, UNITER, ViLBERT and VL-T5 read here."""

from __future__ import annotations

import json
import re
import shutil
import struct
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from tellapart.data.atomic import atomic_file
from tellapart.data.images import decode, pixel_hash
from tellapart.data.progress import Progress
from tellapart.data.strict_json import read_whole
from tellapart.errors import DataError
from tellapart.models.fusion.feature_files import ImageRegions, read_regions

__all__ = ["ImportedRegions", "import_regions"]

_PICTURES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp"})
_LAST_NUMBER = re.compile(r"(\d+)\D*$")


@dataclass(frozen=True, slots=True)
class ImportedRegions:
    """The counts of an import.

    Attributes:
        images: how many images have regions now.
        without_regions: images of the folder that no file has regions of.
        without_image: regions of images that are not in the folder; they are left out.
    """

    images: int
    without_regions: int
    without_image: int


def import_regions(
    sources: Sequence[Path], images: Path, out: Path, progress: Progress | None = None
) -> ImportedRegions:
    """Write the regions of a folder's images to one `.safetensors` file.

    An image is found by the name that a file gives it: `COCO_val2014_000000000042` is the stem of one picture, or 42 is
    the last number in one stem alone. Regions are filed under the image's path, relative to the file's folder, or under
    the hash of its pixels if the image lies elsewhere. Nothing is kept in memory but names.

    Args:
        sources: public files (see `read_regions`); their images must differ.
        images: the folder of pictures, searched with its sub-folders.
        out: the file to write.
        progress: gets the number of images read.

    Raises:
        DataError: a file is damaged, names a picture that two files in the folder could be, repeats an image, or none
            of its images is there.
        MissingDependencyError: lmdb, h5py or msgpack is not installed.
    """
    pictures = _Pictures(images)
    header: dict[str, Any] = {}
    without_image = 0
    with tempfile.TemporaryFile(dir=out.parent) as numbers:
        for done, (source, regions) in enumerate(_chain_sources(sources), 1):
            picture = pictures.find(regions.id, source)
            if picture is None:
                without_image += 1
            else:
                _add_image(header, numbers, _region_key(picture, out.parent), regions, source)
            if progress is not None:
                progress("images", done, max(done, len(pictures)))
        if not header:
            raise DataError(f"{', '.join(map(str, sources))}: of {without_image} images none is in {images}")
        _write_file(out, header, numbers)
    images_written = len(header) // 2
    return ImportedRegions(images_written, len(pictures) - images_written, without_image)


def _chain_sources(sources: Sequence[Path]) -> Iterable[tuple[Path, ImageRegions]]:
    for source in sources:
        for regions in read_regions(source):
            yield source, regions


class _Pictures:
    """The pictures of a folder, by stem and by the last number in it."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise DataError(f"{folder} is not a folder; name the images' folder")
        files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in _PICTURES)
        self._found: dict[str, list[Path]] = {}
        for path in files:
            number = _LAST_NUMBER.search(path.stem)
            for name in {path.stem, path.name, str(int(number[1])) if number else path.stem}:
                self._found.setdefault(name, []).append(path)
        self._count = len(files)

    def __len__(self) -> int:
        return self._count

    def find(self, name: str, source: Path) -> Path | None:
        """Return the picture of that name; None if there is none."""
        found = self._found.get(name) or self._found.get(str(int(name)) if name.isdecimal() else "")
        if found is None and (number := _LAST_NUMBER.search(name)):
            # UNITER calls COCO_val2014_000000000042.jpg coco_val2014_000000000042.
            alike = self._found.get(str(int(number[1])), [])
            found = [path for path in alike if path.stem.lower() == name.lower()]
        if found and len(found) > 1:
            raise DataError(f"{source}: image {name} could be {found[0]} or {found[1]}; name the folder of one of them")
        return found[0] if found else None


def _region_key(picture: Path, home: Path) -> str:
    """Return the key of the image's regions: its path from the file's folder, or its pixels' hash."""
    picture, home = picture.resolve(), home.resolve()
    if picture.is_relative_to(home):
        return picture.relative_to(home).as_posix()
    return pixel_hash(decode(read_whole(picture), str(picture)))


def _add_image(header: dict[str, Any], numbers: BinaryIO, key: str, regions: ImageRegions, source: Path) -> None:
    """Append an image's numbers, and note their place."""
    if f"{key}/features" in header:
        raise DataError(f"{source}: image {regions.id} has regions twice")
    if len(regions.features) != len(regions.boxes) or not len(regions.boxes):
        raise DataError(
            f"{source}: image {regions.id} has {len(regions.features)} features for {len(regions.boxes)} boxes"
        )
    for part in ("features", "boxes"):
        array = np.ascontiguousarray(getattr(regions, part), np.float32)
        start = numbers.tell()
        numbers.write(array.data)
        header[f"{key}/{part}"] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [start, numbers.tell()]}


def _write_file(out: Path, header: dict[str, Any], numbers: BinaryIO) -> None:
    """Write the header and the numbers: eight bytes of its length, JSON, and bytes as they were."""
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    numbers.seek(0)
    with atomic_file(out) as draft, draft.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        shutil.copyfileobj(numbers, file)
