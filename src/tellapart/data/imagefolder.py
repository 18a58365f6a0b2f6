"""Conversion of rows of a Hugging Face `imagefolder` (`metadata.jsonl`, `metadata.csv`) to the fields of an item."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import PurePosixPath
from typing import Any

from tellapart.data.images import IMAGE_SUFFIXES
from tellapart.errors import DataError, quote

__all__ = ["fields_of"]

_NUMBERED = re.compile(r"(image|caption|text)_?(\d{1,3})(_file_name)?")
_SINGLE = {"image": ("file_name",), "text": ("caption", "negative_caption", "foil")}
_LISTED = {"image": "file_names", "text": "texts"}
_WANTED = {"image": "file_name, file_names, image_0...", "text": "texts, caption_0..., caption and negative_caption"}


def fields_of(find: Callable[[str], object], row: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Sort one row's columns into the fields of an item.

    Images are in `file_names` (a list), in `image_0`, `image_1`, ... (or `image_0_file_name`), or in `file_name`; texts
    in `texts` (a list), in `caption_0`, `caption_1`, ..., or in `caption`, `negative_caption`, `foil`. Numbers begin at
    0 or 1. `id`, `cluster` and `tags` keep their meaning; every other column becomes provenance. An image without a
    suffix is searched under `images/` and beside the file, as COCO-Counterfactuals names them.

    Args:
        find: takes an image's reference, and raises `DataError` where there is no such file.
        row: the values of one row by column.

    Returns:
        the fields, and for messages the column of each (`images[1]` -> `image_1`).

    Raises:
        DataError: no column of images or of texts, or numbered columns that repeat or leave one out.

    >>> row = {"file_name": "a.png", "caption": "two clocks", "foil": "three clocks", "split": "val"}
    >>> fields_of(print, row)[0]
    {'images': ['a.png'], 'texts': ['two clocks', 'three clocks'], 'provenance': {'split': 'val'}}
    """
    images, texts = _cells(row, "image"), _cells(row, "text")
    fields: dict[str, Any] = {key: row[key] for key in ("id", "cluster", "tags") if key in row}
    if type(fields.get("id")) is int:  # many a set numbers its items; True is no number
        fields["id"] = str(fields["id"])
    used = {*fields, *(source.partition("[")[0] for source, _ in (*images, *texts))}
    fields["images"] = [_with_suffix(find, reference) for _, reference in images]
    fields["texts"] = [text for _, text in texts]
    fields["provenance"] = {column: value for column, value in row.items() if column not in used}
    sources = {f"images[{k}]": source for k, (source, _) in enumerate(images)}
    return fields, sources | {f"texts[{k}]": source for k, (source, _) in enumerate(texts)}


def _cells(row: Mapping[str, Any], noun: str) -> list[tuple[str, Any]]:
    """Return the values of a row's columns of images or of texts, in order, each with its source."""
    listed = _LISTED[noun]
    if listed not in row:
        return [(column, row[column]) for column in _numbered_columns(row, noun) or _single_columns(row, noun)]
    values = row[listed]
    if not isinstance(values, list) or not values:
        raise DataError(f"field {listed!r}: expected a list of one or more, got {quote(values)}")
    return [(f"{listed}[{k}]", value) for k, value in enumerate(values)]


def _numbered_columns(row: Mapping[str, Any], noun: str) -> list[str]:
    numbered: dict[int, str] = {}
    for column in row:
        match = _NUMBERED.fullmatch(column)
        if match is None or (match[1] == "image") != (noun == "image"):
            continue
        if (number := int(match[2])) in numbered:
            raise DataError(f"columns {numbered[number]!r} and {column!r} both hold {noun} {number}; keep one")
        numbered[number] = column
    columns = [numbered[number] for number in sorted(numbered)]
    if numbered and (min(numbered) > 1 or max(numbered) - min(numbered) + 1 != len(numbered)):
        raise DataError(f"columns {', '.join(columns)} leave a number out; count on from 0 or 1")
    return columns


def _single_columns(row: Mapping[str, Any], noun: str) -> list[str]:
    columns = [column for column in _SINGLE[noun] if column in row]
    if not columns:
        raise DataError(f"no column of {noun}s ({_WANTED[noun]}) among {', '.join(row)}")
    return columns


def _with_suffix(find: Callable[[str], object], reference: object) -> object:
    if not isinstance(reference, str) or PurePosixPath(reference).suffix.lower() in IMAGE_SUFFIXES:
        return reference
    for home in ("images/", ""):
        for suffix in (".jpg", ".jpeg", ".png", ".webp", ".npy"):
            with suppress(DataError):
                find(f"{home}{reference}{suffix}")
                return f"{home}{reference}{suffix}"
    return reference
