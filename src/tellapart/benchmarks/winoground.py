"""Winoground: 400 items of two images and two captions that hold the same words in another order.

Its pairs are gated and may not be redistributed, so this project carries none. They come from the hub once its
conditions are accepted, or from a folder with the hub's files: `data/test-*.parquet`, or the older `examples.jsonl`
with `images/`. Scores made elsewhere are measured without them: items are numbered 0 to 399 in every score file.

Tags: `collapsed_tag` (Object, Relation, Both), `tag` (the fine-grained swap; with more than 64 values it is not broken
down), `secondary_tag` (Morpheme-Level, Pragmatics...) and `num_main_preds` (main predicates of the captions).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.hub import Hub
from tellapart.benchmarks.locations import FolderImages, Locations, find_files
from tellapart.benchmarks.parquet import ParquetTable
from tellapart.data.annotations import expect_count, make_item, string
from tellapart.data.item import Item
from tellapart.data.pairset import Outline, PairSet
from tellapart.data.rows import read_jsonl
from tellapart.errors import DataError, quote

_ITEMS = 400
_IDS = tuple(str(number) for number in range(_ITEMS))
_TAGS = ("collapsed_tag", "tag", "secondary_tag", "num_main_preds")
_SIDES = ("image_0", "image_1")
_PARQUET, _LINES = "test-*.parquet", "examples.jsonl"


def _load_pairs(place: Locations) -> PairSet:
    folder = place.folder("winoground") or Path()
    rows: Iterator[tuple[str, Mapping[str, Any], list[str]]]
    read: Callable[[str], bytes]
    if files := find_files(folder, _PARQUET):
        read = table = ParquetTable(files, images=_SIDES)
        rows = ((where, row, [f"{k}/{side}" for side in _SIDES]) for k, (where, row) in enumerate(table.rows()))
    else:
        files = find_files(folder, _LINES)
        read = FolderImages(place.pictures("winoground", "images"), outside=place.outside)
        read_rows = ((f"{files[0]}:{line}", row) for line, row in read_jsonl(files[0]))
        rows = ((where, row, [f"{string(row, side, where)}.png" for side in _SIDES]) for where, row in read_rows)
    items, lines = [], {}
    for where, row, images in rows:
        items.append(_make_winoground_item(row, where, *images))
        lines[items[-1].id] = where
    expect_count(files[0], len(items), _ITEMS)
    return PairSet("winoground", tuple(items), folder, lines=lines, read=read)


def _make_winoground_item(row: Mapping[str, Any], place: str, *images: str) -> Item:
    number = str(row.get("id", ""))
    if number not in _IDS:
        raise DataError(f"{place}: field 'id': expected a number from 0 to {_ITEMS - 1}, got {quote(row.get('id'))}")
    return make_item(
        place,
        id=number,
        images=images,
        texts=(string(row, "caption_0", place), string(row, "caption_1", place)),
        tags={tag: _check_tag(row[tag], tag, place) for tag in _TAGS if row.get(tag) not in (None, "")},
    )


def _check_tag(value: object, tag: str, place: str) -> str:
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise DataError(f"{place}: field {tag!r}: expected text or a number, got {quote(value)}")
    return str(value)


WINOGROUND = Benchmark(
    name="winoground",
    title="Winoground: the same words in another order",
    items=_ITEMS,
    shape=(2, 2),
    source="https://huggingface.co/datasets/facebook/winoground",
    licence="META IMAGES RESEARCH LICENSE: gated, no redistribution",
    citation="Thrush et al., Winoground: Probing Vision and Language Models for Visio-Linguistic Compositionality, "
    "CVPR 2022",
    files=(f"{_PARQUET}|{_LINES}",),
    images="Winoground's own 800, with the captions",
    hub=Hub("facebook/winoground", "5a77092c28e51558c5586e9c5eb71a7e17a5e43f", (_PARQUET,), gated=True),
    load=_load_pairs,
    known=lambda: Outline(_IDS, (2, 2), _IDS, ({},) * _ITEMS),
)
