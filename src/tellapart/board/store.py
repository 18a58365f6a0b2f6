"""The board's database: SQLite in one file unless told otherwise, PostgreSQL by its URL; migrated when it is opened."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import as_file, files
from pathlib import Path
from threading import Lock
from typing import Any

from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, event
from sqlalchemy.exc import SQLAlchemyError
from sqlmodel import Session, SQLModel, create_engine

from tellapart.board.tables import State
from tellapart.errors import StoreError, first_line

__all__ = ["IN_MEMORY", "LATEST_SECONDS", "Store", "database_url"]

#: How long a version that was read may be told again.
LATEST_SECONDS = 0.25

#: The address of a database of this process alone.
IN_MEMORY = "sqlite://"

_CHANGED = "what is shown has changed"


def database_url(wanted: str | None, beside: Path) -> str:
    """Return the address of the database: as wanted, else a SQLite file in a folder.

    `postgresql://` is taken to mean the driver that `tellapart[board]` installs.

    >>> database_url(None, Path("/srv/runs")), database_url("postgresql://localhost/board", Path("runs"))
    ('sqlite:////srv/runs/board.sqlite', 'postgresql+psycopg://localhost/board')
    """
    if wanted is None:
        return f"sqlite:///{(beside / 'board.sqlite').absolute()}"
    return wanted.replace("postgresql://", "postgresql+psycopg://", 1)


class Store:
    """An open database with the newest tables.

    Args:
        url: SQLAlchemy's; `sqlite://` is a database in memory.

    Raises:
        StoreError: it cannot be opened or migrated.

    >>> with Store("sqlite://") as store, store.session() as session:
    ...     store.version(session)
    0
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._latest, self._asking = (0, -math.inf), Lock()  # the version, and when it was asked for
        try:
            self._engine = _engine(url)
            _migrate(self._engine)
        except (SQLAlchemyError, ImportError, ValueError) as error:  # ValueError: a port that is no number
            cause = first_line(getattr(error, "orig", None) or error)
            raise StoreError(f"the board's database cannot be opened: {cause}; look at --database") from error

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection.

        >>> Store("sqlite://").close()
        """
        self._engine.dispose()

    @contextmanager
    def session(self) -> Iterator[Session]:
        """Open a session; what was changed is kept only if it ends without an error.

        >>> with Store("sqlite://") as store, store.session() as session:
        ...     session.is_active
        True
        """
        with Session(self._engine) as session:
            yield session
            session.commit()
            if _CHANGED not in session.info:
                return
        with self._asking:  # whoever is asking now may be told the version before
            self._latest = (self._latest[0], -math.inf)

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Open a session that sees the records as they are at its first query, whatever is written meanwhile.

        >>> with Store("sqlite://") as store, store.reading() as session:
        ...     store.version(session)
        0
        """
        with Session(self._engine) as session:
            if self._engine.dialect.name == "postgresql":
                session.connection(execution_options={"isolation_level": "REPEATABLE READ"})
            elif self.url != IN_MEMORY:  # there, everybody shares one connection
                session.connection().exec_driver_sql("BEGIN")
            yield session

    def version(self, session: Session) -> int:
        """Return how often what is shown has changed.

        >>> with Store("sqlite://") as store, store.session() as session:
        ...     store.version(session)
        0
        """
        state = session.get(State, 1)
        return state.version if state else 0

    def latest(self) -> int:
        """Return the version, at most a quarter of a second old where another process changes it, without a query mostly.

        >>> with Store("sqlite://") as store:
        ...     store.latest()
        0
        """
        with self._asking:
            if (known := self.known()) is None:
                asked = time.monotonic()
                with Session(self._engine) as session:
                    known = self.version(session)
                self._latest = (known, asked)
        return known

    def known(self) -> int | None:
        """Return what `latest` would without a query; None where it would ask.

        >>> with Store("sqlite://") as store:
        ...     store.known(), store.latest(), store.known()
        (None, 0, 0)
        """
        version, asked = self._latest
        return version if time.monotonic() - asked <= LATEST_SECONDS else None

    def changed(self, session: Session) -> None:
        """Say that pages made before are old.

        >>> with Store("sqlite://") as store, store.session() as session:
        ...     store.changed(session)
        ...     store.version(session)
        1
        """
        state = session.get(State, 1) or State(version=0)
        state.version += 1
        session.add(state)
        session.flush()
        session.info[_CHANGED] = True


def _engine(url: str) -> Engine:
    if not url.startswith("sqlite"):
        return create_engine(url, pool_pre_ping=True)
    options: dict[str, Any] = {}
    if url == IN_MEMORY:
        from sqlalchemy.pool import StaticPool

        options["poolclass"] = StaticPool  # one connection, or every thread would see a database of its own
    engine = create_engine(url, connect_args={"check_same_thread": False, "timeout": 30}, **options)

    @event.listens_for(engine, "connect")
    def _prepare(connection: Any, _record: Any) -> None:
        # Readers go on while a run is read in.
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute(f"PRAGMA mmap_size={2 << 30}")  # a page of the board reads thousands of the database's

    return engine


def _migrate(engine: Engine) -> None:
    """Bring the tables to the newest revision; alembic's own version table knows which one they have."""
    with as_file(files("tellapart.board") / "migrations") as folder:
        config = Config()
        config.set_main_option("script_location", str(folder).replace("%", "%%"))
        config.set_main_option("path_separator", "os")
        script = ScriptDirectory.from_config(config)

        def upgrade(revision: Any, _context: Any) -> Any:
            return script._upgrade_revs("head", revision)

        with engine.begin() as connection, EnvironmentContext(config, script, fn=upgrade) as environment:
            environment.configure(connection=connection, target_metadata=SQLModel.metadata)
            with environment.begin_transaction():
                environment.run_migrations()
