"""Yes or no, A or B: what an answer in words says, as the benchmarks' own code reads it and strictly."""

from __future__ import annotations

import re

__all__ = ["OPTIONS", "read_answer", "read_strictly"]

OPTIONS = {gold: both for both in (("yes", "no"), ("a", "b"), ("first", "second")) for gold in both}
"""Gold answer -> the two answers that are possible."""


def read_answer(answer: str, options: tuple[str, str]) -> str | None:
    """Return the option that an answer names as a word, the first of them if it names both; None if neither.

    Case does not count. For A and B the article "a" is read as the option, as in the original.

    Source: NaturalBench (Li et al. 2024), `extract_answer` of its example.py, which MMVP and others use, too.

    >>> [read_answer(answer, ("yes", "no")) for answer in ("Yes, it is.", "There is no yes.", "Nothing")]
    ['yes', 'no', None]
    """
    places = {option: re.search(rf"\b{option}\b", answer, re.IGNORECASE) for option in options}
    found = {option: match.start() for option, match in places.items() if match}
    return min(found, key=found.__getitem__) if found else None


def read_strictly(answer: str, options: tuple[str, str]) -> str | None:
    """Return the option that an answer is, marks at its ends and case aside; None for anything else.

    >>> [read_strictly(answer, ("a", "b")) for answer in ("(B).", "a", "A red cup", "B: yes")]
    ['b', 'a', None, None]
    """
    bare = re.sub(r"^\W+|\W+$", "", answer).lower()
    return bare if bare in options else None
