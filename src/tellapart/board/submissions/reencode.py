"""Images written anew from their pixels: nothing of the file that they came in is left, and all of a benchmark are alike.

A format, a time stamp, a quantisation table or a thumbnail tells an edited image from the photograph that it was made of. So
all images of a benchmark are written in one format with one setting: as PNG where every source is without loss (rendered
scenes, EqBen's frames), else as JPEG of quality 95 without chroma subsampling, since photographs as PNG are several times as
large as they came. What JPEG's own loss left in the pixels of a photograph stays in them.
"""

from __future__ import annotations

import io
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

__all__ = ["rewritten", "suffix_for"]


def suffix_for(files: Iterable[bytes]) -> str:
    """Return what all images of a benchmark are written as: `.png`, or `.jpg` if one of them has lost something already.

    Args:
        files: the images' own; none is looked at behind the first that is a JPEG or a lossy WebP.

    >>> suffix_for([b"\\x89PNG...", b"\\xff\\xd8\\xff..."])
    '.jpg'
    """
    return ".png" if all(map(_lossless, files)) else ".jpg"


def _lossless(data: bytes) -> bool:
    return data.startswith((b"\x89PNG", b"\x93NUMPY")) or (data.startswith(b"RIFF") and data[12:16] == b"VP8L")


def rewritten(pixels: NDArray[np.uint8], suffix: str) -> bytes:
    """Return an image file of pixels alone: no metadata, and the same bytes for the same pixels.

    Args:
        pixels: RGB, uint8 `(height, width, 3)`.
        suffix: as `suffix_for` returns it.

    >>> rewritten(np.zeros((2, 2, 3), np.uint8), ".png")[:4]
    b'\\x89PNG'
    """
    from PIL import Image

    stream, image = io.BytesIO(), Image.fromarray(pixels)
    if suffix == ".png":
        image.save(stream, "PNG")
    else:
        image.save(stream, "JPEG", quality=95, subsampling=0)
    return stream.getvalue()
