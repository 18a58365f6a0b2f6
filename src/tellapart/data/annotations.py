"""Annotation files that are one JSON document, read so that whatever is wrong names its file, row and field."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from tellapart.data.rows import read_json
from tellapart.errors import DataError

__all__ = ["Row", "checked", "read_list", "read_mapping"]


class Row(BaseModel):
    """A row of an annotation file: a subclass lists its fields; none may be missing, unknown or of another type.

    >>> class Caption(Row):
    ...     image: str
    >>> checked(Caption, {"image": "a.png"}, "captions.json: row 0").image
    'a.png'
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


R = TypeVar("R", bound=Row)


def read_list(path: Path) -> list[Any]:
    """Return the list that a JSON file holds; not empty.

    Raises:
        DataError: the file cannot be read, is not UTF-8 or not JSON (a key twice in one object, NaN and numbers
            beyond floating point included), holds something else, or an empty list.

    >>> read_list(Path("gone.json"))
    Traceback (most recent call last):
    tellapart.errors.DataError: gone.json: cannot be read (No such file or directory)
    """
    found = read_json(path)
    if not isinstance(found, list) or not found:
        raise DataError(f"{path}: expected a list of rows, got {_kind(found)}")
    return found


def read_mapping(path: Path) -> dict[str, Any]:
    """Return the object that a JSON file holds; not empty.

    Raises:
        DataError: as `read_list`.

    >>> read_mapping(Path("gone.json"))
    Traceback (most recent call last):
    tellapart.errors.DataError: gone.json: cannot be read (No such file or directory)
    """
    found = read_json(path)
    if not isinstance(found, dict) or not found:
        raise DataError(f"{path}: expected an object of rows by key, got {_kind(found)}")
    return found


def checked(row: type[R], found: Any, where: str) -> R:
    """Return a row of a file as its model, or say what is wrong with it.

    Args:
        row: the fields that are expected.
        found: what the file holds there.
        where: file and row, for the message.

    Raises:
        DataError: it is no object, or a field is missing, unknown or of the wrong type.

    >>> class Caption(Row):
    ...     image: str
    >>> checked(Caption, {"image": 7}, "captions.json: row 4")
    Traceback (most recent call last):
    tellapart.errors.DataError: captions.json: row 4: field 'image': input should be a valid string, got 7
    """
    if not isinstance(found, Mapping):
        raise DataError(f"{where}: expected an object with {', '.join(row.model_fields)}; got {_kind(found)}")
    try:
        return row.model_validate(found)
    except ValidationError as error:
        problem = error.errors()[0]
        field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in problem["loc"]).lstrip(".")
        got = "" if problem["type"] == "missing" else f", got {problem['input']!r:.60}"
        said = problem["msg"][0].lower() + problem["msg"][1:]
        raise DataError(f"{where}: field {field!r}: {said}{got}") from error


def _kind(found: Any) -> str:
    if isinstance(found, dict | list) and not found:
        return "an empty one"
    return {dict: "an object", list: "a list", str: "a string", type(None): "null"}.get(type(found), f"{found!r:.60}")
