from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellapart.data.images import pixel_hash
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.errors import DataError
from tellapart.models.content import PictureReader, image_hashes, text_hash
from tellapart.models.store import EmbeddingStore


@given(st.text(), st.text())
def test_texts_share_a_hash_only_if_they_are_equal(one: str, other: str) -> None:
    assert (text_hash(one) == text_hash(other)) == (one == other)


def test_a_text_shares_no_hash_with_an_image_of_its_bytes() -> None:
    pixels = np.zeros((1, 2, 3), np.uint8)
    assert text_hash(f"{pixels.shape}" + pixels.tobytes().decode()) != pixel_hash(pixels)


@pytest.mark.parametrize("workers", [1, 4])
def test_pictures_come_in_order_with_the_pixels_of_their_files(
    picture_set: Callable[..., PairSet], workers: int
) -> None:
    pairset = picture_set(12)
    references = [image for item in pairset.items for image in item.images][::-1]
    with EmbeddingStore(None) as store:
        for decoded in (True, False):  # the second reader finds every hash in the store
            with PictureReader(pairset, store, workers=workers) as reader:
                pictures = reader.read(references)
                assert [picture.reference for picture in pictures] == references
                assert all((picture.pixels is not None) == decoded for picture in pictures)
                for picture, pixels in zip(pictures, reader.pixels(pictures), strict=True):
                    np.testing.assert_array_equal(pixels, pairset.pixels(picture.reference))
                    assert picture.hash == reader.hashes[picture.reference] == pixel_hash(pixels)
        assert image_hashes(pairset, store=store) == reader.hashes


def test_an_image_is_read_once_and_a_repetition_gets_its_hash(
    picture_set: Callable[..., PairSet], monkeypatch: pytest.MonkeyPatch
) -> None:
    pairset, read = picture_set(1), []
    original = PairSet.read_bytes
    monkeypatch.setattr(PairSet, "read_bytes", lambda self, ref: (read.append(ref), original(self, ref))[1])
    with PictureReader(pairset, EmbeddingStore(None)) as reader:
        a, b, again = reader.read(["0-0.png", "0-1.png", "0-0.png"])
        (later,) = reader.read(["0-0.png"])
    assert read == ["0-0.png", "0-1.png"]
    assert a.hash == again.hash == later.hash != b.hash


def test_a_changed_file_gets_another_hash_although_the_store_knew_the_old_one(
    picture_set: Callable[..., PairSet],
) -> None:
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
    with pytest.raises(DataError, match=r"pairs\.jsonl:1: field 'images\[0\]': a\.png: cannot be decoded as an image"):
        image_hashes(pairset, store=EmbeddingStore(None))
