"""Pictures that end early: Pillow takes some without a word, and fills the missing part with black or grey.

Pillow refuses a file that is cut off, and WebP's library every picture that lacks a part. Pillow takes a PNG whose
pixels end before its last row under valid checksums, and a JPEG whose end marker stands too early: in the middle of its
only scan, or before its last scans. Writers that fail halfway leave such files. A progressive JPEG whose last scan is
cut loses detail, not a part, and is not seen here.
"""

from __future__ import annotations

import io
import re
import struct
import zlib
from collections.abc import Iterator
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

#: A colour that hardly any picture ends in: a dark red, a dark grey, or the 92nd of a palette.
_RARE_COLOUR = 91

#: Samples of a pixel, by PNG's colour type.
_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}

#: The passes of an interlaced PNG (Adam7): first column and row, and the steps.
_PASSES = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))


def load_whole(picture: ImageFile, data: bytes) -> None:
    """Decode a picture that Pillow has opened, and that is the file of these bytes; refuse one that lacks a part.

    Raises:
        ValueError: a PNG holds fewer rows than its header states, or a JPEG lacks scans.
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
    """Decode a PNG, and expect all of its rows.

    Pillow leaves missing rows as they were. So the last pixel is coloured first; if it still has that colour, the
    pixels are unpacked again and counted. Those of an interlaced PNG always are: an early pass writes the last pixel.
    """
    from PIL import Image

    width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", data[16:29])
    blank, corner = Image.new(picture.mode, picture.size, None), (picture.width - 1, picture.height - 1)
    blank.putpixel(corner, _RARE_COLOUR)
    mark = blank.getpixel(corner)
    picture.im = blank.im
    picture.load()
    if not interlaced and picture.getpixel(corner) != mark:
        return
    passes = [(-(-(width - x) // dx), -(-(height - y) // dy)) for x, y, dx, dy in _PASSES]
    areas = passes if interlaced else [(width, height)]
    bits = depth * _CHANNELS[colour]
    stated = sum(rows * (1 + (columns * bits + 7) // 8) for columns, rows in areas if columns > 0)
    unpacker, held = zlib.decompressobj(), 0
    for packed in _packed_pixels(data):
        piece = packed
        while piece and held < stated and not unpacker.eof:  # at most 1 MiB is unpacked at a time
            held += len(unpacker.decompress(piece, 1 << 20))
            piece = unpacker.unconsumed_tail
    if held < stated:
        raise ValueError(f"it holds {held:,} bytes of pixels where its header says {stated:,}: it ends early")


def _packed_pixels(data: bytes) -> Iterator[bytes]:
    """Yield the content of a PNG's `IDAT` chunks."""
    at = 8
    while at + 8 <= len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        if kind == b"IDAT":
            yield data[at + 8 : at + 8 + size]
        at += 12 + size
