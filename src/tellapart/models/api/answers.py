"""Keep the answers of servers in a file: none is paid for twice, and a killed run continues where it stopped."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from threading import Lock

from pydantic import ValidationError

from tellapart.data.lock import use_write_ahead_log
from tellapart.errors import StoreError
from tellapart.models.api.completion import Completion
from tellapart.models.store.rows import checksum

_TABLE = """CREATE TABLE IF NOT EXISTS answer
            (key BLOB PRIMARY KEY, reply TEXT NOT NULL, checksum INTEGER NOT NULL) WITHOUT ROWID"""

#: Seconds that a writer waits until another process has finished writing.
_PATIENCE = 60.0


class Answers:
    """Replies by key, the SHA-256 of the model and the full request. Threads and processes may share a file.

    >>> answers = Answers(None)
    >>> answers.put(b"key", Completion(text="Yes"))
    >>> answers.get(b"key").text, answers.get(b"other")
    ('Yes', None)
    """

    def __init__(self, path: Path | None) -> None:
        self._where = "the answers in memory" if path is None else str(path)
        self._lock = Lock()
        try:
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(
                path or ":memory:", timeout=_PATIENCE, isolation_level=None, check_same_thread=False
            )
            use_write_ahead_log(self._connection, patience=_PATIENCE)
            self._connection.execute(_TABLE)
        except (OSError, sqlite3.Error) as error:
            raise self._explain_failure(error) from error

    def get(self, key: bytes) -> Completion | None:
        """Return the reply of a key; None if it is unknown or damaged, so that the caller asks the server."""
        try:
            with self._lock:
                row = self._connection.execute("SELECT reply, checksum FROM answer WHERE key = ?", (key,)).fetchone()
        except sqlite3.Error as error:
            raise self._explain_failure(error) from error
        if row is None or row[1] != checksum(key, str(row[0]).encode()):
            return None
        try:
            return Completion.model_validate_json(row[0])
        except ValidationError:  # written by another version
            return None

    def put(self, key: bytes, reply: Completion) -> None:
        """Store a reply; it is on the disk when this returns."""
        text = reply.model_dump_json()
        row = (key, text, checksum(key, text.encode()))
        try:
            with self._lock:
                self._connection.execute("INSERT OR REPLACE INTO answer VALUES (?, ?, ?)", row)
        except sqlite3.Error as error:
            raise self._explain_failure(error) from error

    def _explain_failure(self, error: Exception) -> StoreError:
        return StoreError(f"{self._where} cannot be used ({error}); delete it, or name another cache=")
