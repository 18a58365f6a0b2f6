"""The door for JSON and text: the content of a file, or an error of one line that names it."""

from __future__ import annotations

import gc
import gzip
import io
import json
import math
import os
import re
import stat
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar

from tellapart.data.arguments import suggest_beside
from tellapart.data.fields import whole_text
from tellapart.errors import DataError, TellapartError, quote

__all__ = ["decode_text", "expect_content", "expect_distinct", "parse_json", "plain_suffix", "read_json", "read_whole"]

_GZIP = ".gz"


def plain_suffix(path: Path) -> str:
    """Return a file's suffix, in lower case, without that of gzip."""
    return Path(path.stem if path.suffix.lower() == _GZIP else path).suffix.lower()


def plain_stem(path: Path) -> str:
    """Return a file's name without its suffix, and without that of gzip."""
    return Path(path.stem).stem if path.suffix.lower() == _GZIP else path.stem


def unpack_gzip(data: bytes, path: Path, most: int, *, error: type[TellapartError] = DataError) -> bytes:
    """Return a file's bytes, unpacked if its name ends in `.gz`; content of more than `most` bytes is refused."""
    if path.suffix.lower() != _GZIP:
        return data
    try:
        if not data:  # `GzipFile` takes an empty file for one of no content
            raise EOFError("it is empty")
        content = gzip.GzipFile(fileobj=io.BytesIO(data)).read(most + 1)
    except (OSError, EOFError, zlib.error) as failure:
        raise error(f"{path}: is not complete gzip ({failure}); is it cut off?", path=path) from failure
    if len(content) > most:
        raise error(f"{path}: unpacks to more than {most:,} bytes, which is more than such a file has", path=path)
    return content


T = TypeVar("T")

#: The first bytes of the file that git-LFS leaves in place of one that was not fetched.
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"

#: Annotation files are tens of megabytes, the largest of a published benchmark 800.
_MOST_BYTES = 1 << 30

#: A pipe or a device has no size, and may have no end; it is read by the block.
_MOST_OF_A_PIPE, _BLOCK = 1 << 28, 1 << 16

#: JSON's escape of half a character beyond U+FFFF; a text needs both halves.
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")

#: Real files nest a handful of levels; the functions that walk them call themselves once a level.
MOST_LEVELS = 100
_TOO_DEEP = f"it nests more than {MOST_LEVELS} levels"

#: A double holds about 1.8e308, so an integer of this many digits has a double near it.
_MOST_DIGITS = 300


def read_whole(path: Path, *, error: type[TellapartError] = DataError, most: int = _MOST_BYTES) -> bytes:
    """Return a file's bytes, unpacked if its name ends in `.gz`.

    At most 256 MiB are read of a pipe or a device, which may have no end.

    Raises:
        TellapartError: `error`: it cannot be read, holds more than `most` bytes, or is git-LFS's pointer to the file.
    """
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            is_file = stat.S_ISREG(status.st_mode)
            most = most if is_file else min(most, _MOST_OF_A_PIPE)
            # `read(n)` reserves n bytes, so `block` is the file's size at most; the blocks together can exceed `most`.
            block = max(min(status.st_size, most), _BLOCK) + 1
            blocks = iter(lambda: file.read(block), b"")
            data = b"".join(islice(blocks, most // block + 1))
    except (OSError, ValueError) as failure:
        hint = suggest_beside(path) if isinstance(failure, FileNotFoundError) else ""
        reason = getattr(failure, "strerror", None) or failure
        raise error(f"{path}: cannot be read ({reason}){hint}", path=path) from failure
    if len(data) > most:
        remedy = "more than such a file has; is it the right one?" if is_file else "the most of a pipe or a device"
        raise error(f"{path}: holds more than {most:,} bytes, {remedy}", path=path)
    expect_content(data, path, error)
    return unpack_gzip(data, path, most, error=error)


def expect_content(data: bytes | None, path: Path, error: type[TellapartError]) -> None:
    """Refuse the pointer that git-LFS leaves in place of a file; without `data` the file's first bytes are read."""
    if data is None:
        with path.open("rb") as file:
            data = file.read(len(_LFS_POINTER))
    if data.startswith(_LFS_POINTER):
        raise error(f"{path}: is git-LFS's pointer to the file; run `git lfs pull` in its repository", path=path)


def decode_text(data: bytes, place: object, *, error: type[TellapartError] = DataError) -> str:
    """Return UTF-8 bytes as text, without the byte order mark that spreadsheets put before it.

    Raises:
        TellapartError: `error`: the bytes are not UTF-8; the message names the line.

    >>> decode_text(bytes([97, 10, 233]), "a.csv")
    Traceback (most recent call last):
    tellapart.errors.DataError: a.csv:2: is not UTF-8 (byte 0xe9); save the file as UTF-8
    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as failure:
        if data.startswith(b"\x1f\x8b"):
            raise error(f"{place}: is gzip; end its name in .gz, or unpack it", path=place) from failure
        # The decoder counts positions from behind a byte order mark.
        start = failure.start + len(data) - len(failure.object)
        line = data.count(b"\n", 0, start) + 1
        raise error(
            f"{place}:{line}: is not UTF-8 (byte 0x{data[start]:02x}); save the file as UTF-8", path=place, line=line
        ) from failure


def parse_json(text: str, place: object, *, error: type[TellapartError] = DataError, nan: bool = False) -> Any:
    """Return the content of a JSON text that every reader reads alike.

    With `nan`, NaN and the infinities, which other tools write, are numbers.

    Raises:
        TellapartError: `error`: it is not JSON, repeats a key in one object, nests more than 100 levels, or holds a
            number that JSON does not have (NaN, Infinity), that is too large (1e999), or half of a character.

    >>> parse_json('{"label": "0_c0_i0", "score": 0.5}', "scores.jsonl:1")
    {'label': '0_c0_i0', 'score': 0.5}
    >>> parse_json('{"score": 0.5, "score": 0.6}', "scores.jsonl:1")
    Traceback (most recent call last):
    tellapart.errors.DataError: scores.jsonl:1: is not valid JSON (key 'score' is repeated in one object)
    """
    try:
        content = json.loads(
            text,
            object_pairs_hook=_build_object,
            parse_constant=float if nan else _parse_number,
            parse_float=_parse_number,
            parse_int=_parse_integer,
        )
        check_depth(content)
        if _SURROGATE.search(text):
            whole_text(json.dumps(content, ensure_ascii=False))  # raises if a half stands alone
    except (ValueError, RecursionError) as failure:
        fault = _TOO_DEEP if isinstance(failure, RecursionError) else str(failure)
        if isinstance(failure, json.JSONDecodeError):
            line = f"line {failure.lineno}, " if failure.lineno > 1 else ""
            fault = f"{failure.msg} at {line}column {failure.colno}"
        raise error(f"{place}: is not valid JSON ({fault})", path=place) from failure
    return content


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause Python's garbage collector in a block or in a decorated function; it is on again afterwards if it was.

    While a quarter of a million items are read, the collector takes half of the time and frees nothing.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def read_json(
    path: Path,
    kind: type[list[Any]] | type[dict[str, Any]] | None = None,
    *,
    error: type[TellapartError] = DataError,
    nan: bool = False,
) -> Any:
    """Return the content of a JSON file; if `kind` is list or dict, it must be of that kind, and not empty.

    Raises:
        TellapartError: `error`: the file cannot be read, is not UTF-8, or is not such JSON; `nan` as in `parse_json`.
    """
    content = parse_json(decode_text(read_whole(path, error=error), path, error=error), path, error=error, nan=nan)
    if kind is not None and (not isinstance(content, kind) or not content):
        expected = "a list of rows" if kind is list else "an object of rows by key"
        raise error(f"{path}: expected {expected}, got {quote(content)}", path=path)
    return content


def check_depth(content: object, most: int | None = None) -> None:
    """Check that lists and objects nest at most 100 levels and, with `most`, have so many parts, written out.

    Without `most` no list may be a part of two others.
    """
    parts = 0
    level = [content] if isinstance(content, dict | list | tuple) else []  # all lists and objects of one level
    for _ in range(MOST_LEVELS):
        if most is not None and (parts := parts + sum(map(len, level))) > most:
            raise ValueError(f"written out it has more than {most:,} parts; perhaps a list holds itself")
        contents = (node.values() if isinstance(node, dict) else node for node in level)
        level = [part for part in chain.from_iterable(contents) if isinstance(part, dict | list | tuple)]
        if not level:
            return
    raise ValueError(_TOO_DEEP)


def first_repeated(values: Iterable[T]) -> T | None:
    """Return the first value that occurs more than once, or None."""
    return next((value for value, count in Counter(values).items() if count > 1), None)


def expect_distinct(
    names: Iterable[str], path: Path, *, line: int | None = None, error: type[TellapartError] = DataError
) -> None:
    """Refuse a table with two columns of one name, of which a reader would take either."""
    if (name := first_repeated(names)) is not None:
        place, header = (path, "") if line is None else (f"{path}:{line}", " in the header")
        a_row = ", or, if that line is a row, write the names of its columns above it" if header else ""
        why = f"column {quote(name)} is repeated{header}; keep one of them{a_row}"
        raise error(f"{place}: {why}", path=path, line=line, field=name)


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        raise ValueError(f"key {quote(first_repeated(key for key, _ in pairs))} is repeated in one object")
    return content


def _parse_number(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"{number:.60} is {'not a JSON' if number[-1].isalpha() else 'too large a'} number")
    return value


def _parse_integer(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"{digits:.60} is too large a number")
    return int(digits)
