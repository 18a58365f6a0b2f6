from __future__ import annotations

import gc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts import raises
from tellapart.data.images import pixel_hash
from tellapart.data.item import Item
from tellapart.data.many_objects import collector_paused
from tellapart.data.pairset import PairSet
from tellapart.errors import DataError
from tellapart.models.store.content_hash import ImageReader, image_hashes, text_hash
from tellapart.models.store.embedding_store import EmbeddingStore


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
        for learns in (True, False):  # the second reader finds every hash in the store
            hashes: dict[str, str] = {}
            with ImageReader(pairset, store, references, needs_pixels=every, hashes=hashes, workers=workers) as reader:
                pictures = list(reader)
            assert [picture.reference for picture in pictures] == references
            for picture in pictures:
                np.testing.assert_array_equal(picture.pixels, pairset.pixels(picture.reference))
                assert picture.hash == hashes[picture.reference] == pixel_hash(picture.pixels)
            learned = reader.take_new_hashes()
            assert len(learned) == (24 if learns else 0)
            store.put_pixel_hashes(learned)
        assert image_hashes(pairset, store=store) == hashes


def test_pixels_that_nobody_wants_are_dropped_and_the_others_prepared(picture_set: Any) -> None:
    pairset = picture_set(5)
    references = [image for item in pairset.items for image in item.images]
    names = image_hashes(pairset, store=EmbeddingStore(None))
    keep = {names[reference] for reference in references[::3]}
    for store in (EmbeddingStore(None), filled := EmbeddingStore(None)):
        image_hashes(pairset, store=filled)
        with ImageReader(
            pairset,
            store,
            references,
            needs_pixels=lambda images: [name in keep for _, name in images],
            prepare=np.mean,
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
        earlier = readers()  # of other tests of this process, which may be in use still
        image_hashes(pairset, store=EmbeddingStore(None))
        assert [reader for reader in readers() if not any(reader is other for other in earlier)] == []


def readers() -> list[ImageReader]:
    return [thing for thing in gc.get_objects() if type(thing) is ImageReader]


@pytest.mark.parametrize("broken", [0, 5, 19])
def test_images_before_a_broken_one_are_read_and_kept(picture_set: Any, broken: int) -> None:
    pairset = picture_set(10)
    references = [image for item in pairset.items for image in item.images]
    (pairset.root / references[broken]).unlink()
    with EmbeddingStore(None) as store:
        said: list[int] = []
        with raises(DataError, f"'{references[broken]}'", "image"):
            image_hashes(pairset, store=store, progress=lambda stage, done, total: said.append(done))
        assert store.counts().pictures == broken
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
