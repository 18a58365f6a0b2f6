"""Pictures that end early: Pillow takes them without a word, and fills the missing part with black or grey.

A PNG may hold fewer rows than its header promises, a JPEG may lack scans or the end of its only one, under valid
checksums and a proper end. WebP's library refuses such files by itself. A JPEG of several scans (progressive) whose
last one is cut loses detail, not a part, and is not seen here.
"""

from __future__ import annotations

import re
import struct
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["AHEAD", "expect_rows", "find_tail", "mark_rows", "without_end"]

#: Bytes that libjpeg reads ahead of the last block.
AHEAD = bytes(8)

#: Bytes at the end of a scan that no decoder can do without, and the end marker.
_TAIL = 18

#: JPEG's end marker, and the markers that end a scan: restart markers are within one. Searches by numpy are faster
#: alone, but after a picture was decoded their code is in no cache.
_END, _AFTER_SCAN = re.compile(rb"\xff\xd9"), re.compile(rb"\xff[\x01-\xcf\xd8-\xfe]")

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
    """
    if not data.startswith(b"\xff\xd8\xff"):
        return data
    start, alone = _read_head(data)
    if not alone:
        _expect_scans(data)
        return data
    end = _END.search(data, start)  # within a scan, 0xff is followed by 0 or a restart marker
    return data[: end.start()] + AHEAD if end else data


def find_tail(data: bytes) -> int | None:
    """Return the place near the end of a JPEG of one scan up to which a decoder must ask for more; None of others.

    A decoder that is given the bytes before this place and is content with them met an end marker there, and filled the
    rest with grey: `without_end` finds it. One that asks for the others, which hold the end marker alone, met none.
    """
    if not data.startswith(b"\xff\xd8\xff") or not data.endswith(b"\xff\xd9") or not _read_head(data)[1]:
        return None
    tail = max(2, len(data) - _TAIL)
    return tail if data.find(b"\xff\xd9", tail - 1) == len(data) - 2 else None


def _read_head(data: bytes) -> tuple[int, bool]:
    """Return the place after the head of the first scan, and whether it is the only one."""
    at, components, progressive = 2, 0, False
    while at + 4 <= len(data) and data[at] == 0xFF:
        kind, size = data[at + 1], int.from_bytes(data[at + 2 : at + 4], "big")
        if kind == 0xFF:  # padding
            at += 1
            continue
        if kind in (0xC0, 0xC1, 0xC2):
            progressive, components = kind == 0xC2, data[at + 9] if at + 9 < len(data) else 0
        if kind == 0xDA:
            return at + 2 + size, not progressive and at + 4 < len(data) and data[at + 4] == components
        at += 2 + size
    return len(data), True


def _expect_scans(data: bytes) -> None:
    """Expect that the scans of a JPEG of several hold every coefficient of every component to its last bit.

    Source: ITU-T T.81, B.2.3 (scan header) and G.1.2 (progressive).
    """
    wanted: set[int] = set()
    lacking: dict[int, list[int]] = {}  # component -> bits that each of 64 coefficients still lacks
    progressive, at = False, 2
    while at + 4 <= len(data) and data[at] == 0xFF:
        kind, size = data[at + 1], int.from_bytes(data[at + 2 : at + 4], "big")
        body = data[at + 4 : at + 2 + size]
        if kind == 0xD9:
            break
        if kind == 0xFF:
            at += 1
            continue
        at += 2 + size
        if kind in (0xC0, 0xC1, 0xC2) and len(body) > 5:
            progressive, wanted = kind == 0xC2, set(body[6 : 6 + 3 * body[5] : 3])
            lacking = {one: [99] * (64 if progressive else 1) for one in wanted}
        if kind == 0xDA and body:
            first, last, low = body[-3], body[-2], body[-1] & 15
            for component in body[1 : 1 + 2 * body[0] : 2]:
                if component in lacking:
                    places = slice(first, min(last, 63) + 1) if progressive else slice(1)
                    lacking[component][places] = [low if progressive else 0] * len(lacking[component][places])
            behind = _AFTER_SCAN.search(data, at)
            at = behind.start() if behind else len(data)
    short = [component for component, bits in lacking.items() if any(bits)]
    if short:
        raise ValueError(f"scans of {len(short)} of its {len(wanted)} components are missing: it ends early")


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

    The pixels are only unpacked again, and counted, if the last one is still as it was marked.
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
