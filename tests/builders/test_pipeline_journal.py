"""The journal keeps each outcome whole or not at all, and says what is wrong with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from tellapart.builders.builder import Failed, Made, Rejected
from tellapart.builders.executor import Lost, ProcessExecutor
from tellapart.builders.journal import Journal
from tellapart.data.folder import write_pair_set
from tellapart.data.item import Item
from tellapart.errors import DataError, RunError


def made(name: str, reference: str, data: bytes) -> Made:
    return Made(Item(id=name, images=(reference,), texts=("x", "y"), tags={"a": "é"}), {reference: data}, ("dark",))


def test_every_kind_of_outcome_comes_back(tmp_path: Path) -> None:
    outcomes = {"a": made("a", "images/a.png", b"\0\xff"), "b": Rejected("step", "reason"), "c": Failed("OSError: x")}
    with Journal(tmp_path / "journal", "1") as journal:
        for name, outcome in outcomes.items():
            journal.record(name, outcome)
    with Journal(tmp_path / "journal", "1") as journal:
        first = journal.outcome("a")
        assert isinstance(first, Made)
        assert (first.item, first.redrawn) == (made("a", "images/a.png", b"").item, ("dark",))
        assert journal.outcome("b") == outcomes["b"]
        assert journal.outcome("c") == outcomes["c"]
        assert journal.decided_ids() == {"a", "b"}
        assert dict(journal.images({"images/a.png"})) == {"images/a.png": b"\0\xff"}
        with pytest.raises(KeyError, match="'d'"):
            journal.outcome("d")
        with pytest.raises(KeyError, match="other"):
            journal.images({"images/a.png"})["other.png"]


def test_another_recipe_may_have_the_journal_only_as_long_as_nothing_is_decided(tmp_path: Path) -> None:
    for fingerprint in ("1", "2"):
        with Journal(tmp_path / "journal", fingerprint) as journal:
            assert journal.decided_ids() == set()
            journal.record("a", Failed("OSError: x"))
    with Journal(tmp_path / "journal", "3") as journal:
        journal.record("a", Rejected("step", "reason"))
    with pytest.raises(
        RunError, match=r"journal was begun with another recipe, other inputs or another version \(3, now 4\)"
    ):
        Journal(tmp_path / "journal", "4")


def test_items_may_share_an_image_but_not_a_name_for_two(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal", "1") as journal:
        journal.record("a", made("a", "images/x.png", b"one"))
        journal.record("b", made("b", "images/x.png", b"one"))
        with pytest.raises(DataError, match=r"item 'c': another item has another image under 'images/x\.png'"):
            journal.record("c", made("c", "images/x.png", b"two"))


def test_a_full_disk_is_an_error_and_what_was_committed_stays(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal", "1") as journal:
        journal.record("a", Rejected("step", "reason"))
        journal.commit()
        journal._file.execute("PRAGMA max_page_count = 1")
        with pytest.raises(
            RunError, match=r"cannot be written .*full.*; its content is kept: make room, and run it again to go on"
        ):
            journal.record("b", made("b", "b.png", b"0" * 100_000))
    with Journal(tmp_path / "journal", "1") as journal:
        assert journal.decided_ids() == {"a"}


DIES = """
import os, signal, sys
from pathlib import Path
from tellapart.builders.builder import Made, Rejected
from tellapart.builders.journal import Journal
from tellapart.data.folder import write_pair_set
from tellapart.data.item import Item
journal = Journal(Path(sys.argv[1]), "1")
journal.record("kept", Rejected("step", "reason"))
journal.commit()
item = Item(id="lost", images=("a.png",), texts=("x", "y"))
# More than SQLite's cache holds, so that pages of the transaction are on the disk when the process dies.
journal.record("lost", Made(item, {"a.png": b"0" * 20_000_000}))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_process_that_is_killed_while_it_writes_leaves_whole_outcomes_alone(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    done = subprocess.run([sys.executable, "-c", DIES, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL
    with Journal(path, "1") as journal:
        assert journal.decided_ids() in ({"kept"}, {"kept", "lost"})  # the second if its half second was over
        whole = {"a.png"} if "lost" in journal.decided_ids() else set()
        assert journal.images(whole) == dict.fromkeys(whole, b"0" * 20_000_000)
        (count,) = journal._file.execute("SELECT COUNT(*) FROM image").fetchone()
        assert count == len(whole)


def killing(job: int) -> bytes:
    if job == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return bytes([job]) * 300_000  # more than a pipe holds


def test_the_death_of_a_worker_is_the_answer_to_its_own_job() -> None:
    answers = dict(ProcessExecutor(2).perform(killing, range(5)))
    assert isinstance(answers.pop(2), Lost)
    assert answers == {job: bytes([job]) * 300_000 for job in (0, 1, 3, 4)}


def test_a_set_is_written_while_one_image_at_a_time_is_in_memory(tmp_path: Path) -> None:
    size, count = 2_000_000, 12
    references = [f"images/{k}.png" for k in range(count)]
    items = [Item(id=str(k), images=(name,), texts=("x", "y")) for k, name in enumerate(references)]
    with Journal(tmp_path / "journal", "1") as journal:
        for k, item in enumerate(items):
            journal.record(item.id, Made(item, {references[k]: bytes([k]) * size}))
        tracemalloc.start()
        try:
            write_pair_set(tmp_path / "set", items, journal.images(set(references)), {})
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 4 * size
    assert [(tmp_path / "set" / name).read_bytes() == bytes([k]) * size for k, name in enumerate(references)] == [
        True
    ] * count
