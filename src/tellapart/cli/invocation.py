"""The running command: its command line, run folder, embedding store, and how it goes on after an interrupt."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from tellapart.cli.progress import TerminalProgress
    from tellapart.models.store import EmbeddingStore

__all__ = ["command_line", "new_run_folder", "open_store", "resumable"]


def command_line() -> str:
    """Return the command as it was typed, quoted for a shell."""
    return shlex.join(["tellapart", *sys.argv[1:]])


def new_run_folder() -> Path:
    """Name a run folder after the time, so that no run ever lands in another's."""
    from datetime import datetime

    return Path("runs") / datetime.now().astimezone().strftime("%Y-%m-%d_%H-%M-%S.%f")[:-3]


def open_store(cache: Path | None, *, in_memory: bool = False) -> EmbeddingStore:
    """Open the embedding store: that of a folder, the user's own, or one in memory.

    Raises:
        StoreError: both a folder and memory were asked for.
    """
    from tellapart.errors import StoreError
    from tellapart.models.store import EmbeddingStore, default_store_path

    if cache is not None and in_memory:
        raise StoreError("--cache and --no-cache were both given; give one of them")
    path = cache / "store.sqlite" if cache is not None else default_store_path()
    return EmbeddingStore(None if in_memory else path)


@contextmanager
def resumable(again: str | None = None, result: str = "what is done") -> Iterator[TerminalProgress]:
    """Show progress; on Ctrl-C print what is kept and how to go on, and exit with 130.

    Args:
        again: the command that goes on; the same one if not given.
        result: what an interrupted command keeps.
    """
    from tellapart.cli.progress import TerminalProgress

    with TerminalProgress() as progress:
        try:
            yield progress
        except KeyboardInterrupt:
            progress.stop()
            print(f"interrupted; {result} is kept. Go on with: {again or command_line()}", file=sys.stderr)
            raise typer.Exit(130) from None
