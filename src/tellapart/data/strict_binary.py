"""The door for numpy's files and pickles: no code runs, and no array is larger than its header states."""

from __future__ import annotations

import io
import math
import pickle
import pickletools
import sys
import warnings
import zipfile
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import numpy as np
from numpy.typing import NDArray

from tellapart.data.strict_json import first_repeated, read_whole
from tellapart.errors import DataError, ScoreError, first_line, quote

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


# Lists and dictionaries of a pickle file: anything but plain data is refused.

#: The instructions that put plain data together; none of them imports a name or calls anything.
_PLAIN = frozenset(
    """
    PROTO FRAME STOP MARK GET BINGET LONG_BINGET PUT BINPUT LONG_BINPUT MEMOIZE
    NONE NEWTRUE NEWFALSE INT LONG LONG1 LONG4 BININT BININT1 BININT2 FLOAT BINFLOAT
    STRING BINSTRING SHORT_BINSTRING UNICODE BINUNICODE SHORT_BINUNICODE BINUNICODE8
    BINBYTES SHORT_BINBYTES BINBYTES8
    EMPTY_LIST APPEND APPENDS LIST EMPTY_DICT SETITEM SETITEMS DICT EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3
    """.split()  # noqa: SIM905  (a list of names reads better so)
)

#: How many values an instruction takes from the stack: None are those down to a mark.
_TAKES: dict[str, int | None] = {"TUPLE": None, "LIST": None, "DICT": None, "APPENDS": None, "SETITEMS": None}
_TAKES |= {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3, "APPEND": 1, "SETITEM": 2}
_MAKES = {"TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "LIST", "DICT"}

#: Real files nest a handful of levels, and share texts, not lists.
_MOST_LEVELS, _MOST_COPIES = 100, 10

_OPEN = -1


class _PlainUnpickler(pickle.Unpickler):
    """A second guard behind the list of instructions: two readers of one format may differ."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"{module}.{name} is not plain data")


def read_plain_pickle(path: Path) -> Any:
    """Return the content of a pickle file, as `parse_plain_pickle`."""
    return parse_plain_pickle(read_whole(path), str(path))


def parse_plain_pickle(data: bytes, source: str) -> Any:
    """Return the lists, tuples, dictionaries, texts, bytes and numbers that a pickle of any protocol up to 5 holds.

    Its instructions are listed before the first of them is followed; a pickle that names a class or a function, the way
    in for foreign code, is refused at that name. `source` names the place in errors.
    """
    try:
        _check_instructions(source, data)
        content = _PlainUnpickler(io.BytesIO(data), encoding="latin-1").load()
        _check_size(content, _MOST_COPIES * len(data))
    except DataError:
        raise
    except Exception as error:  # damaged pickles fail anywhere, with any exception
        raise DataError(f"{source}: is not a complete pickle of plain data ({first_line(error)})") from error
    return content


def _check_instructions(source: str, data: bytes) -> None:
    """Go through the instructions, following none; of the value only how deep tuples nest is kept."""
    depths: list[int | None] = []  # of each value on the reader's stack; None is a mark
    places: dict[Any, int] = {}
    for operation, argument, _ in pickletools.genops(data):
        name = operation.name
        if isinstance(argument, str):
            argument.encode()  # half of a character cannot be written
        if name not in _PLAIN:
            raise DataError(f"{source}: holds {name}, which is not plain data; a file that runs code is not read")
        # The standard reader reserves memory up to the highest place that is named.
        if name in ("PUT", "LONG_BINPUT") and int(argument or 0) > len(data):
            raise ValueError(f"place {argument} in a file of {len(data)} bytes")
        if name == "MARK":
            depths.append(None)
        elif name in _TAKES:
            count = _TAKES[name]
            popped = [*iter(depths.pop, None)] if count is None else [depths.pop() or 0 for _ in range(count)]
            if name in _MAKES:
                depths.append(1 + max(popped, default=0) if name.startswith("TUPLE") else 0)
        elif name in ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"):
            places[len(places) if name == "MEMOIZE" else argument] = depths[-1] or 0
        elif name not in ("PROTO", "FRAME", "STOP"):
            depths.append(places.get(argument, 0) if name in ("GET", "BINGET", "LONG_BINGET") else 0)
        # A tuple in a tuple and so on ends the program when it becomes a key: Python hashes it without a limit.
        if depths and (depths[-1] or 0) > _MOST_LEVELS:
            raise ValueError(f"it nests more than {_MOST_LEVELS} tuples")


def _check_size(content: object, most: int) -> None:
    """Refuse lists that hold themselves, or one another so often that to walk through them takes days."""
    sizes: dict[int, int] = {}
    levels: dict[int, int] = {}
    waiting = [(content, False)]
    while waiting:
        value, seen = waiting.pop()
        parts = [*value, *value.values()] if isinstance(value, dict) else value
        parts = parts if isinstance(parts, list | tuple) else ()
        if seen:  # its parts are known by now
            sizes[id(value)] = 1 + sum(sizes.get(id(part), 1) for part in parts)
            levels[id(value)] = 1 + max((levels.get(id(part), 0) for part in parts), default=0)
            if sizes[id(value)] > most or levels[id(value)] > _MOST_LEVELS:
                raise ValueError(f"written out it has more than {most:,} parts, or more than {_MOST_LEVELS} levels")
        elif sizes.get(id(value)) == _OPEN:
            raise ValueError("a list holds itself")
        elif id(value) not in sizes:
            sizes[id(value)] = _OPEN
            waiting.append((value, True))
            waiting += [(part, False) for part in parts if isinstance(part, dict | list | tuple)]
