"""Safe reading of `.npz` and `.npy` files: no pickle, and no array larger than its header says or than is sensible."""

from __future__ import annotations

import io
import math
import zipfile
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.errors import ScoreError

__all__ = ["read_array", "read_arrays"]

#: The largest array that a file may hold, unpacked: 250,000 items of 2x2 doubles are 8 MB, 5,000 images by 25,000
#: captions in float32 half a gigabyte.
_MAX_ARRAY_BYTES = 1 << 30


def read_arrays(path: Path, names: Collection[str]) -> dict[str, NDArray[Any]]:
    """Return those of the named arrays that the file holds, and unpack no others.

    Raises:
        ScoreError: the file cannot be read, is not an npz file of plain arrays, or one of them unpacks to more than
            1 GiB.

    >>> from tempfile import NamedTemporaryFile
    >>> with NamedTemporaryFile(suffix=".npz") as file:
    ...     np.savez(file.name, scores=[0.9, 0.1], notes=["x"])
    ...     read_arrays(Path(file.name), ["scores"])
    {'scores': array([0.9, 0.1])}
    """
    data = _bytes(path)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = [entry for entry in archive.infolist() if entry.filename.removesuffix(".npy") in names]
            for entry in entries:
                if entry.file_size > _MAX_ARRAY_BYTES:
                    raise ScoreError(
                        f"{path}: {entry.filename} unpacks to {entry.file_size:,} bytes; at most {_MAX_ARRAY_BYTES:,} "
                        "are read"
                    )
            return {entry.filename.removesuffix(".npy"): _array(archive.read(entry)) for entry in entries}
    except (zipfile.BadZipFile, zlib.error, ValueError, EOFError, OSError, NotImplementedError, RuntimeError) as error:
        raise ScoreError(f"{path} is not an npz file of plain arrays: {error}") from error


def read_array(path: Path) -> NDArray[Any]:
    """Return the array of a `.npy` file.

    Raises:
        ScoreError: the file cannot be read, is no plain array (a pickle, cut off), or holds more than 1 GiB.

    >>> path = getfixture("tmp_path") / "scores.npy"
    >>> np.save(path, [0.9, 0.1])
    >>> read_array(path)
    array([0.9, 0.1])
    """
    data = _bytes(path)
    if len(data) > _MAX_ARRAY_BYTES:
        raise ScoreError(f"{path} holds {len(data):,} bytes; at most {_MAX_ARRAY_BYTES:,} are read")
    try:
        return _array(data)
    except (ValueError, EOFError) as error:
        raise ScoreError(f"{path} is not a .npy file of plain numbers: {error}") from error


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ScoreError(f"{path} cannot be read: {error.strerror or error}") from error


def _array(data: bytes) -> NDArray[Any]:
    stream = io.BytesIO(data)
    version = np.lib.format.read_magic(stream)
    header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = header(stream)
    # A header may claim terabytes, which numpy would allocate before it reads.
    if not dtype.hasobject and math.prod(shape) * dtype.itemsize > len(data):
        raise ValueError(f"an array of shape {shape} is cut off")
    stream.seek(0)
    array: NDArray[Any] = np.load(stream, allow_pickle=False)
    return array
