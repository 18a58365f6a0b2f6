"""Safe reading of `.npz` and `.npy` files: no pickle, and no array larger than its header states or is sensible."""

from __future__ import annotations

import io
import math
import sys
import warnings
import zipfile
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from tellapart.data.strict_json import first_repeated, read_whole
from tellapart.errors import ScoreError, first_line, quote

#: The largest array that a file may hold, unpacked: 250,000 items of 2x2 doubles are 8 MB, 5,000 images by 25,000
#: captions in float32 half a gigabyte.
_MAX_ARRAY_BYTES = 1 << 30

#: U+D800 to U+DFFF without their last 11 bits: halves of characters.
_HALVES = 0xD800 >> 11


def read_arrays(path: Path, names: Collection[str]) -> dict[str, NDArray[Any]]:
    """Return those of the named arrays that the file holds, and unpack no others."""
    data = read_whole(path, error=ScoreError)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python's parser warns of odd headers, which are refused
            entries = _array_entries(archive)
            return {name: _read_array(archive, entry) for name, entry in entries.items() if name in names}
    except Exception as error:  # damaged archives and headers fail anywhere, with any exception
        raise ScoreError(f"{path} is not an npz file of plain arrays: {first_line(error)}") from error


def open_arrays(path: Path | BinaryIO) -> tuple[list[str], Callable[[str], NDArray[Any]]]:
    """Return the names of an npz file's arrays, and a function that reads one of them; the file stays open.

    Both may raise anything: the caller names the file, and which of its arrays.
    """
    archive = zipfile.ZipFile(path)
    entries = _array_entries(archive)
    return [*entries], lambda name: _read_array(archive, entries[name])


def _array_entries(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """Return the archive's members by the name of their array: `scores` and `scores.npy` are one."""
    members = archive.infolist()
    names = [member.filename.removesuffix(".npy") for member in members]
    if (twice := first_repeated(names)) is not None:
        raise ValueError(f"it holds two arrays of one name, {quote(twice)}; numpy would take either")
    return dict(zip(names, members, strict=True))


def _read_array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> NDArray[Any]:
    if entry.file_size > _MAX_ARRAY_BYTES:
        raise ValueError(
            f"{quote(entry.filename)} unpacks to {entry.file_size:,} bytes; at most {_MAX_ARRAY_BYTES:,} are read"
        )
    # How numpy packs arrays; other methods reserve the memory that the file asks for.
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{quote(entry.filename)} is packed as numpy does not; write it with numpy.savez_compressed")
    return _plain_array(archive.read(entry), quote(entry.filename))


def read_array(path: Path) -> NDArray[Any]:
    """Return the array of a `.npy` file."""
    data = read_whole(path, error=ScoreError, most=_MAX_ARRAY_BYTES)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _plain_array(data, "it")
    except Exception as error:  # as above
        raise ScoreError(f"{path} is not a .npy file of plain numbers: {first_line(error)}") from error


def read_header(stream: io.BytesIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return the shape, whether its order is Fortran's, and the type of the array in a `.npy` file."""
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    return read(stream)


def _plain_array(data: bytes, name: str) -> NDArray[Any]:
    stream = io.BytesIO(data)
    try:
        shape, _, dtype = read_header(stream)
    except Exception as error:
        raise ValueError(f"the header of {name} is damaged ({first_line(error)})") from error
    if dtype.hasobject:
        raise ValueError(f"{name} holds Python objects; write texts with .astype(str), numbers with .astype('float32')")
    # A header may claim terabytes, which numpy would allocate before it reads; or items of no bytes, without end.
    claimed = math.prod(shape) * (dtype.itemsize or 1)
    if min(shape, default=0) < 0 or claimed > len(data):
        raise ValueError(f"an array of shape {quote(shape)} is cut off")
    stream.seek(0)
    array: NDArray[Any] = np.load(stream, allow_pickle=False)
    if stream.read(1):
        raise ValueError(f"{name} goes on behind its array")
    codes = np.ravel(array).view(f"{dtype.byteorder}u4") if dtype.kind == "U" and array.nbytes else np.zeros(1, "u4")
    if int(codes.max()) > sys.maxunicode or (codes >> 11 == _HALVES).any():
        raise ValueError(f"{name} holds a letter that no text has")  # numpy makes a string of it only when asked
    return array
