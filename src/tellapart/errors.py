"""The exception tree, one-line forms of libraries' errors, and the import of optional dependencies.

Every error that tellapart raises on purpose is a `TellapartError`; its message restates the call, the problem and the
remedy. The command line prints the message alone and exits with 2.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = [
    "UNPACKED", "DataError", "ExitError", "MetricError", "MissingDependencyError", "ModelError", "PluginError",
    "RunError", "ScoreError", "StoreError", "TellapartError", "TellapartWarning", "UnknownNameError", "explain_failure",
    "first_line", "first_sentence", "import_torch", "plain", "quote", "require", "shorten",
]  # fmt: skip

#: The longest message of an error: some readers list ids, and a stranger's id may be a book.
_LONGEST = 2000

#: Temporary folder -> the archive that it was unpacked from, by which messages name it: nobody finds the folder.
UNPACKED: dict[str, str] = {}

#: A file, perhaps with a line or a row: `a.jsonl`, `a.jsonl:3`, `a.json: row 3`.
_PLACE = re.compile(r"(?P<path>.*?)(?::(?P<line>\d+)|: .*)?", re.DOTALL)

#: Schemas that torchvision's Python files expect of its C++ library at import.
_OPERATORS = ("nms", "qnms")
_SIGNATURE = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"

#: How often a waiting thread of OpenMP looks for work before it sleeps; the library's default is 300,000. A run of a
#: ViT-S/32 on two cores, one of them busy: 25 processor seconds with this number, 37 with the default; on two idle
#: cores 23 with either. With 0 a training of small matrices takes 1.7 times as long.
_SPINS = "10000"

#: Holds the declared schemas: torch forgets them when this object is collected.
_declared: list[Any] = []


class TellapartError(Exception):
    """The root of every error raised on purpose; of a message beyond 2,000 characters the middle is left out.

    The facts of the message are attributes, too, if the reader that raised it gave them; otherwise they are None.

    Attributes:
        path: the file.
        line: the number of its line.
        field: the field, key or column.
        got: the value that was refused.

    >>> issubclass(DataError, TellapartError), len(str(DataError("x" * 300_000)))
    (True, 2000)
    >>> error = DataError("a.jsonl:3: field 'id': is empty", path="a.jsonl:3", field="id")
    >>> error.path, error.line, error.field, str(error)
    ('a.jsonl', 3, 'id', "a.jsonl:3: field 'id': is empty")
    """

    def __init__(
        self,
        *values: object,
        path: object = None,
        line: int | None = None,
        field: str | None = None,
        got: object = None,
    ) -> None:
        texts = (_name_archives(value) if isinstance(value, str) else value for value in values)
        super().__init__(*(_without_middle(plain(value)) if isinstance(value, str) else value for value in texts))
        place = None if path is None else _PLACE.fullmatch(_name_archives(str(path)))
        self.path: str | None = place["path"] if place else None
        self.line: int | None = int(place["line"]) if line is None and place and place["line"] else line
        self.field, self.got = field, got


def _name_archives(text: str) -> str:
    for folder, archive in [*UNPACKED.items()]:  # a copy: threads and the garbage collector change it
        text = text.replace(folder, archive)
    return text


class TellapartWarning(UserWarning):
    """Something is done in another way than the user may expect; the command line prints it in one line."""


class DataError(TellapartError):
    """A pair set, an annotation file or an image is malformed.

    The message names the file and, if there is one, the line, the field or the item id.
    """


class ScoreError(TellapartError):
    """Scores are missing, duplicated, not finite, or of the wrong shape."""


class MetricError(TellapartError):
    """A metric was asked of scores for which it is not defined."""


class ModelError(TellapartError):
    """A model's files are missing, inconsistent, or its output does not follow its protocol."""


class StoreError(TellapartError):
    """The embedding store's file is corrupt, foreign or cannot be written."""


class RunError(TellapartError):
    """A run folder is missing, unreadable, or was made by another configuration."""


class UnknownNameError(TellapartError):
    """A benchmark, model, builder or loss name is not in the catalogue."""


class PluginError(TellapartError):
    """A plugin, or a file of Python that the user named, is not there or has a mistake; the message names the line."""


class ExitError(PluginError):
    """Code that was called wanted to end the program (`sys.exit`), before results are written; the message names it."""


class MissingDependencyError(TellapartError):
    """An optional dependency is not installed; the message ends in the line that installs it."""


def first_line(error: BaseException) -> str:
    """Return the first line of a library's error, 300 characters of it, or the error's name if it has no message.

    >>> first_line(ValueError("\\n  too big. Did you mean small?\\nSee the docs")), first_line(KeyError())
    ('too big. Did you mean small?', 'KeyError')
    """
    line = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return line[:300]


def first_sentence(error: BaseException) -> str:
    """Return the first sentence of `first_line`, 200 characters of it, for errors that go on to explain themselves."""
    return first_line(error)[:200].partition(". ")[0]


@contextmanager
def explain_failure(subject: str, fix: str = "") -> Iterator[None]:
    """Raise any exception of a library as a `ModelError` of one line: the subject, the library's reason, the fix.

    Libraries' exceptions share no base class, and with a damaged file they fail anywhere. Errors of this package pass.
    """
    try:
        yield
    except TellapartError:
        raise
    except Exception as error:
        raise ModelError(f"{subject}: {first_line(error).rstrip('.')}{fix}") from error


def counted(number: int, noun: str) -> str:
    """Return a count with its noun, for a message.

    >>> counted(1, "query"), counted(2000, "query"), counted(0, "pair of captions")
    ('1 query', '2,000 queries', '0 pairs of captions')
    """
    head, of, rest = noun.partition(" of ")
    plural = f"{head[:-1]}ies" if head.endswith("y") else f"{head}s"
    return f"{number:,} {noun if number == 1 else f'{plural}{of}{rest}'}"


def shorten(text: str, limit: int = 80) -> str:
    """Return a text, or the beginning of a longer one."""
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def plain(text: str, keep: str = "") -> str:
    """Return a text with every character that steers a terminal (escapes, line ends, direction marks) spelled out.

    All that is printed or logged of files goes through this function: errors, warnings, tables and lines.

    >>> plain("a\\x1b[2Jb\\u202e"), plain("two\\nlines", keep="\\n")
    ('a\\\\x1b[2Jb\\\\u202e', 'two\\nlines')
    """
    if text.isprintable():
        return text
    return "".join(
        letter
        if letter.isprintable() or letter in keep or unicodedata.category(letter) == "Zs"
        else ascii(letter)[1:-1]
        for letter in text
    )


def quote(value: Any, limit: int = 60) -> str:
    """Return the beginning of a value's `repr`, without building all of it: lists that share lists may have no end.

    >>> quote({"label": ["a", 7]}), quote("a" * 300_000, 12), quote([[1] * 10**6] * 10**6, 12)
    ("{'label': ['a', 7]}", "'aaaaaaaaaaa", '[[1, 1, 1, 1')
    """
    text = ""
    for piece in _pieces(value, limit):
        text += piece
        if len(text) > limit:
            break
    return text[:limit]


def _pieces(value: Any, limit: int) -> Iterator[str]:
    """Yield a value's `repr` in parts, none of them much longer than the limit."""
    if type(value) in (str, bytes, bytearray):
        yield repr(value[: limit + 1])
    elif type(value) is int and value.bit_length() > 4 * limit:  # Python refuses to write 5,000 digits
        yield f"an integer of {value.bit_length():,} bits"
    elif type(value) in (list, tuple):
        yield "[" if type(value) is list else "("
        for position, element in enumerate(value):
            yield ", " if position else ""
            yield from _pieces(element, limit)
        yield "]" if type(value) is list else ",)" if len(value) == 1 else ")"
    elif type(value) is dict:
        yield "{"
        for position, (key, element) in enumerate(value.items()):
            yield ", " if position else ""
            yield from _pieces(key, limit)
            yield ": "
            yield from _pieces(element, limit)
        yield "}"
    else:
        yield repr(value)


def _without_middle(message: str) -> str:
    """Cut a message down; its end, which names the remedy, stays."""
    if len(message) <= _LONGEST:
        return message
    head, mark = _LONGEST // 2, " [...] "
    return message[:head] + mark + message[len(message) - (_LONGEST - head - len(mark)) :]


def nearest(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean ...?" for a name that begins a known one or is close to it, or nothing.

    >>> nearest("winogrund", ["demo", "winoground"]) == nearest("wino", ["demo", "winoground"])
    True
    >>> nearest("zebra", ["demo", "winoground"])
    ''
    """
    import difflib

    candidates = list(known)
    longer = [candidate for candidate in candidates if len(name) > 2 and candidate.startswith(name)]
    close = longer or difflib.get_close_matches(name, candidates, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def require(module: str, *, extra: str) -> ModuleType:
    """Import an optional dependency.

    Many of them import torch. If it computes with GNU's OpenMP, as its wheels for Linux do, its threads wait for each
    other awake for some 30 microseconds instead of a millisecond, unless `GOMP_SPINCOUNT` or `OMP_WAIT_POLICY` is set:
    on a machine with other work, and beside threads that decode, a core is not burnt in waiting.

    Args:
        module: the dotted name to import.
        extra: the extra of this package that installs it.

    Raises:
        MissingDependencyError: the module, or its parent, is not installed.

    >>> require("json", extra="models").dumps([1])
    '[1]'
    """
    if "torch" not in sys.modules and "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", _SPINS)
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as missing:
        # An import that fails deeper down is a broken installation, not a missing extra.
        if missing.name is None or not (module == missing.name or module.startswith(missing.name + ".")):
            raise
        raise MissingDependencyError(
            f'{module} is needed here and is not installed; run: pip install "tellapart[{extra}]", in a clone '
            f'pip install ".[{extra}]"'
        ) from missing


@cache
def import_torch() -> ModuleType:
    """Import torch, and make the torchvision installed with it importable; call it before transformers or open_clip.

    torchvision registers operators of its C++ library at import. With a torch of another kind (a CUDA build of
    the one, a CPU build of the other) that library does not load, `import torchvision` fails, and transformers and
    open_clip with it, though neither needs those operators. Declaring their two schemas is enough.

    Intel's MKL multiplies a row by other kernels at another place of a matrix or of memory, and the last bit of the
    result differs, on processors with AVX-512 for one. Its strict mode, unless `MKL_CBWR` is set or MKL has computed
    before, makes them equal.

    Raises:
        MissingDependencyError: torch is not installed.
    """
    os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")  # MKL reads it with its first product
    torch = require("torch", extra="models")
    if "torchvision" not in sys.modules and not _declared:
        _declare_operators(torch)
    return torch


def _declare_operators(torch: ModuleType) -> None:
    spec = importlib.util.find_spec("torchvision")
    if spec is None or not spec.submodule_search_locations:
        return
    library = next(Path(spec.submodule_search_locations[0]).glob("_C*"), None)
    if library is not None:
        with suppress(OSError):
            torch.ops.load_library(str(library))
            return
    fragment = torch.library.Library("torchvision", "FRAGMENT")
    for operator in _OPERATORS:
        fragment.define(operator + _SIGNATURE)
    _declared.append(fragment)
