"""Rows of the store: each table's statements, and the checksum that shows whether a row has changed."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """A table of the store: its columns are its key's, its values', and a checksum over both.

    Attributes:
        name: in the file.
        what: the meaning of a row, for readers.
        key: the key's columns; if the first is `model`, that is the model's number, and the checksum holds the
            model's fingerprint in its place.
        values: the other columns, without the checksum.
    """

    name: str
    what: str
    key: tuple[str, ...]
    values: tuple[str, ...]

    @property
    def select(self) -> str:
        """Return the query of one row by its key: its values and its checksum."""
        return f"SELECT {', '.join(self.values)}, checksum FROM {self.name} WHERE {self._key_condition}"  # noqa: S608

    @property
    def insert(self) -> str:
        """Return the statement that keeps a row, unless there is one of its key."""
        marks = ", ".join("?" * (len(self.key) + len(self.values) + 1))
        return f"INSERT OR IGNORE INTO {self.name} VALUES ({marks})"  # noqa: S608

    @property
    def delete(self) -> str:
        """Return the statement that deletes a row by its key."""
        return f"DELETE FROM {self.name} WHERE {self._key_condition}"  # noqa: S608

    @property
    def _key_condition(self) -> str:
        return " AND ".join(f"{column} = ?" for column in self.key)


VECTORS = Table("vector", "vector", ("model", "content"), ("dimensions", "data"))
PAIRS = Table("pair", "score", ("model", "image", "text"), ("score",))
PICTURES = Table("picture", "picture's hash", ("file",), ("pixels",))
SOURCES = Table("source", "entry of a model", ("key",), ("facts",))


def checksum(*columns: object) -> int | None:
    """Return the CRC-32 over a row's columns; None if one is of a type that no row holds, which is damage.

    zlib's is the fastest checksum of Python's library, and finds every run of damage of up to 32 bits.

    >>> checksum(b"model", b"key", 1.5) == checksum("model", b"key", 1.5) != checksum("model", b"key", 1.25)
    True
    """
    value = 0
    for column in columns:
        match column:
            case bytes():
                value = zlib.crc32(column, value)
            case str():
                value = zlib.crc32(column.encode(), value)
            case int():
                value = zlib.crc32(struct.pack("<q", column), value)
            case float():
                # SQLite keeps -0.0 as 0.
                value = zlib.crc32(struct.pack("<d", column + 0.0), value)
            case _:
                return None
    return value
