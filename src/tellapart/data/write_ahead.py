"""SQLite's write-ahead log, switched on by several processes at once."""

from __future__ import annotations

import sqlite3
import time


def use_write_ahead_log(connection: sqlite3.Connection, *, patience: float = 60.0) -> None:
    """Switch a database to its write-ahead log, in which readers go on while one process writes.

    SQLite refuses the switch at once while another process makes it, whatever the connection's timeout.
    """
    deadline = time.monotonic() + patience
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
