"""Tags of numbers that the captions themselves have: by how many words two differ, and from which word on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from tellapart.builders.negatives.wording import words
from tellapart.records.result import Sample


def count_edits(first: str, second: str) -> int:
    """Return how many words must be put in, left out or replaced to make one caption of the other.

    Case and marks are no difference, nor are "a" and "an".

    Source: Levenshtein (1966), Soviet Physics Doklady 10, 707-710, on words.

    >>> count_edits("A red box on a table.", "a blue box on the old table"), count_edits("An owl", "a cat")
    (3, 1)
    """
    row = list(range(len(words(second)) + 1))
    for start, word in enumerate(words(first)):
        before, row = row, [start + 1]
        for k, other in enumerate(words(second)):
            row.append(min(before[k] + (word != other), before[k + 1] + 1, row[k] + 1))
    return row[-1]


def find_difference(first: str, second: str) -> int | None:
    """Return the place of the first word in which two captions differ, from 1; None if no word does.

    If one caption is the beginning of the other, it is the place after its last word.

    >>> find_difference("A red box.", "a blue box"), find_difference("A box", "A box of tea"), find_difference("x", "X")
    (2, 3, None)
    """
    a, b = words(first), words(second)
    if a == b:
        return None
    return next((k for k, (x, y) in enumerate(zip(a, b, strict=False), 1) if x != y), min(len(a), len(b)) + 1)


#: Name of the tag -> its value for two captions; None if they have none.
CAPTION_TAGS: Mapping[str, Callable[[str, str], int | None]] = MappingProxyType(
    {"caption_edits": count_edits, "first_difference": find_difference}
)


def tag_captions(items: Sequence[Sample], tag: str) -> tuple[Sample, ...]:
    """Return items with a tag of `CAPTION_TAGS`, if they have two captions and none carries a tag of that name.

    >>> item = Sample(id="0", cluster="0", texts=("a cat", "a dog"), outcomes={})
    >>> tag_captions([item], "first_difference")[0].tags, tag_captions([item], "size")[0].tags
    ({'first_difference': '2'}, {})
    """
    if tag not in CAPTION_TAGS or any(item.tags.get(tag) for item in items):
        return tuple(items)
    values = [CAPTION_TAGS[tag](*item.texts) if len(item.texts) == 2 else None for item in items]
    return tuple(
        item if value is None else replace(item, tags={**item.tags, tag: str(value)})
        for item, value in zip(items, values, strict=True)
    )
