"""Bag-of-words identity: items whose captions differ in the order of their words alone."""

from __future__ import annotations

import numpy as np

from tellapart.audit.finding import MOST_EXAMPLES, Finding, measured
from tellapart.benchmarks.sugarcrepe import same_words
from tellapart.data.pairset import PairSet

__all__ = ["TAG", "bag_of_words"]

#: The tag that tells such items from others.
TAG = "bag_of_words"


def bag_of_words(pairs: PairSet) -> Finding:
    """Return the share of items that a model without word order cannot solve: all captions hold caption 0's words.

    All items or none is a design (Winoground is all of it). A part of them is a mixture of two tasks, which passes only
    if a tag `bag_of_words` tells them apart.

    >>> from pathlib import Path
    >>> from tellapart.data.item import Item
    >>> texts = [("a dog sees a cat", "a cat sees a dog"), ("one cup", "two cups")]
    >>> items = tuple(Item(id=str(k), images=("0.png",), texts=pair) for k, pair in enumerate(texts))
    >>> found = bag_of_words(PairSet("s", items, Path(".")))
    >>> found.value, found.verdict, found.items
    (0.5, 'warn', ('0',))
    """
    same = np.array(
        [all(same_words(item.texts[0], text) for text in item.texts[1:]) for item in pairs.items], np.float64
    )
    value, interval = measured(same, pairs)
    told = all(TAG in item.tags for item in pairs.items)
    mixed = 0 < value < 1
    says = "a model without word order cannot solve them" if value else "none"
    if mixed and not told:
        says = f"two tasks in one set: tag the items with {TAG!r} and report them apart"
    return Finding.model_validate(
        {
            "name": "bag of words",
            "title": "items whose captions hold the same words in another order",
            "value": value,
            "unit": "share",
            "n": len(pairs),
            "threshold": f"0 %, 100 %, or a tag {TAG!r} on every item",
            "verdict": "warn" if mixed and not told else "pass",
            "says": says,
            "items": tuple(pairs.items[k].id for k in np.flatnonzero(same)[:MOST_EXAMPLES]),
            **interval,
        }
    )
