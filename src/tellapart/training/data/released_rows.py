"""Training rows as two papers released them: NegCLIP's TSV files, and COCO-Counterfactuals' CSV files.

Both come as the fields of `rows`' JSONL, each with its place in the file, so that one function checks them all.
"""

from __future__ import annotations

import ast
import csv
import io
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from tellapart.data.rows import read_csv
from tellapart.data.strict_json import decode_text, read_whole
from tellapart.errors import DataError, quote

__all__ = ["csv_rows", "tsv_rows"]

_COLUMNS = ("title", "filepath", "neg_caption", "neg_image")
#: The authors' folder of an image -> which of a pair's two pictures the hub's release has it as.
_SIDES = {"synthetic-images-for-original-captions": 0, "synthetic-images-for-counterfactual-captions": 1}


def tsv_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the rows of a NegCLIP file: `title`, `filepath`, and Python lists of `neg_caption` and `neg_image`.

    Raises:
        DataError: the file cannot be read, a column is missing, or holds no list.

    Source: Yuksekonul et al. (2023), the released `train_neg_clip.tsv` and `valid_neg_clip.tsv`.
    """
    text = decode_text(read_whole(path), path)
    try:
        lines = list(csv.DictReader(io.StringIO(text, newline=""), delimiter="\t"))
    except csv.Error as error:
        raise DataError(f"{path}: is not NegCLIP's TSV: {error}") from error
    for number, fields in enumerate(lines):
        where = f"{path}:{number + 2}"
        for name in _COLUMNS:
            if fields.get(name) is None:
                raise DataError(f"{where}: column {name!r} is missing; expected NegCLIP's TSV, or a JSONL file of rows")
        yield (
            where,
            {
                "image": fields["filepath"],
                "caption": fields["title"],
                "negative_captions": _read_list(where, "neg_caption", fields["neg_caption"]),
                "negative_images": _read_list(where, "neg_image", fields["neg_image"]),
            },
        )


def csv_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the rows of a CSV file of `image_path` and `caption`, counterfactual pairs put together again.

    An image of COCO-Counterfactuals is named by its side's folder and the pair (`.../187055_2.jpg`); it is read as the
    hub's release has it, `187055_2_img_0.jpg`. If the file holds both halves of a pair, each is the other's false
    caption and hard counterpart, and the two are one item. All pairs of one picture of COCO are one cluster. Any other
    path is read unchanged.

    Raises:
        DataError: the file cannot be read or has not these columns.

    Source: Le et al. (2023), the released `train-coco-cfs.csv`, `dev-coco-cfs.csv` and `test-coco-cfs.csv`.
    """
    rows = [(f"{path}:{line}", _read_half(fields, f"{path}:{line}")) for line, fields in read_csv(path)]
    halves: dict[str, list[int]] = {}
    for number, (_, row) in enumerate(rows):
        halves.setdefault(row.pop("pair", None) or f"row {number}", []).append(number)
    for item, numbers in enumerate(halves.values()):
        images = {rows[number][1]["image"] for number in numbers}
        if len(images) < len(numbers):
            where, row = rows[numbers[-1]]
            raise DataError(f"{where}: {row['image']!r} appears twice in the file")
        for number in numbers:
            others = [other for other in numbers if other != number]
            captions = [rows[other][1]["caption"] for other in others]
            rows[number][1].update(item=item, negative_images=others, negative_captions=captions)
    yield from rows


def _read_half(fields: dict[str, str], where: str) -> dict[str, Any]:
    for name in ("image_path", "caption"):
        if name not in fields:
            raise DataError(f"{where}: column {name!r} is missing; a CSV file of rows holds image_path and caption")
    image = PurePosixPath(fields["image_path"])
    side = next((number for folder, number in _SIDES.items() if folder in image.parts), None)
    if side is None:
        return {"image": fields["image_path"], "caption": fields["caption"]}
    coco = image.stem.partition("_")[0]
    name = f"{image.stem}_img_{side}.jpg"
    return {"image": name, "caption": fields["caption"], "cluster": coco, "pair": image.stem}


def _read_list(where: str, name: str, text: str) -> list[Any]:
    try:
        value = ast.literal_eval(text)  # a literal: nothing runs
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        value = None
    if not isinstance(value, list):
        raise DataError(f"{where}: column {name!r} is not a list: {quote(text)}")
    return value
