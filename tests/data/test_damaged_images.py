"""Damaged and hostile image files: one clear error, or the picture itself; never a crash, a warning or a grey half."""

from __future__ import annotations

import io
import pickle
import re
import struct
import tracemalloc
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from facts import raises
from tellapart.data.images import MAX_PIXELS, decode
from tellapart.errors import DataError

Encode = Callable[..., bytes]
Noise = Callable[..., NDArray[np.uint8]]

#: Every way a picture is stored: suffix and options of the encoder.
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "png": ("png", {}),
    "jpeg": ("jpg", {}),
    "progressive jpeg": ("jpg", {"progressive": True}),
    "lossy webp": ("webp", {"lossless": False}),
    "lossless webp": ("webp", {}),
    "npy": ("npy", {}),
}


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(width: int, height: int, *chunks: bytes) -> bytes:
    """A PNG that claims a size, with chunks between its header and its (far too few) pixels."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    pixels = chunk(b"IDAT", zlib.compress(bytes(100)))
    return b"\x89PNG\r\n\x1a\n" + header + b"".join(chunks) + pixels + chunk(b"IEND", b"")


def npy(header: str) -> bytes:
    text = header.encode("latin1").ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_cut_off_anywhere_is_an_error_or_still_the_whole_picture(
    encoded: Encode, noise: Noise, kind: str
) -> None:
    suffix, options = KINDS[kind]
    data = encoded(noise(40, 40), suffix, **options)
    whole = decode(data, "a")
    refused = 0
    for length in {*range(0, len(data), max(1, len(data) // 150)), *range(len(data) - 20, len(data))}:
        try:
            pixels = decode(data[:length], "images/a.png")
        except DataError as error:
            assert str(error).startswith("images/a.png: ")
            refused += 1
        else:
            # Only marks of the end may be missing.
            np.testing.assert_array_equal(pixels, whole)
            assert length >= len(data) - 20
    assert refused > 100


def test_an_empty_file_is_refused() -> None:
    with raises(DataError, "images/a.png", "empty"):
        decode(b"", "images/a.png")


@settings(max_examples=250, deadline=None)
@given(data=st.data(), kind=st.sampled_from(sorted(KINDS)))
def test_bytes_changed_anywhere_never_raise_anything_else(
    encoded: Encode, noise: Noise, data: st.DataObject, kind: str
) -> None:
    suffix, options = KINDS[kind]
    damaged = bytearray(encoded(noise(), suffix, **options))
    places = st.one_of(st.integers(0, min(60, len(damaged) - 1)), st.integers(0, len(damaged) - 1))
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(places)] = data.draw(st.integers(0, 255))
    try:
        pixels = decode(bytes(damaged), "a")
    except DataError:
        return
    assert pixels.dtype == np.uint8
    assert pixels.ndim == 3
    assert pixels.shape[2] == 3
    assert 0 < pixels.shape[0] * pixels.shape[1] <= MAX_PIXELS


@settings(deadline=None)
@given(
    st.sampled_from([b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"RIFF\xff\0\0\0WEBPVP8 ", b"\x93NUMPY\x01\0"]),
    st.binary(),
)
def test_junk_behind_the_mark_of_a_format_is_refused(mark: bytes, junk: bytes) -> None:
    with raises(DataError, "a:"):
        decode(mark + junk, "a")


@settings(deadline=None)
@given(st.text(max_size=100))
def test_any_header_of_an_npy_file_is_read_or_refused(header: str) -> None:
    with raises(DataError, "a:"):
        decode(npy(header.encode("utf-8", "replace").decode("latin1")), "a")


def bombs() -> dict[str, bytes]:
    vp8x = b"VP8X" + struct.pack("<I", 10) + bytes(4) + (16382).to_bytes(3, "little") * 2
    stream = io.BytesIO()
    Image.new("L", (8, 8)).save(stream, "JPEG")
    jpeg = stream.getvalue()
    frame = jpeg.index(b"\xff\xc0")
    return {
        "png": png(100_000, 100_000),
        "png just above": png(8001, 8000),
        "jpeg": jpeg[: frame + 5] + struct.pack(">HH", 65_000, 65_000) + jpeg[frame + 9 :],
        "webp": b"RIFF" + struct.pack("<I", 22) + b"WEBP" + vp8x,
        "npy": npy("{'descr': '|u1', 'fortran_order': False, 'shape': (100000, 100000, 3)}"),
        "npy beyond any machine": npy(f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({10**40}, 7, 3)}}"),
    }


@pytest.mark.parametrize("kind", sorted(bombs()))
def test_a_file_that_claims_more_pixels_than_any_picture_is_refused_before_it_is_unpacked(kind: str) -> None:
    data = bombs()[kind]
    tracemalloc.start()
    try:
        with raises(DataError, "a:") as refused:
            decode(data, "a")
        assert re.search("64,000,000|bomb|decoder", str(refused.value))
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_the_largest_picture_allowed_is_not_called_a_bomb() -> None:
    with raises(DataError, "complete"):
        decode(png(8000, 8000), "a")


@pytest.mark.parametrize(
    "name_and_head",
    [(b"zTXt", b"note\0\0"), (b"iCCP", b"profile\0\0"), (b"iTXt", b"note\0\1\0\0\0")],
    ids=lambda n: n[0].decode(),
)
def test_a_text_that_unpacks_to_sixty_megabytes_is_not_unpacked(name_and_head: tuple[bytes, bytes]) -> None:
    name, head = name_and_head
    bomb = chunk(name, head + zlib.compress(bytes(60_000_000), 1))
    tracemalloc.start()
    try:
        with raises(DataError, "decoded", "image"):
            decode(png(4, 4, bomb), "a")
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("frames", [0, 2**31, 3])
def test_a_png_that_says_wrongly_that_it_is_animated_is_refused_without_a_warning(frames: int) -> None:
    with raises(DataError, "animated"):
        decode(png(4, 4, chunk(b"acTL", struct.pack(">II", frames, 0))), "a")


@pytest.mark.parametrize(
    ("array", "got"),
    [
        (np.zeros((4, 4, 3), np.float32), ("float32", "(4, 4, 3)")),
        (np.zeros((4, 4, 3), np.int8), ("int8", "(4, 4, 3)")),
        (np.zeros((4, 4), np.uint8), ("uint8", "(4, 4)")),
        (np.zeros((4, 4, 4), np.uint8), ("uint8", "(4, 4, 4)")),
        (np.zeros((1, 4, 4, 3), np.uint8), ("uint8", "(1, 4, 4, 3)")),
    ],
)
def test_an_array_that_is_no_bgr_frame_is_refused(array: NDArray[Any], got: str | tuple[str, ...]) -> None:
    stream = io.BytesIO()
    np.save(stream, array)
    with raises(DataError, "a.npy", "uint8", "BGR", "(height, width, 3)", got):
        decode(stream.getvalue(), "a.npy")


@pytest.mark.parametrize("shape", [(0, 4, 3), (4, 0, 3)])
def test_a_frame_without_pixels_is_refused(shape: tuple[int, ...]) -> None:
    stream = io.BytesIO()
    np.save(stream, np.zeros(shape, np.uint8))
    with raises(DataError, "a.npy", "empty", "pixels"):
        decode(stream.getvalue(), "a.npy")


def test_a_frame_with_bytes_left_over_is_refused(encoded: Encode, noise: Noise) -> None:
    with raises(DataError, "163", "bytes", "(6, 9, 3)", "162"):
        decode(encoded(noise(), "npy") + b"\0", "a.npy")


class Exploding:
    """Would end the test if it were unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (pytest.exit, ("a pickle was loaded",))


def test_pickles_are_never_loaded() -> None:
    stream = io.BytesIO()
    np.save(stream, np.array([[[Exploding()] * 3]], dtype=object), allow_pickle=True)
    with raises(DataError, "uint8", "BGR", "object", "(1, 1, 3)"):
        decode(stream.getvalue(), "a.npy")
    with raises(DataError, "cannot identify image file", "identify"):
        decode(pickle.dumps(Exploding()), "a.npy")
