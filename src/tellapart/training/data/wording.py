"""The words of a caption: two captions are the same text if they differ in case, spaces and punctuation alone."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from itertools import chain

__all__ = ["words_of"]

#: A number, in which every mark counts.
_NUMBER = re.compile(
    r"""((?:(?<![^\W\d_])[-\u2010-\u2015\u2212]\s*)?  # a sign, if no letter is before it
        [.,]?\d+(?:[^\w\s]\d+)*                        # digits, and marks between them
        (?:\s*[%\u2030'"\u2032\u2033]+)?)              # percent, feet, inches""",
    re.VERBOSE,
)

#: Punctuation that is read as a word.
_READ = frozenset("%&@#*/\\")


class _Marks(dict[int, int | str]):
    """A table of `str.translate` that makes spaces of punctuation, in any script."""

    def __missing__(self, code: int) -> int | str:
        mark = unicodedata.category(chr(code))[0] == "P" and unicodedata.normalize("NFKC", chr(code)) not in _READ
        self[code] = " " if mark else code
        return self[code]


_MARKS = _Marks()


@lru_cache(1 << 16)  # a caption is the false one of other rows
def words_of(text: str) -> tuple[str, ...]:
    """Return the words of a text: without case and punctuation, and numbers with every mark; the text if it is none.

    >>> words_of("Jack - - o lantern's") == words_of("jack-o-lantern's."), words_of("-5") == words_of("5")
    (True, False)
    """
    parts = _NUMBER.split(text.lower())
    words = [["".join(part.split())] if k % 2 else part.translate(_MARKS).split() for k, part in enumerate(parts)]
    return tuple(chain.from_iterable(words)) or (text,)
