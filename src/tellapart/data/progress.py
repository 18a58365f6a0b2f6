"""The types of callbacks that report progress."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

__all__ = ["NotedProgress", "Progress"]

#: Called with the stage ("images", "texts", "pairs" or "items"), how many are done, and how many there are.
Progress = Callable[[str, int, int], None]


class NotedProgress(Protocol):
    """A `Progress` that takes a note beside the numbers, too: the loss of a training step, say.

    >>> def show(stage: str, done: int, total: int, note: str = "", /) -> None:
    ...     print(f"{stage} {done}/{total} {note}")
    >>> noted: NotedProgress = show
    >>> noted("steps", 10, 200, "loss 1.25")
    steps 10/200 loss 1.25
    """

    def __call__(self, stage: str, done: int, total: int, note: str = "", /) -> None:
        """Take the stage, how many are done, how many there are, and the note."""
