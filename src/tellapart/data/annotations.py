"""Annotation files and their rows, read so that whatever is wrong names its file, row and field."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from tellapart.data.item import Item
from tellapart.data.rows import read_json
from tellapart.data.validation import Problem
from tellapart.errors import DataError

__all__ = ["Row", "checked", "expect_count", "made", "read_list", "read_mapping", "row_of", "string"]


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
    tellapart.errors.DataError: captions.json: row 4: field 'image': expected a string, got 7
    """
    if not isinstance(found, Mapping):
        raise DataError(f"{where}: expected an object with {', '.join(row.model_fields)}; got {_kind(found)}")
    try:
        return row.model_validate(found)
    except ValidationError as error:
        raise DataError(f"{where}: {Problem.first(error)}") from error


def row_of(value: Any, where: str) -> Mapping[str, Any]:
    """Return a row that is an object.

    Raises:
        DataError: it is something else.

    >>> row_of(["a cat"], "a.json: row 0")
    Traceback (most recent call last):
    tellapart.errors.DataError: a.json: row 0: expected an object {...}, got ['a cat']
    """
    if not isinstance(value, Mapping):
        raise DataError(f"{where}: expected an object {{...}}, got {value!r:.60}")
    return value


def string(row: Mapping[str, Any], field: str, where: str) -> str:
    """Return a row's field that is a string and not blank.

    Raises:
        DataError: it is missing or something else.

    >>> string({"caption": None}, "caption", "a.json: row 0")
    Traceback (most recent call last):
    tellapart.errors.DataError: a.json: row 0: field 'caption': expected text, got None
    """
    value = row.get(field)
    if not isinstance(value, str) or not value.strip():
        raise DataError(
            f"{where}: field {field!r}: {f'expected text, got {value!r:.60}' if field in row else 'is missing'}"
        )
    return value


def made(where: str, **fields: Any) -> Item:
    """Return an item of these fields.

    Raises:
        DataError: they make none.

    >>> made("a.json: row 0", id="0", images=("a.png",), texts=())
    Traceback (most recent call last):
    tellapart.errors.DataError: a.json: row 0: field 'texts': is empty, got ()
    """
    try:
        return Item(**fields)
    except ValidationError as error:
        raise DataError(f"{where}: {Problem.first(error)}") from error


def expect_count(where: object, found: int, *published: int, what: str = "items") -> None:
    """Check a number of rows against the published one: a file that was cut between two rows shows in nothing else.

    Raises:
        DataError: it differs.

    >>> expect_count("a.json", 3, 4)
    Traceback (most recent call last):
    tellapart.errors.DataError: a.json holds 3 items where the published benchmark has 4; the file is incomplete or of another version
    """
    if found not in published:
        wanted = " or ".join(f"{number:,}" for number in published)
        raise DataError(
            f"{where} holds {found:,} {what} where the published benchmark has {wanted}; the file is incomplete or of "
            "another version"
        )


def _kind(found: Any) -> str:
    if isinstance(found, dict | list) and not found:
        return "an empty one"
    return {dict: "an object", list: "a list", str: "a string", type(None): "null"}.get(type(found), f"{found!r:.60}")
