"""The journal of a build, and the selections of its recipe."""

import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tracemalloc
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from facts import check_facts, raises
from scripts import run_python
from tellapart import Item, catalog, read_pair_set, write_pair_set
from tellapart.auditing.audit import audit
from tellapart.builders.builder import Failed, Made, Rejected
from tellapart.builders.executor import Lost, ProcessExecutor
from tellapart.builders.journal import Journal
from tellapart.builders.pipeline import build
from tellapart.builders.selections import Distinct, PerCluster, Sample, Selection
from tellapart.errors import DataError, RunError

# The journal keeps each outcome whole or not at all, and says what is wrong with it.


def made(name: str, reference: str, data: bytes) -> Made:
    return Made(Item(id=name, images=(reference,), texts=("x", "y"), tags={"a": "é"}), {reference: data}, ("dark",))


def change(journal: Path, statement: str) -> None:
    with contextlib.closing(sqlite3.connect(journal)) as file, file:
        file.execute(statement)


def test_every_kind_of_outcome_comes_back(tmp_path):
    outcomes = {"a": made("a", "images/a.png", b"\0\xff"), "b": Rejected("step", "reason"), "c": Failed("OSError: x")}
    with Journal(tmp_path / "journal", "1") as journal:
        for name, outcome in outcomes.items():
            journal.record(name, outcome)
    with Journal(tmp_path / "journal", "1") as journal:
        first = journal.outcome("a")
        assert isinstance(first, Made)
        assert (first.item, first.redrawn) == (made("a", "images/a.png", b"").item, ("dark",))
        assert [journal.outcome(name) for name in "bc"] == [outcomes[name] for name in "bc"]
        assert journal.decided_ids() == {"a", "b"}
        assert dict(journal.images({"images/a.png"})) == {"images/a.png": b"\0\xff"}
        with raises(RunError, "'d'"):
            journal.outcome("d")
        with pytest.raises(KeyError, match="other"):
            journal.images({"images/a.png"})["other.png"]


def test_a_journal_that_cannot_be_written_or_is_of_another_recipe_is_one_line(tmp_path):
    (tmp_path / "file").touch()
    for place, facts in ((tmp_path / "file" / "journal", ("file/journal", "File")), (tmp_path, "directory")):
        with raises(RunError, "out=", facts):
            Journal(place, "1")
    with Journal(tmp_path / "journal", "1", {"seed": 0, "options": {"items": 3}}) as journal:
        journal.record("a", Rejected("swap", "one object only"))
    with raises(RunError, "options.items 3 -> 4", "out="):
        Journal(tmp_path / "journal", "2", {"seed": 0, "options": {"items": 4}})


def test_another_recipe_may_have_the_journal_only_as_long_as_nothing_is_decided(tmp_path):
    for fingerprint in ("1", "2"):
        with Journal(tmp_path / "journal", fingerprint) as journal:
            assert journal.decided_ids() == set()
            journal.record("a", Failed("OSError: x"))
    with Journal(tmp_path / "journal", "3") as journal:
        journal.record("a", Rejected("step", "reason"))
    with raises(RunError, "3", "4", "journal"):
        Journal(tmp_path / "journal", "4")


def test_items_may_share_an_image_but_not_a_name_for_two(tmp_path):
    with Journal(tmp_path / "journal", "1") as journal:
        journal.record("a", made("a", "images/x.png", b"one"))
        journal.record("b", made("b", "images/x.png", b"one"))
        with raises(DataError, "'c'", "'images/x.png'"):
            journal.record("c", made("c", "images/x.png", b"two"))


def test_a_full_disk_is_an_error_and_what_was_committed_stays(tmp_path):
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
def test_a_journal_that_the_disk_does_not_take_is_not_said_to_be_none_or_damaged(begun, tmp_path):
    path = tmp_path / "journal"
    if begun:
        with Journal(path, "1") as journal:
            journal.record("a", Rejected("step", "reason" * 2000))
        change(path, "UPDATE outcome SET told = 'changed' || told")
    check_facts(run_python("-c", FULL, path).stdout, str(path), "cannot be written", "kept", "room")


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


def test_a_process_that_is_killed_while_it_writes_leaves_whole_outcomes_alone(tmp_path):
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
def test_the_death_of_a_worker_is_the_answer_to_its_own_job():
    answers = dict(ProcessExecutor(2).perform(killing, range(5)))
    assert isinstance(answers.pop(2), Lost)
    assert answers == {job: bytes([job]) * 300_000 for job in (0, 1, 3, 4)}


def test_a_set_is_written_while_one_image_at_a_time_is_in_memory(tmp_path):
    size, items = 2_000_000, []
    with Journal(tmp_path / "journal", "1") as journal:
        for k in range(12):
            outcome = made(str(k), f"images/{k}.png", bytes([k]) * size)
            journal.record(str(k), outcome)
            items.append(outcome.item)
        tracemalloc.start()
        try:
            write_pair_set(tmp_path / "set", items, journal.images({item.images[0] for item in items}), {})
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 4 * size
    assert all((tmp_path / f"set/images/{k}.png").read_bytes() == bytes([k]) * size for k in range(12))


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
def test_a_damaged_outcome_or_image_is_dropped_and_can_be_recorded_again(tmp_path, statement, lost):
    path = tmp_path / "journal"
    fill(path)
    change(path, statement)
    with Journal(path, "1") as journal:
        assert journal.drop_damaged() == lost
        assert journal.decided_ids().isdisjoint(lost)
        assert journal.drop_damaged() == []
    fill(path)
    with Journal(path, "1") as journal:
        assert journal.drop_damaged() == []
        whole = {f"images/{k}.png": bytes([k]) * 3000 for k in range(2)}
        assert dict(journal.images({*whole})) == whole


def test_damage_that_comes_while_a_set_is_written_is_an_error_that_names_the_file(tmp_path):
    with Journal(tmp_path / "journal", "1") as journal:
        journal.record("a", made("a", "a.png", b"one"))
        journal._file.execute("UPDATE image SET data = x'00'")
        with raises(RunError, "'a.png'", "journal"):
            journal.images({"a.png"})["a.png"]
        journal._file.execute("UPDATE outcome SET told = '{}'")
        with raises(RunError, "'a'", "journal"):
            journal.outcome("a")


@pytest.mark.slow
def test_random_bytes_in_a_journal_are_found_or_harmless(tmp_path):
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
                items = [outcome.item for outcome in kept.values() if isinstance(outcome, Made)]
                images = {image for item in items for image in item.images}
                read = dict(journal.images(images))
        except RunError as error:
            assert str(path) in str(error) and "\n" not in str(error)
            seen["error"] += 1
        else:
            assert kept.items() <= right.items()
            assert read == {image: bytes([int(image[7])]) * 3000 for image in images}
            seen["dropped" if len(kept) < len(right) else "whole"] += 1
    assert seen["error"] > 0 < seen["dropped"], seen


# Selections see all items, leave some out, and are counted; the fingerprint covers the files that they read.

NAMED = '[[selections]]\nname = "named"\npath = "named.txt"\n'
CAPTIONS = """image,caption
a.png,a dog on a red bed
a.png,a cat on a blue chair
b.png,a dog on a red bed
b.png,a small bowl on a red table
"""


class Named(Selection):
    """Leave out the ids that a file beside the recipe names."""

    path: str

    def inputs(self, home: Path) -> dict[str, str]:
        return {self.path: (home / self.path).read_text()}

    def left_out(self, items: Sequence[Item], *, seed: int, home: Path) -> Mapping[str, str]:
        return dict.fromkeys((home / self.path).read_text().split(), f"named, of {len(items)}")


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    """Write a recipe of swapped captions of two pictures, whose selections may be `Named`, too."""
    monkeypatch.setitem(catalog._ADDED["selection"], "named", Named)
    for shade, name in enumerate(("a.png", "b.png")):
        Image.new("RGB", (24, 24), (200 * shade, 90, 40)).save(tmp_path / name)
    (tmp_path / "captions.csv").write_text(CAPTIONS)
    (tmp_path / "named.txt").write_text("")

    def write(*chosen):
        path = tmp_path / "recipe.toml"
        path.write_text(
            'name = "few"\nbuilder = "negatives"\n[options]\ncaptions = "captions.csv"\nimages = "."\n'
            f'kinds = ["swap_obj"]\nother_captions = false\n{"".join(chosen)}'
        )
        return path

    return write


def test_selections_work_in_order_and_are_counted_by_name(recipe, tmp_path):
    whole = read_pair_set(build(recipe(), tmp_path / "whole").folder)
    assert len(whole) == 4
    (tmp_path / "named.txt").write_text(whole.items[0].id)
    cluster = '[[selections]]\nname = "per_cluster"\nmaximum = 1\n'
    built = build(recipe(NAMED, cluster), tmp_path / "one", workers=2)
    # The first item is gone before the first of its cluster is looked for.
    assert [item.id for item in read_pair_set(built.folder).items] == [whole.items[1].id, whole.items[2].id]
    assert built.funnel.rows()[1:] == [
        ("rejected by named", "named, of 4", 1),
        ("rejected by per_cluster", "more than 1 of one cluster", 1),
        ("items", "", 2),
    ]
    card = json.loads((built.folder / "card.json").read_text())
    assert card["inputs"]["selections[0]: named.txt"] == whole.items[0].id
    assert card["recipe"]["selections"][1] == {"name": "per_cluster", "maximum": 1}
    assert len(list((built.folder / "images").iterdir())) == 2  # no picture of what was left out
    other = read_pair_set(build(recipe(cluster, NAMED), tmp_path / "two").folder)
    assert [item.id for item in other.items] == [whole.items[2].id]
    assert audit(other).items == 1


def test_what_a_selection_reads_is_part_of_the_fingerprint(recipe, tmp_path):
    path = recipe(NAMED)
    build(path, tmp_path / "set")
    (tmp_path / "named.txt").write_text("other")
    with raises(DataError, "pair set", "another"):
        build(path, tmp_path / "set")
    with raises(DataError, "selection", "'named'", "'other'"):
        build(path, tmp_path / "new")
    (tmp_path / "named.txt").write_text("")
    with raises(RunError, ".new.journal", "recipe"):
        build(path, tmp_path / "new")


def test_nothing_is_written_when_nothing_is_left(recipe, tmp_path):
    whole = read_pair_set(build(recipe(), tmp_path / "whole").folder)
    (tmp_path / "named.txt").write_text(" ".join(item.id for item in whole.items))
    with raises(DataError, "4", "4", "4"):
        build(recipe(NAMED), tmp_path / "set")
    assert not (tmp_path / "set").exists()


def items_of(drawn: Sequence[str]) -> list[Item]:
    """Make items of letters: the true text and the cluster."""
    return [Item(id=str(k), images=(f"{k}.png",), texts=(t, "no"), cluster=c) for k, (t, c) in enumerate(drawn)]


ITEMS = st.lists(st.sampled_from([t + c for t in "xyz" for c in "pq"]), max_size=12).map(items_of)


@given(ITEMS, st.integers(1, 4))
def test_after_per_cluster_no_cluster_has_more_and_none_has_less_than_it_could(items, maximum):
    left_out = PerCluster(maximum=maximum).left_out(items, seed=0, home=Path())
    before = Counter(item.cluster for item in items)
    after = Counter(item.cluster for item in items if item.id not in left_out)
    assert after == Counter({cluster: min(count, maximum) for cluster, count in before.items()})


@given(ITEMS)
def test_after_distinct_every_pair_of_captions_stands_once(items):
    left_out = Distinct().left_out(items, seed=0, home=Path())
    left = [item.texts for item in items if item.id not in left_out]
    assert len(left) == len(set(left))
    assert set(left) == {item.texts for item in items}
    assert Distinct(images=True).left_out(items, seed=0, home=Path()) == {}


def test_a_sample_has_so_many_items_balanced_over_a_tag_whatever_their_order(caplog):
    ids = [f"{kind}{k}" for kind, count in (("a", 40), ("b", 9), ("c", 2)) for k in range(count)]
    items = [Item(id=name, images=("a.png",), texts=("x", "y"), tags={"kind": name[0]}) for name in ids]
    sample = Sample(number=12, balance="kind")
    left_out = sample.left_out(items, seed=3, home=Path())
    assert Counter(item.tags["kind"] for item in items if item.id not in left_out) == {"a": 5, "b": 5, "c": 2}
    check_facts(caplog.text, "kind", "c (2)")
    assert sample.left_out(items[::-1], seed=3, home=Path()) == left_out
    assert sample.left_out(items, seed=4, home=Path()) != left_out
    assert len(Sample(number=7).left_out(items, seed=3, home=Path())) == 51 - 7
    caplog.clear()
    assert Sample(number=60).left_out(items, seed=3, home=Path()) == {}
    check_facts(caplog.text, "60", "51")
    with raises(DataError, "'a0'", "'type'", "'kind'"):
        Sample(number=2, balance="type").left_out(items, seed=3, home=Path())


def test_a_selection_that_takes_away_a_tags_value_is_named_with_the_values(recipe, tmp_path, caplog):
    path = recipe(NAMED)
    path.write_text(path.read_text().replace('"swap_obj"', '"swap_obj", "replace_obj"'))
    whole = read_pair_set(build(path, tmp_path / "whole").folder)
    tag = next(tag for tag in whole.items[0].tags if 1 < len({item.tags[tag] for item in whole.items}) < len(whole))
    value = whole.items[0].tags[tag]
    gone = [item.id for item in whole.items if item.tags[tag] == value]
    (tmp_path / "named.txt").write_text("\n".join(gone))
    assert "leaves no item" not in caplog.text
    build(path, tmp_path / "less")
    check_facts(caplog.text, "selections[0] (named)", tag, value)
