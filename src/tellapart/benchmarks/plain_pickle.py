"""Lists and dictionaries of a pickle file, read without running it: whatever is no plain data is refused."""

from __future__ import annotations

import pickletools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tellapart.errors import DataError

__all__ = ["read_plain_pickle"]

_MARK = object()
_VALUES = frozenset(
    {
        *("INT", "LONG", "LONG1", "LONG4", "BININT", "BININT1", "BININT2", "FLOAT", "BINFLOAT"),
        *("STRING", "BINSTRING", "SHORT_BINSTRING"),
        *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
    }
)
_CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
    "EMPTY_TUPLE": tuple,
    "MARK": lambda: _MARK,
}


def read_plain_pickle(path: Path) -> Any:
    """Return the lists, tuples, dictionaries, texts and numbers that a pickle of any protocol up to 5 holds.

    The file's instructions are listed by `pickletools` and only those that put plain data together are followed; a
    pickle that names a class or a function, the way in for foreign code, is refused at that name.

    Raises:
        DataError: the file cannot be read, is no pickle, or holds something else than plain data.

    >>> import pickle, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "a.p"
    ...     _ = path.write_bytes(pickle.dumps([{"ref_id": 7, "split": "testA"}], protocol=0))
    ...     read_plain_pickle(path)
    [{'ref_id': 7, 'split': 'testA'}]
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error
    machine = _Machine(path)
    try:
        for operation, argument, _ in pickletools.genops(data):
            if operation.name == "STOP":
                (result,) = machine.stack
                return result
            machine.step(operation.name, argument)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise DataError(f"{path}: is no complete pickle of plain data ({error})") from error
    raise DataError(f"{path}: is no complete pickle of plain data")


class _Machine:
    """The part of pickle's stack machine that builds plain data."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def step(self, name: str, argument: Any) -> None:
        if name in _VALUES:
            self.stack.append(argument)
        elif name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name]())
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            self.stack.append(self.memo[int(argument)])
        elif name in ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"):
            self.memo[len(self.memo) if argument is None else int(argument)] = self.stack[-1]
        elif name not in ("PROTO", "FRAME"):
            self._build(name)

    def _build(self, name: str) -> None:
        if name == "APPEND":
            value = self.stack.pop()
            self.stack[-1].append(value)
        elif name == "APPENDS":
            values = self._since_mark()
            self.stack[-1].extend(values)
        elif name == "SETITEM":
            value, key = self.stack.pop(), self.stack.pop()
            self.stack[-1][key] = value
        elif name == "SETITEMS":
            values = self._since_mark()
            self.stack[-1].update(zip(values[::2], values[1::2], strict=True))
        elif name == "LIST":
            self.stack.append(self._since_mark())
        elif name == "TUPLE":
            self.stack.append(tuple(self._since_mark()))
        elif name == "DICT":
            values = self._since_mark()
            self.stack.append(dict(zip(values[::2], values[1::2], strict=True)))
        elif name in ("TUPLE1", "TUPLE2", "TUPLE3"):
            size = int(name[-1])
            self.stack[-size:] = [tuple(self.stack[-size:])]
        else:
            raise DataError(f"{self.path}: holds {name}, which is no plain data; a file that runs code is not read")

    def _since_mark(self) -> list[Any]:
        place = len(self.stack) - 1
        while self.stack[place] is not _MARK:
            place -= 1
            if place < 0:
                raise ValueError("no mark")
        values = self.stack[place + 1 :]
        del self.stack[place:]
        return values
