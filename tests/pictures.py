"""Image files and films for tests."""

import io
import struct
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

Pixels = NDArray[np.uint8]


def noise(height: int = 6, width: int = 9, seed: int = 0) -> Pixels:
    """Draw a picture that no turn, mirror or swap of channels leaves as it is."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def encoded(pixels: NDArray[Any] | Image.Image, form: str = "PNG", **options: Any) -> bytes:
    """Return an image file of a form or suffix: WebP without loss, and npy as EqBen has it, BGR."""
    stream = io.BytesIO()
    if form == "npy":
        np.save(stream, pixels[:, :, ::-1])
        return stream.getvalue()
    form = {"JPG": "JPEG"}.get(form.upper(), form.upper())
    options = {"lossless": True, **options} if form == "WEBP" else options
    (pixels if isinstance(pixels, Image.Image) else Image.fromarray(pixels)).save(stream, form, **options)
    return stream.getvalue()


def plain(colour: object = 0, size: tuple[int, int] = (8, 8), form: str = "PNG") -> bytes:
    """Return an image file of one colour or grey, `size` wide and high."""
    return encoded(np.full((size[1], size[0], 3), colour, np.uint8), form)


def chunk(name: bytes, data: bytes) -> bytes:
    """Return a chunk of a PNG file."""
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(
    width: int, height: int, rows: bytes, depth: int = 8, colour: int = 2, passes: int = 0, more: bytes = b""
) -> bytes:
    """Return a PNG that says its size, depth and type of colour, and holds these rows, and chunks before them."""
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, passes))
    return b"\x89PNG\r\n\x1a\n" + head + more + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def draw(seed: int, kind: str = "PNG", size: int = 4) -> bytes:
    """Return an image file of noise."""
    return encoded(noise(size, size, seed), kind)


def film(
    path: Path, frames: Iterable[Pixels], codec: str = "mpeg4", *,
    rate: int = 10, ticks: Iterable[int] | None = None, form: str = "yuv420p", **options: str,
) -> bytes:  # fmt: skip
    """Write a film of pictures, each shown from its tick on if they are given; return the file's bytes."""
    av, pictures = pytest.importorskip("av", reason="needs the video extra: av"), list(frames)
    height, width, _ = pictures[0].shape
    with av.open(str(path), "w", options=options) as container:
        stream = container.add_stream(codec, rate=rate, width=width, height=height)
        stream.pix_fmt = form
        for tick, pixels in zip(ticks or range(len(pictures)), pictures, strict=True):
            frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
            frame.pts = tick
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path.read_bytes()
