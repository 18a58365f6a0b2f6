"""The board's database: one SQLite file, or PostgreSQL by its URL; rebuilt when its tables are of another version."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import JSON, BigInteger, Connection, Engine, Index, MetaData, event, insert, inspect, select
from sqlalchemy.exc import SQLAlchemyError
from sqlmodel import Field, Session, SQLModel, create_engine

from tellapart.data.lock import use_write_ahead_log
from tellapart.errors import StoreError, first_line
from tellapart.records.result import HIDDEN, Sample

if TYPE_CHECKING:
    import sqlite3

    from sqlalchemy.engine.interfaces import DBAPIConnection
    from sqlalchemy.pool import ConnectionPoolEntry


# The tables of the board's database: models, benchmarks, their entries, scores and per-item outcomes.
#
# Everything in them comes from run folders and imported files, so `Store` drops and rebuilds them when `SCHEMA`
# changes. Per-item numbers are float32 vectors in the benchmark's order of items, one row for each model and metric: a
# leaderboard reads none of them, and an item's page reads a few bytes of each.

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
    """A file that was read: a run's `results.json`, an imported record, a `timing.json`."""

    id: int | None = Field(default=None, primary_key=True)
    path: str = Field(unique=True)
    digest: str  # SHA-256 of its bytes; the file is read again when this changes
    kind: str  # `run`, `imported` or `timing`
    superseded: bool = False  # a later record replaced one of this file; the file is read again when any record goes
    problem: str = ""  # why it could not be read, for readers of the board; empty if it was


class Model(BoardTable, table=True):
    """One model: a name, its weights and how it was read. Its runs on several benchmarks are put together."""

    id: int | None = Field(default=None, primary_key=True)
    slug: str = Field(unique=True)  # its name in addresses
    name: str
    label: str  # its name on the board, distinct
    kind: str  # `model`, `reference` or `human`
    identity: str = Field(unique=True)  # equal for two records of the same model
    fingerprint: str = ""
    note: str = ""
    latency: float | None = None  # seconds for one pair
    # parameters, training_images: counts; None if unknown
    parameters: int | None = Field(default=None, sa_type=BigInteger)
    training_images: int | None = Field(default=None, sa_type=BigInteger)
    cost_source: str = ""


class Benchmark(BoardTable, table=True):
    """A set of items. Records with the same name and another fingerprint are another benchmark."""

    id: int | None = Field(default=None, primary_key=True)
    slug: str = Field(unique=True)
    name: str = Field(index=True)
    fingerprint: str
    items_digest: str = ""  # of ids and clusters; empty if no items are known
    title: str
    task: str
    images_each: int | None = None
    texts_each: int | None = None
    n: int
    limited_from: int | None = None  # the benchmark's number of items, if this is a part of it (`--limit`)
    headline: list[str] = Field(default_factory=list, sa_type=JSON)  # the metrics of the leaderboard
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


class Entry(BoardTable, table=True):
    """One model on one benchmark."""

    __table_args__ = (Index("entry_of", "benchmark_id", "model_id", unique=True),)
    id: int | None = Field(default=None, primary_key=True)
    model_id: int = Field(foreign_key="model.id", index=True)
    benchmark_id: int = Field(foreign_key="benchmark.id")
    source_id: int = Field(foreign_key="source.id", index=True)
    started: str
    name: str = ""  # the benchmark's in that run; the board's may have the start of a fingerprint behind it
    folder: str = ""  # the run folder; empty for imported numbers
    # the benchmark's part of `results.json`; for imported numbers, their source
    record: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)
    run: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)  # how, when and with which versions it was measured
    on_trust: bool = False  # its scores were computed elsewhere, or its numbers imported
    tie_rule: str = ""  # empty for the strict rule of this package; else a description of the rule that was used
    note: str = ""


class Score(BoardTable, table=True):
    """One number of an entry."""

    __table_args__ = (Index("score_of", "benchmark_id", "tag", "metric"),)
    id: int | None = Field(default=None, primary_key=True)
    entry_id: int = Field(foreign_key="entry.id", index=True)
    benchmark_id: int = Field(foreign_key="benchmark.id")
    # tag, value_of: empty for a score over all items, else a tag and one of its values; a macro average has no value
    tag: str = ""
    value_of: str = ""
    metric: str
    value: float
    low: float | None = None
    high: float | None = None
    reason: str | None = None  # why there is no interval; None if there is one
    chance: float | None = None
    n: int
    ties: int = 0
    tie_neutral: float | None = None
    # as the benchmark's authors count ties; None where that is the same number, or unknown
    official: float | None = None
    deviation: bool = False
    # rank among the benchmark's models that were tested against each other; None if that was impossible
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
    """An entry's value of every item by one metric, little-endian float32; NaN if an item has none."""

    entry_id: int = Field(foreign_key="entry.id", primary_key=True)
    metric: str = Field(primary_key=True)
    data: bytes  # (item,) for outcomes; (item, image, text) for the raw scores
    tied: bytes = b""  # a byte for each item, 1 if a tie affected the metric; empty if none did


class TaskOutput(BoardTable, table=True):
    """A model's output for one item of a task, as JSON."""

    __tablename__: ClassVar[Any] = "answer"
    entry_id: int = Field(foreign_key="entry.id", primary_key=True)
    position: int = Field(primary_key=True)
    output: str


#: For so long `Store.latest` answers without a query.
LATEST_SECONDS = 0.25

#: The address of a database that ends with its store.
IN_MEMORY = "sqlite://"

_PATIENCE = 30  # seconds for a lock that another program holds

_CHANGED = "the records have changed"


def database_url(url: str | None, folder: Path, more: Iterable[Path] = ()) -> str:
    """Return SQLAlchemy's address of the database: `board.sqlite` in a folder if no URL is given.

    A board that shows more than that folder has a separate database there, named by its sources: boards that
    show different things do not show each other's. `postgresql://` selects the driver of `tellapart[postgres]`.

    >>> database_url(None, Path("/srv/runs")), database_url("postgresql://localhost/board", Path("runs"))
    ('sqlite:////srv/runs/board.sqlite', 'postgresql+psycopg://localhost/board')
    >>> database_url(None, Path("/srv/runs"), [Path("/srv/papers.toml")])
    'sqlite:////srv/runs/board-a97532a4.sqlite'
    """
    if url is None:
        resolved = folder.resolve()
        others = sorted({str(path.resolve()) for path in more} - {str(resolved)})
        mark = f"-{hashlib.sha256(json.dumps(others).encode()).hexdigest()[:8]}" if others else ""
        return f"sqlite:///{resolved / f'board{mark}.sqlite'}"
    return url.replace("postgresql://", "postgresql+psycopg://", 1)


class Store:
    """An open database with the tables of this version; close it, or use it in a `with` block.

    Tables of another version are dropped, and the next `read_in` reads all records again.
    """

    def __init__(self, url: str) -> None:
        self._own = None
        if url == IN_MEMORY:
            # A file all the same: in memory all threads would share one connection, and its one transaction.
            self._own = TemporaryDirectory(prefix="tellapart-board-")
            url = f"sqlite:///{Path(self._own.name) / 'board.sqlite'}"
        self._latest, self._asking = (0, -math.inf), Lock()  # the version, and the time of its query
        try:
            self._engine = _make_engine(url)
            try:
                _prepare_tables(self._engine)
            except BaseException:
                self.close()
                raise
        except (SQLAlchemyError, ImportError, ValueError) as error:  # ValueError: the port is not a number
            cause = first_line(getattr(error, "orig", None) or error)
            raise StoreError(f"the board's database cannot be opened: {cause}; look at database=") from error

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection, and delete a database that ends with the store."""
        self._engine.dispose()
        if self._own is not None:
            self._own.cleanup()

    @contextmanager
    def session(self) -> Iterator[Session]:
        """Open a session; its changes are committed unless an error leaves the block."""
        with Session(self._engine) as session:
            yield session
            session.commit()
            if _CHANGED not in session.info:
                return
        with self._asking:  # a query under way may return the version before
            self._latest = (self._latest[0], -math.inf)

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Open a session that sees the records as they are at its first query, despite later writes."""
        with Session(self._engine) as session:
            if self._engine.dialect.name == "postgresql":
                session.connection(execution_options={"isolation_level": "REPEATABLE READ"})
            else:
                session.connection().exec_driver_sql("BEGIN")
            yield session

    def version(self, session: Session) -> int:
        """Return how often the records have changed."""
        state = session.get(State, 1)
        return state.version if state else 0

    def latest(self) -> int:
        """Return the version, mostly without a query; another process's change shows within `LATEST_SECONDS`."""
        with self._asking:
            if (version := self.known()) is None:
                start = time.monotonic()
                with Session(self._engine) as session:
                    version = self.version(session)
                self._latest = (version, start)
        return version

    def known(self) -> int | None:
        """Return the version that `latest` would return without a query; None if it would make one."""
        version, at = self._latest
        return version if time.monotonic() - at <= LATEST_SECONDS else None

    def mark_changed(self, session: Session) -> None:
        """Raise the version: pages rendered before are out of date."""
        # Tables that somebody emptied count on from here, or a kept page of other records would get its number again.
        state = session.get(State, 1) or State(version=self._latest[0])
        state.version += 1
        session.add(state)
        session.flush()
        session.info[_CHANGED] = True


def _make_engine(url: str) -> Engine:
    if not url.startswith("sqlite"):
        engine = create_engine(url, pool_pre_ping=True)

        @event.listens_for(engine, "connect")
        def _limit_lock_wait(connection: DBAPIConnection, _record: ConnectionPoolEntry) -> None:
            connection.execute(f"SET lock_timeout = '{_PATIENCE}s'")  # PostgreSQL itself waits for ever
            connection.commit()

        return engine
    engine = create_engine(url, connect_args={"check_same_thread": False, "timeout": _PATIENCE})

    @event.listens_for(engine, "connect")
    def _configure_sqlite(connection: sqlite3.Connection, _record: ConnectionPoolEntry) -> None:
        use_write_ahead_log(connection)  # readers go on while a run is read in
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute(f"PRAGMA mmap_size={2 << 30}")  # one page of the board reads thousands of the database's

    return engine


def _prepare_tables(engine: Engine) -> None:
    """Make the tables, or make them again if their version differs."""
    with engine.connect() as connection:  # without a lock: another process may be reading runs in for minutes
        if _read_schema(connection)[0] == SCHEMA:
            return
    with engine.begin() as connection:
        if engine.dialect.name == "sqlite":
            connection.exec_driver_sql("BEGIN IMMEDIATE")  # the driver begins no transaction before CREATE and DROP
        version, tables = _read_schema(connection)
        if version == SCHEMA:  # another process was first
            return
        old = MetaData()
        old.reflect(connection, only=tables, resolve_fks=False)
        old.drop_all(connection)
        BoardTable.metadata.create_all(connection, checkfirst=False)
        connection.execute(insert(Schema).values(version=SCHEMA, tables=list(BoardTable.metadata.tables)))


def _read_schema(connection: Connection) -> tuple[int, list[str]]:
    """Return the version of the board's tables, 0 if unknown, and the names of those that the board made."""
    present, names = set(inspect(connection).get_table_names()), set(BoardTable.metadata.tables)
    if Schema.__tablename__ in present:
        row = connection.execute(select(Schema.version, Schema.tables)).first()  # type: ignore[call-overload]
        version, tables = row or (0, names)
        return version, sorted(present & {*tables, Schema.__tablename__})
    # A SQLite file is one program's; a PostgreSQL database may be shared, as long as no name is taken.
    if foreign := sorted(present if connection.dialect.name == "sqlite" else present & names):
        raise StoreError(
            "the board's database cannot be opened: it holds tables that are not the board's "
            f"({', '.join(foreign[:3])}); name another with database="
        )
    return 0, []


def pack(values: NDArray[np.float32]) -> bytes:
    """Return an array's bytes."""
    return np.ascontiguousarray(values, dtype="<f4").tobytes()


def unpack(data: bytes) -> NDArray[np.float32]:
    """Return the numbers of some bytes, float32 (n,)."""
    return np.frombuffer(data, dtype="<f4").astype(np.float32)


def read_vector(session: Session, entry: Entry, metric: str) -> NDArray[np.float32] | None:
    """Return an entry's value of every item by a metric, float32 (item,); None if it has none (imported numbers)."""
    vector = session.get(Vector, (entry.id, metric))
    return None if vector is None else unpack(vector.data)


def outcome_vectors(samples: Sequence[Sample]) -> dict[str, tuple[NDArray[np.float32], bytes]]:
    """Return metric -> the value of every sample, NaN if it has none, and a byte each, 1 if a tie affected it."""
    vectors = {}
    for name in dict.fromkeys(name for sample in samples for name in sample.outcomes):
        values = np.array([sample.outcomes.get(name, np.nan) for sample in samples], dtype=np.float32)
        tied = bytes(name in sample.tied for sample in samples)
        vectors[name] = (values, tied if any(tied) else b"")
    return vectors


def score_vector(samples: Sequence[Sample]) -> NDArray[np.float32] | None:
    """Return raw scores, float32 (item * image * text,); None if samples have none, as for tasks."""
    if not samples or not all(sample.scores for sample in samples):
        return None
    return np.array([sample.scores for sample in samples], dtype=np.float32).reshape(-1)
