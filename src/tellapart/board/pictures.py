"""The pictures of an item, read from the folders that its runs named."""

from __future__ import annotations

import base64
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from sqlmodel import Session, select

from tellapart.benchmarks.find import find_benchmark
from tellapart.benchmarks.locations import Locations
from tellapart.board.tables import Benchmark, Entry, Item
from tellapart.errors import DataError, TellapartError, UnknownNameError
from tellapart.report.pictures import data_uri

__all__ = ["picture"]

Read = Callable[[str], bytes]


def picture(session: Session, slug: str, position: int, number: int) -> tuple[str, bytes]:
    """Return the media type and the bytes of an item's picture: small, as PNG, JPEG or WebP.

    The reference comes from the records, never from the address.

    Raises:
        UnknownNameError: there is no such benchmark, item or picture, or its file is missing.
    """
    benchmark = session.exec(select(Benchmark).where(Benchmark.slug == slug)).first()
    if benchmark is None:
        raise UnknownNameError(f"this board has no benchmark {slug[:200]!r}")
    item = session.get(Item, (benchmark.id, position)) if 0 <= position < benchmark.n else None
    if item is None or not 0 <= number < len(item.images):
        raise UnknownNameError(f"{benchmark.name} has no picture {number} of item {position}")
    runs = session.exec(select(Entry.run).where(Entry.benchmark_id == benchmark.id)).all()
    folders = {(run.get("data"), run.get("images")) for run in runs if run}
    for data, images in sorted(folders, key=str):
        try:
            read = _reader(benchmark.name, data, images)
            if read is not None:
                return _decode(data_uri(read(item.images[number]), item.images[number]))
        except (TellapartError, OSError):
            continue
    raise UnknownNameError(f"{benchmark.name}: the picture {item.images[number]!r} is not on this machine")


@lru_cache(maxsize=64)
def _reader(benchmark: str, data: str | None, images: str | None) -> Read | None:
    # Folders that are gone have no images.
    named = (Path(folder) if folder and Path(folder).is_dir() else None for folder in (data, images))
    return find_benchmark(benchmark, Locations(*named)).read_image()


def _decode(uri: str) -> tuple[str, bytes]:
    head, _, body = uri.partition(",")
    if not head.startswith("data:image/"):
        raise DataError(f"expected a picture, got {head[:40]!r}")
    return head.removeprefix("data:").removesuffix(";base64"), base64.b64decode(body)
