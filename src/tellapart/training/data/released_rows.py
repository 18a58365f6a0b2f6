"""Training rows in the files that people have: COCO's captions, tables as open_clip reads them, and two papers' files.

All come as the fields of `rows`' JSONL, each with its place in the file, so that one function checks them all.
"""

from __future__ import annotations

import ast
import csv
import io
import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from tellapart.builders.caption_files import read_json_captions
from tellapart.catalog import nearest
from tellapart.data.compressed import plain_suffix
from tellapart.data.rows import read_csv
from tellapart.data.strict_json import decode_text, expect_distinct, read_whole
from tellapart.errors import DataError, quote

#: Field -> the columns that hold it in open_clip's, Hugging Face's and others' tables; the first that is there counts.
_USUAL = {
    "image": ("image", "filepath", "image_path", "file_name", "filename", "path"),
    "caption": ("caption", "title", "text", "sentence"),
    "cluster": ("cluster",),
}

_COLUMNS = ("title", "filepath", "neg_caption", "neg_image")
#: Columns of false captions, which tables but NegCLIP's do not hold: a loss would train without them.
_FALSE = re.compile(r"neg|foil|false.?cap", re.IGNORECASE)
#: The authors' folder of an image -> which of a pair's two pictures the hub's release has it as.
_SIDES = {"synthetic-images-for-original-captions": 0, "synthetic-images-for-counterfactual-captions": 1}


def json_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the captions of a JSON file as `read_json_captions` does, each with the others of its image."""
    rows = list(read_json_captions(path))
    captions: dict[object, list[object]] = {}
    for place, row in rows:
        if not isinstance(row["image"], str):
            raise DataError(f"{place}: field 'image' must be the name of a file, got {quote(row['image'])}")
        captions.setdefault(row["image"], []).append(row["caption"])
    for place, row in rows:
        others = [text for text in captions[row["image"]] if text != row["caption"]]
        yield place, row | ({"positive_captions": others} if others else {})


def table_rows(path: Path, columns: Mapping[str, str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the rows of a CSV or TSV file: NegCLIP's, COCO-Counterfactuals', or any with an image and a caption."""
    header = decode_text(read_whole(path), path).partition("\n")[0].rstrip("\r")
    if not columns and plain_suffix(path) == ".tsv" and "neg_caption" in header.split("\t"):
        yield from _negclip_rows(path)
    elif not columns and {"image_path", "caption"} <= set(re.split(r"[,;\t]", header)):
        yield from _counterfactual_rows(path)
    else:
        for line, row in read_csv(path):
            yield f"{path}:{line}", _pick_fields(path, row, columns)


def _pick_fields(path: Path, row: Mapping[str, str], columns: Mapping[str, str]) -> dict[str, Any]:
    fields = {}
    for field, usual in _USUAL.items():
        wanted = (columns[field],) if field in columns else usual
        name = next((each for each in wanted if each in row), None)
        if name is not None:
            fields[field] = row[name]
        elif field in columns or field != "cluster":
            near = next((f"; is it {each!r}?" for each in row if nearest(each, wanted)), "")
            raise DataError(
                f"{path}: no column {' or '.join(map(repr, wanted))} for {field!r} among {', '.join(row)}{near}; name "
                f'it: data.columns = {{{field} = "..."}}',
                path=path,
                field=field,
            )
    _refuse_false(path, row, columns)
    return fields


def _refuse_false(place: Path | str, row: Mapping[str, str], columns: Mapping[str, str]) -> None:
    if unread := [name for name in row if _FALSE.match(name) and name not in columns.values()]:
        raise DataError(
            f"{place}: column {unread[0]!r} is not read: a table holds image, caption and cluster, and NegCLIP's TSV "
            "neg_caption and neg_image; put false captions into JSONL as negative_captions, or remove the column",
            field=unread[0],
        )


def _negclip_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the rows of a NegCLIP file: `title`, `filepath`, and Python lists of `neg_caption` and `neg_image`.

    Source: Yuksekonul et al. (2023), the released `train_neg_clip.tsv` and `valid_neg_clip.tsv`.
    """
    text = decode_text(read_whole(path), path)
    try:
        reader = csv.DictReader(io.StringIO(text, newline=""), delimiter="\t")
        expect_distinct(reader.fieldnames or (), path, line=1)
        lines = list(reader)
    except csv.Error as error:
        raise DataError(f"{path}: is not NegCLIP's TSV: {error}") from error
    for number, fields in enumerate(lines):
        place = f"{path}:{number + 2}"
        for name in _COLUMNS:
            if fields.get(name) is None:
                raise DataError(f"{place}: column {name!r} is missing; expected NegCLIP's TSV, or a JSONL file of rows")
        yield (
            place,
            {
                "image": fields["filepath"],
                "caption": fields["title"],
                "negative_captions": _read_list(place, "neg_caption", fields["neg_caption"]),
                "negative_images": _read_list(place, "neg_image", fields["neg_image"]),
            },
        )


def _counterfactual_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the rows of a CSV file of `image_path` and `caption`, counterfactual pairs put together again.

    An image of COCO-Counterfactuals is named by its side's folder and the pair (`.../187055_2.jpg`); it is read as the
    hub's release has it, `187055_2_img_0.jpg`. If the file holds both halves of a pair, each is the other's false
    caption and hard counterpart, and the two are one item. All pairs of one picture of COCO are one cluster. Any other
    path is read unchanged.

    Source: Le et al. (2023), the released `train-coco-cfs.csv`, `dev-coco-cfs.csv` and `test-coco-cfs.csv`.
    """
    rows = [(f"{path}:{line}", _read_half(fields, f"{path}:{line}")) for line, fields in read_csv(path)]
    halves: dict[str, list[int]] = {}
    for number, (_, row) in enumerate(rows):
        halves.setdefault(row.pop("pair", None) or f"row {number}", []).append(number)
    for item, numbers in enumerate(halves.values()):
        images = {rows[number][1]["image"] for number in numbers}
        if len(images) < len(numbers):
            place, row = rows[numbers[-1]]
            raise DataError(f"{place}: {row['image']!r} appears twice in the file")
        for number in numbers:
            others = [other for other in numbers if other != number]
            captions = [rows[other][1]["caption"] for other in others]
            rows[number][1].update(item=item, negative_images=others, negative_captions=captions)
    yield from rows


def _read_half(fields: dict[str, str], place: str) -> dict[str, Any]:
    for name in ("image_path", "caption"):
        if name not in fields:
            raise DataError(f"{place}: column {name!r} is missing; a CSV file of rows holds image_path and caption")
    _refuse_false(place, fields, {})
    image = PurePosixPath(fields["image_path"])
    side = next((number for folder, number in _SIDES.items() if folder in image.parts), None)
    if side is None:
        return {"image": fields["image_path"], "caption": fields["caption"]}
    coco = image.stem.partition("_")[0]
    name = f"{image.stem}_img_{side}.jpg"
    return {"image": name, "caption": fields["caption"], "cluster": coco, "pair": image.stem}


def _read_list(place: str, name: str, text: str) -> list[Any]:
    try:
        value = ast.literal_eval(text)  # a literal: nothing runs
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        value = None
    if not isinstance(value, list):
        raise DataError(f"{place}: column {name!r} is not a list: {quote(text)}")
    try:
        "".join(map(str, value)).encode()
    except UnicodeEncodeError as error:
        raise DataError(f"{place}: column {name!r}: half a character, which no UTF-8 file can hold") from error
    return value
