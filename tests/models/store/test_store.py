import contextlib
import gc
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import threading
import weakref
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from facts import check_facts, raises
from scripts import run_python
from stored import count_rows
from tellapart.data.images import pixel_hash
from tellapart.data.pairset import PairSet
from tellapart.data.strict_json import collector_paused
from tellapart.errors import DataError, StoreError, TellapartWarning
from tellapart.models.scoring.score import score
from tellapart.models.store.cache import default_store_path
from tellapart.models.store.content_hash import ImageReader, image_hashes, text_hash
from tellapart.models.store.embedding_store import EmbeddingStore, PreparedPictures, Shard, kept_preparations
from tellapart.models.store.row_file import RowFile

A, B, C = "aa" * 32, "bb" * 32, "cc" * 32


@pytest.fixture
def path(tmp_path):
    return tmp_path / "cache" / "store.sqlite"


def fill(path: Path, rows: int = 0) -> None:
    """Write a row of each kind, and so many vectors of a kilobyte."""
    with EmbeddingStore(path) as store:
        store.put_numbers("m", {A: np.ones(2, np.float32)})
        store.put_numbers("m", {A + B: np.float32(1)})
        store.put_pixel_hash(A, B)
        store.put_model("k", {"name": "m"})
        store.put_numbers("m", {f"{k:064x}": np.full(256, k, np.float32) for k in range(rows)})


def change(path: Path, *statements: str) -> None:
    with contextlib.closing(sqlite3.connect(path)) as file:
        for statement in statements:
            file.execute(statement)
        file.commit()


def read(store: EmbeddingStore) -> list[Any]:
    """All that `fill` wrote of each kind, as far as it is there."""
    return [
        {key: vector.tolist() for key, vector in store.numbers("m", [A]).items()},
        store.numbers("m", [A + B]),
        store.pixel_hash(A),
        store.model_of("k"),
    ]


WHOLE = [{A: [1.0, 1.0]}, {A + B: np.float32(1)}, B, {"name": "m"}]


def test_the_first_number_under_a_key_stays_for_its_model_when_the_file_was_closed(path):
    with EmbeddingStore(path) as store:
        for value in (1, 2):
            store.put_numbers("m", {A: np.full(3, value, np.float32)})
            store.put_numbers("m", {A + B: np.float32(value), B + A: np.float32(-0.0)})
            store.put_pixel_hash(A, B if value == 1 else C)
        store.put_numbers("n", {A: np.zeros(2, np.float32)})
    with EmbeddingStore(path) as store:
        assert store.numbers("m", [A, B])[A].tolist() == [1, 1, 1]
        assert store.numbers("n", [A])[A].tolist() == [0, 0]
        assert (*store.numbers("m", [B, A]), *store.numbers("o", [B, A])) == (A,)
        assert store.numbers("m", [A + B, B + A, B + B]) == {A + B: 1, B + A: 0}
        assert [store.pixel_hash(A), store.pixel_hash(B)] == [B, ""]
        assert count_rows(store) == Counter(vectors=2, scores=2, pictures=1)


@given(arrays(np.float32, st.integers(0, 40), elements=st.floats(width=32, allow_nan=False, allow_infinity=False)))
def test_a_vector_comes_back_bit_for_bit(vector):
    with EmbeddingStore(None) as store:
        store.put_numbers("m", {A: vector})
        assert store.numbers("m", [A])[A].tobytes() == vector.tobytes()


WRITER = """
import sys, numpy as np
from tellapart.models.store.embedding_store import EmbeddingStore
path, offset = sys.argv[1], int(sys.argv[2])
sys.stdin.readline()
with EmbeddingStore(path) as store:
    for batch in range(60):
        keys = [f"{(batch * 10 + k + offset):064x}" for k in range(20)]
        store.put_numbers("m", {key: np.full(16, int(key, 16), np.float32) for key in keys})
        store.put_numbers(f"m{offset}", {key + key: np.float32(int(key, 16)) for key in keys})
"""


@pytest.mark.slow
def test_four_processes_make_and_fill_one_file_at_once(path):
    pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    commands = [[sys.executable, "-c", WRITER, str(path), str(offset)] for offset in (0, 5, 300, 305)]
    writers = [subprocess.Popen(command, **pipes) for command in commands]
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    errors = [writer.communicate(timeout=60)[1] for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0, 0, 0], errors
    with EmbeddingStore(path) as store:
        keys = [f"{k:064x}" for k in range(305 + 610)]
        vectors = store.numbers("m", keys)
        assert len(vectors) == len(keys)
        assert all((vector == int(key, 16)).all() for key, vector in vectors.items())
        assert count_rows(store) == Counter(vectors=len(keys), scores=4 * 610)


def test_a_batch_that_fails_leaves_nothing_and_the_next_one_works(path):
    with EmbeddingStore(path) as store:
        with pytest.raises(ValueError, match="hexadecimal"):
            store.put_numbers("m", {A: np.ones(2, np.float32), "no hash": np.ones(2, np.float32)})
        assert count_rows(store).total() == 0
        # The number that "m" was given is void; another process may give it to another model.
        with EmbeddingStore(path) as other:
            other.put_numbers("n", {A: np.zeros(2, np.float32)})
        store.put_numbers("m", {A: np.ones(2, np.float32)})
        assert store.numbers("n", [A])[A].tolist() == [0, 0]
        assert store.numbers("m", [A])[A].tolist() == [1, 1]


def expect_new_file(path: Path, caplog: pytest.LogCaptureFixture) -> Path:
    """The store holds nothing and works; the log names it once, with the name that the other file has now."""
    aside = Path(f"{path}.damaged-1")
    with EmbeddingStore(path) as store:
        assert store.numbers("m", [A]) == {}
        store.put_numbers("m", {A: np.ones(2, np.float32)})
        assert store.numbers("m", [A])[A].tolist() == [1, 1]
    assert len(caplog.messages) == 1
    check_facts(caplog.text, str(path), str(aside))
    assert not list(path.parent.glob("*.lock"))
    return aside


def truncate(path: Path, share: float) -> None:
    fill(path, 200)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])


def give_schema(path: Path, schema: int) -> None:
    EmbeddingStore(path).close()
    change(path, f"PRAGMA user_version = {schema}")


@pytest.mark.parametrize(
    ("spoil", "value", "said"),
    [
        (Path.write_bytes, b"the only copy of a thesis", ()),
        *((truncate, share, ()) for share in (0.02, 0.5, 0.98)),
        *((give_schema, schema, (f"schema {schema}", "reads 3")) for schema in (0, 2)),
    ],
)
def test_a_file_that_cannot_be_used_is_kept_under_another_name(path, spoil, value, said, caplog):
    path.parent.mkdir()
    spoil(path, value)
    before = path.read_bytes()
    aside = expect_new_file(path, caplog)
    check_facts(caplog.text, said)
    start = 4096 if len(before) > 4096 else 0  # SQLite writes into the first page of a database
    assert aside.read_bytes()[start:] == before[start:]
    path.write_bytes(before)
    EmbeddingStore(path).close()
    assert Path(f"{path}.damaged-2").exists()


def test_another_programs_database_is_kept_with_its_log(path, caplog):
    path.parent.mkdir()
    with contextlib.closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA journal_mode = WAL")
        other.execute("CREATE TABLE thesis (chapter TEXT)")
        other.commit()
        assert path.with_name("store.sqlite-wal").exists()
        aside = expect_new_file(path, caplog)
    with contextlib.closing(sqlite3.connect(aside)) as other:
        assert other.execute("SELECT count(*) FROM thesis").fetchone() == (0,)


def test_of_two_that_find_a_damaged_file_one_renames_it(path, caplog):
    fill(path)
    first, second = EmbeddingStore(path), EmbeddingStore(path)
    path.write_bytes(path.read_bytes()[:100])
    for store in (first, second):
        assert store.numbers("m", [A]) == {}
    first.put_numbers("m", {A: np.ones(2, np.float32)})
    assert second.numbers("m", [A])[A].tolist() == [1, 1]
    assert len(caplog.messages) == 1


def test_a_newer_schema_is_refused_and_left_alone(path):
    give_schema(path, 4)
    with raises(StoreError, "schema 4", "reads 3", str(path), "delete it"):
        EmbeddingStore(path)
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_number_that_is_not_finite_is_not_stored(path):
    with EmbeddingStore(path) as store:
        with raises(StoreError, "model", "'m'"):
            store.put_numbers("m", {A: np.array([1, np.inf], np.float32)})
        with raises(StoreError, "finite", "keeps"):
            store.put_numbers("m", {A + B: np.float32("nan")})
        assert count_rows(store).total() == 0


def test_a_full_disk_is_an_error_and_what_was_stored_stays(path):
    with EmbeddingStore(path) as store:
        store.put_numbers("m", {A: np.ones(2, np.float32)})
        pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
        store._connection.execute(f"PRAGMA max_page_count = {pages + 2}")
        with raises(StoreError, "store.sqlite", "disk is full", "free space"):
            store.put_numbers("m", {f"{k:064x}": np.ones(4096, np.float32) for k in range(10)})
        assert count_rows(store)["vectors"] == 1


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="permissions of this kind are POSIX's")
@pytest.mark.parametrize("place", ["store.sqlite", "new/store.sqlite", "file/store.sqlite"])
def test_a_folder_that_cannot_be_written_or_is_a_file_is_an_error(place):
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as after:
        (Path(folder) / "file").touch()
        Path(folder).chmod(0o555)
        after.callback(Path(folder).chmod, 0o755)
        if os.geteuid() == 0:  # root may write everywhere
            os.seteuid(65534)
            after.callback(os.seteuid, 0)
        with raises(StoreError, place, "cache="):
            EmbeddingStore(Path(folder) / place)


def test_a_file_that_another_process_holds_is_an_error_in_the_end(path, monkeypatch):
    EmbeddingStore(path).close()
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        monkeypatch.setattr("tellapart.models.store.row_file._PATIENCE", 0.05)
        with raises(StoreError, "0.05", "locked"):
            EmbeddingStore(path)


@pytest.fixture
def homeless(monkeypatch, tmp_path):
    for name in ("TELLAPART_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return monkeypatch


def test_the_default_path_follows_the_environment(homeless):
    for variable, folder, expected in (
        ("HOME", "/home/me", "/home/me/.cache/tellapart"),
        ("XDG_CACHE_HOME", "/x", "/x/tellapart"),
        ("TELLAPART_CACHE", "~/mine", "/home/me/mine"),
    ):
        homeless.setenv(variable, folder)
        assert default_store_path() == Path(expected) / "store.sqlite"


@pytest.mark.parametrize("home", ["", "/"])
def test_a_user_without_a_home_has_a_temporary_cache_and_is_told(home, homeless, tmp_path):
    homeless.setenv("HOME", home)
    with pytest.warns(TellapartWarning, match="TELLAPART_CACHE") as said:
        path = default_store_path()
    assert path.parent.parent == tmp_path
    assert str(path.parent) in str(said[0].message)
    assert path.parent.stat().st_mode & 0o777 == 0o700
    homeless.setenv("TELLAPART_CACHE", "~/mine")
    with raises(StoreError, "TELLAPART_CACHE", "'~/mine'", "HOME"):
        default_store_path()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="another user needs root")
def test_an_unknown_user_without_a_home_has_a_temporary_cache():
    code = "from tellapart.models.store.cache import default_store_path as path; print(path())"
    unset = {"HOME", "TELLAPART_CACHE", "XDG_CACHE_HOME"}
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    # The first to import it may read the checkout.
    code = f"import os, tellapart.models.store.embedding_store; os.setuid(54321)\n{code}"
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # pytest's are closed to others
        Path(folder).chmod(0o777)
        ran = run_python("-c", code, env=environment | {"TMPDIR": folder})
    assert ran.stdout.strip() == str(Path(folder) / "tellapart-54321" / "store.sqlite"), ran.stderr
    assert "TELLAPART_CACHE" in ran.stderr


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="another user needs root")
def test_a_temporary_cache_of_another_user_is_refused(homeless, tmp_path):
    folder = tmp_path / f"tellapart-{os.getuid()}"
    folder.mkdir()
    os.chown(folder, 54321, 54321)
    with pytest.warns(TellapartWarning), raises(StoreError, folder, "TELLAPART_CACHE"):
        default_store_path()


def test_a_dropped_store_may_be_collected_in_any_thread(monkeypatch):
    said = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)
    # A cycle, as a traceback makes one: reference counting alone does not free the store.
    cycle = [EmbeddingStore(None)]
    cycle.append(cycle)
    del cycle
    collector = threading.Thread(target=gc.collect)
    collector.start()
    collector.join()
    assert said == []


@pytest.mark.parametrize(
    ("statement", "table", "what"),
    [
        ("value = x'0000803f0000813f'", 0, "vectors of m"),
        ("value = x'0000803f'", 0, "vectors of m"),
        ("value = 'text'", 0, "vectors of m"),
        ("value = 3", 0, "vectors of m"),
        ("checksum = checksum + 1", 0, "vectors of m"),
        ("checksum = 'text'", 0, "vectors of m"),
        ("value = x'0000003f'", 1, "scores of m"),
        ("value = x'0000807f'", 1, "scores of m"),
        (f"value = x'{C}'", 2, "pictures"),
        ('value = CAST(\'{"name": "n"}\' AS BLOB)', 3, "models"),
        ("value = x'ff'", 3, "models"),
    ],
)
def test_a_damaged_row_counts_as_never_stored_and_is_said_once(path, statement, table, what, caplog):
    fill(path)
    change(path, f"UPDATE entry SET {statement} WHERE space = {table + 1}")
    with EmbeddingStore(path) as store:
        expected = [*WHOLE[:table], ({}, {}, "", None)[table], *WHOLE[table + 1 :]]
        assert read(store) == expected
        change(path, "UPDATE entry SET value = x'00' WHERE space = 3")  # more damage is not said again
        read(store)
    assert len(caplog.messages) == 1
    check_facts(caplog.text, str(path), b"k".hex() if table == 3 else A[:12], what)
    caplog.clear()
    fill(path)
    with EmbeddingStore(path) as store:
        assert read(store) == WHOLE
    assert caplog.messages == []


def test_a_vector_filed_under_another_key_or_another_model_is_damage(path):
    fill(path)
    with EmbeddingStore(path) as store:
        store.put_numbers("n", {C: np.zeros(2, np.float32)})
    of_key = f"UPDATE entry SET key = x'{B}' WHERE key = x'{A}' AND space = 1"
    change(path, of_key, "UPDATE entry SET space = 1 WHERE space = 5")
    with EmbeddingStore(path) as store:
        assert store.numbers("m", [A, B, C]) == {}


def test_a_rank_takes_its_own_number_for_one_that_is_damaged_in_the_store(path, tmp_path):
    fill(path)
    change(path, "UPDATE entry SET value = x'0000003f' WHERE space = 2")
    with EmbeddingStore(path) as main, Shard(tmp_path / "shard.sqlite", main) as shard:
        assert shard.numbers("m", [A + B]) == {}
        shard.put_numbers("m", {A + B: np.float32(1)})
        main.merge(tmp_path / "shard.sqlite")
        assert main.numbers("m", [A + B]) == {A + B: np.float32(1)}


@pytest.mark.few(2)
@pytest.mark.parametrize("new_model", ["histogram", "fusion"], indirect=True)
@pytest.mark.parametrize("vectors_alone", [True, False])
def test_random_bytes_in_the_file_never_give_other_numbers(new_model, vectors_alone, picture_set, tmp_path):
    pairset, path = picture_set(40), tmp_path / "store.sqlite"
    with EmbeddingStore(path) as store:
        right = score(new_model(), pairset, store=store).scores.values
        if vectors_alone:
            store.delete([space.name for space in store.spaces() if space.name.startswith("scores of ")])
    whole, replaced = path.read_bytes(), 0
    for seed in range(25):
        draw, data = random.Random(seed), bytearray(whole)
        for _ in range(40):
            # Not in the head: a damaged version there is refused as a newer one.
            data[draw.randrange(100, len(data))] = draw.randrange(256)
        damaged = tmp_path / f"{seed}.sqlite"
        damaged.write_bytes(data)
        with EmbeddingStore(damaged) as store:
            for _ in range(2):
                np.testing.assert_array_equal(score(new_model(), pairset, store=store).scores.values, right)
            replaced += Path(f"{damaged}.damaged-1").exists()
    assert 0 < replaced < 25


@pytest.mark.parametrize(
    ("content", "damage"),
    [
        (b"id INTEGER PRIMARY KEY, name", b"id INTEGER PRIMARY_KEY, name"),  # then numbers are not stored
        (b"\x04\x00\x0f\x07s", b"\x04\x00\x01\x07s"),  # a row's types: the name is a number
        (b"\x00\x00\x00\x04" + bytes(8) + b"\x00\x00\x00\x01", b"\x00\x00\x00\x44" + bytes(8) + b"\x00\x00\x00\x01"),
    ],
    ids=["schema", "row", "format"],
)
def test_damage_that_sqlite_does_not_see_makes_way_for_a_new_file(path, content, damage, caplog):
    with RowFile(path) as file:
        file.write("s", {b"key": b"value"})
    whole = path.read_bytes()
    assert whole.count(content) == 1
    path.write_bytes(whole.replace(content, damage))
    with RowFile(path) as file:
        file.spaces()
        assert file.read("s", [b"key"]) == {} and file.spaces() == []
    check_facts(caplog.text, path, "damaged-1")


def test_damage_in_the_head_of_a_file_is_refused_or_gives_no_other_value(path):
    with RowFile(path) as file:
        file.write("s", {b"key": b"value"})
    whole = path.read_bytes()
    for place, damage in [(place, damage) for place in range(100) for damage in (0, 1, 7, 255)]:
        path.write_bytes(whole[:place] + bytes([damage]) + whole[place + 1 :])
        with contextlib.suppress(StoreError), RowFile(path) as file:
            assert file.read("s", [b"key"]) in ({}, {b"key": b"value"})
        for left in path.parent.iterdir():
            left.unlink()


@given(st.text(), st.text())
def test_texts_share_a_hash_only_if_they_are_equal(one, other):
    assert (text_hash(one) == text_hash(other)) == (one == other)


def test_a_text_shares_no_hash_with_an_image_of_its_bytes():
    pixels = np.zeros((1, 2, 3), np.uint8)
    assert text_hash(f"{pixels.shape}" + pixels.tobytes().decode()) != pixel_hash(pixels)


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("step", [1, 3])
def test_pictures_come_in_order_and_once_and_those_that_are_wanted_prepared(picture_set, workers, step, monkeypatch):
    pairset = picture_set(12)
    references = [image for item in pairset.items for image in item.images][::-1]
    wanted = {reference: np.mean(pairset.pixels(reference)) for reference in references[::step]}
    expected = {reference: pixel_hash(pairset.pixels(reference)) for reference in references}
    keep = {expected[reference] for reference in wanted}
    with EmbeddingStore(None) as store:
        for _ in range(2):  # the second reader finds every hash in the store
            hashes: dict[str, str] = {}
            reader = ImageReader(pairset, store, hashes, lambda _reference, content: content in keep, np.mean)
            pictures = list(reader.read(references, workers=workers))
            assert [picture.reference for picture in pictures] == references
            assert {picture.reference: picture.pixels for picture in pictures} == dict.fromkeys(references) | wanted
            assert {picture.reference: picture.hash for picture in pictures} == hashes == expected
            assert count_rows(store)["pictures"] == 24
        assert image_hashes(pairset, store=store) == hashes
        monkeypatch.setattr(PairSet, "read_bytes", lambda *_: pytest.fail("a picture that is known was read"))
        again = ImageReader(pairset, store, hashes).read(references * 2, workers=workers)
        assert [picture.reference for picture in again] == references


def test_a_reader_that_was_closed_waits_for_no_collector(picture_set):
    pairset = picture_set(2)
    with collector_paused():
        with contextlib.closing(ImageReader(pairset, EmbeddingStore(None)).read(["0-0.png"])) as images:
            list(images)
        left = weakref.ref(images)
        del images
        assert left() is None


@pytest.mark.parametrize("cut", [True, False])
@pytest.mark.parametrize("broken", [0, 5, 19])
def test_images_before_a_broken_one_are_read_and_kept(picture_set, broken, cut):
    pairset = picture_set(10)
    references = [image for item in pairset.items for image in item.images]
    file = pairset.root / references[broken]
    file.write_bytes(file.read_bytes()[:60]) if cut else file.unlink()
    with EmbeddingStore(None) as store:
        with raises(DataError, f"item-{broken // 2}", f"'images[{broken % 2}]'", references[broken]):
            image_hashes(pairset, store=store)
        assert count_rows(store)["pictures"] == broken


def test_a_changed_file_gets_another_hash_although_the_store_knew_the_old_one(picture_set):
    pairset = picture_set(2)
    with EmbeddingStore(None) as store:
        before = image_hashes(pairset, store=store)
        (pairset.root / "0-0.png").write_bytes((pairset.root / "1-1.png").read_bytes())
        after = image_hashes(pairset, store=store)
    assert after == before | {"0-0.png": before["1-1.png"]} != before


#: Bytes of a file that has room for one picture, and for two.
ONE, TWO = 35_000, 45_000


def picture(value: int) -> NDArray[np.uint8]:
    return np.full((64, 64, 3), value, np.uint8)


def names(prepared: Path) -> list[str]:
    return [kept["name"] for kept in kept_preparations(prepared)]


@pytest.fixture
def prepared(tmp_path):
    return tmp_path / "prepared.sqlite"


def test_a_picture_comes_back_as_it_was_and_may_be_written_into(prepared):
    PreparedPictures(prepared, "crop").put(A, picture(3))
    kept = PreparedPictures(prepared, "crop").get(A)
    assert (kept == picture(3)).all() and kept.flags.writeable
    assert PreparedPictures(prepared, "another crop").get(A) is None


def test_the_preprocessing_longest_unused_goes_first_and_the_own_one_never(prepared):
    for name in ("old", "new"):
        PreparedPictures(prepared, name, limit=TWO).put(A, picture(1))
    assert names(prepared) == ["new", "old"]
    assert PreparedPictures(prepared, "old", limit=TWO).get(A) is not None
    assert names(prepared) == ["old", "new"]  # reading is a use, too
    own = PreparedPictures(prepared, "own", limit=TWO)
    own.put(A, picture(1))
    assert names(prepared) == ["own", "old"]
    for content in (B, C):
        own.put(content, picture(2))
    assert names(prepared) == ["own"]
    assert own.get(A) is not None and own.get(B) is not None
    assert own.get(C) is None  # there is room for two
    assert kept_preparations(prepared)[0]["bytes"] == 2 * 12_288


def test_a_full_file_is_not_counted_again_for_every_picture(prepared, monkeypatch):
    counted, spaces = [], RowFile.spaces
    monkeypatch.setattr(RowFile, "spaces", lambda file: (counted.append(file.path), spaces(file))[1])
    full = PreparedPictures(prepared, "crop", limit=TWO)
    for number in range(100):
        full.put(f"{number:064x}", picture(number))
    assert [full.get(f"{number:064x}") is not None for number in range(4)] == [True, True, False, False]
    assert counted == [prepared]  # of the first picture without room


def test_a_preprocessing_that_another_process_deleted_begins_again(prepared):
    crop = PreparedPictures(prepared, "crop", limit=TWO)
    crop.put(A, picture(1))
    PreparedPictures(prepared, "other", limit=ONE).put(A, picture(2))
    assert names(prepared) == ["other"]
    crop.put(B, picture(3))
    assert sorted(names(prepared)) == ["crop", "other"]  # what no preprocessing has would never be counted or deleted
    assert crop.get(A) is None and crop.get(B) is not None


def test_a_folder_that_cannot_be_written_costs_the_pictures_alone(tmp_path, caplog):
    (tmp_path / "file").touch()
    kept = PreparedPictures(tmp_path / "file" / "prepared.sqlite", "crop")
    kept.put(A, picture(1))
    assert kept.get(A) is None
    assert len(caplog.records) == 1
    check_facts(caplog.text, "tellapart cache prune --prepared")
