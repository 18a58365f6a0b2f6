"""Where a run's images are now: in the run folder itself, at the path that the run read them from, or beside both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tellapart.benchmarks.find import find_again
from tellapart.benchmarks.locations import Locations
from tellapart.data.atomic import atomic_file
from tellapart.errors import DataError, RunError, TellapartError
from tellapart.records.result import Located, Result
from tellapart.records.run_folder import file_name, find_located, places_of
from tellapart.report.pictures import small_picture

__all__ = ["ImageSources", "bundle_picture"]

#: The folder of pictures inside a run folder that was bundled.
PICTURES = "pictures"

#: What a bundled picture may be, by its suffix.
_KINDS = ("png", "jpeg", "webp")


@dataclass(frozen=True, slots=True)
class ImageSources:
    """What a record says of where one benchmark's images are.

    Attributes:
        folder: the run's, where it is now.
        benchmark: its name in the record.
        own: the user's own set, if it is one.
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

    def reader(self) -> Callable[[str], bytes] | None:
        """Return what takes an image's reference to its file's bytes; None where no image is at hand."""
        bundled, live = self.folder / PICTURES / file_name(self.benchmark), self._live_reader()
        if not bundled.is_dir():
            return live

        def read(reference: str) -> bytes:
            for kind in _KINDS:
                path = _bundled(bundled, reference, kind)
                if path.is_file():
                    return path.read_bytes()
            if live is None:
                raise DataError(f"{bundled} does not hold {reference!r:.200}, and {self.lost()}")
            return live(reference)

        return read

    def lost(self) -> str:
        """Say where the images were looked for."""
        where = self.own or self.images or self.data
        if where is None:
            return f"the images of {self.benchmark} are not on this machine"
        return f"the images of {self.benchmark} are not at {' nor at '.join(map(str, places_of(where, self.folder)))}"

    def _live_reader(self) -> Callable[[str], bytes] | None:
        own, data, images = (
            None if each is None else find_located(each, self.folder) for each in (self.own, self.data, self.images)
        )
        if self.own is not None and own is None:
            return None
        try:
            return find_again(self.benchmark, own, Locations(data, images)).read_image()
        except TellapartError:  # what is there now is another thing
            return None


def bundle_picture(folder: Path, benchmark: str, reference: str, data: bytes) -> bytes:
    """Write an image, small, into a run folder, and return the bytes that were written.

    Raises:
        DataError: the bytes are no image.
        RunError: it cannot be written.
    """
    kind, small = small_picture(data, reference)
    path = _bundled(folder / PICTURES / file_name(benchmark), reference, kind)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(path) as draft:
            draft.write_bytes(small)
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror}") from error
    return small


def _bundled(folder: Path, reference: str, kind: str) -> Path:
    return folder / f"{file_name(reference)}.{kind}"
