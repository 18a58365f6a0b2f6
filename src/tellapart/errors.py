"""The exception tree, one-line forms of libraries' errors, and the import of optional dependencies.

Every error that tellapart raises on purpose is a `TellapartError`; its message restates the call, the problem and what
to do next. The command line prints the message alone and exits with 2.
"""

from __future__ import annotations

import importlib
from types import ModuleType

__all__ = [
    "DataError",
    "MetricError",
    "MissingDependencyError",
    "ModelError",
    "RunError",
    "ScoreError",
    "StoreError",
    "TellapartError",
    "UnknownNameError",
    "first_line",
    "first_sentence",
    "require",
]


class TellapartError(Exception):
    """The root of every error raised on purpose.

    >>> issubclass(DataError, TellapartError)
    True
    """


class DataError(TellapartError):
    """A pair set, an annotation file or an image is not what its format says.

    The message names the file and, where there is one, the line, the field or the item id.
    """


class ScoreError(TellapartError):
    """Scores are missing, duplicated, not finite, or of the wrong shape."""


class MetricError(TellapartError):
    """A metric was asked of scores for which it is not defined."""


class ModelError(TellapartError):
    """A model's files are missing, inconsistent, or its output is not what its protocol says."""


class StoreError(TellapartError):
    """The embedding store's file is corrupt, foreign or cannot be written."""


class RunError(TellapartError):
    """A run folder is missing, unreadable, or was made by another configuration."""


class UnknownNameError(TellapartError):
    """A benchmark, model, builder or loss name is not in the catalogue."""


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
    """Return the first sentence of `first_line`, 200 characters of it, for errors that go on to explain themselves.

    >>> first_sentence(ValueError("\\n  too big. Did you mean small?\\nSee the docs"))
    'too big'
    """
    return first_line(error)[:200].partition(". ")[0]


def require(module: str, *, extra: str) -> ModuleType:
    """Import an optional dependency.

    Args:
        module: the dotted name to import.
        extra: the extra of this package that installs it.

    Raises:
        MissingDependencyError: the module, or its parent, is not installed.

    >>> require("json", extra="models").dumps([1])
    '[1]'
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as missing:
        # An import that fails deeper down is a broken installation, not a missing extra.
        if missing.name is None or not (module == missing.name or module.startswith(missing.name + ".")):
            raise
        raise MissingDependencyError(
            f'{module} is needed here and is not installed; run: pip install "tellapart[{extra}]"'
        ) from missing
