"""Connections that switch one new database to its write-ahead log at once succeed; one that cannot raises."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tellapart.data.lock import use_write_ahead_log


def switch(path: Path) -> str:
    connection = sqlite3.connect(path)
    try:
        use_write_ahead_log(connection)
        return str(connection.execute("PRAGMA journal_mode").fetchone()[0])
    finally:
        connection.close()


def test_all_that_switch_a_new_database_at_once_succeed(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        for number in range(20):
            path = tmp_path / f"{number}.sqlite"
            sqlite3.connect(path).execute("CREATE TABLE t (x)").connection.close()
            assert set(pool.map(switch, [path] * 8)) == {"wal"}


def test_a_database_that_stays_locked_is_an_error(tmp_path):
    path = tmp_path / "a.sqlite"
    holder, other = sqlite3.connect(path), sqlite3.connect(path, timeout=0)
    holder.execute("CREATE TABLE t (x)")
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(sqlite3.OperationalError, match="database is locked"):
        use_write_ahead_log(other, patience=0.1)
    holder.close()
    other.close()
