"""The type of callbacks that report progress."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Progress"]

#: Called with the stage ("images", "texts", "pairs" or "items"), how many are done, and how many there are.
Progress = Callable[[str, int, int], None]
