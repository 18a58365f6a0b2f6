"""COLA's single objects: labels of an object with its attributes, and the images in which each is hard."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any

from tellapart.data.fields import field_fault
from tellapart.data.rows import read_json
from tellapart.data.task_records import ImageLabel, LabelSet
from tellapart.errors import DataError, quote


def read_image_labels(path: Path, of: str) -> LabelSet:
    """Read one of the three files; images are named by the last part of their addresses."""
    content = read_json(path)
    # README.md names the two parts, scripts/eval.py counts them.
    parts = [content.get("labels"), content.get("data")] if isinstance(content, dict) else content
    if not isinstance(parts, list) or len(parts) != 2 or not all(isinstance(part, list) and part for part in parts):
        raise DataError(f"{path}: expected `labels` and `data`, two lists", path=path)
    texts, rows = parts
    for number, text in enumerate(texts):
        if not isinstance(text, str) or not text.strip():
            raise DataError(f"{path}: label {number}: expected a text; got {quote(text)}", path=path, field="labels")
    images, marks = zip(*(_read_row(row, len(texts), path, number) for number, row in enumerate(rows)), strict=True)
    labels = []
    for column, text in enumerate(texts):
        counted = tuple(place for place, (_, hard) in enumerate(marks) if hard[column])
        true = tuple(bool(marks[place][0][column]) for place in counted)
        if any(true):
            labels.append(ImageLabel(str(column), text, counted, true))
    return LabelSet(of, images, tuple(labels))


def _read_row(row: Any, size: int, path: Path, number: int) -> tuple[str, tuple[list[int], list[int]]]:
    place = f"{path}: row {number}"
    if not isinstance(row, list) or len(row) != 4:
        raise DataError(f"{place}: expected an image, its objects, labels and hard marks; got {quote(row)}", path=path)
    image, _, label, hard = row
    file = PurePosixPath(image).name if isinstance(image, str) else ""
    if not file:
        raise field_fault(place, "image_file", "expected a path;", image)
    for field, values in (("label", label), ("hard_list", hard)):
        valid = isinstance(values, list) and all(type(value) is int and value in (0, 1) for value in values)
        if not valid or len(values) != size:
            raise field_fault(place, field, f"expected {size} marks, each 0 or 1")
    return file, (label, hard)
