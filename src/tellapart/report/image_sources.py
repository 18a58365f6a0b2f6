"""A run's images: read from its folder, or from where the run read them; a page has them as data URIs in a budget."""

from __future__ import annotations

import base64
import io
import os
import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from pathlib import Path

from tellapart.benchmarks.find import FOLDER, find_again
from tellapart.benchmarks.locations import Locations, own_images
from tellapart.data.video import as_picture, decode_slot
from tellapart.errors import DataError, TellapartError
from tellapart.records.result import Located, Result
from tellapart.records.run_folder import file_name, find_located, places_of, write_blocks

#: Items whose pictures are made together.
_AHEAD = 32

#: A file up to so many bytes is embedded unchanged; a larger one is scaled down, its longer side to so many pixels.
KEEP_BYTES, LONGEST_SIDE = 48_000, 320

#: The formats of pictures that pages show, by how a file begins.
_FORMATS = re.compile(rb"(?P<png>\x89PNG\r\n\x1a\n)|(?P<jpeg>\xff\xd8\xff)|(?P<webp>RIFF....WEBP)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Album:
    """The pictures of one benchmark: data URIs by reference, items left out for the budget, and the unreadable."""

    uris: tuple[str, ...] = ()
    index: dict[str, int] = field(default_factory=dict)
    left_out: int = 0
    unreadable: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Characters that the pictures take in the file."""
        return sum(map(len, self.uris))


def small_picture(data: bytes, name: str) -> tuple[str, bytes]:
    """Return an image's format and bytes for a page: unchanged if small, else 320 pixels wide or high, as JPEG."""
    if (found := _FORMATS.match(data)) and len(data) <= KEEP_BYTES:
        return str(found.lastgroup), data
    from PIL import Image

    picture = Image.fromarray(as_picture(decode_slot(data, name)))
    picture.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
    target = io.BytesIO()
    picture.save(target, "JPEG", quality=80)  # a third of the time that WebP takes
    return "jpeg", target.getvalue()


def data_uri(data: bytes, name: str) -> str:
    """Return an image file as a data URI, made small as `small_picture` does."""
    kind, data = small_picture(data, name)
    return f"data:image/{kind};base64,{base64.b64encode(data).decode('ascii')}"


def album(items: Iterable[Sequence[str]], read: Callable[[str], bytes], budget: int) -> Album:
    """Embed items' pictures in the order given until the budget is used up; an item has all its pictures or none."""

    def make(name: str) -> str:
        with suppress(DataError):  # one broken file must not cost the report; the page counts them
            return data_uri(read(name), name)
        return ""

    uris: dict[str, str] = {}  # the unreadable have none
    size, left_out, full = 0, 0, False
    waiting = iter(items)
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        while block := list(islice(waiting, _AHEAD)):
            names = [] if full else [name for name in dict.fromkeys(chain(*block)) if name not in uris]
            pictures = dict(zip(names, pool.map(make, names), strict=True))
            for references in block:
                fresh = dict.fromkeys(name for name in references if name not in uris)
                if not full:
                    size += sum(len(pictures[name]) for name in fresh)
                    full = size > budget
                    uris |= {name: pictures[name] for name in fresh if not (full and pictures[name])}
                left_out += full and bool(fresh)
    unreadable = tuple(name for name, uri in uris.items() if not uri)
    shown = {name: uri for name, uri in uris.items() if uri}
    return Album(tuple(shown.values()), {name: number for number, name in enumerate(shown)}, left_out, unreadable)


#: The folder of pictures inside a run folder that was bundled.
PICTURES = "pictures"


@dataclass(frozen=True, slots=True)
class ImageSources:
    """A record's facts about the place of one benchmark's images: the user's set, and the folders of the run."""

    folder: Path
    benchmark: str
    own: Located | None = None
    data: Located | None = None
    images: Located | None = None

    @classmethod
    def of(cls, folder: Path, result: Result, benchmark: str) -> ImageSources:
        """Read them from a run's record."""
        return cls(folder, benchmark, result.benchmarks[benchmark].own, result.run.data, result.run.images)

    def reader(self, *, outside: bool = False) -> Callable[[str], bytes] | None:
        """Return a reader that takes an image's reference to its file's bytes; None if no image is available."""
        bundled, live = self.folder / PICTURES / file_name(self.benchmark), None
        with suppress(TellapartError):  # the files there now are others
            live = self._find(outside)()
        if not bundled.is_dir():
            return live

        def read(reference: str) -> bytes:
            paths = (_bundled_path(bundled, reference, kind) for kind in _FORMATS.groupindex)
            if path := next(filter(Path.is_file, paths), None):
                return path.read_bytes()
            if live is None:
                raise DataError(f"{bundled} does not hold {reference!r:.200}, and {self.lost()}")
            return live(reference)

        return read

    def lost(self) -> str:
        """List the places at which the images were looked for."""
        place = self.own or self.images or self.data
        if place is None:
            return f"the images of {self.benchmark} are not on this machine"
        try:
            self._find(outside=False)
        except TellapartError as error:
            return f"the images of {self.benchmark} cannot be read: {error}"
        return f"the images of {self.benchmark} are not at {' nor at '.join(map(str, places_of(place, self.folder)))}"

    def _find(self, outside: bool) -> Callable[[], Callable[[str], bytes] | None]:
        """Find the benchmark again, and return the function that opens its images, as far as they are there."""
        own, data, images = (
            None if located is None else find_located(located, self.folder)
            for located in (self.own, self.data, self.images)
        )
        place = Locations(data, images, outside)
        if self.own is not None and own is None:
            return lambda: None
        if own is not None and self.benchmark.startswith(FOLDER):  # its items, which may be a million, are not read
            return partial(own_images, own, place)
        return find_again(self.benchmark, own, place).read_image


def bundle_picture(folder: Path, benchmark: str, reference: str, data: bytes) -> bytes:
    """Write an image, small, into a run folder, and return the bytes that were written."""
    kind, small = small_picture(data, reference)
    path = _bundled_path(folder / PICTURES / file_name(benchmark), reference, kind)
    write_blocks(path, [small])
    return small


def _bundled_path(folder: Path, reference: str, kind: str) -> Path:
    return folder / f"{file_name(reference)}.{kind}"
