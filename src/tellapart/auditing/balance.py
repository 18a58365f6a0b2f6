"""Balance of tags: each value of a tag needs enough items to be reported."""

from __future__ import annotations

from collections import Counter

import numpy as np

from tellapart.auditing.finding import Finding
from tellapart.data.pairset import PairSet

__all__ = ["tag_balance", "tag_counts"]

#: Items below which an interval leans on little.
_FEWEST = 20

#: A tag with more values than this is an identifier, not a breakdown.
_MOST_VALUES = 64


def tag_counts(pairs: PairSet) -> dict[str, dict[str, int]]:
    """Count the items of each value of each tag; a tag of more than 64 values is an identifier and left out."""
    counts: dict[str, Counter[str]] = {}
    for item in pairs.items:
        for tag, value in item.tags.items():
            counts.setdefault(tag, Counter())[value] += 1
    return {tag: dict(sorted(values.items())) for tag, values in sorted(counts.items()) if len(values) <= _MOST_VALUES}


def tag_balance(pairs: PairSet) -> list[Finding]:
    """Return, for each tag, the items of its rarest value, and how even the values are (entropy over its maximum).

    Source of the evenness: Pielou (1966), J. Theor. Biol. 13, 131-144.

    >>> from pathlib import Path
    >>> from tellapart.data.item import Item
    >>> items = tuple(Item(id=i, images=("0.png",), texts=("x", "y"), tags={"type": i}) for i in "ab")
    >>> finding = tag_balance(PairSet("s", items, Path(".")))[0]
    >>> finding.value, finding.verdict, finding.says
    (1.0, 'warn', '2 values, evenness 1.00; rarest: a (1), b (1)')
    """
    return [_balance(tag, counts) for tag, counts in tag_counts(pairs).items()]


def _balance(tag: str, counts: dict[str, int]) -> Finding:
    shares = np.array([*counts.values()], np.float64) / sum(counts.values())
    evenness = 1.0 if len(shares) == 1 else float(-(shares * np.log(shares)).sum() / np.log(len(shares)))
    rarest = sorted(counts, key=lambda value: (counts[value], value))[:3]
    fewest = counts[rarest[0]]
    return Finding(
        name=f"tag: {tag}",
        title=f"items of the rarest value of the tag {tag!r}",
        value=float(fewest),
        unit="items",
        n=sum(counts.values()),
        threshold=f"at least {_FEWEST}",
        verdict="warn" if fewest < _FEWEST else "pass",
        says=f"{len(counts)} value{'' if len(counts) == 1 else 's'}, evenness {evenness:.2f}; rarest: "
        + ", ".join(f"{value} ({counts[value]:,})" for value in rarest),
    )
