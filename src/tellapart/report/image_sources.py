"""Sources of a run's images: the run folder itself, the path that the run read them from, or a folder next to both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.find import FOLDER, find_again
from tellapart.benchmarks.locations import Locations, own_images
from tellapart.data.atomic import atomic_file
from tellapart.errors import DataError, RunError, TellapartError
from tellapart.records.result import Located, Result
from tellapart.records.run_folder import file_name, find_located, places_of
from tellapart.report.pictures import small_picture

#: The folder of pictures inside a run folder that was bundled.
PICTURES = "pictures"

#: Types of a bundled picture, by its suffix.
_KINDS = ("png", "jpeg", "webp")


@dataclass(frozen=True, slots=True)
class ImageSources:
    """A record's facts about the place of one benchmark's images.

    Attributes:
        folder: the run's, at its present path.
        benchmark: its name in the record.
        own: the user's set, if it is one.
        data, images: the folders that the run was given.
    """

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
        bundled, live = self.folder / PICTURES / file_name(self.benchmark), self._live_reader(outside)
        if not bundled.is_dir():
            return live

        def read(reference: str) -> bytes:
            for kind in _KINDS:
                path = _bundled_path(bundled, reference, kind)
                if path.is_file():
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
            self._live_benchmark(outside=False)
        except TellapartError as error:
            return f"the images of {self.benchmark} cannot be read: {error}"
        return f"the images of {self.benchmark} are not at {' nor at '.join(map(str, places_of(place, self.folder)))}"

    def _live_reader(self, outside: bool) -> Callable[[str], bytes] | None:
        located = self._found(self.own)
        if located is not None and self.benchmark.startswith(FOLDER):  # its items, which may be a million, are not read
            return own_images(located, self._place(outside))
        try:
            benchmark = self._live_benchmark(outside)
            return None if benchmark is None else benchmark.read_image()
        except TellapartError:  # the files there now are others
            return None

    def _live_benchmark(self, outside: bool) -> Benchmark | None:
        """Find the benchmark again; None if the user's set is gone."""
        located = self._found(self.own)
        if self.own is not None and located is None:
            return None
        return find_again(self.benchmark, located, self._place(outside))

    def _place(self, outside: bool) -> Locations:
        return Locations(self._found(self.data), self._found(self.images), outside)

    def _found(self, located: Located | None) -> Path | None:
        return None if located is None else find_located(located, self.folder)


def bundle_picture(folder: Path, benchmark: str, reference: str, data: bytes) -> bytes:
    """Write an image, small, into a run folder, and return the bytes that were written."""
    kind, small = small_picture(data, reference)
    path = _bundled_path(folder / PICTURES / file_name(benchmark), reference, kind)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(path) as draft:
            draft.write_bytes(small)
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror}") from error
    return small


def _bundled_path(folder: Path, reference: str, kind: str) -> Path:
    return folder / f"{file_name(reference)}.{kind}"
