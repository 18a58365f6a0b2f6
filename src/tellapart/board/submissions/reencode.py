"""Images encoded again from their pixels, so that all images of a benchmark are alike.

A format, a time stamp, a quantisation table or a thumbnail would tell an edited image from its original photograph. So
all images of a benchmark are written in one format with one setting: as PNG where every source is lossless (rendered
scenes, EqBen's frames), else as JPEG of quality 95 without chroma subsampling, since photographs as PNG would be
several times as large. What JPEG lost in a source stays lost.
"""

from __future__ import annotations

import io
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

__all__ = ["reencode", "suffix_for"]


def suffix_for(files: Iterable[bytes]) -> str:
    """Return the suffix of all images of a benchmark: `.png`, or `.jpg` if one of them is lossy already.

    Args:
        files: the source images; none is read after the first lossy one.

    >>> suffix_for([b"\\x89PNG...", b"\\xff\\xd8\\xff..."])
    '.jpg'
    """
    return ".png" if all(map(_lossless, files)) else ".jpg"


def _lossless(data: bytes) -> bool:
    return data.startswith((b"\x89PNG", b"\x93NUMPY")) or (data.startswith(b"RIFF") and data[12:16] == b"VP8L")


def reencode(pixels: NDArray[np.uint8], suffix: str) -> bytes:
    """Return an image file without metadata: the same bytes for the same pixels.

    Args:
        pixels: RGB, uint8 `(height, width, 3)`.
        suffix: as `suffix_for` returns it.

    >>> reencode(np.zeros((2, 2, 3), np.uint8), ".png")[:4]
    b'\\x89PNG'
    """
    from PIL import Image

    stream, image = io.BytesIO(), Image.fromarray(pixels)
    if suffix == ".png":
        image.save(stream, "PNG")
    else:
        image.save(stream, "JPEG", quality=95, subsampling=0)
    return stream.getvalue()
