"""Published sets of minimal pairs whose files follow rules that no template has: Winoground, VALSE, BiVLC..."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.locations import FolderImages, Locations, find_files, first_file
from tellapart.benchmarks.parquet import ParquetTable
from tellapart.data.fields import field_fault, split_words
from tellapart.data.item import Item
from tellapart.data.pairset import Outline, PairSet
from tellapart.data.rows import expect_count, make_item, read_csv, read_jsonl, read_toml, row_of, string
from tellapart.data.strict_json import read_json
from tellapart.data.task_records import ChoiceSet
from tellapart.errors import DataError, quote

#: The numbers of published files.
PUBLISHED = read_toml(Path(__file__).with_name("minimal_pairs.toml"))


def _in_folder(name: str, items: Iterable[Item], place: Locations, *usual: str, **facts: Any) -> PairSet:
    """Return items whose images lie in the folder that the user names, or in a usual one."""
    root = place.pictures(name, *usual)
    return PairSet(name, tuple(items), root, read=FolderImages(root, outside=place.outside), **facts)


def _keyed_rows(path: Path, rows: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], str]]:
    """Yield the rows of an object: the key, the row, and its place for messages."""
    for key, row in rows.items():
        place = f"{path}: item {quote(key, 40)}"
        yield key, row_of(row, place), place


# SugarCrepe

#: File -> its numbers of items: now and, if it differs, in older copies.
SUBSETS: dict[str, tuple[int, ...]] = {subset: tuple(counts) for subset, counts in PUBLISHED["subsets"].items()}


def same_words(first: str, second: str) -> bool:
    """Return whether two captions hold the same words, as often, in any order: case and punctuation aside."""
    one, other = (Counter(split_words(caption, "'")) for caption in (first, second))
    return one == other


def load_sugarcrepe(place: Locations, _benchmark: Benchmark) -> PairSet:
    """Load the seven files' items."""
    folder = place.folder("sugarcrepe") or Path()
    items: list[Item] = []
    for subset, published in SUBSETS.items():
        path = find_files(folder, f"{subset}.json")[0]
        content = read_json(path, dict)
        content.pop("accuracy", None)
        expect_count(path, len(content), *published)
        for key, row, where in _keyed_rows(path, content):
            id_, image = f"{subset}/{key}", string(row, "filename", where)
            captions = string(row, "caption", where), string(row, "negative_caption", where)
            tags = {"subset": subset, "bag_of_words": "same" if same_words(*captions) else "differs"}
            items.append(make_item(where, id=id_, images=(image,), texts=captions, tags=tags, cluster=image))
    return _in_folder("sugarcrepe", items, place, "val2017", "images")


def load_sugarcrepe_choice(place: Locations, benchmark: Benchmark) -> ChoiceSet:
    """Load the same items as choices between two captions."""
    return ChoiceSet.of_pairs(load_sugarcrepe(place, benchmark))


# Winoground

_PARQUET, _LINES = "test-*.parquet", "examples.jsonl"
_ITEMS = 400
_IDS = tuple(map(str, range(_ITEMS)))
_TAGS = ("collapsed_tag", "tag", "secondary_tag", "num_main_preds")
_SIDES = ("image_0", "image_1")


def load_winoground(place: Locations, _benchmark: Benchmark) -> PairSet:
    """Load the 400 items from the hub's files, or the older lines and images."""
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
    items = {where: _make_winoground_item(row, where, *images) for where, row, images in rows}
    expect_count(files[0], len(items), _ITEMS)
    lines = {item.id: where for where, item in items.items()}
    return PairSet("winoground", tuple(items.values()), folder, lines=lines, read=read)


def _make_winoground_item(row: Mapping[str, Any], place: str, *images: str) -> Item:
    number = str(row.get("id", ""))
    if number not in _IDS:
        raise field_fault(place, "id", f"expected a number from 0 to {_ITEMS - 1}", row.get("id"))
    tags = {tag: row[tag] for tag in _TAGS if row.get(tag) not in (None, "")}
    for tag, value in tags.items():
        if not isinstance(value, str | int) or isinstance(value, bool):
            raise field_fault(place, tag, "expected text or a number", value)
    texts = (string(row, "caption_0", place), string(row, "caption_1", place))
    return make_item(place, id=number, images=images, texts=texts, tags={tag: str(tags[tag]) for tag in tags})


def outline_winoground() -> Outline:
    """Return the outline of the items, which are numbered."""
    return Outline(_IDS, (2, 2), _IDS, ({},) * _ITEMS)


# BiVLC

#: Type, subtype and number of items, in the published order.
BLOCKS: tuple[tuple[str, str, int], ...] = tuple(map(tuple, PUBLISHED["blocks"]))

_TABLE = "BiVLC_*.csv"


def load_bivlc(place: Locations, _benchmark: Benchmark) -> PairSet:
    """Load the items from the hub's files, or from a table of captions, which has no images."""
    folder = place.folder("bivlc") or Path()
    read: Callable[[str], bytes]
    rows: Iterable[tuple[str, Mapping[str, Any]]]
    if files := find_files(folder, _PARQUET):
        read = table = ParquetTable(files, images=("image", "negative_image"))
        rows, names = table.rows(), "{}/image {}/negative_image"
    else:
        files = find_files(folder, _TABLE)
        read, names = partial(_refuse_image, files[0]), "{}_0.png {}_1.png"
        rows = ((f"{files[0]}:{line}", row) for line, row in read_csv(files[0]))
    items = []
    for number, (where, row) in enumerate(rows):
        first, second = names.format(number, number).split()
        texts = (string(row, "caption", where), string(row, "negative_caption", where))
        cluster = texts[0] if first.endswith(".png") else hashlib.sha256(read(first)).hexdigest()[:16]
        tags = _bivlc_tags(string(row, "type", where), string(row, "subtype", where))
        items.append(make_item(where, id=str(number), images=(first, second), texts=texts, tags=tags, cluster=cluster))
    expect_count(files[0], len(items), sum(count for *_, count in BLOCKS))
    _expect_order(items, files[0])
    return PairSet("bivlc", tuple(items), folder, read=read)


def _refuse_image(path: Path, reference: str) -> bytes:
    raise DataError(f"no image {reference!r}: {path} is a table of captions; the images are in {_PARQUET}")


def _bivlc_tags(kind: str, subtype: str) -> dict[str, str]:
    return {"type": kind, "subtype": f"{kind} {subtype}"}


def _expect_order(items: list[Item], place: Path) -> None:
    blocks = [(*label.split(), len(list(group))) for label, group in groupby(item.tags["subtype"] for item in items)]
    if blocks != list(BLOCKS):
        raise DataError(
            f"{place}: its rows are not in the published order (add, replace, swap in {len(BLOCKS)} blocks; here "
            f"{len(blocks)}); items are numbered by it, so that scores would go to other items: take the published file"
        )


def outline_bivlc() -> Outline:
    """Return the outline of the items, as far as it is known without a file."""
    tags = tuple(_bivlc_tags(kind, subtype) for kind, subtype, count in BLOCKS for _ in range(count))
    ids = tuple(map(str, range(len(tags))))
    return Outline(ids, (2, 2), ids, tags)


# VALSE

#: Instrument -> items in its file, and those that pass the annotators.
INSTRUMENTS: dict[str, tuple[int, int]] = {name: tuple(counts) for name, counts in PUBLISHED["instruments"].items()}


def load_valse(place: Locations, _benchmark: Benchmark) -> PairSet:
    """Load the items of the eleven instruments."""
    folder = place.folder("valse") or Path()
    items: list[Item] = []
    for instrument, (published, passing) in INSTRUMENTS.items():
        path = find_files(folder, f"{instrument}.json")[0]
        rows = read_json(path, dict)
        expect_count(path, len(rows), published)
        valid = [*_read_valse(instrument, path, rows)]
        expect_count(path, len(valid), passing, what="items that two annotators agree on")
        items += valid
    return _in_folder("valse", items, place, "images")


def _read_valse(instrument: str, path: Path, rows: Mapping[str, Any]) -> Iterator[Item]:
    """Yield the items that the annotators agree on."""
    for key, row, place in _keyed_rows(path, rows):
        votes, foils = row.get("mturk"), row.get("foils")
        if not isinstance(votes, Mapping) or not isinstance(votes.get("caption"), int):
            raise field_fault(place, "mturk.caption", "expected a number of annotators", votes)
        if votes["caption"] < 2:
            continue
        first = {"foils[0]": foils[0]} if "foil" not in row and isinstance(foils, list) and foils else row
        foil = string(first, "foil" if first is row else "foils[0]", place)
        image, dataset = string(row, "image_file", place), string(row, "dataset", place)
        tags = {
            "instrument": instrument,
            "phenomenon": string(row, "linguistic_phenomena", place),
            "pool": "foil-it" if instrument == "foil-it" else "without foil-it",
        }
        texts = (string(row, "caption", place), foil)
        cluster = f"{dataset}/{image}"
        yield make_item(place, id=f"{instrument}/{key}", images=(image,), texts=texts, tags=tags, cluster=cluster)


# What'sUp, the controlled photographs

_PLACES = (("left",), ("right",), ("on", "in-front"), ("under", "behind"))


def load_whatsup(place: Locations, benchmark: Benchmark, *, folder: str) -> PairSet:
    """Load the sets of four images of two things."""
    path = first_file(place, benchmark.name, benchmark.files[0])
    sets: dict[tuple[str, str], dict[int, tuple[int, str, list[str]]]] = {}
    for number, value in enumerate(read_json(path, list)):
        where = f"{path}: row {number}"
        row = row_of(value, where)
        image, options = string(row, "image_path", where), row.get("caption_options")
        parts = image.rpartition("/")[2].rpartition(".")[0].split("_")
        side = next((k for k, names in enumerate(_PLACES) if len(parts) > 2 and parts[1] in names), None)
        listed = options if isinstance(options, list) else []
        texts = [text for text in listed if isinstance(text, str) and text.strip()]
        if side is None or len(texts) != 4 or texts != options:
            raise DataError(f"{where}: expected an image THING_WHERE_THING and four captions, got {quote(row)}")
        if sets.setdefault((parts[0], parts[-1]), {}).setdefault(side, (number, image, texts))[0] != number:
            raise DataError(f"{where}: {image}: its two things have an image of that kind already")
    made, rows = [], np.empty((len(sets), 4, 4), np.int64)
    for index, ((first, other), four) in enumerate(sets.items()):
        where = f"{path}: {first} and {other}"
        texts = [four[side][2][0] for side in sorted(four)]
        if len(four) != 4 or any(sorted(options) != sorted(texts) for _, _, options in four.values()):
            raise DataError(f"{where}: expected four images with the same four captions, each true of one")
        for side, (number, _, options) in four.items():
            rows[index, side] = [4 * number + options.index(text) for text in texts]
        images = tuple(f"{folder}/{four[side][1].rpartition('/')[2]}" for side in range(4))
        made.append(make_item(where, id=f"{first}+{other}", images=images, texts=tuple(texts)))
    expect_count(path, len(made), benchmark.items, what="sets of four images")
    return _in_folder(benchmark.name, made, place, ".", rows=rows)
