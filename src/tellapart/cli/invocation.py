"""The running command: its command line, run folder, and how it goes on after an interrupt."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tellapart.report.terminal import print_text

if TYPE_CHECKING:
    from tellapart.report.progress import CommandProgress


def command_line() -> str:
    """Return the command as it was typed, quoted for a shell."""
    return shlex.join(["tellapart", *sys.argv[1:]])


def new_run_folder() -> Path:
    """Name a run folder after the time, so that no run ever lands in another's."""
    from datetime import datetime

    return Path("runs") / datetime.now().astimezone().strftime("%Y-%m-%d_%H-%M-%S.%f")[:-3]


@contextmanager
def interruptible(
    kept: Callable[[], str | None] = lambda: None, *, again: str | Callable[[], str] | None = None, quiet: bool = False
) -> Iterator[CommandProgress]:
    """Show progress; on Ctrl-C print which results are kept and how to go on, and exit with 130."""
    from tellapart.report.progress import show_progress

    with show_progress(quiet=quiet) as progress:
        try:
            yield progress
        except KeyboardInterrupt:
            progress.stop()
            left, command = kept(), again() if callable(again) else again or command_line()
            ending = f"{left}. Go on with: {command}" if left else f"nothing is kept. Begin again with: {command}"
            print_text(f"interrupted; {ending}", error=True)
            raise typer.Exit(130) from None
