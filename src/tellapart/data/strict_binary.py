"""Strict readers of numpy's files and of pickles: no code runs, and no array is larger than its file."""

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

from tellapart.data.strict_json import MOST_LEVELS, check_depth, first_repeated, read_whole
from tellapart.errors import DataError, ScoreError, first_line, quote

__all__ = ["open_arrays", "parse_plain_pickle"]

#: The largest array that a file may hold, unpacked. For scale: 250,000 items of 2x2 doubles are 8 MB, and 5,000 images
#: by 25,000 captions in float32 are half a gigabyte.
_MAX_ARRAY_BYTES = 1 << 30

#: The leading bits of UTF-16's surrogates, U+D800 to U+DFFF: halves of characters, which no text may hold alone.
_SURROGATES = 0xD800 >> 11


def read_arrays(path: Path, names: Collection[str]) -> dict[str, NDArray[Any]]:
    """Return those of the named arrays that the file holds, and unpack no others."""
    data = read_whole(path, error=ScoreError)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python's parser warns of odd headers, which are refused
            held, read = open_arrays(io.BytesIO(data))
            return {name: read(name) for name in held if name in names}
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
    # numpy packs arrays in these two ways; the unpackers of others reserve whatever memory the file asks for.
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
    except Exception as error:  # damaged headers fail with any exception
        raise ScoreError(f"{path} is not a .npy file of plain numbers: {first_line(error)}") from error


def read_header(stream: io.BytesIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return the shape of the array in a `.npy` file, whether it lies in Fortran's order, and its type."""
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
    # A header may claim terabytes, which numpy would allocate before it reads, or endless items of no bytes.
    claimed = math.prod(shape) * (dtype.itemsize or 1)
    if min(shape, default=0) < 0 or claimed > len(data):
        raise ValueError(f"an array of shape {quote(shape)} is cut off")
    stream.seek(0)
    array: NDArray[Any] = np.load(stream, allow_pickle=False)
    if stream.read(1):
        raise ValueError(f"{name} goes on behind its array")
    if dtype.kind == "U" and array.nbytes:  # numpy itself checks the characters only when it makes a string of them
        codes = np.ravel(array).view(f"{dtype.byteorder}u4")
        if int(codes.max()) > sys.maxunicode or (codes >> 11 == _SURROGATES).any():
            raise ValueError(f"{name} holds a letter that no text has")
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

#: How many values an instruction takes from the stack; None: all down to the last mark, which is None there.
_TAKES: dict[str, int | None] = {"TUPLE": None, "LIST": None, "DICT": None, "APPENDS": None, "SETITEMS": None}
_TAKES |= {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3, "APPEND": 1, "SETITEM": 2}
_MAKES = {"TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "LIST", "DICT"}

#: Lists of real files are not shared: written out, they are about as long as the file.
_MOST_COPIES = 10


class _PlainUnpickler(pickle.Unpickler):
    """An unpickler that imports nothing: a second guard, if the reader of instructions and this one differ."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"{module}.{name} is not plain data")


def read_plain_pickle(path: Path) -> Any:
    """Return the content of a pickle file, as `parse_plain_pickle` does."""
    return parse_plain_pickle(read_whole(path), str(path))


def parse_plain_pickle(data: bytes, source: str) -> Any:
    """Return the lists, tuples, dictionaries, texts, bytes and numbers that a pickle of any protocol up to 5 holds.

    All instructions are checked before the first of them is followed. A pickle that names a class or a function, by
    which foreign code could run, is refused. `source` names the place in errors.
    """
    try:
        _check_instructions(source, data)
        content = _PlainUnpickler(io.BytesIO(data), encoding="latin-1").load()
        check_depth(content, _MOST_COPIES * len(data))
    except DataError:
        raise
    except Exception as error:  # damaged pickles fail anywhere, with any exception
        raise DataError(f"{source}: is not a complete pickle of plain data ({first_line(error)})") from error
    return content


def _check_instructions(source: str, data: bytes) -> None:
    """Check the instructions without following them; only how deep tuples nest, and their parts, are computed."""
    plain, most, parts = (0, 1), _MOST_COPIES * len(data), 0
    stack: list[tuple[int, int] | None] = []  # levels of tuples, and parts written out, of each value; None is a mark
    memo: dict[Any, tuple[int, int]] = {}  # place in the unpickler's memo -> those of the value that it stores
    for operation, argument, _ in pickletools.genops(data):
        name = operation.name
        if isinstance(argument, str):
            argument.encode()  # raises at half of a character, which no file could be written with
        if name not in _PLAIN:
            raise DataError(f"{source}: holds {name}, which is not plain data; a file that runs code is not read")
        # The standard reader reserves memory up to the highest place that is named.
        if name in ("PUT", "LONG_BINPUT") and int(argument or 0) > len(data):
            raise ValueError(f"place {argument} in a file of {len(data)} bytes")
        if name == "MARK":
            stack.append(None)
        elif name in _TAKES:
            count = _TAKES[name]
            taken = [*iter(stack.pop, None)] if count is None else [stack.pop() or plain for _ in range(count)]
            if name in _MAKES:
                levels, size = 1 + max((of for of, _ in taken), default=0), 1 + sum(of for _, of in taken)
                stack.append((levels, size) if name.startswith("TUPLE") else plain)
        elif name in ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"):
            memo[len(memo) if name == "MEMOIZE" else argument] = stack[-1] or plain
        elif name not in ("PROTO", "FRAME", "STOP"):
            stack.append(value := memo.get(argument, plain) if name in ("GET", "BINGET", "LONG_BINGET") else plain)
            parts += value[1]
        # Python hashes a key without a limit: tuples in tuples overflow the stack, shared ones take days.
        if parts > most or (stack and (stack[-1] or plain)[0] > MOST_LEVELS):
            raise ValueError(f"it nests more than {MOST_LEVELS} tuples, or holds more than {most:,} parts written out")
