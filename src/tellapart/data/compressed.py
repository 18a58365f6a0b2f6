"""Text that gzip has made smaller: `rows.jsonl.gz` is read as `rows.jsonl`."""

from __future__ import annotations

import gzip
import io
import zlib
from pathlib import Path

from tellapart.errors import DataError, TellapartError

_GZIP = ".gz"


def plain_suffix(path: Path) -> str:
    """Return a file's suffix, in lower case, without that of gzip.

    >>> plain_suffix(Path("rows.jsonl.gz")), plain_suffix(Path("rows.CSV"))
    ('.jsonl', '.csv')
    """
    return Path(path.stem if path.suffix.lower() == _GZIP else path).suffix.lower()


def is_gzip(data: bytes) -> bool:
    """Return whether bytes begin as a gzip file does."""
    return data.startswith(b"\x1f\x8b")


def unpack_gzip(data: bytes, path: Path, most: int, *, error: type[TellapartError] = DataError) -> bytes:
    """Return the content of a file's bytes: unpacked if its name ends in `.gz`; no more than `most` bytes are unpacked.

    >>> unpack_gzip(gzip.compress(b"a cat"), Path("captions.txt.gz"), most=100)
    b'a cat'
    >>> unpack_gzip(gzip.compress(bytes(101)), Path("captions.txt.gz"), most=100)
    Traceback (most recent call last):
    tellapart.errors.DataError: captions.txt.gz: unpacks to more than 100 bytes, which is more than such a file has
    """
    if path.suffix.lower() != _GZIP:
        return data
    try:
        if not data:  # which gzip reads as nothing
            raise EOFError("it is empty")
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            content = file.read(most + 1)
    except (OSError, EOFError, zlib.error) as failure:
        raise error(f"{path}: is not complete gzip ({failure}); is it cut off?", path=path) from failure
    if len(content) > most:
        raise error(f"{path}: unpacks to more than {most:,} bytes, which is more than such a file has", path=path)
    return content
