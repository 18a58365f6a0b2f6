"""BiVLC: 2,933 items of SugarCrepe with a generated image for the negative caption.

From the hub, or from a folder with the hub's `test-*.parquet` (columns `image, caption, negative_image,
negative_caption, type, subtype`), or, for scores made elsewhere, from one of the result tables that its authors publish
(`BiVLC_*.csv`: the captions and the categories, no images). Items are numbered in the published order, as in score
files; a table in another order is refused, because ids would move.

No file names the COCO image that an item starts from, yet 1,161 images give all 2,933 items (found by looking the
captions up in SugarCrepe). With the images, those with the same bytes are one cluster; without, those with the
same positive caption (2,390 captions); without any file each item is a separate cluster, and intervals come out too
narrow.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from tellapart.benchmarks.benchmark import ALL, Benchmark
from tellapart.benchmarks.hub import Hub
from tellapart.benchmarks.locations import Locations, find_files
from tellapart.benchmarks.parquet import ParquetTable
from tellapart.data.annotations import expect_count, make_item, string
from tellapart.data.item import Item
from tellapart.data.pairset import Outline, PairSet
from tellapart.data.rows import read_csv
from tellapart.errors import DataError

#: Type, subtype and number of items, in the published order.
BLOCKS = (
    ("add", "obj", 399),
    ("add", "att", 76),
    ("replace", "obj", 1200),
    ("replace", "att", 437),
    ("replace", "rel", 462),
    ("swap", "obj", 81),
    ("swap", "att", 278),
)

_PARQUET, _TABLE = "test-*.parquet", "BiVLC_*.csv"


def _load_pairs(place: Locations) -> PairSet:
    folder = place.folder("bivlc") or Path()
    files = find_files(folder, _PARQUET)
    items, read = _with_images(files) if files else _read_captions(files := find_files(folder, _TABLE))
    expect_count(files[0], len(items), BIVLC.items)
    _expect_order(items, files[0])
    return PairSet("bivlc", tuple(items), folder, read=read)


def _with_images(files: list[Path]) -> tuple[list[Item], Callable[[str], bytes]]:
    table = ParquetTable(files, images=("image", "negative_image"))
    items = []
    for number, (place, row) in enumerate(table.rows()):
        images = (f"{number}/image", f"{number}/negative_image")
        items.append(_make_bivlc_item(row, place, number, images, hashlib.sha256(table(images[0])).hexdigest()[:16]))
    return items, table


def _read_captions(files: list[Path]) -> tuple[list[Item], Callable[[str], bytes]]:
    def refuse(reference: str) -> bytes:
        raise DataError(f"no image {reference!r}: {files[0]} is a table of captions; the images are in {_PARQUET}")

    items = []
    for number, (line, row) in enumerate(read_csv(files[0])):
        place, images = f"{files[0]}:{line}", (f"{number}_0.png", f"{number}_1.png")
        items.append(_make_bivlc_item(row, place, number, images, string(row, "caption", place)))
    return items, refuse


def _make_bivlc_item(row: Mapping[str, Any], place: str, number: int, images: tuple[str, str], cluster: str) -> Item:
    texts = (string(row, "caption", place), string(row, "negative_caption", place))
    tags = _make_tags(string(row, "type", place), string(row, "subtype", place))
    return make_item(place, id=str(number), images=images, texts=texts, tags=tags, cluster=cluster)


def _make_tags(kind: str, subtype: str) -> dict[str, str]:
    return {"type": kind, "subtype": f"{kind} {subtype}"}


def _expect_order(items: list[Item], place: Path) -> None:
    blocks = [(*label.split(), len(list(group))) for label, group in groupby(item.tags["subtype"] for item in items)]
    if blocks != list(BLOCKS):
        raise DataError(
            f"{place}: its rows are not in the published order (add, replace, swap in {len(BLOCKS)} blocks; here "
            f"{len(blocks)}); items are numbered by it, so that scores would go to other items: take the published file"
        )


def _outline_known() -> Outline:
    ids = tuple(str(number) for number in range(BIVLC.items))
    tags = tuple(_make_tags(kind, subtype) for kind, subtype, count in BLOCKS for _ in range(count))
    return Outline(ids, (2, 2), ids, tags)


def _paper_table(by_type: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Return I2T, T2I and group score over all items, then by type."""
    groups = {"": ALL, "replace ": "replace", "swap ": "swap", "add ": "add"}
    columns = {"I2T": "text_score", "T2I": "image_score", "Group": "group_score"}
    return {group + name: 100 * by_type[kind][key] for group, kind in groups.items() for name, key in columns.items()}


BIVLC = Benchmark(
    name="bivlc",
    title="BiVLC: SugarCrepe with an image for the negative caption",
    items=sum(count for *_, count in BLOCKS),
    shape=(2, 2),
    source="https://huggingface.co/datasets/imirandam/BiVLC",
    licence="MIT; half of the images are COCO's",
    citation="Miranda et al., BiVLC: Extending Vision-Language Compositionality Evaluation with Text-to-Image "
    "Retrieval, NeurIPS 2024",
    files=(f"{_PARQUET}|{_TABLE}",),
    images="its own 5,866, in the parquet files",
    cluster="the COCO image (same bytes); without images the positive caption; without files the item",
    hub=Hub("imirandam/BiVLC", "6c99042f10a8793cc2c76af16b98ab1e38705d03", (_PARQUET,)),
    load=_load_pairs,
    known=_outline_known,
    paper=("type", _paper_table),
)
