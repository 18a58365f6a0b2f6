"""Near-duplicates: the hash is pHash, the search misses nothing."""

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from pictures import encoded
from tellapart.data.perceptual import (
    BITS,
    LEVELS,
    ImageHashes,
    gather_hashes,
    near_duplicates,
    perceptual_hash,
    thumbnail,
)


def bits(a: int, b: int) -> int:
    return (a ^ b).bit_count()


def print_of(pixels: NDArray[np.uint8]) -> ImageHashes:
    return gather_hashes([(perceptual_hash(pixels), thumbnail(pixels))])


def near_pairs(one: ImageHashes, other: ImageHashes) -> set[tuple[int, int]]:
    return {(int(a), int(b)) for left, right in near_duplicates(one, other) for a, b in zip(left, right, strict=True)}


@pytest.mark.parametrize("seed", range(5))
def test_the_hash_is_the_one_that_scipys_transform_gives(blots, seed):
    from scipy.fft import dct

    grey = Image.fromarray(blots(seed)).convert("L").resize((32, 32), Image.Resampling.LANCZOS)
    low = dct(dct(np.asarray(grey, np.float64), axis=0), axis=1)[:8, :8].ravel()
    expected = int("".join("1" if value > np.median(low) else "0" for value in low), 2)
    assert perceptual_hash(blots(seed)) == expected


def test_a_scaled_or_compressed_picture_is_near_and_another_one_is_not(blots):
    picture = Image.fromarray(blots(0, 96))
    small = picture.resize((70, 60), Image.Resampling.BICUBIC)
    for other in (Image.open(io.BytesIO(encoded(picture, "JPEG", quality=60))), small):
        assert near_pairs(print_of(np.asarray(picture)), print_of(np.asarray(other.convert("RGB")))) == {(0, 0)}
    assert bits(perceptual_hash(blots(0)), perceptual_hash(blots(1))) > BITS
    assert near_pairs(print_of(blots(0)), print_of(blots(1))) == set()


def test_the_same_forms_in_other_colours_are_no_duplicate(blots):
    red = np.zeros((32, 32, 3), np.uint8)
    red[:, :, 0] = 130
    blue = red[:, :, ::-1].copy()
    assert perceptual_hash(red) == perceptual_hash(blue)
    assert near_pairs(print_of(red), print_of(blue)) == set()


hashes = st.one_of(st.integers(0, 2**64 - 1), st.integers(0, 255), st.integers(0, 255).map(lambda k: k << 50))


@given(st.lists(hashes, max_size=12), st.lists(hashes, max_size=12), st.integers(0, 12))
def test_the_search_finds_exactly_the_pairs_that_a_full_comparison_finds(ours, theirs, spread):
    one = gather_hashes([(value, np.full(192, k * spread, np.uint8)) for k, value in enumerate(ours)])
    other = gather_hashes([(value, np.full(192, k * spread, np.uint8)) for k, value in enumerate(theirs)])
    expected = {
        (i, j)
        for i, a in enumerate(ours)
        for j, b in enumerate(theirs)
        if bits(a, b) <= BITS and abs(i - j) * spread <= LEVELS
    }
    assert near_pairs(one, other) == expected


def test_a_large_group_of_like_pictures_is_searched_in_blocks(monkeypatch):
    monkeypatch.setattr("tellapart.data.perceptual._BLOCK", 400)
    same = gather_hashes([(5, np.zeros(192, np.uint8))] * 30)
    assert len(near_pairs(same, same)) == 900
