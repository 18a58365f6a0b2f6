"""The protocol of builders: a source of candidates, each of which becomes an item of a pair set or is rejected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pydantic import BaseModel, JsonValue

from tellapart.data.item import Item
from tellapart.data.rows import read_toml

__all__ = ["Builder", "BuilderType", "Candidate", "Failed", "Made", "Outcome", "Rejected", "Start"]


def about_set(builder: str) -> Mapping[str, JsonValue]:
    """Return the `about` of a builder that ships: its table in `about.toml`."""
    about: Mapping[str, JsonValue] = read_toml(Path(__file__).with_name("about.toml"))[builder]
    return about


@dataclass(frozen=True, slots=True)
class Candidate:
    """A possible item: its id, which will be the item's, and the data that the builder makes it from."""

    id: str
    data: Any


@dataclass(frozen=True, slots=True)
class Made:
    """An item and its images' bytes by reference; `redrawn` has the reasons why earlier draws were thrown away."""

    item: Item
    images: Mapping[str, bytes]
    redrawn: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rejected:
    """The outcome of a candidate that makes no item; it is the same on every run.

    Attributes:
        step: the step of the build that rejects the candidate.
        reason: a short sentence without the candidate's data, as equal reasons are counted together.
        text: the refused text, if there is one; the user sees the first text of each reason.
    """

    step: str
    reason: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Failed:
    """The error that left a candidate undecided; another try may decide it."""

    error: str


Outcome = Made | Rejected | Failed


@dataclass(frozen=True, slots=True)
class Start:
    """A builder's arguments.

    Attributes:
        options: the recipe's `[options]`, validated.
        seed: the recipe's seed.
        home: the folder that paths in the options are relative to.
        insecure: whether the user, on the command line, allows plain http to a server on another machine.
    """

    options: Any
    seed: int
    home: Path
    insecure: bool = False


class Builder(Protocol):
    """A source of candidates, and the maker of their items.

    The outcome of `make` depends on the candidate and on the `Start` alone, never on the order of work, on other
    candidates or on the process. Every worker process makes one builder.

    A builder may also have `source_of(item)`: the path of the picture or video that an item was made of, and the
    SHA-256 that the file had; or None. A resumed build refuses an item whose file has changed since.

    >>> class Doubles:
    ...     about, inputs, models = {"title": "Doubles"}, {}, {}
    ...     def candidates(self):
    ...         return [Candidate("one", 1)]
    ...     def make(self, candidate):
    ...         return Rejected("make", "too few")
    >>> builder: Builder = Doubles()
    >>> builder.make(builder.candidates()[0]).reason
    'too few'
    """

    @property
    def about(self) -> Mapping[str, JsonValue]:
        """The set's title, description, licence, source and citation, for its card."""

    @property
    def inputs(self) -> Mapping[str, str]:
        """The SHA-256 of the files it reads, by name: a build is not resumed after one of them changed."""

    @property
    def models(self) -> Mapping[str, str]:
        """The models and programs it uses, by name, with their revision or version."""

    def candidates(self) -> Sequence[Candidate]:
        """Return every candidate, in the order of the set, with distinct ids."""

    def make(self, candidate: Candidate) -> Made | Rejected:
        """Make a candidate's item; an error it raises is a failure, which is tried again."""


class BuilderType(Protocol):
    """An entry of `catalog.BUILDERS`: the model of a builder's options, and the call that makes the builder."""

    @property
    def Options(self) -> type[BaseModel]:  # noqa: N802  (a class)
        """The frozen pydantic model of the recipe's `[options]`; it forbids keys that it does not know."""

    def __call__(self, start: Start, /) -> Builder:
        """Return a builder."""
