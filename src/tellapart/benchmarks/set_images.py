"""The images of a declared set: below a folder or in a zip archive."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from tellapart.benchmarks.image_sources import FolderImages, ZipImages, crop_images
from tellapart.benchmarks.locations import Locations, find_files

__all__ = ["IMAGE_COLUMN", "images_of_set"]

#: What an image that is a cell of a parquet table begins with: `@image_0`.
IMAGE_COLUMN = "@"


def images_of_set(name: str, place: Locations, folders: Sequence[str], archive: str | None) -> Callable[[str], bytes]:
    """Return the reader of a set's images; one of `file#x,y,width,height` is that part of the file's image.

    Args:
        name: the benchmark's.
        place: where the user keeps files.
        folders: in which images usually lie.
        archive: the zip archive that holds them, if one does and it is there.
    """
    folder = place.folder(name) or Path()
    if archive and place.named_images(name) is None and (packed := find_files(folder, archive)):
        return crop_images(ZipImages(packed[0]))
    return crop_images(FolderImages(place.pictures(name, *folders), outside=place.outside))
