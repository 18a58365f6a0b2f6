"""Pictures of a run: read from the run's sources, and embedded in the page as data URIs within a budget."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, islice

from tellapart.data.video import as_picture, decode_slot
from tellapart.errors import DataError

#: Items whose pictures are made together.
_AHEAD = 32

#: A file up to this size is embedded unchanged; a larger one is scaled down.
KEEP_BYTES = 48_000

#: The longer side of a picture that was scaled down, in pixels.
LONGEST_SIDE = 320

_SIGNATURES = ((b"\x89PNG\r\n\x1a\n", "png"), (b"\xff\xd8\xff", "jpeg"))


@dataclass(frozen=True, slots=True)
class Album:
    """The pictures of one benchmark.

    Attributes:
        uris: distinct pictures.
        index: reference -> index into `uris`.
        left_out: items without pictures because the budget was used up.
        unreadable: references that could not be read or decoded.
    """

    uris: tuple[str, ...]
    index: dict[str, int]
    left_out: int
    unreadable: tuple[str, ...]

    @property
    def size(self) -> int:
        """Characters that the pictures take in the file."""
        return sum(map(len, self.uris))


def small_picture(data: bytes, name: str) -> tuple[str, bytes]:
    """Return an image's format and bytes for a page: unchanged if it is small, else 320 pixels wide or high, as
    JPEG.
    """
    kind = _web_format(data)
    if kind is None or len(data) > KEEP_BYTES:
        return "jpeg", _scale_down(data, name)
    return kind, data


def data_uri(data: bytes, name: str) -> str:
    """Return an image file as a data URI, made small as `small_picture` does."""
    kind, data = small_picture(data, name)
    return f"data:image/{kind};base64,{base64.b64encode(data).decode('ascii')}"


def album(items: Iterable[Sequence[str]], read: Callable[[str], bytes], budget: int) -> Album:
    """Embed items' pictures in the order given until the budget is used up; an item has all its pictures or none."""

    def make(name: str) -> str | None:
        try:
            return data_uri(read(name), name)
        except DataError:  # one broken file must not cost the report; the page counts them
            return None

    uris: dict[str, str] = {}
    unreadable: dict[str, None] = {}
    size, left_out, full = 0, 0, False
    waiting = iter(items)
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        while block := list(islice(waiting, _AHEAD)):
            names = [] if full else [n for n in dict.fromkeys(chain(*block)) if n not in uris and n not in unreadable]
            pictures = dict(zip(names, pool.map(make, names), strict=True))
            for references in block:
                fresh = {n: pictures.get(n) for n in references if n not in uris and n not in unreadable}
                new = {name: uri for name, uri in fresh.items() if uri is not None}
                if not full:
                    unreadable |= {name: None for name in fresh if name not in new}
                    size += sum(map(len, new.values()))
                    full = size > budget
                if full:
                    left_out += bool(fresh)
                else:
                    uris |= new
    index = {name: number for number, name in enumerate(uris)}
    return Album(tuple(uris.values()), index, left_out, tuple(unreadable))


def _web_format(data: bytes) -> str | None:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "webp"
    return next((kind for signature, kind in _SIGNATURES if data.startswith(signature)), None)


def _scale_down(data: bytes, name: str) -> bytes:
    from PIL import Image

    picture = Image.fromarray(as_picture(decode_slot(data, name)))
    picture.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
    target = io.BytesIO()
    picture.save(target, "JPEG", quality=80)  # a third of the time that WebP takes
    return target.getvalue()
