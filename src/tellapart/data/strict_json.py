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
    """Return the content of a file's bytes: unpacked, to at most `most` bytes, if its name ends in `.gz`."""
    if path.suffix.lower() != _GZIP:
        return data
    try:
        if not data:  # which gzip reads as nothing
            raise EOFError("it is empty")
        content = gzip.GzipFile(fileobj=io.BytesIO(data)).read(most + 1)
    except (OSError, EOFError, zlib.error) as failure:
        raise error(f"{path}: is not complete gzip ({failure}); is it cut off?", path=path) from failure
    if len(content) > most:
        raise error(f"{path}: unpacks to more than {most:,} bytes, which is more than such a file has", path=path)
    return content


T = TypeVar("T")

#: The first bytes of the file that git-LFS leaves in place of one that was not fetched.
_POINTER = b"version https://git-lfs.github.com/spec/"

#: Annotation files are tens of megabytes, the largest of a published benchmark 800.
_MOST_BYTES = 1 << 30

#: A pipe or a device has no size, and may have no end; it is read by the block.
_MOST_OF_A_PIPE, _BLOCK = 1 << 28, 1 << 16

#: Half of a character beyond U+FFFF, as JSON may write it.
_HALF = re.compile(r"\\u[dD][89a-fA-F]")

#: Real files nest a handful of levels; the functions that walk them call themselves once a level.
_MOST_LEVELS = 100

#: An integer of so many digits is within the range of a double.
_MOST_DIGITS = 300


def read_whole(path: Path, *, error: type[TellapartError] = DataError, most: int = _MOST_BYTES) -> bytes:
    """Return a file's bytes, unpacked if its name ends in `.gz`.

    Of a pipe or a device, which may have no end, no more are read than 256 MiB.

    Raises:
        TellapartError: `error`: it cannot be read, holds more than `most` bytes, or is git-LFS's pointer to the file.
    """
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            is_file = stat.S_ISREG(status.st_mode)
            most = most if is_file else min(most, _MOST_OF_A_PIPE)
            # No more at once than the size of the file: Python reserves memory for all that may be read.
            block = max(min(status.st_size, most), _BLOCK) + 1
            data = b"".join(islice(iter(lambda: file.read(block), b""), most // block + 1))
    except (OSError, ValueError) as failure:
        meant = suggest_beside(path) if isinstance(failure, FileNotFoundError) else ""
        reason = getattr(failure, "strerror", None) or failure
        raise error(f"{path}: cannot be read ({reason}){meant}", path=path) from failure
    if len(data) > most:
        remedy = "more than such a file has; is it the right one?" if is_file else "the most of a pipe or a device"
        raise error(f"{path}: holds more than {most:,} bytes, {remedy}", path=path)
    expect_content(data, path, error)
    return unpack_gzip(data, path, most, error=error)


def expect_content(data: bytes | None, path: Path, error: type[TellapartError]) -> None:
    """Refuse the pointer that git-LFS leaves in place of a file."""
    if data is None:
        with path.open("rb") as file:
            data = file.read(len(_POINTER))
    if data.startswith(_POINTER):
        raise error(f"{path}: is git-LFS's pointer to the file; run `git lfs pull` in its repository", path=path)


def decode_text(data: bytes, place: object, *, error: type[TellapartError] = DataError) -> str:
    """Return UTF-8 bytes as text, without the mark that spreadsheets put before it.

    Raises:
        TellapartError: `error`: they are not UTF-8; the line is named.

    >>> decode_text(bytes([97, 10, 233]), "a.csv")
    Traceback (most recent call last):
    tellapart.errors.DataError: a.csv:2: is not UTF-8 (byte 0xe9); save the file as UTF-8
    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as failure:
        if data.startswith(b"\x1f\x8b"):
            raise error(f"{place}: is gzip; end its name in .gz, or unpack it", path=place) from failure
        # A mark at the start is cut off before decoding, and positions count from behind it.
        start = failure.start + len(data) - len(failure.object)
        line = data.count(b"\n", 0, start) + 1
        raise error(
            f"{place}:{line}: is not UTF-8 (byte 0x{data[start]:02x}); save the file as UTF-8", path=place, line=line
        ) from failure


def parse_json(text: str, place: object, *, error: type[TellapartError] = DataError, nan: bool = False) -> Any:
    """Return the content of a JSON text, if it can be read in one way only.

    With `nan`, NaN and the infinities are numbers: other tools write them.

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
            object_pairs_hook=_distinct_keys,
            parse_constant=float if nan else _finite_number,
            parse_float=_finite_number,
            parse_int=_bounded_integer,
        )
        check_tree(content)
        if _HALF.search(text):
            whole_text(json.dumps(content, ensure_ascii=False))
    except (ValueError, RecursionError) as failure:
        fault = _TOO_DEEP if isinstance(failure, RecursionError) else str(failure)
        if isinstance(failure, json.JSONDecodeError):
            line = f"line {failure.lineno}, " if failure.lineno > 1 else ""
            fault = f"{failure.msg} at {line}column {failure.colno}"
        raise error(f"{place}: is not valid JSON ({fault})", path=place) from failure
    return content


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause Python's collector in a block, or in a function that this decorates; if it was on, it is on afterwards.

    Of a quarter of a million items it takes half the time of reading, for nothing.
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
    """Return the content of a JSON file; not empty if it must be a list, or an object; `nan` as of `parse_json`.

    Raises:
        TellapartError: `error`: it cannot be read, is not UTF-8, not JSON as `parse_json` reads it, or of another kind.
    """
    content = parse_json(decode_text(read_whole(path, error=error), path, error=error), path, error=error, nan=nan)
    if kind is not None and (not isinstance(content, kind) or not content):
        expected = "a list of rows" if kind is list else "an object of rows by key"
        raise error(f"{path}: expected {expected}, got {quote(content)}", path=path)
    return content


_TOO_DEEP = f"it nests more than {_MOST_LEVELS} levels"


def check_tree(content: object) -> None:
    """Check that a tree of lists and objects nests no more than 100 levels; no part may occur twice."""
    level = [content] if isinstance(content, dict | list) else []
    for _ in range(_MOST_LEVELS):
        parts = (node.values() if isinstance(node, dict) else node for node in level)
        level = [part for part in chain.from_iterable(parts) if isinstance(part, dict | list)]
        if not level:
            return
    raise ValueError(_TOO_DEEP)


def first_repeated(values: Iterable[T]) -> T | None:
    """Return the first value that occurs more than once, or None."""
    return next((value for value, count in Counter(values).items() if count > 1), None)


def expect_distinct(
    names: Iterable[str], path: Path, *, line: int | None = None, error: type[TellapartError] = DataError
) -> None:
    """Check that no name of a table's columns occurs twice: a reader would take either of the two."""
    if (name := first_repeated(names)) is not None:
        place, header = (path, "") if line is None else (f"{path}:{line}", " in the header")
        a_row = ", or, if that line is a row, write the names of its columns above it" if header else ""
        why = f"column {quote(name)} is repeated{header}; keep one of them{a_row}"
        raise error(f"{place}: {why}", path=path, line=line, field=name)


def _distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        raise ValueError(f"key {quote(first_repeated(key for key, _ in pairs))} is repeated in one object")
    return content


def _finite_number(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"{number:.60} is {'not a JSON' if number[-1].isalpha() else 'too large a'} number")
    return value


def _bounded_integer(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"{digits:.60} is too large a number")
    return int(digits)
