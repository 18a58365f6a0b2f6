"""The board's tables. `migrations/` makes and changes them; a test holds the two together.

Per-item numbers are float32 vectors in the benchmark's order of items, one row a model and metric: a leaderboard reads
none of them, and an item's page reads a few bytes of each.
"""

from __future__ import annotations

from typing import Any, ClassVar

from sqlalchemy import JSON, Column, Index, LargeBinary, Text
from sqlmodel import Field, SQLModel

__all__ = ["RAW", "Answer", "Benchmark", "Entry", "Item", "Model", "Score", "Source", "State", "Vector"]

#: The metric under which a vector holds an entry's raw scores, float32 (item, image, text).
RAW = ""


class State(SQLModel, table=True):
    """One row: how often what the board shows has changed, so that pages made before are known to be old.

    >>> State(id=1, version=3).version
    3
    """

    __tablename__: ClassVar[Any] = "state"
    id: int = Field(default=1, primary_key=True)
    version: int = 0


class Source(SQLModel, table=True):
    """A file that was read: a run's `results.json`, an imported record, a `timing.json`.

    Attributes:
        digest: SHA-256 of its bytes; another digest is read again.
        kind: `run`, `imported` or `timing`.
        superseded: a later record took the place of one of its own; it is read again when any record goes.

    >>> Source(path="runs/a/results.json", digest="0", kind="run").id is None
    True
    """

    __tablename__: ClassVar[Any] = "source"
    id: int | None = Field(default=None, primary_key=True)
    path: str = Field(unique=True)
    digest: str
    kind: str
    superseded: bool = False


class Model(SQLModel, table=True):
    """One model: a name, its weights and how it was read; several runs of it on other benchmarks are put together.

    Attributes:
        slug: its name in addresses.
        label: its name on the board, distinct.
        kind: `model`, `reference` or `human`.
        identity: what makes two records the same model's.
        latency: seconds of one pair; `parameters` and `training_images` are counts; None where nobody said.

    >>> Model(slug="a", name="a", label="a", kind="model", identity="a").latency is None
    True
    """

    __tablename__: ClassVar[Any] = "model"
    id: int | None = Field(default=None, primary_key=True)
    slug: str = Field(unique=True)
    name: str
    label: str
    kind: str
    identity: str = Field(unique=True)
    fingerprint: str = ""
    note: str = ""
    latency: float | None = None
    parameters: int | None = None
    training_images: int | None = None
    cost_source: str = ""


class Benchmark(SQLModel, table=True):
    """The same items: records with another fingerprint under the same name are another benchmark.

    Attributes:
        items_digest: of ids and clusters; empty where no items are known.
        headline: the metrics of a first look.
        domain, rival: VLUE's domains, from the catalogue.

    >>> Benchmark(slug="demo", name="demo", fingerprint="f", title="Demo", task="pairs", n=3).headline
    []
    """

    __tablename__: ClassVar[Any] = "benchmark"
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
    headline: list[str] = Field(default_factory=list, sa_column=Column(JSON, nullable=False))
    domain: str = ""
    rival: str = ""


class Entry(SQLModel, table=True):
    """One model on one benchmark.

    Attributes:
        record: the benchmark's part of the record, as `results.json` has it; for imported numbers, where they come from.
        run: the circumstances.
        folder: the run folder; empty for imported numbers.
        on_trust: its scores were made elsewhere, or its numbers imported.
        tie_rule: empty for the strict rule of this package; else what is known of the rule that was used.

    >>> Entry(model_id=1, benchmark_id=1, source_id=1, started="").folder
    ''
    """

    __tablename__: ClassVar[Any] = "entry"
    __table_args__ = (Index("entry_of", "benchmark_id", "model_id", unique=True),)
    id: int | None = Field(default=None, primary_key=True)
    model_id: int = Field(foreign_key="model.id", index=True)
    benchmark_id: int = Field(foreign_key="benchmark.id")
    source_id: int = Field(foreign_key="source.id", index=True)
    started: str
    folder: str = ""
    record: dict[str, Any] = Field(default_factory=dict, sa_column=Column(JSON, nullable=False))
    run: dict[str, Any] = Field(default_factory=dict, sa_column=Column(JSON, nullable=False))
    on_trust: bool = False
    tie_rule: str = ""
    note: str = ""


class Score(SQLModel, table=True):
    """One number of an entry: over all items where `tag` is empty, else over a value of the tag (`value_of` empty: macro).

    Attributes:
        tier: rank among the benchmark's models that were tested against each other; None where that was not possible.

    >>> Score(entry_id=1, benchmark_id=1, metric="group_score", value=0.5, n=10).tier is None
    True
    """

    __tablename__: ClassVar[Any] = "score"
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
    chance: float | None = None
    n: int
    ties: int = 0
    tie_neutral: float | None = None
    deviation: bool = False
    tier: int | None = None


class Item(SQLModel, table=True):
    """One item of a benchmark, or a task's query, statement or question.

    >>> Item(benchmark_id=1, position=0, name="a", unit="item", cluster="a").texts
    []
    """

    __tablename__: ClassVar[Any] = "item"
    benchmark_id: int = Field(foreign_key="benchmark.id", primary_key=True)
    position: int = Field(primary_key=True)
    name: str
    unit: str
    cluster: str
    gold: str = ""
    tags: dict[str, str] = Field(default_factory=dict, sa_column=Column(JSON, nullable=False))
    images: list[str] = Field(default_factory=list, sa_column=Column(JSON, nullable=False))
    texts: list[str] = Field(default_factory=list, sa_column=Column(JSON, nullable=False))


class Vector(SQLModel, table=True):
    """An entry's value of every item by one metric, little-endian float32; NaN where an item has none.

    Attributes:
        data: (item,) for outcomes; (item, image, text) for the raw scores.
        tied: a byte an item, 1 where a tie touched the metric; empty where none did.

    >>> Vector(entry_id=1, metric="group_score", data=b"", tied=b"").metric
    'group_score'
    """

    __tablename__: ClassVar[Any] = "vector"
    entry_id: int = Field(foreign_key="entry.id", primary_key=True)
    metric: str = Field(primary_key=True)
    data: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    tied: bytes = Field(default=b"", sa_column=Column(LargeBinary, nullable=False))


class Answer(SQLModel, table=True):
    """What a model put out for one item of a task, as JSON.

    >>> Answer(entry_id=1, position=0, output='"cat"').output
    '"cat"'
    """

    __tablename__: ClassVar[Any] = "answer"
    entry_id: int = Field(foreign_key="entry.id", primary_key=True)
    position: int = Field(primary_key=True)
    output: str = Field(sa_column=Column(Text, nullable=False))
