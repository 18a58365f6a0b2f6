"""Readers of JSON, JSONL, TOML and CSV files, whose errors name the file and the line."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Never, TypeVar

from tellapart.errors import DataError

__all__ = ["first_repeated", "read_csv", "read_json", "read_jsonl", "read_object", "read_toml"]

T = TypeVar("T")

#: A quoted field, in which a mark parts nothing.
_QUOTED = re.compile(r'"[^"]*"')
_LINE = re.compile(r'(?:"[^"]*"|[^"\n])*')


def read_jsonl(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of a JSONL file, each with the number of its line; blank lines are skipped.

    Raises:
        DataError: the file cannot be read or is not UTF-8; a line is not one JSON object, repeats a key, or holds a
            number that JSON does not have (NaN, Infinity, 1e999).

    >>> rows = read_jsonl(Path("examples/eqsim_ablation/smoke_scenes/pairs.jsonl"))
    >>> [(line, row["id"]) for line, row in rows][:2]
    [(1, 'attribute-000'), (2, 'attribute-001')]
    """
    # Split at newlines alone: str.splitlines would also break captions at U+2028 and its like.
    for number, line in enumerate(_text(path).split("\n"), start=1):
        if line.strip():
            yield number, _object(line, f"{path}:{number}")


def read_json(path: Path) -> Any:
    """Return what a JSON file holds.

    Raises:
        DataError: as `read_jsonl`.

    >>> read_json(Path("examples/eqsim_ablation/smoke_scenes/card.json"))["name"]
    'smoke-scenes'
    """
    return _parse(_text(path), str(path))


def read_object(path: Path) -> dict[str, Any]:
    """Return the object that a JSON file holds.

    Raises:
        DataError: as `read_jsonl`, or it holds something else.

    >>> read_object(Path("examples/eqsim_ablation/smoke_scenes/card.json"))["licence"]
    'Apache-2.0'
    """
    return _object(_text(path), str(path))


def read_toml(path: Path) -> dict[str, Any]:
    """Return the tables of a TOML file.

    Raises:
        DataError: it cannot be read, is not UTF-8 or not TOML.

    >>> read_toml(Path("pyproject.toml"))["project"]["name"]
    'tellapart'
    """
    try:
        return tomllib.loads(_text(path))
    except tomllib.TOMLDecodeError as broken:
        raise DataError(f"{path}: is not TOML: {broken}") from broken


def read_csv(
    path: Path, *, unnamed: Sequence[str] = (), names: Iterable[str] = ()
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the rows of a CSV file under its header, each with the number of its first line.

    Fields are parted by commas; by semicolons or tabs where the header has these and no comma, as spreadsheets write
    where the comma is the decimal sign.

    Args:
        path: the file.
        unnamed: the columns of a file without a header; none may lack it if empty.
        names: what a header may hold: a first row as long as `unnamed` that holds none of them is no header.

    Raises:
        DataError: the file cannot be read or is not UTF-8; a column's name repeats; a row has not as many fields as the
            header, or is badly quoted.

    >>> from tempfile import NamedTemporaryFile
    >>> with NamedTemporaryFile("w") as file:
    ...     print("image,caption\\na.png,a cat", file=file, flush=True)
    ...     list(read_csv(Path(file.name)))
    [(2, {'image': 'a.png', 'caption': 'a cat'})]
    """
    text = _text(path)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(text), strict=True)
    header: list[str] = []
    line = 1
    try:
        for row in reader:
            if not header and row and len(row) == len(unnamed) and not {cell.strip() for cell in row} & {*names}:
                header = [*unnamed]
                yield line, dict(zip(header, row, strict=True))
            elif not header:
                header = row
                if name := first_repeated(header):
                    raise DataError(f"{path}:{line}: column {name!r} is repeated in the header")
            elif row:
                if len(row) != len(header):
                    raise DataError(f"{path}:{line}: has {len(row)} fields where the header has {len(header)}")
                yield line, dict(zip(header, row, strict=True))
            line = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"{path}:{line}: is not valid CSV ({error})") from error


def _delimiter(text: str) -> str:
    line = _LINE.match(text.lstrip("\r\n"))
    header = _QUOTED.sub("", line[0]) if line else ""
    return next((mark for mark in ",;\t" if mark in header), ",")


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # A mark at the start is cut off before decoding, and positions count from behind it.
        start = error.start + len(data) - len(error.object)
        line = data.count(b"\n", 0, start) + 1
        raise DataError(f"{path}:{line}: is not UTF-8 (byte 0x{data[start]:02x}); save the file as UTF-8") from error


def _parse(text: str, where: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_distinct, parse_constant=_refuse, parse_float=_finite)
    except json.JSONDecodeError as error:
        column = f"line {error.lineno}, column {error.colno}" if error.lineno > 1 else f"column {error.colno}"
        raise DataError(f"{where}: is not valid JSON ({error.msg} at {column})") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: is not valid JSON ({error})") from error


def _object(text: str, where: str) -> dict[str, Any]:
    content = _parse(text, where)
    if not isinstance(content, dict):
        raise DataError(f"{where}: expected an object {{...}}, got {text.strip()!r:.60}")
    return content


def first_repeated(values: Iterable[T]) -> T | None:
    """Return the first value that occurs more than once, or None.

    >>> first_repeated(["a", "b", "a"])
    'a'
    """
    return next((value for value, count in Counter(values).items() if count > 1), None)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        raise ValueError(f"key {first_repeated(key for key, _ in pairs)!r:.60} is repeated in one object")
    return content


def _refuse(constant: str) -> Never:
    raise ValueError(f"{constant} is not a JSON number")


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"{number:.60} is too large a number")
    return value
