"""The same board on PostgreSQL: one started here from the system's own programs, thrown away afterwards."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from tellapart.board.app import create_app
from tellapart.board.records import read_in
from tellapart.board.settings import BoardSettings
from tellapart.board.store import Store, database_url
from tellapart.errors import StoreError

psycopg = pytest.importorskip("psycopg", reason="PostgreSQL needs: pip install 'psycopg[binary]'")
PROGRAMS = next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)), None)
pytestmark = pytest.mark.skipif(PROGRAMS is None, reason="no PostgreSQL server on this machine")


def as_postgres(*command: str) -> None:
    """Run a program as another user where this one is root, which the server refuses."""
    user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    done = subprocess.run([*user, *command], capture_output=True, text=True, cwd="/", check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    # A short path: a socket's may have a hundred letters.
    folder = Path(tempfile.mkdtemp(prefix="board-", dir="/tmp"))
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres", "postgres")
    data = str(folder / "data")
    as_postgres(str(PROGRAMS / "initdb"), "-A", "trust", "-U", "board", "-N", "-D", data)
    options = f"-k {folder} -c listen_addresses='' -c fsync=off"
    as_postgres(str(PROGRAMS / "pg_ctl"), "-w", "-D", data, "-l", str(folder / "log"), "-o", options, "start")
    yield f"postgresql://board@/postgres?host={folder}"
    as_postgres(str(PROGRAMS / "pg_ctl"), "-m", "immediate", "-D", data, "stop")
    shutil.rmtree(folder, ignore_errors=True)


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
        with pytest.raises(StoreError, match=r"not the board's \(model\)"):
            Store(database_url(theirs, Path()))
        assert connection.execute("SELECT name FROM model").fetchall() == [("theirs",)]


def test_a_server_that_is_not_there_is_an_error_that_says_so() -> None:
    with pytest.raises(StoreError, match="cannot be opened"):
        Store(database_url("postgresql://board@127.0.0.1:1/none?connect_timeout=2", Path()))
