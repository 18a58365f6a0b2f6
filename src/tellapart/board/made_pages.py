"""Pages that were made already, until the records change: a reader costs a look-up, not a page.

Where many ask for a page that is not made, one of them makes it and the others wait for that one.
"""

from __future__ import annotations

import gzip
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass, field
from http import HTTPStatus
from threading import Lock, Semaphore

__all__ = ["Body", "MadePages"]

#: Bytes that fit a few packets anyway.
_SMALL = 4096

#: Pages made at once. Making is computing, in which Python's threads take turns, the one that answers readers among them;
#: a second, for a page may wait for a database.
_AT_ONCE = 2


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

    def answer(self, known: str, encodings: str) -> tuple[int, dict[str, str], bytes]:
        """Return the status, headers and bytes that answer one request.

        Args:
            known: its `If-None-Match`, empty if it has none.
            encodings: its `Accept-Encoding`, likewise.

        >>> page = Body("text/plain", b"abc")
        >>> status, headers, content = page.answer("", "gzip")
        >>> status, headers["content-length"], content
        (200, '3', b'abc')
        >>> page.answer(page.tag, "")[0]
        304
        """
        # One address has several forms, and a page is old as soon as a record is new.
        headers = {"etag": self.tag, "vary": "Accept, Accept-Encoding", "cache-control": "no-cache"}
        if known == self.tag:
            return int(HTTPStatus.NOT_MODIFIED), headers, b""
        content = self.content
        if self.packed and "gzip" in encodings:
            content, headers["content-encoding"] = self.packed, "gzip"
        if self.filename:
            headers["content-disposition"] = f'attachment; filename="{self.filename}"'
        headers |= {"content-type": self.media_type, "content-length": str(len(content))}
        return int(HTTPStatus.OK), headers, content


class MadePages:
    """The pages used last, up to so many bytes; those of an older version are thrown away.

    >>> pages = MadePages(100)
    >>> [pages.get(version, "a", lambda: Body("text/plain", b"made")).content for version in (1, 1)]
    [b'made', b'made']
    """

    def __init__(self, budget: int = 64 << 20) -> None:
        self._budget, self._size, self._version = budget, 0, -1
        self._made: OrderedDict[Hashable, Body] = OrderedDict()
        self._under_way: dict[tuple[int, Hashable], Future[Body]] = {}
        self._lock = Lock()
        self._turns = Semaphore(_AT_ONCE)

    def find(self, version: int, key: Hashable) -> Body | None:
        """Return a page of this version if it is here.

        >>> MadePages().find(0, "a") is None
        True
        """
        with self._lock:
            return self._found(version, key)

    def get(self, version: int, key: Hashable, make: Callable[[], Body]) -> Body:
        """Return the page of a version of the records, making it if it is neither here nor under way.

        Whoever asks while it is made waits, and gets that page or that error: a page of an older version is never
        given to one who asks for a newer.

        >>> MadePages(0).get(0, "a", lambda: Body("text/plain", b"large")).content
        b'large'
        """
        with self._lock:
            if (found := self._found(version, key)) is not None:
                return found
            mine = (version, key) not in self._under_way
            page = self._under_way.setdefault((version, key), Future())
        if mine:
            try:
                with self._turns:
                    body = make()
            except BaseException as error:
                self._end(version, key)
                page.set_exception(error)
                raise
            self._end(version, key, body)
            page.set_result(body)
        return page.result()

    def _found(self, version: int, key: Hashable) -> Body | None:
        found = self._made.get(key) if version == self._version else None
        if found is not None:
            self._made.move_to_end(key)
        return found

    def _end(self, version: int, key: Hashable, body: Body | None = None) -> None:
        """Take a page off those under way, and keep it if it was made and no newer version is known."""
        with self._lock:
            del self._under_way[version, key]
            if body is None or version < self._version:
                return
            if version > self._version:
                self._made.clear()
                self._size, self._version = 0, version
            self._made[key] = body
            self._size += body.size
            while self._size > self._budget:
                _, gone = self._made.popitem(last=False)
                self._size -= gone.size
