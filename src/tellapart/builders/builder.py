"""What a builder is: a source of candidates, and how one of them becomes an item of a pair set or is rejected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pydantic import BaseModel, JsonValue

from tellapart.data.item import Item

__all__ = ["Builder", "BuilderType", "Candidate", "Failed", "Made", "Outcome", "Rejected", "Start"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """What may become one item: its id, which is also the item's, and what the builder needs to make it.

    >>> Candidate("counting-000", {"aspect": "counting", "index": 0}).id
    'counting-000'
    """

    id: str
    data: Any


@dataclass(frozen=True, slots=True)
class Made:
    """An item and its images' bytes by reference; `redrawn` says why earlier draws of the same item were thrown away.

    >>> Made(Item(id="a", images=("images/a.png",), texts=("x", "y")), {"images/a.png": b""}).redrawn
    ()
    """

    item: Item
    images: Mapping[str, bytes]
    redrawn: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rejected:
    """A candidate that makes no item: at which step, and why; the same on every run.

    >>> Rejected("swap", "one object only").reason
    'one object only'
    """

    step: str
    reason: str


@dataclass(frozen=True, slots=True)
class Failed:
    """A candidate that an error kept from being decided: another try may decide it.

    >>> Failed("OSError: disk full").error
    'OSError: disk full'
    """

    error: str


Outcome = Made | Rejected | Failed


@dataclass(frozen=True, slots=True)
class Start:
    """What a builder starts from: its checked options, the recipe's seed, and the folder that paths are relative to.

    >>> Start(None, 1, Path(".")).seed
    1
    """

    options: Any
    seed: int
    home: Path


class Builder(Protocol):
    """A source of candidates and the way from one to an item.

    Whatever `make` does depends on the candidate and on what the builder started from, never on the order of work, on
    other candidates or on the process. Every worker process has a builder of its own, made once.

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
        """What the set's card says of it: title, description, licence, source, citation."""

    @property
    def inputs(self) -> Mapping[str, str]:
        """The files it reads, by name, with their SHA-256: a build does not go on when one of them changed."""

    @property
    def models(self) -> Mapping[str, str]:
        """The models and programs it uses, by name, with their revision or version."""

    def candidates(self) -> Sequence[Candidate]:
        """Return every candidate, in the order of the set, with distinct ids."""

    def make(self, candidate: Candidate) -> Made | Rejected:
        """Make a candidate's item; an error it raises is a failure, which is tried again."""


class BuilderType(Protocol):
    """What a name of `catalog.BUILDERS` leads to: the model of a builder's options, and how to make the builder.

    >>> from tellapart.catalog import load
    >>> sorted(load("builder", "negatives").Options.model_fields)
    ['captions', 'images', 'kinds', 'other_captions', 'uniform']
    """

    @property
    def Options(self) -> type[BaseModel]:  # noqa: N802  (a class)
        """The frozen pydantic model of the recipe's `[options]`; it forbids keys that it does not know."""

    def __call__(self, start: Start, /) -> Builder:
        """Return a builder."""
