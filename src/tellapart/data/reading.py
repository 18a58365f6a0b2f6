"""The reading of predictions: the field of a file that they are read from, and the thoughts that no reader reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from tellapart.errors import ScoreError, quote

#: The name of the field in a file that is filled in, and among the names of columns.
PREDICTION = "prediction"


@dataclass
class Reading:
    """The facts of one reading, which its readers state."""

    #: The field, by the user; empty if the reader finds it; None if it does, and the gold answers are hidden from it.
    named: str | None = ""
    #: The fields or arrays that were read; empty if the file's numbers have no names.
    stated: str = ""
    #: How many answers held a thought that was stripped, and how many of these end inside it: nothing is left.
    stripped: int = 0
    cut: int = 0

    def expect_used(self, path: Path) -> None:
        """Refuse a name that the reader of a file did not take."""
        if self.named not in (None, "", self.stated):
            fixed = f", which is read from {self.stated}" if self.stated else ""
            raise ScoreError(
                f"columns={{'{PREDICTION}': '{self.named}'}} has no effect on {quote(str(path), 200)}{fixed}; "
                "leave it out"
            )

    def notes(self) -> tuple[str, ...]:
        """Return sentences on the thoughts, for the user."""
        counted = (
            (self.stripped, "with a thought, which is not read"),
            (self.cut, "without an end of the thought, empty; let the model write more tokens"),
        )
        return tuple(f"{count:,} answer{'s' * (count > 1)} {rest}" for count, rest in counted if count)


#: Of readings that nobody watches one is enough: no gold answer is looked for, and nobody asks for the facts.
_READING: ContextVar[Reading] = ContextVar("reading", default=Reading(named=None))  # noqa: B039  (of nobody)

current_reading = _READING.get


@contextmanager
def watch_reading(named: str | None = "") -> Iterator[Reading]:
    """Watch which field the readers take, and how many thoughts are stripped."""
    reading = Reading(named)
    token = _READING.set(reading)
    try:
        yield reading
    finally:
        _READING.reset(token)
