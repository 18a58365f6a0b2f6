"""The declaration of a benchmark: its source, its files, their places, and the functions that read them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Generic, Literal, NamedTuple

from pydantic import ConfigDict, Field
from typing_extensions import TypeVar

from tellapart.benchmarks.locations import FolderImages, Locations, find_files
from tellapart.data.pairset import Outline, PairSet
from tellapart.data.scores import join_names
from tellapart.errors import DataError, MissingDependencyError, first_line, require
from tellapart.metrics.ties import TieRule
from tellapart.models.hub import reach_hub

Media = Literal["images", "videos"]
"""What a benchmark's texts are about."""

#: The type of a benchmark's records: a pair set, a gallery, statements, questions, ...
Records = TypeVar("Records", default=Any)

#: The value of a paper's tag that means every item.
ALL = "all items"


@dataclass(frozen=True, slots=True)
class Hub:
    """A dataset on the hub, at a fixed revision, so that results stay comparable.

    Attributes:
        repo: owner and name.
        revision: the commit; a branch would change under a result.
        files: the patterns of the files to fetch.
        gated: whether it needs conditions that are accepted on its page, and a token.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    repo: str
    revision: Annotated[str, Field(min_length=7)]
    files: tuple[str, ...]
    gated: bool = False

    @property
    def page(self) -> str:
        """The address of its page."""
        return f"https://huggingface.co/datasets/{self.repo}"

    def cached_folder(self) -> Path | None:
        """Return the folder of its files in the hub's cache, or None if they are not all there; no network is used."""
        try:
            hub = require("huggingface_hub", extra="hub")
            folder = Path(self._fetch_snapshot(hub, local_files_only=True))
        except Exception:  # not installed, not there, or a cache that is damaged: all mean that it must be fetched
            return None
        return folder if all(find_files(folder, pattern) for pattern in self.files) else None

    def expect(self) -> None:
        """Check, without the network, that the hub's package and a gated dataset's token are there, if needed."""
        if self.cached_folder() is None:
            if self.gated and not _find_token():
                raise DataError(self._explain_gate("and the token is missing"))
            require("huggingface_hub", extra="hub")

    def fetch(self) -> Path:
        """Return the folder of its files, fetching those that the hub's cache lacks."""
        self.expect()
        if (folder := self.cached_folder()) is not None:
            return folder
        hub = require("huggingface_hub", extra="hub")
        why = ""
        try:
            with reach_hub(hub) as why:
                return Path(self._fetch_snapshot(hub, local_files_only=False))
        except hub.errors.GatedRepoError as error:
            raise DataError(self._explain_gate("and your token gives no access to it")) from error
        except (hub.errors.HfHubHTTPError, hub.errors.LocalEntryNotFoundError, OSError, ValueError) as error:
            raise DataError(
                f"{self.repo} at {self.revision[:12]} is not in the hub's cache, and "
                f"{why or f'cannot be fetched ({first_line(error):.200});'} fetch it with a network, set "
                f"HF_HOME to a cache that has it, or get its files from {self.page} and name their folder with data="
            ) from error

    def _explain_gate(self, why: str) -> str:
        return (
            f"{self.repo} is gated (see {self.page}), {why}: accept its conditions there, then log in with "
            "`hf auth login` or set HF_TOKEN"
        )

    def _fetch_snapshot(self, hub: ModuleType, *, local_files_only: bool) -> str:
        return str(
            hub.snapshot_download(
                self.repo,
                repo_type="dataset",
                revision=self.revision,
                allow_patterns=[*self.files, *(f"*/{pattern}" for pattern in self.files)],
                local_files_only=local_files_only,
            )
        )


def _find_token() -> str | None:
    """Return the hub's token, as its package finds it, or the environment's if that is not installed."""
    try:
        token: str | None = require("huggingface_hub", extra="hub").get_token()
    except MissingDependencyError:
        return os.environ.get("HF_TOKEN")
    return token


class PaperTable(NamedTuple):
    """The columns of a paper's table: scores (heading -> metric) of each part (heading -> the tag's values, or ALL).

    A column is the metric's mean over its part's values; of a part without values, over the score's other columns; of
    the `average`, over all columns. If `scores_first`, columns are grouped by score, without scores that a model lacks.
    """

    tag: str
    scores: Mapping[str, str]
    parts: Mapping[str, Sequence[str]]
    average: bool = False
    scores_first: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark(Generic[Records]):
    """A named source of one task's records: minimal pairs, a gallery, statements, questions, boxes, captions, moments.

    Attributes:
        items: how many records it holds; 0 if unknown.
        rows: the published records' digest (`Task.digest`), without pixels; empty if its real files were never read.
        task: the name of its task.
        shape: of pairs: images and texts of an item.
        true: of pairs: how many texts of one image are true.
        official: the metrics that its authors report, the most important first, if these are not the usual ones.
        load: reads the records from a place that has the files. No image is opened.
        files: names of the files that it needs: `a*b` patterns, `a|b` alternatives.
        media: what its texts are about.
        languages: of its texts, by their codes; empty if its record names none.
        images, cluster: the images that it needs, and the unit of resampling, in words.
        hub: the source of its files if no folder of the user's has them.
        place: the folders of this user's files.
        own: the user's folder or file, if the benchmark is one; its name has only the last part of the path.
        usual: names of folders next to the annotations in which its images usually lie; pairs state their paths.
        pictures: returns the reader of the images if they are not files below one folder.
        domain: `in-domain` or `out-of-domain`, if the paper distinguishes the two.
        rival: the benchmark of the other domain, whose difference to this one is the generalisation gap.
        ties: how the code of the benchmark's authors counts a tie, in words; here a tie is never right.
        tie_rule: the same rule as a name; unless it is `wrong`, tables also show the number by this rule.
        authors: the name, in `tellapart.tasks.authors`, of the authors' numbers that are no mean of items' values.
        mined_by: patterns of the names of models whose failures chose its items; its authors leave them out.
        known: of pairs: returns the items' outline without any file, for scores that were computed elsewhere.
        paper: the columns of its paper's table.

    >>> from tellapart.benchmarks.find import find_benchmark
    >>> find_benchmark("winoground").items, find_benchmark("vlue-nlvr2").task
    (400, 'nlvr2')
    """

    name: str
    title: str
    items: int
    rows: str = ""
    source: str
    licence: str = "not stated"
    citation: str = "not stated"
    task: str = "pairs"
    shape: tuple[int, int] | None = None
    true: int = 1
    official: tuple[str, ...] = ()
    load: Callable[[Locations], Records]
    files: tuple[str, ...] = ()
    media: Media = "images"
    languages: tuple[str, ...] = ()
    images: str = ""
    cluster: str = "the item"
    hub: Hub | None = None
    place: Locations = field(default_factory=Locations)
    own: Path | None = None
    usual: tuple[str, ...] = ("images",)
    pictures: Callable[[Locations], Callable[[str], bytes]] | None = None
    domain: str = ""
    rival: str = ""
    ties: str = "a tie is wrong"
    tie_rule: TieRule = "wrong"
    authors: str = ""
    mined_by: tuple[str, ...] = ()
    known: Callable[[], Outline] | None = None
    paper: PaperTable | None = field(default=None, hash=False)  # it has mappings

    def was_mined_by(self, model: str) -> bool:
        """Return whether the items were chosen because this model fails on them: its numbers then do not compare.

        >>> from tellapart.benchmarks.find import find_benchmark
        >>> retrieval = find_benchmark("naturalbench-retrieval")
        >>> [retrieval.was_mined_by(f"open_clip:ViT-L-14/{tag}") for tag in ("laion400m_e32", "openai")]
        [True, False]
        """
        return any(fnmatchcase(model, pattern) for pattern in self.mined_by)

    def derived(self, prefix: str, words: str, **changes: Any) -> Benchmark[Any]:
        """Return another benchmark with changed fields, and without the published numbers: they do not hold for it."""
        name, title = f"{prefix}{self.name}", f"{self.title}; {words}"
        cleared: dict[str, Any] = {"rows": "", "official": (), "tie_rule": "wrong", "authors": "", "known": None}
        return replace(self, name=name, title=title, paper=None, **cleared | changes)

    @property
    def year(self) -> int | None:
        """The year of the publication that is cited, the last that the citation names; None if it names none."""
        years = re.findall(r"\b(?:19|20)\d\d\b", self.citation)
        return int(years[-1]) if years else None

    def missing(self) -> tuple[str, ...]:
        """Return the names of needed files that the user's folders lack; images are not looked for."""
        folder = self.place.folder(self.name)
        return tuple(name for name in self.files if folder is None or not find_files(folder, name))

    def expect(self) -> None:
        """Check, without reading them, that the files are available: in the user's folders or on the hub."""
        if not self.missing():
            return
        try:
            if self.hub is None:
                raise DataError(self.needs())
            self.hub.expect()
        except DataError as error:
            if self.known is None:
                raise
            elsewhere = f"or score its pairs where you have them, and run: tellapart score {self.name} --scores FILE"
            raise DataError(f"{error}; {elsewhere}") from error

    def records(self) -> Records:
        """Load the records; files that no folder of the user's has are fetched from the hub.

        Raises:
            DataError: the files are missing, gated or malformed.
            MissingDependencyError: the hub's package is needed and not installed.
        """
        self.expect()
        if not self.missing() or self.hub is None:
            return self.load(self.place)
        return self.load(replace(self.place, data=self.hub.fetch()))

    def here(self) -> Locations | None:
        """Return the place that has the files without using the network; None if there is none."""
        if not self.missing():
            return self.place
        folder = None if self.hub is None else self.hub.cached_folder()
        return None if folder is None else replace(self.place, data=folder)

    def records_here(self) -> Records | None:
        """Load the records if the user's folders or the hub's cache have them, without using the network; else None."""
        place = self.here()
        return None if place is None else self.load(place)

    def outline(self) -> Outline:
        """Return ids, clusters and tags of pairs: from the files if they are here, else from `known`."""
        if isinstance(pairs := self.records_here(), PairSet):
            return pairs.outline
        if self.known is None:
            raise DataError(self.needs())
        return self.known()

    def picture_root(self) -> Path:
        """Return the folder of the images, for benchmarks whose images are files below one folder."""
        return self.place.pictures(self.name, *self.usual)

    def read_image(self, records: Any = None) -> Callable[[str], bytes] | None:
        """Return a function from an image's reference to its file's bytes; None if the files are not here."""
        if self.pictures is not None:
            return self.pictures(self.here() or self.place)
        if self.shape is None:
            return FolderImages(self.picture_root(), outside=self.place.outside)
        records = self.records_here() if records is None else records
        reader: Callable[[str], bytes] | None = None if records is None else records.read_bytes
        return reader

    def needs(self) -> str:
        """Return a sentence: the missing files, the folders that were searched, and the source to get them from."""
        missing, folder = self.missing(), self.place.folder(self.name)
        place = "no data= was given" if folder is None else f"{folder} lacks {'them' if len(missing) > 1 else 'it'}"
        hub = "" if self.hub is None else f"; or fetch it once: tellapart run -b {self.name} (from {self.hub.page})"
        return (
            f"{self.name} needs {join_names(missing, limit=3)}, and {place}: get the files from {self.source} and name "
            f"their folder with data={hub}"
        )


def own_benchmark(name: str, path: Path, records: Any, **facts: Any) -> Benchmark[Any]:
    """Return the user's records, which were read from a file or a folder, as a benchmark."""
    facts |= {"items": len(records), "source": str(path), "own": path.resolve()}
    return Benchmark(name=name, load=lambda _place: records, **facts)
