"""What every benchmark declares, of pairs or of a task: who made it, which files it needs, and where they are found."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tellapart.benchmarks.hub import Hub
from tellapart.benchmarks.locations import Locations, find_files
from tellapart.data.scores import named
from tellapart.errors import DataError

__all__ = ["Declared"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """A named benchmark and its files.

    Attributes:
        name: as on the command line and in results.
        title: one line for people.
        items: how many it holds.
        source: where it comes from.
        licence: of its images and captions.
        citation: the paper.
        files: what it needs: file names, `a*b` patterns, `a|b` alternatives.
        images: which images it needs, in words.
        cluster: what is resampled together, in words.
        hub: where its files are fetched from if no place has them.
        place: where this user keeps files.

    >>> Declared(name="a", title="A", items=1, source="you", licence="none", citation="none", files=("a.json",)).missing()
    ('a.json',)
    """

    name: str
    title: str
    items: int
    source: str
    licence: str
    citation: str
    files: tuple[str, ...] = ()
    images: str = ""
    cluster: str = "the item"
    hub: Hub | None = None
    place: Locations = field(default_factory=Locations)

    def missing(self) -> tuple[str, ...]:
        """Return those of the files it needs that are not in the user's place; images are not looked for.

        >>> Declared(name="a", title="A", items=1, source="you", licence="none", citation="none").missing()
        ()
        """
        folder = self.place.folder(self.name)
        return tuple(name for name in self.files if folder is None or not find_files(folder, name))

    def expect(self) -> None:
        """Check, without reading them, that the files can be had: from the user's place or from the hub.

        Raises:
            DataError: neither has them, or the hub gates them and there is no token.
            MissingDependencyError: the hub's package is needed and not installed.

        >>> Declared(name="a", title="A", items=1, source="you", licence="none", citation="none", files=("a.json",)).expect()
        Traceback (most recent call last):
        tellapart.errors.DataError: a needs a.json, and no --data was given: get the files from you and name their folder with --data
        """
        if not self.missing():
            return
        if self.hub is None:
            raise DataError(self.needs())
        self.hub.expect()

    def located(self) -> Locations:
        """Return the place that has the files, fetching from the hub what no place of the user's has.

        Raises:
            DataError: as `expect`.
            MissingDependencyError: as `expect`.

        >>> Declared(name="a", title="A", items=1, source="you", licence="none", citation="none").located()
        Locations(data=None, images=None)
        """
        self.expect()
        if not self.missing() or self.hub is None:
            return self.place
        return replace(self.place, data=self.hub.fetch())

    def here(self) -> Locations | None:
        """Return the place that has the files without using the network; None where there is none.

        >>> Declared(name="a", title="A", items=1, source="you", licence="none", citation="none", files=("a.json",)).here()
        """
        if not self.missing():
            return self.place
        folder = None if self.hub is None else self.hub.cached()
        return None if folder is None else replace(self.place, data=folder)

    def needs(self) -> str:
        """Say which files are missing, where they were looked for, and where to get them.

        >>> Declared(name="a", title="A", items=1, source="you", licence="none", citation="none", files=("a.json",)).needs()
        'a needs a.json, and no --data was given: get the files from you and name their folder with --data'
        """
        missing, looked = self.missing(), self.place.folder(self.name)
        where = "no --data was given" if looked is None else f"{looked} lacks {'them' if len(missing) > 1 else 'it'}"
        hub = "" if self.hub is None else f"; or fetch it once: tellapart run -b {self.name} (from {self.hub.page})"
        return (
            f"{self.name} needs {named(missing, limit=3)}, and {where}: get the files from {self.source} and name their "
            f"folder with --data{hub}"
        )
