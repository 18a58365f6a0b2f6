"""Pages that were made already, until the records change: a reader costs a look-up, not a page."""

from __future__ import annotations

import gzip
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from threading import Lock

__all__ = ["Body", "MadePages"]

#: Bytes that fit a few packets anyway.
_SMALL = 4096


@dataclass(frozen=True, slots=True)
class Body:
    """A page as it is sent.

    Attributes:
        filename: under which a browser keeps it; empty for pages.
        packed: the content by gzip, made once; empty where that saves nothing.
        tag: its ETag, made once; weak, for it stands for both forms.

    >>> Body("text/html", b"<p>").tag
    'W/"33f2799467177287"'
    """

    media_type: str
    content: bytes
    filename: str = ""

    packed: bytes = field(init=False)
    tag: str = field(init=False)

    def __post_init__(self) -> None:
        packed = gzip.compress(self.content, 1, mtime=0) if len(self.content) > _SMALL else b""
        object.__setattr__(self, "packed", packed)
        object.__setattr__(self, "tag", f'W/"{hashlib.sha256(self.content).hexdigest()[:16]}"')

    @property
    def size(self) -> int:
        """Bytes that it takes in memory.

        >>> Body("text/plain", b"abc").size
        3
        """
        return len(self.content) + len(self.packed)


class MadePages:
    """The pages used last, up to so many bytes; those of an older version are thrown away.

    >>> pages = MadePages(100)
    >>> [pages.get(version, "a", lambda: Body("text/plain", b"made")).content for version in (1, 1)]
    [b'made', b'made']
    """

    def __init__(self, budget: int = 64 << 20) -> None:
        self._budget, self._size, self._version = budget, 0, -1
        self._made: OrderedDict[Hashable, Body] = OrderedDict()
        self._lock = Lock()

    def find(self, version: int, key: Hashable) -> Body | None:
        """Return a page of this version if it is here.

        >>> MadePages().find(0, "a") is None
        True
        """
        with self._lock:
            return self._made.get(key) if version == self._version else None

    def get(self, version: int, key: Hashable, make: Callable[[], Body]) -> Body:
        """Return the page of a version of the records, making it if it is not here.

        Two readers may make the same page at once; the pages are the same.

        >>> MadePages(0).get(0, "a", lambda: Body("text/plain", b"large")).content
        b'large'
        """
        with self._lock:
            if version != self._version:
                self._made.clear()
                self._size, self._version = 0, version
            if key in self._made:
                self._made.move_to_end(key)
                return self._made[key]
        body = make()
        with self._lock:
            if version == self._version and key not in self._made:
                self._made[key] = body
                self._size += body.size
                while self._size > self._budget:
                    _, gone = self._made.popitem(last=False)
                    self._size -= gone.size
        return body
