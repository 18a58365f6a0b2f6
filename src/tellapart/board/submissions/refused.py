"""The error of a request that the server turns down."""

from __future__ import annotations

from tellapart.errors import TellapartError


class RefusedError(TellapartError):
    """A refused request: nothing was changed, and nothing was counted.

    Attributes:
        status: of HTTP: 401 no valid token, 403 not allowed, 404 not found, 408 too slow, 409 closed, 413 too large,
            422 invalid, 429 too often, 503 busy, 507 no room on the disk.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
