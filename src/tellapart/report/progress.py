"""Progress: bars on a terminal and in a notebook, elsewhere a line every half minute; or nothing."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from functools import partial
from html import escape
from typing import Any, NamedTuple, Self, TypeAlias

from tellapart.data.progress import NotedProgress
from tellapart.errors import RunError, plain, quote
from tellapart.report.numbers import thousands
from tellapart.report.terminal import console, print_text

#: True shows progress, False does not, None if somebody may look; or a function from a title to a callback.
ProgressGiven: TypeAlias = bool | Callable[[str], NotedProgress] | None

#: Seconds: shorter work shows no bar; between two pictures of a notebook's bar; between two lines of a log.
_PATIENCE, _REDRAWN, _INTERVAL = 1.0, 0.2, 30.0

#: Characters of a bar's title.
_WIDEST = 48


def show_progress(*, quiet: bool = False) -> CommandProgress:
    """Return the progress of this process, as a context manager; of several ranks the first shows it."""
    if quiet or os.environ.get("RANK", "").strip("0").isdecimal():  # torchrun numbers its processes so
        return CommandProgress()
    if in_notebook():
        return NotebookProgress()
    return TerminalProgress() if sys.stderr.isatty() else ProgressLog(_INTERVAL)


def in_notebook() -> bool:
    """Return whether this process is a notebook's kernel, which shows HTML."""
    from_ipython = getattr(sys.modules.get("IPython"), "get_ipython", None)
    shell = from_ipython() if from_ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")


@contextmanager
def reporting(progress: ProgressGiven = None) -> Iterator[Callable[[str], NotedProgress] | None]:
    """Yield a function from the title of a piece of work to the callback for its progress; None if nothing is shown."""
    if callable(progress):
        yield progress
        return
    if not (progress is None or progress is True or progress is False):
        raise RunError(f"progress={quote(progress)}: give True, False, or a function from a title to a callback")
    wanted = progress or (progress is None and (in_notebook() or sys.stderr.isatty()))
    with show_progress(quiet=not wanted) as shown:
        yield shown.callback if wanted else None


class CommandProgress(AbstractContextManager["CommandProgress"]):
    """Progress that is not shown; at the block's end the classes below remove it from the screen."""

    def __exit__(self, *raised: object) -> None:
        self.stop()

    def callback(self, title: str) -> NotedProgress:
        """Return the callback of a piece of work: it takes the stage, the number done, the total, and a note."""
        self._begin_stage(title)
        return partial(self._update_stage, title)

    def stop(self) -> None:
        """Show no more."""

    def _begin_stage(self, title: str) -> None: ...

    def _update_stage(self, work: str, stage: str, done: int, total: int, note: str = "") -> None: ...


class TerminalProgress(CommandProgress):
    """One line: a bar with the time that is left, of the stage that reported last, if it takes longer than a second."""

    def __init__(self) -> None:
        self._make_bars: Any = None
        self._tasks: dict[str, Any] = {}
        self._started: dict[str, float] = {}

    def stop(self) -> None:
        """Take the bars off the terminal."""
        if self._make_bars is not None:
            self._make_bars.stop()
            self._make_bars = None
            self._tasks.clear()

    def _update_stage(self, work: str, stage: str, done: int, total: int, note: str = "") -> None:
        title, now = f"{work}: {stage}", time.monotonic()
        started = self._started.setdefault(title, now)
        if done >= total:
            self._started.pop(title, None)
            if title in self._tasks:
                self._make_bars.remove_task(self._tasks.pop(title))
            return
        if title not in self._tasks and now - started < _PATIENCE:
            return
        if self._make_bars is None:
            self._make_bars = _make_bars()
            self._make_bars.start()
        if title not in self._tasks:
            # A run that goes on begins at its step: the bar's pace would count all before it.
            self._tasks[title] = self._make_bars.add_task(_short_title(title), total=total, completed=done)
        noted = f"{_short_title(title)} {note}".rstrip()
        self._make_bars.update(self._tasks[title], completed=done, total=total, description=noted)
        for other, task in self._tasks.items():
            self._make_bars.update(task, visible=other == title)


class NotebookProgress(CommandProgress):
    """A bar of the browser, for every stage that takes longer than a second; it is gone when the work is done.

    It is a line of HTML, since rich's and tqdm's bars need ipywidgets.
    """

    def __init__(self) -> None:
        self._shown: Any = None
        self._started: dict[str, float] = {}
        self._drawn = 0.0

    def stop(self) -> None:
        """Take the bar off the page."""
        if self._shown is not None:
            self._draw("")
            self._shown = None

    def _update_stage(self, work: str, stage: str, done: int, total: int, note: str = "") -> None:
        title, now = f"{work}: {stage}", time.monotonic()
        started = self._started.setdefault(title, now)
        if done >= total:
            self._started.pop(title, None)
            self.stop()
        elif now - started >= _PATIENCE and now - self._drawn >= _REDRAWN:
            self._drawn = now
            said = escape(plain(f"{title} {thousands(done)} of {thousands(total)} {note}"))
            self._draw(f'<progress value="{done}" max="{total}" style="width: 20em"></progress> {said}')

    def _draw(self, html: str) -> None:
        from IPython.display import HTML, display

        if self._shown is None:
            self._shown = display(HTML(html), display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._shown.update(HTML(html))  # type: ignore[no-untyped-call]


class _Stage(NamedTuple):
    """The state of a stage, and the time and state of its second report, from which its pace is measured."""

    title: str
    done: int = 0
    total: int = 0
    note: str = ""
    first: tuple[float, int] = (0.0, 0)
    reports: int = 2


class ProgressLog(CommandProgress):
    """A plain line every half minute: since when the command is at work, the stage, its state, and the time left.

    A separate thread writes it, so that a stage that reports nothing for long is seen to go on, too.
    """

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._started = time.monotonic()
        self._stage = _Stage("at work")
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._write_lines, name="progress", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def stop(self) -> None:
        """Write no more lines."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def _begin_stage(self, title: str) -> None:
        self._stage = _Stage(f"{title}: begins")

    def _update_stage(self, work: str, stage: str, done: int, total: int, note: str = "") -> None:
        title, now, before = f"{work}: {stage}", (time.monotonic(), done), self._stage
        reports = 1 + (before.reports if before.title == title else 0)
        self._stage = _Stage(title, done, total, note, before.first if reports > 2 else now, reports)

    def _write_lines(self) -> None:
        while not self._ended.wait(self._interval):
            now = time.monotonic()
            line = f"[{_format_clock(now - self._started)}] {_describe_stage(self._stage, now)}"
            try:
                print_text(line, error=True)
            except (OSError, ValueError):  # nobody reads it any more
                return


def _describe_stage(stage: _Stage, now: float) -> str:
    """Describe how far a stage is."""
    parts = [plain(stage.title)]
    if stage.total:
        share = 100 * stage.done // stage.total
        parts[0] += f" {thousands(stage.done)} of {thousands(stage.total)} ({share} %)"
    if stage.note:
        parts.append(plain(stage.note))
    first_time, first_done = stage.first
    if first_done < stage.done < stage.total:
        pace = (now - first_time) / (stage.done - first_done)
        parts.append(f"about {_format_clock(pace * (stage.total - stage.done))} left")
    return ", ".join(parts)


def _format_clock(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))


def _short_title(title: str) -> str:
    """Leave room for the bar after a benchmark that is named by a long path: its end is worth more than its middle."""
    return title if len(title) <= _WIDEST else f"{title[: _WIDEST // 3]}...{title[-2 * _WIDEST // 3 + 3 :]}"


def _make_bars() -> Any:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console(stderr=True), transient=True)
