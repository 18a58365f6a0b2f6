"""What a benchmark declares that is no set of minimal pairs: its task, and how its records are read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tellapart.benchmarks.definition import Declared
from tellapart.benchmarks.image_sources import FolderImages
from tellapart.benchmarks.locations import Locations, find_files

__all__ = ["TaskBenchmark", "one_file"]


def one_file(benchmark: str, pattern: str, read: Callable[[Path], Any]) -> Callable[[Locations], Any]:
    """Return what loads a benchmark that is one file: found by its pattern, read by `read`.

    >>> callable(one_file("nlvr2", "nlvr2_test.json", lambda path: path))
    True
    """

    def load(place: Locations) -> Any:
        return read(find_files(place.folder(benchmark) or Path(), pattern)[0])

    return load


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskBenchmark(Declared):
    """A named source of one task's records: a gallery, statements, questions, boxes, captions, moments.

    Attributes:
        task: the task's name: what a model must put out, and how that is measured.
        load: reads the task's records from a place that has its files. No image is opened.
        usual: names of folders beside the annotations in which its images usually lie.
        pictures: reads the images where they are not files below one folder.
        domain: `in-domain` or `out-of-domain`, where the paper tells the two apart.
        rival: the benchmark of the other domain, whose difference to this one is the generalisation gap.

    >>> from tellapart.benchmarks.benchmark import find_benchmark
    >>> find_benchmark("vlue-nlvr2").task
    'nlvr2'
    """

    task: str
    load: Callable[[Locations], Any]
    usual: tuple[str, ...] = ("images",)
    pictures: Callable[[Locations], Callable[[str], bytes]] | None = None
    domain: str = ""
    rival: str = ""

    def records(self) -> Any:
        """Load the task's records; what no place of the user's has is fetched from the hub.

        Raises:
            DataError: the files are not there, are gated, or are not what their format says.
            MissingDependencyError: the hub's package is needed and not installed.

        >>> from tellapart.benchmarks.benchmark import find_benchmark
        >>> find_benchmark("vlue-nlvr2").records()  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        tellapart.errors.DataError: vlue-nlvr2 needs nlvr2_vlue_test.json, and no --data was given...
        """
        self.expect()
        return self.load(self.located())

    def picture_root(self) -> Path:
        """Return the folder in which its images lie.

        >>> from tellapart.benchmarks.benchmark import find_benchmark
        >>> find_benchmark("vlue-nlvr2").picture_root().as_posix()
        '.'
        """
        return self.place.pictures(self.name, *self.usual)

    def read_image(self) -> Callable[[str], bytes]:
        """Return what takes an image's reference to its file's bytes.

        >>> from tellapart.benchmarks.benchmark import find_benchmark
        >>> callable(find_benchmark("vlue-nlvr2").read_image())
        True
        """
        return FolderImages(self.picture_root()) if self.pictures is None else self.pictures(self.place)
