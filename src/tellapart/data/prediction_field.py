"""The field of a file that predictions made elsewhere are read from: the user names it, or the reader states it."""

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
class PredictionField:
    """The field of predictions, while a file is read."""

    #: By the user; empty if the reader finds it; None if it does, and the gold answers are hidden from it.
    named: str | None = ""
    #: The fields or arrays that were read; empty if the file's numbers have no names.
    stated: str = ""

    def expect_used(self, path: Path) -> None:
        """Refuse a name that the reader of a file did not take."""
        if self.named not in (None, "", self.stated):
            fixed = f", which is read from {self.stated}" if self.stated else ""
            raise ScoreError(
                f"columns={{'{PREDICTION}': '{self.named}'}} has no effect on {quote(str(path), 200)}{fixed}; "
                "leave it out"
            )


_WATCHED: ContextVar[PredictionField | None] = ContextVar("prediction_field", default=None)


@contextmanager
def watch_field(named: str | None = "") -> Iterator[PredictionField]:
    """Watch which field a reader takes."""
    field = PredictionField(named)
    token = _WATCHED.set(field)
    try:
        yield field
    finally:
        _WATCHED.reset(token)


def named_field() -> str | None:
    """Return the field that the user named, empty if none; None if nobody watches, or the gold answers are hidden."""
    field = _WATCHED.get()
    return None if field is None else field.named


def state_field(*names: str) -> None:
    """State the fields or arrays that predictions were read from."""
    if (field := _WATCHED.get()) is not None:
        field.stated = ", ".join(names)
