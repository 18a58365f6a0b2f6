"""A file or folder is there complete or not at all; and several connections switch a database to its log at once."""

import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from pathlib import Path

import pytest

from facts import raises
from tellapart.data.atomic import atomic_file, atomic_folder, use_write_ahead_log
from tellapart.errors import DataError


@pytest.mark.parametrize("error", [None, ValueError, KeyboardInterrupt])
def test_a_file_takes_its_name_when_all_of_it_is_written_and_else_the_old_one_stays_alone(tmp_path, error):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(error) if error else nullcontext(), atomic_file(path) as draft:
        draft.write_text("new")
        assert path.read_text() == "old"
        if error:
            raise error
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("a.txt", "old" if error else "new")]


def test_two_who_write_one_file_at_once_do_not_meet_and_one_where_none_can_be_is_the_systems_error(tmp_path):
    with atomic_file(tmp_path / "a.txt") as one, atomic_file(tmp_path / "a.txt") as other:
        one.write_text("one")
        other.write_text("other")
    assert (tmp_path / "a.txt").read_text() == "one"  # the last to finish
    assert len(list(tmp_path.iterdir())) == 1
    for path in (tmp_path / "gone/a.txt", tmp_path / "a.txt/b.txt"):
        with pytest.raises(OSError, match=r"No such file or directory|Not a directory"), atomic_file(path) as draft:
            draft.write_text("x")


@pytest.mark.parametrize(("there", "mode"), [(False, 0o755), (True, 0o755), (False, 0o700)])
def test_a_folder_takes_its_name_and_mode_when_it_is_filled(tmp_path, there, mode):
    home = tmp_path / "deep/set"
    if there:
        home.mkdir(parents=True)
    with atomic_folder(home, mode) as draft:
        (draft / "a.txt").write_text("x")
        assert not list(home.glob("*"))
    assert home.stat().st_mode & 0o777 == mode
    assert [path.name for path in home.parent.rglob("*")] == ["set", "a.txt"]


def test_a_folder_that_holds_something_is_refused_and_one_that_failed_is_gone(tmp_path):
    (tmp_path / "set").mkdir()
    (tmp_path / "set/mine.txt").touch()
    (tmp_path / "file").touch()
    for taken in ("set", "file"):
        with raises(DataError, taken, "folder"), atomic_folder(tmp_path / taken):
            pytest.fail("it was given")
    with raises(DataError, "new", "the disk is full"), atomic_folder(tmp_path / "new") as draft:
        (draft / "a.txt").touch()
        raise OSError(28, "the disk is full")
    for name in "ab":
        (tmp_path / "set" / name).symlink_to("nowhere")
    facts = (str(tmp_path / "to"), "cannot be written", "No such file")
    with raises(DataError, *facts) as caught, atomic_folder(tmp_path / "to") as draft:
        shutil.copytree(tmp_path / "set", draft, dirs_exist_ok=True)
    assert "[(" not in str(caught.value)  # several reasons are one, and no list
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "set"]


def switch(path: Path) -> str:
    with closing(sqlite3.connect(path)) as connection:
        use_write_ahead_log(connection)
        return str(connection.execute("PRAGMA journal_mode").fetchone()[0])


def test_all_that_switch_a_new_database_at_once_succeed_and_one_that_stays_locked_is_an_error(tmp_path):
    path = tmp_path / "a.sqlite"
    with ThreadPoolExecutor(8) as pool:
        for number in range(20):
            new = tmp_path / f"{number}.sqlite"
            sqlite3.connect(new).execute("CREATE TABLE t (x)").connection.close()
            assert set(pool.map(switch, [new] * 8)) == {"wal"}
    with closing(sqlite3.connect(path)) as holder, closing(sqlite3.connect(path, timeout=0)) as other:
        holder.execute("CREATE TABLE t (x)")
        holder.execute("BEGIN EXCLUSIVE")
        with pytest.raises(sqlite3.OperationalError, match="database is locked"):
            use_write_ahead_log(other, patience=0.1)
