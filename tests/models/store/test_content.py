from __future__ import annotations

import contextlib
import sqlite3
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from facts import check_facts, raises
from tellapart.data.images import pixel_hash
from tellapart.data.item import Item
from tellapart.data.many_objects import collector_paused
from tellapart.data.pairset import PairSet
from tellapart.errors import DataError
from tellapart.models.store.content_hash import ImageReader, image_hashes, text_hash
from tellapart.models.store.embedding_store import EmbeddingStore, PreparedPictures, kept_preparations
from tellapart.models.store.row_file import RowFile, Space


@given(st.text(), st.text())
def test_texts_share_a_hash_only_if_they_are_equal(one: str, other: str) -> None:
    assert (text_hash(one) == text_hash(other)) == (one == other)


def test_a_text_shares_no_hash_with_an_image_of_its_bytes() -> None:
    pixels = np.zeros((1, 2, 3), np.uint8)
    assert text_hash(f"{pixels.shape}" + pixels.tobytes().decode()) != pixel_hash(pixels)


def every(images: Sequence[tuple[str, str]]) -> list[bool]:
    return [True] * len(images)


@pytest.mark.parametrize("workers", [1, 4])
def test_pictures_come_in_order_with_the_pixels_of_their_files(picture_set: Any, workers: int) -> None:
    pairset = picture_set(12)
    references = [image for item in pairset.items for image in item.images][::-1]
    with EmbeddingStore(None) as store:
        for _ in range(2):  # the second reader finds every hash in the store
            hashes: dict[str, str] = {}
            with ImageReader(pairset, store, references, needs_pixels=every, hashes=hashes, workers=workers) as reader:
                pictures = list(reader)
            assert [picture.reference for picture in pictures] == references
            for picture in pictures:
                np.testing.assert_array_equal(picture.pixels, pairset.pixels(picture.reference))
                assert picture.hash == hashes[picture.reference] == pixel_hash(picture.pixels)
            assert store.counts().pictures == 24
        assert image_hashes(pairset, store=store) == hashes


def test_pixels_that_nobody_wants_are_dropped_and_the_others_prepared(picture_set: Any) -> None:
    pairset = picture_set(5)
    references = [image for item in pairset.items for image in item.images]
    names = image_hashes(pairset, store=EmbeddingStore(None))
    keep = {names[reference] for reference in references[::3]}
    store = EmbeddingStore(None)
    for _ in range(2):  # the second reader finds every hash in the store
        with ImageReader(
            pairset, store, references, needs_pixels=lambda images: [n in keep for _, n in images], prepare=np.mean
        ) as reader:
            pixels = {picture.reference: picture.pixels for picture in reader}
        assert pixels == {
            reference: np.mean(pairset.pixels(reference)) if reference in references[::3] else None
            for reference in references
        }


def test_an_image_is_read_once_and_a_repetition_not_at_all(picture_set: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pairset, read, hashes = picture_set(1), [], {}
    original = PairSet.read_bytes
    monkeypatch.setattr(PairSet, "read_bytes", lambda self, ref: (read.append(ref), original(self, ref))[1])
    with ImageReader(pairset, EmbeddingStore(None), ["0-0.png", "0-1.png", "0-0.png"], hashes=hashes) as reader:
        a, b = reader
    with ImageReader(pairset, EmbeddingStore(None), ["0-0.png"], hashes=hashes) as reader:
        (later,) = reader
    assert read == ["0-0.png", "0-1.png"]
    assert a.hash == later.hash != b.hash


def test_a_reader_that_was_closed_waits_for_no_collector(picture_set: Any) -> None:
    pairset = picture_set(2)
    with collector_paused():
        with ImageReader(pairset, EmbeddingStore(None), ["0-0.png"]) as reader:
            list(reader)
        left = weakref.ref(reader)
        del reader
        assert left() is None


@pytest.mark.parametrize("broken", [0, 5, 19])
def test_images_before_a_broken_one_are_read_and_kept(picture_set: Any, broken: int) -> None:
    pairset = picture_set(10)
    references = [image for item in pairset.items for image in item.images]
    (pairset.root / references[broken]).unlink()
    with EmbeddingStore(None) as store:
        said: list[int] = []
        with raises(DataError, f"'{references[broken]}'", "image"):
            image_hashes(pairset, store=store, progress=lambda stage, done, total: said.append(done))
        assert broken <= store.counts().pictures < 20
        assert said == sorted(said)


def test_a_changed_file_gets_another_hash_although_the_store_knew_the_old_one(picture_set: Any) -> None:
    pairset = picture_set(2)
    with EmbeddingStore(None) as store:
        before = image_hashes(pairset, store=store)
        (pairset.root / "0-0.png").write_bytes((pairset.root / "1-1.png").read_bytes())
        after = image_hashes(pairset, store=store)
    assert after["0-0.png"] == before["1-1.png"] != before["0-0.png"]
    assert {key: value for key, value in after.items() if key != "0-0.png"} == {
        key: value for key, value in before.items() if key != "0-0.png"
    }


def test_a_file_that_is_no_image_is_named_by_its_line(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_text("no image")
    item = Item(id="a", images=("a.png",), texts=("x", "y"))
    pairset = PairSet("s", (item,), tmp_path, lines={"a": "pairs.jsonl:1"})
    with raises(DataError, "pairs.jsonl:1", "'images[0]'", "a.png"):
        image_hashes(pairset, store=EmbeddingStore(None))


A, B, C = "aa" * 32, "bb" * 32, "cc" * 32

#: Bytes of a file that has room for one picture, and for two.
ONE, TWO = 35_000, 45_000


def picture(value: int) -> NDArray[np.uint8]:
    return np.full((64, 64, 3), value, np.uint8)


def names(path: Path) -> list[str]:
    return [each.name for each in kept_preparations(path)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "prepared.sqlite"


def test_a_picture_comes_back_as_it_was_and_may_be_written_into(path: Path) -> None:
    PreparedPictures(path, "crop").put(A, picture(3))
    kept = PreparedPictures(path, "crop").get(A)
    assert kept is not None and (kept == picture(3)).all() and kept.flags.writeable
    assert PreparedPictures(path, "another crop").get(A) is None


def test_the_preprocessing_longest_unused_goes_first_and_the_own_one_never(path: Path) -> None:
    for name in ("old", "new"):
        PreparedPictures(path, name, limit=TWO).put(A, picture(1))
    assert names(path) == ["new", "old"]
    own = PreparedPictures(path, "own", limit=TWO)
    own.put(A, picture(1))
    assert names(path) == ["own", "new"]
    for content in (B, C):
        own.put(content, picture(2))
    assert names(path) == ["own"]
    assert own.get(A) is not None and own.get(B) is not None
    assert own.get(C) is None  # there is room for two
    assert kept_preparations(path)[0].bytes == 2 * 12_288


def test_a_full_file_is_not_counted_again_for_every_picture(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[Path | None] = []
    list_spaces = RowFile.spaces

    def count_spaces(file: RowFile) -> list[Space]:
        counted.append(file.path)
        return list_spaces(file)

    monkeypatch.setattr(RowFile, "spaces", count_spaces)
    full = PreparedPictures(path, "crop", limit=TWO)
    for number in range(100):
        full.put(f"{number:064x}", picture(number))
    assert [full.get(f"{number:064x}") is not None for number in range(4)] == [True, True, False, False]
    assert counted == [path]  # of the first picture without room


def test_a_preprocessing_that_another_process_deleted_begins_again(path: Path) -> None:
    crop = PreparedPictures(path, "crop", limit=TWO)
    crop.put(A, picture(1))
    PreparedPictures(path, "other", limit=ONE).put(A, picture(2))
    assert names(path) == ["other"]
    crop.put(B, picture(3))
    assert sorted(names(path)) == ["crop", "other"]  # what no preprocessing has would never be counted or deleted
    assert crop.get(A) is None and crop.get(B) is not None


def test_a_damaged_picture_is_deleted_and_said_once(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    kept = PreparedPictures(path, "crop")
    kept.put(A, picture(1))
    kept.put(B, picture(1))
    with contextlib.closing(sqlite3.connect(path)) as file:
        file.execute("UPDATE entry SET value = zeroblob(68)")
        file.commit()
    assert kept.get(A) is None and kept.get(B) is None
    assert len(caplog.records) == 1
    check_facts(caplog.text, "damaged", "aaaaaaaaaaaa")
    kept.put(A, picture(1))
    assert kept.get(A) is not None


def test_a_file_that_cannot_be_used_is_said_once_and_a_new_one_is_begun(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = b"no database" * 999
    path.write_bytes(before)
    kept = PreparedPictures(path, "crop")
    for _ in range(2):
        kept.put(A, picture(1))
        assert kept.get(A) is not None
    assert len(caplog.records) == 1
    check_facts(caplog.text, str(path), f"{path}.damaged-1")
    assert Path(f"{path}.damaged-1").read_bytes() == before
    assert names(path) == ["crop"]


def test_a_folder_that_cannot_be_written_costs_the_pictures_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    kept = PreparedPictures(tmp_path / "file" / "prepared.sqlite", "crop")
    kept.put(A, picture(1))
    assert kept.get(A) is None
    assert len(caplog.records) == 1
    check_facts(caplog.text, "tellapart cache prune --prepared")
