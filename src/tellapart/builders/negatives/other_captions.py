"""What the other captions of an image say of a false one: that it is true, or that the thing it adds is in the picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tellapart.builders.negatives.lexicon import function_words, singular
from tellapart.builders.negatives.wording import words

__all__ = ["contradiction"]

#: Kinds that bring in a thing or a property, which another caption may name.
_BRINGS_IN = frozenset({"replace_obj", "replace_att", "add_obj", "add_att"})


def contradiction(kind: str, true: str, false: str, others: Sequence[str]) -> str | None:
    """Return why the other captions of an image forbid a false caption of it, or None.

    A new thing or property that one of them names may well be in the picture. A swap and another relation bring in
    neither, so for them only a caption that says the same forbids. The test is of words: a property that another
    caption gives to another thing forbids, too, and a synonym does not.

    Args:
        kind: one of SugarCrepe's seven.
        true, false: the caption and what was made of it.
        others: the image's other captions.

    >>> contradiction("add_obj", "A dog.", "A dog and a cat.", ["Two cats and a dog lie on a bed."])
    'names what another caption names'
    >>> contradiction("add_obj", "A dog.", "A dog and a cow.", ["Two cats and a dog lie on a bed."]) is None
    True
    """
    if any(words(false) == words(other) for other in others):
        return "is another caption"
    if kind not in _BRINGS_IN:
        return None
    brought = Counter(words(false)) - Counter(words(true))
    named = {singular(word) for other in others for word in words(other)}
    if any(singular(word) in named for word in brought if word not in function_words()):
        return "names what another caption names"
    return None
