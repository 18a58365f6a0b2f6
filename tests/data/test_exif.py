"""Orientation: every one of the eight, against Pillow's own reading, and damage that must not stop a picture."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps

from tellapart.data.images import decode, orientation

Encode = Callable[..., bytes]
Noise = Callable[..., np.ndarray]


def block(value: int, order: str = "<", kind: str = "H", before: int = 0) -> bytes:
    """An EXIF block whose directory holds the orientation behind `before` other tags."""
    entries = b"".join(struct.pack(f"{order}HHIHH", 0x0100 + k, 3, 1, 9, 0) for k in range(before))
    value_bytes = struct.pack(f"{order}{kind}", value).ljust(4, b"\0")
    entries += struct.pack(f"{order}HHI", 0x0112, 3 if kind == "H" else 4, 1) + value_bytes
    head = b"II*\0" if order == "<" else b"MM\0*"
    return b"Exif\0\0" + head + struct.pack(f"{order}IH", 8, before + 1) + entries


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("kind", ["H", "I"])
@pytest.mark.parametrize("before", [0, 4])
def test_every_orientation_is_read_in_both_byte_orders_and_both_sizes(order: str, kind: str, before: int) -> None:
    for value in range(1, 9):
        assert orientation(block(value, order, kind, before)) == value
        assert orientation(block(value, order, kind, before).removeprefix(b"Exif\0\0")) == value


@pytest.mark.parametrize("value", [0, 9, 65535])
def test_an_orientation_that_does_not_exist_is_upright(value: int) -> None:
    assert orientation(block(value)) == 1


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_whatever_stop_the_reading(junk: bytes) -> None:
    for head in (b"", b"Exif\0\0II*\0", b"MM\0*\0\0\0\x08"):
        assert 1 <= orientation(head + junk) <= 8


def test_a_block_cut_off_anywhere_is_read_or_is_upright() -> None:
    whole = block(6, before=2)
    assert orientation(whole) == 6
    assert {orientation(whole[:length]) for length in range(len(whole))} == {1}


@pytest.mark.parametrize("suffix", ["png", "webp", "jpg"])
@pytest.mark.parametrize("value", range(1, 9))
def test_pictures_are_turned_as_pillow_turns_them(encoded: Encode, noise: Noise, suffix: str, value: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = value
    data = encoded(noise(), suffix, exif=exif)
    expected = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB"))
    assert expected.shape == ((6, 9, 3) if value < 5 else (9, 6, 3))
    np.testing.assert_array_equal(decode(data, "a"), expected)


@pytest.mark.parametrize("suffix", ["png", "webp", "jpg"])
def test_a_damaged_block_around_an_intact_picture_changes_nothing(encoded: Encode, noise: Noise, suffix: str) -> None:
    plain = encoded(noise(), suffix)
    offset_beyond_the_end = b"Exif\0\0II*\0" + struct.pack("<IHHHII", 8, 1, 0x011A, 5, 1, 99999)
    for exif in (b"Exif\0\0II*\0\xff\xff\xff\xff", b"Exif\0\0nonsense", offset_beyond_the_end):
        np.testing.assert_array_equal(decode(encoded(noise(), suffix, exif=exif), "a"), decode(plain, "a"))
