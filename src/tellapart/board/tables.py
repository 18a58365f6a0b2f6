"""The board's tables, in memory: models, benchmarks and their entries; made of records, and replaced whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.board.settings import BoardSettings
from tellapart.errors import UnknownNameError
from tellapart.records.result import HIDDEN, BenchmarkResult, RunRecord


@dataclass(frozen=True, slots=True)
class Model:
    """One model: a name, its weights and how it was read. Its runs on several benchmarks are put together."""

    slug: str  # its name in addresses
    name: str
    label: str  # its name on the board, distinct
    kind: str  # `model`, `reference` or `human`
    identity: str  # equal for two records of the same model
    fingerprint: str = ""
    note: str = ""
    latency: float | None = None  # seconds for one pair
    # parameters, training_images: counts; None if unknown
    parameters: int | None = None
    training_images: int | None = None
    cost_source: str = ""


@dataclass(frozen=True, slots=True)
class Item:
    """One item of a benchmark, or a task's query, statement or question."""

    name: str
    unit: str
    cluster: str
    gold: str
    tags: Mapping[str, str]
    images: tuple[str, ...]
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ItemList:
    """The items of a benchmark in order. Runs on the same items share one list."""

    rows: tuple[Item, ...] = ()
    digest: str = ""  # of ids, units and clusters, in any order; empty if no items are known

    @property
    def clusters(self) -> list[str]:
        """The cluster of each item."""
        return [item.cluster for item in self.rows]


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A set of items. Records with the same name and another fingerprint are another benchmark."""

    slug: str
    name: str
    fingerprint: str
    title: str
    task: str
    n: int = 0
    shape: tuple[int, int] | None = None  # images and texts of an item; None for tasks
    items: ItemList = ItemList()
    limited_from: int | None = None  # the benchmark's number of items, if this is a part of it (`--limit`)
    headline: tuple[str, ...] = ()  # the metrics of the leaderboard
    domain: str = ""  # domain, rival: VLUE's domains, from the catalogue
    rival: str = ""

    @property
    def part(self) -> str:
        """The measured share of the benchmark, in words; empty for all of it."""
        return "" if self.limited_from is None else f"{self.n:,} of {self.limited_from:,} items"

    @property
    def is_hidden(self) -> bool:
        """Whether its labels stay on the server, and its numbers are rounded."""
        return self.fingerprint.startswith(HIDDEN)


@dataclass(frozen=True, slots=True)
class Entry:
    """One model on one benchmark, which has its slugs once it is in the tables."""

    name: str  # the benchmark's in that run; the board's may have the start of a fingerprint behind it
    record: BenchmarkResult
    items: ItemList = ItemList()
    model: str = ""
    benchmark: str = ""
    started: str = ""
    folder: Path | None = None  # the run folder; None for imported numbers
    run: RunRecord | None = None  # how, when and with which versions it was measured
    on_trust: bool = False  # its scores were computed elsewhere, or its numbers imported
    tie_rule: str = ""  # empty for the strict rule of this package; else a description of the rule that was used
    note: str = ""
    values: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)  # metric -> (item,); NaN without a value
    tied: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)  # metric that a tie touched -> (item,)
    scores: NDArray[np.float32] | None = None  # (item, image, text); None for tasks, and without items
    outputs: tuple[Any, ...] = ()  # a model's output for each item of a task

    @property
    def mark(self) -> str:
        """The mark of its numbers: empty, `on trust` or `imported`."""
        # A run folder of imported numbers has another tool's rule; scores made elsewhere were measured by this one.
        measured = "on trust" if self.folder is not None and not self.tie_rule else "imported"
        return measured if self.on_trust else ""


@dataclass(frozen=True, slots=True)
class Tables:
    """One state of a board's records; every page is made of one, and a change makes another."""

    settings: BoardSettings
    version: int = 0  # how often the records have changed
    models: dict[str, Model] = field(default_factory=dict)  # by slug, like benchmarks
    benchmarks: dict[str, Benchmark] = field(default_factory=dict)
    entries: dict[tuple[str, str], Entry] = field(default_factory=dict)  # (benchmark, model) -> one on the other
    unread: dict[Path, str] = field(default_factory=dict)  # file that could not be read -> why, for readers
    # (benchmark, metric) -> model -> its rank among the models that were tested against each other
    tiers: dict[tuple[str, str], dict[str, int]] = field(default_factory=dict)

    def model(self, slug: str) -> Model:
        """Return the model with this slug."""
        if slug not in self.models:
            raise UnknownNameError(f"this board has no model {slug[:200]!r}")
        return self.models[slug]

    def benchmark(self, slug: str) -> Benchmark:
        """Return the benchmark with this slug."""
        if slug not in self.benchmarks:
            raise UnknownNameError(f"this board has no benchmark {slug[:200]!r}")
        return self.benchmarks[slug]

    def named(self, name: str) -> Benchmark | None:
        """Return the first benchmark of a name; None if there is none, or no name."""
        return next((benchmark for benchmark in self.benchmarks.values() if name and benchmark.name == name), None)

    def entries_of(self, *, model: str = "", benchmark: str = "") -> list[Entry]:
        """Return the entries of a model, or those on a benchmark."""
        return [entry for key, entry in self.entries.items() if key[0] == benchmark or key[1] == model]
