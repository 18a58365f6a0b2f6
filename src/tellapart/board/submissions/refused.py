"""A request that is turned down: what to say, and the status of the answer."""

from __future__ import annotations

from tellapart.errors import TellapartError

__all__ = ["RefusedError"]


class RefusedError(TellapartError):
    """What was asked cannot be done; nothing was changed, and nothing counted.

    Attributes:
        status: of HTTP: 401 no valid token, 403 not allowed, 404 not there, 408 too slow, 409 closed, 413 too large, 422 not what it
            should be, 429 too often, 503 not now, 507 no room.

    >>> raise RefusedError(404, "no hidden benchmark 'clock'")
    Traceback (most recent call last):
    tellapart.board.submissions.refused.RefusedError: no hidden benchmark 'clock'
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
