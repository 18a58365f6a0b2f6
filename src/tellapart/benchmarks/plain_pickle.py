"""Lists and dictionaries of a pickle file, read without running code: anything but plain data is refused."""

from __future__ import annotations

import io
import pickle
import pickletools
from pathlib import Path
from typing import Any, NoReturn

from tellapart.errors import DataError

__all__ = ["read_plain_pickle"]

#: The instructions that put plain data together; none of them imports a name or calls anything.
_PLAIN = frozenset(
    """
    PROTO FRAME STOP MARK GET BINGET LONG_BINGET PUT BINPUT LONG_BINPUT MEMOIZE
    NONE NEWTRUE NEWFALSE INT LONG LONG1 LONG4 BININT BININT1 BININT2 FLOAT BINFLOAT
    STRING BINSTRING SHORT_BINSTRING UNICODE BINUNICODE SHORT_BINUNICODE BINUNICODE8
    EMPTY_LIST APPEND APPENDS LIST EMPTY_DICT SETITEM SETITEMS DICT EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3
    """.split()  # noqa: SIM905  (a list of names reads better so)
)


class _PlainUnpickler(pickle.Unpickler):
    """A second guard behind the list of instructions: two readers of one format may differ."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"{module}.{name} is no plain data")


def read_plain_pickle(path: Path) -> Any:
    """Return the lists, tuples, dictionaries, texts and numbers that a pickle of any protocol up to 5 holds.

    The file's instructions are listed before the first of them is followed; a pickle that names a class or a function,
    the way in for foreign code, is refused at that name.

    Raises:
        DataError: the file cannot be read, is no pickle, or holds something else than plain data.
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
            # The standard reader reserves memory up to the highest place that is named.
            if operation.name in ("PUT", "LONG_BINPUT") and int(argument or 0) > len(data):
                raise ValueError(f"place {argument} in a file of {len(data)} bytes")
        return _PlainUnpickler(io.BytesIO(data), encoding="latin-1").load()
    except (ValueError, LookupError, TypeError, AttributeError, EOFError, pickle.UnpicklingError) as error:
        raise DataError(f"{path}: is no complete pickle of plain data ({error})") from error
