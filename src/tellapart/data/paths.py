"""Paths as callers give them: a text or a path."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path

from tellapart.errors import nearest


def home_folder() -> Path | None:
    """Return the user's home folder; None without one: `HOME` is empty or the root, or not set for an unknown user.

    So it is in many containers.
    """
    home = Path(os.path.expanduser("~"))  # noqa: PTH111  (pathlib's raises an error)
    return home if home.is_absolute() and home != home.parent else None


def suggest_beside(path: Path) -> str:
    """Return "; did you mean ...?" with the file of a missing path's folder that has nearly its name, or nothing.

    >>> suggest_beside(Path("pyproject.tml"))
    "; did you mean 'pyproject.toml'?"
    """
    try:  # of a folder that may hold millions
        return nearest(path.name, [entry.name for entry in islice(path.parent.iterdir(), 1_000)])
    except OSError:  # no folder, or one that may not be read
        return ""
