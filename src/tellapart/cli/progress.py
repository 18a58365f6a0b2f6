"""Progress on the terminal: a bar with the time that is left, for anything longer than a second."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any, Self

from tellapart.data.progress import Progress

__all__ = ["TerminalProgress"]

#: Shorter work shows no bar.
_PATIENCE = 1.0

#: Characters of a bar's title.
_WIDEST = 48


class TerminalProgress:
    """Bars on standard error while it is a terminal; silent otherwise. Leaving the block takes them off."""

    def __init__(self) -> None:
        self._visible = sys.stderr.isatty()
        self._bars: Any = None
        self._tasks: dict[str, Any] = {}
        self._started: dict[str, float] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def callback(self, title: str) -> Progress:
        """Return the callback of a piece of work: it takes the stage, what is done of it, and the total."""
        return lambda stage, done, total: self._update(f"{title}: {stage}", done, total)

    def stop(self) -> None:
        """Take the bars off the terminal."""
        if self._bars is not None:
            self._bars.stop()
            self._bars = None
            self._tasks.clear()

    def _update(self, title: str, done: int, total: int) -> None:
        if not self._visible:
            return
        now = time.monotonic()
        started = self._started.setdefault(title, now)
        if done >= total:
            self._finish(title)
            return
        if title not in self._tasks and now - started < _PATIENCE:
            return
        if self._bars is None:
            self._bars = _bars()
            self._bars.start()
        if title not in self._tasks:
            self._tasks[title] = self._bars.add_task(_short(title), total=total)
        self._bars.update(self._tasks[title], completed=done, total=total)

    def _finish(self, title: str) -> None:
        self._started.pop(title, None)
        if title in self._tasks:
            self._bars.remove_task(self._tasks.pop(title))


def _short(title: str) -> str:
    """Leave room for the bar beside a benchmark that is named by a long path: its end says more than its middle."""
    return title if len(title) <= _WIDEST else f"{title[: _WIDEST // 3]}...{title[-2 * _WIDEST // 3 + 3 :]}"


def _bars() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)
