"""Pictures that end early: Pillow takes them without a word, and fills the missing part with black or grey.

A PNG may hold fewer rows than its header promises, a JPEG may lack scans or the end of its only one, under valid
checksums and a proper end. WebP's library refuses such files by itself. A JPEG of several scans (progressive) whose
last one is cut loses detail, not a part, and is not seen here.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["expect_rows", "mark_rows", "without_end"]

#: Bytes that libjpeg reads ahead of the last block: without them it would refuse a complete JPEG, too.
_AHEAD = bytes(8)

#: JPEG's end marker, and the markers that end a scan: restart markers are within one.
_END, _AFTER_SCAN = re.compile(rb"\xff\xd9"), re.compile(rb"\xff[\x01-\xcf\xd8-\xfe]")

_BASELINE, _SEQUENTIAL, _PROGRESSIVE, _END_OF_IMAGE, _SCAN, _PADDING = 0xC0, 0xC1, 0xC2, 0xD9, 0xDA, 0xFF

#: Samples of a pixel, by PNG's colour type.
_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}

#: A colour that hardly any picture ends in, by Pillow's mode of a PNG.
_MARKS: dict[str, int | tuple[int, ...]] = {
    "1": 255, "L": 91, "P": 91, "LA": (91, 17), "RGB": (91, 163, 29), "RGBA": (91, 163, 29, 17), "I;16": 23395,
    "I": 23395,
}  # fmt: skip

#: Adam7's passes: first column and row, and the steps.
_PASSES = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))


def without_end(data: bytes) -> bytes:
    """Return a JPEG of one scan without its end marker, so that Pillow refuses one that ends early; others as they are.

    At the marker libjpeg would fill the missing blocks with grey; at the end of the bytes it asks for more.

    Raises:
        ValueError: a JPEG of several scans lacks some.
    """
    if not data.startswith(b"\xff\xd8\xff"):
        return data
    several, components = False, b""
    for kind, body, start in _read_segments(data):
        if kind in (_BASELINE, _SEQUENTIAL, _PROGRESSIVE):
            several, components = kind == _PROGRESSIVE, body[5:6]
        if kind == _SCAN:
            if several or body[:1] != components:
                _expect_scans(data)
                return data
            end = _END.search(data, start)  # within a scan, 0xff is followed by 0 or a restart marker
            return data[: end.start()] + _AHEAD if end else data
    return data


def _read_segments(data: bytes) -> Iterator[tuple[int, bytes, int]]:
    """Yield the kind, the content and the end of each segment of a JPEG; a scan's blocks stand behind its segment."""
    at = 2
    while at + 4 <= len(data) and data[at] == _PADDING and data[at + 1] != _END_OF_IMAGE:
        kind, end = data[at + 1], at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")
        if kind == _PADDING:
            at += 1
            continue
        yield kind, data[at + 4 : end], end
        behind = _AFTER_SCAN.search(data, end) if kind == _SCAN else None
        at = behind.start() if behind else len(data) if kind == _SCAN else end


def _expect_scans(data: bytes) -> None:
    """Expect that the scans of a JPEG of several hold every coefficient of every component to its last bit.

    Source: ITU-T T.81, B.2.3 (scan header) and G.1.2 (progressive).
    """
    progressive = False
    lacking: dict[int, list[int]] = {}  # component -> bits that each of 64 coefficients still lacks
    for kind, body, _ in _read_segments(data):
        if kind in (_BASELINE, _SEQUENTIAL, _PROGRESSIVE) and len(body) > 5:
            progressive = kind == _PROGRESSIVE
            lacking = {one: [99] * (64 if progressive else 1) for one in body[6 : 6 + 3 * body[5] : 3]}
        if kind == _SCAN and body:
            first, last, low = body[-3], body[-2], body[-1] & 15
            for component in body[1 : 1 + 2 * body[0] : 2]:
                if component in lacking:
                    places = slice(first, min(last, 63) + 1) if progressive else slice(1)
                    lacking[component][places] = [low if progressive else 0] * len(lacking[component][places])
    if short := [component for component, bits in lacking.items() if any(bits)]:
        raise ValueError(f"scans of {len(short)} of its {len(lacking)} components are missing: it ends early")


def mark_rows(picture: Image.Image, data: bytes) -> bool:
    """Colour the last pixel of a PNG that was opened and not decoded yet; return whether this was done.

    Pillow leaves missing rows as they were.
    """
    from PIL import Image

    if not data.startswith(b"\x89PNG") or picture.mode not in _MARKS:
        return False
    blank = Image.new(picture.mode, picture.size, None)
    blank.putpixel((picture.width - 1, picture.height - 1), _MARKS[picture.mode])
    picture.im = blank.im
    return True


def expect_rows(picture: Image.Image, data: bytes, marked: bool) -> None:
    """Expect that a decoded PNG held all of its rows.

    The pixels are unpacked again, and counted, if the last one is still as it was marked. Those of an interlaced PNG
    always are: an early pass writes the last one.
    """
    if not marked:
        return
    width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", data[16:29])
    if not interlaced and picture.getpixel((width - 1, height - 1)) != _MARKS[picture.mode]:
        return
    bits = depth * _CHANNELS.get(colour, 1)
    passes = [(-(-(width - x) // dx), -(-(height - y) // dy)) for x, y, dx, dy in _PASSES]
    areas = passes if interlaced else [(width, height)]
    wanted = sum(rows * (1 + (columns * bits + 7) // 8) for columns, rows in areas if columns > 0 and rows > 0)
    held = _count_unpacked(data, wanted)
    if held < wanted:
        raise ValueError(f"it holds {held:,} bytes of pixels where its header says {wanted:,}: it ends early")


def _count_unpacked(data: bytes, most: int) -> int:
    """Count the bytes that a PNG's data unpack to, up to a number."""
    unpacker, count, at = zlib.decompressobj(), 0, 8
    while at + 8 <= len(data) and count < most and not unpacker.eof:
        size, kind = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
        piece = data[at + 8 : at + 8 + size] if kind == b"IDAT" else b""
        while piece and count < most:
            count += len(unpacker.decompress(piece, 1 << 20))
            piece = unpacker.unconsumed_tail
        at += 12 + size
    return count
