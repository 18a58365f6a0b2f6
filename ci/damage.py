"""Every way to damage a file's bytes, drawn at random."""

import io
import random
import re
import struct
import warnings
import zipfile
from collections.abc import Callable

#: Pieces that readers stumble over.
_PIECES = [
    *(b"[" * 100_000, b'{"a":' * 100_000, b"[" * 90 + b"]" * 90, b"9" * 5_000, b"1e999", b"NaN", b"-Infinity", b"1_0"),
    *("１".encode(), b'"' + b"x" * 300_000 + b'"', b"\xff\xfe", b"\x00", b'"\\ud800"', b"null", b"true", b"-1"),
    *(b"a." * 20_000, b"(" * 9_000, b"(((", b"{[]: 1}", b"99999999999999", b"\x7f\xff\xff\xff\xff\xff\xff\xff"),
    b"e]0h\x00" * 50 + b"]" * 50,
]


def damage(valid: bytes, drawn: random.Random) -> tuple[str, bytes]:
    """Return what was done to a valid file, and the bytes that came of it."""
    ways = [way for way in _WAYS if way != "members"]
    way = drawn.choice([*ways, "members"] if zipfile.is_zipfile(io.BytesIO(valid)) else ways)
    return way, _WAYS[way](valid, drawn)


def _flip(data: bytes, drawn: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(drawn.choice([1, 1, 2, 8])):
        changed[drawn.randrange(len(changed))] ^= 1 << drawn.randrange(8)
    return bytes(changed)


def _overwrite(data: bytes, drawn: random.Random) -> bytes:
    start, length = drawn.randrange(len(data)), drawn.choice([1, 2, 4, 16])
    return data[:start] + drawn.randbytes(length) + data[start + length :]


def _cut(data: bytes, drawn: random.Random) -> bytes:
    return data[: drawn.randrange(len(data))]


def _remove(data: bytes, drawn: random.Random) -> bytes:
    start = drawn.randrange(len(data))
    return data[:start] + data[drawn.randrange(start, len(data)) :]


def _double(data: bytes, drawn: random.Random) -> bytes:
    lines = data.split(b"\n")
    place = drawn.randrange(len(lines))
    return b"\n".join([*lines[: place + 1], *lines[place:]])


def _swap(data: bytes, drawn: random.Random) -> bytes:
    a, b, c = sorted(drawn.randrange(len(data) + 1) for _ in range(3))
    return data[:a] + data[b:c] + data[a:b] + data[c:]


def _insert(data: bytes, drawn: random.Random) -> bytes:
    place = drawn.randrange(len(data) + 1)
    return data[:place] + drawn.choice(_PIECES) + data[place:]


def _replace(data: bytes, drawn: random.Random) -> bytes:
    values = list(re.finditer(rb'"[^"\n]*"|-?\d+(?:\.\d+)?', data))
    if not values:
        return _overwrite(data, drawn)
    one = drawn.choice(values)
    return data[: one.start()] + drawn.choice(_PIECES) + data[one.end() :]


def _twice(data: bytes, drawn: random.Random) -> bytes:
    keys = list(re.finditer(rb'"([^"\n]+)"\s*:\s*("[^"\n]*"|-?[\d.]+)', data))
    if not keys:
        return _double(data, drawn)
    one = drawn.choice(keys)
    value = drawn.choice([b"7", b'"other"', one[2]])
    both = [b'"' + one[1] + b'": ' + value, one[0]]
    return data[: one.start()] + b", ".join(both[:: drawn.choice([1, -1])]) + data[one.end() :]


def _repeat(data: bytes, drawn: random.Random) -> bytes:
    start = drawn.randrange(len(data))
    part = data[start : start + drawn.choice([1, 2, 8, 64])]
    return data[:start] + part * drawn.choice([2, 100, 20_000]) + data[start + len(part) :]


def _crafted(data: bytes, drawn: random.Random) -> bytes:
    """Keep the first bytes, which say the format, and go on with something else."""
    kept = data[: drawn.choice([0, 1, 2, 8, 10, 16, len(data) // 2])]
    return kept + b"".join(drawn.choice(_PIECES) for _ in range(drawn.choice([1, 2, 3])))


def _members(data: bytes, drawn: random.Random) -> bytes:
    """Rewrite an archive: a member twice, under two names, with another's bytes, another header, another packing."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    name, content = drawn.choice(members)
    header = drawn.choice(
        [b"(((", b"{[]: 1}", b"(" * 9_000, b"{'descr': '<f8', 'fortran_order': False, 'shape': (%d, 2)}"]
    )
    if b"%d" in header:
        header = header % drawn.choice([-1, 0, 10**12, 10**300])
    crafted = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header
    others = [(name, content), (name.removesuffix(".npy"), drawn.choice(members)[1]), (name, crafted)]
    others += [(name, _flip(content, drawn)), (name, content + b"more"), (drawn.choice(members)[0], content)]
    more = drawn.choice(others)
    changed = [more if each[0] == more[0] and drawn.random() < 0.5 else each for each in members]
    if more not in changed:
        changed.insert(drawn.randrange(len(changed) + 1), more)
    stream = io.BytesIO()
    method = drawn.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
    with warnings.catch_warnings(), zipfile.ZipFile(stream, "w", method) as archive:
        warnings.simplefilter("ignore")
        for each, bytes_ in changed:
            archive.writestr(each, bytes_)
    packed = stream.getvalue()
    return _flip(packed, drawn) if drawn.random() < 0.3 else packed


_WAYS: dict[str, Callable[[bytes, random.Random], bytes]] = {
    **{"flip": _flip, "overwrite": _overwrite, "cut": _cut, "remove": _remove, "double": _double, "swap": _swap},
    **{"insert": _insert, "replace value": _replace, "key twice": _twice, "repeat": _repeat, "crafted": _crafted},
    "members": _members,
}
