"""Damaged and hostile image files: one clear error, or the picture itself; never a crash, a warning or a grey half."""

import io
import pickle
import re
import struct
import tracemalloc
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from facts import raises
from pictures import chunk, encoded, film, noise, png
from sets import write_file
from tellapart.benchmarks.parquet import image_columns
from tellapart.data.images import MAX_PIXELS, decode
from tellapart.data.video import sample_frames
from tellapart.errors import DataError, TellapartError
from tellapart.models.memory.external import read_scores

#: Every way a picture is stored: suffix and options of the encoder.
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "png": ("png", {}),
    "jpeg": ("jpg", {}),
    "progressive jpeg": ("jpg", {"progressive": True}),
    "lossy webp": ("webp", {"lossless": False}),
    "lossless webp": ("webp", {}),
    "npy": ("npy", {}),
}


@contextmanager
def little_memory() -> Iterator[None]:
    """Fail if more than 20 MB are allocated inside."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def hollow(width: int, height: int, *chunks: bytes) -> bytes:
    """A PNG that claims a size, with chunks between its header and its (far too few) pixels."""
    return png(width, height, bytes(100), more=b"".join(chunks))


def npy(header: str) -> bytes:
    text = header.encode("latin1").ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_cut_off_anywhere_is_an_error_or_still_the_whole_picture(kind):
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


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "empty"),
        (hollow(8000, 8000), "complete"),  # the largest picture is no bomb
        *((hollow(4, 4, chunk(b"acTL", struct.pack(">II", frames, 0))), "animated") for frames in (0, 2**31, 3)),
        (encoded(noise(), "npy") + b"\0", ("163", "bytes", "(6, 9, 3)", "162")),
    ],
    ids=range(6),
)
def test_a_file_that_is_no_picture_is_refused_without_a_warning(data, said):
    with raises(DataError, "images/a.png", said):
        decode(data, "images/a.png")


@settings(max_examples=250)
@given(data=st.data(), kind=st.sampled_from(sorted(KINDS)))
def test_bytes_changed_anywhere_never_raise_anything_else(data, kind):
    suffix, options = KINDS[kind]
    damaged = bytearray(encoded(noise(), suffix, **options))
    places = st.one_of(st.integers(0, min(60, len(damaged) - 1)), st.integers(0, len(damaged) - 1))
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(places)] = data.draw(st.integers(0, 255))
    try:
        pixels = decode(bytes(damaged), "a")
    except DataError:
        return
    assert (pixels.dtype, pixels.ndim, pixels.shape[2]) == (np.uint8, 3, 3)
    assert 0 < pixels.shape[0] * pixels.shape[1] <= MAX_PIXELS


MARKS = [b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"RIFF\xff\0\0\0WEBPVP8 ", b"\x93NUMPY\x01\0"]


@given(mark=st.sampled_from(MARKS), junk=st.binary(), header=st.text(max_size=100))
def test_junk_behind_the_mark_of_a_format_and_any_header_of_an_npy_file_are_refused(mark, junk, header):
    for data in (mark + junk, npy(header.encode("utf-8", "replace").decode("latin1"))):
        with raises(DataError, "a:"):
            decode(data, "a")


def bombs() -> dict[str, bytes]:
    vp8x = b"VP8X" + struct.pack("<I", 10) + bytes(4) + (16382).to_bytes(3, "little") * 2
    jpeg = encoded(Image.new("L", (8, 8)), "JPEG")
    frame = jpeg.index(b"\xff\xc0")
    return {
        "png": hollow(100_000, 100_000),
        "png just above": hollow(8001, 8000),
        "jpeg": jpeg[: frame + 5] + struct.pack(">HH", 65_000, 65_000) + jpeg[frame + 9 :],
        "webp": b"RIFF" + struct.pack("<I", 22) + b"WEBP" + vp8x,
        "npy": npy("{'descr': '|u1', 'fortran_order': False, 'shape': (100000, 100000, 3)}"),
        "npy beyond any machine": npy(f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({10**40}, 7, 3)}}"),
    }


@pytest.mark.parametrize("data", bombs().values(), ids=bombs())
def test_a_file_that_claims_more_pixels_than_any_picture_is_refused_before_it_is_unpacked(data):
    with little_memory(), raises(DataError, "a:") as refused:
        decode(data, "a")
    assert re.search("64,000,000|bomb|decoder", str(refused.value))


@pytest.mark.parametrize(
    ("name", "head"), [(b"zTXt", b"note\0\0"), (b"iCCP", b"profile\0\0"), (b"iTXt", b"note\0\1\0\0\0")]
)
def test_a_text_that_unpacks_to_sixty_megabytes_is_not_unpacked(name, head):
    bomb = chunk(name, head + zlib.compress(bytes(60_000_000), 1))
    with little_memory(), raises(DataError, "decoded", "image"):
        decode(hollow(4, 4, bomb), "a")


class Exploding:
    """Would end the test if it were unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (pytest.exit, ("a pickle was loaded",))


@pytest.mark.parametrize(
    ("array", "says"),
    [
        (np.zeros((4, 4, 3), np.float32), ("float32", "(4, 4, 3)")),
        (np.zeros((4, 4, 3), np.int8), ("int8", "(4, 4, 3)")),
        (np.zeros((4, 4), np.uint8), "(4, 4)"),
        (np.zeros((4, 4, 4), np.uint8), "(4, 4, 4)"),
        (np.zeros((1, 4, 4, 3), np.uint8), "(1, 4, 4, 3)"),
        (np.array([[[Exploding()] * 3]], dtype=object), ("object", "(1, 1, 3)")),
        (np.zeros((0, 4, 3), np.uint8), None),
        (np.zeros((4, 0, 3), np.uint8), None),
    ],
)
def test_an_array_that_is_no_bgr_frame_is_refused_and_no_pickle_is_loaded(array, says):
    np.save(stream := io.BytesIO(), array)
    with raises(DataError, "a.npy", ("uint8", "BGR", "(height, width, 3)", says) if says else ("empty", "pixels")):
        decode(stream.getvalue(), "a.npy")
    with raises(DataError, "cannot identify image file", "identify"):
        decode(pickle.dumps(Exploding()), "a.npy")


def blocks(height: int, width: int, seed: int = 0) -> NDArray[np.uint8]:
    """Blocks of colour under noise: a picture whose parts all differ."""
    drawn = np.random.default_rng(seed)
    colours = np.kron(drawn.integers(0, 255, (-(-height // 8), -(-width // 8), 3)), np.ones((8, 8, 1)))
    return (colours[:height, :width] + drawn.normal(0, 9, (height, width, 3))).clip(0, 255).astype(np.uint8)


#: PNG's colour types: depth, type, bytes of a row of 30 pixels.
PNGS = {
    "bit": (1, 0, 4), "grey": (8, 0, 30), "16 bits": (16, 0, 60), "colour": (8, 2, 90), "palette": (8, 3, 30),
    "alpha": (8, 6, 120),
}  # fmt: skip


@pytest.mark.parametrize("kind", PNGS)
@pytest.mark.parametrize("value", [0, 7, 91, 255])
@pytest.mark.filterwarnings("ignore:.*of 16 bits")
def test_a_png_of_all_its_rows_is_read_even_if_they_are_black_and_of_fewer_it_is_refused(kind, value):
    depth, colour, size = PNGS[kind]
    row, palette = b"\0" + bytes([value]) * size, chunk(b"PLTE", bytes(range(24))) if kind == "palette" else b""

    def read(rows: bytes) -> NDArray[np.uint8]:
        return decode(png(30, 40, rows, depth, colour, more=palette), "cup.png")

    pixels = read(row * 40)
    assert pixels.shape == (40, 30, 3)
    assert kind not in ("bit", "grey") or value not in (0, 255) or (pixels == value).all()
    for rows in (1, 10, 39):
        with raises(DataError, "cup.png", "ends early"):
            read(row * rows)
    with raises(DataError, "cup.png"):
        read((row * 40)[:-1])


#: Columns and rows of Adam7's passes: over 9 x 7 none is empty; over 9 x 1 the last one is.
PASSES = {(9, 7): [(2, 1), (1, 1), (3, 1), (2, 2), (5, 2), (4, 4), (9, 3)]}
PASSES |= {(2, 100): [(1, 13), (1, 12), (1, 25), (1, 50), (2, 50)], (9, 1): [(2, 1), (1, 1), (2, 1), (4, 1)]}
PASSES |= {(9, 6): [(2, 1), (1, 1), (3, 1), (2, 2), (5, 1), (4, 3), (9, 3)]}


@pytest.mark.parametrize("size", PASSES)
def test_an_interlaced_png_needs_its_last_pass(size):
    rows = [b"\0" + b"\7" * 3 * columns for columns, count in PASSES[size] for _ in range(count)]
    assert (decode(png(*size, b"".join(rows), passes=1), "cup.png") == 7).all()
    with raises(DataError, "cup.png", "ends early"):
        decode(png(*size, b"".join(rows[:-1]), passes=1), "cup.png")


#: Ways to write a JPEG: sequential in one scan, and progressive.
#: Ways to write a JPEG: sequential in one scan, and progressive.
JPEGS: dict[str, dict[str, Any]] = {
    "plain": {}, "full colour": {"subsampling": 0}, "optimised": {"optimize": True}, "poor": {"quality": 20},
    "restarts": {"restart_marker_blocks": 4}, "fine": {"quality": 95},
}  # fmt: skip


@pytest.mark.parametrize("kind", JPEGS)
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_jpeg_whose_scan_ends_early_is_refused(kind, share):
    data, end = encoded(blocks(96, 64), "JPEG", **JPEGS[kind]), b"\xff\xd9"
    scan = data.index(b"\xff\xda") + 14
    cut = data[: scan + int(share * (len(data) - scan))].rstrip(b"\xff") + end
    # Behind the end may lie another file.
    for more in (b"", end, b"photograph", bytes(3), b"\0" + end, bytes(14) + end, bytes(90_000) + end, data):
        with raises(DataError, "cup.jpg"):
            decode(cut + more, "cup.jpg")


@pytest.mark.parametrize("size", [(1, 1), (8, 8), (17, 33), (96, 64)])
@pytest.mark.parametrize("kind", [*JPEGS, "progressive", "grey"])
def test_a_whole_jpeg_is_read_whatever_follows_its_end(kind, size):
    options = {"progressive": True} if kind == "progressive" else JPEGS.get(kind, {})
    pixels = blocks(*size)
    data = encoded(pixels[:, :, 0] if kind == "grey" else pixels, "JPEG", **options)
    plain = np.array(Image.open(io.BytesIO(data)).convert("RGB"))
    for end in (b"", b"\0" * 9, data):  # some cameras append a second picture
        assert (decode(data + end, "cup.jpg") == plain).all()


def test_a_jpeg_without_some_of_its_scans_is_refused():
    data = encoded(blocks(96, 64), "JPEG", progressive=True)
    scans = [at for at in range(len(data)) if data[at : at + 2] == b"\xff\xda"]
    assert len(scans) == 10
    for at in scans[1:]:
        with raises(DataError, "cup.jpg", "scans", "ends early"):
            decode(data[:at] + b"\xff\xd9", "cup.jpg")


@pytest.mark.parametrize("lossless", [True, False])
@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
def test_a_webp_that_ends_early_is_refused(lossless, share):
    data = encoded(blocks(96, 64), "WEBP", lossless=lossless)
    cut = data[: int(len(data) * share) // 2 * 2]
    sized = cut[:4] + struct.pack("<I", len(cut) - 8) + cut[8:16] + struct.pack("<I", len(cut) - 20) + cut[20:]
    with raises(DataError, "cup.webp"):
        decode(sized, "cup.webp")


def falling(path: Path, **options: str) -> bytes:
    return film(path, (blocks(64, 64, k) for k in range(20)), "mpeg4", **options)


@pytest.mark.parametrize("suffix", ["mp4", "mov", "avi", "mkv"])
def test_a_film_that_ends_early_is_refused(suffix, tmp_path):
    options = {"movflags": "faststart"} if suffix in ("mp4", "mov") else {}
    data = falling(tmp_path / f"fall.{suffix}", **options)
    assert sample_frames(data, "fall.mp4", 4).shape == (4, 64, 64, 3)
    for share in (0.2, 0.5, 0.7):
        with raises(DataError, "fall.mp4"):
            sample_frames(data[: int(len(data) * share)], "fall.mp4", 4)


def test_a_film_of_fewer_frames_than_it_lists_is_refused(tmp_path):
    data, draw = falling(tmp_path / "fall.mp4"), np.random.default_rng(0)
    start = data.index(b"mdat") + 4
    with raises(DataError, "fall.mp4"):  # the frames' bytes are there, but zeros: no packet is taken for a frame
        sample_frames(data[: start + 5000] + bytes(4000) + data[start + 9000 :], "fall.mp4", 4)
    for _ in range(60):
        changed = bytearray(data)
        for place in draw.integers(0, len(data), 8):
            changed[place] = draw.integers(256)
        try:
            assert sample_frames(bytes(changed), "fall.mp4", 4).shape[0] == 4
        except DataError as error:
            assert "fall.mp4" in str(error)


def write_tensors(path: Path) -> None:
    pytest.importorskip("safetensors.numpy").save_file({"x": np.ones((64, 8), np.float32)}, path)


def read_tensors(path: Path) -> object:
    from tellapart.models.torch.checkpoint import read_state_dict

    return read_state_dict(path)


SCORES = np.random.default_rng(0).random((8, 2, 2), np.float32)
PICTURES = [{"image": {"bytes": encoded(blocks(8, 8, k)), "path": "a.png"}} for k in range(9)]


@pytest.mark.parametrize(
    ("name", "write", "read"),
    [
        ("a.npy", lambda path: np.save(path, SCORES),
         lambda path: read_scores(path, ids=list("abcdefgh"), shape=(2, 2))),
        ("a.npz", lambda path: np.savez(path, ids=np.array(["a", "b", "c"]), scores=np.zeros((3, 2, 2), np.float32)),
         lambda path: read_scores(path, ids=list("abc"), shape=(2, 2), kind="similarity")),
        ("a.parquet", lambda path: write_file(path, PICTURES), image_columns),
        ("a.safetensors", write_tensors, read_tensors),
    ],
)  # fmt: skip
def test_an_array_or_a_table_without_all_its_rows_is_refused(name, write, read, tmp_path):
    path = tmp_path / name
    write(path)
    read(path)
    data = path.read_bytes()
    for share in (0.3, 0.9, 15 / 16, 0.99):  # of the array, all rows but the last are 15 of 16
        path.write_bytes(data[: int(len(data) * share)])
        with raises(TellapartError, name):
            read(path)
