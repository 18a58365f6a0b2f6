"""What a board shows: folders of runs, files of imported numbers, and a few words; from a TOML file or from options.

```toml
[board]
title = "Minimal pairs at our lab"
runs = ["runs"]                        # folders, relative to this file
imported = ["records.toml"]            # see imported.py
database = "postgresql://localhost/board"
performance = ["vlue-nlvr2", "vlue-vqa"]    # over which the mean is taken; every benchmark if not given
```

`[submissions]` and `[[hidden]]` in the same file are those of `hidden.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tellapart.data.rows import read_toml
from tellapart.data.validation import Problem
from tellapart.errors import DataError

__all__ = ["BoardSettings", "read_settings"]

_TABLES = {"board", "submissions", "hidden"}


class BoardSettings(BaseModel):
    """What a board shows.

    Attributes:
        title: at the head of every page.
        about: a paragraph below the first page's title.
        runs: folders in which run folders lie, however deep; `timing.json` files in them give what models cost.
        imported: files of imported numbers.
        database: SQLAlchemy's address; a file in the first folder of runs if None.
        performance: benchmarks over which a model's mean is taken; all of them if empty.
        file: the board file, if one was read: the hidden benchmarks stand in it.

    >>> BoardSettings(runs=(Path("runs"),)).title
    'Which model can tell them apart?'
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str = "Which model can tell them apart?"
    about: str = ""
    runs: tuple[Path, ...] = ()
    imported: tuple[Path, ...] = ()
    database: str | None = None
    performance: tuple[str, ...] = ()
    file: Path | None = Field(default=None, exclude=True)


def read_settings(path: Path) -> BoardSettings:
    """Read a board file; its paths are relative to it.

    Raises:
        DataError: it cannot be read, is no TOML, or has a table or key that is not known.

    >>> read_settings(Path("gone.toml"))
    Traceback (most recent call last):
    tellapart.errors.DataError: gone.toml: cannot be read (No such file or directory)
    """
    content = read_toml(path)
    if unknown := sorted(set(content) - _TABLES):
        raise DataError(f"{path}: there is no table {unknown[0]!r}; a board file has {', '.join(sorted(_TABLES))}")
    try:
        found = BoardSettings.model_validate(content.get("board", {}))
    except ValidationError as error:
        raise DataError(f"{path}: [board] {Problem.first(error)}") from error
    folder = path.parent
    update: dict[str, Any] = {"file": path}
    for name in ("runs", "imported"):
        update[name] = tuple(folder / each.expanduser() for each in getattr(found, name))
    return found.model_copy(update=update)
