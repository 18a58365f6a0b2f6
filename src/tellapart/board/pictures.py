"""The pictures of an item, read from the folders that its runs named."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

from sqlmodel import Session, col, select

from tellapart.board.tables import Benchmark, Entry, Item
from tellapart.errors import TellapartError, UnknownNameError
from tellapart.records.result import Located, RunRecord
from tellapart.report.image_sources import ImageSources, small_picture


def picture(session: Session, slug: str, position: int, number: int) -> tuple[str, bytes]:
    """Return the media type and the bytes of an item's picture: small, as PNG, JPEG or WebP.

    The reference comes from the records, never from the address.
    """
    benchmark = session.exec(select(Benchmark).where(Benchmark.slug == slug)).first()
    if benchmark is None:
        raise UnknownNameError(f"this board has no benchmark {slug[:200]!r}")
    item = session.get(Item, (benchmark.id, position)) if 0 <= position < benchmark.n else None
    if item is None or not 0 <= number < len(item.images):
        raise UnknownNameError(f"{benchmark.name} has no picture {number} of item {position}")
    for sources in _image_sources(session, benchmark):
        try:
            read = _sources_reader(sources)
            if read is not None:
                return _named_picture(read(item.images[number]), item.images[number])
        except (TellapartError, OSError):
            continue
    raise UnknownNameError(f"{benchmark.name}: the picture {item.images[number]!r} is not on this machine")


def _image_sources(session: Session, benchmark: Benchmark) -> Iterator[ImageSources]:
    """Yield the places of the benchmark's images, as its runs recorded them."""
    of_benchmark = select(Entry.folder, Entry.run, Entry.record).where(Entry.benchmark_id == benchmark.id)
    for folder, run, record in session.exec(of_benchmark.order_by(col(Entry.id))):
        if folder and run:
            located, circumstances = record.get("own"), RunRecord.model_validate(run)
            yield ImageSources(
                folder=Path(folder),
                benchmark=benchmark.name if located else benchmark.name.partition("#")[0],
                own=Located.model_validate(located) if located else None,
                data=circumstances.data,
                images=circumstances.images,
            )


@lru_cache(maxsize=64)
def _sources_reader(sources: ImageSources) -> Callable[[str], bytes] | None:
    return sources.reader()


def _named_picture(data: bytes, name: str) -> tuple[str, bytes]:
    kind, small = small_picture(data, name)
    return f"image/{kind}", small
