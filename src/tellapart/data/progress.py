"""The types of callbacks that report progress."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

__all__ = ["NotedProgress", "Progress"]

#: Called with the stage ("images", "texts", "pairs" or "items"), how many are done, and how many there are.
Progress = Callable[[str, int, int], None]


class NotedProgress(Protocol):
    """A `Progress` that also takes a note: the loss of a training step, for example."""

    def __call__(self, stage: str, done: int, total: int, note: str = "", /) -> None:
        """Take the stage, how many are done, how many there are, and the note."""
