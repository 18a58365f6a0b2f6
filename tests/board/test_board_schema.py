"""The board's database is rebuilt when its tables are of another version, and tables of others are never touched."""

from __future__ import annotations

import hashlib
import sqlite3
from pathlib import Path

import pytest
from sqlmodel import select

from facts import raises
from tellapart.board.records import read_in
from tellapart.board.settings import BoardSettings
from tellapart.board.store import SCHEMA, BoardTable, Model, Store
from tellapart.errors import StoreError

pytestmark = pytest.mark.slow

#: Version -> the SHA-256 of its tables; a change of a table needs a new version.
DIGESTS = {6: "8824b9316da0948b01de7a40d0323892fe2a86ab8fd8e5ef89c097bfec747279"}

CHANGES = {
    "an older version": "UPDATE board_schema SET version = 1",
    "a newer version with one more table": (
        "UPDATE board_schema SET version = 999, tables = json_insert(tables, '$[#]', 'thumbnail');"
        "CREATE TABLE thumbnail (model_id INTEGER REFERENCES model (id));"
        "INSERT INTO thumbnail SELECT id FROM model"
    ),
    "no version": "DELETE FROM board_schema",
    "a table of other columns": "UPDATE board_schema SET version = 1; DROP TABLE vector; CREATE TABLE vector (a)",
}

STRANGERS = {
    "a table of the same name": "CREATE TABLE model (name TEXT); INSERT INTO model VALUES ('theirs')",
    "other tables": "CREATE TABLE notes (name TEXT); INSERT INTO notes VALUES ('theirs'); PRAGMA user_version = 2",
    "another program's Alembic": "CREATE TABLE alembic_version (version_num TEXT);"
    "INSERT INTO alembic_version VALUES ('1975ea83b712'); CREATE TABLE item (name TEXT)",
    "a table like the board's own record of its version": "CREATE TABLE board_schema (name TEXT)",
}


def dump(path: Path) -> list[str]:
    with sqlite3.connect(path) as connection:
        content = list(connection.iterdump())
    connection.close()
    return content


def change(path: Path, script: str) -> None:
    with sqlite3.connect(path) as connection:
        connection.executescript(script)
    connection.close()


def test_another_set_of_tables_has_another_version() -> None:
    lines = []
    for table in BoardTable.metadata.tables.values():
        for column in table.columns:
            targets = sorted(key.target_fullname for key in column.foreign_keys)
            lines.append(f"{column} {column.type} {column.nullable} {column.primary_key} {column.unique} {targets}")
        lines += [f"{index.name} {[str(column) for column in index.columns]} {index.unique}" for index in table.indexes]
    text = "\n".join(sorted(lines))
    assert {SCHEMA: hashlib.sha256(text.encode()).hexdigest()} == DIGESTS


@pytest.mark.parametrize("name", list(CHANGES))
def test_tables_of_another_version_are_rebuilt_and_the_records_read_again(name: str, write_run, tmp_path: Path) -> None:
    write_run(tmp_path / "a", "mine", skill=1.0)
    path, settings = tmp_path / "board.sqlite", BoardSettings(runs=(tmp_path,))
    with Store(f"sqlite:///{path}") as store:
        assert read_in(store, settings, pytest.fail) == 1
    before = dump(path)
    change(path, CHANGES[name])
    with Store(f"sqlite:///{path}") as store:
        assert read_in(store, settings, pytest.fail) == 1
        with store.session() as session:
            assert session.exec(select(Model.label)).all() == ["mine"]
    assert sorted(dump(path)) == sorted(before)


def test_opening_a_database_again_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "board.sqlite"
    Store(f"sqlite:///{path}").close()
    before = path.read_bytes()
    Store(f"sqlite:///{path}").close()
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", list(STRANGERS))
def test_a_database_of_another_program_is_an_error_and_stays_as_it_is(name: str, tmp_path: Path) -> None:
    path = tmp_path / "theirs.sqlite"
    change(path, STRANGERS[name])
    before = dump(path)
    with raises(StoreError, "database=", "opened"):
        Store(f"sqlite:///{path}")
    assert dump(path) == before


def test_a_file_that_is_not_a_database_is_an_error_and_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database\n" * 1000)
    with raises(StoreError, "database=", "database"):
        Store(f"sqlite:///{path}")
    assert path.read_text() == "not a database\n" * 1000
