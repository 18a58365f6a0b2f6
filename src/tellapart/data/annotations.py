"""Readers of annotation files, whose errors name the file, the row and the field."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict

from tellapart.data.fields import field_fault
from tellapart.data.item import Item
from tellapart.data.rows import read_json
from tellapart.data.validation import make_model
from tellapart.errors import DataError, quote


class AnnotationRow(BaseModel):
    """A row of an annotation file: a subclass lists its fields; none may be missing, unknown or of another type."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


R = TypeVar("R", bound=AnnotationRow)


def read_list(path: Path) -> list[Any]:
    """Return the list that a JSON file holds; not empty."""
    content: list[Any] = _read_content(path, list, "a list of rows")
    return content


def read_mapping(path: Path) -> dict[str, Any]:
    """Return the object that a JSON file holds; not empty."""
    content: dict[str, Any] = _read_content(path, dict, "an object of rows by key")
    return content


def _read_content(path: Path, kind: type, expected: str) -> Any:
    content = read_json(path)
    if not isinstance(content, kind) or not content:
        raise DataError(f"{path}: expected {expected}, got {_content_kind(content)}", path=path)
    return content


def check_row(row: type[R], content: object, place: str) -> R:
    """Return a row of a file as its model."""
    if not isinstance(content, Mapping):
        fields = ", ".join(row.model_fields)
        raise DataError(f"{place}: expected an object with {fields}; got {_content_kind(content)}", path=place)
    return make_model(row, content, place)


def make_item(place: str, **fields: Any) -> Item:
    """Return an item of these fields."""
    return make_model(Item, fields, place)


def karpathy_images(
    path: Path, images: Iterable[Any], splits: Collection[str]
) -> Iterator[tuple[str, str, list[dict[str, Any]]]]:
    """Yield the images of some of Karpathy's splits (`dataset_coco.json`): place in the file, path and sentences."""
    for number, image in enumerate(images):
        place = f"{path}: images[{number}]"
        sentences = image.get("sentences") if isinstance(image, dict) else None
        if not isinstance(sentences, list) or not all(isinstance(sentence, dict) for sentence in sentences):
            raise DataError(f"{place}: field 'sentences' must be a list of objects, got {quote(image)}")
        if image.get("split") in splits:
            yield place, "/".join(str(image[key]) for key in ("filepath", "filename") if image.get(key)), sentences


def row_of(value: object, place: str) -> Mapping[str, Any]:
    """Return a row that is an object."""
    if not isinstance(value, Mapping):
        raise DataError(f"{place}: expected an object {{...}}, got {quote(value)}", path=place, got=value)
    return value


def string(row: Mapping[str, Any], field: str, place: str) -> str:
    """Return a row's field that is a string and not blank."""
    value = row.get(field)
    if not isinstance(value, str) or not value.strip():
        fault = ("expected text", value) if field in row else ("is missing",)
        raise field_fault(place, field, *fault)
    return value


def expect_count(place: object, count: int, *published: int, what: str = "items") -> None:
    """Compare a number of rows with the published ones: nothing else shows that a file was cut between two rows."""
    if count not in published:
        expected = " or ".join(f"{number:,}" for number in published)
        raise DataError(
            f"{place} holds {count:,} {what} where the published benchmark has {expected}; the file is incomplete or "
            "of another version: get it again, or measure a part of it as a set of yours (ten lines of TOML, "
            "docs/benchmarks.md)"
        )


def _content_kind(content: object) -> str:
    if isinstance(content, dict | list) and not content:
        return "an empty one"
    names = {dict: "an object", list: "a list", str: "a string", type(None): "null"}
    return names.get(type(content), quote(content))
