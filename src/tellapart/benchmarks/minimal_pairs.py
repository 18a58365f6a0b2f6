"""Published sets of minimal pairs whose files follow rules that no template has: Winoground, VALSE, EqBen..."""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.locations import FolderImages, Locations, find_files, first_file
from tellapart.benchmarks.parquet import ParquetTable
from tellapart.data.fields import field_fault, split_words
from tellapart.data.folder import read_pair_set
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


#: The embedded set, as the builders wrote it.
DEMO_FOLDER = Path(__file__).with_name("demo_pairs")


def load_demo(_place: Locations, benchmark: Benchmark) -> PairSet:
    """Load the embedded pairs."""
    return read_pair_set(DEMO_FOLDER, benchmark.name)


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


# EqBen: the flat list of a million rows, a JSON file for each dataset, or a list of rows of any

#: Dataset, as annotations and paths name it -> the `subset` tag, and its number of quadruples.
EQBEN: dict[str, tuple[str, int]] = {name: tuple(facts) for name, facts in PUBLISHED["eqben"]["subsets"].items()}

#: Datasets whose frames come from videos: quadruples of one video are resampled together.
_VIDEOS = {"eqbenyoucook2", "eqbengebc", "eqbenag"}

#: Names of folders next to the annotations in which the images usually lie.
_PICTURES = ("images", "image_subset")

_FLAT = "ann_json_finegrained_random.json"
#: Names of a quadruple's rows, caption and image -> place in `[image][caption]`.
_CORNERS = {"c0i0": 0, "c1i0": 1, "c0i1": 2, "c1i1": 3}

#: The rows of a quadruple, by their place in `[image][caption]`: number in the file, image and caption.
_Corners = list[tuple[int, Any, Any] | None]


def load_eqben(place: Locations, _benchmark: Benchmark) -> PairSet:
    """Load the quadruples of whichever layout the folder holds."""
    folder = place.folder("eqben") or Path()
    rows = None
    if files := find_files(folder, _FLAT):
        items, rows = _read_flat(files[0])
    elif files := [path for name in EQBEN for path in find_files(folder, f"{name}.json")]:
        items = [item for path in files for item in _read_subset(path, path.stem)]
    else:
        files = find_files(folder, "*.json")
        if len(files) > 1:
            names = ", ".join(path.name for path in files[:5])
            fault = f"holds {len(files)} JSON files, none named as EqBen's are ({names}); keep one of them"
            raise DataError(f"{folder} {fault}")
        items = _read_subset(files[0])
    return PairSet("eqben", tuple(items), place.pictures("eqben", *_PICTURES), read=open_eqben(place), rows=rows)


def open_eqben(place: Locations, _benchmark: Benchmark | None = None) -> FolderImages:
    """Return the reader of the images."""
    suffixes = (".jpg", ".png", ".npy")
    return FolderImages(place.pictures("eqben", *_PICTURES), suffixes=suffixes, outside=place.outside)


def _read_flat(path: Path) -> tuple[list[Item], NDArray[np.int64]]:
    """Put the quadruples of the flat list together, in the order of their global counter; and list the places of their
    rows.

    A million rows: nothing is written for a message before it is needed, and each row is looked at once.
    """
    quadruples: dict[tuple[int, str], _Corners] = {}
    for number, row in enumerate(read_json(path, list)):
        try:
            info = row["private_info"]
            count, dataset, corner = info["sample_cnt"], info["dataset"], _CORNERS[info["name"]]
            valid = type(count) is int and dataset in EQBEN  # a bool is an int, too
        except (KeyError, TypeError):
            valid = False
        if not valid:
            raise DataError(_unknown_corner(row, f"{path}: row {number}"))
        corners = quadruples.setdefault((count, dataset), [None] * len(_CORNERS))
        if corners[corner]:
            raise DataError(f"{path}: row {number}: {info['name']} of {dataset} {count} is in the file already")
        corners[corner] = (number, row.get("image"), row.get("caption"))
    file, items, rows = str(path), [], array("q")
    for count, dataset in sorted(quadruples):
        numbers, item = _make_quadruple(f"{file}: {dataset} {count}", count, dataset, quadruples[count, dataset])
        items.append(item)
        rows.extend(numbers)
    held = Counter(dataset for _, dataset in quadruples)
    for dataset, (_, published) in EQBEN.items():
        expect_count(f"{path}: {dataset}", held[dataset], published)
    return items, np.array(rows, np.int64).reshape(-1, 2, 2)


def _unknown_corner(value: object, place: str) -> str:
    """Describe the problem of a row that names no corner of a quadruple."""
    info = row_of(value, place).get("private_info")
    if not isinstance(info, Mapping):
        why = "which tells the four rows of a quadruple; get the version of 2023-09 or later"
        return f"{place}: no 'private_info', {why}"
    return (
        f"{place}: field 'private_info': expected a dataset of {', '.join(EQBEN)}, a name of {', '.join(_CORNERS)} "
        f"and a whole sample_cnt; got {quote(dict(info), 120)}"
    )


def _make_quadruple(where: str, count: int, dataset: str, corners: _Corners) -> tuple[tuple[int, ...], Item]:
    if None in corners:
        missing = [name for name, place in _CORNERS.items() if corners[place] is None]
        raise DataError(f"{where}: {', '.join(missing)} missing; the file is incomplete")
    numbers, images, captions = zip(*filter(None, corners), strict=True)
    for field, values in (("image", images), ("caption", captions)):
        for value in values:
            if not isinstance(value, str) or not value.strip():
                raise field_fault(where, field, "expected text", value)
    (image0, beside0, image1, beside1), (caption0, caption1, below0, below1) = images, captions
    if (image0, image1, caption0, caption1) != (beside0, beside1, below0, below1):
        raise DataError(f"{where}: its four rows are not two images by two captions")
    return numbers, _make_eqben_item(where, dataset, count, (image0, image1), (caption0, caption1))


def _read_subset(path: Path, dataset: str = "") -> list[Item]:
    """Read one dataset's file; without a dataset, a list of rows from any, whose paths name theirs."""
    items = []
    content = _rows_below(read_json(path), ()) if dataset else (((), row) for row in read_json(path, list))
    for number, (keys, value) in enumerate(content):
        place = f"{path}: row {number}" + (f" ({'/'.join(keys)})" if keys else "")
        row = row_of(value, place)
        of = dataset or string(row, "image0", place).partition("/")[0]
        if of not in EQBEN:
            raise field_fault(place, "image0", f"expected a path below {', '.join(EQBEN)};", row["image0"])
        captions = []
        for field in ("caption0", "caption1"):
            text = row.get(field)
            captions.append(string({field: text[0]} if isinstance(text, list) and text else row, field, place))
        images = (string(row, "image0", place), string(row, "image1", place))
        items.append(_make_eqben_item(place, of, number, images, (captions[0], captions[1]), *keys[:1]))
    if dataset:
        expect_count(path, len(items), EQBEN[dataset][1])
    return items


def _rows_below(value: object, keys: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the rows of lists below any levels of named objects, with those names."""
    if isinstance(value, list):
        yield from ((keys, row) for row in value)
    elif isinstance(value, dict) and len(keys) < 3:
        for key, inner in value.items():
            yield from _rows_below(inner, (*keys, key))
    else:
        yield keys, value


def _make_eqben_item(
    place: str, dataset: str, number: int, images: tuple[str, str], captions: tuple[str, str], video: str = ""
) -> Item:
    folder = images[0].rpartition("/")[0]  # of a video's frames, dataset/video/frame.png, or the dataset's
    own = folder if dataset in _VIDEOS and "/" in folder else f"{dataset}/{number}"
    cluster = f"{dataset}/{video}" if video else own
    tags = {"subset": EQBEN[dataset][0]}
    return make_item(place, id=f"{dataset}/{number}", images=images, texts=captions, tags=tags, cluster=cluster)
