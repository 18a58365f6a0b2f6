"""The journal keeps each outcome whole or not at all, and says what is wrong with it."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tracemalloc
from collections import Counter
from pathlib import Path

import pytest

from facts import check_facts, raises
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
        with raises(RunError, "'d'"):
            journal.outcome("d")
        with pytest.raises(KeyError, match="other"):
            journal.images({"images/a.png"})["other.png"]


def test_a_journal_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with raises(RunError, "file/journal", "File", "out="):
        Journal(tmp_path / "file" / "journal", "1")
    with raises(RunError, "out=", "directory"):
        Journal(tmp_path, "1")


def test_another_recipe_may_have_the_journal_only_as_long_as_nothing_is_decided(tmp_path: Path) -> None:
    for fingerprint in ("1", "2"):
        with Journal(tmp_path / "journal", fingerprint) as journal:
            assert journal.decided_ids() == set()
            journal.record("a", Failed("OSError: x"))
    with Journal(tmp_path / "journal", "3") as journal:
        journal.record("a", Rejected("step", "reason"))
    with raises(RunError, "3", "4", "journal"):
        Journal(tmp_path / "journal", "4")


def test_items_may_share_an_image_but_not_a_name_for_two(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal", "1") as journal:
        journal.record("a", made("a", "images/x.png", b"one"))
        journal.record("b", made("b", "images/x.png", b"one"))
        with raises(DataError, "'c'", "'images/x.png'"):
            journal.record("c", made("c", "images/x.png", b"two"))


def test_a_full_disk_is_an_error_and_what_was_committed_stays(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal", "1") as journal:
        journal.record("a", Rejected("step", "reason"))
        journal.commit()
        journal._file.execute("PRAGMA max_page_count = 1")
        with raises(RunError, "full", "kept"):
            journal.record("b", made("b", "b.png", b"0" * 100_000))
    with Journal(tmp_path / "journal", "1") as journal:
        assert journal.decided_ids() == {"a"}


FULL = """
import resource, sys
from pathlib import Path
from tellapart.builders.journal import Journal
from tellapart.errors import RunError
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    Journal(Path(sys.argv[1]), "1").drop_damaged()
except RunError as error:
    print(error)
"""


@pytest.mark.parametrize("begun", [False, True])
def test_a_journal_that_the_disk_does_not_take_is_not_said_to_be_none_or_damaged(begun: bool, tmp_path: Path) -> None:
    path = tmp_path / "journal"
    if begun:
        with Journal(path, "1") as journal:
            journal.record("a", Rejected("step", "reason" * 2000))
        with contextlib.closing(sqlite3.connect(path)) as file:
            file.execute("UPDATE outcome SET told = 'changed' || told")
            file.commit()
    done = subprocess.run([sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, check=True)
    check_facts(done.stdout, str(path), "cannot be written", "kept", "room")


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


@pytest.mark.slow
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


def fill(path: Path) -> None:
    with Journal(path, "1") as journal:
        for k in range(4):
            journal.record(f"made-{k}", made(f"made-{k}", f"images/{k // 2}.png", bytes([k // 2]) * 3000))
        journal.record("no", Rejected("step", "reason"))


@pytest.mark.parametrize(
    ("statement", "lost"),
    [
        ("UPDATE image SET data = x'00' WHERE reference = 'images/0.png'", ["made-0", "made-1"]),
        ("UPDATE image SET sha256 = 'x' WHERE reference = 'images/0.png'", ["made-0", "made-1"]),
        ("DELETE FROM image WHERE reference = 'images/1.png'", ["made-2", "made-3"]),
        ("UPDATE outcome SET told = replace(told, '\"x\"', '\"y\"') WHERE id = 'made-2'", ["made-2"]),
        ("UPDATE outcome SET told = 'no JSON' WHERE id = 'made-2'", ["made-2"]),
        ("UPDATE outcome SET kind = 'failed' WHERE id = 'no'", ["no"]),
        ("UPDATE outcome SET told = x'00' WHERE id = 'no'", ["no"]),
    ],
)
def test_a_damaged_outcome_or_image_is_dropped_and_can_be_recorded_again(
    tmp_path: Path, statement: str, lost: list[str]
) -> None:
    path = tmp_path / "journal"
    fill(path)
    with contextlib.closing(sqlite3.connect(path)) as file:
        file.execute(statement)
        file.commit()
    with Journal(path, "1") as journal:
        assert journal.drop_damaged() == lost
        assert journal.decided_ids().isdisjoint(lost)
        assert journal.drop_damaged() == []
    fill(path)
    with Journal(path, "1") as journal:
        assert journal.drop_damaged() == []
        assert dict(journal.images({"images/0.png", "images/1.png"})) == {
            f"images/{k}.png": bytes([k]) * 3000 for k in range(2)
        }


def test_damage_that_comes_while_a_set_is_written_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal", "1") as journal:
        journal.record("a", made("a", "a.png", b"one"))
        journal._file.execute("UPDATE image SET data = x'00'")
        with raises(RunError, "'a.png'", "journal"):
            journal.images({"a.png"})["a.png"]
        journal._file.execute("UPDATE outcome SET told = '{}'")
        with raises(RunError, "'a'", "journal"):
            journal.outcome("a")


@pytest.mark.slow
def test_random_bytes_in_a_journal_are_found_or_harmless(tmp_path: Path) -> None:
    path, seen = tmp_path / "journal", Counter[str]()
    fill(path)
    whole = path.read_bytes()
    with Journal(path, "1") as journal:
        right = {name: journal.outcome(name) for name in journal.decided_ids()}
    for seed in range(30):
        draw, data = random.Random(seed), bytearray(whole)
        for _ in range(40):
            data[draw.randrange(len(data))] = draw.randrange(256)
        path.write_bytes(data)
        try:
            with Journal(path, "1") as journal:
                journal.drop_damaged()
                kept = {name: journal.outcome(name) for name in journal.decided_ids()}
                images = {
                    image for outcome in kept.values() if isinstance(outcome, Made) for image in outcome.item.images
                }
                read = dict(journal.images(images))
        except RunError as error:
            assert str(path) in str(error)
            assert "\n" not in str(error)
            seen["error"] += 1
        else:
            assert kept.items() <= right.items()
            assert read == {image: bytes([int(image[7])]) * 3000 for image in images}
            seen["dropped" if len(kept) < len(right) else "whole"] += 1
    assert seen["error"] > 0 < seen["dropped"], seen


def test_a_journal_of_another_recipe_is_refused_by_the_keys_that_differ(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal", "1", {"seed": 0, "options": {"items": 3}}) as journal:
        journal.record("a", Rejected("swap", "one object only"))
    with raises(RunError, "options.items 3 -> 4", "out="):
        Journal(tmp_path / "journal", "2", {"seed": 0, "options": {"items": 4}})
