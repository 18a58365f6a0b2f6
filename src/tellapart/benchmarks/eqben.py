"""EqBen: 251,048 quadruples of two images and two captions, from videos, rendered scenes and edited pictures.

Three layouts are read: the flat list of a million rows, a JSON file for each dataset, and a list of rows of any.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.locations import FolderImages, Locations, find_files
from tellapart.benchmarks.minimal_pairs import PUBLISHED
from tellapart.data.fields import field_fault
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.data.rows import expect_count, make_item, row_of, string
from tellapart.data.strict_json import read_json
from tellapart.errors import DataError, quote

#: Dataset, as annotations and paths name it -> the `subset` tag, and its number of quadruples.
SUBSETS: dict[str, tuple[str, int]] = {name: tuple(facts) for name, facts in PUBLISHED["eqben"]["subsets"].items()}

#: Datasets whose frames come from videos: quadruples of one video are resampled together.
_VIDEOS = {"eqbenyoucook2", "eqbengebc", "eqbenag"}

#: Names of folders next to the annotations in which the images usually lie.
_PICTURES = ("images", "image_subset")

_FLAT = "ann_json_finegrained_random.json"
#: Names of a quadruple's rows, caption and image -> place in `[image][caption]`.
_CORNERS = {"c0i0": 0, "c1i0": 1, "c0i1": 2, "c1i1": 3}

#: The rows of a quadruple, by their place in `[image][caption]`: number in the file, image and caption.
_Corners = list[tuple[int, Any, Any] | None]


def load_pairs(place: Locations, _benchmark: Benchmark) -> PairSet:
    """Load the quadruples of whichever layout the folder holds."""
    folder = place.folder("eqben") or Path()
    rows = None
    if files := find_files(folder, _FLAT):
        items, rows = _read_flat(files[0])
    elif files := [path for name in SUBSETS for path in find_files(folder, f"{name}.json")]:
        items = [item for path in files for item in _read_subset(path, path.stem)]
    else:
        files = find_files(folder, "*.json")
        if len(files) > 1:
            names = ", ".join(path.name for path in files[:5])
            fault = f"holds {len(files)} JSON files, none named as EqBen's are ({names}); keep one of them"
            raise DataError(f"{folder} {fault}")
        items = _read_subset(files[0])
    return PairSet("eqben", tuple(items), place.pictures("eqben", *_PICTURES), read=open_pictures(place), rows=rows)


def open_pictures(place: Locations, _benchmark: Benchmark | None = None) -> FolderImages:
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
            valid = type(count) is int and dataset in SUBSETS  # a bool is an int, too
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
    for dataset, (_, published) in SUBSETS.items():
        expect_count(f"{path}: {dataset}", held[dataset], published)
    return items, np.array(rows, np.int64).reshape(-1, 2, 2)


def _unknown_corner(value: object, place: str) -> str:
    """Describe the problem of a row that names no corner of a quadruple."""
    info = row_of(value, place).get("private_info")
    if not isinstance(info, Mapping):
        why = "which tells the four rows of a quadruple; get the version of 2023-09 or later"
        return f"{place}: no 'private_info', {why}"
    return (
        f"{place}: field 'private_info': expected a dataset of {', '.join(SUBSETS)}, a name of {', '.join(_CORNERS)} "
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
        if of not in SUBSETS:
            raise field_fault(place, "image0", f"expected a path below {', '.join(SUBSETS)};", row["image0"])
        captions = []
        for field in ("caption0", "caption1"):
            text = row.get(field)
            captions.append(string({field: text[0]} if isinstance(text, list) and text else row, field, place))
        images = (string(row, "image0", place), string(row, "image1", place))
        items.append(_make_eqben_item(place, of, number, images, (captions[0], captions[1]), *keys[:1]))
    if dataset:
        expect_count(path, len(items), SUBSETS[dataset][1])
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
    tags = {"subset": SUBSETS[dataset][0]}
    return make_item(place, id=f"{dataset}/{number}", images=images, texts=captions, tags=tags, cluster=cluster)
