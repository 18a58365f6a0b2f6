"""Paths as callers give them: a text or a path."""

from __future__ import annotations

import os
from pathlib import Path

from tellapart.errors import DataError, TellapartError, quote

__all__ = ["as_path"]


def as_path(value: object, what: str, error: type[TellapartError] = DataError) -> Path:
    """Return a text or a path as a path, with `~` expanded.

    Args:
        value: the argument.
        what: the argument's name, for the message.
        error: the type of the error.

    Raises:
        TellapartError: it is neither, or empty; of the kind `error`.

    >>> as_path("runs/mine", "out").as_posix()
    'runs/mine'
    """
    if isinstance(value, str | os.PathLike) and str(value):
        return Path(value).expanduser()
    raise error(f"{what}={quote(value)} ({type(value).__name__}) is not a path; give a text or a pathlib.Path")
