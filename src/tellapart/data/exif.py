"""The orientation of a picture in its EXIF block, and the turn that puts it upright."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

__all__ = ["orientation", "turn_upright"]

_ORDERS: dict[bytes, Literal["little", "big"]] = {b"II*\0": "little", b"MM\0*": "big"}
_ORIENTATION = 0x0112
_SIZES = {3: 2, 4: 4}  # bytes of the types SHORT and LONG

#: Orientation -> mirror along the diagonal first, then upside down, then left to right.
_TURNS = {
    2: (False, False, True),
    3: (False, True, True),
    4: (False, True, False),
    5: (True, False, False),
    6: (True, False, True),
    7: (True, True, True),
    8: (True, True, False),
}


def orientation(exif: bytes) -> int:
    """Return the orientation, 1 to 8, that an EXIF block gives; 1, upright, where it gives none.

    A damaged block counts as none: many a photograph of the benchmarks carries one around an intact picture. Pillow's
    own reader warns of such blocks, and a warning can only be silenced for the whole process with all its threads.

    Args:
        exif: a TIFF header and its first directory, with or without `Exif\\0\\0` before it.

    Source: EXIF 2.32, sections 4.5.2 (header), 4.6.2 (directory), 4.6.4 A (tag 274).

    >>> orientation(b"MM\\0*\\0\\0\\0\\x08\\0\\x01" b"\\x01\\x12\\0\\x03\\0\\0\\0\\x01\\0\\x06\\0\\0")
    6
    >>> orientation(b"nothing of the kind")
    1
    """
    tiff = exif.removeprefix(b"Exif\0\0")
    order = _ORDERS.get(tiff[:4])
    if order is None:
        return 1

    def number(at: int, size: int) -> int:
        return int.from_bytes(tiff[at : at + size], order)

    start = number(4, 4) + 2
    end = min(start + 12 * number(start - 2, 2), len(tiff) - 11)
    for entry in range(start, end, 12):
        if number(entry, 2) == _ORIENTATION:
            value = number(entry + 8, _SIZES.get(number(entry + 2, 2), 0))
            return value if value in _TURNS else 1
    return 1


def turn_upright(pixels: NDArray[np.uint8], orientation: int) -> NDArray[np.uint8]:
    """Turn pixels `(height, width, 3)` upright, given their EXIF orientation; 5 to 8 swap height and width.

    >>> turn_upright(np.zeros((2, 5, 3), np.uint8), 6).shape
    (5, 2, 3)
    """
    if orientation not in _TURNS:
        return pixels
    diagonal, vertical, horizontal = _TURNS[orientation]
    upright = pixels.transpose(1, 0, 2) if diagonal else pixels
    return np.ascontiguousarray(upright[:: -1 if vertical else 1, :: -1 if horizontal else 1])
