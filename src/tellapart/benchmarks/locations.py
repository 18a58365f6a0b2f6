"""The folders of a user's benchmarks, the files found there, and images: in a folder, an archive, or cut out of one."""

from __future__ import annotations

import filecmp
import io
import os
import re
import threading
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path, PurePosixPath

import numpy as np

from tellapart.data.images import check_reference, decode, leaves, resolve
from tellapart.data.item import Item
from tellapart.data.strict_json import read_whole
from tellapart.errors import DataError, first_line, nearest, quote

#: The folder of the annotations in a benchmark's repository, below the folder that the user names.
_BELOW = ("", "data", "annotations")

#: As long as a path may be on Linux.
_LONGEST = 4_096


@dataclass(frozen=True, slots=True)
class Locations:
    """The folders that `--data` and `--images` name.

    Attributes:
        data: of annotation files: each benchmark's in a folder of its name, or of one benchmark directly.
        images: likewise of images, if they do not lie with the annotations.
        columns: for `table:FILE`, field -> its column, as pairs.
        outside: images may lie outside of these folders and of a set's folder, by absolute paths, `..` and links. A set
            that a stranger wrote could then name any picture of this machine.
    """

    data: Path | None = None
    images: Path | None = None
    outside: bool = False
    columns: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        for name, folder in (("data", self.data), ("images", self.images)):
            if folder is not None and not folder.is_dir():
                raise DataError(f"{name}={folder}: that folder does not exist")

    def folder(self, benchmark: str) -> Path | None:
        """Return the folder with a benchmark's annotations: `DATA/benchmark` if that is there, else `DATA`."""
        return self.data / benchmark if self.data and (self.data / benchmark).is_dir() else self.data

    def named_images(self, benchmark: str) -> Path | None:
        """Return the folder that `--images` names for a benchmark: `IMAGES/benchmark` if that is there, else `IMAGES`.

        None if the option was not given.
        """
        return self.images / benchmark if self.images and (self.images / benchmark).is_dir() else self.images

    def pictures(self, benchmark: str, *usual: str) -> Path:
        """Return the folder with a benchmark's images: that of `--images`, or a usual one next to the annotations."""
        named = self.named_images(benchmark)
        if named is not None:
            return named
        base = self.folder(benchmark) or Path()
        candidates = (base / inner / name for inner in _BELOW for name in usual)
        return next((folder for folder in candidates if folder.is_dir()), base)


def find_files(folder: Path, pattern: str) -> list[Path]:
    """Return the files of a pattern (`a.json`, `test-*.parquet`), in order of their names; `a|b` tries `a` first.

    They may lie in the folder itself, in its `data/` or in its `annotations/`.
    """
    for choice in re.split(r"\s*\|\s*", pattern):
        try:
            if len(choice) > _LONGEST or choice.count("**") > 1:  # minutes of work before a file is looked for
                raise ValueError(f"longer than {_LONGEST:,} characters, or ** twice")
            for inner in _BELOW:
                if files := sorted(path for path in (folder / inner).glob(choice) if path.is_file()):
                    return files
        except (OSError, NotImplementedError, ValueError) as error:
            why = f"{type(error).__name__}: {first_line(error)[:80]}"
            raise DataError(f"{folder}: {quote(choice)} is not a pattern of files below a folder ({why})") from error
    return []


def first_file(place: Locations, benchmark: str, pattern: str) -> Path:
    """Return the first of a benchmark's files of a pattern: one is there, or the benchmark is not loaded."""
    return find_files(place.folder(benchmark) or Path(), pattern)[0]


#: More bytes than any image of a benchmark has; an archive may claim anything.
_MAX_BYTES = 64_000_000

_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)

_IN_FILE = '(in a training file: images = "FOLDER" under [data])'
_ALLOW = (
    "copy the image into it, or, if you trust whoever wrote the set, allow other places with outside_images=True "
    "(in a training file: outside_images = true under [data])"
)


class FolderImages:
    """Images below a folder, in it or one folder deeper, also under another suffix than in the annotations.

    EqBen's "light" set holds `.jpg`, its annotations name `.png`; VALSE's images come from six datasets, each in a
    separate folder. If several of these folders hold other pictures of one name, none is guessed. `suffixes` are tried
    in order; `also` is a folder to look in afterwards; with `outside`, references and links may leave the folders.
    """

    def __init__(
        self,
        root: Path,
        *,
        suffixes: tuple[str, ...] = (),
        also: Path | None = None,
        deeper: bool = True,
        outside: bool = False,
    ) -> None:
        self._roots = [root] if also is None else [root, also]
        self._suffixes = suffixes
        self._deeper = deeper
        self._outside = outside
        self._homes: dict[Path, Path] = {}
        self._listed: dict[Path, dict[str, list[Path]]] = {}
        self._names = " or ".join(map(str, self._roots))

    @cached_property
    def _all_folders(self) -> list[Path]:
        first, *others = self._roots
        return [first, *self._subfolders, *others]

    @cached_property
    def _subfolders(self) -> dict[Path, frozenset[str]]:
        """The folders below the first one with the names in each, listed once: each image is looked for in all."""
        folders = sorted(self._roots[0].glob("*/")) if self._deeper else []
        return {folder: _list_names(folder) for folder in folders if folder.is_dir()}

    def find(self, reference: str) -> Path:
        """Return the file."""
        check_reference(reference, outside=True)
        reference = self.relate(reference)
        if not self._outside and leaves(reference):
            fault = "leaves the pair set's folder; "
            if Path(reference).is_absolute():
                by_name = f"name the folder that holds it with images= {_IN_FILE}"
                fault = f"is absolute and not inside {self._names}; {by_name}, "
            raise DataError(f"{quote(reference, 200)} {fault}{_ALLOW}")
        path = PurePosixPath(reference)
        try:
            others = [path.with_suffix(suffix) for suffix in self._suffixes]
            names = dict(zip([reference, *map(str, others)], [path, *others], strict=True))
            for listed in (True, False):  # a file in another case, or saved since, is in no list
                places = self._find_places(names, listed=listed)
                if (found := next(places, None)) is not None:
                    self._refuse_another(found, places)
                    return self._allow_path(*found)
        except OSError as error:  # no permission, too long a name...
            raise DataError(f"{quote(reference, 200)} in {self._roots[0]} cannot be read ({error})") from error
        raise DataError(f"no image {quote(reference, 200)} in {self._names}{self._suggest(path)}")

    def _find_places(self, names: Mapping[str, PurePosixPath], *, listed: bool) -> Iterator[tuple[Path, str]]:
        """Yield the folders that hold a file of a name, each with the name; or the inner ones whose lists lack it."""
        first, *others = self._roots
        for name, path in names.items():
            within = [folder for folder, entries in self._subfolders.items() if (path.parts[0] in entries) == listed]
            for folder in (first, *within, *others) if listed else within:
                if (folder / name).is_file():
                    yield folder, name

    def _refuse_another(self, found: tuple[Path, str], others: Iterator[tuple[Path, str]]) -> None:
        """Refuse a file of a folder below the named one if another of these folders has another file for it."""
        folder, name = found
        if folder == self._roots[0] or folder not in self._subfolders:
            return
        for other, other_name in others:
            elsewhere = other != folder and other in self._subfolders
            if elsewhere and not filecmp.cmp(folder / name, other / other_name, shallow=False):
                raise DataError(
                    f"{quote(name, 200)} is another file in {folder} than {quote(other_name, 200)} in {other}; name "
                    f"the folder of the set's pictures with images= {_IN_FILE}"
                )

    def _suggest(self, reference: PurePosixPath) -> str:
        """Return a file whose path differs in case and blanks alone, or in letters; the folder above, or the way on."""
        alike = self._all_folders
        for part in reference.parts:
            alike = [path for folder in alike for path in self._list_plain(folder).get(_plain(part), ())]
        if alike:
            return f"; did you mean {quote(str(PurePosixPath(*alike[0].parts[-len(reference.parts) :])))}?"
        parents = (root.parent for root in map(Path.absolute, self._roots) if (root.parent / reference).is_file())
        way_on = f"; name the folder that holds it with images={next(parents, '')} {_IN_FILE}"
        folders = [folder / reference.parent for folder in self._all_folders]
        names = (path.name for folder in folders if folder.is_dir() for path in islice(folder.iterdir(), 10_000))
        digits = re.sub(r"\D", "", reference.name)  # another number is another picture, not a slip
        return nearest(reference.name, [name for name in names if re.sub(r"\D", "", name) == digits]) or way_on

    def _list_plain(self, folder: Path) -> dict[str, list[Path]]:
        """Return a folder's entries by their plain names, listed once: ten thousand pictures may be missing."""
        if (entries := self._listed.get(folder)) is None:
            entries = {}
            for path in folder.iterdir() if folder.is_dir() else ():
                entries.setdefault(_plain(path.name), []).append(path)
            self._listed[folder] = entries  # complete: threads read pictures
        return entries

    def relate(self, reference: str) -> str:
        """Return an absolute path inside one of the folders as the relative one of the same file; others as they are.

        No file system is asked about the path itself, so one that leads elsewhere is never looked at.
        """
        if self._outside or not Path(reference).is_absolute():
            return reference
        path = Path(os.path.normpath(reference))
        for home in (home for root in self._roots for home in (root.absolute(), self._resolve_home(root))):
            if path.is_relative_to(home):
                inside = path.relative_to(home).as_posix()
                # A file of that name in a folder that comes before is another picture.
                return inside if self.find(inside) == (home / inside).resolve() else reference
        return reference

    def relate_images(self, items: Iterable[Item]) -> tuple[Item, ...]:
        """Return items whose absolute references are relative where `relate` makes them so."""
        return tuple(
            item
            if (images := tuple(map(self.relate, item.images))) == item.images
            else item.model_copy(update={"images": images})
            for item in items
        )

    def _resolve_home(self, folder: Path) -> Path:
        home = self._homes.get(folder)
        if home is None:  # resolved once, as each link on the way takes a call of the system
            home = self._homes[folder] = folder.resolve()
        return home

    def _allow_path(self, folder: Path, name: str) -> Path:
        home = self._resolve_home(folder)
        path = resolve(home, name, outside=True)
        if not self._outside and not path.is_relative_to(home):
            raise DataError(f"{quote(name, 200)} leaves the pair set's folder through a link; {_ALLOW}")
        return path

    def __call__(self, reference: str) -> bytes:
        """Return the file's bytes."""
        return read_whole(self.find(reference))


def _plain(name: str) -> str:
    return "".join(name.split()).casefold()


def _list_names(folder: Path) -> frozenset[str]:
    try:
        with os.scandir(folder) as entries:
            return frozenset(entry.name for entry in entries)
    except OSError:  # its files may be read all the same
        return frozenset()


def own_images(folder: Path, place: Locations) -> FolderImages:
    """Return the images of a user's set: below the folder that `--images` names, or else in the set's folder."""
    if (named := place.named_images(folder.resolve().name)) is None:
        return FolderImages(folder, deeper=False, outside=place.outside)
    return FolderImages(named, also=folder, outside=place.outside)


class ZipImages:
    """Images in a zip archive, read without unpacking it."""

    def __init__(self, path: Path, *, prefix: str = "") -> None:
        self._path = path
        self._prefix = prefix
        self._lock = threading.Lock()  # the images are read by several threads, from one handle

    @cached_property
    def _zip_archive(self) -> zipfile.ZipFile:
        return zipfile.ZipFile(self._path)

    def __call__(self, reference: str) -> bytes:
        """Return the file's bytes."""
        name = self._prefix + reference
        try:
            with self._lock:
                entry = self._zip_archive.getinfo(name)
                if entry.file_size > _MAX_BYTES:
                    raise DataError(f"{name} in {self._path} unpacks to more than {_MAX_BYTES:,} bytes")
                if entry.compress_type not in _METHODS:  # others reserve the memory that the file asks for
                    raise DataError(f"{name} in {self._path} is packed in an unusual way; pack it again with zip")
                return self._zip_archive.read(entry)
        except DataError:
            raise
        except KeyError as error:
            raise DataError(f"no image {quote(name, 200)} in {self._path}") from error
        except Exception as error:  # encrypted, damaged: each packing raises errors of its kind
            raise DataError(f"{self._path}: {quote(name, 200)} cannot be read ({first_line(error)})") from error


_CROP = re.compile(r"(?P<file>.+)#(?P<x>-?\d+),(?P<y>-?\d+),(?P<width>\d+),(?P<height>\d+)", re.ASCII | re.DOTALL)


def crop_images(read: Callable[[str], bytes]) -> Callable[[str], bytes]:
    """Return a reader that also takes `file#x,y,width,height`, that part as a PNG file, black outside of the image."""

    def read_part(reference: str) -> bytes:
        part = _CROP.fullmatch(reference)
        if part is None:
            return read(reference)
        from PIL import Image

        picture = Image.fromarray(decode(read(part["file"]), part["file"]))
        x, y, width, height = (int(part[side]) for side in ("x", "y", "width", "height"))
        if not 0 < width * height <= _MAX_BYTES:
            raise DataError(f"{reference!r}: a crop of {width} by {height} pixels")
        stream = io.BytesIO()
        # Not saved from the crop itself: Pillow would carry the file's metadata along.
        pixels = np.asarray(picture.crop((x, y, x + width, y + height)))
        Image.fromarray(pixels).save(stream, "PNG", compress_level=1)
        return stream.getvalue()

    return read_part
