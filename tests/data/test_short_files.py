"""Files that end early under a valid header, valid checksums and a proper end: refused, in each format that is read."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from facts import raises
from tellapart.data.images import decode
from tellapart.data.npz import read_arrays
from tellapart.data.video import sample_frames
from tellapart.errors import DataError, TellapartError
from tellapart.models.memory.external import read_scores


def noise(height: int, width: int, seed: int = 0) -> NDArray[np.uint8]:
    """Blocks of colour under noise: a picture whose parts all differ."""
    drawn = np.random.default_rng(seed)
    blocks = np.kron(drawn.integers(0, 255, (-(-height // 8), -(-width // 8), 3)), np.ones((8, 8, 1)))
    return (blocks[:height, :width] + drawn.normal(0, 9, (height, width, 3))).clip(0, 255).astype(np.uint8)


def saved(pixels: NDArray[Any], kind: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, kind, **options)
    return stream.getvalue()


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


#: PNG's colour types: depth, type, bytes of a pixel.
PNGS = {"grey": (8, 0, 1), "16 bits": (16, 0, 2), "colour": (8, 2, 3), "palette": (8, 3, 1), "alpha": (8, 6, 4)}


def png(width: int, height: int, rows: int, kind: str = "colour", value: int = 7) -> bytes:
    """A PNG that says `height` rows and holds fewer."""
    depth, colour, size = PNGS[kind]
    data = (b"\0" + bytes([value]) * size * width) * rows
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0))
    palette = chunk(b"PLTE", bytes(range(24))) if colour == 3 else b""
    pixels = chunk(b"IDAT", zlib.compress(data))
    return b"\x89PNG\r\n\x1a\n" + head + palette + pixels + chunk(b"IEND", b"")


@pytest.mark.parametrize("kind", PNGS)
@pytest.mark.parametrize("rows", [1, 10, 39])
def test_a_png_of_fewer_rows_than_it_says_is_refused(kind: str, rows: int) -> None:
    with raises(DataError, "cup.png", "ends early"):
        decode(png(30, 40, rows, kind), "cup.png")


@pytest.mark.parametrize("kind", PNGS)
@pytest.mark.parametrize("value", [0, 7, 91])
@pytest.mark.filterwarnings("ignore:.*of 16 bits")
def test_a_png_of_all_its_rows_is_read_even_if_they_are_black(kind: str, value: int) -> None:
    assert decode(png(30, 40, 40, kind, value=value), "cup.png").shape == (40, 30, 3)


def test_a_png_whose_last_row_is_cut_is_refused() -> None:
    data = zlib.compress((b"\0" + b"\7" * 90) * 40)
    short = zlib.compress(zlib.decompress(data)[:-1])
    with raises(DataError, "cup.png"):
        decode(png(30, 40, 40).replace(chunk(b"IDAT", data), chunk(b"IDAT", short)), "cup.png")


def test_an_interlaced_png_is_counted_by_its_passes() -> None:
    areas = [(2, 1), (1, 1), (3, 1), (2, 2), (5, 2), (4, 4), (9, 3)]  # columns and rows of Adam7's passes over 9 x 7
    rows = [b"\0" + b"\7" * 3 * columns for columns, count in areas for _ in range(count)]
    head = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 9, 7, 8, 2, 0, 0, 1))
    whole, short = (
        head + chunk(b"IDAT", zlib.compress(b"".join(part))) + chunk(b"IEND", b"") for part in (rows, rows[:-1])
    )
    assert (decode(whole, "cup.png") == 7).all()
    with raises(DataError, "cup.png", "ends early"):
        decode(short, "cup.png")


@pytest.mark.parametrize("rows", [1, 39, 40])
@pytest.mark.parametrize("value", [0, 255])
def test_a_png_of_one_bit_is_counted_too(rows: int, value: int) -> None:
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 30, 40, 1, 0, 0, 0, 0))
    pixels = chunk(b"IDAT", zlib.compress((b"\0" + bytes([value]) * 4) * rows))
    data = b"\x89PNG\r\n\x1a\n" + head + pixels + chunk(b"IEND", b"")
    if rows == 40:
        assert (decode(data, "cup.png") == value).all()
    else:
        with raises(DataError, "cup.png", "ends early"):
            decode(data, "cup.png")


#: Ways to write a JPEG: sequential in one scan, and progressive.
JPEGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "full colour": {"subsampling": 0},
    "optimised": {"optimize": True},
    "restarts": {"restart_marker_blocks": 4},
    "poor": {"quality": 20},
}


@pytest.mark.parametrize("kind", JPEGS)
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_jpeg_whose_scan_ends_early_is_refused(kind: str, share: float) -> None:
    data = saved(noise(96, 64), "JPEG", **JPEGS[kind])
    scan = data.index(b"\xff\xda") + 14
    cut = data[: scan + int(share * (len(data) - scan))].rstrip(b"\xff") + b"\xff\xd9"
    for end in (b"", b"\xff\xd9", b"photograph"):
        with raises(DataError, "cup.jpg"):
            decode(cut + end, "cup.jpg")


def test_a_jpeg_that_ends_early_before_another_file_is_refused() -> None:
    data = saved(noise(96, 64), "JPEG", quality=95)
    scan = data.index(b"\xff\xda") + 14
    for left in (300, len(data) - scan - 20):  # of fewer bytes the last block's colour alone may hang
        cut = data[: len(data) - 2 - left].rstrip(b"\xff") + b"\xff\xd9"
        for more in (b"", b"\0" * 3, b"\0\xff\xd9", b"\0" * 14 + b"\xff\xd9", bytes(90_000) + b"\xff\xd9", data):
            with raises(DataError, "cup.jpg"):
                decode(cut + more, "cup.jpg")


@pytest.mark.parametrize("size", [(1, 1), (8, 8), (17, 33), (96, 64)])
@pytest.mark.parametrize("kind", [*JPEGS, "progressive", "grey"])
def test_a_whole_jpeg_is_read_whatever_follows_its_end(kind: str, size: tuple[int, int]) -> None:
    options = {"progressive": True} if kind == "progressive" else JPEGS.get(kind, {})
    pixels = noise(*size)
    data = saved(pixels[:, :, 0] if kind == "grey" else pixels, "JPEG", **options)
    with Image.open(io.BytesIO(data)) as picture:
        plain = np.array(picture.convert("RGB"))
    for end in (b"", b"\0" * 9, data):  # some cameras append a second picture
        assert (decode(data + end, "cup.jpg") == plain).all()


def test_a_jpeg_without_some_of_its_scans_is_refused() -> None:
    data = saved(noise(96, 64), "JPEG", progressive=True)
    scans = [at for at in range(len(data)) if data[at : at + 2] == b"\xff\xda"]
    assert len(scans) == 10
    for at in scans[1:]:
        with raises(DataError, "cup.jpg", "scans", "ends early"):
            decode(data[:at] + b"\xff\xd9", "cup.jpg")


@pytest.mark.parametrize("lossless", [True, False])
@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
def test_a_webp_that_ends_early_is_refused(lossless: bool, share: float) -> None:
    data = saved(noise(96, 64), "WEBP", lossless=lossless)
    cut = data[: int(len(data) * share) // 2 * 2]
    sized = cut[:4] + struct.pack("<I", len(cut) - 8) + cut[8:16] + struct.pack("<I", len(cut) - 20) + cut[20:]
    with raises(DataError, "cup.webp"):
        decode(sized, "cup.webp")


def film(path: Path, codec: str, frames: int = 20, **options: str) -> bytes:
    av = pytest.importorskip("av")
    with av.open(str(path), "w", options=options) as container:
        stream = container.add_stream(codec, rate=10, width=64, height=64)
        stream.pix_fmt = "yuv420p"
        for k in range(frames):
            frame = av.VideoFrame.from_ndarray(noise(64, 64, k), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path.read_bytes()


@pytest.mark.parametrize(
    ("suffix", "codec", "options"),
    [
        ("mp4", "mpeg4", {"movflags": "faststart"}),
        ("mov", "mpeg4", {"movflags": "faststart"}),
        ("avi", "mpeg4", {}),
        ("mkv", "mpeg4", {}),
    ],
)
def test_a_film_that_ends_early_is_refused(suffix: str, codec: str, options: dict[str, str], tmp_path: Path) -> None:
    data = film(tmp_path / f"fall.{suffix}", codec, **options)
    assert sample_frames(data, "fall.mp4", 4).shape == (4, 64, 64, 3)
    for share in (0.2, 0.5, 0.7):
        with raises(DataError, "fall.mp4"):
            sample_frames(data[: int(len(data) * share)], "fall.mp4", 4)


def test_a_film_of_fewer_frames_than_it_lists_is_refused(tmp_path: Path) -> None:
    """The frames' bytes are there, but zeros: no packet is taken for a frame."""
    data = bytearray(film(tmp_path / "fall.mp4", "mpeg4"))
    start = data.index(b"mdat") + 4
    data[start + 5000 : start + 9000] = bytes(4000)
    with raises(DataError, "fall.mp4"):
        sample_frames(bytes(data), "fall.mp4", 4)


def write_npy(path: Path) -> None:
    np.save(path, np.random.default_rng(0).random((8, 2, 2), np.float32))


def write_npz(path: Path) -> None:
    np.savez(path, ids=np.array(["a", "b", "c"]), scores=np.zeros((3, 2, 2), np.float32))


def write_table(path: Path) -> None:
    parquet, arrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    data = [saved(noise(8, 8, k), "PNG") for k in range(9)]
    image = arrow.array([{"bytes": one, "path": "a.png"} for one in data])
    parquet.write_table(arrow.table({"image": image}), path, row_group_size=3)


def write_tensors(path: Path) -> None:
    pytest.importorskip("safetensors.numpy").save_file({"x": np.ones((64, 8), np.float32)}, path)


def read_table(path: Path) -> object:
    from tellapart.benchmarks.parquet import image_columns

    return image_columns(path)


def read_tensors(path: Path) -> object:
    from tellapart.models.torch.checkpoint import read_state_dict

    return read_state_dict(path)


@pytest.mark.parametrize(
    ("name", "write", "read"),
    [
        ("a.npy", write_npy, lambda path: read_scores(path, ids=[f"i{k}" for k in range(8)], shape=(2, 2))),
        ("a.npz", write_npz, lambda path: read_arrays(path, ("ids", "scores"))),
        ("a.parquet", write_table, read_table),
        ("a.safetensors", write_tensors, read_tensors),
    ],
)
def test_an_array_or_a_table_without_all_its_rows_is_refused(
    name: str, write: Callable[[Path], None], read: Callable[[Path], object], tmp_path: Path
) -> None:
    path = tmp_path / name
    write(path)
    read(path)
    data = path.read_bytes()
    for share in (0.3, 0.9, 0.99):
        path.write_bytes(data[: int(len(data) * share)])
        with raises(TellapartError, name):
            read(path)
