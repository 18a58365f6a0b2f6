"""The running command: its command line, run folder, embedding store, and how it goes on after an interrupt."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from tellapart.api.progress import CommandProgress
    from tellapart.models.store.embedding_store import EmbeddingStore

__all__ = ["command_line", "interruptible", "kept_embeddings", "new_run_folder", "open_store"]


def command_line() -> str:
    """Return the command as it was typed, quoted for a shell."""
    return shlex.join(["tellapart", *sys.argv[1:]])


def new_run_folder() -> Path:
    """Name a run folder after the time, so that no run ever lands in another's."""
    from datetime import datetime

    return Path("runs") / datetime.now().astimezone().strftime("%Y-%m-%d_%H-%M-%S.%f")[:-3]


def open_store(cache: Path | None, *, in_memory: bool = False) -> EmbeddingStore:
    """Open the embedding store: that of a folder, the user's, or one in memory.

    Raises:
        StoreError: both a folder and memory were asked for.
    """
    from tellapart.api.evaluate import open_store as open_it
    from tellapart.errors import StoreError

    if cache is not None and in_memory:
        raise StoreError("--cache and --no-cache were both given; give one of them")
    return open_it(False if in_memory else cache)


def kept_embeddings(store: EmbeddingStore) -> str | None:
    """Describe the store after an interrupted command; nothing if that was in memory."""
    return f"embeddings and scores that were computed are kept in {store.path}" if store.path else None


@contextmanager
def interruptible(
    kept: Callable[[], str | None] = lambda: None, *, again: str | None = None, quiet: bool = False
) -> Iterator[CommandProgress]:
    """Show progress; on Ctrl-C print which results are kept and how to go on, and exit with 130.

    Args:
        kept: returns the sentence on the results of an interrupted command; None without any.
        again: the command that goes on, or begins again; the same one if not given.
        quiet: show no progress.
    """
    from tellapart.api.progress import show_progress

    with show_progress(quiet=quiet) as progress:
        try:
            yield progress
        except KeyboardInterrupt:
            progress.stop()
            left, command = kept(), again or command_line()
            ending = f"{left}. Go on with: {command}" if left else f"nothing is kept. Begin again with: {command}"
            print(f"interrupted; {ending}", file=sys.stderr)
            raise typer.Exit(130) from None
