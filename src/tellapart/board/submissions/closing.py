"""When a benchmark is closed: by its date or by hand, and for good.

Private numbers are told from then on. So a closing by date is written down before any of them is: a clock that is set back, or
a later date in the board file, does not open a benchmark again whose private numbers somebody may have seen.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from tellapart.board.submissions.database import Database
from tellapart.board.submissions.hidden import HiddenBenchmark, closed

__all__ = ["Closings"]


class Closings:
    """The closings of a board.

    Args:
        database: where they are written down.
        clock: seconds since 1970.

    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as scratch:
    ...     closings = Closings(Database(Path(scratch) / "board.sqlite"), lambda: 0.0)
    ...     [closings.close("clocks", by="root") for _ in range(2)]
    [True, False]
    """

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self.database, self.clock = database, clock

    def takes(self, rows: sqlite3.Connection, benchmark: HiddenBenchmark) -> bool:
        """Return whether files are taken still, inside the transaction that would take one."""
        by_hand = rows.execute("SELECT at FROM closing WHERE benchmark = ?", (benchmark.name,)).fetchone()
        return not closed(benchmark, self.clock(), by_hand[0] if by_hand else None)

    def told(self, benchmark: HiddenBenchmark) -> bool:
        """Return whether private numbers are told: it is closed, and that is written down."""
        if self.database.one("SELECT at FROM closing WHERE benchmark = ?", benchmark.name) is not None:
            return True
        if not closed(benchmark, self.clock(), None):
            return False
        try:
            self.close(benchmark.name, by="server")
        except sqlite3.OperationalError:  # a full disk: nothing is taken any more, and nothing told yet
            return False
        return True

    def close(self, name: str, *, by: str) -> bool:
        """Write down that a benchmark is closed from now on; False if it was already."""
        with self.database.change() as rows:
            done = rows.execute("INSERT OR IGNORE INTO closing VALUES (?, ?)", (name, self.clock()))
            if done.rowcount:
                self.database.log(rows, self.clock(), by, "benchmark closed", {"benchmark": name})
            return bool(done.rowcount)
