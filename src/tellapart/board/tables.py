"""The tables of the board's database: models, benchmarks, their entries, scores and per-item outcomes.

Everything in them comes from run folders and imported files, so `Store` drops and rebuilds them when `SCHEMA` changes.
Per-item numbers are float32 vectors in the benchmark's order of items, one row for each model and metric: a leaderboard
reads none of them, and an item's page reads a few bytes of each.
"""

from __future__ import annotations

from typing import Any, ClassVar

from sqlalchemy import JSON, BigInteger, Index, MetaData
from sqlmodel import Field, SQLModel

#: The version of these tables. Raise it with every change to a column, an index or the meaning of a value.
SCHEMA = 6

#: The metric under which a vector holds an entry's raw scores, float32 (item, image, text).
RAW = ""


class BoardTable(SQLModel):
    """The base class of the board's tables; their metadata holds no table of a plugin's."""

    metadata: ClassVar[MetaData] = MetaData()


class Schema(BoardTable, table=True):
    """One row: the version of the tables, and the names of those that the board made."""

    __tablename__: ClassVar[Any] = "board_schema"
    version: int = Field(primary_key=True)
    tables: list[str] = Field(sa_type=JSON)


class State(BoardTable, table=True):
    """One row: how often the records have changed. A page of an older version is out of date."""

    id: int = Field(default=1, primary_key=True)
    version: int = 0


class Source(BoardTable, table=True):
    """A file that was read: a run's `results.json`, an imported record, a `timing.json`.

    Attributes:
        digest: SHA-256 of its bytes; the file is read again when this changes.
        kind: `run`, `imported` or `timing`.
        superseded: a later record replaced one of this file; the file is read again when any record goes.
        problem: why it could not be read, for readers of the board; empty if it was.
    """

    id: int | None = Field(default=None, primary_key=True)
    path: str = Field(unique=True)
    digest: str
    kind: str
    superseded: bool = False
    problem: str = ""


class Model(BoardTable, table=True):
    """One model: a name, its weights and how it was read. Its runs on several benchmarks are put together.

    Attributes:
        slug: its name in addresses.
        label: its name on the board, distinct.
        kind: `model`, `reference` or `human`.
        identity: equal for two records of the same model.
        latency: seconds for one pair.
        parameters, training_images: counts; None if unknown.
    """

    id: int | None = Field(default=None, primary_key=True)
    slug: str = Field(unique=True)
    name: str
    label: str
    kind: str
    identity: str = Field(unique=True)
    fingerprint: str = ""
    note: str = ""
    latency: float | None = None
    parameters: int | None = Field(default=None, sa_type=BigInteger)
    training_images: int | None = Field(default=None, sa_type=BigInteger)
    cost_source: str = ""


class Benchmark(BoardTable, table=True):
    """A set of items. Records with the same name and another fingerprint are another benchmark.

    Attributes:
        items_digest: of ids and clusters; empty if no items are known.
        limited_from: the benchmark's number of items, if this is a part of it (`--limit`).
        headline: the metrics of the leaderboard.
        domain, rival: VLUE's domains, from the catalogue.
    """

    id: int | None = Field(default=None, primary_key=True)
    slug: str = Field(unique=True)
    name: str = Field(index=True)
    fingerprint: str
    items_digest: str = ""
    title: str
    task: str
    images_each: int | None = None
    texts_each: int | None = None
    n: int
    limited_from: int | None = None
    headline: list[str] = Field(default_factory=list, sa_type=JSON)
    domain: str = ""
    rival: str = ""

    @property
    def part(self) -> str:
        """The measured share of the benchmark, in words; empty for all of it."""
        return "" if self.limited_from is None else f"{self.n:,} of {self.limited_from:,} items"


class Entry(BoardTable, table=True):
    """One model on one benchmark.

    Attributes:
        record: the benchmark's part of `results.json`; for imported numbers, their source.
        run: how, when and with which versions it was measured.
        name: the benchmark's in that run; the board's may have the start of a fingerprint behind it.
        folder: the run folder; empty for imported numbers.
        on_trust: its scores were computed elsewhere, or its numbers imported.
        tie_rule: empty for the strict rule of this package; else a description of the rule that was used.
    """

    __table_args__ = (Index("entry_of", "benchmark_id", "model_id", unique=True),)
    id: int | None = Field(default=None, primary_key=True)
    model_id: int = Field(foreign_key="model.id", index=True)
    benchmark_id: int = Field(foreign_key="benchmark.id")
    source_id: int = Field(foreign_key="source.id", index=True)
    started: str
    name: str = ""
    folder: str = ""
    record: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)
    run: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)
    on_trust: bool = False
    tie_rule: str = ""
    note: str = ""


class Score(BoardTable, table=True):
    """One number of an entry.

    Attributes:
        tag, value_of: empty for a score over all items, else a tag and one of its values; a macro average has no value.
        reason: why there is no interval; None if there is one.
        official: as the benchmark's authors count ties; None where that is the same number, or unknown.
        tier: rank among the benchmark's models that were tested against each other; None if that was impossible.
    """

    __table_args__ = (Index("score_of", "benchmark_id", "tag", "metric"),)
    id: int | None = Field(default=None, primary_key=True)
    entry_id: int = Field(foreign_key="entry.id", index=True)
    benchmark_id: int = Field(foreign_key="benchmark.id")
    tag: str = ""
    value_of: str = ""
    metric: str
    value: float
    low: float | None = None
    high: float | None = None
    reason: str | None = None
    chance: float | None = None
    n: int
    ties: int = 0
    tie_neutral: float | None = None
    official: float | None = None
    deviation: bool = False
    tier: int | None = None


class Item(BoardTable, table=True):
    """One item of a benchmark, or a task's query, statement or question."""

    benchmark_id: int = Field(foreign_key="benchmark.id", primary_key=True)
    position: int = Field(primary_key=True)
    name: str
    unit: str
    cluster: str
    gold: str = ""
    tags: dict[str, str] = Field(default_factory=dict, sa_type=JSON)
    images: list[str] = Field(default_factory=list, sa_type=JSON)
    texts: list[str] = Field(default_factory=list, sa_type=JSON)


class Vector(BoardTable, table=True):
    """An entry's value of every item by one metric, little-endian float32; NaN if an item has none.

    Attributes:
        data: (item,) for outcomes; (item, image, text) for the raw scores.
        tied: a byte for each item, 1 if a tie affected the metric; empty if none did.
    """

    entry_id: int = Field(foreign_key="entry.id", primary_key=True)
    metric: str = Field(primary_key=True)
    data: bytes
    tied: bytes = b""


class TaskOutput(BoardTable, table=True):
    """A model's output for one item of a task, as JSON."""

    __tablename__: ClassVar[Any] = "answer"
    entry_id: int = Field(foreign_key="entry.id", primary_key=True)
    position: int = Field(primary_key=True)
    output: str
