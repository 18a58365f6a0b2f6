"""Rows of annotation files made into items, so that whatever is wrong names its file, row and field."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tellapart.data.item import Item
from tellapart.errors import DataError

__all__ = ["expect_count", "made", "read_json", "row_of", "string"]


def read_json(path: Path, kind: type) -> Any:
    """Return what a JSON file holds, a `list` or a `dict` as `kind` says; it is not empty.

    Raises:
        DataError: the file cannot be read, is no JSON in UTF-8, holds something else, or an object repeats a key.

    >>> read_json(Path("gone.json"), list)
    Traceback (most recent call last):
    tellapart.errors.DataError: gone.json: cannot be read (No such file or directory)
    """
    try:
        # Looked into where keys are ids of items; in a million rows of EqBen it would take longer than all the rest.
        hook = _distinct if kind is dict else None
        found = json.loads(path.read_bytes().decode("utf-8-sig"), object_pairs_hook=hook)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:  # JSONDecodeError and UnicodeDecodeError are ValueErrors
        raise DataError(f"{path}: is not valid JSON in UTF-8 ({error}); is it complete?") from error
    if not isinstance(found, kind) or not found:
        expected = "an object {...}" if kind is dict else "a list [...]"
        raise DataError(f"{path}: expected {expected} with rows, got {str(found)!r:.60}")
    return found


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [key for key, _ in pairs]
        raise ValueError(f"key {next(key for key in names if names.count(key) > 1)!r:.60} stands twice in one object")
    return found


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
    tellapart.errors.DataError: a.json: row 0: field 'texts': Value should have at least 1 item after validation, not 0
    """
    try:
        return Item(**fields)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        raise DataError(f"{where}: field {'.'.join(map(str, problem['loc']))!r}: {problem['msg']}") from error


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
