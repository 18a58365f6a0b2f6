"""Pictures that end early: Pillow takes some without a word, and fills the missing part with black or grey.

Pillow refuses a file that is cut off, and WebP's library every picture that lacks a part. Pillow takes a PNG whose
pixels end before its last row under valid checksums, and a JPEG whose end marker stands too early: in the middle of its
only scan, or before its last scans. Writers that fail halfway leave such files. A progressive JPEG whose last scan is
cut loses detail, not a part, and is not seen here.
"""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.ImageFile import ImageFile

__all__ = ["load_whole"]

_PNG, _JPEG = b"\x89PNG", b"\xff\xd8\xff"

#: The header of a JPEG's scan, up to the number of its components. A scan's data holds no such bytes: there 0xff is
#: followed by 0 or by a restart marker.
_SCAN = re.compile(rb"\xff\xda\0[\x08\x0a\x0c\x0e]([\x01-\x04])")
_END_OF_IMAGE = re.compile(rb"\xff\xd9")  # faster than bytes.find in a photograph

#: Bytes that libjpeg reads ahead of the last block: without them it would refuse a complete JPEG, too.
_AHEAD = bytes(8)

#: For each coefficient of a JPEG's block, more bits than it has.
_ALL_BITS = bytes([99]) * 64

#: Colours of one pixel of any mode. Hardly any picture ends in the first: dark red, dark grey or a palette's 92nd.
_COLOURS = (91, 0)


def load_whole(picture: ImageFile, data: bytes) -> None:
    """Decode a picture that Pillow has opened, and that is the file of these bytes; refuse one that lacks a part.

    Raises:
        ValueError: a PNG holds fewer pixels than its header states, or a JPEG lacks scans.
        Exception: Pillow cannot decode it; of many types.
    """
    if data.startswith(_PNG):
        _load_rows(picture, data)
    else:
        if data.startswith(_JPEG):
            _expect_scans(picture, data)
        picture.load()


def _expect_scans(picture: ImageFile, data: bytes) -> None:
    """Expect every scan of a JPEG, and have Pillow itself refuse a JPEG of one scan that ends early."""
    start = _first_scan(data)
    end = _END_OF_IMAGE.search(data, start) if start > 0 else None
    if end is None:  # Pillow refuses it
        return
    sequential = "progressive" not in picture.info
    # The bits that each coefficient of a component still lacks.
    layers = getattr(picture, "layer", ())
    missing_bits = {component: bytearray(_ALL_BITS) for component, *_ in layers}
    for scan in _SCAN.finditer(data, start, end.start()):
        selectors = scan.end() + 2 * scan[1][0]
        components = data[scan.end() : selectors : 2]
        if sequential and len(components) == len(missing_bits):
            # At its end marker libjpeg would fill the missing blocks with grey; at the end of the bytes it asks for
            # more, which Pillow refuses.
            picture.fp = io.BytesIO(data[: end.start()] + _AHEAD)
            return
        # Source: ITU-T T.81, B.2.3 (scan header) and G.1.2 (progressive).
        first, last, low = (0, 63, 0) if sequential else data[selectors : selectors + 3]
        for component in missing_bits.keys() & {*components}:
            missing_bits[component][first : last + 1] = bytes([low & 15]) * (last + 1 - first)
    if incomplete := [component for component, bits in missing_bits.items() if any(bits)]:
        raise ValueError(f"scans of {len(incomplete)} of its {len(missing_bits)} components are missing: it ends early")


def _first_scan(data: bytes) -> int:
    """Return the place of the first scan's header behind a JPEG's other segments; -1 if there is none."""
    at = 2
    while at + 4 <= len(data) and data[at] == 0xFF:
        if data[at : at + 2] == b"\xff\xda":
            return at
        is_padding = data[at + 1] == 0xFF
        at += 1 if is_padding else 2 + int.from_bytes(data[at + 2 : at + 4])
    return -1


def _load_rows(picture: ImageFile, data: bytes) -> None:
    """Decode a PNG, and expect the last of its pixels.

    Pillow leaves missing pixels as they were. So the last that it writes is coloured first; if it still has that
    colour, the file is decoded again over another one.
    """
    from PIL import Image

    column, row = picture.width - 1, picture.height - 1
    if data[28]:  # interlaced (Adam7): the last pass has the odd rows; of a single row, it has the odd columns
        if row:
            row -= (row + 1) % 2
        elif column:
            column -= (column + 1) % 2
    for colour in _COLOURS:
        decoded = picture if colour == _COLOURS[0] else type(picture)(io.BytesIO(data))
        ground = Image.new(picture.mode, picture.size, None)
        ground.putpixel((column, row), colour)
        mark = ground.getpixel((column, row))
        decoded.im = ground.im
        decoded.load()
        if decoded.getpixel((column, row)) != mark:
            return
    raise ValueError("it lacks its last pixels: it ends early")
