"""Parquet files as the Hugging Face hub stores datasets: rows of text, and columns of encoded images."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tellapart.data.columns import expect_distinct_columns
from tellapart.data.strict_json import expect_content
from tellapart.errors import DataError, first_line, require

#: Limits of what is unpacked: a file of kilobytes may hold any number of rows, all with one text.
_MOST_ROWS, _MOST_BYTES = 5_000_000, 1 << 30
_BATCH_ROWS = 256

#: Row groups kept in memory: images are read in the order of items, by a few threads.
_CACHED_GROUPS = 2

_REFERENCE = re.compile(r"(?P<row>\d{1,9})/(?P<column>.+)", re.ASCII | re.DOTALL)


@contextmanager
def _name_damage(path: Path) -> Iterator[None]:
    """Turn every error of pyarrow on a damaged file into one that names the file.

    Most of its exceptions are also a `ValueError` or an `OSError`, but not all: `ArrowNotImplementedError` (a damaged
    type) is a `NotImplementedError`, and a wrong size ends in a `MemoryError`, an `OverflowError` or an `IndexError`.
    """
    arrow = require("pyarrow", extra="hub")
    if path.is_file():
        expect_content(None, path, DataError)
    try:
        yield
    except (arrow.ArrowException, OSError, ValueError, LookupError, MemoryError, OverflowError) as error:
        raise DataError(f"{path} cannot be read as parquet ({first_line(error)}); is it complete?") from error


def image_columns(path: Path) -> list[str]:
    """Return the names of a file's columns of encoded images, `struct<bytes, path>` or binary."""
    arrow, parquet = require("pyarrow", extra="hub"), require("pyarrow.parquet", extra="hub")
    with _name_damage(path):
        schema = parquet.read_schema(path)
    kinds = arrow.types
    return [
        column.name
        for column in schema
        if (kinds.is_struct(column.type) and column.type.get_field_index("bytes") >= 0)
        or kinds.is_binary(column.type)
        or kinds.is_large_binary(column.type)
    ]


def _read_batches(opened: Any, columns: list[str], groups: list[int] | None = None) -> Iterator[Any]:
    """Yield columns of some row groups, or of all, in batches; raise if they unpack to more than the limits."""
    metadata, size = opened.metadata, 0
    group_numbers = range(metadata.num_row_groups) if groups is None else groups
    parts = [metadata.row_group(k) for k in group_numbers]
    # Of some columns the stated size is not read: pyarrow ends the process at that of a damaged footer.
    reads_all = {*opened.schema_arrow.names} <= {*columns}
    stated_size = sum(part.total_byte_size for part in parts) if reads_all else 0
    if sum(part.num_rows for part in parts) > _MOST_ROWS or stated_size > _MOST_BYTES:
        raise ValueError(f"it unpacks to more than {_MOST_ROWS:,} rows or {_MOST_BYTES:,} bytes")
    for batch in opened.iter_batches(_BATCH_ROWS, row_groups=group_numbers, columns=columns):
        batch.validate(full=True)  # a damaged page may hold lengths and places of values that do not exist
        # A dictionary's texts count once a row, as its reader will have them.
        size += sum((row.dictionary_decode() if hasattr(row, "dictionary") else row).nbytes for row in batch)
        if size > _MOST_BYTES:
            raise ValueError(f"it unpacks to more than {_MOST_BYTES:,} bytes")
        yield batch


def _shorten(batch: Any) -> Any:
    """Return a batch whose numbers of 32 bits are those that other files have: 0.1, and not 0.10000000149011612."""
    arrow = require("pyarrow", extra="hub")
    columns = [
        column.cast(arrow.string()).cast(arrow.float64()) if arrow.types.is_float32(column.type) else column
        for column in batch.columns
    ]
    # A batch without columns has rows nonetheless: of a file with pictures alone.
    return arrow.RecordBatch.from_arrays(columns, names=batch.schema.names) if columns else batch


class _RowGroup(NamedTuple):
    """A row group of an opened file, its rows as the table counts them, and the first of these as its file does."""

    path: Path
    opened: Any
    number: int
    rows: range
    first_in_file: int


class ParquetTable:
    """The rows of one or more parquet files, in order; images stay the encoded bytes that were uploaded.

    An image's reference is its row and column, `17/image_0`; `read_file` reads other references, which are paths.
    """

    def __init__(
        self, files: Sequence[Path], *, images: Sequence[str], read_file: Callable[[str], bytes] | None = None
    ) -> None:
        parquet = require("pyarrow.parquet", extra="hub")
        self._images, self._read_file = list(images), read_file
        self._opened: list[tuple[Path, Any]] = []
        self._groups: list[_RowGroup] = []
        end = 0
        for path in files:
            with _name_damage(path):
                opened = parquet.ParquetFile(path)
                schema = opened.schema_arrow
                names = schema.names
                sizes = [opened.metadata.row_group(k).num_rows for k in range(opened.metadata.num_row_groups)]
            expect_distinct_columns(schema, path)
            self._opened.append((path, opened))
            file_start = end
            for number, size in enumerate(sizes):
                self._groups.append(_RowGroup(path, opened, number, range(end, end + size), end - file_start))
                end += size
            if missing := [name for name in images if name not in names]:
                raise DataError(f"{path} has no column {missing[0]!r}; it has {', '.join(names)}")
        self._cache: OrderedDict[tuple[Path, int], Any] = OrderedDict()
        self._lock = threading.Lock()

    def rows(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield each row without its images, with its place for messages."""
        for path, opened in self._opened:
            names = [name for name in opened.schema_arrow.names if name not in self._images]
            with _name_damage(path):
                rows = [row for batch in _read_batches(opened, names) for row in _shorten(batch).to_pylist()]
            yield from ((f"{path}: row {number}", row) for number, row in enumerate(rows))

    def __call__(self, reference: str) -> bytes:
        """Return the bytes of an image file."""
        match = _REFERENCE.fullmatch(reference)
        if match is None or match["column"] not in self._images:
            if self._read_file is not None:
                return self._read_file(reference)
        elif group := next((group for group in self._groups if int(match["row"]) in group.rows), None):
            column, position = match["column"], int(match["row"]) - group.rows.start
            with _name_damage(group.path):
                cell = self._read_group(group)[column][position].as_py()
            data, picture_path = (cell.get("bytes"), cell.get("path")) if isinstance(cell, dict) else (cell, None)
            if not data and picture_path and self._read_file is not None:
                return self._read_file(picture_path)
            if not data:
                row = group.first_in_file + position
                raise DataError(f"{group.path}: row {row}: column {column!r} holds no image")
            return bytes(data)
        files = ", ".join(str(path) for path, _ in self._opened)
        columns = ", ".join(self._images)
        raise DataError(f"{files}: {reference!r} is not a row and image column of this table; it has {columns}")

    def _read_group(self, group: _RowGroup) -> Any:
        key = (group.path, group.number)
        with self._lock:
            if key not in self._cache:
                batches = list(_read_batches(group.opened, self._images, [group.number]))
                self._cache[key] = require("pyarrow", extra="hub").Table.from_batches(batches)
                while len(self._cache) > _CACHED_GROUPS:
                    self._cache.popitem(last=False)
            self._cache.move_to_end(key)
            return self._cache[key]
