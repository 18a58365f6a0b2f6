"""Lists and dictionaries of a pickle file, read so that nothing in it runs: anything but plain data is refused."""

from __future__ import annotations

import io
import pickle
import pickletools
from pathlib import Path
from typing import Any, NoReturn

from tellapart.errors import DataError

__all__ = ["read_plain_pickle"]

#: The operations of plain data: texts, numbers, constants, lists, tuples, dictionaries, and references among them.
_PLAIN = frozenset(
    {
        *("INT", "LONG", "LONG1", "LONG4", "BININT", "BININT1", "BININT2", "FLOAT", "BINFLOAT"),
        *("STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
        *("NONE", "NEWTRUE", "NEWFALSE", "EMPTY_LIST", "EMPTY_DICT", "EMPTY_TUPLE", "MARK"),
        *("GET", "BINGET", "LONG_BINGET", "PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"),
        *("APPEND", "APPENDS", "SETITEM", "SETITEMS", "LIST", "TUPLE", "DICT", "TUPLE1", "TUPLE2", "TUPLE3"),
        *("PROTO", "FRAME", "STOP"),
    }
)


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"{module}.{name} is no plain data")

    def persistent_load(self, pid: Any) -> NoReturn:
        raise pickle.UnpicklingError(f"the persistent object {pid!r} is no plain data")


def read_plain_pickle(path: Path) -> Any:
    """Return the lists, tuples, dictionaries, texts and numbers that a pickle of any protocol up to 5 holds.

    Its operations are listed first: one that names a class or a function, the way in for foreign code, is refused, and
    so is a reference that would only fill the memory.

    Raises:
        DataError: the file cannot be read, is no pickle, or holds something else than plain data.

    >>> path = getfixture("tmp_path") / "a.p"
    >>> _ = path.write_bytes(pickle.dumps([{"ref_id": 7, "split": "testA"}], protocol=0))
    >>> read_plain_pickle(path)
    [{'ref_id': 7, 'split': 'testA'}]
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error
    try:
        for operation, argument, _ in pickletools.genops(data):
            if operation.name not in _PLAIN:
                raise DataError(
                    f"{path}: holds {operation.name}, which is no plain data; a file that runs code is not read"
                )
            if operation.name.endswith("PUT") and int(argument or 0) > len(data):
                raise ValueError(f"reference {argument} of {len(data)} bytes")
        return _PlainUnpickler(io.BytesIO(data), encoding="latin-1").load()
    except (pickle.UnpicklingError, ValueError, LookupError, TypeError, AttributeError, EOFError) as error:
        raise DataError(f"{path}: is no complete pickle of plain data ({error})") from error
