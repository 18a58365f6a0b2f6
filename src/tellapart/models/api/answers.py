"""Keep the answers of servers in a file: none is paid for twice, and a killed run continues where it stopped."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from tellapart.models.api.completion import Completion
from tellapart.models.store.row_file import RowFile

_SPACE = "answers"


class Answers(RowFile):
    """Replies by key, the SHA-256 of the model and the full request. Threads and processes may share a file.

    >>> answers = Answers(None)
    >>> answers.put(b"key", Completion(text="Yes"))
    >>> answers.get(b"key").text, answers.get(b"other")
    ('Yes', None)
    """

    def __init__(self, path: Path | None) -> None:
        super().__init__(path, synchronous="FULL", replaceable=False)

    def get(self, key: bytes) -> Completion | None:
        """Return the reply of a key; None if it is unknown or damaged, so that the caller asks the server."""
        data = self.read(_SPACE, [key]).get(key)
        try:
            return None if data is None else Completion.model_validate_json(data)
        except ValidationError:  # written by another version
            return None

    def put(self, key: bytes, reply: Completion) -> None:
        """Store a reply; it is on the disk when this returns."""
        self.write(_SPACE, {key: reply.model_dump_json().encode()})
