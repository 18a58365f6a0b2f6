"""The same board on PostgreSQL: one started here from the system's own programs, thrown away afterwards."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import event

from facts import raises
from tellapart.board.app import create_app
from tellapart.board.records import read_in
from tellapart.board.settings import BoardSettings
from tellapart.board.store import Store, database_url
from tellapart.board.watch import Watch
from tellapart.errors import StoreError

psycopg = pytest.importorskip("psycopg", reason="PostgreSQL needs: pip install 'psycopg[binary]'")
PROGRAMS = next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)), None)
pytestmark = pytest.mark.skipif(PROGRAMS is None, reason="no PostgreSQL server on this machine")


def as_postgres(*command: str) -> None:
    """Run a program as another user where this one is root, which the server refuses."""
    user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    done = subprocess.run([*user, *command], capture_output=True, text=True, cwd="/", check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@dataclass(frozen=True)
class Server:
    """A PostgreSQL server of this test's, in a folder of its own."""

    folder: Path

    @property
    def url(self) -> str:
        return f"postgresql://board@/postgres?host={self.folder}"

    def control(self, *words: str) -> None:
        options = f"-k {self.folder} -c listen_addresses='' -c fsync=off"
        data, log = self.folder / "data", self.folder / "log"
        as_postgres(str(PROGRAMS / "pg_ctl"), "-w", "-D", str(data), "-l", str(log), "-o", options, *words)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    # A short path: a socket's may have a hundred letters.
    folder = Path(tempfile.mkdtemp(prefix="board-", dir="/tmp"))
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres", "postgres")
    as_postgres(str(PROGRAMS / "initdb"), "-A", "trust", "-U", "board", "-N", "-D", str(folder / "data"))
    running = Server(folder)
    running.control("start")
    yield running
    running.control("-m", "immediate", "stop")
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def url(server: Server) -> str:
    return server.url


def test_every_page_is_the_same_as_on_sqlite(url: str, settings: BoardSettings, client) -> None:
    with Store(database_url(url, Path())) as store:
        read_in(store, settings, pytest.fail)
        assert read_in(store, settings, pytest.fail) == 0
        there = TestClient(create_app(settings, store))
        for path in (
            "/",
            "/benchmarks/shapes",
            "/benchmarks/shapes/by/type/group_score",
            "/benchmarks/shapes/items/pages/2",
            "/benchmarks/shapes/items/7",
            "/models/poor",
            "/compare/good/poor",
            "/pareto/latency",
            "/ranks",
        ):
            found = there.get(path, params={"format": "json"})
            assert found.status_code == 200
            assert found.json() == client.get(path, params={"format": "json"}).json(), path


def test_tables_of_another_version_are_rebuilt_beside_those_of_others(url: str, settings: BoardSettings) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS notes AS SELECT 'theirs' AS name")
        with Store(database_url(url, Path())) as store:
            read_in(store, settings, pytest.fail)
        connection.execute("CREATE TABLE thumbnail (model_id INTEGER REFERENCES model (id))")
        connection.execute("""UPDATE board_schema SET version = 999, tables = tables::jsonb || '["thumbnail"]'""")
        with Store(database_url(url, Path())) as store:
            assert read_in(store, settings, pytest.fail) > 0
        assert connection.execute("SELECT name FROM notes").fetchall() == [("theirs",)]
        assert connection.execute("SELECT to_regclass('thumbnail')").fetchone() == (None,)


def test_a_table_of_the_same_name_is_an_error_and_stays_as_it_is(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE theirs")
    theirs = url.replace("/postgres?", "/theirs?")
    with psycopg.connect(theirs, autocommit=True) as connection:
        connection.execute("CREATE TABLE model AS SELECT 'theirs' AS name")
        with raises(StoreError, "model"):
            Store(database_url(theirs, Path()))
        assert connection.execute("SELECT name FROM model").fetchall() == [("theirs",)]


def test_a_server_that_is_not_there_is_an_error_that_says_so() -> None:
    with raises(StoreError, "127.0.0.1"):
        Store(database_url("postgresql://board@127.0.0.1:1/none?connect_timeout=2", Path()))


@dataclass
class Watched:
    """A board on PostgreSQL that watches a folder of runs."""

    store: Store
    watch: Watch
    client: TestClient
    said: list[str]
    url: str
    runs: Path

    def titles(self) -> set[str]:
        return {row["title"] for row in self.client.get("/?format=json").json()["rows"]}

    def shows(self, *names: str) -> bool:
        """Wait until the first page shows exactly these models."""
        end = time.monotonic() + 40
        while time.monotonic() < end:
            try:
                if self.titles() == set(names):
                    return True
            except Exception:  # the server is away
                time.sleep(0.1)
            time.sleep(0.05)
        return False

    def heard(self) -> bool:
        """Wait until the watch reports a failure."""
        end = time.monotonic() + 40
        while not self.said and time.monotonic() < end:
            time.sleep(0.02)
        return bool(self.said)


@contextmanager
def watched(server: Server, runs: Path) -> Iterator[Watched]:
    runs.mkdir()
    name = f"b{time.monotonic_ns()}"
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    url = server.url.replace("/postgres?", f"/{name}?")
    settings, said = BoardSettings(runs=(runs,)), []
    with Store(database_url(url, Path())) as store:

        @event.listens_for(store._engine, "connect")
        def _hurry(connection: object, _record: object) -> None:
            connection.execute("SET lock_timeout = '200ms'")  # half a minute else
            connection.commit()

        store._engine.dispose()
        app = create_app(settings, store)
        with Watch(store, settings, said.append, seconds=0.05) as watch:
            yield Watched(store, watch, TestClient(app, raise_server_exceptions=False), said, url, runs)


@pytest.mark.slow
def test_a_lock_is_waited_for_and_said(server: Server, write_run: Callable[..., Path], tmp_path: Path) -> None:
    with watched(server, tmp_path / "runs") as board:
        with psycopg.connect(board.url) as other:
            other.execute("LOCK TABLE source, model IN ACCESS EXCLUSIVE MODE")
            write_run(board.runs / "a", "a", skill=1.0)
            assert board.heard() and "lock timeout" in board.said[0], board.said
        assert board.shows("a"), board.said


@pytest.mark.slow
def test_the_store_asks_for_no_lock_for_ever(url: str) -> None:
    with Store(database_url(url, Path())) as store, store._engine.connect() as connection:
        assert connection.exec_driver_sql("SHOW lock_timeout").scalar() == "30s"


@pytest.mark.slow
def test_the_watch_survives_killed_connections_and_a_new_server(
    server: Server, write_run: Callable[..., Path], tmp_path: Path
) -> None:
    with watched(server, tmp_path / "runs") as board:
        over = threading.Event()

        def kill() -> None:
            with psycopg.connect(server.url, autocommit=True) as connection:
                while not over.wait(0.01):
                    connection.execute(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid != pg_backend_pid()"
                    )

        killer = threading.Thread(target=kill)
        killer.start()
        write_run(board.runs / "a", "a", skill=1.0)
        heard = board.heard()
        over.set()
        killer.join()
        assert heard and board.shows("a"), board.said
        server.control("-m", "immediate", "stop")
        board.said.clear()
        write_run(board.runs / "b", "b", skill=1.0, seed=2)
        try:
            assert board.heard()
            assert board.client.get("/").status_code == 500
        finally:
            server.control("start")
        assert board.shows("a", "b"), board.said


@pytest.mark.slow
def test_eight_readers_who_roll_back_disturb_nobody(
    server: Server, write_run: Callable[..., Path], tmp_path: Path
) -> None:
    with watched(server, tmp_path / "runs") as board:
        over, failed = threading.Event(), []

        def read() -> None:
            while not over.is_set():
                if board.client.get("/").status_code != 200:
                    failed.append("a page")
                with board.store.reading() as session:
                    board.store.version(session)
                    session.rollback()

        readers = [threading.Thread(target=read) for _ in range(8)]
        for reader in readers:
            reader.start()
        try:
            for name in "abc":
                write_run(board.runs / name, name, skill=1.0, seed=ord(name))
            shown = board.shows("a", "b", "c")
        finally:
            over.set()
            for reader in readers:
                reader.join()
        assert shown and not failed and not board.said, board.said


@pytest.mark.slow
def test_tables_that_somebody_emptied_are_read_in_again(
    server: Server, write_run: Callable[..., Path], tmp_path: Path
) -> None:
    with watched(server, tmp_path / "runs") as board:
        for name in "ab":
            write_run(board.runs / name, name, skill=1.0, seed=ord(name))
        assert board.shows("a", "b"), board.said
        with psycopg.connect(board.url, autocommit=True) as other:
            rows = other.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
            names = ", ".join(name for (name,) in rows if name != "board_schema")
            other.execute(f"TRUNCATE {names} CASCADE")
            assert other.execute("SELECT count(*) FROM model").fetchone() == (0,)
        assert board.shows("a", "b"), board.said
        end = time.monotonic() + 20
        with psycopg.connect(board.url, autocommit=True) as other:
            while other.execute("SELECT count(*) FROM model").fetchone() != (2,):
                assert time.monotonic() < end, board.said
                time.sleep(0.1)
