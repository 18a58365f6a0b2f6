"""The settings of a board: folders of runs, files of imported numbers, and its texts; from a TOML file or options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from tellapart.data.arguments import PathGiven, as_path
from tellapart.data.rows import read_toml
from tellapart.data.validation import validate
from tellapart.errors import DataError

_TABLES = {"board", "submissions", "hidden"}


class BoardSettings(BaseModel, frozen=True, extra="forbid"):
    """The settings of a board.

    Attributes:
        title: at the head of every page.
        about: a paragraph below the first page's title.
        runs: folders that hold run folders at any depth; `timing.json` files in them give models' costs.
        imported: files of imported numbers.
        performance: benchmarks over which a model's mean is taken; all of them if empty.
        file: the board file, if one was read: it lists the hidden benchmarks.
    """

    title: str = "Which model can tell them apart?"
    about: str = ""
    runs: tuple[Path, ...] = ()
    imported: tuple[Path, ...] = ()
    performance: tuple[str, ...] = ()
    file: Path | None = Field(default=None, exclude=True)


def as_board_file(board: PathGiven | None) -> Path:
    """Return the path of a board file; a folder is refused."""
    path = as_path(board, "board")
    if path.is_dir():
        raise DataError(f"board={path} is a folder; name the board file, such as {path / 'board.toml'}", path=path)
    return path


def read_settings(path: Path) -> BoardSettings:
    """Read a board file; its paths are relative to it."""
    content = read_toml(path)
    if unknown := sorted(set(content) - _TABLES):
        raise DataError(f"{path}: there is no table {unknown[0]!r}; a board file has {', '.join(sorted(_TABLES))}")
    settings = validate(BoardSettings, content.get("board", {}), f"{path}: [board]")
    update: dict[str, Any] = {"file": path}
    for name in ("runs", "imported"):
        update[name] = tuple(path.parent / entry.expanduser() for entry in getattr(settings, name))
    return settings.model_copy(update=update)
