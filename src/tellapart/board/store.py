"""The board's database: one SQLite file, or PostgreSQL by its URL; rebuilt when its tables are of another version."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine, MetaData, event, insert, inspect, select
from sqlalchemy.exc import SQLAlchemyError
from sqlmodel import Session, create_engine

from tellapart.board.tables import SCHEMA, BoardTable, Schema, State
from tellapart.data.lock import use_write_ahead_log
from tellapart.errors import StoreError, first_line

if TYPE_CHECKING:
    import sqlite3

    from sqlalchemy.engine.interfaces import DBAPIConnection
    from sqlalchemy.pool import ConnectionPoolEntry

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
