"""The migrations make exactly the tables that the classes declare, on SQLite and on PostgreSQL."""

from __future__ import annotations

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlmodel import SQLModel

from tellapart.board.store import Store
from tellapart.board.tables import Answer, Benchmark, Entry, Item, Model, Score, Source, State, Vector

OURS = {each.__tablename__ for each in (Answer, Benchmark, Entry, Item, Model, Score, Source, State, Vector)}


def differences(store: Store) -> list[object]:
    with store._engine.connect() as connection:
        options = {"compare_type": False, "include_name": lambda name, kind, _: kind != "table" or name in OURS}
        return list(compare_metadata(MigrationContext.configure(connection, opts=options), SQLModel.metadata))


def test_the_migrations_make_the_tables_of_the_classes() -> None:
    with Store("sqlite://") as store:
        assert differences(store) == []


def test_opening_a_database_again_migrates_nothing(tmp_path) -> None:
    url = f"sqlite:///{tmp_path / 'board.sqlite'}"
    Store(url).close()
    before = (tmp_path / "board.sqlite").read_bytes()
    Store(url).close()
    assert (tmp_path / "board.sqlite").read_bytes() == before


@pytest.mark.parametrize("name", sorted(OURS))
def test_every_table_is_there(name: str) -> None:
    with Store("sqlite://") as store, store._engine.connect() as connection:
        assert connection.exec_driver_sql(f"select count(*) from {name}").scalar() == 0
