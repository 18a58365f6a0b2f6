"""The exception tree, what libraries raise in one line, and the one door to optional dependencies.

Every error that tellapart raises on purpose is a `TellapartError`; its message says what was asked, what was got
and what to do next. The command line prints the message alone and exits with 2.
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

    >>> raise DataError("pairs.jsonl:3: field 'texts': expected a list, got 'a cat'")
    Traceback (most recent call last):
    tellapart.errors.DataError: pairs.jsonl:3: field 'texts': expected a list, got 'a cat'
    """


class ScoreError(TellapartError):
    """Scores are missing, duplicated, not finite, or of the wrong shape.

    >>> raise ScoreError("2 scores are not finite: items 17, 44")
    Traceback (most recent call last):
    tellapart.errors.ScoreError: 2 scores are not finite: items 17, 44
    """


class MetricError(TellapartError):
    """A metric was asked of scores for which it is not defined.

    >>> raise MetricError("p_c needs probabilities; these scores are similarities")
    Traceback (most recent call last):
    tellapart.errors.MetricError: p_c needs probabilities; these scores are similarities
    """


class ModelError(TellapartError):
    """A model's files are missing, inconsistent, or its output is not what its protocol says.

    >>> raise ModelError("/m/config.json: field 'image_size': expected an integer, got '160px'")
    Traceback (most recent call last):
    tellapart.errors.ModelError: /m/config.json: field 'image_size': expected an integer, got '160px'
    """


class StoreError(TellapartError):
    """The embedding store's file is corrupt, foreign or cannot be written.

    >>> raise StoreError("/c/store.sqlite is not a tellapart store; delete it or name another --cache")
    Traceback (most recent call last):
    tellapart.errors.StoreError: /c/store.sqlite is not a tellapart store; delete it or name another --cache
    """


class RunError(TellapartError):
    """A run folder is missing, unreadable, or was made by another configuration.

    >>> raise RunError("runs/a has no results.json; is it a run folder?")
    Traceback (most recent call last):
    tellapart.errors.RunError: runs/a has no results.json; is it a run folder?
    """


class UnknownNameError(TellapartError):
    """A benchmark, model, builder or loss name is not in the catalogue.

    >>> raise UnknownNameError("no benchmark 'wino'; did you mean 'winoground'?")
    Traceback (most recent call last):
    tellapart.errors.UnknownNameError: no benchmark 'wino'; did you mean 'winoground'?
    """


class MissingDependencyError(TellapartError):
    """An optional dependency is not installed; the message ends in the line that installs it.

    >>> require("a_module_nobody_has", extra="train")
    Traceback (most recent call last):
    tellapart.errors.MissingDependencyError: a_module_nobody_has is needed here and is not installed; run: pip install "tellapart[train]"
    """


def first_line(error: BaseException) -> str:
    """Return the first line of what a library raised, 300 characters of it, or the error's name if it says nothing.

    >>> first_line(ValueError("\\n  too big. Did you mean small?\\nSee the docs")), first_line(KeyError())
    ('too big. Did you mean small?', 'KeyError')
    """
    line = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return line[:300]


def first_sentence(error: BaseException) -> str:
    """Return the first sentence of that line, 200 characters of it: where a library goes on to explain itself.

    >>> first_sentence(ValueError("\\n  too big. Did you mean small?\\nSee the docs"))
    'too big'
    """
    return first_line(error)[:200].partition(". ")[0]


def require(module: str, *, extra: str) -> ModuleType:
    """Import an optional dependency, or say which extra carries it.

    Args:
        module: the dotted name to import.
        extra: the extra of this package that installs it.

    Raises:
        MissingDependencyError: the module, or its parent, is not installed.

    >>> require("json", extra="models").__name__
    'json'
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
