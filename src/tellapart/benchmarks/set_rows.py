"""The rows of annotation files of any kind, each with the file and the number it came from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tellapart.benchmarks.locations import Locations, find_files
from tellapart.benchmarks.parquet import ParquetTable, image_columns
from tellapart.data.annotations import read_list, read_mapping
from tellapart.data.compressed import plain_suffix
from tellapart.data.rows import read_csv, read_json, read_jsonl
from tellapart.errors import DataError, quote

#: The field with a row's number among the rows of all files, by which a parquet table finds its images.
TABLE_ROW = "@row"


@dataclass(frozen=True, slots=True)
class Row:
    """A row: its fields, or its list of values, and its place for messages."""

    where: str
    fields: Any


def files_of(benchmark: str, patterns: list[str], place: Locations) -> list[Path]:
    """Return the files of all patterns; of `a|b` the first that is there.

    Raises:
        DataError: a pattern finds none.
    """
    folder = place.folder(benchmark) or Path()
    found: list[Path] = []
    for pattern in patterns:
        files = find_files(folder, pattern)
        if not files:
            raise DataError(f"{benchmark} needs {pattern}, and {folder} has no such file; name its folder with data=")
        found += files
    return found


def read_rows(path: Path, before: int = 0, suffix: str | None = None, each: str | None = None) -> Iterator[Row]:
    """Yield the rows of a file, by its suffix: a JSON list or object of rows, JSONL, CSV, TSV or parquet.

    Rows get more fields if they have none of these names: `file` (the file's name without its suffix), `folder`
    (that of the folder it is in), `row` (their number, from 0), `key` (of an object of rows), and the places of a list
    or a table's columns, from `0`.

    Args:
        path: the file.
        before: how many rows the files before it have.
        suffix: `json`, `jsonl`, `csv` or `parquet`, if its suffix does not give it.
        each: the field of a list of objects, each of which is a row with the fields around it, or of an object of
            values, each of which is a row with its key as `each` and itself as `value`. `*` is every field of a row
            that is an object of such lists: rows with its name as `each` and their number in it as `place`.

    Raises:
        DataError: the file cannot be read, or a row is neither an object nor a list.
    """
    for number, (place, key, fields) in enumerate(_read_file(path, suffix or plain_suffix(path).removeprefix("."))):
        own: dict[str, Any] = {"file": path.stem, "row": number, "key": key, "folder": path.parent.name}
        own[TABLE_ROW] = before + number
        if isinstance(fields, list):
            own |= {str(k): value for k, value in enumerate(fields)}
        elif isinstance(fields, dict):
            own |= {str(k): value for k, value in enumerate(fields.values())} | fields
        else:
            raise DataError(f"{place}: expected an object {{...}} or a list, got {quote(fields)}")
        if each == "*":
            groups = [(name, row) for name in fields for row in _nested_rows(own, name, place)]
            yield from (Row(place, row | {"each": name, "place": row["each"]}) for name, row in groups)
        else:
            yield from (Row(place, row) for row in _nested_rows(own, each, place))


def _nested_rows(row: dict[str, Any], each: str | None, place: str) -> Iterator[dict[str, Any]]:
    if each is None:
        yield row
        return
    inner = row.get(each)
    if isinstance(inner, dict):
        yield from (row | {"each": key, "value": value} for key, value in inner.items())
        return
    if not isinstance(inner, list) or not all(isinstance(one, dict) for one in inner):
        raise DataError(f"{place}: field {each!r}: expected a list of objects or an object, got {quote(inner)}")
    yield from (row | one | {"each": number} for number, one in enumerate(inner))


def _read_file(path: Path, suffix: str) -> Iterator[tuple[str, str, Any]]:
    if suffix == "jsonl":
        yield from ((f"{path}:{line}", "", row) for line, row in read_jsonl(path))
    elif suffix in ("csv", "tsv"):
        yield from ((f"{path}:{line}", "", row) for line, row in read_csv(path))
    elif suffix == "parquet":
        yield from ((place, "", row) for place, row in ParquetTable([path], images=image_columns(path)).rows())
    elif suffix == "json":
        if isinstance(read_json(path), dict):
            yield from ((f"{path}: {quote(key, 40)}", key, row) for key, row in read_mapping(path).items())
        else:
            yield from ((f"{path}: row {number}", "", row) for number, row in enumerate(read_list(path)))
    else:
        raise DataError(f"{path}: rows are read from .json, .jsonl, .csv, .tsv and .parquet")
