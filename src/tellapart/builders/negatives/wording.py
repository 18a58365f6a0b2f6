"""The words of a caption, for comparisons, and one form for all captions."""

from __future__ import annotations

import re

_WORD = re.compile(r"\w+(?:-\w+)*|['’]\w+")


def words(text: str) -> list[str]:
    """Return a text's words in lower case, without signs; "an" is "a", for the word after it decides between them.

    The letters after an apostrophe are a word: the owner in "a man's hat" can then be compared with a man.

    >>> words("An old man's well-worn hat, on a hook.")
    ['a', 'old', 'man', "'s", 'well-worn', 'hat', 'on', 'a', 'hook']
    """
    return ["a" if word == "an" else word for word in _WORD.findall(text.lower())]


def uniform(text: str) -> str:
    """Return a caption with a capital at its start, one blank between words, and a full stop at its end.

    A true caption written by many hands and a false one written by one machine differ in this; a blind model sees it.

    Source: BiVLC writes all captions in this form before they are compared.

    >>> uniform(" two dogs  on a bed"), uniform("Is it a dog?")
    ('Two dogs on a bed.', 'Is it a dog?')
    """
    plain = " ".join(text.split())
    ended = plain if plain.endswith((".", "!", "?")) else plain.rstrip(",;: ") + "."
    return ended[:1].upper() + ended[1:]
